/* Where the master key comes from, and keys in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../scratch.h"
#include "crypto/secret.h"
#include "support.h"

#define MLOCK_IS_EMPTY 77
#define DIGITS "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF"

static struct scratch scratch;

static enum status load(const char *file, const char *command, uint8_t *ret_key, struct refusal *refusal)
{
    const struct master_source source = {.file = file, .command = command};

    refusal->text[0] = '\0';
    return master_load(&source, ret_key, refusal);
}

static void a_master_key_is_made_and_read(void **state)
{
    const char *path = scratch_at(&scratch, "made.key");
    uint8_t *key = secret_alloc(KEY_BYTES);
    uint8_t *again = secret_alloc(KEY_BYTES);
    const uint8_t zeros[KEY_BYTES] = {0};
    struct refusal refusal = {""};
    struct stat about;

    (void)state;
    assert_memory_equal(key, zeros, KEY_BYTES);
    assert_int_equal(master_create(path, &refusal), STATUS_OK);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    assert_int_equal(load(path, NULL, key, &refusal), STATUS_OK);
    assert_int_equal(load(path, NULL, again, &refusal), STATUS_OK);
    assert_memory_equal(key, again, KEY_BYTES);
    assert_memory_not_equal(key, zeros, KEY_BYTES);
    assert_int_equal(master_create(path, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "never overwritten"));
    secret_free(again);
    secret_free(key);
}

static void a_file_that_others_may_read_is_refused(void **state)
{
    const char *path = scratch_at(&scratch, "open.key");
    uint8_t *key = secret_alloc(KEY_BYTES);
    struct refusal refusal;

    (void)state;
    scratch_text(&scratch, "open.key", DIGITS "\n");
    for (int bit = 0; bit < 6; bit++) {
        assert_int_equal(chmod(path, (mode_t)(0600 | 1 << bit)), 0);
        assert_int_equal(load(path, NULL, key, &refusal), STATUS_INVALID);
        assert_non_null(strstr(refusal.text, "chmod 600"));
    }
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(load(path, NULL, key, &refusal), STATUS_OK);
    assert_int_equal(key[1], 0x11);
    assert_int_equal(key[31], 0xff);
    assert_int_equal(symlink(path, scratch_at(&scratch, "link.key")), 0);
    assert_int_equal(load(scratch_at(&scratch, "link.key"), NULL, key, &refusal), STATUS_IO);
    assert_int_equal(load(scratch_at(&scratch, "none.key"), NULL, key, &refusal), STATUS_NOT_FOUND);
    secret_free(key);
}

static void what_is_no_key_is_refused_and_not_quoted(void **state)
{
    static const char *const bad[] = {"", "\n", "00112233", DIGITS "0", DIGITS "\n\n", DIGITS " ", DIGITS "g",
                                      "secret1234567890secret1234567890secret1234567890secret1234567890"};
    uint8_t *key = secret_alloc(KEY_BYTES);
    struct refusal refusal;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        scratch_text(&scratch, "bad.key", bad[i]);
        assert_int_equal(chmod(scratch_at(&scratch, "bad.key"), 0600), 0);
        assert_int_equal(load(scratch_at(&scratch, "bad.key"), NULL, key, &refusal), STATUS_INVALID);
        assert_null(strstr(refusal.text, "secret12"));
        assert_null(strstr(refusal.text, "00112233"));
    }
    secret_free(key);
}

static void a_command_may_print_the_key(void **state)
{
    uint8_t *key = secret_alloc(KEY_BYTES);
    struct refusal refusal;

    (void)state;
    assert_int_equal(load(NULL, "echo " DIGITS, key, &refusal), STATUS_OK);
    assert_int_equal(key[2], 0x22);
    assert_int_equal(load(NULL, "printf " DIGITS "; exit 3", key, &refusal), STATUS_IO);
    assert_non_null(strstr(refusal.text, "exit code 3"));
    assert_int_equal(load(NULL, "yes", key, &refusal), STATUS_IO); /* cut off, so it dies of SIGPIPE */
    assert_int_equal(load(NULL, "echo hunter2-hunter2", key, &refusal), STATUS_INVALID);
    assert_null(strstr(refusal.text, "hunter2"));
    secret_free(key);
}

/* Of what is forked from it too. */
static void a_hardened_process_leaves_no_core(void **state)
{
    pid_t child = fork();
    int how = 0;

    (void)state;
    if (child == 0) {
        struct refusal refusal;
        struct rlimit core = {1, 1};

        if (secrets_harden_process(&refusal) != STATUS_OK || fork() < 0)
            _exit(1);
        if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0 || getrlimit(RLIMIT_CORE, &core) != 0 || core.rlim_cur + core.rlim_max != 0)
            _exit(1);
        if (wait(&how) > 0 && how != 0)
            _exit(1);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
}

/* Keys are still kept, and the host hears that they could reach swap. */
static void memory_that_cannot_be_locked_is_told(void **state)
{
    pid_t child = fork();
    int how = 0;

    (void)state;
    assert_true(secrets_are_locked());
    if (child == 0) {
        const struct rlimit none = {0, 0};
        void *secret;

        if (setrlimit(RLIMIT_MEMLOCK, &none) != 0 || (geteuid() == 0 && setuid(65534) != 0))
            _exit(1);
        secret = secret_alloc(KEY_BYTES);
        if (secret != NULL && mlock(secret, KEY_BYTES) == 0)
            _exit(MLOCK_IS_EMPTY);
        _exit(secret != NULL && !secrets_are_locked() ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    if (WIFEXITED(how) && WEXITSTATUS(how) == MLOCK_IS_EMPTY) {
        puts("skipped: a sanitizer's mlock() does nothing");
        skip();
    }
    assert_int_equal(how, 0);
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
        cmocka_unit_test(a_master_key_is_made_and_read),
        cmocka_unit_test(a_file_that_others_may_read_is_refused),
        cmocka_unit_test(what_is_no_key_is_refused_and_not_quoted),
        cmocka_unit_test(a_command_may_print_the_key),
        cmocka_unit_test(memory_that_cannot_be_locked_is_told),
        cmocka_unit_test(a_hardened_process_leaves_no_core),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
