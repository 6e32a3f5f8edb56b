#include "validate/slora_run.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "model/footprint.h"
#include "validate/slora_draw.h"

/* Mean tokens of a row of a full batch: the prompt and half of what a row that is seen decoding writes. */
static double row_tokens_mean(const struct slora_row *row)
{
    double longest = row->output_below - 1.0;
    double shortest = row->output_from;
    double mean = (shortest + longest) / 2;
    double square = (longest * longest + longest * shortest + shortest * shortest) / 3;

    return (row->prompt_from + row->prompt_below - 1.0) / 2 + square / mean / 2;
}

/* Tokens' room that the adapters of a batch of `rows` take. */
static double adapters_tokens(const struct slora_row *row, double rows)
{
    static const uint32_t s2_ranks[] = {64, 32, 16, 8};
    double sum = 0;

    for (uint32_t i = 0; i < row->adapters; i++) {
        double share = pow((i + 1.0) / row->adapters, row->alpha) - pow((double)i / row->adapters, row->alpha);
        uint32_t rank = row->setting == SLORA_SETTING_S1 ? 8 : s2_ranks[i % ARRAY_COUNT(s2_ranks)];

        sum += 4.0 * rank * (1 - pow(1 - share, rows));
    }
    return sum;
}

/* The batch that fills the pool together with its adapters: the fixed point, by bisection. */
static double adapters_tokens_full(const struct slora_row *row, double pool_tokens)
{
    double least = 0;
    double most = pool_tokens;

    for (uint32_t i = 0; i < 60; i++) {
        double rows = (least + most) / 2;

        if (rows * row_tokens_mean(row) + adapters_tokens(row, rows) > pool_tokens)
            most = rows;
        else
            least = rows;
    }
    return adapters_tokens(row, least);
}

static enum status write_trace(const struct slora_request *requests, uint32_t count, FILE *errors, char ret_path[256])
{
    const char *folder = getenv("TMPDIR");
    FILE *file = NULL;
    int descriptor;
    bool written;

    snprintf(ret_path, 256, "%s/berth-slora-XXXXXX", folder != NULL && folder[0] != '\0' ? folder : "/tmp");
    descriptor = mkstemp(ret_path);
    if (descriptor >= 0)
        file = fdopen(descriptor, "w");
    if (file == NULL) {
        fprintf(errors, "%s: cannot be created: %s\n", ret_path, strerror(errno));
        if (descriptor >= 0)
            close(descriptor);
        ret_path[0] = '\0';
        return STATUS_IO;
    }
    for (uint32_t i = 0; i < count; i++) {
        fprintf(file, "%" PRId64 ",%u,%u,", requests[i].at_ns, requests[i].prompt_tokens, requests[i].output_tokens);
        fprintf(file, requests[i].adapter > 0 ? "a%u\n" : "\n", requests[i].adapter);
    }
    written = !ferror(file);
    if (fclose(file) != 0 || !written) {
        fprintf(errors, "%s: cannot be written\n", ret_path);
        return STATUS_IO;
    }
    return STATUS_OK;
}

#define SETTINGS_MAX 24
struct settings {
    char texts[SETTINGS_MAX][512];
    const char *pointers[SETTINGS_MAX];
    uint32_t count;
};

#define SET(settings, ...)                                                                         \
    do {                                                                                           \
        check((settings)->count < SETTINGS_MAX);                                                   \
        snprintf((settings)->texts[(settings)->count], sizeof((settings)->texts[0]), __VA_ARGS__); \
        (settings)->pointers[(settings)->count] = (settings)->texts[(settings)->count];            \
        (settings)->count++;                                                                       \
    } while (0)

static void set_workload(struct settings *settings, const struct slora_row *row, const char *trace_path, double last_s)
{
    static const char *const ranks[] = {
#define X(name, text, ranks) ranks,
        SLORA_SETTING_LIST(X)
#undef X
    };

    SET(settings, "duration_s=%.9g", ceil(last_s) + 1);
    SET(settings, "drain_max_s=1e6");
    SET(settings, "workload.source=trace");
    SET(settings, "workload.trace.format=csv");
    SET(settings, "workload.trace.path=%s", trace_path);
    SET(settings, "workload.trace.time_column=1");
    SET(settings, "workload.trace.time_unit=ns");
    SET(settings, "workload.trace.prompt_column=2");
    SET(settings, "workload.trace.output_column=3");
    SET(settings, "workload.trace.adapter_column=4");
    SET(settings, "workload.adapters.ranks=[%s]", ranks[row->setting]);
    SET(settings, "pool.waiting_max=%u", max_u32(row->requests, 1000));
}

/* The file's kv_bytes and slots_bytes are the pool's two parts; this row's split follows from its adapters. */
static void split_pool(struct settings *settings, const struct slora_row *row, const struct scenario_pool *pool)
{
    double token_bytes = (double)footprint_kv_bytes_per_token(&pool->shape);
    double pool_bytes = pool->keys.kv_bytes + pool->keys.slots_bytes;
    double adapters_bytes = adapters_tokens_full(row, pool_bytes / token_bytes) * token_bytes;

    SET(settings, "pool.kv_bytes=%.0f", pool_bytes - adapters_bytes);
    SET(settings, "pool.slots_bytes=%.0f", adapters_bytes + SLORA_SLACK_BYTES);
    SET(settings, "pool.max_loras=65534");
}

/* Warnings are swallowed: the split is meant. */
static enum status read_quietly(const char *path, const struct settings *settings, FILE *errors, struct scenario_set *ret_set)
{
    char *said = NULL;
    size_t bytes = 0;
    FILE *quiet = open_memstream(&said, &bytes);
    enum status status;

    check(quiet != NULL);
    status = scenario_read(path, settings->pointers, settings->count, quiet, ret_set);
    fclose(quiet);
    if (status != STATUS_OK)
        fputs(said, errors);
    free(said);
    return status;
}

static enum status read_scenario(struct slora_case *test, const char *scenarios, double last_s, FILE *errors)
{
    struct settings *settings = calloc(1, sizeof(*settings));
    struct scenario_set plain = {0};
    char path[1024];
    enum status status;

    check(settings != NULL);
    snprintf(path, sizeof(path), "%s/slora-%s.yaml", scenarios, slora_gpu_name(test->row->gpu));
    status = read_quietly(path, settings, errors, &plain);
    if (status == STATUS_OK) {
        set_workload(settings, test->row, test->trace_path, last_s);
        split_pool(settings, test->row, &plain.items[0].pools[0]);
        status = read_quietly(path, settings, errors, &test->set);
    }
    scenario_set_free(&plain);
    free(settings);
    return status;
}

enum status slora_case_open(const struct slora_row *row, const char *scenarios, FILE *errors, struct slora_case *ret_case)
{
    struct slora_request *requests = calloc(row->requests, sizeof(*requests));
    enum status status;

    check(requests != NULL);
    *ret_case = (struct slora_case){.row = row};
    status = slora_draw(row, requests);
    if (status == STATUS_OK)
        status = write_trace(requests, row->requests, errors, ret_case->trace_path);
    if (status == STATUS_OK)
        status = read_scenario(ret_case, scenarios, (double)requests[row->requests - 1].at_ns * 1e-9, errors);
    free(requests);
    if (status != STATUS_OK)
        slora_case_close(ret_case);
    return status;
}

void slora_case_close(struct slora_case *test)
{
    if (test->trace_path[0] != '\0')
        (void)unlink(test->trace_path);
    scenario_set_free(&test->set);
    memset(test, 0, sizeof(*test));
}

enum status slora_case_run(const struct slora_case *test, const struct gpu_profile *profile, FILE *errors,
                           struct slora_outcome *ret_outcome)
{
    struct sim_options options = {0};
    struct scenario *scenario = malloc(sizeof(*scenario));
    struct summary *summary = calloc(1, sizeof(*summary));
    const struct latency *latency;
    enum status status;

    check(scenario != NULL && summary != NULL);
    *scenario = test->set.items[0];
    if (profile != NULL)
        scenario->pools[0].profile = *profile;
    status = sim_run(scenario, NULL, &options, errors, summary);
    if (status == STATUS_OK && summary->completed != test->row->requests) {
        fprintf(errors, "%s:%u: %" PRIu64 " of %u requests were completed (%" PRIu64 " refused, %" PRIu64 " unfinished)\n",
                test->row->file, test->row->line, summary->completed, test->row->requests, summary->refused,
                summary->unfinished);
        status = STATUS_INVALID;
    }
    if (status == STATUS_OK) {
        latency = summary->latency[CLASS_ALL];
        *ret_outcome = (struct slora_outcome){
            .predicted.of = {[SLORA_METRIC_THROUGHPUT] = (double)summary->completed / ((double)summary->facts.end_ns * 1e-9),
                             [SLORA_METRIC_LATENCY] = latency[METRIC_E2E].mean_ns * 1e-9,
                             [SLORA_METRIC_TTFT] = latency[METRIC_TTFT].mean_ns * 1e-9},
            .kv_tokens = summary->facts.kv_tokens_per_replica,
            .preempted = summary->preempted_requests,
            .last_arrival_s = (double)summary->facts.arrivals_end_ns * 1e-9,
        };
    }
    free(summary);
    free(scenario);
    return status;
}
