/* The way back of what stays inside a row, and the optimizer, by their definitions; and the table of them. */
#include "engine/ops/ref/train.h"

#include <math.h>
#include <stdlib.h>

const struct train_ops train_ops_ref = {
#define X(name) .name = ref_##name,
    TRAIN_OPS(X)
#undef X
};

void ref_loss(struct dev *dev, float *ret_logp, int32_t *ret_best, act *dlogits, const float *logits, const int32_t *target,
              const float *coef, const struct batch *batch)
{
    const int32_t vocabulary = dev->config.dims.vocabulary;

    for (int32_t o = 0; o < batch->now->outputs; o++) {
        const float *row = logits + (int64_t)o * vocabulary;
        double largest = -INFINITY;
        double total = 0;

        ret_best[o] = 0;
        for (int32_t i = 0; i < vocabulary; i++)
            if ((double)row[i] > largest) { /* false for one that is no number */
                largest = (double)row[i];
                ret_best[o] = i;
            }
        for (int32_t i = 0; i < vocabulary; i++)
            total += exp((double)row[i] - largest);
        ret_logp[o] = (float)((double)row[target[o]] - largest - log(total));
        for (int32_t i = 0; coef != NULL && i < vocabulary; i++)
            act_store(dev->config.mode, dlogits, (int64_t)o * vocabulary + i,
                      (double)coef[o] * (exp((double)row[i] - largest) / total - (i == target[o])));
    }
}

/* y = x scale gain, scale = 1 / sqrt(mean(x^2) + eps): dx_i = scale gain_i dy_i - x_i scale^3 mean(x gain dy). */
static double norm_scale(const float *x, int32_t n, float eps)
{
    double squares = 0;

    for (int32_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    return 1 / sqrt(squares / n + (double)eps);
}

void ref_norm_back(struct dev *dev, act *ret_dx, float *dx, const float *dy, const float *x, const struct weight *gain, float eps,
                   float *dgain, const struct batch *batch)
{
    const int32_t hidden = dev->config.dims.hidden;

    for (int32_t row = 0; row < batch->now->rows; row++) {
        const int64_t at = (int64_t)row * hidden;
        const double scale = norm_scale(x + at, hidden, eps);
        double mean = 0;

        for (int32_t i = 0; i < hidden; i++)
            mean += (double)x[at + i] * weight_load(gain, 0, i) * (double)dy[at + i] / hidden;
        for (int32_t i = 0; i < hidden; i++) {
            double back = scale * (weight_load(gain, 0, i) * (double)dy[at + i] - (double)x[at + i] * scale * scale * mean);

            dx[at + i] = (float)((double)dx[at + i] + back);
            if (ret_dx != NULL)
                act_store(dev->config.mode, ret_dx, at + i, (double)dx[at + i]);
        }
    }
    for (int32_t i = 0; dgain != NULL && i < hidden; i++) {
        double sum = 0;

        for (int32_t row = 0; row < batch->now->rows; row++) {
            const int64_t at = (int64_t)row * hidden;

            sum += (double)dy[at + i] * (double)x[at + i] * norm_scale(x + at, hidden, eps);
        }
        dgain[i] = (float)((double)dgain[i] + sum);
    }
}

/* One head: dy f32 [d] of the turned one becomes act [d] of what came out of the linear layer. sums [d] gather the gain's gradient. */
static void head_turn_back(enum mode mode, act *ret_dx, int64_t at, const float *dy, const float *x, const struct weight *gain, float eps,
                           const float *angle, int32_t d, double *sums)
{
    double scale = gain->data != NULL ? norm_scale(x, d, eps) : 1;
    double mean = 0;

    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < d; i++) {
            const int32_t pair = i < d / 2 ? i : i - d / 2;
            const double cosine = (double)angle[pair];
            const double sine = (double)angle[d / 2 + pair];
            double back = i < d / 2 ? (double)dy[i] * cosine + (double)dy[i + d / 2] * sine
                                    : (double)dy[i] * cosine - (double)dy[i - d / 2] * sine;

            if (gain->data == NULL)
                act_store(mode, ret_dx, at + i, back);
            else if (pass == 0) {
                mean += (double)x[i] * weight_load(gain, 0, i) * back / d;
                sums[i] += back * (double)x[i] * scale;
            } else
                act_store(mode, ret_dx, at + i, scale * (weight_load(gain, 0, i) * back - (double)x[i] * scale * scale * mean));
        }
}

void ref_rope_back(struct dev *dev, act *dqkv, const float *dturned, const float *qkv, const struct weight *q_gain,
                   const struct weight *k_gain, float eps, const float *angles, float *dq_gain, float *dk_gain, const struct batch *batch)
{
    const enum mode mode = dev->config.mode;
    const int32_t d = dev->config.dims.head_dim;
    const int32_t heads = dev->config.dims.heads;
    const int32_t kv_heads = dev->config.dims.kv_heads;
    double *sums = calloc(2 * (size_t)d, sizeof(*sums));

    check(sums != NULL);
    for (int32_t row = 0; row < batch->now->rows; row++)
        for (int32_t h = 0; h < heads + 2 * kv_heads; h++) {
            const int64_t at = ((int64_t)row * (heads + 2 * kv_heads) + h) * d;
            const struct weight *gain = h < heads ? q_gain : k_gain;

            for (int32_t i = 0; h >= heads + kv_heads && i < d; i++)
                act_store(mode, dqkv, at + i, (double)dturned[at + i]);
            if (h < heads + kv_heads)
                head_turn_back(mode, dqkv, at, dturned + at, qkv == NULL ? NULL : qkv + at, gain, eps,
                               angles + (int64_t)batch->position[row] * d, d, h < heads ? sums : sums + d);
        }
    for (int32_t i = 0; i < d; i++) {
        if (dq_gain != NULL)
            dq_gain[i] = (float)((double)dq_gain[i] + sums[i]);
        if (dk_gain != NULL)
            dk_gain[i] = (float)((double)dk_gain[i] + sums[d + i]);
    }
    free(sums);
}

/* y = gate s(gate) up, s the logistic function: dgate = dy up s (1 + gate (1 - s)), dup = dy gate s. */
void ref_swiglu_back(struct dev *dev, act *dgate_up, const float *dy, const float *gate_up, const struct batch *batch)
{
    const int32_t ffn = dev->config.dims.ffn;

    for (int32_t row = 0; row < batch->now->rows; row++)
        for (int32_t i = 0; i < ffn; i++) {
            const int64_t at = (int64_t)row * 2 * ffn + i;
            const double gate = (double)gate_up[at];
            const double s = 1 / (1 + exp(-gate));
            const double back = (double)dy[(int64_t)row * ffn + i];

            act_store(dev->config.mode, dgate_up, at, back * (double)gate_up[at + ffn] * s * (1 + gate * (1 - s)));
            act_store(dev->config.mode, dgate_up, at + ffn, back * gate * s);
        }
}

void ref_embed_back(struct dev *dev, float *dtable, const float *dx, const struct batch *batch)
{
    const int32_t hidden = dev->config.dims.hidden;

    for (int32_t row = 0; row < batch->now->rows; row++)
        for (int32_t i = 0; i < hidden; i++)
            dtable[(int64_t)batch->token[row] * hidden + i] += dx[(int64_t)row * hidden + i];
}

void ref_sumsq(struct dev *dev, double *ret_sum, const float *g, int64_t n)
{
    double total = 0;

    (void)dev;
    for (int64_t at = 0; at < n; at += SUMSQ_PIECE) {
        double sum = 0;

        for (int64_t i = at; i < n && i < at + SUMSQ_PIECE; i++)
            sum += (double)g[i] * (double)g[i];
        total += sum;
    }
    *ret_sum = total;
}

void ref_adamw(struct dev *dev, float *p, float *m, float *v, const float *g, int64_t n, const struct adamw *adamw)
{
    const double rate = (double)adamw->rate;

    (void)dev;
    for (int64_t i = 0; i < n; i++) {
        const double gradient = (double)adamw->gradient_scale * (double)g[i];
        double value = (double)p[i] - rate * (double)adamw->decay * (double)p[i];

        m[i] = (float)((double)adamw->beta1 * (double)m[i] + (1 - (double)adamw->beta1) * gradient);
        v[i] = (float)((double)adamw->beta2 * (double)v[i] + (1 - (double)adamw->beta2) * gradient * gradient);
        value -= rate / (double)adamw->correction1 * (double)m[i] /
                 (sqrt((double)v[i] / (double)adamw->correction2) + (double)adamw->epsilon);
        p[i] = (float)value;
    }
}

void ref_zero(struct dev *dev, float *x, int64_t n)
{
    (void)dev;
    memset(x, 0, (size_t)n * sizeof(*x));
}

void ref_round(struct dev *dev, act *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        act_store(dev->config.mode, y, i, (double)x[i]);
}
