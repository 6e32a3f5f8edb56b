/* The vault as its client sees it: its life, its refusals, its limits, what it says; and what a client that was taken over may try. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../scratch.h"
#include "crypto/vault_internal.h"
#include "vault_rig.h"

static struct scratch scratch;
static unsigned folders;

static void begin_rig(struct vault_rig *rig)
{
    char name[16];

    snprintf(name, sizeof(name), "v%u", folders++);
    vault_rig_init(rig, scratch_folder(&scratch, name));
}

static void start(struct vault_rig *rig)
{
    begin_rig(rig);
    if (vault_rig_start(rig) != STATUS_OK)
        fail_msg("%s", rig->refusal.text);
}

static void keys_and_texts_outlive_a_vault(void **state)
{
    static const char text[] = "training data of the winter campaign";
    struct vault_rig rig;
    uint8_t key[KEY_BYTES];
    uint8_t again[KEY_BYTES];
    uint8_t sealed[sizeof(text) + VAULT_SEALED_EXTRA];
    char opened[sizeof(text)];

    (void)state;
    start(&rig);
    assert_int_equal(vault_tenant_create(rig.client, "acme", &rig.refusal), STATUS_OK);
    assert_int_equal(vault_key_create(rig.client, "acme", "file-1", key, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_text_seal(rig.client, "acme", "file-name", "file-1", text, sizeof(text), sealed, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_rig_stop(&rig), 0);

    assert_int_equal(vault_rig_start(&rig), STATUS_OK);
    assert_int_equal(vault_tenant_rotate(rig.client, "acme", &rig.refusal), STATUS_OK);
    assert_int_equal(vault_key_give(rig.client, "acme", "file-1", again, &rig.refusal), STATUS_OK);
    assert_memory_equal(key, again, KEY_BYTES);
    assert_int_equal(vault_text_open(rig.client, "acme", "file-name", "file-1", sealed, sizeof(sealed), opened, &rig.refusal), STATUS_OK);
    assert_string_equal(opened, text);
    assert_int_equal(vault_key_shred(rig.client, "acme", "file-1", &rig.refusal), STATUS_OK);
    assert_int_equal(vault_key_give(rig.client, "acme", "file-1", again, &rig.refusal), STATUS_NOT_FOUND);
    assert_int_equal(vault_tenant_shred(rig.client, "acme", &rig.refusal), STATUS_OK);
    assert_int_equal(vault_text_open(rig.client, "acme", "file-name", "file-1", sealed, sizeof(sealed), opened, &rig.refusal),
                     STATUS_NOT_FOUND);
    assert_int_equal(vault_text_seal(rig.client, "acme", "file-name", "file-2", text, sizeof(text), sealed, &rig.refusal),
                     STATUS_NOT_FOUND);
    assert_int_equal(vault_rig_stop(&rig), 0);
}

static void a_master_key_is_rotated_between_two_vaults(void **state)
{
    struct vault_rig rig;
    uint8_t key[KEY_BYTES];
    uint8_t again[KEY_BYTES];
    const struct master_source to = {.command = "echo 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"};

    (void)state;
    start(&rig);
    assert_int_equal(vault_tenant_create(rig.client, "acme", &rig.refusal), STATUS_OK);
    assert_int_equal(vault_key_create(rig.client, "acme", "file-1", key, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_rotate_master(rig.keys_path, &rig.options.master, &to, &rig.refusal), STATUS_INVALID);
    assert_non_null(strstr(rig.refusal.text, "another process has it open"));
    assert_int_equal(vault_rig_stop(&rig), 0);

    assert_int_equal(vault_rotate_master(rig.keys_path, &rig.options.master, &to, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_rig_start(&rig), STATUS_INVALID);
    assert_non_null(strstr(rig.refusal.text, "another master key"));
    assert_int_equal(vault_rig_stop(&rig), 1);
    rig.options.master = to;
    assert_int_equal(vault_rig_start(&rig), STATUS_OK);
    assert_int_equal(vault_key_give(rig.client, "acme", "file-1", again, &rig.refusal), STATUS_OK);
    assert_memory_equal(key, again, KEY_BYTES);
    assert_int_equal(vault_rig_stop(&rig), 0);
}

static void a_touched_or_moved_text_is_refused(void **state)
{
    static const char *const others[][3] = {
        {"other", "file-name", "file-1"}, {"acme", "metadata", "file-1"}, {"acme", "file-name", "file-2"}, {"acme", "file-1", "file-name"}};
    struct vault_rig rig;
    uint8_t sealed[5 + VAULT_SEALED_EXTRA];
    char opened[64] = "";

    (void)state;
    begin_rig(&rig);
    rig.options.texts_per_s = 100000;
    assert_int_equal(vault_rig_start(&rig), STATUS_OK);
    assert_int_equal(vault_tenant_create(rig.client, "acme", &rig.refusal), STATUS_OK);
    assert_int_equal(vault_tenant_create(rig.client, "other", &rig.refusal), STATUS_OK);
    assert_int_equal(vault_text_seal(rig.client, "acme", "file-name", "file-1", "hello", 5, sealed, &rig.refusal), STATUS_OK);
    for (size_t bit = 0; bit < 8 * sizeof(sealed); bit++) {
        sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(vault_text_open(rig.client, "acme", "file-name", "file-1", sealed, sizeof(sealed), opened, &rig.refusal),
                         STATUS_CORRUPT);
        sealed[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t count = 0; count < sizeof(sealed); count++)
        assert_int_equal(vault_text_open(rig.client, "acme", "file-name", "file-1", sealed, count, opened, &rig.refusal), STATUS_CORRUPT);
    for (size_t i = 0; i < ARRAY_COUNT(others); i++)
        assert_int_equal(vault_text_open(rig.client, others[i][0], others[i][1], others[i][2], sealed, sizeof(sealed), opened, &rig.refusal),
                         STATUS_CORRUPT);
    assert_string_equal(opened, "");
    assert_int_equal(vault_rig_stop(&rig), 0);
}

static void texts_have_a_longest(void **state)
{
    struct vault_rig rig;
    uint8_t *text = calloc(1, VAULT_TEXT_MAX + 1);
    uint8_t *sealed = calloc(1, VAULT_TEXT_MAX + 1 + VAULT_SEALED_EXTRA);

    (void)state;
    start(&rig);
    assert_int_equal(vault_tenant_create(rig.client, "acme", &rig.refusal), STATUS_OK);
    text[VAULT_TEXT_MAX - 1] = 7;
    assert_int_equal(vault_text_seal(rig.client, "acme", "p", "i", text, VAULT_TEXT_MAX, sealed, &rig.refusal), STATUS_OK);
    memset(text, 0, VAULT_TEXT_MAX);
    assert_int_equal(vault_text_open(rig.client, "acme", "p", "i", sealed, VAULT_TEXT_MAX + VAULT_SEALED_EXTRA, text, &rig.refusal),
                     STATUS_OK);
    assert_int_equal(text[VAULT_TEXT_MAX - 1], 7);
    assert_int_equal(vault_text_seal(rig.client, "acme", "p", "i", text, VAULT_TEXT_MAX + 1, sealed, &rig.refusal), STATUS_INVALID);
    assert_int_equal(vault_text_seal(rig.client, "acme", "p", "i", NULL, 0, sealed, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_text_open(rig.client, "acme", "p", "i", sealed, VAULT_SEALED_EXTRA, NULL, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_rig_stop(&rig), 0);
    free(sealed);
    free(text);
}

/* A burst of ten seconds; then no more for this tenant, and the others get theirs until all have had ten times that. */
static void keys_are_given_out_slowly(void **state)
{
    struct vault_rig rig;
    uint8_t key[KEY_BYTES];
    unsigned given = 0;
    enum status status;

    (void)state;
    begin_rig(&rig);
    rig.options.keys_per_s = 1;
    assert_int_equal(vault_rig_start(&rig), STATUS_OK);
    assert_int_equal(vault_tenant_create(rig.client, "acme", &rig.refusal), STATUS_OK);
    assert_int_equal(vault_tenant_create(rig.client, "other", &rig.refusal), STATUS_OK);
    assert_int_equal(vault_key_create(rig.client, "acme", "file-1", key, &rig.refusal), STATUS_OK);
    while ((status = vault_key_give(rig.client, "acme", "file-1", key, &rig.refusal)) == STATUS_OK)
        assert_in_range(++given, 1, 12);
    assert_int_equal(status, STATUS_FULL);
    assert_in_range(given, 8, 12);
    assert_in_range(vault_retry_ms(rig.client), 1, 1001);
    assert_int_equal(vault_key_create(rig.client, "other", "file-2", key, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_rig_stop(&rig), 0);
}

static void buckets_fill_at_their_rate(void **state)
{
    struct bucket bucket = {0};
    uint32_t wait_ms = 0;
    int64_t now_ns = 123456789;
    unsigned taken = 0;

    (void)state;
    while (bucket_take(&bucket, 50, now_ns, &wait_ms))
        taken++;
    assert_int_equal(taken, 500);
    assert_in_range(wait_ms, 20, 21);
    assert_false(bucket_take(&bucket, 50, now_ns + 19 * NS_PER_MS, &wait_ms));
    assert_true(bucket_take(&bucket, 50, now_ns + 20 * NS_PER_MS, &wait_ms));
    /* Asked every microsecond for two seconds: what is less than a thousandth adds up. */
    taken = 0;
    now_ns += 20 * NS_PER_MS;
    for (unsigned i = 0; i < 2000000; i++)
        taken += bucket_take(&bucket, 50, now_ns += NS_PER_US, &wait_ms);
    assert_int_equal(taken, 100);
    /* A year later no more than a burst. */
    now_ns += 365 * 86400 * NS_PER_S;
    for (taken = 0; bucket_take(&bucket, 50, now_ns, &wait_ms);)
        taken++;
    assert_int_equal(taken, 500);
}

static bool file_holds(const char *path, const void *bytes, size_t count)
{
    struct refusal refusal;
    int64_t size = 0;
    void *data = NULL;
    bool found = false;

    assert_int_equal(file_read(AT_FDCWD, path, path, 1 << 30, &data, &size, &refusal), STATUS_OK);
    for (const char *at = data; !found && at + count <= (char *)data + size; at++)
        found = memcmp(at, bytes, count) == 0;
    free(data);
    return found;
}

static bool file_says(const char *path, const char *text)
{
    return file_holds(path, text, strlen(text));
}

static void every_act_is_said_and_nothing_more(void **state)
{
    static const char secret[] = "winter campaign";
    struct vault_rig rig;
    uint8_t key[KEY_BYTES];
    uint8_t sealed[sizeof(secret) + VAULT_SEALED_EXTRA];

    (void)state;
    start(&rig);
    assert_int_equal(vault_tenant_create(rig.client, "acme", &rig.refusal), STATUS_OK);
    assert_int_equal(vault_key_create(rig.client, "acme", "file-1", key, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_key_give(rig.client, "acme", "file-2", key, &rig.refusal), STATUS_NOT_FOUND);
    assert_int_equal(vault_text_seal(rig.client, "acme", "file-name", "file-1", secret, sizeof(secret), sealed, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_rig_stop(&rig), 0);
    assert_true(file_says(rig.log_path, "act=key_create tenant=acme id=file-1 purpose=- status=OK us="));
    assert_true(file_says(rig.log_path, "act=key_give tenant=acme id=file-2 purpose=- status=NOT_FOUND us="));
    assert_true(file_says(rig.log_path, "act=text_seal tenant=acme id=file-1 purpose=file-name status=OK us="));
    assert_false(file_says(rig.log_path, "winter"));
    for (size_t i = 0; i + 8 <= sizeof(key); i += 8)
        assert_false(file_holds(rig.log_path, key + i, 8));
}

static void a_vault_that_cannot_start_says_why(void **state)
{
    struct vault_rig rig;

    (void)state;
    begin_rig(&rig);
    assert_int_equal(chmod(rig.master_path, 0644), 0);
    assert_int_equal(vault_rig_start(&rig), STATUS_INVALID);
    assert_non_null(strstr(rig.refusal.text, "chmod 600"));
    assert_int_equal(vault_rig_stop(&rig), 1);
}

static void a_vault_that_is_gone_is_an_error(void **state)
{
    struct vault_rig rig;
    uint8_t key[KEY_BYTES];
    int how;

    (void)state;
    start(&rig);
    kill(rig.process, SIGKILL);
    waitpid(rig.process, &how, 0);
    assert_int_equal(vault_key_give(rig.client, "acme", "file-1", key, &rig.refusal), STATUS_IO);
    assert_non_null(strstr(rig.refusal.text, "gone"));
    vault_close(rig.client);
}

static void the_vault_keeps_none_of_our_descriptors(void **state)
{
    struct vault_rig rig;
    char path[64];
    struct dirent *entry;
    DIR *open_there;

    (void)state;
    begin_rig(&rig);
    assert_true(open("/dev/null", O_RDONLY) >= 0);
    assert_true(open("/dev/zero", O_RDONLY) >= 0);
    assert_int_equal(vault_rig_start(&rig), STATUS_OK);
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)rig.process);
    open_there = opendir(path);
    if (open_there == NULL && errno == EACCES) {
        /* Not even its own user may look. */
        assert_int_equal(vault_rig_stop(&rig), 0);
        return;
    }
    assert_non_null(open_there);
    while ((entry = readdir(open_there)) != NULL) {
        char target[64] = "";

        if (entry->d_name[0] == '.' || atoi(entry->d_name) < 3)
            continue;
        assert_true(readlinkat(dirfd(open_there), entry->d_name, target, sizeof(target) - 1) > 0);
        if (strncmp(target, "/dev/", 5) == 0)
            fail_msg("the vault has %s open", target);
    }
    closedir(open_there);
    assert_int_equal(vault_rig_stop(&rig), 0);
}

/* What a taken-over client may send: each is answered, none is served, and the vault goes on. */
static enum status send_raw(int socket, const void *bytes, size_t count)
{
    static struct vault_reply reply;

    assert_int_equal(send(socket, bytes, count, 0), count);
    assert_true(recv(socket, &reply, sizeof(reply), 0) >= (ssize_t)VAULT_REPLY_BYTES);
    return (enum status)reply.status;
}

static void hostile_requests_are_refused(void **state)
{
    static struct vault_request request;
    static uint8_t large[sizeof(request) + 100];
    struct vault_rig rig;
    uint64_t seed = test_seed(11);
    int socket = -1;

    (void)state;
    begin_rig(&rig);
    assert_int_equal(vault_start(&rig.options, &socket, &rig.process, &rig.refusal), STATUS_OK);
    request = (struct vault_request){.act = VAULT_TENANT_CREATE, .tenant = "acme", .seq = 1};
    assert_int_equal(send_raw(socket, &request, VAULT_REQUEST_BYTES), STATUS_OK);
    request = (struct vault_request){.act = VAULT_KEY_CREATE, .tenant = "acme", .id = "file-1", .seq = 1};
    assert_int_equal(send_raw(socket, &request, VAULT_REQUEST_BYTES), STATUS_OK);
    for (size_t count = 1; count < VAULT_REQUEST_BYTES; count++)
        assert_int_equal(send_raw(socket, &request, count), STATUS_INVALID);
    assert_int_equal(send_raw(socket, &request, VAULT_REQUEST_BYTES + 1), STATUS_INVALID);
    memcpy(large, &request, VAULT_REQUEST_BYTES);
    assert_int_equal(send_raw(socket, large, sizeof(large)), STATUS_INVALID);
    request.bytes = UINT32_MAX;
    assert_int_equal(send_raw(socket, &request, VAULT_REQUEST_BYTES), STATUS_INVALID);
    request.bytes = 0;
    request.act = VAULT_ACT_COUNT;
    assert_int_equal(send_raw(socket, &request, VAULT_REQUEST_BYTES), STATUS_INVALID);
    request.act = VAULT_KEY_GIVE;
    memset(request.id, 'a', NAME_BYTES);
    assert_int_equal(send_raw(socket, &request, VAULT_REQUEST_BYTES), STATUS_INVALID);
    memcpy(request.id, "text:acme", 10);
    assert_int_equal(send_raw(socket, &request, VAULT_REQUEST_BYTES), STATUS_INVALID);
    memcpy(request.id, "../x", 5);
    assert_int_equal(send_raw(socket, &request, VAULT_REQUEST_BYTES), STATUS_INVALID);
    for (int i = 0; i < 300; i++) {
        for (size_t k = 0; k < sizeof(large); k++)
            large[k] = (uint8_t)draw(&seed);
        large[0] %= 16;
        memset(large + 1, 0, 3);
        (void)send_raw(socket, large, 1 + draw_below(&seed, sizeof(large)));
    }
    memcpy(request.id, "file-1", 7);
    assert_int_equal(send_raw(socket, &request, VAULT_REQUEST_BYTES), STATUS_OK);
    close(socket);
    waitpid(rig.process, NULL, 0);
}

/* The one before us asked and did not live to read the answer. */
static void a_new_client_takes_no_answer_of_the_old(void **state)
{
    static const struct vault_request request = {.act = VAULT_KEY_CREATE, .tenant = "acme", .id = "file-1", .seq = 1};
    struct vault_rig rig;
    uint8_t key[KEY_BYTES];
    int socket = -1;

    (void)state;
    start(&rig);
    assert_int_equal(vault_tenant_create(rig.client, "acme", &rig.refusal), STATUS_OK);
    assert_int_equal(vault_key_create(rig.client, "acme", "file-1", key, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_rig_stop(&rig), 0);
    assert_int_equal(vault_start(&rig.options, &socket, &rig.process, &rig.refusal), STATUS_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(send(socket, &request, VAULT_REQUEST_BYTES, 0), VAULT_REQUEST_BYTES);
    assert_int_equal(vault_open(socket, &rig.client, &rig.refusal), STATUS_OK);
    assert_int_equal(vault_key_give(rig.client, "acme", "file-2", key, &rig.refusal), STATUS_NOT_FOUND);
    assert_int_equal(vault_rig_stop(&rig), 0);
}

struct asker {
    struct vault *client;
    char id[16];
    bool is_right;
};

static void *ask_often(void *context)
{
    struct asker *asker = context;
    struct refusal refusal;
    uint8_t key[KEY_BYTES];
    uint8_t again[KEY_BYTES];

    asker->is_right = vault_key_create(asker->client, "acme", asker->id, key, &refusal) == STATUS_OK;
    for (int i = 0; i < 100; i++)
        asker->is_right &= vault_key_give(asker->client, "acme", asker->id, again, &refusal) == STATUS_OK &&
                           memcmp(key, again, KEY_BYTES) == 0;
    return NULL;
}

static void threads_get_each_their_own(void **state)
{
    struct vault_rig rig;
    struct asker askers[4];
    pthread_t threads[4];

    (void)state;
    start(&rig);
    assert_int_equal(vault_tenant_create(rig.client, "acme", &rig.refusal), STATUS_OK);
    for (unsigned i = 0; i < 4; i++) {
        askers[i] = (struct asker){.client = rig.client};
        snprintf(askers[i].id, sizeof(askers[i].id), "file-%u", i);
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &askers[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(askers[i].is_right);
    }
    assert_int_equal(vault_rig_stop(&rig), 0);
}

static int begin(void **state)
{
    (void)state;
    scratch_begin(&scratch);
    return 0;
}

static int end(void **state)
{
    (void)state;
    scratch_end(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_and_texts_outlive_a_vault),
        cmocka_unit_test(a_master_key_is_rotated_between_two_vaults),
        cmocka_unit_test(a_touched_or_moved_text_is_refused),
        cmocka_unit_test(texts_have_a_longest),
        cmocka_unit_test(keys_are_given_out_slowly),
        cmocka_unit_test(buckets_fill_at_their_rate),
        cmocka_unit_test(every_act_is_said_and_nothing_more),
        cmocka_unit_test(a_vault_that_cannot_start_says_why),
        cmocka_unit_test(a_vault_that_is_gone_is_an_error),
        cmocka_unit_test(the_vault_keeps_none_of_our_descriptors),
        cmocka_unit_test(hostile_requests_are_refused),
        cmocka_unit_test(a_new_client_takes_no_answer_of_the_old),
        cmocka_unit_test(threads_get_each_their_own),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
