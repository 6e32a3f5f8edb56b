#include "sim/results/rig.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char results_directory[64];
char results_path[128];

int results_directory_make(void **state)
{
    (void)state;
    snprintf(results_directory, sizeof(results_directory), "build/test-results-%ld", (long)getpid());
    snprintf(results_path, sizeof(results_path), "%s/run.h5", results_directory);
    return mkdir(results_directory, 0777);
}

int results_directory_empty(void **state)
{
    (void)state;
    DIR *entries = opendir(results_directory);
    struct dirent *entry;
    char name[512];

    while ((entry = readdir(entries)) != NULL) {
        snprintf(name, sizeof(name), "%s/%s", results_directory, entry->d_name);
        if (entry->d_name[0] != '.')
            remove(name);
    }
    closedir(entries);
    return 0;
}

int results_directory_remove(void **state)
{
    results_directory_empty(state);
    return rmdir(results_directory);
}

uint32_t results_files_count(void)
{
    DIR *entries = opendir(results_directory);
    struct dirent *entry;
    uint32_t count = 0;

    while ((entry = readdir(entries)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(entries);
    return count;
}

static struct scenario *scenario_make(const char *variant)
{
    struct scenario *scenario = calloc(1, sizeof(*scenario));

    strcpy(scenario->name, "files");
    snprintf(scenario->variant, sizeof(scenario->variant), "%s", variant);
    scenario->seed = 11;
    scenario->duration_s = 3600;
    scenario->slo.ttft_ms = 1000;
    return scenario;
}

struct request_row results_row(uint64_t ordinal)
{
    uint64_t random = ordinal * 977 + 3;
    struct request_row row = {
        .ordinal = ordinal,
        .at_ns = (int64_t)ordinal * 150000000 + (int64_t)draw_below(&random, 100000000),
        .admitted_ns = -1,
        .first_token_ns = -1,
        .done_ns = -1,
        .adapter = {(uint32_t)draw_below(&random, 1000), 1 + (uint32_t)draw_below(&random, 3)},
        .tenant = (uint32_t)draw_below(&random, 7),
        .base = (uint16_t)draw_below(&random, 2),
        .replica = (uint16_t)draw_below(&random, 4),
        .rank = 16,
        .tier = (uint8_t)draw_below(&random, TIER_COUNT),
        .prompt_tokens = 1 + (uint32_t)draw_below(&random, 8000),
        .output_tokens = 1 + (uint32_t)draw_below(&random, 2000),
        .attempt = (uint32_t)draw_below(&random, 2),
    };

    if (ordinal % 50 == 0) {
        row.status = REQUEST_REFUSED;
        row.reason = 1;
        row.replica = UINT16_MAX;
        row.done_ns = row.at_ns;
        return row;
    }
    if (ordinal % 50 == 1) {
        row.status = REQUEST_UNFINISHED;
        return row;
    }
    row.status = REQUEST_DONE;
    row.done_ns = row.at_ns;
    for (uint32_t i = 0; i < BLAME_COUNT; i++) {
        /* Link times are the same for all, recompute is rare: columns as they are in practice. */
        row.blame_ns[i] = i == BLAME_LINK        ? 3355443
                          : i == BLAME_RECOMPUTE ? (ordinal % 1000 == 7 ? 12345678 : 0)
                                                 : (int64_t)draw_below(&random, 100000000);
        row.done_ns += row.blame_ns[i];
    }
    row.admitted_ns = row.at_ns + row.blame_ns[BLAME_QUEUE];
    row.first_token_ns = row.admitted_ns;
    row.recomputed_tokens = row.blame_ns[BLAME_RECOMPUTE] > 0 ? 99 : 0;
    return row;
}

struct replica_sample results_sample_make(uint32_t index)
{
    return (struct replica_sample){
        .at_ns = NS_PER_S * (1 + index / 4),
        .replica = index % 4,
        .waiting = index % 9,
        .running = index % 31,
        .loading = index % 3,
        .kv_share = (float)(index % 100) / 100,
        .slots_share = 0.5f,
        .slots_pinned_share = 0.25f,
        .busy_share = 0.75f,
        .output_tokens = index,
        .prefill_tokens = 2 * index,
        .loads = index % 2,
        .hits = 10,
        .misses = 1,
    };
}

const struct run_facts results_facts = {
    .warmup_until_ns = 0,
    .arrivals_end_ns = 3000 * NS_PER_S,
    .end_ns = 3100 * NS_PER_S,
    .events = 12345,
    .digest = UINT64_C(0x00c0ffee00c0ffee),
    .gpus = 4,
    .node_hits = 77,
    .evictions = 55,
    .notes = "adapters were assigned by a law\n",
};

struct results *results_variant_open(struct results_file *file, const char *name)
{
    struct scenario *scenario = scenario_make(name);
    struct results *results;

    assert_int_equal(results_open(file, scenario, 4, 7, &results), STATUS_OK);
    free(scenario); /* nothing of it is kept by reference */
    return results;
}

void results_rows_write(struct results *results, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        /* Out of the order of arrival, as completions are. */
        struct request_row row = results_row(i ^ 1);

        results_request(results, &row);
    }
    for (uint32_t i = 0; i < 100; i++) {
        struct replica_sample sample = results_sample_make(i);

        results_sample(results, &sample);
    }
}

void results_run_write(const char *at, uint64_t rows, bool partial)
{
    static struct summary summary;
    struct results_file *file;
    struct results *results;

    assert_int_equal(results_file_create(at, "name: files\n# seed=11\n", 11, stderr, &file), STATUS_OK);
    results = results_variant_open(file, "sticky");
    results_rows_write(results, rows);
    assert_int_equal(results_close(results, &results_facts, &summary, stderr), STATUS_OK);
    assert_int_equal(results_file_close(file, partial, stderr), STATUS_OK);
}

uint64_t results_file_digest(const char *at, long *ret_bytes)
{
    FILE *file = fopen(at, "rb");
    uint64_t digest = 0;
    int byte;

    assert_non_null(file);
    while ((byte = fgetc(file)) != EOF)
        digest = digest * 1099511628211u + (uint64_t)byte + 1;
    *ret_bytes = ftell(file);
    fclose(file);
    return digest;
}

