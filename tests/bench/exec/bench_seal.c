/* What sealing costs: MB/s of one core for objects sealed and opened in memory, and microseconds for what the vault is asked. One JSON
 * line each, the best of a few rounds. */
#define _GNU_SOURCE /* mkdtemp */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"
#include "crypto/envelope.h"
#include "crypto/vault.h"

#define PLAIN_BYTES (64u << 20)
#define ROUNDS 5
#define ASKED 2000

static const struct envelope_label label = {.tenant = "t", .object = "o", .purpose = "p"};
static const uint8_t key[KEY_BYTES] = {1};

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void must(enum status status, const struct refusal *refusal)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "bench_seal: %s\n", refusal->text);
    exit(1);
}

struct memory {
    uint8_t *bytes;
    size_t count;
};

static enum status keep(void *context, const void *bytes, size_t count)
{
    struct memory *memory = context;

    memcpy(memory->bytes + memory->count, bytes, count);
    memory->count += count;
    return STATUS_OK;
}

static enum status give(void *context, uint64_t offset, void *ret_bytes, size_t count)
{
    memcpy(ret_bytes, ((struct memory *)context)->bytes + offset, count);
    return STATUS_OK;
}

static void print_speed(const char *what, double best_s)
{
    printf("{\"name\": \"seal\", \"case\": \"%s\", \"value\": %.0f, \"unit\": \"MB/s\", \"bytes\": %u}\n", what,
           PLAIN_BYTES / best_s / 1e6, PLAIN_BYTES);
}

static void measure_objects(void)
{
    struct memory memory = {.bytes = malloc(envelope_sealed_bytes(PLAIN_BYTES))};
    uint8_t *plain = calloc(1, PLAIN_BYTES);
    double seal_s = 1e9;
    double open_s = 1e9;

    check(memory.bytes != NULL);
    check(plain != NULL);
    for (int round = 0; round < ROUNDS; round++) {
        struct sealer *sealer = NULL;
        struct opener *opener = NULL;
        double start_s = now_s();
        double middle_s;

        memory.count = 0;
        check(sealer_open(&label, "k", key, keep, &memory, &sealer) == STATUS_OK);
        for (size_t at = 0; at < PLAIN_BYTES; at += 1 << 20)
            check(sealer_put(sealer, plain + at, 1 << 20) == STATUS_OK);
        check(sealer_finish(sealer) == STATUS_OK);
        sealer_close(sealer);
        middle_s = now_s();
        check(opener_open(&label, key, memory.count, give, &memory, &opener) == STATUS_OK);
        check(opener_read(opener, 0, plain, PLAIN_BYTES) == STATUS_OK);
        opener_close(opener);
        open_s = now_s() - middle_s < open_s ? now_s() - middle_s : open_s;
        seal_s = middle_s - start_s < seal_s ? middle_s - start_s : seal_s;
    }
    print_speed("sealed", seal_s);
    print_speed("opened", open_s);
    free(plain);
    free(memory.bytes);
}

enum question { MAKE_KEY, GIVE_KEY, SEAL_TEXT, OPEN_TEXT, ROTATE, QUESTIONS };
static const char *const questions[] = {"a key made, on disk", "a key given", "a text sealed", "a text opened", "a tenant's key rotated, a data key"};

static void ask(struct vault *vault, enum question question, struct refusal *refusal)
{
    static uint8_t sealed[64 + VAULT_SEALED_EXTRA];
    static char text[64];
    uint8_t given[KEY_BYTES];
    char id[16];

    for (unsigned i = 0; i < ASKED; i++) {
        snprintf(id, sizeof(id), "o-%u", i);
        switch (question) {
        case MAKE_KEY: must(vault_key_create(vault, "t", id, given, refusal), refusal); break;
        case GIVE_KEY: must(vault_key_give(vault, "t", id, given, refusal), refusal); break;
        case SEAL_TEXT: must(vault_text_seal(vault, "t", "p", "i", text, sizeof(text), sealed, refusal), refusal); break;
        case OPEN_TEXT: must(vault_text_open(vault, "t", "p", "i", sealed, sizeof(sealed), text, refusal), refusal); break;
        default: must(vault_tenant_rotate(vault, "t", refusal), refusal); return; /* all of them at once */
        }
    }
}

static void measure_vault(void)
{
    char folder[] = "/tmp/berth-bench-XXXXXX";
    char keys_path[64];
    char wal_path[80];
    struct vault_options options = {.keys_path = keys_path, .keys_per_s = 1000000, .texts_per_s = 1000000};
    struct refusal refusal = {""};
    struct vault *vault = NULL;
    int socket = -1;
    pid_t process = 0;

    check(mkdtemp(folder) != NULL);
    snprintf(keys_path, sizeof(keys_path), "%s/keys.db", folder);
    snprintf(wal_path, sizeof(wal_path), "%s-wal", keys_path);
    options.master.command = "echo 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    must(vault_start(&options, &socket, &process, &refusal), &refusal);
    must(vault_open(socket, &vault, &refusal), &refusal);
    must(vault_tenant_create(vault, "t", &refusal), &refusal);
    for (enum question question = MAKE_KEY; question < QUESTIONS; question++) {
        double best_s = 1e9;

        for (int round = 0; round < (question == MAKE_KEY ? 1 : ROUNDS); round++) {
            double start_s = now_s();

            ask(vault, question, &refusal);
            best_s = now_s() - start_s < best_s ? now_s() - start_s : best_s;
        }
        printf("{\"name\": \"seal\", \"case\": \"%s\", \"value\": %.1f, \"unit\": \"us\"}\n", questions[question], best_s / ASKED * 1e6);
    }
    vault_close(vault);
    (void)waitpid(process, NULL, 0);
    (void)unlink(wal_path);
    (void)unlink(keys_path);
    (void)rmdir(folder);
}

int main(int argc, char **argv)
{
    if (!bench_wanted(argc, argv, "seal"))
        return 0;
    measure_objects();
    measure_vault();
    return 0;
}
