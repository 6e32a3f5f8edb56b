/* A writing process killed, or without power, at each call that changes a file, and killed at random; and the writer's thread: nothing that was acknowledged
 * is lost, nothing is there twice, whatever was in flight is there whole or not at all. */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control/metadata/audit.h"
#include "control/metadata/once.h"
#include "control/metadata/usage.h"
#include "control/metadata/writer.h"
#include "rig.h"

/* One act of the child: a job, its event, a usage record, its charge and its audit entry, under the key of a retry. Number
 * `n` names them, so that they can be found, once, later. */
static enum status do_act(struct metadata *metadata, const struct world *world, int64_t n, struct refusal *refusal)
{
    char id[NAME_BYTES];
    char key[NAME_BYTES];
    char again[NAME_BYTES];
    const struct meta_job_new job = {.tenant = world->acme.id, .id = id, .base = "tiny", .file = world->acme.file, .settings = "{}"};
    const struct meta_usage usage = {.seq = n, .tenant = world->acme.id, .model = "m", .hour = n, .tokens_in = 3, .tokens_out = 1};
    const struct meta_charge charge = {.epoch = 1, .command = n, .account = world->acme.id, .device = "d", .nano = 10};
    const uint8_t body[META_DIGEST_BYTES] = {1};
    int64_t acked;
    bool known = false;
    enum status status = meta_begin(metadata, refusal);

    if (status != STATUS_OK)
        return status;
    snprintf(id, sizeof(id), "ftjob-%lld", (long long)n);
    snprintf(key, sizeof(key), "key-%lld", (long long)n);
    status = meta_once(metadata, world->acme.id, key, body, id, NOW + 1, NOW, &known, again, refusal);
    if (status == STATUS_OK && !known) {
        status = meta_job_add(metadata, &job, NOW, refusal);
        if (status == STATUS_OK)
            status = meta_event_add(metadata, world->acme.id, id, "info", "created", NULL, (struct meta_bytes){0}, NOW, NULL, refusal);
        if (status == STATUS_OK)
            status = meta_charge_add(metadata, &charge, 1, refusal);
        if (status == STATUS_OK)
            status = meta_audit_add(metadata, world->acme.id, "key", "job.create", id, NOW, refusal);
    }
    if (status == STATUS_OK)
        status = meta_usage_add(metadata, "worker-s", &usage, 1, &acked, refusal);
    return meta_end(metadata, status, refusal);
}

/* Writes acts from `from` on and tells each after its commit, until it is killed or has made `count`. */
static void child_body(const struct world *world, int out, int64_t from, int64_t count, enum vfs_deed deed, uint64_t fatal)
{
    struct metadata *metadata = NULL;
    struct refusal refusal = {{0}};

    vfs_begin(deed, fatal);
    if (open_place(world->place, true, &metadata, &refusal) != STATUS_OK)
        _exit(2);
    for (int64_t n = from; n < from + count; n++) {
        if (do_act(metadata, world, n, &refusal) != STATUS_OK)
            _exit(3);
        if (write(out, &n, sizeof(n)) != (ssize_t)sizeof(n))
            _exit(4);
    }
    _exit(0);
}

/* Runs a child; returns the last act that it told of, `from` - 1 when none. */
static int64_t run_child(const struct world *world, int64_t from, int64_t count, enum vfs_deed deed, uint64_t fatal, int kill_after_us, int *ret_status)
{
    int64_t told = from - 1;
    int64_t n;
    int ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        child_body(world, ends[1], from, count, deed, fatal);
    }
    close(ends[1]);
    if (kill_after_us >= 0) {
        /* Half of them not while they open the database. */
        if (kill_after_us % 2 == 0)
            (void)poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, 10000);
        nanosleep(&(struct timespec){.tv_nsec = kill_after_us * 1000L}, NULL);
        kill(child, SIGKILL);
    }
    while (read(ends[0], &n, sizeof(n)) == (ssize_t)sizeof(n)) {
        assert_int_equal(n, told + 1);
        told = n;
    }
    close(ends[0]);
    assert_int_equal(waitpid(child, ret_status, 0), child);
    return told;
}

#define SUMS 5000

/* Everything up to `told` is there once; at most the next is there as well, whole. Returns the last that is there. */
static int64_t check_acts(struct world *world, int64_t told)
{
    struct metadata *metadata = NULL;
    struct meta_usage_sum *sums;
    struct meta_audit *entries;
    int64_t nano = 0;
    int64_t there = told;
    int64_t summed = 0;
    uint32_t count;
    bool more;

    OK(world, open_place(world->place, true, &metadata, &world->refusal));
    for (int64_t n = max_i64(told - 2, 1); n <= told + 2; n++) {
        struct meta_event *events;
        struct meta_job job;
        char id[NAME_BYTES];
        enum status status;

        snprintf(id, sizeof(id), "ftjob-%lld", (long long)n);
        status = meta_job_get(metadata, world->acme.id, id, &world->results, &job, &world->refusal);
        if (status == STATUS_OK)
            there = max_i64(there, n);
        if (n <= told ? status != STATUS_OK : n > told + 1 && status != STATUS_NOT_FOUND)
            fail_msg("told %lld; job %lld: %s", (long long)told, (long long)n, status_text(status));
        if (status != STATUS_OK)
            continue;
        OK(world, meta_event_list(metadata, world->acme.id, id, INT64_MAX, 10, &world->results, &events, &count, &more, &world->refusal));
        assert_int_equal(count, 1);
    }
    OK(world, meta_charge_sum(metadata, world->acme.id, &nano, &world->refusal));
    assert_int_equal(nano, 10 * there);
    /* An act's hour is its number; a fast machine makes more acts than one list holds. */
    for (int64_t hour = 0; hour == 0 || hour <= there; hour += SUMS) {
        OK(world, meta_usage_sums(metadata, world->acme.id, hour, hour + SUMS, SUMS, &world->results, &sums, &count, &more, &world->refusal));
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(sums[i].records, 1);
        summed += count;
    }
    assert_int_equal(summed, there);
    OK(world, meta_audit_verify(metadata, NULL, &world->refusal));
    OK(world, meta_audit_list(metadata, NULL, INT64_MAX, 1, &world->results, &entries, &count, &more, &world->refusal));
    assert_int_equal(count > 0 ? entries[0].n : 0, there);
    meta_results_free(&world->results);
    meta_close(metadata);
    return there;
}

static void begin(struct world *world)
{
    const struct meta_worker_new worker = {.id = "worker-s", .kind = "server", .placement = "{}"};
    int64_t n;

    vfs_begin(VFS_KILL, 0);
    world_begin(world);
    world_populate(world);
    OK(world, meta_tenant_set(world->metadata, world->acme.id, "jobs_max", "100000", &world->refusal));
    OK(world, meta_worker_add(world->metadata, &worker, NOW, &world->refusal));
    OK(world, meta_epoch_open(world->metadata, "boot", 0, "{}", NOW, &n, &world->refusal));
    meta_close(world->metadata);
    world->metadata = NULL;
}

static void die_at_every_call_that_writes(enum vfs_deed deed)
{
    struct world world;
    int64_t told = 0;
    uint64_t killed = 0;
    int status = 1;

    begin(&world);
    /* Each child goes on from what the one before left, repeating what may not have been told. */
    for (uint64_t fatal = 1; status != 0; fatal++) {
        told = run_child(&world, told + 1, 2, deed, fatal, -1, &status);
        if (status == 0)
            break;
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        killed++;
        (void)check_acts(&world, told);
    }
    print_message("dead at %llu calls\n", (unsigned long long)killed);
    assert_true(killed >= 25);
    world_end(&world);
}

static void killed_at_every_call_that_writes(void **state)
{
    (void)state;
    die_at_every_call_that_writes(VFS_KILL);
}

static void without_power_at_every_call_that_writes(void **state)
{
    (void)state;
    die_at_every_call_that_writes(VFS_POWER);
}

static void killed_at_random(void **state)
{
    const uint64_t seed = test_seed(3);
    const char *rounds_text = getenv("BERTH_TEST_KILLED");
    const int rounds = rounds_text != NULL ? atoi(rounds_text) : 25;
    struct world world;
    uint64_t random = seed;
    int64_t told = 0;
    unsigned inside = 0;

    (void)state;
    begin(&world);
    for (int round = 0; round < rounds; round++) {
        int64_t before = told;
        int status;

        told = run_child(&world, told + 1, 1000, VFS_KILL, 0, (int)draw_below(&random, 60000), &status);
        inside += check_acts(&world, told) > told;
        assert_true(told >= before);
    }
    print_message("seed %llu: %lld acts told, %u kept that were not\n", (unsigned long long)seed, (long long)told, inside);
    assert_true(told > 0);
    world_end(&world);
}

/* --- the writer's thread ---------------------------------------------------------------------------------------------------- */

#define CALLERS 4
#define CALLS 40

struct caller {
    struct meta_writer *writer;
    struct world *world;
    int number;
    int n; /* the act at hand */
};

static enum status add_event(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct caller *caller = context;
    const char *level = caller->n % 8 == 7 ? "no level" : "info";

    return meta_event_add(metadata, caller->world->acme.id, caller->world->acme.job, level, "x", NULL, (struct meta_bytes){0}, NOW, NULL,
                          refusal);
}

static void *call_often(void *context)
{
    struct caller *caller = context;
    struct refusal refusal;

    for (caller->n = 0; caller->n < CALLS; caller->n++) {
        const enum status status = meta_writer_call(caller->writer, add_event, caller, &refusal);

        check(status == (caller->n % 8 == 7 ? STATUS_INVALID : STATUS_OK));
    }
    return NULL;
}

static void many_threads_write_through_one(void **state)
{
    struct caller callers[CALLERS];
    pthread_t threads[CALLERS];
    struct meta_writer *writer;
    struct meta_event *events;
    struct metadata *reader;
    struct world world;
    uint32_t count;
    bool more;

    (void)state;
    vfs_begin(VFS_KILL, 0);
    world_begin(&world);
    world_populate(&world);
    OK(&world, meta_writer_start(world.metadata, 16, &writer, &world.refusal));
    reader = world_open(&world);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){.writer = writer, .world = &world, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
    OK(&world, meta_event_list(reader, world.acme.id, world.acme.job, INT64_MAX, 1, &world.results, &events, &count, &more, &world.refusal));
    assert_int_equal(events[0].n, CALLERS * CALLS * 7 / 8);
    meta_writer_stop(writer);
    meta_close(reader);
    world_end(&world);
}

static const uint8_t words[60000];

struct gate {
    pthread_mutex_t lock;
    sem_t entered; /* the writer stands at the gate, and has taken nothing else */
    struct world *world;
    int done;
    enum status worst;
};

static enum status wait_at_gate(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct gate *gate = context;

    (void)metadata;
    (void)refusal;
    sem_post(&gate->entered);
    pthread_mutex_lock(&gate->lock);
    pthread_mutex_unlock(&gate->lock);
    return STATUS_OK;
}

static enum status add_at_gate(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct gate *gate = context;

    /* Forty of them are more than SQLite keeps in memory, so that some are written before the end. */
    return meta_event_add(metadata, gate->world->acme.id, gate->world->acme.job, "info", "x", NULL,
                          (struct meta_bytes){words, sizeof(words)}, NOW, NULL, refusal);
}

static void count_done(void *context, enum status status, const struct refusal *refusal)
{
    struct gate *gate = context;

    (void)refusal;
    gate->done++;
    if (status != STATUS_OK)
        gate->worst = status;
}

/* The writer waits at it until the lock is given back. */
static void close_gate(struct gate *gate, struct meta_writer *writer)
{
    sem_init(&gate->entered, 0, 0);
    pthread_mutex_lock(&gate->lock);
    OK(gate->world, meta_writer_submit(writer, wait_at_gate, count_done, gate, &gate->world->refusal));
    while (sem_wait(&gate->entered) != 0)
        continue;
}

static void a_full_queue_refuses_and_what_it_took_is_done(void **state)
{
    struct gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct meta_writer *writer;
    struct world world;
    int taken = 0;

    (void)state;
    vfs_begin(VFS_KILL, 0);
    world_begin(&world);
    world_populate(&world);
    gate.world = &world;
    OK(&world, meta_writer_start(world.metadata, 8, &writer, &world.refusal));
    close_gate(&gate, writer);
    for (int i = 0; i < 100; i++) {
        const enum status status = meta_writer_submit(writer, add_at_gate, count_done, &gate, &world.refusal);

        assert_true(status == STATUS_OK || status == STATUS_FULL);
        taken += status == STATUS_OK;
    }
    assert_int_equal(taken, 8);
    pthread_mutex_unlock(&gate.lock);
    meta_writer_stop(writer);
    assert_int_equal(gate.done, taken + 1);
    assert_int_equal(gate.worst, STATUS_OK);
    world_end(&world);
}

/* At whichever call the disk is full for a moment, in the middle or at the end: all that share the transaction are told, none of it is there, and
 * with room again the writer goes on. */
static void a_full_disk_refuses_all_of_a_transaction(void **state)
{
    unsigned refused = 0;
    bool done = false;

    (void)state;
    for (uint64_t at = 1; !done; at += at < 20 ? 1 : 37) {
        struct gate gate = {.lock = PTHREAD_MUTEX_INITIALIZER};
        struct meta_writer *writer;
        struct meta_event *events;
        struct world world;
        uint32_t count;
        bool more;

        vfs_begin(VFS_FULL, 0);
        world_begin(&world);
        world_populate(&world);
        gate.world = &world;
        OK(&world, meta_writer_start(world.metadata, 64, &writer, &world.refusal));
        close_gate(&gate, writer);
        for (int i = 0; i < 50; i++)
            OK(&world, meta_writer_submit(writer, add_at_gate, count_done, &gate, &world.refusal));
        vfs_begin(VFS_FULL_ONCE, at);
        pthread_mutex_unlock(&gate.lock);
        meta_writer_stop(writer);
        done = vfs_calls() < at;
        vfs_begin(VFS_FULL, 0);
        assert_int_equal(gate.done, 51);
        OK(&world, meta_event_list(world.metadata, world.acme.id, world.acme.job, INT64_MAX, 100, &world.results, &events, &count, &more, &world.refusal));
        /* What waited behind the gate is one transaction. */
        assert_int_equal(count, gate.worst == STATUS_OK ? 50 : 0);
        assert_true(gate.worst == STATUS_OK || gate.worst == STATUS_IO);
        refused += gate.worst == STATUS_IO;
        OK(&world, add_at_gate(world.metadata, &gate, &world.refusal));
        world_end(&world);
    }
    print_message("refused at %u calls\n", refused);
    assert_true(refused > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_every_call_that_writes),
        cmocka_unit_test(without_power_at_every_call_that_writes),
        cmocka_unit_test(killed_at_random),
        cmocka_unit_test(many_threads_write_through_one),
        cmocka_unit_test(a_full_queue_refuses_and_what_it_took_is_done),
        cmocka_unit_test(a_full_disk_refuses_all_of_a_transaction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
