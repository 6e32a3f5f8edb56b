/* The tables of jobs in the results file, read back with the HDF5 C API as any other program would. */
#include "sim/results/jobs_rig.h"
#include "sim/results/rig.h"

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>

#define JOBS 9000 /* a whole chunk and a part of another */

static struct summary summary;

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
    assert_true(H5Aexists(dataset, "unit") > 0);
    assert_true(H5Aexists(dataset, "about") > 0);
    space = H5Dget_space(dataset);
    H5Sget_simple_extent_dims(space, &count, NULL);
    values = malloc((count + 1) * sizeof(*values));
    assert_true(H5Dread(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Sclose(space);
    H5Dclose(dataset);
    *ret_count = count;
    return values;
}

static void attribute_is(hid_t file, const char *object, const char *name, const char *expected)
{
    hid_t attribute = H5Aopen_by_name(file, object, name, H5P_DEFAULT, H5P_DEFAULT);
    hid_t type;
    char *text = NULL;

    if (attribute < 0)
        fail_msg("%s has no attribute %s", object, name);
    type = H5Aget_type(attribute);
    assert_true(H5Aread(attribute, type, &text) >= 0);
    assert_string_equal(text, expected);
    H5free_memory(text);
    H5Tclose(type);
    H5Aclose(attribute);
}

static struct placement_row placement_make(uint64_t i)
{
    const bool open = i % 7 == 0;

    return (struct placement_row){
        .job = i / 2, .from_ns = (int64_t)i * 10, .started_ns = i % 3 == 0 ? -1 : (int64_t)i * 10 + 1,
        .until_ns = open ? -1 : (int64_t)i * 10 + 5, .tenant = (uint32_t)(i % 3), .attempt = (uint32_t)(i % 5),
        .node = (uint16_t)(i % 4), .gpu_mask = (uint16_t)(0x8001 + i % 9), .base = (uint16_t)(i % 2), .flavor = (uint16_t)(i % 2),
        .slice = (uint16_t)(i % 300), .how = open ? PLACEMENT_OPEN : (uint8_t)(i % 3), .base_hit = i % 2 == 0};
}

static struct residency_row residency_make(uint64_t i)
{
    return (struct residency_row){.from_ns = (int64_t)i, .ready_ns = i % 5 == 0 ? -1 : (int64_t)i + 2,
                                  .until_ns = i % 4 == 0 ? -1 : (int64_t)i + 9, .node = (uint16_t)(i % 3),
                                  .gpu_mask = (uint16_t)(1 + i % 16), .base = (uint16_t)(i % 2), .source = (uint16_t)(i % 3)};
}

static struct capacity_sample sample_make(uint64_t i)
{
    return (struct capacity_sample){.at_ns = (int64_t)(i / 2) * NS_PER_S, .flavor = (uint32_t)(i % 2), .gpus = 24,
                                    .claimed = (uint32_t)(i % 25), .pending = (uint32_t)i, .running = (uint32_t)(i % 30),
                                    .pending_gpus = (uint32_t)(3 * i), .claimed_share = 1, .computing_share = 0};
}

static void rows_write(struct results *results)
{
    for (uint64_t i = 0; i < JOBS; i++) {
        const struct job_row row = jobs_rig_any(i);

        results_job(results, &row);
    }
    for (uint64_t i = 0; i < 500; i++) {
        const struct placement_row placement = placement_make(i);
        const struct residency_row residency = residency_make(i);
        const struct capacity_sample sample = sample_make(i);

        results_placement(results, &placement);
        results_residency(results, &residency);
        results_capacity(results, &sample);
    }
}

static void run_write(const char *at)
{
    const struct jobs_facts facts = jobs_rig_facts(NULL);
    struct results_file *file;
    struct results *results;

    assert_int_equal(results_file_create(at, "name: jobs\n", 3, stderr, &file), STATUS_OK);
    results = jobs_rig_open(file, jobs_rig_scenario("spot"));
    rows_write(results);
    assert_int_equal(jobs_rig_close(results, &facts, &summary), STATUS_OK);
    assert_int_equal(results_file_close(file, false, stderr), STATUS_OK);
    summary_free(&summary);
}

#define COLUMN_IS(table, rows, make, field)                                                                          \
    {                                                                                                                \
        uint64_t count;                                                                                              \
        int64_t *values = column_read(file, "variants/spot/" table "/" #field, &count);                              \
                                                                                                                     \
        assert_int_equal(count, rows);                                                                               \
        for (uint64_t i = 0; i < count; i++)                                                                         \
            if (values[i] != (int64_t)make(i).field)                                                                 \
                fail_msg("%s of row %llu: read %lld, wrote %lld", #field, (unsigned long long)i, (long long)values[i], \
                         (long long)make(i).field);                                                                  \
        free(values);                                                                                                \
    }

static void every_field_of_every_row_reads_back(void **state)
{
    (void)state;
    hid_t file;

    run_write(results_path);
    file = file_open();
#define X(field) COLUMN_IS("jobs", JOBS, jobs_rig_any, field)
    X(ordinal) X(submitted_ns) X(started_ns) X(ended_ns) X(size_ns) X(held_gpu_ns) X(compute_gpu_ns) X(lost_gpu_ns)
    X(checkpoint_gpu_ns) X(load_gpu_ns) X(tokens) X(refuse_need) X(refuse_have) X(tenant) X(kind) X(base) X(gpus) X(rank)
    X(priority) X(stage) X(isolation) X(outcome) X(reason) X(base_hit) X(deadline_ns) X(deadline_missed) X(follows)
    X(attempts) X(reclaims) X(preempts) X(notices) X(serving_stops) X(losses)
#undef X
#define X(field) COLUMN_IS("placements", 500, placement_make, field)
    X(job) X(from_ns) X(started_ns) X(until_ns) X(tenant) X(attempt) X(node) X(gpu_mask) X(base) X(flavor) X(slice) X(how)
    X(base_hit)
#undef X
#define X(field) COLUMN_IS("residency", 500, residency_make, field)
    X(from_ns) X(ready_ns) X(until_ns) X(node) X(gpu_mask) X(base) X(source)
#undef X
#define X(field) COLUMN_IS("capacity", 500, sample_make, field)
    X(at_ns) X(flavor) X(gpus) X(claimed) X(pending) X(running) X(pending_gpus) X(claimed_share) X(computing_share)
#undef X
    H5Fclose(file);
}

static void indexes_are_explained(void **state)
{
    (void)state;
    hid_t file;

    run_write(results_path);
    file = file_open();
    attribute_is(file, "variants/spot/jobs", "outcome_names", "done,failed,cancelled,refused,overload,unfinished");
    attribute_is(file, "variants/spot/jobs", "stage_names", "train,evaluate,interactive");
    attribute_is(file, "variants/spot/jobs", "isolation_names", "exclusive,mig,mps,time-slice");
    attribute_is(file, "variants/spot/jobs", "reason_names",
                 "none,memory,gang,quota,isolation,stage,unknown_tenant,unknown_base,jobs_full");
    attribute_is(file, "variants/spot/jobs", "kind_1", "large, \"very\"");
    attribute_is(file, "variants/spot/placements", "base_1", "llama-70b");
    attribute_is(file, "variants/spot/placements", "how_names", "done,yielded,lost,open");
    attribute_is(file, "variants/spot/residency", "source_names", "page cache,disk,object store");
    attribute_is(file, "variants/spot/capacity", "flavor_1", "h100-spot");
    attribute_is(file, "variants/spot/ledger", "component_names",
                 "base residency,exclusive memory,compute,loading,unused reservation,idle,borrowing discount,storage");
    attribute_is(file, "variants/spot/jobs/lost_gpu_ns", "unit", "GPU ns");
    H5Fclose(file);
}

static void ledger_in_the_file_adds_up_to_the_bill(void **state)
{
    (void)state;
    uint64_t count;
    int64_t sum_nano = 0;
    hid_t file;

    run_write(results_path);
    file = file_open();
    int64_t *tenants = column_read(file, "variants/spot/ledger/tenant", &count);
    int64_t *components = column_read(file, "variants/spot/ledger/component", &count);
    int64_t *amounts = column_read(file, "variants/spot/ledger/amount_nano", &count);

    assert_int_equal(count, (JOBS_RIG_TENANTS + 1) * CHARGE_COUNT);
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(tenants[i], i < JOBS_RIG_TENANTS * CHARGE_COUNT ? (int64_t)(i / CHARGE_COUNT) : (int64_t)UINT32_MAX);
        assert_int_equal(components[i], (int64_t)(i % CHARGE_COUNT));
        assert_int_equal(amounts[i], jobs_rig_cost_nano[i]);
        sum_nano += amounts[i];
    }
    assert_int_equal(sum_nano, jobs_rig_facts(NULL).bill_nano);
    free(tenants);
    free(components);
    free(amounts);
    H5Fclose(file);
}

static void tenants_of_the_file_are_those_of_the_rows(void **state)
{
    (void)state;
    uint64_t count;
    int64_t submitted = 0;
    int64_t jobs = 0;
    hid_t file;

    run_write(results_path);
    file = file_open();
    int64_t *values = column_read(file, "variants/spot/job_tenants/submitted", &count);

    assert_int_equal(count, JOBS_RIG_TENANTS);
    for (uint64_t i = 0; i < count; i++)
        submitted += values[i];
    for (uint64_t i = 0; i < JOBS; i++)
        jobs += !jobs_rig_any(i).follows;
    assert_int_equal(submitted, jobs);
    free(values);
    H5Fclose(file);
}

static void run_without_jobs_has_no_table_of_them(void **state)
{
    (void)state;
    static const char *const tables[] = {"jobs", "placements", "residency", "capacity", "ledger", "job_tenants"};
    hid_t file;

    results_run_write(results_path, 100, false);
    file = file_open();
    for (size_t i = 0; i < ARRAY_COUNT(tables); i++) {
        char path[64];

        snprintf(path, sizeof(path), "variants/sticky/%s", tables[i]);
        assert_int_equal(H5Lexists(file, path, H5P_DEFAULT), 0);
    }
    H5Fclose(file);
}

static void equal_runs_leave_equal_files(void **state)
{
    (void)state;
    char other[160];
    long bytes, other_bytes;

    snprintf(other, sizeof(other), "%s/other.h5", results_directory);
    run_write(results_path);
    run_write(other);
    assert_int_equal(results_file_digest(results_path, &bytes), results_file_digest(other, &other_bytes));
    assert_int_equal(bytes, other_bytes);
}

static void job_of_a_run_without_jobs(void *results)
{
    const struct job_row row = jobs_rig_any(1);

    results_job(results, &row);
}

static void bill_that_is_not_the_sum(void *results)
{
    struct jobs_facts facts = jobs_rig_facts(NULL);

    facts.bill_nano++;
    jobs_rig_close(results, &facts, &summary);
}

static void facts_without_jobs(void *results)
{
    jobs_rig_close(results, NULL, &summary);
}

static void job_of_an_unknown_kind(void *results)
{
    struct job_row row = jobs_rig_any(1);

    row.kind = 2;
    results_job(results, &row);
}

static void job_that_ends_before_it_begins(void *results)
{
    struct job_row row = jobs_rig_done(1, 0, 5000, 10, 10, 10);

    row.ended_ns = row.submitted_ns - 1;
    results_job(results, &row);
}

static void placement_on_no_gpu(void *results)
{
    struct placement_row row = placement_make(1);

    row.gpu_mask = 0;
    results_placement(results, &row);
}

static void samples_that_go_back(void *results)
{
    const struct capacity_sample later = sample_make(100);
    const struct capacity_sample earlier = sample_make(98);

    results_capacity(results, &later);
    results_capacity(results, &earlier);
}

static void mistakes_of_the_engine_stop_the_run(void **state)
{
    (void)state;
    static void (*const mistakes[])(void *) = {bill_that_is_not_the_sum,       facts_without_jobs,  job_of_an_unknown_kind,
                                               job_that_ends_before_it_begins, placement_on_no_gpu, samples_that_go_back};
    const struct jobs_facts facts = jobs_rig_facts(NULL);
    struct results *without = results_variant_open(NULL, "none");
    struct results *with = jobs_rig_open(NULL, jobs_rig_scenario("a"));

    assert_true(check_stops(job_of_a_run_without_jobs, without));
    for (size_t i = 0; i < ARRAY_COUNT(mistakes); i++)
        if (!check_stops(mistakes[i], with))
            fail_msg("mistake %zu was taken", i);
    assert_int_equal(results_close(without, &results_facts, &summary, stderr), STATUS_OK);
    assert_int_equal(jobs_rig_close(with, &facts, &summary), STATUS_OK);
    summary_free(&summary);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, results_directory_empty)
    const struct CMUnitTest tests[] = {
        TEST(every_field_of_every_row_reads_back),
        TEST(indexes_are_explained),
        TEST(ledger_in_the_file_adds_up_to_the_bill),
        TEST(tenants_of_the_file_are_those_of_the_rows),
        TEST(run_without_jobs_has_no_table_of_them),
        TEST(equal_runs_leave_equal_files),
        TEST(mistakes_of_the_engine_stop_the_run),
    };

    return cmocka_run_group_tests(tests, results_directory_make, results_directory_remove);
}
