/* What a tuned model costs beside its base, over the API of a platform that knows thousands of them.
 *   tunes fill STATE NAME=FOLDER    while nothing runs: two organizations' models, of which those that will be asked have sealed objects, copies
 *                                   of FOLDER/adapters/0000 with other numbers, and the others have rows alone; prints KEY MODEL of the former
 *   tunes ask PORT NAME ROUNDS      reads those; base, warm and cold in turn in every round, so a slow machine is slow for all; JSON lines */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "control/bases.h"
#include "control/folder.h"
#include "control/metadata/key.h"
#include "control/metadata/model.h"
#include "control/metadata/tenant.h"
#include "control/objects/objects.h"
#include "engine/lora/peft.h"

enum { ROWS = 5000, ASKED = 24, PROMPT = 512, TOKENS = 48, RANK_MAX = 64, TENANTS = 2 };
#define NOW_MS 1700000000000

static void must(enum status status, const struct refusal *refusal)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "tunes: %s\n", refusal->text);
    exit(1);
}

/* --- filling -------------------------------------------------------------------------------------------------------------------- */

struct fill {
    struct control_folder folder;
    struct object_home home;
    struct metadata *metadata; /* for reading; the writer has another */
    struct model_config config;
    char base[NAME_BYTES];
    char tenants[TENANTS][NAME_BYTES];
    char keys[TENANTS][META_KEY_TEXT_BYTES];
    char *adapter;             /* one file, as an object has it */
    size_t adapter_bytes;
    int64_t rank;
};

struct new_row {
    const struct fill *fill;
    const char *tenant;
    const char *object;
    const char *digest;
    bool has_object;
    char name[META_MODEL_NAME_BYTES];
};

static enum status add_tenants(struct metadata *metadata, void *context, struct refusal *refusal)
{
    static const char *const slugs[TENANTS] = {"acme", "other"};
    static const char *const settings[] = {"requests_per_min_max", "tokens_per_min_max"};
    struct fill *fill = context;
    enum status status = STATUS_OK;

    for (int i = 0; status == STATUS_OK && i < TENANTS; i++) {
        char id[NAME_BYTES];

        status = meta_tenant_add(metadata, slugs[i], NOW_MS, fill->tenants[i], refusal);
        for (size_t j = 0; status == STATUS_OK && j < ARRAY_COUNT(settings); j++)
            status = meta_tenant_set(metadata, fill->tenants[i], settings[j], "100000000", refusal);
        if (status == STATUS_OK)
            status = meta_key_add(metadata, fill->tenants[i], "member", META_NONE, NOW_MS, fill->keys[i], id, refusal);
    }
    return status;
}

static enum status add_row(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct new_row *row = context;
    const struct fill *fill = row->fill;
    char id[NAME_BYTES];
    const struct meta_model_new model = {.tenant = row->tenant, .id = id, .suffix = "", .step = META_NONE, .base = fill->base,
                                         .object = row->object, .digest = row->digest, .rank = fill->rank,
                                         .bytes = (int64_t)envelope_sealed_bytes(fill->adapter_bytes), .lineage = "{}"};
    enum status status = row->has_object ? STATUS_OK
                                         : meta_object_add(metadata, row->tenant, row->object, OBJECT_ADAPTER, row->object, refusal);

    meta_id("model-", id);
    if (status == STATUS_OK)
        status = meta_object_written(metadata, row->tenant, row->object, model.bytes, row->digest, refusal);
    if (status == STATUS_OK)
        status = meta_model_add(metadata, &model, NOW_MS, row->name, refusal);
    return status == STATUS_OK ? meta_model_judge(metadata, row->tenant, id, "pending_eval", "deployable", NULL, refusal) : status;
}

static enum status add_rows(struct metadata *metadata, void *context, struct refusal *refusal)
{
    enum status status = STATUS_OK;

    for (int i = ASKED; status == STATUS_OK && i < ROWS; i++) {
        const struct fill *fill = context;
        char object[NAME_BYTES];
        char digest[DIGEST_TEXT_MAX];
        struct new_row row = {.fill = fill, .tenant = fill->tenants[i % TENANTS], .object = object, .digest = digest};

        meta_id("obj-", object);
        snprintf(digest, sizeof(digest), "%064x", (unsigned)i);
        status = add_row(metadata, &row, refusal);
    }
    return status;
}

/* The file's last numbers are its own. */
static void add_object(const struct fill *fill, uint16_t index)
{
    const uint16_t number = (uint16_t)(0x3000 + index); /* small, in 16 bits of either kind */
    char digest[DIGEST_TEXT_MAX];
    struct new_row row = {.fill = fill, .tenant = fill->tenants[index % TENANTS], .digest = digest, .has_object = true};
    struct object object = {.has_row = false};
    struct refusal refusal = {{0}};
    struct peft *peft = NULL;

    memcpy(fill->adapter + fill->adapter_bytes - sizeof(number), &number, sizeof(number));
    must(peft_open_bytes(fill->adapter, (int64_t)fill->adapter_bytes, "an adapter", &fill->config, RANK_MAX, &peft, &refusal), &refusal);
    digest_text(peft->digest, digest);
    peft_close(peft);
    must(object_begin(&fill->home, fill->metadata, row.tenant, OBJECT_ADAPTER, &object, &refusal), &refusal);
    must(object_write(&object, fill->adapter, fill->adapter_bytes, &refusal), &refusal);
    must(object_finish(&object, &refusal), &refusal);
    row.object = object.id;
    must(meta_writer_call(fill->home.writer, add_row, &row, &refusal), &refusal);
    object_close(&object);
    printf("%s %s\n", fill->keys[index % TENANTS], row.name);
}

static void open_home(struct fill *fill, const char *state)
{
    struct vault_options options = {.keys_per_s = 1000};
    struct refusal refusal = {{0}};
    struct metadata *writes = NULL;
    uint8_t *key;
    char keys[4096], master[4096], store[4096], place[4096];
    pid_t process;
    int socket;

    must(control_folder_open(&fill->folder, state, &refusal), &refusal);
    options.keys_path = control_folder_at(&fill->folder, "keys.db", keys);
    must(control_folder_key_file(&fill->folder, "master.key", "keys.db", master, &refusal), &refusal);
    options.master.file = master;
    must(vault_start(&options, &socket, &process, &refusal), &refusal);
    must(vault_open(socket, &fill->home.vault, &refusal), &refusal);
    must(store_local_open(control_folder_at(&fill->folder, "store", store), &fill->home.store, &refusal), &refusal);
    key = secret_alloc(KEY_BYTES);
    check(key != NULL);
    must(control_folder_key(&fill->folder, key, &refusal), &refusal);
    control_folder_at(&fill->folder, "metadata.db", place);
    must(meta_open(&(struct meta_options){.place = place, .server_key = key, .first = true}, &writes, &refusal), &refusal);
    must(meta_open(&(struct meta_options){.place = place, .server_key = key}, &fill->metadata, &refusal), &refusal);
    secret_free(key);
    must(meta_writer_start(writes, 16, &fill->home.writer, &refusal), &refusal);
}

static void read_adapter(struct fill *fill, const char *folder)
{
    struct refusal refusal = {{0}};
    struct peft *peft = NULL;
    char path[4096];
    void *bytes = NULL;

    snprintf(path, sizeof(path), "%.4000s/adapters/0000", folder);
    must(model_config_read(folder, &fill->config, &refusal), &refusal);
    must(peft_open(path, &fill->config, RANK_MAX, &peft, &refusal), &refusal);
    must(peft_write_bytes(&(struct peft_write){.source = &peft->source, .dims = &fill->config.dims, .alpha = peft->alpha_stated, .base = "base"},
                          path, &bytes, &fill->adapter_bytes, &refusal), &refusal);
    fill->adapter = bytes;
    fill->rank = peft->rank_stated;
    peft_close(peft);
}

static int fill(const char *state, const char *base)
{
    static struct fill fill;
    struct core_base core;
    struct refusal refusal = {{0}};

    snprintf(fill.base, sizeof(fill.base), "%.*s", (int)strcspn(base, "="), base);
    open_home(&fill, state);
    must(base_open(fill.home.writer, base, NOW_MS, &core, &refusal), &refusal);
    close(core.folder);
    read_adapter(&fill, strchr(base, '=') + 1);
    must(meta_writer_call(fill.home.writer, add_tenants, &fill, &refusal), &refusal);
    for (uint16_t i = 0; i < ASKED; i++)
        add_object(&fill, i);
    must(meta_writer_call(fill.home.writer, add_rows, &fill, &refusal), &refusal);
    meta_writer_stop(fill.home.writer);
    meta_close(fill.metadata);
    store_close(fill.home.store);
    vault_close(fill.home.vault);
    control_folder_close(&fill.folder);
    free(fill.adapter);
    return 0;
}

/* --- asking --------------------------------------------------------------------------------------------------------------------- */

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* The answer's tokens. */
static long read_answer(int fd)
{
    static char text[65536];
    size_t count = 0;
    ssize_t got;
    const char *tokens;

    while ((got = recv(fd, text + count, sizeof(text) - 1 - count, 0)) > 0)
        count += (size_t)got;
    text[count] = '\0';
    tokens = strstr(text, "\"completion_tokens\":");
    if (count < 12 || memcmp(text, "HTTP/1.1 200", 12) != 0 || tokens == NULL) {
        fprintf(stderr, "tunes: refused: %s\n", text);
        exit(1);
    }
    return strtol(tokens + strlen("\"completion_tokens\":"), NULL, 10);
}

/* Milliseconds a token of the answer, from connecting to its end. No two prompts begin alike. */
static double ask(uint16_t port, const char *key, const char *model, int tokens)
{
    static int asked;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    char text[16384];
    json_t *body = json_pack("{s:s, s:i, s:f, s:[]}", "model", model, "max_tokens", tokens, "temperature", 0.0, "prompt");
    const int64_t began_ns = now_ns();
    char *said;
    int bytes;
    long answered;
    int fd;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    asked++;
    for (int i = 0; i < PROMPT; i++)
        json_array_append_new(json_object_get(body, "prompt"), json_integer(3 + (i == 0 ? asked : i) % 200));
    said = json_dumps(body, JSON_COMPACT);
    bytes = snprintf(text, sizeof(text), "POST /v1/completions HTTP/1.1\r\nHost: bench\r\nConnection: close\r\nAuthorization: Bearer %s\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", key, strlen(said), said);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    check(bytes < (int)sizeof(text) && fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0);
    check(send(fd, text, (size_t)bytes, MSG_NOSIGNAL) == bytes);
    answered = read_answer(fd);
    close(fd);
    free(said);
    json_decref(body);
    return (double)(now_ns() - began_ns) * 1e-6 / (double)max_i64(answered, 1);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(values[0]), by_value);
    return values[count / 2];
}

static int ask_all(uint16_t port, const char *base, int rounds_max)
{
    double over_base[ASKED], cold_over_warm[ASKED], base_ms[ASKED], warm_ms[ASKED];
    char key[META_KEY_TEXT_BYTES];
    char model[META_MODEL_NAME_BYTES];
    int rounds = 0;

    for (; rounds < min_i64(rounds_max, ASKED) && scanf("%127s %255s", key, model) == 2; rounds++) {
        const double cold = ask(port, key, model, 1);

        warm_ms[rounds] = ask(port, key, model, 1);
        cold_over_warm[rounds] = cold / warm_ms[rounds];
        base_ms[rounds] = ask(port, key, base, TOKENS);
        over_base[rounds] = ask(port, key, model, TOKENS) / base_ms[rounds];
    }
    check(rounds > 0);
    printf("{\"name\": \"tunes\", \"case\": \"%s: tuned over base\", \"value\": %.3f, \"unit\": \"ratio\", \"goal\": 1.1, \"base_ms_per_token\": %.2f, "
           "\"prompt_tokens\": %d, \"tokens\": %d, \"models\": %d, \"rounds\": %d}\n",
           base, median(over_base, rounds), median(base_ms, rounds), PROMPT, TOKENS, ROWS, rounds);
    printf("{\"name\": \"tunes\", \"case\": \"%s: first token cold over warm\", \"value\": %.3f, \"unit\": \"ratio\", \"goal\": 1.2, "
           "\"warm_ms\": %.2f, \"prompt_tokens\": %d, \"models\": %d, \"rounds\": %d}\n",
           base, median(cold_over_warm, rounds), median(warm_ms, rounds), PROMPT, ROWS, rounds);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "fill") == 0 && strchr(argv[3], '=') != NULL)
        return fill(argv[2], argv[3]);
    if (argc == 5 && strcmp(argv[1], "ask") == 0)
        return ask_all((uint16_t)strtoul(argv[2], NULL, 10), argv[3], atoi(argv[4]));
    fprintf(stderr, "usage: tunes fill STATE NAME=FOLDER; tunes ask PORT NAME ROUNDS\n");
    return 2;
}
