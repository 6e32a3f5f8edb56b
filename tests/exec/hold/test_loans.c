/* What goes over a holder's socket, without a device: the memory is a memfd here. Who asks, who answers, and what is not believed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../scratch.h"
#include "engine/files/socket.h"
#include "engine/model/place.h"
#include "hold/borrow.h"
#include "hold/message.h"
#include "support.h"

#define MEMORY_BYTES 4096
#define NOBODY 65534

static const uint8_t digest[DIGEST_BYTES] = {1, 2, 3};

struct world {
    struct scratch scratch;
    const char *path;
    struct base_weight weight[3];
    struct shared_base base;
    pid_t holder;
    FILE *log;                 /* of the holder, to be read */
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
}

static void world_begin(struct world *world)
{
    memset(world, 0, sizeof(*world));
    scratch_begin(&world->scratch);
    world->path = scratch_at(&world->scratch, "base.sock");
    world->weight[0] = (struct base_weight){.data = 0, .bias = -1, .out = 3, .in = 4, .stride = 8, .dtype = DTYPE_BF16};
    world->weight[1] = (struct base_weight){.data = -1, .bias = -1};
    world->weight[2] = (struct base_weight){.data = 2048, .bias = 1024, .out = 5, .in = 4, .stride = 64, .dtype = DTYPE_F32};
    world->base = (struct shared_base){.weight = world->weight, .count = 3, .memory = {.bytes = MEMORY_BYTES, .gpu = {7}}};
    memcpy(world->base.digest, digest, sizeof(digest));
    world->base.memory.file = memfd_create("base", MFD_CLOEXEC);
    assert_int_equal(ftruncate(world->base.memory.file, MEMORY_BYTES), 0);
    assert_int_equal(pwrite(world->base.memory.file, "weights", 7, 0), 7);
}

static void log_await(struct world *world, const char *text)
{
    char line[512] = "";

    while (strstr(line, text) == NULL)
        if (fgets(line, sizeof(line), world->log) == NULL)
            fail_msg("the holder never said: %s", text);
}

static void hold(struct world *world)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    world->holder = fork();
    assert_true(world->holder >= 0);
    if (world->holder == 0) {
        struct hold_config config = {.socket_path = world->path, .base = &world->base};
        struct refusal refusal = {{0}};
        enum status status;

        close(ends[0]);
        signal(SIGTERM, stop);
        config.log = fdopen(ends[1], "w");
        setvbuf(config.log, NULL, _IOLBF, 0);
        status = hold_run(&config, &stopped, &refusal);
        fprintf(config.log, "%s\n", refusal.text);
        _exit(status == STATUS_OK ? 0 : 1);
    }
    close(ends[1]);
    world->log = fdopen(ends[0], "r");
}

static int holder_end(struct world *world, int with)
{
    int status;

    kill(world->holder, with);
    assert_int_equal(waitpid(world->holder, &status, 0), world->holder);
    fclose(world->log);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void world_end(struct world *world)
{
    close(world->base.memory.file);
    scratch_end(&world->scratch);
}

static int open_files(void)
{
    DIR *list = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(list);
    while (readdir(list) != NULL)
        count++;
    closedir(list);
    return count;
}

static void weights_there(const struct loan *loan)
{
    const char *memory = mmap(NULL, MEMORY_BYTES, PROT_READ, MAP_SHARED, loan->base.memory.file, 0);

    assert_true(memory != MAP_FAILED);
    assert_memory_equal(memory, "weights", 7);
    munmap((void *)(uintptr_t)memory, MEMORY_BYTES);
}

static void take(const struct world *world, struct loan *ret_loan)
{
    struct refusal refusal = {{0}};

    if (loan_take(world->path, digest, ret_loan, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
}

static void refused(const struct world *world, const uint8_t *wanted, enum status status, const char *why)
{
    const int files = open_files();
    struct loan loan;
    struct refusal refusal = {{0}};

    assert_int_equal(loan_take(world->path, wanted, &loan, &refusal), status);
    if (strstr(refusal.text, why) == NULL)
        fail_msg("refused with '%s', not with '%s'", refusal.text, why);
    assert_int_equal(open_files(), files);
}

/* --- a holder --------------------------------------------------------------------------------------------------------------- */

static void a_loan_brings_the_table_and_the_memory(void **state)
{
    struct world world;
    struct refusal refusal = {{0}};
    struct loan loan;
    struct stat about;

    (void)state;
    world_begin(&world);
    assert_int_equal(hold_may(world.path, &refusal), STATUS_OK);
    hold(&world);
    log_await(&world, "ready");
    assert_int_equal(hold_may(world.path, &refusal), STATUS_IO);
    assert_non_null(strstr(refusal.text, "another holder"));
    assert_int_equal(lstat(world.path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    take(&world, &loan);
    assert_int_equal(loan.base.count, 3);
    assert_memory_equal(loan.base.weight, world.weight, sizeof(world.weight));
    assert_int_equal(loan.base.memory.bytes, MEMORY_BYTES);
    assert_memory_equal(loan.base.memory.gpu, world.base.memory.gpu, GPU_ID_BYTES);
    assert_int_equal(fcntl(loan.base.memory.file, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    weights_there(&loan);
    log_await(&world, "lent");
    loan_return(&loan);
    log_await(&world, "is done, loans 0");
    assert_int_equal(holder_end(&world, SIGTERM), 0);
    assert_int_not_equal(access(world.path, F_OK), 0);
    assert_int_equal(hold_may(world.path, &refusal), STATUS_OK);
    world_end(&world);
}

static void another_digest_is_refused(void **state)
{
    const uint8_t other[DIGEST_BYTES] = {1, 2, 4};
    struct world world;

    (void)state;
    world_begin(&world);
    hold(&world);
    log_await(&world, "ready");
    refused(&world, other, STATUS_INVALID, "other digests");
    assert_int_equal(holder_end(&world, SIGTERM), 0);
    refused(&world, digest, STATUS_IO, "nobody listens");
    world_end(&world);
}

static void one_more_than_the_most_is_told_so_and_served_when_one_has_gone(void **state)
{
    struct loan loans[LOANS_MAX];
    struct world world;

    (void)state;
    world_begin(&world);
    hold(&world);
    log_await(&world, "ready");
    for (int i = 0; i < LOANS_MAX; i++)
        take(&world, &loans[i]);
    refused(&world, digest, STATUS_FULL, "64 processes have the base");
    loan_return(&loans[5]);
    log_await(&world, "is done, loans 63");
    take(&world, &loans[5]);
    for (int i = 0; i < LOANS_MAX; i++)
        loan_return(&loans[i]);
    assert_int_equal(holder_end(&world, SIGTERM), 0);
    world_end(&world);
}

static void who_speaks_to_the_holder_is_closed_and_the_others_are_not(void **state)
{
    struct refusal refusal = {{0}};
    struct world world;
    struct loan loan;
    int stranger = -1;

    (void)state;
    world_begin(&world);
    hold(&world);
    log_await(&world, "ready");
    take(&world, &loan);
    assert_int_equal(socket_connect(world.path, SOCK_SEQPACKET, &stranger, &refusal), STATUS_OK);
    assert_int_equal(send(stranger, "give me all of it", 17, MSG_NOSIGNAL), 17);
    log_await(&world, "out of turn");
    close(stranger);
    weights_there(&loan);
    loan_return(&loan);
    log_await(&world, "is done, loans 0");
    take(&world, &loan);
    loan_return(&loan);
    assert_int_equal(holder_end(&world, SIGTERM), 0);
    world_end(&world);
}

static void a_killed_holder_leaves_loans_and_a_socket_that_the_next_one_takes(void **state)
{
    struct world world;
    struct loan loan;
    struct loan next;

    (void)state;
    world_begin(&world);
    hold(&world);
    log_await(&world, "ready");
    take(&world, &loan);
    assert_int_equal(holder_end(&world, SIGKILL), 128 + SIGKILL);
    weights_there(&loan);
    assert_int_equal(access(world.path, F_OK), 0);
    hold(&world);
    log_await(&world, "ready");
    take(&world, &next);
    weights_there(&next);
    loan_return(&next);
    loan_return(&loan);
    {
        struct world second = world;

        hold(&second);
        log_await(&second, "another holder listens there");
        assert_int_equal(holder_end(&second, 0), 1);
    }
    assert_int_equal(holder_end(&world, SIGTERM), 0);
    world_end(&world);
}

/* --- users ------------------------------------------------------------------------------------------------------------------ */

/* Runs as nobody; its exit code. */
static int as_nobody(int (*play)(const struct world *world), const struct world *world)
{
    pid_t id;
    int status;

    fflush(stdout);
    id = fork();
    assert_true(id >= 0);
    if (id == 0)
        _exit(setgid(NOBODY) == 0 && setuid(NOBODY) == 0 ? play(world) : 99);
    assert_int_equal(waitpid(id, &status, 0), id);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int ask_as_other_user(const struct world *world)
{
    struct refusal refusal = {{0}};
    char bytes[64];
    int line = -1;
    ssize_t got;

    if (socket_connect(world->path, SOCK_SEQPACKET, &line, &refusal) != STATUS_OK)
        return 1;
    got = recv(line, bytes, sizeof(bytes), 0);
    return got == 0 ? 0 : 2;
}

static void another_user_gets_nothing_though_the_socket_were_open(void **state)
{
    struct world world;

    (void)state;
    if (geteuid() != 0) {
        printf("skipped: only root can be another user\n");
        skip();
    }
    world_begin(&world);
    hold(&world);
    log_await(&world, "ready");
    assert_int_equal(chmod(world.scratch.path, 0711), 0);
    assert_int_equal(as_nobody(ask_as_other_user, &world), 1); /* mode 0600 */
    assert_int_equal(chmod(world.path, 0666), 0);
    assert_int_equal(as_nobody(ask_as_other_user, &world), 0);
    log_await(&world, "is another user's and gets nothing");
    assert_int_equal(holder_end(&world, SIGTERM), 0);
    world_end(&world);
}

/* --- strangers who answer --------------------------------------------------------------------------------------------------- */

struct answer {
    const char *why;
    char bytes[sizeof(struct loan_message) + 2 * sizeof(struct base_weight)];
    size_t count;
    int files;
};

static void send_answer(int to, const struct answer *answer, int file)
{
    char control[256];
    struct iovec data = {(void *)(uintptr_t)answer->bytes, answer->count};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};

    memset(control, 0, sizeof(control));
    if (answer->files > 0) {
        struct cmsghdr *head = (struct cmsghdr *)(void *)control;

        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN((size_t)answer->files * sizeof(int));
        for (int i = 0; i < answer->files; i++)
            memcpy(CMSG_DATA(head) + (size_t)i * sizeof(int), &file, sizeof(int));
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE((size_t)answer->files * sizeof(int));
    }
    (void)sendmsg(to, &message, MSG_NOSIGNAL);
}

/* Answers one, as whoever it is. */
static pid_t answer_begin(const struct world *world, const struct answer *answer, uid_t user)
{
    struct refusal refusal = {{0}};
    int ends[2];
    char ready;
    pid_t id;

    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    id = fork();
    assert_true(id >= 0);
    if (id == 0) {
        int listener = -1;
        int to;

        if ((user != geteuid() && setuid(user) != 0) ||
            socket_listen(world->path, SOCK_SEQPACKET, 1, "stranger", &listener, &refusal) != STATUS_OK || write(ends[1], "r", 1) != 1)
            _exit(1);
        fcntl(listener, F_SETFL, 0);
        to = accept(listener, NULL, NULL);
        send_answer(to, answer, world->base.memory.file);
        close(to);
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &ready, 1), 1);
    close(ends[0]);
    return id;
}

static struct answer good_answer(const struct world *world)
{
    struct answer answer = {.why = "", .count = sizeof(struct loan_message) + sizeof(struct base_weight), .files = 1};
    struct loan_message message = {.version = LOAN_VERSION, .bytes = MEMORY_BYTES, .count = 1};

    memcpy(message.magic, LOAN_MAGIC, sizeof(message.magic));
    memcpy(message.digest, digest, sizeof(digest));
    memcpy(answer.bytes, &message, sizeof(message));
    memcpy(answer.bytes + sizeof(message), world->weight, sizeof(world->weight[0]));
    return answer;
}

static void answers_of_strangers_are_refused(void **state)
{
    struct answer answers[10];
    struct world world;
    struct loan loan;
    int count = 0;

    (void)state;
    world_begin(&world);
#define ANSWER(reason, change)                \
    do {                                      \
        struct answer it = good_answer(&world); \
        struct loan_message *message = (struct loan_message *)(void *)it.bytes; \
        change;                               \
        it.why = reason;                      \
        (void)message;                        \
        answers[count++] = it;                \
    } while (0)
    ANSWER("no holder's", message->magic[0] = 'B');
    ANSWER("no holder's", message->version++);
    ANSWER("no holder's", it.count -= 1);
    ANSWER("no holder's", it.count = 9);
    ANSWER("no holder's", message->count = 2);
    ANSWER("no holder's", message->count = UINT32_MAX);
    ANSWER("brings no memory", it.files = 0);
    ANSWER("brings no memory", it.files = 2);
    ANSWER("brings no memory", message->bytes = 0);
    ANSWER("says nothing", it.count = 0; it.files = 0);
    for (int i = 0; i < count; i++) {
        pid_t id = answer_begin(&world, &answers[i], geteuid());

        refused(&world, digest, STATUS_INVALID, answers[i].why);
        waitpid(id, NULL, 0);
        unlink(world.path);
    }
    {
        /* What is good of them is taken, so each was refused for its own fault. */
        struct answer answer = good_answer(&world);
        pid_t id = answer_begin(&world, &answer, geteuid());

        take(&world, &loan);
        loan_return(&loan);
        waitpid(id, NULL, 0);
        unlink(world.path);
    }
    world_end(&world);
}

static void a_holder_of_another_user_is_not_believed(void **state)
{
    struct answer answer;
    struct world world;
    pid_t id;

    (void)state;
    if (geteuid() != 0) {
        printf("skipped: only root can be another user\n");
        skip();
    }
    world_begin(&world);
    assert_int_equal(chmod(world.scratch.path, 0777), 0);
    answer = good_answer(&world);
    id = answer_begin(&world, &answer, NOBODY);
    refused(&world, digest, STATUS_INVALID, "another user");
    kill(id, SIGKILL);
    waitpid(id, NULL, 0);
    world_end(&world);
}

/* --- tables ----------------------------------------------------------------------------------------------------------------- */

/* The CPU never gets as far as to map. */
static void a_table_that_points_elsewhere_is_refused(void **state)
{
    static const uint16_t numbers[64];
    const struct weight matrix = {.data = numbers, .bias = numbers, .dtype = DTYPE_BF16, .out = 3, .in = 4, .stride = 4};
    const struct base_weight good = {.data = 16, .bias = 1024, .out = 3, .in = 4, .stride = 8, .dtype = DTYPE_BF16};
    struct layer_weights layer;
    const struct model_weights weights = {.embed = matrix, .layer = &layer, .norm = matrix, .head = matrix};
    struct base_weight table[WEIGHTS_LISTED_MAX(1)];
    struct shared_base base = {.weight = table, .memory = {.bytes = MEMORY_BYTES, .file = -1}};

    (void)state;
    memset(&layer, 0, sizeof(layer));
    base.count = 2 + 11; /* a tied head */
#define REFUSED(change)                                                                                                                \
    do {                                                                                                                               \
        struct refusal refusal = {{0}};                                                                                                \
        struct model_weights placed;                                                                                                   \
        for (uint32_t i = 0; i < base.count; i++)                                                                                      \
            table[i] = i < 2 ? good : (struct base_weight){.data = -1, .bias = -1};                                                   \
        change;                                                                                                                        \
        assert_int_equal(shared_base_place(&base, &device_cpu, NULL, MODE_EXACT, &weights, 1, &placed, &refusal), STATUS_INVALID); \
        assert_non_null(strstr(refusal.text, "not the model's"));                                                                      \
        free(placed.layer);                                                                                                            \
    } while (0)
    REFUSED(table[0].data = -16);
    REFUSED(table[0].data = MEMORY_BYTES - 32);
    REFUSED(table[0].data = INT64_MAX - 15);
    REFUSED(table[0].data = 18);
    REFUSED(table[0].data = -1);
    REFUSED(table[1].bias = -1);
    REFUSED(table[1].bias = MEMORY_BYTES);
    REFUSED(table[1].out = 4);
    REFUSED(table[1].in = 3);
    REFUSED(table[1].stride = 3);
    REFUSED(table[1].stride = INT32_MAX);
    REFUSED(table[1].dtype = DTYPE_F32);
    REFUSED(table[5].data = 0);
}

static void the_cpu_needs_no_holder(void **state)
{
    struct held_base held;
    struct refusal refusal = {{0}};
    struct loan loan;
    const struct dims dims = {.layers = 1};
    const struct model_weights weights = {.layer = NULL};

    (void)state;
    assert_int_equal(base_borrow("nowhere", &device_cpu, NULL, NULL, &loan, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "share the mapped weights file"));
    assert_int_equal(held_base_open(&device_cpu, &weights, &dims, digest, &held, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "share the mapped weights file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loan_brings_the_table_and_the_memory),
        cmocka_unit_test(another_digest_is_refused),
        cmocka_unit_test(one_more_than_the_most_is_told_so_and_served_when_one_has_gone),
        cmocka_unit_test(who_speaks_to_the_holder_is_closed_and_the_others_are_not),
        cmocka_unit_test(a_killed_holder_leaves_loans_and_a_socket_that_the_next_one_takes),
        cmocka_unit_test(another_user_gets_nothing_though_the_socket_were_open),
        cmocka_unit_test(answers_of_strangers_are_refused),
        cmocka_unit_test(a_holder_of_another_user_is_not_believed),
        cmocka_unit_test(a_table_that_points_elsewhere_is_refused),
        cmocka_unit_test(the_cpu_needs_no_holder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
