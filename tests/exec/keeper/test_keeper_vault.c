/* The real vault under the keeper: a client that is killed and a vault that is killed find each other again, and the keys are the same. */
#define _DEFAULT_SOURCE /* usleep */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../processes.h"
#include "../scratch.h"
#include "crypto/vault.h"
#include "rig.h"

static struct scratch scratch;
static struct rig rig;

#define KEY_RECORD 2000

static void ask_for_a_key(const char *folder, int socket)
{
    uint8_t *key = secret_alloc(KEY_BYTES);
    struct refusal refusal = {""};
    struct vault *vault = NULL;
    uint64_t word = 0;

    check(key != NULL);
    if (vault_open(socket, &vault, &refusal) != STATUS_OK || vault_tenant_create(vault, "acme", &refusal) != STATUS_OK ||
        vault_key_create(vault, "acme", "file-1", key, &refusal) != STATUS_OK)
        fprintf(stderr, "client: %s\n", refusal.text);
    memcpy(&word, key, sizeof(word));
    stub_append(folder, (struct stub_record){.kind = STUB_DISK_PROCESS, .worker = KEY_RECORD, .value = word});
    /* The vault stays with us until we end. */
}

static _Noreturn void client(const char *folder)
{
    struct launcher *launcher = keeper_client(KEEPER_SOCKET);
    struct launcher_event event;

    stub_append(folder, (struct stub_record){.kind = STUB_DISK_PROCESS, .value = (uint64_t)getpid()});
    for (;;) {
        struct pollfd one = {.fd = launcher->table->descriptor(launcher), .events = POLLIN};

        (void)poll(&one, 1, -1);
        while (launcher->table->next(launcher, &event) == STATUS_OK) {
            if (event.kind == LAUNCHER_VAULT)
                ask_for_a_key(folder, event.socket);
        }
    }
}

/* The last one that the log tells. */
static pid_t vault_process(void)
{
    FILE *file = fopen(rig.log_path, "r");
    char line[256];
    int process = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        (void)sscanf(line, "act=start name=vault process=%d", &process);
    fclose(file);
    return process;
}

static void keys_outlive_client_and_vault(void **state)
{
    const char *folder = scratch_folder(&scratch, "run");
    const char *keys = scratch_at(&scratch, "keys.db");
    const char *const client_arguments[] = {"stub", "client", folder, NULL};
    const char *const vault_arguments[] = {"berth-exec", "vault", "serve", "--keys", keys, "--master-command",
                                           "echo 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", NULL};
    const struct keeper_program client_program = {.name = "control", .path = "/proc/self/exe", .arguments = client_arguments};
    const struct keeper_program vault_program = {.name = "vault", .path = berth_exec(), .arguments = vault_arguments};
    uint64_t key = 0;
    uint32_t keys_seen = 0;

    (void)state;
    rig_init(&rig, folder);
    rig.config.control = &client_program;
    rig.config.vault = &vault_program;
    rig_start(&rig);
    rig_await(&rig, STUB_DISK_PROCESS, KEY_RECORD, 1);
    assert_int_equal(kill(rig_process(&rig, 0), SIGKILL), 0);
    rig_await(&rig, STUB_DISK_PROCESS, KEY_RECORD, 2);
    assert_int_equal(kill(vault_process(), SIGKILL), 0);
    rig_await(&rig, STUB_DISK_PROCESS, KEY_RECORD, 3);
    assert_int_equal(rig_stop(&rig), 0);
    for (uint32_t i = 0; i < rig.records_count; i++) {
        if (rig.records[i].worker != KEY_RECORD)
            continue;
        assert_true(rig.records[i].value != 0);
        assert_true(keys_seen == 0 || rig.records[i].value == key);
        key = rig.records[i].value;
        keys_seen++;
    }
    assert_int_equal(keys_seen, 3);
    assert_true(rig_log_count(&rig, "act=start name=vault") >= 3);
    assert_true(rig_log_count(&rig, "act=exit name=vault by=exit code=0") >= 1); /* its client was gone */
}

static int begin_group(void **state)
{
    (void)state;
    scratch_begin(&scratch);
    return 0;
}

static int finish_group(void **state)
{
    (void)state;
    scratch_end(&scratch);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_outlive_client_and_vault),
    };

    if (argc > 2 && strcmp(argv[1], "client") == 0)
        client(argv[2]);
    return cmocka_run_group_tests_name("keeper_vault", tests, begin_group, finish_group);
}
