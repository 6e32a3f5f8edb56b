/* The results file, read back with the HDF5 C API as any other program would. */
#include "sim/results/rig.h"

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

static hid_t file_open(void)
{
    hid_t file = H5Fopen(results_path, H5F_ACC_RDONLY, H5P_DEFAULT);

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

    results_run_write(results_path, ROWS, false);
    file = file_open();
#define X(name, value)                                                                                   \
    {                                                                                                    \
        int64_t *values = column_read(file, "variants/sticky/requests/" name, &count);                   \
        assert_int_equal(count, ROWS);                                                                   \
        for (uint64_t i = 0; i < count; i++) {                                                           \
            struct request_row row = results_row(i ^ 1);                                                    \
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

    results_run_write(results_path, ROWS, false);
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

    results_run_write(results_path, 100, false);
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

    results_run_write(results_path, 100, false);
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

    results_run_write(results_path, ROWS, false);
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

    assert_int_equal(results_file_create(results_path, "", 1, stderr, &file), STATUS_OK);
    first = results_variant_open(file, "evict/lru");
    second = results_variant_open(file, ".");
    for (uint64_t i = 0; i < 9000; i++) {
        struct request_row row = results_row(i);

        results_request(i % 3 == 0 ? first : second, &row);
    }
    assert_int_equal(results_close(first, &results_facts, &summary, stderr), STATUS_OK);
    assert_int_equal(results_close(second, &results_facts, &summary, stderr), STATUS_OK);
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

    results_run_write(results_path, 8193, true);
    assert_int_equal(results_files_count(), 1);
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

    assert_int_equal(results_file_create(results_path, "", 1, stderr, &file), STATUS_OK);
    assert_int_equal(results_close(results_variant_open(file, "none"), &results_facts, &summary, stderr), STATUS_OK);
    assert_int_equal(results_file_close(file, false, stderr), STATUS_OK);
    read = file_open();
    free(column_read(read, "variants/none/requests/at_ns", &count));
    assert_int_equal(count, 0);
    H5Fclose(read);
}

static void equal_runs_leave_equal_files(void **state)
{
    (void)state;
    char other[128];
    long bytes;
    long other_bytes;

    snprintf(other, sizeof(other), "%s/other.h5", results_directory);
    results_run_write(results_path, 10000, false);
    results_run_write(other, 10000, false);
    assert_int_equal(results_file_digest(results_path, &bytes), results_file_digest(other, &other_bytes));
    assert_int_equal(bytes, other_bytes);
}

static void summary_alone_needs_no_file(void **state)
{
    (void)state;
    static struct summary summary;
    struct results *results = results_variant_open(NULL, "none");

    results_rows_write(results, 1000);
    assert_int_equal(results_close(results, &results_facts, &summary, stderr), STATUS_OK);
    assert_int_equal(summary.arrived, 1000);
    assert_int_equal(summary.completed, 960);
    assert_int_equal(summary.refused, 20);
    assert_int_equal(summary.by_reason[1], 20);
    assert_int_equal(summary.unfinished, 20);
    assert_int_equal(results_files_count(), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, results_directory_empty)
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
        TEST(summary_alone_needs_no_file),
    };

    return cmocka_run_group_tests(tests, results_directory_make, results_directory_remove);
}
