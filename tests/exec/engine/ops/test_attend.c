/* attend of every set of kernels against sums in double. A score is off by at most e = 4 sqrt(d) 2^-24 sum |q k| / sqrt(d), so a weight
 * by a share of 2e at most, and the output by sum p |v| times (2e + (keys + 40) 2^-24) and its rounding. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/ops/ref/ref.h"
#include "rig.h"

static int64_t key_place(const struct rig *rig, int32_t s, int32_t kv_head, int32_t j)
{
    int64_t block = rig->block_table[s][j / KV_BLOCK_TOKENS];

    return ((block * rig->config.dims.kv_heads + kv_head) * KV_BLOCK_TOKENS + j % KV_BLOCK_TOKENS) * rig->config.dims.head_dim;
}

static void keys_fill(struct rig *rig)
{
    const int32_t d = rig->config.dims.head_dim;
    const int64_t size = (int64_t)act_bytes(rig->config.mode);

    rig_spoil(rig);
    for (int32_t s = 0; s < rig->now.sequences; s++)
        for (int32_t j = 0; j < rig->sequence[s].before + rig->sequence[s].rows; j++)
            for (int32_t h = 0; h < rig->config.dims.kv_heads; h++)
                for (int i = 0; i < 2; i++)
                    rig_fill_act(rig->config.mode, rig->kv[0][i] + key_place(rig, s, h, j) * size, d, &rig->config.seed);
}

/* One query's expected output, and how far off it may be, for each of d columns. */
static void query_bound(const struct rig *rig, int32_t s, int32_t head, int32_t keys, int64_t query, double *ret_value, double *ret_error)
{
    const enum mode mode = rig->config.mode;
    const struct dims *dims = &rig->config.dims;
    const int32_t kv_head = head / (dims->heads / dims->kv_heads);
    const int32_t d = dims->head_dim;
    double weight[RIG_POSITIONS];
    double largest = -INFINITY;
    double total = 0;
    double e = 0;

    for (int32_t j = 0; j < keys; j++) {
        double sizes = 0;

        weight[j] = 0;
        for (int32_t c = 0; c < d; c++) {
            double term = rig_act(mode, rig->q, query + c) * rig_act(mode, rig->kv[0][0], key_place(rig, s, kv_head, j) + c) / sqrt(d);

            weight[j] += term;
            sizes += fabs(term);
        }
        e = fmax(e, (4 * sqrt(d) + 4) * 0x1p-24 * sizes);
        largest = fmax(largest, weight[j]);
    }
    for (int32_t j = 0; j < keys; j++) {
        weight[j] = exp(weight[j] - largest);
        total += weight[j];
    }
    for (int32_t c = 0; c < d; c++) {
        double sizes = 0;

        ret_value[c] = 0;
        for (int32_t j = 0; j < keys; j++) {
            double term = weight[j] / total * rig_act(mode, rig->kv[0][1], key_place(rig, s, kv_head, j) + c);

            ret_value[c] += term;
            sizes += fabs(term);
        }
        ret_error[c] = sizes * (2 * e + (keys + 40) * 0x1p-24) + rig_half_ulp(mode, ret_value[c]);
    }
}

static void expect_attend(struct rig *rig, const char *who, const char *y)
{
    const struct dims *dims = &rig->config.dims;
    double value[128];
    double error[128];

    for (int32_t s = 0; s < rig->now.sequences; s++)
        for (int32_t row = 0; row < rig->sequence[s].rows; row++)
            for (int32_t h = 0; h < dims->heads; h++) {
                int64_t query = ((int64_t)(rig->sequence[s].row + row) * dims->heads + h) * dims->head_dim;

                query_bound(rig, s, h, rig->sequence[s].before + row + 1, query, value, error);
                for (int32_t c = 0; c < dims->head_dim; c++) {
                    double found = rig_act(rig->config.mode, y, query + c);

                    if (!(fabs(found - value[c]) <= error[c]))
                        fail_msg("%s, %s, head size %d: sequence %d, row %d, head %d, column %d is %.9g, expected %.9g +- %.3g", who,
                                 rig->config.mode == MODE_EXACT ? "exact" : "fast", dims->head_dim, s, row, h, c, found, value[c],
                                 error[c]);
                }
            }
}

static void attends_over_blocks_that_end_in_rubbish(void **state)
{
    static struct rig rig;
    static const struct rig_plan plan = {
        .sequences = 8,
        .sequence = {{1, 0, SEGMENT_NONE, 0, 0}, {15, 0, SEGMENT_NONE, 1, 0}, {16, 0, SEGMENT_NONE, 2, 0}, {17, 14, SEGMENT_NONE, 3, 0},
                     {65, 31, SEGMENT_NONE, 4, 0}, {1, 15, SEGMENT_NONE, 5, 0}, {1, 16, SEGMENT_NONE, 6, 0}, {1, 255, SEGMENT_NONE, 7, 0}},
    };

    (void)state;
    for (int d = 0; d < rig_dims_count; d++)
        for (enum mode mode = MODE_EXACT; mode <= MODE_FAST; mode++)
            for (int sharp = 0; sharp < 2; sharp++) {
                const struct rig_config config = {.dims = rig_dims[d], .mode = mode, .dtype = DTYPE_BF16, .seed = 31};
                const int64_t numbers = 117 * rig_dims[d].heads * rig_dims[d].head_dim;
                uint64_t seed = test_seed(32);

                rig_open(&rig, &config);
                rig_batch(&rig, &plan, false);
                keys_fill(&rig);
                rig_fill_act(mode, rig.q, numbers, &seed);
                /* Large scores: the largest so far moves often, and some weights vanish. */
                for (int64_t i = 0; sharp == 1 && i < numbers; i++) {
                    float more = (float)rig_act(mode, rig.q, i) * 16;

                    if (mode == MODE_EXACT)
                        memcpy(rig.q + i * 4, &more, 4);
                    else
                        memcpy(rig.q + i * 2, &(uint16_t){bf16_round(more)}, 2);
                }
                RIG_EACH_SET(set) {
                    struct dev *dev = rig_device(&rig, set, 2);

                    memset(rig.y, 0xff, (size_t)numbers * act_bytes(mode));
                    device_cpu.ops(dev)->attend(dev, rig.y, rig.q, rig.kv[0][0], rig.kv[0][1], &rig.batch);
                    expect_attend(&rig, kernel_set_name(set), rig.y);
                    if (set == KERNELS_SCALAR) {
                        ref_attend(dev, rig.y, rig.q, rig.kv[0][0], rig.kv[0][1], &rig.batch);
                        expect_attend(&rig, "the definition", rig.y);
                    }
                    device_cpu.close(dev);
                }
                rig_close(&rig);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attends_over_blocks_that_end_in_rubbish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
