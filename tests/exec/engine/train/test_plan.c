/* Memory of training by config alone: known figures of Llama-3.1-8B and 70B, devices that share a model, levels chosen by what there is. */
#include "engine/train/plan.h"

#include <math.h>

#include "engine/model/shard.h"
#include "exec/scratch.h"
#include "support.h"

#define GIB ((double)(1 << 30))

static const struct model_config llama_8b = {
    .family = FAMILY_LLAMA,
    .dims = {.hidden = 4096, .heads = 32, .kv_heads = 8, .head_dim = 128, .ffn = 14336, .vocabulary = 128256, .layers = 32}};
static const struct model_config llama_70b = {
    .family = FAMILY_LLAMA,
    .dims = {.hidden = 8192, .heads = 64, .kv_heads = 8, .head_dim = 128, .ffn = 28672, .vocabulary = 128256, .layers = 80}};

static struct plan plan_of(const struct model_config *model, int32_t tokens, int32_t rank, int32_t tp, int32_t head_rows)
{
    const struct trainer_config config = {.device = &device_cpu, .threads = 1, .mode = MODE_FAST, .rows_max = tokens, .job_rows_max = tokens, .samples_max = 64, .positions_max = tokens,
                                          .jobs_max = 1, .lora_rank_max = rank, .head_rows = head_rows};
    struct refusal refusal = {{0}};
    struct plan plan;

    if (plan_make(model, DTYPE_BF16, &config, rank, tp, &plan, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    return plan;
}

static void about(double found, double want, double unit)
{
    if (fabs(found - want) > unit / 2)
        fail_msg("%.6g, not %.6g", found, want);
}

static void an_8b_takes_what_is_known_of_it(void **state)
{
    const struct plan plan = plan_of(&llama_8b, 4096, 16, 1, 512);

    (void)state;
    about((double)plan.weights_bytes / GIB, 14.96, 0.01);
    assert_int_equal(plan.parameters, 16 * 2621440);
    assert_int_equal(plan.job_bytes, 16 * plan.parameters); /* weights, gradients, two moments, 4 bytes each */
    about((double)plan.job_bytes / GIB, 0.625, 1e-9);
    about((double)plan_of(&llama_8b, 4096, 32, 1, 512).job_bytes / GIB, 1.25, 1e-9);
    about((double)plan.memory[0].adapters / (1 << 20), 80, 1e-6);
    assert_int_equal(plan.stream_bytes, 16384);
    assert_int_equal(plan.memory[RECOMPUTE_LAYER].stream, INT64_C(16384) * 4096 * 32);
    /* 250.5 MiB of logits in pieces of 512, and half of that for their gradients in bf16. */
    assert_int_equal(plan.memory[0].head, INT64_C(512) * 128256 * 6);
    assert_int_equal(plan_of(&llama_8b, 4096, 16, 1, 4096).memory[0].head, INT64_C(4096) * 128256 * 6);
    for (enum recompute level = 0; level < RECOMPUTE_COUNT; level++)
        assert_int_equal(plan.memory[level].stream, plan.memory[0].stream);
}

/* By hand: matrices of 855,638,016 numbers a layer, an eighth each; both tables and 161 gains whole. */
static void eight_devices_hold_a_70b(void **state)
{
    const struct plan plan = plan_of(&llama_70b, 2048, 16, 8, 256);
    enum recompute level;

    (void)state;
    assert_int_equal(plan.weights_bytes, 2 * (INT64_C(80) * 855638016 / 8 + INT64_C(2) * 128256 * 8192 + 161 * 8192));
    assert_int_equal(plan.stream_bytes, 32768);
    assert_int_equal(plan.memory[0].stream, INT64_C(32768) * 2048 * 80);
    /* A of q, k, v, gate, up and B of o, down whole; the rest by eighths: rank * (7 h + (h + 2 kv + 2 ffn + h + ffn) / 8) a layer. */
    assert_int_equal(plan.job_bytes, INT64_C(16) * 16 * 80 * (7 * 8192 + (2 * 8192 + 2 * 1024 + 3 * 28672) / 8));
    assert_true(plan_choose(&plan, 1, false, INT64_C(80000000000), &level));
    assert_int_equal(level, RECOMPUTE_NONE);
    assert_false(plan_choose(&plan, 1, false, INT64_C(24000000000), &level));
    assert_int_equal(level, RECOMPUTE_LAYER);
}

static void what_does_not_divide_is_refused(void **state)
{
    const struct trainer_config config = {.device = &device_cpu, .threads = 1, .rows_max = 64, .job_rows_max = 64, .samples_max = 2, .positions_max = 64, .jobs_max = 1,
                                          .lora_rank_max = 16, .head_rows = 64};
    struct refusal refusal;
    struct plan plan;

    (void)state;
    assert_int_equal(plan_make(&llama_8b, DTYPE_BF16, &config, 16, 3, &plan, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "3 equal parts"));
}

static int64_t bytes_of(const struct weight *weight)
{
    if (weight->data == NULL)
        return 0;
    return ((int64_t)weight->out * weight->in + (weight->bias != NULL ? weight->out : 0)) * (int64_t)dtype_bytes(weight->dtype);
}

static int64_t part_bytes(const struct model *model, int32_t rank, int32_t tp)
{
    struct model_shard shard;
    int64_t bytes;

    assert_int_equal(shard_open(&shard, model, rank, tp), STATUS_OK);
    bytes = bytes_of(&shard.weights.embed) + bytes_of(&shard.weights.norm) + (model->config.tied_head ? 0 : bytes_of(&shard.weights.head));
    for (int32_t i = 0; i < model->config.dims.layers; i++) {
        const struct layer_weights *layer = &shard.weights.layer[i];
        const struct weight *const all[] = {&layer->attn_norm, &layer->qkv[0], &layer->qkv[1],     &layer->qkv[2],     &layer->q_norm, &layer->k_norm,
                                            &layer->o,         &layer->mlp_norm, &layer->gate_up[0], &layer->gate_up[1], &layer->down};

        for (size_t j = 0; j < ARRAY_COUNT(all); j++)
            bytes += bytes_of(all[j]);
    }
    shard_close(&shard);
    return bytes;
}

static void parts_of_a_base_are_what_ranks_hold(void **state)
{
    static const enum model_family families[] = {FAMILY_LLAMA, FAMILY_QWEN2, FAMILY_QWEN3};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(families); i++)
        for (int32_t tp = 1; tp <= 2; tp++) {
            const struct model_config config = tiny_config(families[i]);
            struct scratch scratch;
            struct refusal refusal = {{0}};
            struct model *model;

            scratch_begin(&scratch);
            tiny_model(scratch_folder(&scratch, "base"), &config, 1, DTYPE_BF16);
            assert_int_equal(model_open(scratch_at(&scratch, "base"), &model, &refusal), STATUS_OK);
            for (int32_t rank = 0; rank < tp; rank++)
                assert_int_equal(plan_of(&config, 64, 16, tp, 64).weights_bytes, part_bytes(model, rank, tp));
            model_close(model);
            scratch_end(&scratch);
        }
}

/* Each level takes less than the one before, and the first that fits is taken, to the byte. */
static void the_first_level_that_fits_is_chosen(void **state)
{
    const struct plan plan = plan_of(&llama_8b, 2048, 16, 1, 256);

    (void)state;
    for (enum recompute level = 0; level < RECOMPUTE_COUNT; level++) {
        const int64_t wanted = plan.weights_bytes + plan_bytes(&plan, level, 1, true);
        enum recompute chosen;

        assert_int_equal(wanted, plan.weights_bytes + plan_bytes(&plan, level, 1, false) + plan.host_bytes);
        assert_true(plan_choose(&plan, 1, true, wanted, &chosen));
        assert_int_equal(chosen, level);
        if (level == RECOMPUTE_LAYER)
            continue;
        assert_true(plan_choose(&plan, 1, true, wanted - 1, &chosen));
        assert_int_equal(chosen, level + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_8b_takes_what_is_known_of_it),
        cmocka_unit_test(eight_devices_hold_a_70b),
        cmocka_unit_test(what_does_not_divide_is_refused),
        cmocka_unit_test(parts_of_a_base_are_what_ranks_hold),
        cmocka_unit_test(the_first_level_that_fits_is_chosen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
