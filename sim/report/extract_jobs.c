#include "report/extract_jobs.h"

#include <math.h>
#include <stdlib.h>

#include "report/table_reader.h"
#include "results/jobs.h"
#include "results/jobs_gather.h"

/* How much of the run the Gantt chart may show; the longest that leaves its bars apart is taken. */
static const double windows_s[] = {3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 3 * 86400, 7 * 86400};

void extracted_jobs_init(struct extracted_jobs *jobs)
{
    for (uint32_t i = 0; i < JOBS_SUMMARY_KINDS; i++)
        histogram_init(&jobs->wait[i]);
    histogram_init(&jobs->wait_all);
    histogram_init(&jobs->completion);
    histogram_init(&jobs->rho_micro);
}

/* Calls `add` for every row of a table, in its order. */
static bool rows_walk(struct extract *extract, hid_t variant, const char *name, const char *const *columns,
                      uint32_t columns_count, FILE *errors,
                      void (*add)(const struct table_reader *table, uint64_t row, void *context), void *context)
{
    struct table_reader table;

    if (!reader_open(extract, variant, name, columns, columns_count, errors, &table))
        return false;
    for (uint64_t first = 0; first < table.rows; first += SLAB_ROWS) {
        const uint64_t rows = min_u64(SLAB_ROWS, table.rows - first);

        if (!reader_slab(&table, first, rows)) {
            fprintf(errors, "%s from row %llu on cannot be read\n", name, (unsigned long long)first);
            break;
        }
        for (uint64_t i = 0; i < rows; i++)
            add(&table, i, context);
    }
    reader_close(&table);
    return true;
}

struct jobs_walk {
    struct extracted_jobs *jobs;
    int64_t warmup_until_ns;
};

static void job_add(const struct table_reader *table, uint64_t row, void *context)
{
    enum { SUBMITTED, STARTED, ENDED, SIZE, KIND, OUTCOME, FOLLOWS };
    const struct jobs_walk *walk = context;
    const int64_t submitted_ns = reader_integer(table, SUBMITTED, row);
    const int64_t started_ns = reader_integer(table, STARTED, row);
    const int64_t ended_ns = reader_integer(table, ENDED, row);
    const int64_t size_ns = reader_integer(table, SIZE, row);
    const uint64_t kind = reader_count(table, KIND, row);

    if (submitted_ns < walk->warmup_until_ns || reader_count(table, FOLLOWS, row) != 0)
        return;
    if (started_ns >= submitted_ns) {
        histogram_add(&walk->jobs->wait_all, started_ns - submitted_ns);
        if (kind < JOBS_SUMMARY_KINDS)
            histogram_add(&walk->jobs->wait[kind], started_ns - submitted_ns);
    }
    if (reader_integer(table, OUTCOME, row) != JOB_OUTCOME_DONE || ended_ns < submitted_ns)
        return;
    histogram_add(&walk->jobs->completion, ended_ns - submitted_ns);
    if (size_ns > 0)
        histogram_add(&walk->jobs->rho_micro,
                      (int64_t)fmin((double)(ended_ns - submitted_ns) / (double)size_ns * (double)RHO_ONE, 9e18));
}

struct capacity_walk {
    struct extracted_jobs *jobs;
    double until_s[8];      /* of the last sample, by flavor */
    double end_s;
};

static void end_find(const struct table_reader *table, uint64_t row, void *context)
{
    struct capacity_walk *walk = context;

    walk->end_s = fmax(walk->end_s, (double)reader_integer(table, 0, row) / 1e9);
}

/* A sample stands for the time since the one before, and is spread over the bins it covers. */
static void capacity_add(const struct table_reader *table, uint64_t row, void *context)
{
    enum { AT, FLAVOR, GPUS, PENDING, PENDING_GPUS, CLAIMED, COMPUTING };
    struct capacity_walk *walk = context;
    struct extracted_jobs *jobs = walk->jobs;
    const uint64_t flavor = reader_count(table, FLAVOR, row) % 8;
    const double at_s = (double)reader_integer(table, AT, row) / 1e9;
    const double gpus = (double)reader_count(table, GPUS, row);
    double from_s = walk->until_s[flavor];

    walk->until_s[flavor] = fmax(at_s, from_s);
    while (from_s < at_s) {
        const uint32_t index = min_u32((uint32_t)(from_s / jobs->bin_s), EXTRACT_BINS_MAX - 1);
        const double bin_end_s = (index + 1) * jobs->bin_s;
        const double until_s = index + 1 < EXTRACT_BINS_MAX && bin_end_s > from_s ? fmin(at_s, bin_end_s) : at_s;
        const double part_s = until_s - from_s;
        struct capacity_bin *bin = &jobs->bins[index];

        bin->flavor_s[flavor] += part_s;
        bin->gpu_s += gpus * part_s;
        bin->claimed_gpu_s += reader_real(table, CLAIMED, row) * gpus * part_s;
        bin->computing_gpu_s += reader_real(table, COMPUTING, row) * gpus * part_s;
        if (flavor == 0) {
            bin->pending_s += (double)reader_count(table, PENDING, row) * part_s;
            bin->pending_gpus_s += (double)reader_count(table, PENDING_GPUS, row) * part_s;
        }
        jobs->bins_count = max_u32(jobs->bins_count, index + 1);
        from_s = until_s;
    }
}

static void capacity_extract(struct extract *extract, hid_t variant, FILE *errors, struct extracted_jobs *jobs)
{
    static const char *const at[] = {"at_ns"};
    static const char *const columns[] = {"at_ns", "flavor", "gpus", "pending", "pending_gpus", "claimed_share", "computing_share"};
    struct capacity_walk walk = {.jobs = jobs};

    if (!rows_walk(extract, variant, "capacity", at, 1, errors, end_find, &walk) || walk.end_s <= 0)
        return;
    jobs->bin_s = walk.end_s / EXTRACT_BINS_MAX;
    rows_walk(extract, variant, "capacity", columns, ARRAY_COUNT(columns), errors, capacity_add, &walk);
}

struct gantt_walk {
    struct extract *extract;    /* its flags mark the GPUs that were seen */
    struct extracted_jobs *jobs;
    double end_s;
    uint64_t bars[ARRAY_COUNT(windows_s)]; /* of claims that begin in each window, by GPU */
    int16_t row_of[REPLICAS_MAX];
};

static double end_s_of(const struct table_reader *table, uint32_t column, uint64_t row, double end_s)
{
    const int64_t until_ns = reader_integer(table, column, row);

    return until_ns < 0 ? end_s : (double)until_ns / 1e9;
}

static void gpus_find(const struct table_reader *table, uint64_t row, void *context)
{
    enum { FROM, NODE, MASK };
    struct gantt_walk *walk = context;
    const double from_s = (double)reader_integer(table, FROM, row) / 1e9;
    const uint64_t mask = reader_count(table, MASK, row);

    for (uint32_t gpu = 0; gpu < 16; gpu++) {
        const uint64_t index = (reader_count(table, NODE, row) * 16 + gpu) % REPLICAS_MAX;

        if ((mask >> gpu & 1) == 0)
            continue;
        walk->extract->replica_seen[index] = true;
        for (size_t i = 0; i < ARRAY_COUNT(windows_s); i++)
            walk->bars[i] += from_s >= walk->jobs->window_from_s && from_s < walk->jobs->window_from_s + windows_s[i];
    }
}

static void bar_add(struct gantt_walk *walk, const struct gantt_bar *bar, uint64_t node, uint64_t mask)
{
    struct extracted_jobs *jobs = walk->jobs;

    if (bar->until_s <= jobs->window_from_s || bar->from_s >= jobs->window_until_s || bar->until_s <= bar->from_s)
        return;
    for (uint32_t gpu = 0; gpu < 16; gpu++) {
        const int16_t row = walk->row_of[(node * 16 + gpu) % REPLICAS_MAX];

        if ((mask >> gpu & 1) == 0 || row < 0)
            continue;
        if (jobs->bars_count == GANTT_BARS_MAX) {
            jobs->bars_left_out++;
            continue;
        }
        jobs->bars[jobs->bars_count] = *bar;
        jobs->bars[jobs->bars_count++].row = (uint16_t)row;
    }
}

static void residency_add(const struct table_reader *table, uint64_t row, void *context)
{
    enum { FROM, NODE, MASK, BASE, READY, UNTIL };
    struct gantt_walk *walk = context;
    const double until_s = end_s_of(table, UNTIL, row, walk->end_s);
    const double ready_s = fmin(end_s_of(table, READY, row, until_s), until_s);
    struct gantt_bar bar = {.from_s = (double)reader_integer(table, FROM, row) / 1e9, .until_s = ready_s,
                            .base = (uint16_t)reader_count(table, BASE, row), .kind = GANTT_LOADING};

    bar_add(walk, &bar, reader_count(table, NODE, row), reader_count(table, MASK, row));
    bar.from_s = ready_s;
    bar.until_s = until_s;
    bar.kind = GANTT_RESIDENT;
    bar_add(walk, &bar, reader_count(table, NODE, row), reader_count(table, MASK, row));
}

static void claim_add(const struct table_reader *table, uint64_t row, void *context)
{
    enum { FROM, NODE, MASK, BASE, UNTIL };
    struct gantt_walk *walk = context;
    const struct gantt_bar bar = {.from_s = (double)reader_integer(table, FROM, row) / 1e9,
                                  .until_s = end_s_of(table, UNTIL, row, walk->end_s),
                                  .base = (uint16_t)reader_count(table, BASE, row), .kind = GANTT_CLAIM};

    bar_add(walk, &bar, reader_count(table, NODE, row), reader_count(table, MASK, row));
}

/* The first GPUs by number, and the longest window in which their bars stay apart. */
static void gantt_plan(struct gantt_walk *walk)
{
    struct extracted_jobs *jobs = walk->jobs;
    double window_s = windows_s[0];

    for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
        walk->row_of[i] = -1;
        if (!walk->extract->replica_seen[i])
            continue;
        jobs->gpus_seen++;
        if (jobs->rows_count < GANTT_GPUS_MAX) {
            walk->row_of[i] = (int16_t)jobs->rows_count;
            jobs->row_gpu[jobs->rows_count++] = i;
        }
    }
    for (size_t i = 1; i < ARRAY_COUNT(windows_s); i++)
        if (walk->bars[i] <= (uint64_t)jobs->gpus_seen * GANTT_BARS_PER_GPU)
            window_s = windows_s[i];
    jobs->window_until_s = fmin(jobs->window_from_s + window_s, walk->end_s);
}

static void gantt_extract(struct extract *extract, hid_t variant, const struct summary *summary, FILE *errors,
                          struct extracted_jobs *jobs)
{
    static const char *const claims[] = {"from_ns", "node", "gpu_mask", "base", "until_ns"};
    static const char *const residency[] = {"from_ns", "node", "gpu_mask", "base", "ready_ns", "until_ns"};
    struct gantt_walk *walk = calloc(1, sizeof(*walk));

    check(walk != NULL);
    memset(extract->replica_seen, 0, sizeof(extract->replica_seen));
    walk->extract = extract;
    walk->jobs = jobs;
    walk->end_s = (double)summary->facts.end_ns / 1e9;
    jobs->window_from_s = (double)summary->facts.warmup_until_ns / 1e9;
    if (!rows_walk(extract, variant, "placements", claims, 3, errors, gpus_find, walk))
        goto free_walk;
    gantt_plan(walk);
    rows_walk(extract, variant, "residency", residency, ARRAY_COUNT(residency), errors, residency_add, walk);
    rows_walk(extract, variant, "placements", claims, ARRAY_COUNT(claims), errors, claim_add, walk);
free_walk:
    free(walk);
}

void extract_jobs(struct extract *extract, hid_t variant, const struct summary *summary, FILE *errors,
                  struct extracted_jobs *ret_jobs)
{
    static const char *const columns[] = {"submitted_ns", "started_ns", "ended_ns", "size_ns", "kind", "outcome", "follows"};
    struct jobs_walk walk = {.jobs = ret_jobs, .warmup_until_ns = summary->facts.warmup_until_ns};

    rows_walk(extract, variant, "jobs", columns, ARRAY_COUNT(columns), errors, job_add, &walk);
    capacity_extract(extract, variant, errors, ret_jobs);
    gantt_extract(extract, variant, summary, errors, ret_jobs);
}
