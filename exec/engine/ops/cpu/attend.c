/* Attention: a task is at most ATTENTION_QUERIES queries of one sequence that share a kv head. */
#include "engine/ops/cpu/work.h"

struct attend_work {
    struct tasks tasks;
    struct dev *dev;
    char *y;
    const char *q;
    const act *k, *v;
    const struct batch *batch;
};

static int64_t tiles_of(const struct dims *dims, const struct sequence *sequence)
{
    int64_t queries = (int64_t)sequence->rows * (dims->heads / dims->kv_heads);

    return (queries + ATTENTION_QUERIES - 1) / ATTENTION_QUERIES;
}

static void attend_task(const struct attend_work *work, const struct sequence *sequence, int64_t task, float *scratch)
{
    const struct dims *dims = &work->dev->config.dims;
    const int64_t size = (int64_t)act_bytes(work->dev->config.mode);
    const int32_t group = dims->heads / dims->kv_heads;
    const int32_t kv_head = (int32_t)(task % dims->kv_heads);
    const int32_t first = (int32_t)(task / dims->kv_heads) * ATTENTION_QUERIES;
    const int64_t row_stride = (int64_t)dims->heads * dims->head_dim;
    const int64_t query = (sequence->row * row_stride + (int64_t)kv_head * group * dims->head_dim) * size;
    const int64_t key = (int64_t)kv_head * KV_BLOCK_TOKENS * dims->head_dim * size;

    work->dev->kernels->attend(&(struct attention){
        .y = work->y + query,
        .q = work->q + query,
        .k = (const char *)work->k + key,
        .v = (const char *)work->v + key,
        .row_stride = row_stride,
        .block_stride = (int64_t)dims->kv_heads * KV_BLOCK_TOKENS * dims->head_dim,
        .blocks = work->batch->block_table + (int64_t)sequence->table * work->batch->blocks_max,
        .before = sequence->before,
        .group = group,
        .first = first,
        .count = (int32_t)min_i64(ATTENTION_QUERIES, (int64_t)sequence->rows * group - first),
        .head_dim = dims->head_dim,
        .mode = work->dev->config.mode,
        .scratch = scratch,
    });
}

static void attend_run(void *context, uint32_t thread)
{
    struct attend_work *work = context;
    const struct dims *dims = &work->dev->config.dims;
    const struct sequence *sequence = work->batch->sequence;
    int64_t begin = 0;
    int64_t task;

    while (tasks_take(&work->tasks, &task)) {
        while (task >= begin + tiles_of(dims, sequence) * dims->kv_heads) {
            begin += tiles_of(dims, sequence) * dims->kv_heads;
            sequence++;
        }
        attend_task(work, sequence, task - begin, work_scratch(work->dev, thread));
    }
}

void cpu_attend(struct dev *dev, act *y, const act *q, const act *k, const act *v, const struct batch *batch)
{
    struct attend_work work = {.dev = dev, .y = y, .q = q, .k = k, .v = v, .batch = batch};
    const struct dims *dims = &dev->config.dims;
    int64_t tasks = 0;
    int64_t cost = 0;

    for (int32_t s = 0; s < batch->now->sequences; s++) {
        const struct sequence *sequence = &batch->sequence[s];

        check(sequence->before + sequence->rows <= dev->config.positions_max);
        tasks += tiles_of(dims, sequence) * dims->kv_heads;
        cost += (int64_t)sequence->rows * (sequence->before + sequence->rows) * dims->heads * dims->head_dim * 2;
    }
    tasks_init(&work.tasks, tasks);
    team_run(work_team(dev, cost), attend_run, &work);
}
