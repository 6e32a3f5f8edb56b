/* The way back of attention by its definition. With p the softmax of s = q k / sqrt(d) and y = p v:
 * dv_j = sum_t p_tj dy_t; dp_tj = dy_t v_j; ds_tj = p_tj (dp_tj - sum_i p_ti dp_ti); dq_t = sum_j ds_tj k_j / sqrt(d), dk_j alike. */
#include "engine/ops/ref/train.h"

#include <math.h>
#include <stdlib.h>

/* One sequence and one head: dk and dv [rows][d] are added to, dq [rows][d] is written. */
struct head {
    const struct batch *batch;
    const struct sequence *sequence;
    const struct dims *dims;
    enum mode mode;
    int32_t h;
    double *p;   /* [rows] */
    double *ds;  /* [rows] */
    double *dk;
    double *dv;
};

static double key_load(const struct head *head, const act *k, int32_t j, int32_t c)
{
    const struct dims *dims = head->dims;
    const int32_t kv_head = head->h / (dims->heads / dims->kv_heads);
    int64_t block = head->batch->block_table[(int64_t)head->sequence->table * head->batch->blocks_max + j / KV_BLOCK_TOKENS];

    return act_load(head->mode, k, ((block * dims->kv_heads + kv_head) * KV_BLOCK_TOKENS + j % KV_BLOCK_TOKENS) * dims->head_dim + c);
}

static void query_back(const struct head *head, int32_t t, float *dq, const float *dy, const act *q, const act *k, const act *v)
{
    const int32_t d = head->dims->head_dim;
    const int64_t at = ((int64_t)(head->sequence->row + t) * head->dims->heads + head->h) * d;
    double largest = -INFINITY;
    double total = 0;
    double mean = 0;

    for (int32_t j = 0; j <= t; j++) {
        head->p[j] = 0;
        for (int32_t c = 0; c < d; c++)
            head->p[j] += act_load(head->mode, q, at + c) * key_load(head, k, j, c);
        head->p[j] /= sqrt((double)d);
        largest = fmax(largest, head->p[j]);
    }
    for (int32_t j = 0; j <= t; j++) {
        head->p[j] = exp(head->p[j] - largest);
        total += head->p[j];
    }
    for (int32_t j = 0; j <= t; j++) {
        head->p[j] /= total;
        head->ds[j] = 0;
        for (int32_t c = 0; c < d; c++)
            head->ds[j] += (double)dy[at + c] * key_load(head, v, j, c);
        mean += head->p[j] * head->ds[j];
    }
    for (int32_t j = 0; j <= t; j++) {
        head->ds[j] = head->p[j] * (head->ds[j] - mean) / sqrt((double)d);
        for (int32_t c = 0; c < d; c++) {
            head->dv[(int64_t)j * d + c] += head->p[j] * (double)dy[at + c];
            head->dk[(int64_t)j * d + c] += head->ds[j] * act_load(head->mode, q, at + c);
        }
    }
    for (int32_t c = 0; c < d; c++) {
        double sum = 0;

        for (int32_t j = 0; j <= t; j++)
            sum += head->ds[j] * key_load(head, k, j, c);
        dq[c] = (float)sum;
    }
}

static void sequence_back(struct head *head, float *dturned, const float *dy, const act *q, const act *k, const act *v)
{
    const struct dims *dims = head->dims;
    const int32_t d = dims->head_dim;
    const int32_t group = dims->heads / dims->kv_heads;
    const int32_t rows = head->sequence->rows;
    const int64_t width = (int64_t)(dims->heads + 2 * dims->kv_heads) * d;
    float *first = dturned + head->sequence->row * width;

    for (int32_t kv_head = 0; kv_head < dims->kv_heads; kv_head++) {
        memset(head->dk, 0, (size_t)rows * (size_t)d * sizeof(double));
        memset(head->dv, 0, (size_t)rows * (size_t)d * sizeof(double));
        for (head->h = kv_head * group; head->h < (kv_head + 1) * group; head->h++)
            for (int32_t t = 0; t < rows; t++)
                query_back(head, t, first + t * width + (int64_t)head->h * d, dy, q, k, v);
        for (int32_t t = 0; t < rows; t++)
            for (int32_t c = 0; c < d; c++) {
                first[t * width + (int64_t)(dims->heads + kv_head) * d + c] = (float)head->dk[(int64_t)t * d + c];
                first[t * width + (int64_t)(dims->heads + dims->kv_heads + kv_head) * d + c] = (float)head->dv[(int64_t)t * d + c];
            }
    }
}

void ref_attend_back(struct dev *dev, float *dturned, const float *dy, const act *q, const act *k, const act *v, const struct batch *batch)
{
    const struct dims *dims = &dev->config.dims;

    for (int32_t s = 0; s < batch->now->sequences; s++) {
        const size_t rows = (size_t)batch->sequence[s].rows;
        struct head head = {.batch = batch, .sequence = &batch->sequence[s], .dims = dims, .mode = dev->config.mode};

        check(head.sequence->before == 0);
        head.p = malloc(rows * sizeof(double));
        head.ds = malloc(rows * sizeof(double));
        head.dk = malloc(rows * (size_t)dims->head_dim * sizeof(double));
        head.dv = malloc(rows * (size_t)dims->head_dim * sizeof(double));
        check(head.p != NULL && head.ds != NULL && head.dk != NULL && head.dv != NULL);
        sequence_back(&head, dturned, dy, q, k, v);
        free(head.p);
        free(head.ds);
        free(head.dk);
        free(head.dv);
    }
}
