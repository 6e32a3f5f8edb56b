/* The way back of attention against its definition. The bound of a number is the sum of its terms' sizes, which are reckoned here. */
#include <math.h>
#include <stdlib.h>

#include "both.h"
#include "cases_train.h"
#include "engine/ops/ref/train.h"

/* One query of one head: the sizes that its terms have in dq, dk and dv. Keys are at key[j * d], of act as double. */
struct sizes {
    int32_t d;
    int64_t width;               /* of dturned */
    const double *query, *key, *value, *dy;
    double *p, *ds;              /* [keys] */
};

static void sizes_add(const struct sizes *it, int32_t t, float *dq, float *dk, float *dv)
{
    double largest = -INFINITY, total = 0, mean = 0;

    for (int32_t j = 0; j <= t; j++) {
        it->p[j] = it->ds[j] = 0;
        for (int32_t c = 0; c < it->d; c++) {
            it->p[j] += it->query[c] * it->key[(int64_t)j * it->d + c] / sqrt(it->d);
            it->ds[j] += fabs(it->dy[c] * it->value[(int64_t)j * it->d + c]);
        }
        largest = fmax(largest, it->p[j]);
    }
    for (int32_t j = 0; j <= t; j++)
        total += it->p[j] = exp(it->p[j] - largest);
    for (int32_t j = 0; j <= t; j++)
        mean += it->p[j] / total * it->ds[j];
    for (int32_t j = 0; j <= t; j++) {
        const double p = it->p[j] / total, ds = p * (it->ds[j] + mean) / sqrt(it->d);

        for (int32_t c = 0; c < it->d; c++) {
            dq[c] += (float)(ds * fabs(it->key[(int64_t)j * it->d + c]));
            dk[j * it->width + c] += (float)(ds * fabs(it->query[c]));
            dv[j * it->width + c] += (float)(p * fabs(it->dy[c]));
        }
    }
}

static double *widened(enum dtype dtype, const void *data, int64_t at, int32_t count)
{
    double *wide = malloc((size_t)count * sizeof(*wide));

    for (int32_t i = 0; i < count; i++)
        wide[i] = (double)dtype_load(dtype, data, (size_t)(at + i));
    return wide;
}

/* Keys, or values, of a sequence and a kv head out of their blocks. */
static double *gathered(const struct world *world, const void *blocks, const struct sequence *sequence, int32_t kv_head)
{
    const struct dims *dims = &world->ask.dims;
    const int32_t d = dims->head_dim;
    double *rows = malloc((size_t)sequence->rows * (size_t)d * sizeof(*rows));

    for (int32_t j = 0; j < sequence->rows; j++) {
        int64_t block = world->host.block_table[(int64_t)sequence->table * world->host.blocks_max + j / KV_BLOCK_TOKENS];
        double *row = widened(world_act(world), blocks, ((block * dims->kv_heads + kv_head) * KV_BLOCK_TOKENS + j % KV_BLOCK_TOKENS) * d, d);

        memcpy(rows + (int64_t)j * d, row, (size_t)d * sizeof(*rows));
        free(row);
    }
    return rows;
}

/* dturned's shape: the sums of all terms' sizes. */
static float *attend_sizes(const struct world *world, const float *dy, const void *q, const void *k, const void *v)
{
    const struct dims *dims = &world->ask.dims;
    const int32_t d = dims->head_dim, group = dims->heads / dims->kv_heads;
    const int64_t width = (int64_t)(dims->heads + 2 * dims->kv_heads) * d;
    float *sizes = calloc((size_t)(world->host.max.rows * width) + 1, sizeof(*sizes));
    double *memory = calloc(2 * (size_t)world->positions_max, sizeof(*memory));

    for (int32_t i = 0; i < world->now.sequences * dims->heads; i++) {
        const struct sequence *sequence = &world->host.sequence[i / dims->heads];
        const int32_t head = i % dims->heads;
        double *keys = gathered(world, k, sequence, head / group), *values = gathered(world, v, sequence, head / group);
        float *first = sizes + sequence->row * width;

        for (int32_t t = 0; t < sequence->rows; t++) {
            const int64_t at = ((int64_t)(sequence->row + t) * dims->heads + head) * d;
            double *query = widened(world_act(world), q, at, d), *back = widened(DTYPE_F32, dy, at, d);
            const struct sizes it = {d, width, query, keys, values, back, memory, memory + world->positions_max};

            sizes_add(&it, t, first + t * width + head * d, first + (dims->heads + head / group) * d,
                      first + (dims->heads + dims->kv_heads + head / group) * d);
            free(query);
            free(back);
        }
        free(keys);
        free(values);
    }
    free(memory);
    return sizes;
}

const char *case_attend_back(struct world *world)
{
    const struct dims *dims = &world->ask.dims;
    const int32_t d = dims->head_dim, width = (dims->heads + 2 * dims->kv_heads) * d;
    const int64_t rows = world->host.max.rows, now = (int64_t)world->now.rows * width;
    struct both q = both_drawn(world, world_act(world), rows * dims->heads * d), dy = both_drawn(world, DTYPE_F32, rows * dims->heads * d);
    struct both dturned = both_nan(world, DTYPE_F32, rows * width), k, v;
    /* exact: a score's error goes into the exponent. fast: dy, p and ds are rounded to bf16, 2^-9 each, and one more is for the rest. */
    const double factor = world->ask.mode == MODE_FAST ? 4 * 0x1p-9 : 16 * sqrt(d + world->positions_max) * 0x1p-24;
    const char *answer;
    float *bound;
    void *got;

    kv_drawn(world, &k, &v);
    train_ops_ref.attend_back(&world->host_dev, dturned.host, dy.host, q.host, k.host, v.host, &world->host);
    world->train->attend_back(world->dev, dturned.device, dy.device, q.device, k.device, v.device, &world->batch);
    bound = attend_sizes(world, dy.host, q.host, k.host, v.host);
    got = fetched(world, &dturned);
    answer = compare("attend_back", DTYPE_F32, got, dturned.host, bound, factor, now, width);
    if (answer == NULL)
        answer = still_nan("attend_back", DTYPE_F32, got, now, rows * width, width);
    free(bound);
    free(got);
    both_free(world, &q);
    both_free(world, &dy);
    both_free(world, &k);
    both_free(world, &v);
    both_free(world, &dturned);
    return answer;
}
