/* Blocks of requests end where the warm-up or an interval does, so that a cell needs to know of neither: counts are looked at in
 * between. Time is taken a block at a time: each cell's own, and that of reading, which each would have had alone as well. The process's
 * time on processors is dealt out by it at the end; to ask for it each block would cost as much as some caches do. */
#include "cachelab/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "cachelab/bound.h"
#include "cachelab/cell.h"
#include "cachelab/intern.h"

#define PROGRESS_BLOCKS 64
#define BOUND_CELLS_MAX 64
#define BOUND_REQUEST_BYTES 16u

struct group {
    const struct lab_run *run;
    struct object_trace *trace;
    struct intern *intern;
    struct lab_cell **cells;      /* [run->cells_count], as are the next three; NULL: the bound's */
    struct lab_counts *warm;      /* at the end of the warm-up */
    struct lab_counts *interval;  /* at the end of the last interval */
    int64_t *own_ns;
    int64_t shared_ns;
    int64_t began_ns;
    int64_t began_cpu_ns;
    int64_t last_ns;              /* when the last lap ended */
    bool offline;                 /* one of the cells is */
    struct bound *bound;          /* of all cells that are no policy's; NULL: there are none */
    int64_t bound_own_ns;
    struct lab_counts bound_counts; /* after the warm-up; of misses, first requests only */
    uint64_t at;                  /* requests so far */
    char *message;
    struct lab_block block;
    uint64_t ids[INTERN_BATCH_MAX];
    int64_t next[INTERN_BATCH_MAX]; /* as the trace says */
};

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* What passed since the last call belongs to `lap`. */
static void lap_end(struct group *group, int64_t *lap_ns)
{
    const int64_t now_ns = clock_ns(CLOCK_MONOTONIC);

    *lap_ns += now_ns - group->last_ns;
    group->last_ns = now_ns;
}

static enum status say(struct group *group, enum status status, const char *what)
{
    snprintf(group->message, TRACE_MESSAGE_MAX, "%s: %s", group->run->trace->path, what);
    return status;
}

/* How many requests the next block may have: it ends where something is looked at. */
static uint32_t block_max(const struct group *group)
{
    const struct lab_run *run = group->run;
    uint64_t most = LAB_BLOCK_MAX;

    if (group->at < run->warmup)
        most = min_u64(most, run->warmup - group->at);
    if (run->interval > 0)
        most = min_u64(most, run->interval - group->at % run->interval);
    if (run->requests_max > 0)
        most = min_u64(most, run->requests_max - group->at);
    return (uint32_t)most;
}

static void next_take(struct group *group, uint32_t count)
{
    struct lab_block *block = &group->block;
    const uint32_t *told = group->run->trace->next;

    for (uint32_t i = 0; i < count; i++) {
        const uint64_t at = group->at + block->count + i;

        if (told != NULL)
            block->next[block->count + i] = told[at] == NONE_INDEX ? NONE_USE : told[at];
        else
            block->next[block->count + i] = group->next[i] == OBJECT_NEXT_NEVER ? NONE_USE : (uint64_t)group->next[i];
    }
}

/* OK with at least one request; END. */
static enum status block_read(struct group *group)
{
    struct lab_block *block = &group->block;
    const uint32_t most = block_max(group);

    block->first = group->at;
    block->count = 0;
    block->bytes = 0;
    while (block->count < most) {
        struct object_columns_read to = {group->ids, block->sizes_bytes + block->count, group->offline ? group->next : NULL, 0};
        uint32_t count;
        enum status status = object_trace_read_columns(group->trace, &to, min_u32(INTERN_BATCH_MAX, most - block->count), &count);

        if (status == STATUS_END)
            break;
        if (status != STATUS_OK) {
            snprintf(group->message, TRACE_MESSAGE_MAX, "%s", object_trace_message(group->trace));
            return status;
        }
        block->bytes += to.bytes;
        if (group->offline)
            next_take(group, count);
        if (intern_ids(group->intern, group->ids, count, block->objects + block->count) != STATUS_OK)
            return say(group, STATUS_FULL, "no memory for more objects");
        block->count += count;
    }
    block->objects_count = intern_count(group->intern);
    return block->count > 0 ? STATUS_OK : STATUS_END;
}

static uint64_t fewer(uint128 value)
{
    return value < UINT64_MAX ? (uint64_t)value : UINT64_MAX;
}

static void interval_end(struct group *group)
{
    for (uint32_t i = 0; i < group->run->cells_count; i++) {
        struct lab_counts now;
        const struct lab_counts *from = &group->interval[i];
        struct lab_interval interval;

        if (group->cells[i] == NULL)
            continue; /* the bound knows the whole trace only */
        now = lab_cell_counts(group->cells[i]);
        interval = (struct lab_interval){now.requests - from->requests, lab_misses(&now) - lab_misses(from),
                                         fewer(now.bytes - from->bytes), fewer(now.miss_bytes - from->miss_bytes)};
        group->run->interval_end(group->run->context, i, &interval);
        group->interval[i] = now;
    }
}

static void block_end(struct group *group)
{
    const struct lab_run *run = group->run;

    group->at += group->block.count;
    for (uint32_t i = 0; group->at == run->warmup && i < run->cells_count; i++)
        if (group->cells[i] != NULL)
            group->warm[i] = lab_cell_counts(group->cells[i]);
    if (run->interval > 0 && group->at % run->interval == 0)
        interval_end(group);
}

/* The block to every cell. */
static enum status block_run(struct group *group, uint32_t objects_before)
{
    const struct lab_block *block = &group->block;

    lap_end(group, &group->shared_ns);
    for (uint32_t i = 0; i < group->run->cells_count; i++) {
        if (group->cells[i] == NULL)
            continue;
        if (lab_cell_requests(group->cells[i], block) != STATUS_OK)
            return say(group, STATUS_FULL, "no memory for more objects in the caches");
        lap_end(group, &group->own_ns[i]);
    }
    if (group->bound == NULL)
        return STATUS_OK;
    for (uint32_t from = 0; from < block->count; from += INTERN_BATCH_MAX)
        if (bound_requests(group->bound, block->objects + from, block->sizes_bytes + from, min_u32(INTERN_BATCH_MAX, block->count - from)) !=
            STATUS_OK)
            return say(group, STATUS_FULL, "no memory for pfoo, which keeps every request; look at fewer --requests");
    if (group->at >= group->run->warmup) {
        group->bound_counts.requests += block->count;
        group->bound_counts.bytes += block->bytes;
        group->bound_counts.misses[LAB_MISS_COMPULSORY] += block->objects_count - objects_before;
    }
    lap_end(group, &group->bound_own_ns);
    return STATUS_OK;
}

static enum status blocks_run(struct group *group)
{
    const struct lab_run *run = group->run;

    group->began_ns = group->last_ns = clock_ns(CLOCK_MONOTONIC);
    group->began_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (uint64_t blocks = 0; run->requests_max == 0 || group->at < run->requests_max; blocks++) {
        const uint32_t objects_before = intern_count(group->intern);
        enum status status;

        if (blocks % PROGRESS_BLOCKS == 0 && !run->progress(run->context, group->at, object_trace_expected(group->trace)))
            return STATUS_END;
        status = block_read(group);
        if (status == STATUS_END)
            break;
        if (status != STATUS_OK)
            return status;
        status = block_run(group, objects_before);
        if (status != STATUS_OK)
            return status;
        block_end(group);
    }
    if (run->interval > 0 && group->at % run->interval != 0)
        interval_end(group);
    return STATUS_OK;
}

static struct lab_counts counted(struct lab_counts all, const struct lab_counts *warm)
{
    all.requests -= warm->requests;
    for (uint32_t i = 0; i < LAB_MISS_COUNT; i++)
        all.misses[i] -= warm->misses[i];
    all.changed -= warm->changed;
    all.evictions -= warm->evictions;
    all.bytes -= warm->bytes;
    all.miss_bytes -= warm->miss_bytes;
    return all;
}

/* What no cache of these sizes can beat, for all cells that ask for it in one unit. */
static enum status bound_take(struct group *group, enum lab_unit unit, struct lab_result *results)
{
    const struct lab_run *run = group->run;
    uint64_t capacities[BOUND_CELLS_MAX];
    struct bound_answer answers[BOUND_CELLS_MAX];
    uint32_t cells[BOUND_CELLS_MAX];

    for (uint32_t from = 0, count; from < run->cells_count;) {
        for (count = 0; from < run->cells_count && count < BOUND_CELLS_MAX; from++) {
            if (group->cells[from] != NULL || run->setups[from].size->unit != unit)
                continue;
            capacities[count] = run->setups[from].size->capacity;
            cells[count++] = from;
        }
        if (count > 0 && bound_answers(group->bound, unit == LAB_BYTES, capacities, count, answers) != STATUS_OK)
            return say(group, STATUS_FULL, "no memory for pfoo, which sorts every request; look at fewer --requests");
        for (uint32_t i = 0; i < count; i++) {
            struct lab_counts *counts = &results[cells[i]].counts;

            *counts = group->bound_counts;
            counts->misses[LAB_MISS_CAPACITY] = counts->requests - counts->misses[LAB_MISS_COMPULSORY] - answers[i].hits;
            counts->miss_bytes = counts->bytes - answers[i].hit_bytes;
        }
    }
    return STATUS_OK;
}

static enum status bounds_take(struct group *group, struct lab_result *results)
{
    enum status status = STATUS_OK;

    if (group->bound == NULL)
        return STATUS_OK;
    status = bound_take(group, LAB_BYTES, results);
    if (status == STATUS_OK)
        status = bound_take(group, LAB_OBJECTS, results);
    lap_end(group, &group->bound_own_ns);
    for (uint32_t i = 0; i < group->run->cells_count; i++) {
        if (group->cells[i] != NULL)
            continue;
        results[i].memory_bytes = BOUND_REQUEST_BYTES * group->at;
        results[i].wall_ns += group->bound_own_ns;
    }
    return status;
}

static void results_take(const struct group *group, struct lab_result *ret_results)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    for (uint32_t i = 0; i < group->run->cells_count; i++) {
        ret_results[i] = (struct lab_result){
            .requests = group->at,
            .wall_ns = group->shared_ns + group->own_ns[i],
            .peak_bytes = (uint64_t)usage.ru_maxrss * 1024,
            .neighbours = group->run->cells_count,
        };
        if (group->cells[i] == NULL)
            continue;
        lab_cell_describe(group->cells[i], &ret_results[i]);
        /* A trace that ends within the warm-up has nothing to count. */
        if (group->at >= group->run->warmup)
            ret_results[i].counts = counted(lab_cell_counts(group->cells[i]), &group->warm[i]);
    }
}

static void cpu_deal(const struct group *group, struct lab_result *results)
{
    const double wall_ns = (double)max_i64(1, clock_ns(CLOCK_MONOTONIC) - group->began_ns);
    const double cpu_ns = (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - group->began_cpu_ns);

    for (uint32_t i = 0; i < group->run->cells_count; i++)
        results[i].cpu_ns = (int64_t)(cpu_ns * ((double)results[i].wall_ns / wall_ns));
}

static enum status cells_create(struct group *group)
{
    const uint32_t count = group->run->cells_count;

    group->cells = calloc(count, sizeof(struct lab_cell *));
    group->warm = calloc(count, sizeof(*group->warm));
    group->interval = calloc(count, sizeof(*group->interval));
    group->own_ns = calloc(count, sizeof(*group->own_ns));
    if (group->cells == NULL || group->warm == NULL || group->interval == NULL || group->own_ns == NULL)
        return STATUS_FULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct evict_policy *evict = group->run->setups[i].policy->evict;

        if (evict == NULL && group->bound == NULL && bound_create(group->run->warmup, &group->bound) != STATUS_OK)
            return STATUS_FULL;
        if (evict == NULL)
            continue;
        group->offline |= evict->offline;
        if (lab_cell_create(&group->run->setups[i], &group->cells[i]) != STATUS_OK)
            return STATUS_FULL;
    }
    return intern_create(&group->intern);
}

static void group_free(struct group *group)
{
    for (uint32_t i = 0; group->cells != NULL && i < group->run->cells_count; i++)
        lab_cell_free(group->cells[i]);
    bound_free(group->bound);
    intern_free(group->intern);
    object_trace_close(group->trace);
    free(group->own_ns);
    free(group->interval);
    free(group->warm);
    free(group->cells);
    free(group);
}

enum status lab_group_run(const struct lab_run *run, struct lab_result *ret_results, struct object_trace_info *ret_info,
                          char *ret_message)
{
    struct group *group = calloc(1, sizeof(*group));
    const struct lab_trace *trace = run->trace;
    enum status status;

    if (group == NULL) {
        snprintf(ret_message, TRACE_MESSAGE_MAX, "no memory to begin with");
        return STATUS_FULL;
    }
    group->run = run;
    group->message = ret_message;
    status = cells_create(group);
    if (status != STATUS_OK)
        say(group, status, "no memory for so many caches");
    else
        status = object_trace_open(trace->path, trace->format, trace->options, &group->trace, ret_message);
    if (status == STATUS_OK)
        status = blocks_run(group);
    if (status == STATUS_OK) {
        results_take(group, ret_results);
        status = bounds_take(group, ret_results);
        cpu_deal(group, ret_results);
        *ret_info = object_trace_info(group->trace);
    }
    group_free(group);
    return status;
}
