/* berth-exec vault: master keys made, tenants' keys put under another. */
#include "cmd_vault.c"

#include <sys/stat.h>
#include <unistd.h>

#include "crypto/keys.h"
#include "scratch.h"
#include "support.h"

static struct scratch scratch;

static int run(const char *const *words, int count)
{
    char *argv[16] = {NULL};

    for (int i = 0; i < count; i++)
        argv[i] = (char *)(uintptr_t)words[i];
    return cmd_vault(count, argv);
}
#define RUN(...) run((const char *const[]){"vault", __VA_ARGS__}, (int)(sizeof((const char *const[]){"vault", __VA_ARGS__}) / sizeof(char *)))

static struct keys *open_with(const char *master_path)
{
    uint8_t *master = secret_alloc(KEY_BYTES);
    struct keys *keys = NULL;
    struct refusal refusal;

    assert_int_equal(master_load(&(struct master_source){.file = master_path}, master, &refusal), STATUS_OK);
    (void)keys_open(scratch_at(&scratch, "keys.db"), master, &keys, &refusal);
    secret_free(master);
    return keys;
}

static void a_master_key_is_made_and_replaced(void **state)
{
    const char *old = scratch_at(&scratch, "old.key");
    const char *new = scratch_at(&scratch, "new.key");
    const char *path = scratch_at(&scratch, "keys.db");
    uint8_t key[KEY_BYTES];
    uint8_t again[KEY_BYTES];
    struct refusal refusal;
    struct keys *keys;
    struct stat about;

    (void)state;
    assert_int_equal(RUN("new-key", old), EXIT_OK);
    assert_int_equal(RUN("new-key", old), EXIT_FAILED);
    assert_int_equal(RUN("new-key", new), EXIT_OK);
    assert_int_equal(RUN("rotate", path, "--from", old, "--to", new), EXIT_FAILED);
    assert_int_not_equal(stat(path, &about), 0); /* none is made by a slip */
    keys = open_with(old);
    assert_int_equal(keys_tenant_create(keys, "acme", &refusal), STATUS_OK);
    assert_int_equal(keys_create(keys, "acme", "file-1", key, &refusal), STATUS_OK);
    keys_close(keys);
    assert_int_equal(RUN("rotate", path, "--from", new, "--to", old), EXIT_FAILED);
    assert_int_equal(RUN("rotate", path, "--from", old, "--to", new), EXIT_OK);
    assert_null(open_with(old));
    keys = open_with(new);
    assert_int_equal(keys_give(keys, "acme", "file-1", again, &refusal), STATUS_OK);
    assert_memory_equal(key, again, KEY_BYTES);
    keys_close(keys);
}

static void wrong_usage_is_told(void **state)
{
    (void)state;
    assert_int_equal(RUN("new-key"), EXIT_USAGE);
    assert_int_equal(RUN("melt", "x"), EXIT_USAGE);
    assert_int_equal(RUN("new-key", "a", "b"), EXIT_USAGE);
    assert_int_equal(RUN("rotate", "x", "--from", "a"), EXIT_USAGE);
    assert_int_equal(RUN("rotate", "x", "--from", "a", "--from-command", "b", "--to", "c"), EXIT_USAGE);
    assert_int_equal(RUN("--help"), EXIT_OK);
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
        cmocka_unit_test(a_master_key_is_made_and_replaced),
        cmocka_unit_test(wrong_usage_is_told),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
