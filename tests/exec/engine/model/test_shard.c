/* Two ranks in one process against one: every row's logits are equal to rounding, for families with and without biases and head norms,
 * with adapters cut as the weights are. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "engine/device/ranks.h"
#include "engine/lora/pack.h"
#include "engine/lora/peft.h"
#include "engine/model/shard.h"
#include "exec/scratch.h"
#include "rig.h"

enum { TP = 2, SEQUENCES = 4, TOKENS = 20, STEPS = 6, BLOCKS = 3, SLOTS = 2, OUTPUTS = SEQUENCES };

static struct scratch scratch;

static int begin(void **context)
{
    (void)context;
    scratch_begin(&scratch);
    return 0;
}

static int end(void **context)
{
    (void)context;
    scratch_end(&scratch);
    return 0;
}

/* One rank's engine, and the logits of all its steps. */
struct part {
    const struct model *model;
    const struct peft *adapter[SLOTS];
    enum mode mode;
    enum kernel_set kernels;
    uint32_t threads;
    struct ranks *ranks; /* NULL: alone */
    int32_t rank, tp;
    int32_t vocabulary;
    float *logits; /* [STEPS][OUTPUTS][vocabulary] */
    float lse[STEPS][OUTPUTS];
};

static int64_t put_adapter(struct forward *forward, const struct part *part, int32_t slot, int64_t offset)
{
    const struct peft *peft = part->adapter[slot];
    const struct dims *dims = forward_dims(forward);
    struct lora_shard shard;
    int64_t bytes;
    void *blob;

    assert_int_equal(lora_shard_open(&shard, &peft->source, &part->model->config.dims, part->rank, part->tp), STATUS_OK);
    bytes = lora_pack_bytes(&shard.source, dims, part->mode);
    blob = malloc((size_t)bytes);
    lora_pack(&shard.source, dims, part->mode, forward_b_in_pairs(forward), blob);
    forward_put(forward, offset, blob, bytes);
    forward_slot(forward, slot, &(struct lora_slot){.offset = offset, .rank = lora_rank_padded(shard.source.rank), .generation = 1,
                                                    .modules = shard.source.modules});
    free(blob);
    lora_shard_close(&shard);
    return offset + (bytes + 255) / 256 * 256;
}

/* A prompt of several chunks, then a token at a time: two adapters and the base twice. */
static void step(struct forward *forward, struct part *part, int number)
{
    static const int32_t begins[STEPS + 1] = {0, 7, 16, 17, 18, 19, TOKENS};
    int32_t tokens[SEQUENCES][TOKENS];
    int32_t blocks[SEQUENCES][BLOCKS];
    struct forward_part parts[SEQUENCES];

    for (int32_t i = 0; i < SEQUENCES; i++) {
        uint64_t seed = 40 + (uint64_t)i;

        for (int32_t t = 0; t < TOKENS; t++)
            tokens[i][t] = (int32_t)draw_below(&seed, (uint64_t)part->vocabulary);
        for (int32_t b = 0; b < BLOCKS; b++)
            blocks[i][b] = 1 + i * BLOCKS + b;
        parts[i] = (struct forward_part){.tokens = tokens[i] + begins[number], .blocks = blocks[i],
                                         .rows = begins[number + 1] - begins[number], .before = begins[number],
                                         .slot = i % 2 == 0 ? SEGMENT_NONE : i / 2, .wants_output = true};
    }
    forward_step(forward, parts, SEQUENCES);
    for (int32_t i = 0; i < SEQUENCES; i++) {
        forward_logits(forward, i, part->logits + (size_t)(number * OUTPUTS + i) * (size_t)part->vocabulary);
        part->lse[number][i] = forward_output(forward, i).lse;
    }
}

static void *run(void *context)
{
    struct part *part = context;
    struct refusal refusal = {{0}};
    struct forward *forward = NULL;
    int64_t offset = 0;
    const struct forward_config config = {.device = &device_cpu, .mode = part->mode, .threads = part->threads, .kernels = part->kernels,
                                          .rows_max = 64, .outputs_max = OUTPUTS, .sequences_max = SEQUENCES, .segments_max = SLOTS,
                                          .blocks = SEQUENCES * BLOCKS, .positions_max = 48, .slots = SLOTS, .pool_bytes = 4 << 20,
                                          .lora_rank_max = 32, .best = 8, .ranks = part->ranks, .rank = part->rank, .tp = part->tp};

    if (forward_open(part->model, &config, &forward, &refusal) != STATUS_OK) {
        fprintf(stderr, "%s\n", refusal.text);
        abort(); /* the other rank would wait for ever */
    }
    for (int32_t slot = 0; slot < SLOTS; slot++)
        offset = put_adapter(forward, part, slot, offset);
    for (int i = 0; i < STEPS; i++)
        step(forward, part, i);
    forward_close(forward);
    return NULL;
}

static void compare(const struct part *whole, const struct part *part, double tolerance, const char *about)
{
    const size_t count = (size_t)(STEPS * OUTPUTS) * (size_t)whole->vocabulary;
    double worst = 0;
    double largest = 0;

    for (size_t i = 0; i < count; i++) {
        worst = fmax(worst, fabs((double)whole->logits[i] - (double)part->logits[i]));
        largest = fmax(largest, fabs((double)whole->logits[i]));
    }
    printf("%s: logits up to %.1f, ranks differ from one by at most %.2g\n", about, largest, worst);
    assert_true(largest > 1);
    assert_true(worst <= tolerance);
}

static struct peft *open_adapter(const struct model_config *config, const char *name, int32_t rank, uint32_t modules)
{
    struct refusal refusal = {{0}};
    struct peft *peft = NULL;

    tiny_adapter(scratch_folder(&scratch, name), config, rank, modules, (uint64_t)rank, DTYPE_F32);
    if (peft_open(scratch_at(&scratch, name), config, 32, &peft, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    return peft;
}

static void two_ranks_equal_one(const char *name, struct model_config config, enum dtype dtype, enum mode mode, double tolerance)
{
    struct refusal refusal = {{0}};
    struct peft *adapter[SLOTS];
    struct model *model = NULL;
    char text[64];

    tiny_model(scratch_folder(&scratch, name), &config, 3, dtype);
    if (model_open(scratch_at(&scratch, name), &model, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    snprintf(text, sizeof(text), "%s-all", name);
    adapter[0] = open_adapter(&config, text, 16, (1u << LORA_MODULE_COUNT) - 1);
    snprintf(text, sizeof(text), "%s-some", name);
    adapter[1] = open_adapter(&config, text, 5, 1u << LORA_K | 1u << LORA_O | 1u << LORA_DOWN);
    for (enum kernel_set set = 0; set < KERNELS_COUNT; set++) {
        struct part whole = {.model = model, .adapter = {adapter[0], adapter[1]}, .mode = mode, .kernels = set, .threads = 1, .tp = 1,
                             .vocabulary = config.dims.vocabulary};
        const size_t bytes = (size_t)(STEPS * OUTPUTS) * (size_t)config.dims.vocabulary * sizeof(float);

        if (!engine_looks_at(set))
            continue;
        whole.logits = malloc(bytes);
        run(&whole);
        for (uint32_t threads = 1; threads <= 2; threads++) {
            struct ranks *ranks = ranks_open(TP);
            struct part parts[TP];
            pthread_t thread;
            char about[128];

            for (int32_t rank = 0; rank < TP; rank++) {
                parts[rank] = whole;
                parts[rank].logits = malloc(bytes);
                parts[rank].threads = threads;
                parts[rank].ranks = ranks;
                parts[rank].rank = rank;
                parts[rank].tp = TP;
            }
            assert_int_equal(pthread_create(&thread, NULL, run, &parts[1]), 0);
            run(&parts[0]);
            assert_int_equal(pthread_join(thread, NULL), 0);
            snprintf(about, sizeof(about), "%s, %s, %s, %u threads a rank", name, mode == MODE_EXACT ? "exact" : "fast", kernel_set_name(set),
                     threads);
            compare(&whole, &parts[0], tolerance, about);
            assert_memory_equal(parts[0].logits, parts[1].logits, bytes); /* all ranks say the same */
            assert_memory_equal(parts[0].lse, parts[1].lse, sizeof(parts[0].lse));
            free(parts[0].logits);
            free(parts[1].logits);
            ranks_close(ranks);
        }
        free(whole.logits);
    }
    peft_close(adapter[0]);
    peft_close(adapter[1]);
    model_close(model);
}

static void llama(void **context)
{
    (void)context;
    two_ranks_equal_one("llama", tiny_config(FAMILY_LLAMA), DTYPE_F32, MODE_EXACT, 1e-4);
}

/* Biases of what is summed count once. */
static void llama_with_all_biases(void **context)
{
    struct model_config config = tiny_config(FAMILY_LLAMA);

    (void)context;
    config.qkv_bias = config.o_bias = config.mlp_bias = true;
    two_ranks_equal_one("biases", config, DTYPE_F32, MODE_EXACT, 1e-4);
}

static void qwen2(void **context)
{
    (void)context;
    two_ranks_equal_one("qwen2", tiny_config(FAMILY_QWEN2), DTYPE_F16, MODE_EXACT, 1e-4);
}

static void qwen3(void **context)
{
    (void)context;
    two_ranks_equal_one("qwen3", tiny_config(FAMILY_QWEN3), DTYPE_BF16, MODE_EXACT, 1e-4);
}

/* Activations are rounded to bfloat16 along the way, and once more for each rank. */
static void fast_mode(void **context)
{
    (void)context;
    two_ranks_equal_one("fast", tiny_config(FAMILY_LLAMA), DTYPE_BF16, MODE_FAST, 0.15);
}

static void what_does_not_divide_is_refused(void **context)
{
    struct model_config config = tiny_config(FAMILY_LLAMA);
    struct refusal refusal = {{0}};
    struct forward_config ask = {.device = &device_cpu, .threads = 1, .rows_max = 4, .outputs_max = 1, .sequences_max = 1,
                                 .segments_max = 1, .blocks = 1, .positions_max = 16, .slots = 1, .best = 8, .tp = 4};
    struct forward *forward = NULL;
    struct model *model;

    (void)context;
    tiny_model(scratch_folder(&scratch, "odd"), &config, 3, DTYPE_F32);
    assert_int_equal(model_open(scratch_at(&scratch, "odd"), &model, &refusal), STATUS_OK);
    assert_int_equal(forward_open(model, &ask, &forward, &refusal), STATUS_INVALID); /* 2 kv heads */
    assert_non_null(strstr(refusal.text, "4 equal parts"));
    model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama),
        cmocka_unit_test(llama_with_all_biases),
        cmocka_unit_test(qwen2),
        cmocka_unit_test(qwen3),
        cmocka_unit_test(fast_mode),
        cmocka_unit_test(what_does_not_divide_is_refused),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
