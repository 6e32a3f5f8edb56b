/* The way back of what stays inside a row, and the optimizer, over vec.h's words, compiled once a set of kernels. */
#ifndef CPU_BODY_TRAIN_H
#define CPU_BODY_TRAIN_H

#include <math.h>

#include "engine/ops/cpu/train_kernels.h"

/* 1 / sqrt(mean(x^2) + eps), as body_norm has it. */
VEC float norm_scale(const float *x, float eps, int32_t n)
{
    vec squares = vec_zero();

    for (int32_t i = 0; i < n; i += 16) {
        vec a = load_as(DTYPE_F32, x, i, lanes_left(n, i));

        squares = vec_fma(a, a, squares);
    }
    return 1 / sqrtf(vec_sum(squares) / (float)n + eps);
}

static void body_norm_back(enum mode mode, act *ret_dx, float *dx, const float *dy, const float *x, const struct weight *gain, float eps,
                           int32_t n)
{
    const float scale = norm_scale(x, eps, n);
    vec products = vec_zero();
    vec back;

    for (int32_t i = 0; i < n; i += 16) {
        const int lanes = lanes_left(n, i);
        vec a = vec_mul(load_as(DTYPE_F32, dy, i, lanes), load_as(gain->dtype, gain->data, i, lanes));

        products = vec_fma(a, load_as(DTYPE_F32, x, i, lanes), products);
    }
    back = vec_set1(-scale * scale * scale * vec_sum(products) / (float)n);
    for (int32_t i = 0; i < n; i += 16) {
        const int lanes = lanes_left(n, i);
        vec a = vec_mul(load_as(DTYPE_F32, dy, i, lanes), load_as(gain->dtype, gain->data, i, lanes));

        a = vec_fma(back, load_as(DTYPE_F32, x, i, lanes), vec_mul(a, vec_set1(scale)));
        a = vec_add(load_as(DTYPE_F32, dx, i, lanes), a);
        store_act(MODE_EXACT, dx, i, a, lanes);
        if (ret_dx != NULL)
            store_act(mode, ret_dx, i, a, lanes);
    }
}

/* Turned back, before the norm: lanes i and i + d/2. */
VEC void turned_back(const float *dy, const float *angle, int32_t d, int32_t i, int lanes, vec *ret_low, vec *ret_high)
{
    const int32_t half = d / 2;
    vec low = load_as(DTYPE_F32, dy, i, lanes);
    vec high = load_as(DTYPE_F32, dy, i + half, lanes);
    vec cosine = load_as(DTYPE_F32, angle, i, lanes);
    vec sine = load_as(DTYPE_F32, angle, i + half, lanes);

    *ret_low = vec_add(vec_mul(low, cosine), vec_mul(high, sine));
    *ret_high = vec_sub(vec_mul(high, cosine), vec_mul(low, sine));
}

static void body_turn_back(enum mode mode, act *dx, const float *dy, const float *x, const struct weight *gain, float eps,
                           const float *angle, int32_t d)
{
    const int32_t half = d / 2;
    const bool normed = gain->data != NULL;
    const float scale = normed ? norm_scale(x, eps, d) : 1;
    vec products = vec_zero();
    vec back = vec_zero();
    vec low;
    vec high;

    for (int32_t i = 0; normed && i < half; i += 16) {
        const int lanes = lanes_left(half, i);

        turned_back(dy, angle, d, i, lanes, &low, &high);
        low = vec_mul(low, load_as(gain->dtype, gain->data, i, lanes));
        high = vec_mul(high, load_as(gain->dtype, gain->data, i + half, lanes));
        products = vec_fma(low, load_as(DTYPE_F32, x, i, lanes), products);
        products = vec_fma(high, load_as(DTYPE_F32, x, i + half, lanes), products);
    }
    if (normed)
        back = vec_set1(-scale * scale * scale * vec_sum(products) / (float)d);
    for (int32_t i = 0; i < half; i += 16) {
        const int lanes = lanes_left(half, i);

        turned_back(dy, angle, d, i, lanes, &low, &high);
        if (normed) {
            low = vec_mul(vec_mul(low, load_as(gain->dtype, gain->data, i, lanes)), vec_set1(scale));
            high = vec_mul(vec_mul(high, load_as(gain->dtype, gain->data, i + half, lanes)), vec_set1(scale));
            low = vec_fma(back, load_as(DTYPE_F32, x, i, lanes), low);
            high = vec_fma(back, load_as(DTYPE_F32, x, i + half, lanes), high);
        }
        store_act(mode, dx, i, low, lanes);
        store_act(mode, dx, i + half, high, lanes);
    }
}

static void body_swiglu_back(enum mode mode, act *dgate, act *dup, const float *dy, const float *gate, const float *up, int32_t n)
{
    const vec one = vec_set1(1);

    for (int32_t i = 0; i < n; i += 16) {
        const int lanes = lanes_left(n, i);
        vec a = load_as(DTYPE_F32, gate, i, lanes);
        vec back = load_as(DTYPE_F32, dy, i, lanes);
        vec s = vec_div(one, vec_add(one, vec_exp(vec_sub(vec_zero(), a))));
        vec slope = vec_mul(s, vec_fma(a, vec_sub(one, s), one));

        store_act(mode, dgate, i, vec_mul(vec_mul(back, load_as(DTYPE_F32, up, i, lanes)), slope), lanes);
        store_act(mode, dup, i, vec_mul(back, vec_mul(a, s)), lanes);
    }
}

/* vec_max gives its second when one is no number, so such a one is passed over. */
VEC float row_largest(const float *x, int32_t n)
{
    const vec lowest = vec_set1(-INFINITY);
    vec largest = lowest;

    for (int32_t i = 0; i < n; i += 16)
        largest = vec_max(vec_keep(load_as(DTYPE_F32, x, i, lanes_left(n, i)), lanes_left(n, i), lowest), largest);
    return vec_largest(largest);
}

/* The lowest place of `top`, the row's largest. */
VEC int32_t row_best(const float *x, float top, int32_t n)
{
    const vec below = vec_set1(nextafterf(top, -INFINITY));

    for (int32_t i = 0; i < n; i += 16) {
        const int lanes = lanes_left(n, i);
        const uint32_t found = vec_above(load_as(DTYPE_F32, x, i, lanes), below) & ((1u << lanes) - 1);

        if (found != 0)
            return i + __builtin_ctz(found);
    }
    return 0; /* all are -infinity, or count as that */
}

static float body_loss(enum mode mode, int32_t *ret_best, act *dlogits, const float *logits, int32_t target, float coef, int32_t n)
{
    const float top = row_largest(logits, n);
    vec total = vec_zero();
    float sum;
    float share;

    *ret_best = row_best(logits, top, n);
    for (int32_t i = 0; i < n; i += 16) {
        vec a = vec_exp(vec_sub(load_as(DTYPE_F32, logits, i, lanes_left(n, i)), vec_set1(top)));

        total = vec_add(total, vec_keep(a, lanes_left(n, i), vec_zero()));
    }
    sum = vec_sum(total);
    share = coef / sum;
    for (int32_t i = 0; dlogits != NULL && i < n; i += 16) {
        const int lanes = lanes_left(n, i);
        vec a = vec_mul(vec_exp(vec_sub(load_as(DTYPE_F32, logits, i, lanes), vec_set1(top))), vec_set1(share));

        store_act(mode, dlogits, i, a, lanes);
    }
    if (dlogits != NULL) {
        float one = expf(logits[target] - top) / sum - 1;
        uint16_t half = bf16_round(coef * one);

        if (mode == MODE_EXACT)
            ((float *)dlogits)[target] = coef * one;
        else
            memcpy((uint16_t *)dlogits + target, &half, 2);
    }
    return logits[target] - top - logf(sum);
}

static void body_softmax(float *scores, float scale, int32_t keys, int32_t n)
{
    const vec by = vec_set1(scale);
    const float top = row_largest(scores, keys);
    vec total = vec_zero();
    vec share;

    for (int32_t i = 0; i < keys; i += 16) {
        const int lanes = lanes_left(keys, i);
        vec a = vec_exp(vec_mul(vec_sub(load_as(DTYPE_F32, scores, i, lanes), vec_set1(top)), by));

        a = vec_keep(a, lanes, vec_zero());
        total = vec_add(total, a);
        store_act(MODE_EXACT, scores, i, a, lanes);
    }
    share = vec_set1(1 / vec_sum(total));
    for (int32_t i = 0; i < keys; i += 16)
        store_act(MODE_EXACT, scores, i, vec_mul(load_as(DTYPE_F32, scores, i, lanes_left(keys, i)), share), lanes_left(keys, i));
    if (keys < n)
        memset(scores + keys, 0, (size_t)(n - keys) * sizeof(float));
}

static void body_softmax_back(float *dp, const float *p, float scale, int32_t n)
{
    vec total = vec_zero();
    vec mean;

    for (int32_t i = 0; i < n; i += 16)
        total = vec_fma(load_as(DTYPE_F32, p, i, lanes_left(n, i)), load_as(DTYPE_F32, dp, i, lanes_left(n, i)), total);
    mean = vec_set1(vec_sum(total));
    for (int32_t i = 0; i < n; i += 16) {
        const int lanes = lanes_left(n, i);
        vec a = vec_mul(load_as(DTYPE_F32, p, i, lanes), vec_sub(load_as(DTYPE_F32, dp, i, lanes), mean));

        store_act(MODE_EXACT, dp, i, vec_mul(a, vec_set1(scale)), lanes);
    }
}

/* In plain C: it is memory that takes the time. */
static void body_adamw(float *p, float *m, float *v, const float *g, int64_t n, const struct adamw *adamw)
{
    const float keep = 1 - adamw->rate * adamw->decay;
    const float rate = adamw->rate / adamw->correction1;
    const float root = sqrtf(adamw->correction2);

    for (int64_t i = 0; i < n; i++) {
        const float gradient = adamw->gradient_scale * g[i];

        m[i] = adamw->beta1 * m[i] + (1 - adamw->beta1) * gradient;
        v[i] = adamw->beta2 * v[i] + (1 - adamw->beta2) * gradient * gradient;
        p[i] = keep * p[i] - rate * m[i] / (sqrtf(v[i]) / root + adamw->epsilon);
    }
}

/* Eight sums side by side, added up in order. */
static double body_sumsq(const float *g, int64_t n)
{
    double sum[8] = {0};
    double total = 0;

    for (int64_t i = 0; i < n; i++)
        sum[i % 8] += (double)g[i] * (double)g[i];
    for (int i = 0; i < 8; i++)
        total += sum[i];
    return total;
}

#define TRAIN_KERNELS_BODY                                                                                                       \
    {                                                                                                                            \
        .panel_rows = body_panel_rows, .panel_columns = body_panel_columns, .panel_multiply = body_panel_multiply,               \
        .transpose = body_transpose, .norm_back = body_norm_back, .turn_back = body_turn_back, .swiglu_back = body_swiglu_back,  \
        .loss = body_loss, .softmax = body_softmax, .softmax_back = body_softmax_back, .adamw = body_adamw, .sumsq = body_sumsq, \
    }

#endif
