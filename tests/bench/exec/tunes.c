/* What a tuned model costs beside its base, over the API of a platform that knows thousands of them.
 *   tunes fill STATE NAME=FOLDER MODELS    while nothing runs: models of two organizations, each a sealed object under a key of its own: a copy of
 *                                          FOLDER/adapters/0000 with other numbers; prints a line KEY MODEL of each
 *   tunes ask PORT NAME ROUNDS ANSWERS     reads those, and asks for them by Zipf's law: cold, warm, base and tuned in turn in every round, so a slow
 *                                          machine is slow for all; then ANSWERS, and all models, several at once. JSON lines */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench/zipf.h"
#include "control/bases.h"
#include "control/folder.h"
#include "control/metadata/key.h"
#include "control/metadata/model.h"
#include "control/metadata/tenant.h"
#include "control/objects/objects.h"
#include "engine/lora/peft.h"

enum { MODELS_MAX = 5000, PROMPT = 512, TOKENS = 48, RANK_MAX = 64, TENANTS = 2, THREADS = 8, ROUNDS_MAX = 1000, ANSWERS_MAX = MODELS_MAX };
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
    struct model_config config;
    char place[4096];          /* metadata.db */
    uint8_t *server_key;
    char base[NAME_BYTES];
    char tenants[TENANTS][NAME_BYTES];
    char keys[TENANTS][META_KEY_TEXT_BYTES];
    char *adapter;             /* one file, as an object has it */
    size_t adapter_bytes;
    int64_t rank;
    uint32_t models;
};

/* Threads of it wait for the disk together; this one makes every THREADS-th model. */
struct filler {
    const struct fill *fill;
    struct metadata *metadata; /* for reading; the writer has another */
    char *adapter;
    uint32_t first;
    pthread_t thread;
};

struct new_row {
    const struct fill *fill;
    const char *tenant;
    const struct object *object;
    char digest[DIGEST_TEXT_MAX];
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
                                         .object = row->object->id, .digest = row->digest, .rank = fill->rank,
                                         .bytes = (int64_t)envelope_sealed_bytes(fill->adapter_bytes), .lineage = "{}"};
    enum status status = meta_object_written(metadata, row->tenant, row->object->id, model.bytes, row->object->digest, refusal);

    meta_id("model-", id);
    if (status == STATUS_OK)
        status = meta_model_add(metadata, &model, NOW_MS, row->name, refusal);
    return status == STATUS_OK ? meta_model_judge(metadata, row->tenant, id, "pending_eval", "deployable", NULL, refusal) : status;
}

/* So that whoever reads the object first waits for the disk. */
static void forget_pages(const struct fill *fill, const struct object *object)
{
    struct refusal refusal = {{0}};
    struct store_get *get = NULL;

    must(store_get_open(fill->home.store, object->tenant, object->id, &get, &refusal), &refusal);
    check(posix_fadvise(store_get_descriptor(get), 0, 0, POSIX_FADV_DONTNEED) == 0);
    store_get_close(get);
}

/* Each file's last number is its own, so that no two contents are equal. */
static void add_model(const struct filler *filler, uint32_t index)
{
    const struct fill *fill = filler->fill;
    const uint16_t number = (uint16_t)(0x2000 + index); /* small, in 16 bits of either kind */
    struct object object = {.has_row = false};
    struct new_row row = {.fill = fill, .tenant = fill->tenants[index % TENANTS], .object = &object};
    struct refusal refusal = {{0}};
    struct peft *peft = NULL;

    memcpy(filler->adapter + fill->adapter_bytes - sizeof(number), &number, sizeof(number));
    must(peft_open_bytes(filler->adapter, (int64_t)fill->adapter_bytes, "an adapter", &fill->config, RANK_MAX, &peft, &refusal), &refusal);
    digest_text(peft->digest, row.digest);
    peft_close(peft);
    must(object_begin(&fill->home, filler->metadata, row.tenant, OBJECT_ADAPTER, &object, &refusal), &refusal);
    must(object_write(&object, filler->adapter, fill->adapter_bytes, &refusal), &refusal);
    must(object_finish(&object, &refusal), &refusal);
    forget_pages(fill, &object);
    must(meta_writer_call(fill->home.writer, add_row, &row, &refusal), &refusal);
    object_close(&object);
    printf("%s %s\n", fill->keys[index % TENANTS], row.name);
}

static void *add_models(void *context)
{
    const struct filler *filler = context;

    for (uint32_t i = filler->first; i < filler->fill->models; i += THREADS)
        add_model(filler, i);
    return NULL;
}

static void add_all(const struct fill *fill)
{
    struct filler fillers[THREADS];

    for (uint32_t i = 0; i < THREADS; i++) {
        struct refusal refusal = {{0}};

        fillers[i] = (struct filler){.fill = fill, .adapter = malloc(fill->adapter_bytes), .first = i};
        check(fillers[i].adapter != NULL);
        memcpy(fillers[i].adapter, fill->adapter, fill->adapter_bytes);
        must(meta_open(&(struct meta_options){.place = fill->place, .server_key = fill->server_key}, &fillers[i].metadata, &refusal), &refusal);
        check(pthread_create(&fillers[i].thread, NULL, add_models, &fillers[i]) == 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(fillers[i].thread, NULL);
        meta_close(fillers[i].metadata);
        free(fillers[i].adapter);
    }
}

static void open_home(struct fill *fill, const char *state)
{
    struct vault_options options = {.keys_per_s = 1000};
    struct refusal refusal = {{0}};
    struct metadata *writes = NULL;
    char keys[4096], master[4096], store[4096];
    pid_t process;
    int socket;

    must(control_folder_open(&fill->folder, state, &refusal), &refusal);
    options.keys_path = control_folder_at(&fill->folder, "keys.db", keys);
    must(control_folder_key_file(&fill->folder, "master.key", "keys.db", master, &refusal), &refusal);
    options.master.file = master;
    must(vault_start(&options, &socket, &process, &refusal), &refusal);
    must(vault_open(socket, &fill->home.vault, &refusal), &refusal);
    must(store_local_open(control_folder_at(&fill->folder, "store", store), &fill->home.store, &refusal), &refusal);
    fill->server_key = secret_alloc(KEY_BYTES);
    check(fill->server_key != NULL);
    must(control_folder_key(&fill->folder, fill->server_key, &refusal), &refusal);
    control_folder_at(&fill->folder, "metadata.db", fill->place);
    must(meta_open(&(struct meta_options){.place = fill->place, .server_key = fill->server_key, .first = true}, &writes, &refusal), &refusal);
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

static int fill(const char *state, const char *base, uint32_t models)
{
    static struct fill fill;
    struct core_base core;
    struct refusal refusal = {{0}};

    check(models >= 1 && models <= MODELS_MAX);
    fill.models = models;
    snprintf(fill.base, sizeof(fill.base), "%.*s", (int)strcspn(base, "="), base);
    open_home(&fill, state);
    must(base_open(fill.home.writer, base, NOW_MS, &core, &refusal), &refusal);
    close(core.folder);
    read_adapter(&fill, strchr(base, '=') + 1);
    must(meta_writer_call(fill.home.writer, add_tenants, &fill, &refusal), &refusal);
    add_all(&fill);
    meta_writer_stop(fill.home.writer);
    secret_free(fill.server_key);
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
    char text[65536];
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

struct asking {
    uint16_t port;
    const char *base;
    uint32_t models_count;
    struct {
        char key[META_KEY_TEXT_BYTES];
        char name[META_MODEL_NAME_BYTES];
    } models[MODELS_MAX];
    bool is_answered[MODELS_MAX];
    uint32_t ranks[ZIPF_DRAWS];
    atomic_uint asked;
};

/* Milliseconds a token of the answer, from connecting to its end. No two prompts begin alike. */
static double ask(struct asking *asking, const char *key, const char *model, int prompt_tokens, int tokens)
{
    const int number = (int)atomic_fetch_add(&asking->asked, 1);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(asking->port)};
    char text[16384];
    json_t *body = json_pack("{s:s, s:i, s:f, s:[]}", "model", model, "max_tokens", tokens, "temperature", 0.0, "prompt");
    const int64_t began_ns = now_ns();
    char *said;
    int bytes;
    long answered;
    int fd;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < prompt_tokens; i++)
        json_array_append_new(json_object_get(body, "prompt"), json_integer(3 + (i == 0 ? number : i) % 200));
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

static double median(double *values, uint32_t count)
{
    qsort(values, (size_t)count, sizeof(values[0]), by_value);
    return values[count / 2];
}

static void ask_in_turn(struct asking *asking, uint32_t rounds)
{
    double over_base[ROUNDS_MAX], cold_over_warm[ROUNDS_MAX], base_ms[ROUNDS_MAX], warm_ms[ROUNDS_MAX];
    uint32_t colds = 0;

    for (uint32_t i = 0; i < rounds; i++) {
        const uint32_t index = asking->ranks[i] - 1;
        const char *key = asking->models[index].key;
        const char *model = asking->models[index].name;

        if (!asking->is_answered[index]) {
            const double cold = ask(asking, key, model, PROMPT, 1);

            warm_ms[colds] = ask(asking, key, model, PROMPT, 1);
            cold_over_warm[colds] = cold / warm_ms[colds];
            colds++;
            asking->is_answered[index] = true;
        }
        base_ms[i] = ask(asking, key, asking->base, PROMPT, TOKENS);
        over_base[i] = ask(asking, key, model, PROMPT, TOKENS) / base_ms[i];
    }
    printf("{\"name\": \"tunes\", \"case\": \"%s: tuned over base\", \"value\": %.3f, \"unit\": \"ratio\", \"goal\": 1.1, \"base_ms_per_token\": %.2f, "
           "\"prompt_tokens\": %d, \"tokens\": %d, \"models\": %u, \"rounds\": %u}\n",
           asking->base, median(over_base, rounds), median(base_ms, rounds), PROMPT, TOKENS, asking->models_count, rounds);
    printf("{\"name\": \"tunes\", \"case\": \"%s: first token cold over warm\", \"value\": %.3f, \"unit\": \"ratio\", \"goal\": 1.2, "
           "\"warm_ms\": %.2f, \"prompt_tokens\": %d, \"models\": %u, \"rounds\": %u}\n",
           asking->base, median(cold_over_warm, colds), median(warm_ms, colds), PROMPT, asking->models_count, colds);
}

/* --- several at once ------------------------------------------------------------------------------------------------------------ */

struct list {
    struct asking *asking;
    uint32_t count;
    atomic_uint taken;
    uint32_t indexes[ANSWERS_MAX];
};

static void *ask_next(void *context)
{
    struct list *list = context;
    struct asking *asking = list->asking;
    uint32_t i;

    while ((i = atomic_fetch_add(&list->taken, 1)) < list->count)
        (void)ask(asking, asking->models[list->indexes[i]].key, asking->models[list->indexes[i]].name, 16, 1);
    return NULL;
}

/* Seconds. */
static double ask_list(struct list *list)
{
    const int64_t began_ns = now_ns();
    pthread_t threads[THREADS];

    for (uint32_t i = 0; i < THREADS; i++)
        check(pthread_create(&threads[i], NULL, ask_next, list) == 0);
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < list->count; i++)
        list->asking->is_answered[list->indexes[i]] = true;
    return (double)(now_ns() - began_ns) * 1e-9;
}

static uint32_t distinct(const struct asking *asking)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < asking->models_count; i++)
        count += asking->is_answered[i];
    return count;
}

/* By Zipf's law, and then whatever nobody has asked for, so that every model was loaded once. A refusal ends the program. */
static void ask_at_once(struct asking *asking, uint32_t rounds, uint32_t answers)
{
    static struct list drawn, rest;
    double seconds, rest_seconds;
    uint32_t answered;

    drawn.asking = rest.asking = asking;
    for (uint32_t i = 0; i < answers; i++)
        drawn.indexes[drawn.count++] = asking->ranks[rounds + i] - 1;
    seconds = ask_list(&drawn);
    answered = distinct(asking);
    for (uint32_t i = 0; i < asking->models_count; i++)
        if (!asking->is_answered[i])
            rest.indexes[rest.count++] = i;
    rest_seconds = ask_list(&rest);
    printf("{\"name\": \"tunes\", \"case\": \"%s: answers by Zipf's law\", \"value\": %.0f, \"unit\": \"1/s\", \"at_once\": %d, \"answers\": %u, "
           "\"models\": %u, \"answered_models\": %u, \"rest_per_s\": %.0f, \"answered_models_then\": %u}\n",
           asking->base, drawn.count / seconds, THREADS, drawn.count, asking->models_count, answered, rest.count / rest_seconds, distinct(asking));
}

static int ask_all(uint16_t port, const char *base, uint32_t rounds, uint32_t answers)
{
    static struct asking asking;

    check(rounds >= 1 && rounds <= ROUNDS_MAX && answers <= ANSWERS_MAX);
    asking.port = port;
    asking.base = base;
    while (asking.models_count < MODELS_MAX &&
           scanf("%127s %255s", asking.models[asking.models_count].key, asking.models[asking.models_count].name) == 2)
        asking.models_count++;
    zipf_fill(asking.ranks, asking.models_count);
    ask_in_turn(&asking, rounds);
    if (answers > 0)
        ask_at_once(&asking, rounds, answers);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "fill") == 0 && strchr(argv[3], '=') != NULL)
        return fill(argv[2], argv[3], (uint32_t)strtoul(argv[4], NULL, 10));
    if (argc == 6 && strcmp(argv[1], "ask") == 0)
        return ask_all((uint16_t)strtoul(argv[2], NULL, 10), argv[3], (uint32_t)strtoul(argv[4], NULL, 10), (uint32_t)strtoul(argv[5], NULL, 10));
    fprintf(stderr, "usage: tunes fill STATE NAME=FOLDER MODELS; tunes ask PORT NAME ROUNDS ANSWERS\n");
    return 2;
}
