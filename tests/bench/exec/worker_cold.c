/* What a cold adapter costs: time to the first token of a 512-token prompt, with the adapter on the device (warm), in host memory, in its
 * files with the page cache emptied of them, and in a sealed object likewise; and how long the loads take. They follow each other in every round, so a slow
 * machine is slow for all of them; medians over the rounds.
 *   worker_cold MODEL [NAME]     MODEL has adapters/0000 to 0002, as `berth-exec model random --adapters 3` makes them */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/core/core.h"
#include "crypto/envelope.h"
#include "engine/lora/peft.h"
#include "worker/worker.h"

enum { ROUNDS = 5, PROMPT = 512 };
static const char *const places[] = {"warm", "host", "disk", "sealed"};
enum { WARM, HOST, DISK, SEALED, PLACES };
static char object_names[3][DIGEST_TEXT_MAX]; /* what the sealed ones are called */

static int64_t first_token_ns;
static bool ended;

static bool got_token(void *owner, const struct worker_token *token)
{
    (void)owner;
    (void)token;
    return false;
}

static void got_end(void *owner, const struct worker_end *end)
{
    (void)owner;
    first_token_ns = end->reason == WORKER_END_FAILED ? -1 : end->first_token_ns;
    ended = true;
}

/* Time to the first token. */
static int64_t ask(struct worker *worker, const char *adapter)
{
    struct sample_params sample;
    struct refusal refusal = {{0}};
    int32_t prompt[PROMPT];
    worker_handle handle;
    struct worker_request request = {.adapter = adapter, .prompt = prompt, .prompt_tokens = PROMPT, .max_tokens = 1, .ignore_eos = true,
                                     .sample = &sample, .token = got_token, .end = got_end};

    sample_params_init(&sample);
    sample.temperature = 0;
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = 3 + i % 200;
    ended = false;
    if (worker_submit(worker, &request, &handle, &refusal) != STATUS_OK) {
        fprintf(stderr, "worker_cold: %s\n", refusal.text);
        exit(1);
    }
    while (!ended) {
        struct pollfd event = {.fd = worker_fd(worker), .events = POLLIN};

        if (!worker_pump(worker))
            (void)poll(&event, 1, 1000);
    }
    return first_token_ns;
}

static void must(enum status status, const struct refusal *refusal)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "worker_cold: %s\n", refusal->text);
    exit(1);
}

static const char *file_of(const char *model, int adapter, const char *name, char ret_path[1024])
{
    snprintf(ret_path, 1024, "%s/adapters/%04d%s%s", model, adapter, name[0] != '\0' ? "/" : "", name);
    return ret_path;
}

/* As a store would keep it, beside the folder's own files. */
static void seal(struct worker *worker, const char *model, int adapter)
{
    static const uint8_t secret[KEY_BYTES] = {1, 2, 3};
    const struct envelope_label label = {.tenant = "acme", .object = "object", .purpose = "adapter"};
    struct worker_object object = {.tenant = "acme", .id = "object", .secret = secret};
    struct refusal refusal = {{0}};
    struct sealer *sealer;
    struct peft *peft = NULL;
    void *bytes = NULL;
    char path[1024];
    size_t count = 0;

    must(peft_open(file_of(model, adapter, "", path), &worker_model(worker)->config, 16, &peft, &refusal), &refusal);
    must(peft_write_bytes(&(struct peft_write){.source = &peft->source, .dims = &worker_model(worker)->config.dims, .alpha = peft->alpha_stated,
                                               .base = "base"},
                          path, &bytes, &count, &refusal),
         &refusal);
    object.file = open(file_of(model, adapter, "sealed", path), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    check(object.file >= 0 && sealer_open(&label, "object", secret, envelope_to_file, &object.file, &sealer) == STATUS_OK);
    check(sealer_put(sealer, bytes, count) == STATUS_OK && sealer_finish(sealer) == STATUS_OK);
    sealer_close(sealer);
    object.rank = (uint32_t)peft->rank_stated;
    core_adapter_key("acme", digest_text(peft->digest, object_names[adapter]), object.key);
    digest_text(object.key, object_names[adapter]);
    must(worker_object_add(worker, &object, &refusal), &refusal);
    peft_close(peft);
    free(bytes);
}

static struct worker *open_worker(const char *model, uint64_t host_bytes, bool is_sealed)
{
    struct worker_config config;
    struct refusal refusal = {{0}};
    struct worker *worker = NULL;

    worker_config_init(&config);
    config.model_directory = model;
    config.threads = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    config.slots = 1;
    config.rank_max = 16;
    config.host_bytes = host_bytes;
    config.positions_max = 1024;
    must(worker_open(&config, &worker, &refusal), &refusal);
    for (int i = 0; i < 3; i++) {
        char name[8];
        char path[1024];

        snprintf(name, sizeof(name), "a%d", i);
        if (is_sealed)
            seal(worker, model, i);
        else
            must(worker_adapter_add(worker, name, file_of(model, i, "", path), &refusal), &refusal);
    }
    return worker;
}

/* Out of the page cache: clean pages of a file go when asked. */
static void forget_file(const char *model, int adapter, const char *name)
{
    char path[1024];
    int fd;

    fd = open(file_of(model, adapter, name, path), O_RDONLY);
    if (fd < 0)
        return;
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof(values[0]), by_value);
    return values[ROUNDS / 2];
}

int main(int argc, char **argv)
{
    const char *only = argc > 2 ? argv[2] : NULL;
    static double ttft_ms[PLACES][ROUNDS];
    static double ratio[PLACES][ROUNDS];
    static double load_ms[PLACES][ROUNDS];
    struct worker *keeps;
    struct worker *passes;
    struct worker *opens;

    if (argc < 2 || (only != NULL && strcmp(only, "ttft_cold_over_warm") != 0 && strcmp(only, "adapter_load_ms") != 0))
        return argc < 2;
    keeps = open_worker(argv[1], UINT64_C(1) << 30, false);
    passes = open_worker(argv[1], 0, false); /* keeps nothing in host memory: every load reads the files */
    opens = open_worker(argv[1], 0, true);
    ask(keeps, "a0");
    ask(keeps, "a1");
    ask(passes, "a2");
    ask(opens, object_names[2]);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t ns[PLACES];

        ns[HOST] = ask(keeps, "a0"); /* the one slot has a1 */
        load_ms[HOST][round] = (double)worker_state(keeps).load_host_ns / 1e6;
        ns[WARM] = ask(keeps, "a0");
        forget_file(argv[1], round % 2, "adapter_model.safetensors");
        ns[DISK] = ask(passes, round % 2 == 0 ? "a0" : "a1");
        load_ms[DISK][round] = (double)worker_state(passes).load_store_ns / 1e6;
        forget_file(argv[1], round % 2, "sealed");
        ns[SEALED] = ask(opens, object_names[round % 2]);
        load_ms[SEALED][round] = (double)worker_state(opens).load_store_ns / 1e6;
        (void)ask(keeps, "a1");
        for (int place = 0; place < PLACES; place++) {
            ttft_ms[place][round] = (double)ns[place] / 1e6;
            ratio[place][round] = (double)ns[place] / (double)ns[WARM];
        }
    }
    for (int place = HOST; place < PLACES; place++) {
        if (only == NULL || strcmp(only, "ttft_cold_over_warm") == 0)
            printf("{\"name\": \"ttft_cold_over_warm\", \"case\": \"%s\", \"value\": %.3f, \"unit\": \"ratio\", \"goal\": 1.2, "
                   "\"ttft_ms\": %.1f, \"ttft_warm_ms\": %.1f, \"prompt_tokens\": %d, \"rounds\": %d}\n",
                   places[place], median(ratio[place]), median(ttft_ms[place]), median(ttft_ms[WARM]), PROMPT, ROUNDS);
        if (only == NULL || strcmp(only, "adapter_load_ms") == 0)
            printf("{\"name\": \"adapter_load_ms\", \"case\": \"%s\", \"value\": %.2f, \"unit\": \"ms\", \"rounds\": %d}\n", places[place],
                   median(load_ms[place]), ROUNDS);
    }
    worker_close(keeps);
    worker_close(passes);
    worker_close(opens);
    return 0;
}
