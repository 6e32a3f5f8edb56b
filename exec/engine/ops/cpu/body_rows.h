/* What stays inside a row, over vec.h's words, compiled once a set of kernels. */
#ifndef CPU_BODY_ROWS_H
#define CPU_BODY_ROWS_H

#include <math.h>

/* `n` lanes from element `at`. */
VEC vec load_as(enum dtype dtype, const void *from, int64_t at, int n)
{
    const char *place = (const char *)from + at * (int64_t)dtype_bytes(dtype);

    if (dtype == DTYPE_BF16)
        return n == 16 ? vec_widen_bf16(place) : vec_widen_bf16_n(place, n);
    if (dtype == DTYPE_F16)
        return n == 16 ? vec_widen_f16(place) : vec_widen_f16_n(place, n);
    return n == 16 ? vec_load(place) : vec_load_n(place, n);
}

VEC void store_act(enum mode mode, act *to, int64_t at, vec a, int n)
{
    char *place = (char *)to + at * (int64_t)act_bytes(mode);

    if (mode == MODE_EXACT && n == 16)
        vec_store(place, a);
    else if (mode == MODE_EXACT)
        vec_store_n(place, a, n);
    else if (n == 16)
        vec_round_bf16(place, a);
    else
        vec_round_bf16_n(place, a, n);
}

VEC int lanes_left(int64_t count, int64_t at)
{
    return count - at < 16 ? (int)(count - at) : 16;
}

static void body_round(enum mode mode, act *to, const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16)
        store_act(mode, to, i, load_as(DTYPE_F32, from, i, lanes_left(n, i)), lanes_left(n, i));
}

static void body_widen(float *to, enum dtype dtype, const void *from, int64_t at, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16)
        store_act(MODE_EXACT, to, i, load_as(dtype, from, at + i, lanes_left(n, i)), lanes_left(n, i));
}

static void body_norm(enum mode mode, act *y, float *x, const float *add, const struct weight *gain, float eps, int32_t n)
{
    vec squares = vec_zero();
    vec scale;

    for (int32_t i = 0; i < n; i += 16) {
        const int lanes = lanes_left(n, i);
        vec a = load_as(DTYPE_F32, x, i, lanes);

        if (add != NULL) {
            a = vec_add(a, load_as(DTYPE_F32, add, i, lanes));
            store_act(MODE_EXACT, x, i, a, lanes);
        }
        squares = vec_fma(a, a, squares);
    }
    scale = vec_set1(1 / sqrtf(vec_sum(squares) / (float)n + eps));
    for (int32_t i = 0; i < n; i += 16) {
        const int lanes = lanes_left(n, i);
        vec a = vec_mul(load_as(DTYPE_F32, x, i, lanes), scale);

        store_act(mode, y, i, vec_mul(a, load_as(gain->dtype, gain->data, i, lanes)), lanes);
    }
}

static void body_turn(enum mode mode, act *y, const float *x, const struct weight *gain, float eps, const float *angle, int32_t d)
{
    const int32_t half = d / 2;
    vec scale = vec_set1(1);

    if (gain->data != NULL) {
        vec squares = vec_zero();

        for (int32_t i = 0; i < d; i += 16) {
            vec a = load_as(DTYPE_F32, x, i, lanes_left(d, i));

            squares = vec_fma(a, a, squares);
        }
        scale = vec_set1(1 / sqrtf(vec_sum(squares) / (float)d + eps));
    }
    for (int32_t i = 0; i < half; i += 16) {
        const int lanes = lanes_left(half, i);
        vec low = load_as(DTYPE_F32, x, i, lanes);
        vec high = load_as(DTYPE_F32, x, i + half, lanes);
        vec cosine = load_as(DTYPE_F32, angle, i, lanes);
        vec sine = load_as(DTYPE_F32, angle, i + half, lanes);

        if (gain->data != NULL) {
            low = vec_mul(vec_mul(low, scale), load_as(gain->dtype, gain->data, i, lanes));
            high = vec_mul(vec_mul(high, scale), load_as(gain->dtype, gain->data, i + half, lanes));
        }
        store_act(mode, y, i, vec_sub(vec_mul(low, cosine), vec_mul(high, sine)), lanes);
        store_act(mode, y, i + half, vec_add(vec_mul(high, cosine), vec_mul(low, sine)), lanes);
    }
}

static void body_swiglu(enum mode mode, act *y, const float *gate, const float *up, int32_t n)
{
    for (int32_t i = 0; i < n; i += 16) {
        const int lanes = lanes_left(n, i);
        vec a = load_as(DTYPE_F32, gate, i, lanes);
        vec below = vec_add(vec_set1(1), vec_exp(vec_sub(vec_zero(), a)));

        store_act(mode, y, i, vec_mul(vec_div(a, below), load_as(DTYPE_F32, up, i, lanes)), lanes);
    }
}

/* Puts one that is known to belong there into its place; the list has `count` of at most `best`. */
static int insert(float *logit, int32_t *id, int count, int best, float value, int32_t new_id)
{
    int at = count < best ? count : best - 1;

    /* Ids come rising, so an equal one goes behind. */
    for (; at > 0 && logit[at - 1] < value; at--) {
        logit[at] = logit[at - 1];
        id[at] = id[at - 1];
    }
    logit[at] = value;
    id[at] = new_id;
    return count < best ? count + 1 : best;
}

static float body_pick(float *ret_logit, int32_t *ret_id, const float *logit, int32_t n, int best)
{
    const vec lowest = vec_set1(-INFINITY);
    vec largest = lowest;
    vec total = vec_zero();
    float top;
    int count = 0;

    for (int32_t i = 0; i < n; i += 16)
        largest = vec_max(largest, vec_keep(load_as(DTYPE_F32, logit, i, lanes_left(n, i)), lanes_left(n, i), lowest));
    top = vec_largest(largest);
    for (int32_t i = 0; i < n; i += 16) {
        vec a = vec_exp(vec_sub(load_as(DTYPE_F32, logit, i, lanes_left(n, i)), vec_set1(top)));

        total = vec_add(total, vec_keep(a, lanes_left(n, i), vec_zero()));
    }
    for (int32_t i = 0; i < n && best > 0; i += 16) {
        uint32_t candidates = 0xffff;

        if (count == best)
            candidates = vec_above(load_as(DTYPE_F32, logit, i, lanes_left(n, i)), vec_set1(ret_logit[best - 1]));
        for (candidates &= (1u << lanes_left(n, i)) - 1; candidates != 0; candidates &= candidates - 1) {
            int32_t id = i + __builtin_ctz(candidates);
            float value = logit[id] == logit[id] ? logit[id] : -INFINITY;

            if (count < best || value > ret_logit[best - 1])
                count = insert(ret_logit, ret_id, count, best, value, id);
        }
    }
    return top + logf(vec_sum(total));
}

#define KERNELS_BODY                                                                                                              \
    {                                                                                                                             \
        .multiply = body_multiply, .expand = body_expand, .attend = body_attend, .round = body_round, .widen = body_widen,        \
        .norm = body_norm, .turn = body_turn, .swiglu = body_swiglu, .pick = body_pick,                                           \
    }

#endif
