#include "sim/engine/jobs_rig.h"

#include <stdlib.h>

#include "support.h"

void jobs_run_scenario(const struct scenario *scenario, struct jobs_run *ret_run)
{
    struct sim_options options = {0};
    struct results_file *file = NULL;
    char path[128];

    snprintf(path, sizeof(path), "%s/run.h5", rig_folder());
    *ret_run = (struct jobs_run){0};
    assert_int_equal(results_file_create(path, "", scenario->seed, stderr, &file), STATUS_OK);
    assert_int_equal(sim_run(scenario, file, &options, stderr, &ret_run->summary), STATUS_OK);
    assert_int_equal(results_file_close(file, false, stderr), STATUS_OK);
    ret_run->file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    assert_true(ret_run->file >= 0);
    snprintf(ret_run->variant, sizeof(ret_run->variant), "%s", scenario->variant);
}

void jobs_run_text(const char *text, const char *const *settings, struct jobs_run *ret_run)
{
    struct scenario_set set = rig_scenario(text, settings);

    jobs_run_scenario(&set.items[0], ret_run);
    jobs_run_check(&set.items[0], ret_run);
    scenario_set_free(&set);
}

void jobs_run_close(struct jobs_run *run)
{
    H5Fclose(run->file);
    summary_free(&run->summary);
}

int64_t *jobs_column(const struct jobs_run *run, const char *name, uint64_t *ret_count)
{
    char path[256];
    hid_t dataset;
    hid_t space;
    hsize_t count;
    int64_t *values;

    snprintf(path, sizeof(path), "/variants/%s/%s", run->variant, name);
    dataset = H5Dopen2(run->file, path, H5P_DEFAULT);
    if (dataset < 0)
        fail_msg("no column %s", path);
    space = H5Dget_space(dataset);
    assert_int_equal(H5Sget_simple_extent_dims(space, &count, NULL), 1);
    values = malloc((count + 1) * sizeof(*values));
    assert_true(H5Dread(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Sclose(space);
    H5Dclose(dataset);
    *ret_count = count;
    return values;
}

/* X(table, field): columns that become fields of the same name. */
#define JOB_FIELDS(X)                                                                                                  \
    X(ordinal) X(submitted_ns) X(started_ns) X(ended_ns) X(size_ns) X(held_gpu_ns) X(compute_gpu_ns) X(lost_gpu_ns)    \
    X(checkpoint_gpu_ns) X(load_gpu_ns) X(tenant) X(kind) X(gpus) X(priority) X(stage) X(isolation) X(outcome)         \
    X(reason) X(attempts) X(reclaims) X(preempts) X(notices) X(serving_stops) X(losses) X(deadline_ns)                 \
    X(deadline_missed) X(follows)
#define PLACEMENT_FIELDS(X) \
    X(job) X(from_ns) X(started_ns) X(until_ns) X(tenant) X(attempt) X(node) X(gpu_mask) X(base) X(flavor) X(slice) X(how)

struct job_row *jobs_rows(const struct jobs_run *run, uint64_t *ret_count)
{
    struct job_row *rows;
    int64_t *values = jobs_column(run, "jobs/ordinal", ret_count);

    free(values);
    rows = calloc(*ret_count + 1, sizeof(*rows));
#define X(field)                                                                      \
    values = jobs_column(run, "jobs/" #field, ret_count);                             \
    for (uint64_t i = 0; i < *ret_count; i++)                                         \
        rows[i].field = (__typeof__(rows[i].field))values[i];                         \
    free(values);
    JOB_FIELDS(X)
#undef X
    return rows;
}

struct placement_row *jobs_placements(const struct jobs_run *run, uint64_t *ret_count)
{
    struct placement_row *rows;
    int64_t *values = jobs_column(run, "placements/job", ret_count);

    free(values);
    rows = calloc(*ret_count + 1, sizeof(*rows));
#define X(field)                                                                      \
    values = jobs_column(run, "placements/" #field, ret_count);                       \
    for (uint64_t i = 0; i < *ret_count; i++)                                         \
        rows[i].field = (__typeof__(rows[i].field))values[i];                         \
    free(values);
    PLACEMENT_FIELDS(X)
#undef X
    return rows;
}

/* --- what always holds ------------------------------------------------------------------------------------------------- */

#define expect_job(condition, row)                                                                         \
    do {                                                                                                   \
        if (!(condition))                                                                                  \
            fail_msg("job %llu: not " #condition "; size %lld, held %lld, computed %lld, lost %lld, %u attempts, outcome %u",  \
                     (unsigned long long)(row)->ordinal, (long long)(row)->size_ns, (long long)(row)->held_gpu_ns,   \
                     (long long)(row)->compute_gpu_ns, (long long)(row)->lost_gpu_ns, (row)->attempts, (row)->outcome); \
    } while (0)

static void check_job(const struct job_row *row)
{
    int64_t parts_ns = row->checkpoint_gpu_ns + row->load_gpu_ns;

    expect_job(row->held_gpu_ns >= 0, row);
    /* A neighbour slows a job, so computing alone is at most as long as holding; an interactive one may hold idly. */
    expect_job(row->compute_gpu_ns + parts_ns <= row->held_gpu_ns, row);
    expect_job(row->lost_gpu_ns <= row->held_gpu_ns, row);
    expect_job(row->attempts > 0 || row->held_gpu_ns == 0, row);
    expect_job(row->losses + row->reclaims + row->preempts + row->notices + row->serving_stops == 0 || row->attempts > 0, row);
    expect_job(!row->deadline_missed || row->deadline_ns > 0, row);
    if (row->deadline_ns > 0 && row->outcome == JOB_OUTCOME_DONE)
        expect_job(row->deadline_missed == (row->ended_ns > row->deadline_ns), row);
    if (row->follows)
        expect_job(row->stage == STAGE_EVALUATE && row->deadline_ns == 0, row);
    if (row->outcome == JOB_OUTCOME_REFUSED)
        expect_job(row->reason != JOB_REFUSE_NONE && row->attempts == 0 && row->started_ns == -1, row);
    if (row->outcome != JOB_OUTCOME_DONE)
        return;
    expect_job(row->ended_ns >= row->started_ns && row->started_ns >= row->submitted_ns, row);
    expect_job(row->held_gpu_ns <= (int64_t)row->gpus * (row->ended_ns - row->submitted_ns), row);
    expect_job(row->attempts >= 1, row);
    /* Alone on whole GPUs no work is faster than its size. */
    if (row->isolation == ISOLATION_EXCLUSIVE && row->stage == STAGE_TRAIN)
        expect_job(row->held_gpu_ns >= (int64_t)row->gpus * row->size_ns, row);
    if (row->isolation == ISOLATION_EXCLUSIVE && row->stage == STAGE_TRAIN)
        expect_job(row->compute_gpu_ns == (int64_t)row->gpus * row->size_ns + row->lost_gpu_ns, row);
}

static int by_gpu_and_time(const void *a, const void *b)
{
    const struct placement_row *x = a;
    const struct placement_row *y = b;

    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->from_ns > y->from_ns) - (x->from_ns < y->from_ns);
}

/* On each GPU, a stay that is exclusive overlaps with no other. */
static void check_overlaps(const struct job_row *by_ordinal, struct placement_row *stays, uint64_t count, int64_t end_ns)
{
    qsort(stays, count, sizeof(*stays), by_gpu_and_time);
    for (uint32_t gpu = 0; gpu < 16; gpu++) {
        int64_t exclusive_until_ns = 0;
        int64_t any_until_ns = 0;
        uint32_t node = UINT32_MAX;

        for (uint64_t i = 0; i < count; i++) {
            const struct placement_row *stay = &stays[i];
            bool alone = by_ordinal[stay->job].isolation == ISOLATION_EXCLUSIVE;
            int64_t until_ns = stay->until_ns < 0 ? end_ns : stay->until_ns;

            if ((stay->gpu_mask >> gpu & 1) == 0)
                continue;
            if (stay->node != node)
                exclusive_until_ns = any_until_ns = 0;
            node = stay->node;
            if (stay->from_ns < exclusive_until_ns || (alone && stay->from_ns < any_until_ns))
                fail_msg("job %llu is on GPU %u of node %u at %lld beside one that must stand alone",
                         (unsigned long long)stay->job, gpu, node, (long long)stay->from_ns);
            any_until_ns = max_i64(any_until_ns, until_ns);
            exclusive_until_ns = alone ? max_i64(exclusive_until_ns, until_ns) : exclusive_until_ns;
        }
    }
}

/* What `gpus` GPUs cost that are there all the time. */
static int64_t gpus_nano_until(uint64_t gpus, double price_per_h, int64_t end_ns)
{
    uint64_t price_nano = (uint64_t)(price_per_h * 1e9 + 0.5);

    return (int64_t)gpus * (int64_t)((uint128)price_nano * (uint64_t)end_ns / 3600000000000u);
}

/* The GPUs of serving pools of their own are on the bill as well. */
static int64_t serving_most_nano(const struct scenario *scenario, int64_t end_ns, bool *ret_steady)
{
    int64_t most_nano = 0;

    for (uint32_t i = 0; i < scenario->pools_count && scenario->workload.source != KEY_SOURCE_NONE; i++) {
        const struct keys_pool *keys = &scenario->pools[i].keys;

        if (keys->shared)
            continue;
        most_nano += gpus_nano_until(pool_replicas_most(keys) * keys->tp, keys->price_per_h, end_ns);
        *ret_steady = *ret_steady && keys->replicas_max == 0;
    }
    return most_nano;
}

static void check_money(const struct scenario *scenario, const struct jobs_run *run)
{
    const struct jobs_summary *jobs = &run->summary.jobs;
    int64_t sum_nano = 0;
    int64_t rows_nano = 0;
    uint64_t count;
    int64_t *amounts = jobs_column(run, "ledger/amount_nano", &count);
    int64_t gpus_nano = jobs->cost_total_nano - jobs_component_nano(jobs, CHARGE_STORAGE);
    int64_t most_nano = 0;
    bool steady = true;

    for (uint32_t i = 0; i <= jobs->tenants_count; i++)
        sum_nano += jobs_account_nano(jobs, i);
    for (uint64_t i = 0; i < count; i++)
        rows_nano += amounts[i];
    assert_true(sum_nano == jobs->cost_total_nano);
    assert_true(rows_nano == jobs->cost_total_nano);
    assert_true(jobs->cost_serving_nano == run->summary.facts.serving.total_nano);
    /* The platform alone pays for serving. */
    for (uint32_t i = 0; i < CHARGE_COUNT; i++) {
        int64_t serving_nano = run->summary.facts.serving.cost_nano[i];

        assert_true(serving_nano >= 0);
        assert_true(serving_nano <= jobs->cost_nano[(size_t)jobs->tenants_count * CHARGE_COUNT + i]);
    }
    most_nano = serving_most_nano(scenario, run->summary.facts.end_ns, &steady);
    for (uint32_t i = 0; i < scenario->capacity_count; i++) {
        const struct keys_capacity *keys = &scenario->capacity[i].keys;

        most_nano += gpus_nano_until(keys->nodes * keys->gpus_per_node, keys->price_per_h, run->summary.facts.end_ns);
        steady = steady && !keys->spot && keys->fail_mean_h <= 0;
    }
    /* A GPU is paid for while it is there, to the last unit. */
    if (steady ? gpus_nano != most_nano : gpus_nano > most_nano)
        fail_msg("the GPUs' bill is %lld, all of them all the time cost %lld", (long long)gpus_nano, (long long)most_nano);
    free(amounts);
}

/* What the rows of single jobs say adds up to what is said of the run. */
static void check_counts(const struct scenario *scenario, const struct jobs_summary *jobs, const struct job_row *rows, uint64_t count)
{
    uint64_t outcomes[JOB_OUTCOME_COUNT] = {0};
    uint64_t measured = 0, evaluations = 0, evaluated = 0, deadlines = 0, missed = 0;
    uint64_t reclaims = 0, preempts = 0, notices = 0, serving_stops = 0, losses = 0;

    for (uint64_t i = 0; i < count; i++) {
        const struct job_row *row = &rows[i];

        reclaims += row->reclaims;
        preempts += row->preempts;
        notices += row->notices;
        serving_stops += row->serving_stops;
        losses += row->losses;
        if ((double)row->submitted_ns < scenario->warmup_s * 1e9)
            continue;
        evaluations += row->follows;
        evaluated += row->follows && row->outcome == JOB_OUTCOME_DONE;
        outcomes[row->outcome] += !row->follows;
        measured += !row->follows;
        deadlines += row->deadline_ns > 0;
        missed += row->deadline_missed;
    }
    assert_int_equal(jobs->submitted, measured);
    assert_int_equal(jobs->submitted, jobs->done + jobs->failed + jobs->cancelled + jobs->refused + jobs->overload +
                                          jobs->unfinished);
    assert_int_equal(jobs->done, outcomes[JOB_OUTCOME_DONE]);
    assert_int_equal(jobs->unfinished, outcomes[JOB_OUTCOME_UNFINISHED]);
    assert_int_equal(jobs->evaluations.submitted, evaluations);
    assert_int_equal(jobs->evaluations.done, evaluated);
    assert_int_equal(jobs->deadlines, deadlines);
    assert_int_equal(jobs->deadlines_missed, missed);
    assert_int_equal(jobs->reclaims, reclaims);
    assert_int_equal(jobs->preempts, preempts);
    assert_int_equal(jobs->notices, notices);
    assert_int_equal(jobs->serving_stops, serving_stops);
    assert_int_equal(jobs->losses, losses);
}

/* The number in the system as the core counts it, at every sample, is that of the rows: Little's law, instant by instant. */
static void check_population(const struct jobs_run *run, const struct job_row *rows, uint64_t count)
{
    uint64_t samples;
    int64_t *at_ns = jobs_column(run, "capacity/at_ns", &samples);
    int64_t *pending = jobs_column(run, "capacity/pending", &samples);
    int64_t *running = jobs_column(run, "capacity/running", &samples);
    uint64_t step = count > 2000 ? samples / 50 + 1 : 1;

    for (uint64_t i = 0; i < samples; i += step) {
        int64_t least = 0;
        int64_t most = 0; /* with those that come or leave at this very instant */

        for (uint64_t k = 0; k < count; k++) {
            const struct job_row *row = &rows[k];
            bool stays = row->outcome != JOB_OUTCOME_REFUSED && row->outcome != JOB_OUTCOME_OVERLOAD;

            least += stays && row->submitted_ns < at_ns[i] && (row->ended_ns < 0 || row->ended_ns > at_ns[i]);
            most += stays && row->submitted_ns <= at_ns[i] && (row->ended_ns < 0 || row->ended_ns >= at_ns[i]);
        }
        if (pending[i] + running[i] < least || pending[i] + running[i] > most)
            fail_msg("at %lld ns rows say that %lld to %lld jobs are there, the core %lld + %lld", (long long)at_ns[i],
                     (long long)least, (long long)most, (long long)pending[i], (long long)running[i]);
    }
    free(at_ns);
    free(pending);
    free(running);
}

void jobs_run_check(const struct scenario *scenario, const struct jobs_run *run)
{
    uint64_t count;
    uint64_t stays_count;
    struct job_row *rows = jobs_rows(run, &count);
    struct placement_row *stays = jobs_placements(run, &stays_count);
    struct job_row *by_ordinal = calloc(count + 1, sizeof(*by_ordinal));
    int64_t *held_ns = calloc(count + 1, sizeof(*held_ns));

    for (uint64_t i = 0; i < count; i++) {
        assert_true(rows[i].ordinal < count);
        by_ordinal[rows[i].ordinal] = rows[i];
    }
    check_counts(scenario, &run->summary.jobs, rows, count);
    for (uint64_t i = 0; i < stays_count; i++) {
        int64_t until_ns = stays[i].until_ns < 0 ? run->summary.facts.end_ns : stays[i].until_ns;

        held_ns[stays[i].job] += (int64_t)by_ordinal[stays[i].job].gpus * (until_ns - stays[i].from_ns);
        assert_int_equal(by_ordinal[stays[i].job].gpus, __builtin_popcount(stays[i].gpu_mask));
    }
    for (uint64_t i = 0; i < count; i++) {
        assert_true(rows[i].ordinal == i || by_ordinal[i].ordinal == i); /* each once */
        check_job(&by_ordinal[i]);
        if (held_ns[i] != by_ordinal[i].held_gpu_ns)
            fail_msg("job %llu held %lld GPU ns, its stays add up to %lld", (unsigned long long)i,
                     (long long)by_ordinal[i].held_gpu_ns, (long long)held_ns[i]);
    }
    check_overlaps(by_ordinal, stays, stays_count, run->summary.facts.end_ns);
    check_population(run, rows, count);
    check_money(scenario, run);
    free(held_ns);
    free(by_ordinal);
    free(rows);
    free(stays);
}
