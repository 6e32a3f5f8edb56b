/* The results file, read back with the HDF5 C API as any other program would. */
#include "results/results.h"
#include "support.h"

#include <dirent.h>
#include <hdf5.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Two whole chunks and a part of a third. */
#define ROWS 20000

static char directory[64];
static char path[128];

static int directory_make(void **state)
{
    (void)state;
    snprintf(directory, sizeof(directory), "build/test-results-%ld", (long)getpid());
    snprintf(path, sizeof(path), "%s/run.h5", directory);
    return mkdir(directory, 0777);
}

static int directory_empty(void **state)
{
    (void)state;
    DIR *entries = opendir(directory);
    struct dirent *entry;
    char name[512];

    while ((entry = readdir(entries)) != NULL) {
        snprintf(name, sizeof(name), "%s/%s", directory, entry->d_name);
        if (entry->d_name[0] != '.')
            remove(name);
    }
    closedir(entries);
    return 0;
}

static int directory_remove(void **state)
{
    directory_empty(state);
    return rmdir(directory);
}

static uint32_t files_in_directory(void)
{
    DIR *entries = opendir(directory);
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

/* The row with an ordinal, the same whoever asks: statuses, missing instants and blame of every kind. */
static struct request_row row_make(uint64_t ordinal)
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

static struct replica_sample sample_make(uint32_t index)
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

static const struct run_facts facts = {
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

static struct results *variant_open(struct results_file *file, const char *name)
{
    struct scenario *scenario = scenario_make(name);
    struct results *results;

    assert_int_equal(results_open(file, scenario, 4, 7, &results), STATUS_OK);
    free(scenario); /* nothing of it is kept by reference */
    return results;
}

static void rows_write(struct results *results, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        /* Out of the order of arrival, as completions are. */
        struct request_row row = row_make(i ^ 1);

        results_request(results, &row);
    }
    for (uint32_t i = 0; i < 100; i++) {
        struct replica_sample sample = sample_make(i);

        results_sample(results, &sample);
    }
}

static void run_write(const char *at, uint64_t rows, bool partial)
{
    static struct summary summary;
    struct results_file *file;
    struct results *results;

    assert_int_equal(results_file_create(at, "name: files\n# seed=11\n", 11, stderr, &file), STATUS_OK);
    results = variant_open(file, "sticky");
    rows_write(results, rows);
    assert_int_equal(results_close(results, &facts, &summary, stderr), STATUS_OK);
    assert_int_equal(results_file_close(file, partial, stderr), STATUS_OK);
}

/* Reading back. */

static hid_t file_open(void)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);

    assert_true(file >= 0);
    return file;
}

/* The column, all of it, as 64-bit integers; the caller frees. */
static int64_t *column_read(hid_t file, const char *name, uint64_t *ret_count)
{
    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
    hid_t space;
    hsize_t count;
    int64_t *values;

    if (dataset < 0)
        fail_msg("no column %s", name);
    space = H5Dget_space(dataset);
    assert_int_equal(H5Sget_simple_extent_ndims(space), 1);
    H5Sget_simple_extent_dims(space, &count, NULL);
    values = malloc((count + 1) * sizeof(*values));
    assert_true(H5Dread(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Sclose(space);
    H5Dclose(dataset);
    *ret_count = count;
    return values;
}

static void attribute_text_is(hid_t file, const char *object, const char *name, const char *expected)
{
    hid_t attribute = H5Aopen_by_name(file, object, name, H5P_DEFAULT, H5P_DEFAULT);
    hid_t type;
    char *text = NULL;

    if (attribute < 0)
        fail_msg("%s has no attribute %s", object, name);
    type = H5Aget_type(attribute);
    assert_true(H5Tis_variable_str(type) > 0);
    assert_int_equal(H5Tget_cset(type), H5T_CSET_UTF8);
    assert_true(H5Aread(attribute, type, &text) >= 0);
    assert_string_equal(text, expected);
    H5free_memory(text);
    H5Tclose(type);
    H5Aclose(attribute);
}

static double attribute_number(hid_t file, const char *object, const char *name)
{
    hid_t attribute = H5Aopen_by_name(file, object, name, H5P_DEFAULT, H5P_DEFAULT);
    double value;

    if (attribute < 0)
        fail_msg("%s has no attribute %s", object, name);
    assert_true(H5Aread(attribute, H5T_NATIVE_DOUBLE, &value) >= 0);
    H5Aclose(attribute);
    return value;
}

static void requests_read_back_as_they_were_written(void **state)
{
    (void)state;
#define FIELDS(X)                                                                                                  \
    X("ordinal", row.ordinal) X("at_ns", row.at_ns) X("admitted_ns", row.admitted_ns)                              \
    X("first_token_ns", row.first_token_ns) X("done_ns", row.done_ns) X("adapter", row.adapter.index)              \
    X("adapter_version", row.adapter.version) X("tenant", row.tenant) X("base", row.base)                          \
    X("replica", row.replica) X("rank", row.rank) X("tier", row.tier) X("status", row.status)                      \
    X("reason", row.reason) X("prompt_tokens", row.prompt_tokens) X("output_tokens", row.output_tokens)            \
    X("recomputed_tokens", row.recomputed_tokens) X("attempt", row.attempt)                                        \
    X("blame_queue_ns", row.blame_ns[BLAME_QUEUE]) X("blame_slot_wait_ns", row.blame_ns[BLAME_SLOT_WAIT])          \
    X("blame_store_ns", row.blame_ns[BLAME_STORE]) X("blame_host_ns", row.blame_ns[BLAME_HOST])                    \
    X("blame_link_ns", row.blame_ns[BLAME_LINK]) X("blame_prefill_ns", row.blame_ns[BLAME_PREFILL])                \
    X("blame_interference_ns", row.blame_ns[BLAME_INTERFERENCE]) X("blame_decode_ns", row.blame_ns[BLAME_DECODE])  \
    X("blame_recompute_ns", row.blame_ns[BLAME_RECOMPUTE])
    uint64_t count;
    hid_t file;

    run_write(path, ROWS, false);
    file = file_open();
#define X(name, value)                                                                                   \
    {                                                                                                    \
        int64_t *values = column_read(file, "variants/sticky/requests/" name, &count);                   \
        assert_int_equal(count, ROWS);                                                                   \
        for (uint64_t i = 0; i < count; i++) {                                                           \
            struct request_row row = row_make(i ^ 1);                                                    \
            if (values[i] != (int64_t)(value))                                                           \
                fail_msg("%s of row %llu: read %lld, wrote %lld", name, (unsigned long long)i,           \
                         (long long)values[i], (long long)(value));                                      \
        }                                                                                                \
        free(values);                                                                                    \
    }
    FIELDS(X)
#undef X
    H5Fclose(file);
}

static void blame_columns_add_up_to_the_latency(void **state)
{
    (void)state;
    static const char *const names[] = {
#define X(name, word, about) "variants/sticky/requests/blame_" word "_ns",
        BLAME_LIST(X)
#undef X
    };
    uint64_t count;
    int64_t *at_ns;
    int64_t *done_ns;
    int64_t *status;
    hid_t file;

    run_write(path, ROWS, false);
    file = file_open();
    at_ns = column_read(file, "variants/sticky/requests/at_ns", &count);
    done_ns = column_read(file, "variants/sticky/requests/done_ns", &count);
    status = column_read(file, "variants/sticky/requests/status", &count);
    for (uint32_t part = 0; part < ARRAY_COUNT(names); part++) {
        int64_t *blame_ns = column_read(file, names[part], &count);

        for (uint64_t i = 0; i < count; i++)
            done_ns[i] -= blame_ns[i];
        free(blame_ns);
    }
    for (uint64_t i = 0; i < count; i++)
        if (status[i] == REQUEST_DONE)
            assert_int_equal(done_ns[i], at_ns[i]);
    free(at_ns);
    free(done_ns);
    free(status);
    H5Fclose(file);
}

struct walk {
    uint32_t datasets;
    uint32_t groups;
};

/* Every column says what it is, is chunked and compressed, and nothing knows the hour it was made. */
static herr_t object_check(hid_t file, const char *name, const H5O_info_t *info, void *context)
{
    struct walk *walk = context;
    hid_t dataset;
    hid_t plist;
    hsize_t chunk;
    unsigned flags;
    size_t values = 0;

    assert_true(info->ctime == 0 && info->mtime == 0 && info->btime == 0);
    walk->groups += info->type == H5O_TYPE_GROUP;
    if (info->type != H5O_TYPE_DATASET)
        return 0;
    walk->datasets++;
    dataset = H5Dopen2(file, name, H5P_DEFAULT);
    assert_true(H5Aexists(dataset, "unit") > 0);
    assert_true(H5Aexists(dataset, "about") > 0);
    plist = H5Dget_create_plist(dataset);
    assert_int_equal(H5Pget_chunk(plist, 1, &chunk), 1);
    assert_int_equal(chunk, 8192);
    assert_int_equal(H5Pget_nfilters(plist), 2);
    assert_int_equal(H5Pget_filter2(plist, 0, &flags, &values, NULL, 0, NULL, NULL), H5Z_FILTER_SHUFFLE);
    values = 0;
    assert_int_equal(H5Pget_filter2(plist, 1, &flags, &values, NULL, 0, NULL, NULL), H5Z_FILTER_DEFLATE);
    H5Pclose(plist);
    H5Dclose(dataset);
    return 0;
}

static void every_column_is_described_and_compressed_and_has_no_date(void **state)
{
    (void)state;
    struct walk walk = {0};
    hid_t file;

    run_write(path, 100, false);
    file = file_open();
    assert_true(H5Ovisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, object_check, &walk) >= 0);
    assert_int_equal(walk.datasets, 27 + 14 + 7);
    assert_int_equal(walk.groups, 1 + 1 + 1 + 4);
    attribute_text_is(file, "variants/sticky/requests/at_ns", "unit", "ns");
    attribute_text_is(file, "variants/sticky/requests/blame_link_ns", "about",
                      "its adapter was copied from host to GPU, or waited for that link");
    H5Fclose(file);
}

static void file_says_what_made_it(void **state)
{
    (void)state;
    hid_t file;

    run_write(path, 100, false);
    file = file_open();
    attribute_text_is(file, "/", "format", "berth-results-1");
    attribute_text_is(file, "/", "scenario", "name: files\n# seed=11\n");
    assert_true(H5Aexists(file, "berth_version") > 0);
    assert_true(attribute_number(file, "/", "seed") == 11);
    assert_true(attribute_number(file, "/", "partial") == 0);
    attribute_text_is(file, "variants/sticky", "name", "sticky");
    attribute_text_is(file, "variants/sticky", "digest", "00c0ffee00c0ffee");
    attribute_text_is(file, "variants/sticky", "notes", "adapters were assigned by a law\n");
    attribute_text_is(file, "variants/sticky/requests", "tier_names", "base,gpu,host,store");
    attribute_text_is(file, "variants/sticky/requests", "status_names", "done,refused,overload,timeout,unfinished");
    attribute_text_is(file, "variants/sticky/requests", "reason_names",
                      "none,too_long,adapter_too_large,adapter_unknown,adapter_lost,adapters_full,tenants_full,draining");
    assert_true(attribute_number(file, "variants/sticky", "arrivals_end_s") == 3000);
    assert_true(attribute_number(file, "variants/sticky", "measured_s") == 3000);
    assert_true(attribute_number(file, "variants/sticky", "completed") == 96);
    assert_true(attribute_number(file, "variants/sticky", "saturated") == 0);
    assert_true(attribute_number(file, "variants/sticky", "e2e_all_p99_ms") > 0);
    H5Fclose(file);
}

static void samples_tenants_and_counters_are_there(void **state)
{
    (void)state;
    uint64_t count;
    uint64_t requests = 0;
    int64_t *values;
    hid_t file;

    run_write(path, ROWS, false);
    file = file_open();
    values = column_read(file, "variants/sticky/replicas/prefill_tokens", &count);
    assert_int_equal(count, 100);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(values[i], 2 * i);
    free(values);
    values = column_read(file, "variants/sticky/tenants/requests", &count);
    assert_int_equal(count, 7);
    for (uint32_t i = 0; i < count; i++)
        requests += (uint64_t)values[i];
    assert_int_equal(requests, ROWS);
    free(values);
    assert_true(attribute_number(file, "variants/sticky/counters", "hits") == 1000);
    assert_true(attribute_number(file, "variants/sticky/counters", "misses") == 100);
    assert_true(attribute_number(file, "variants/sticky/counters", "loads") == 50);
    assert_true(attribute_number(file, "variants/sticky/counters", "node_hits") == 77);
    assert_true(attribute_number(file, "variants/sticky/counters", "evictions") == 55);
    H5Fclose(file);
}

static void two_variants_share_a_file_and_may_be_written_in_turns(void **state)
{
    (void)state;
    static struct summary summary;
    struct results_file *file;
    struct results *first;
    struct results *second;
    uint64_t count;
    int64_t *ordinals;
    hid_t read;

    assert_int_equal(results_file_create(path, "", 1, stderr, &file), STATUS_OK);
    first = variant_open(file, "evict/lru");
    second = variant_open(file, ".");
    for (uint64_t i = 0; i < 9000; i++) {
        struct request_row row = row_make(i);

        results_request(i % 3 == 0 ? first : second, &row);
    }
    assert_int_equal(results_close(first, &facts, &summary, stderr), STATUS_OK);
    assert_int_equal(results_close(second, &facts, &summary, stderr), STATUS_OK);
    assert_int_equal(results_file_close(file, false, stderr), STATUS_OK);

    read = file_open();
    attribute_text_is(read, "variants/evict_lru", "name", "evict/lru");
    ordinals = column_read(read, "variants/evict_lru/requests/ordinal", &count);
    assert_int_equal(count, 3000);
    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(ordinals[i], 3 * i);
    free(ordinals);
    ordinals = column_read(read, "variants/_/requests/ordinal", &count);
    assert_int_equal(count, 6000);
    free(ordinals);
    H5Fclose(read);
}

static void partial_file_is_whole_and_says_so(void **state)
{
    (void)state;
    uint64_t count;
    hid_t file;

    run_write(path, 8193, true);
    assert_int_equal(files_in_directory(), 1);
    file = file_open();
    assert_true(attribute_number(file, "/", "partial") == 1);
    free(column_read(file, "variants/sticky/requests/at_ns", &count));
    assert_int_equal(count, 8193);
    H5Fclose(file);
}

static void run_without_requests_leaves_empty_columns(void **state)
{
    (void)state;
    static struct summary summary;
    struct results_file *file;
    uint64_t count;
    hid_t read;

    assert_int_equal(results_file_create(path, "", 1, stderr, &file), STATUS_OK);
    assert_int_equal(results_close(variant_open(file, "none"), &facts, &summary, stderr), STATUS_OK);
    assert_int_equal(results_file_close(file, false, stderr), STATUS_OK);
    read = file_open();
    free(column_read(read, "variants/none/requests/at_ns", &count));
    assert_int_equal(count, 0);
    H5Fclose(read);
}

static uint64_t file_digest(const char *at, long *ret_bytes)
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

static void equal_runs_leave_equal_files(void **state)
{
    (void)state;
    char other[128];
    long bytes;
    long other_bytes;

    snprintf(other, sizeof(other), "%s/other.h5", directory);
    run_write(path, 10000, false);
    run_write(other, 10000, false);
    assert_int_equal(file_digest(path, &bytes), file_digest(other, &other_bytes));
    assert_int_equal(bytes, other_bytes);
}

/* Refusals. */

static char said[4096];

static FILE *errors_open(void)
{
    memset(said, 0, sizeof(said));
    return fmemopen(said, sizeof(said) - 1, "w");
}

static enum status create_at(const char *at)
{
    struct results_file *file = NULL;
    FILE *errors = errors_open();
    enum status status = results_file_create(at, "", 1, errors, &file);

    fclose(errors);
    assert_null(file);
    return status;
}

static void file_refuses_a_directory_that_is_not_there(void **state)
{
    (void)state;
    char absent[160];

    snprintf(absent, sizeof(absent), "%s/absent/run.h5", directory);
    assert_int_equal(create_at(absent), STATUS_IO);
    assert_non_null(strstr(said, absent));
    assert_non_null(strstr(said, "No such file or directory"));
    assert_int_equal(files_in_directory(), 0);
}

static void file_refuses_the_name_of_a_directory_before_the_run(void **state)
{
    (void)state;
    assert_int_equal(create_at(directory), STATUS_IO);
    assert_non_null(strstr(said, "it is a directory"));
}

static void file_refuses_a_directory_without_permission(void **state)
{
    (void)state;
    const bool super_user = geteuid() == 0; /* may write everywhere, so it is nobody for a moment */

    assert_int_equal(chmod(directory, 0555), 0);
    if (super_user)
        assert_int_equal(seteuid(65534), 0);
    assert_int_equal(create_at(path), STATUS_IO);
    if (super_user)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(directory, 0777), 0);
    assert_non_null(strstr(said, "Permission denied"));
    assert_int_equal(files_in_directory(), 0);
}

static void variant_of_a_name_already_there_is_refused(void **state)
{
    (void)state;
    static struct summary summary;
    struct scenario *scenario = scenario_make("twin");
    struct results_file *file;
    struct results *first;
    struct results *second = NULL;
    FILE *errors = errors_open();

    assert_int_equal(results_file_create(path, "", 1, errors, &file), STATUS_OK);
    assert_int_equal(results_open(file, scenario, 4, 7, &first), STATUS_OK);
    assert_int_equal(results_open(file, scenario, 4, 7, &second), STATUS_IO);
    assert_null(second);
    assert_int_equal(results_close(first, &facts, &summary, errors), STATUS_IO);
    assert_int_equal(results_file_close(file, false, errors), STATUS_IO);
    fclose(errors);
    free(scenario);
    assert_non_null(strstr(said, path));
    assert_int_equal(files_in_directory(), 0);
}

/* A limit on file sizes stands in for a full disk: the same refusal of write(). Rows that deflate cannot shrink. */
static void run_on_a_full_disk(uint64_t room_bytes, uint64_t rows, const char *expected)
{
    static struct summary summary;
    struct rlimit limit;
    struct rlimit small;
    struct results_file *file;
    struct results *results;
    FILE *errors = errors_open();
    FILE *older = fopen(path, "w");
    uint64_t random = 5;
    char *first;
    long bytes;

    fputs("older", older);
    fclose(older);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = room_bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(results_file_create(path, "", 1, errors, &file), STATUS_OK);
    results = variant_open(file, "full");
    for (uint64_t i = 0; i < rows; i++) {
        struct request_row row = row_make(i % ROWS);

        row.ordinal = draw(&random);
        row.at_ns = (int64_t)draw_below(&random, 3000 * NS_PER_S);
        row.status = REQUEST_UNFINISHED;
        row.done_ns = -1;
        row.admitted_ns = (int64_t)(draw(&random) >> 1);
        results_request(results, &row);
    }
    (void)results_close(results, &facts, &summary, errors); /* the refusal may come with the last bytes only */
    assert_int_equal(results_file_close(file, false, errors), STATUS_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    fclose(errors);

    assert_int_equal(summary.unfinished, rows); /* the numbers are not lost with the file */
    first = strstr(said, expected);
    if (first == NULL)
        fail_msg("expected \"%s\", said \"%s\"", expected, said);
    assert_null(strstr(first + 1, "cannot"));
    assert_non_null(strstr(said, path));
    assert_int_equal(files_in_directory(), 1);
    file_digest(path, &bytes);
    assert_int_equal(bytes, 5);
}

static void full_disk_is_said_once_and_leaves_the_older_file(void **state)
{
    (void)state;
    run_on_a_full_disk(1000000, 40000, "cannot write requests: File too large");
}

static void disk_that_fills_with_the_last_bytes_is_said_too(void **state)
{
    (void)state;
    run_on_a_full_disk(2000, 0, "cannot write what was gathered: File too large");
}

static void summary_alone_needs_no_file(void **state)
{
    (void)state;
    static struct summary summary;
    struct results *results = variant_open(NULL, "none");

    rows_write(results, 1000);
    assert_int_equal(results_close(results, &facts, &summary, stderr), STATUS_OK);
    assert_int_equal(summary.arrived, 1000);
    assert_int_equal(summary.completed, 960);
    assert_int_equal(summary.refused, 20);
    assert_int_equal(summary.by_reason[1], 20);
    assert_int_equal(summary.unfinished, 20);
    assert_int_equal(files_in_directory(), 0);
}

struct attempt {
    struct results *results;
    struct request_row row;
};

static void attempt_request(void *context)
{
    struct attempt *attempt = context;

    results_request(attempt->results, &attempt->row);
}

static void blame_that_does_not_add_up_is_a_mistake_of_ours(void **state)
{
    (void)state;
    static struct summary summary;
    struct attempt attempt = {variant_open(NULL, "none"), row_make(2)};

    assert_false(check_stops(attempt_request, &attempt));
    attempt.row.blame_ns[BLAME_DECODE] += 1;
    assert_true(check_stops(attempt_request, &attempt));
    attempt.row.blame_ns[BLAME_PREFILL] -= 1; /* the sum is right again */
    assert_false(check_stops(attempt_request, &attempt));
    attempt.row = row_make(2);
    attempt.row.blame_ns[BLAME_DECODE] += attempt.row.blame_ns[BLAME_QUEUE] + 1;
    attempt.row.blame_ns[BLAME_QUEUE] = -1; /* the sum is right, but no time is negative */
    assert_true(check_stops(attempt_request, &attempt));
    attempt.row = row_make(2);
    attempt.row.tenant = 7;
    assert_true(check_stops(attempt_request, &attempt));
    assert_int_equal(results_close(attempt.results, &facts, &summary, stderr), STATUS_OK);
    assert_int_equal(summary.completed, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, directory_empty)
    const struct CMUnitTest tests[] = {
        TEST(requests_read_back_as_they_were_written),
        TEST(blame_columns_add_up_to_the_latency),
        TEST(every_column_is_described_and_compressed_and_has_no_date),
        TEST(file_says_what_made_it),
        TEST(samples_tenants_and_counters_are_there),
        TEST(two_variants_share_a_file_and_may_be_written_in_turns),
        TEST(partial_file_is_whole_and_says_so),
        TEST(run_without_requests_leaves_empty_columns),
        TEST(equal_runs_leave_equal_files),
        TEST(file_refuses_a_directory_that_is_not_there),
        TEST(file_refuses_the_name_of_a_directory_before_the_run),
        TEST(file_refuses_a_directory_without_permission),
        TEST(variant_of_a_name_already_there_is_refused),
        TEST(full_disk_is_said_once_and_leaves_the_older_file),
        TEST(disk_that_fills_with_the_last_bytes_is_said_too),
        TEST(summary_alone_needs_no_file),
        TEST(blame_that_does_not_add_up_is_a_mistake_of_ours),
    };

    return cmocka_run_group_tests(tests, directory_make, directory_remove);
}
