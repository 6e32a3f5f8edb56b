/* Attention over vec.h's words, compiled once a set of kernels. A query walks its keys in blocks of sixteen, in order, with a running
 * largest score; a block's keys lie in the sixteen lanes, so a score is one lane's sum over d. Queries share the keys and values that
 * were turned round and widened for them, and nothing else: a query's bits know nothing of the others. Keys behind a query's own are
 * never looked at, for anything may lie there. */
#ifndef CPU_BODY_ATTEND_H
#define CPU_BODY_ATTEND_H

#include <math.h>

/* e^x within 2 units in the last place for -87 <= x <= 88, the bounds' values beyond them, and no number for no number (the constant
 * goes first, so that max and min give it back). Polynomial of Cephes' expf. */
VEC vec vec_exp(vec x)
{
    vec n;
    vec f;
    vec p;

    x = vec_min(vec_set1(88.0f), vec_max(vec_set1(-87.0f), x));
    n = vec_nearest(vec_mul(x, vec_set1(1.44269504f)));
    f = vec_fma(n, vec_set1(-0.693359375f), x);
    f = vec_fma(n, vec_set1(2.12194440e-4f), f);
    p = vec_set1(1.9875691500e-4f);
    p = vec_fma(p, f, vec_set1(1.3981999507e-3f));
    p = vec_fma(p, f, vec_set1(8.3334519073e-3f));
    p = vec_fma(p, f, vec_set1(4.1665795894e-2f));
    p = vec_fma(p, f, vec_set1(1.6666665459e-1f));
    p = vec_fma(p, f, vec_set1(5.0000001201e-1f));
    p = vec_add(vec_fma(p, vec_mul(f, f), f), vec_set1(1));
    return vec_scale(p, n);
}

struct tile_memory {
    int32_t words;      /* 32-bit words of a key: d, or d/2 pairs */
    int32_t columns;    /* d rounded up to 16 */
    float *key;         /* [words][16]: word w of the sixteen keys */
    float *value;       /* [16][columns] */
    float *sum;         /* [queries][columns] */
    float *total;       /* [queries][16] */
    float *weight;      /* [queries][16]: scores, then e^(score - largest) */
    float *largest;     /* [queries] */
};

/* The first `keys` keys of a block, by columns; the others are zero. */
static void pack_keys(const struct tile_memory *t, const char *k, int keys)
{
    for (int32_t word = 0; word < t->words; word += 16) {
        const int n = t->words - word < 16 ? t->words - word : 16;
        vec row[16];

        for (int j = 0; j < 16; j++) {
            const char *from = k + ((int64_t)j * t->words + word) * 4;

            row[j] = j >= keys ? vec_zero() : n == 16 ? vec_load(from) : vec_load_n(from, n);
        }
        vec_transpose(row);
        for (int w = 0; w < n; w++)
            vec_store(t->key + (word + w) * 16, row[w]);
    }
}

static void pack_values(const struct attention *a, const struct tile_memory *t, const char *v, int keys)
{
    for (int j = 0; j < keys; j++)
        for (int32_t c = 0; c < t->columns; c += 16) {
            const int n = a->head_dim - c < 16 ? a->head_dim - c : 16;
            const char *from = v + ((int64_t)j * a->head_dim + c) * (int64_t)act_bytes(a->mode);
            vec row = vec_zero();

            if (a->mode == MODE_EXACT)
                row = n == 16 ? vec_load(from) : vec_load_n(from, n);
            else
                row = n == 16 ? vec_widen_bf16(from) : vec_widen_bf16_n(from, n);
            vec_store(t->value + j * t->columns + c, row);
        }
}

VEC const char *query_at(const struct attention *a, int32_t i)
{
    int64_t at = (int64_t)((a->first + i) / a->group) * a->row_stride + (int64_t)((a->first + i) % a->group) * a->head_dim;

    return (const char *)a->q + at * (int64_t)act_bytes(a->mode);
}

/* Scores of `queries` queries from i on against the block's sixteen keys. */
VEC void score(const struct attention *a, const struct tile_memory *t, int32_t i, int queries, enum mode mode)
{
    const vec scale = vec_set1(1 / sqrtf((float)a->head_dim));
    const char *q[8];
    vec sum[8];

    UNROLL for (int j = 0; j < queries; j++) {
        q[j] = query_at(a, i + j);
        sum[j] = vec_zero();
    }
    for (int32_t word = 0; word < t->words; word++) {
        if (mode == MODE_EXACT) {
            vec key = vec_load(t->key + word * 16);

            UNROLL for (int j = 0; j < queries; j++) {
                float x;

                memcpy(&x, q[j] + word * 4, 4);
                sum[j] = vec_fma(vec_set1(x), key, sum[j]);
            }
        } else {
            pairs key = pairs_load(t->key + word * 16);

            UNROLL for (int j = 0; j < queries; j++)
                sum[j] = pairs_dot(sum[j], pairs_set1(q[j] + word * 4), key);
        }
    }
    UNROLL for (int j = 0; j < queries; j++)
        vec_store(t->weight + (i + j) * 16, vec_mul(sum[j], scale));
}

static void score_all(const struct attention *a, const struct tile_memory *t, int32_t from)
{
    int32_t i = from;

    if (a->mode == MODE_EXACT) {
        for (; i + 8 <= a->count; i += 8)
            score(a, t, i, 8, MODE_EXACT);
        for (; i + 2 <= a->count; i += 2)
            score(a, t, i, 2, MODE_EXACT);
        for (; i < a->count; i++)
            score(a, t, i, 1, MODE_EXACT);
    } else {
        for (; i + 8 <= a->count; i += 8)
            score(a, t, i, 8, MODE_FAST);
        for (; i + 2 <= a->count; i += 2)
            score(a, t, i, 2, MODE_FAST);
        for (; i < a->count; i++)
            score(a, t, i, 1, MODE_FAST);
    }
}

/* Weights of a query's `keys` keys of this block; what was summed before shrinks when a larger score comes. */
static void weigh(const struct tile_memory *t, int32_t i, int keys)
{
    float *sum = t->sum + (int64_t)i * t->columns;
    vec scores = vec_keep(vec_load(t->weight + i * 16), keys, vec_set1(-INFINITY));
    vec total = vec_load(t->total + i * 16);
    float largest = vec_largest(scores);

    if (largest > t->largest[i]) {
        vec shrink = vec_exp(vec_set1(t->largest[i] - largest));

        for (int32_t c = 0; c < t->columns; c += 16)
            vec_store(sum + c, vec_mul(vec_load(sum + c), shrink));
        total = vec_mul(total, shrink);
        t->largest[i] = largest;
    }
    scores = vec_keep(vec_exp(vec_sub(scores, vec_set1(t->largest[i]))), keys, vec_zero());
    vec_store(t->weight + i * 16, scores);
    vec_store(t->total + i * 16, vec_add(total, scores));
}

/* sum += weight * value over the block's keys in order, `width` vectors of columns at a time. */
VEC void gather(const struct tile_memory *t, int32_t i, int keys, int32_t column, int width)
{
    float *to = t->sum + (int64_t)i * t->columns + column;
    const float *from = t->value + column;
    vec sum[4];

    UNROLL for (int c = 0; c < width; c++)
        sum[c] = vec_load(to + 16 * c);
    for (int j = 0; j < keys; j++) {
        vec weight = vec_set1(t->weight[i * 16 + j]);

        UNROLL for (int c = 0; c < width; c++)
            sum[c] = vec_fma(weight, vec_load(from + (int64_t)j * t->columns + 16 * c), sum[c]);
    }
    UNROLL for (int c = 0; c < width; c++)
        vec_store(to + 16 * c, sum[c]);
}

static void gather_all(const struct tile_memory *t, int32_t i, int keys)
{
    int32_t column = 0;

    for (; column + 64 <= t->columns; column += 64)
        gather(t, i, keys, column, 4);
    for (; column < t->columns; column += 16)
        gather(t, i, keys, column, 1);
}

static void finish(const struct attention *a, const struct tile_memory *t, int32_t i)
{
    const vec share = vec_set1(1 / vec_sum(vec_load(t->total + i * 16)));
    const int64_t at = (int64_t)((a->first + i) / a->group) * a->row_stride + (int64_t)((a->first + i) % a->group) * a->head_dim;
    char *y = (char *)a->y + at * (int64_t)act_bytes(a->mode);

    for (int32_t c = 0; c < a->head_dim; c += 16) {
        const int n = a->head_dim - c < 16 ? a->head_dim - c : 16;
        vec value = vec_mul(vec_load(t->sum + (int64_t)i * t->columns + c), share);

        if (a->mode == MODE_EXACT && n == 16)
            vec_store(y + c * 4, value);
        else if (a->mode == MODE_EXACT)
            vec_store_n(y + c * 4, value, n);
        else if (n == 16)
            vec_round_bf16(y + c * 2, value);
        else
            vec_round_bf16_n(y + c * 2, value, n);
    }
}

static struct tile_memory tile_memory_of(const struct attention *a)
{
    struct tile_memory t = {
        .words = a->mode == MODE_EXACT ? a->head_dim : a->head_dim / 2,
        .columns = (a->head_dim + 15) / 16 * 16,
        .key = a->scratch,
    };

    t.value = t.key + 16 * t.columns;
    t.sum = t.value + 16 * t.columns;
    t.total = t.sum + ATTENTION_QUERIES * t.columns;
    t.weight = t.total + ATTENTION_QUERIES * 16;
    t.largest = t.weight + ATTENTION_QUERIES * 16;
    memset(t.sum, 0, (size_t)a->count * (size_t)t.columns * sizeof(float));
    memset(t.total, 0, (size_t)a->count * 16 * sizeof(float));
    for (int32_t i = 0; i < a->count; i++)
        t.largest[i] = -INFINITY;
    return t;
}

static void body_attend(const struct attention *a)
{
    const struct tile_memory t = tile_memory_of(a);
    const int32_t keys_max = a->before + (a->first + a->count - 1) / a->group + 1;

    for (int32_t block = 0; block * KV_BLOCK_TOKENS < keys_max; block++) {
        const int32_t begin = block * KV_BLOCK_TOKENS;
        const int64_t at = a->blocks[block] * a->block_stride * (int64_t)act_bytes(a->mode);
        const int keys = keys_max - begin < KV_BLOCK_TOKENS ? keys_max - begin : KV_BLOCK_TOKENS;
        int32_t from = 0;

        /* Queries of earlier rows may end before this block. */
        if (begin > a->before)
            from = (begin - a->before) * a->group - a->first;
        if (from < 0)
            from = 0;
        pack_keys(&t, (const char *)a->k + at, keys);
        pack_values(a, &t, (const char *)a->v + at, keys);
        score_all(a, &t, from);
        for (int32_t i = from; i < a->count; i++) {
            const int32_t seen = a->before + (a->first + i) / a->group + 1 - begin;
            const int mine = seen < KV_BLOCK_TOKENS ? seen : KV_BLOCK_TOKENS;

            weigh(&t, i, mine);
            gather_all(&t, i, mine);
        }
    }
    for (int32_t i = 0; i < a->count; i++)
        finish(a, &t, i);
}

#endif
