/* The whole model on CUDA's device, under the emulation, beside the CPU's: one model in exact numbers, one in bf16,
 * each with an adapter, in mixed steps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emu/control.h"
#include "engine/device/cuda/device_cuda.h"
#include "engine/lora/pack.h"
#include "engine/lora/peft.h"
#include "engine/model/forward.h"
#include "engine/model/random.h"
#include "support.h"

#define VOCABULARY 67
#define STEPS 4

static const struct model_config shape = {
    .family = FAMILY_LLAMA, .dims = {.hidden = 64, .heads = 8, .kv_heads = 2, .head_dim = 8, .ffn = 172, .vocabulary = VOCABULARY, .layers = 2},
    .norm_eps = 1e-5f, .positions_max = 64, .rope = {.theta = 10000, .factor = 1}, .bos = 1, .eos_count = 1, .eos = {2}};

static void make_files(const char *directory, enum dtype dtype)
{
    struct refusal refusal = {{0}};
    char path[512];

    if (random_model_write(directory, &shape, 7, dtype, NULL, NULL, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    snprintf(path, sizeof(path), "%s/adapter", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    if (random_adapter_write(path, &shape, 4, 0x7f, 9, DTYPE_F32, directory, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
}

static struct forward *open_on(const struct device *device, const struct model *model, const char *directory, enum mode mode, bool deterministic)
{
    const struct forward_config config = {.device = device, .mode = mode, .threads = 1, .kernels = KERNELS_SCALAR, .deterministic = deterministic,
                                          .rows_max = 40, .outputs_max = 4, .sequences_max = 4, .segments_max = 2, .blocks = 16,
                                          .positions_max = 64, .slots = 2, .pool_bytes = 1 << 20, .lora_rank_max = 16, .best = 8, .tp = 1};
    struct lora_slot slot = {.offset = 256, .generation = 1};
    struct refusal refusal = {{0}};
    struct forward *forward;
    struct peft *peft;
    char path[512];
    char *blob;

    if (forward_open(model, &config, &forward, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    snprintf(path, sizeof(path), "%s/adapter", directory);
    if (peft_open(path, &shape, LORA_RANK_MAX, &peft, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    blob = malloc((size_t)lora_pack_bytes(&peft->source, &shape.dims, mode));
    lora_pack(&peft->source, &shape.dims, mode, device->b_in_pairs, blob);
    forward_put(forward, slot.offset, blob, lora_pack_bytes(&peft->source, &shape.dims, mode));
    slot.rank = lora_rank_padded(peft->source.rank);
    slot.modules = peft->source.modules;
    forward_slot(forward, 1, &slot);
    free(blob);
    peft_close(peft);
    return forward;
}

/* Two sequences of the base and one of the adapter: prompts, then a token each. */
static void steps_compare(struct forward *cpu, struct forward *cuda, double bound)
{
    static const int32_t blocks[3][4] = {{3, 9, 4, 11}, {1, 2, 8, 12}, {5, 7, 6, 10}};
    int32_t tokens[3][40], before[3] = {0, 0, 0};
    uint64_t state = test_seed(3);
    static float logits[2][VOCABULARY];

    for (int step = 0; step < STEPS; step++) {
        struct forward_part parts[3];

        for (int i = 0; i < 3; i++) {
            int32_t rows = step == 0 ? 5 + 7 * i : step == 2 && i == 1 ? 3 : 1;

            for (int32_t row = 0; row < rows; row++)
                tokens[i][row] = (int32_t)draw_below(&state, VOCABULARY);
            parts[i] = (struct forward_part){.tokens = tokens[i], .blocks = blocks[i], .rows = rows, .before = before[i],
                                             .slot = i == 1 ? 1 : SEGMENT_NONE, .wants_output = true};
            before[i] += rows;
        }
        forward_step(cpu, parts, 3);
        forward_step(cuda, parts, 3);
        for (int32_t output = 0; output < 3; output++) {
            double most = 0;

            forward_logits(cpu, output, logits[0]);
            forward_logits(cuda, output, logits[1]);
            for (int i = 0; i < VOCABULARY; i++)
                most = fmax(most, fabs((double)logits[0][i] - (double)logits[1][i]));
            if (!(most <= bound))
                fail_msg("step %d, output %d: logits differ by %g", step, output, most);
            assert_true(fabs((double)forward_output(cpu, output).lse - (double)forward_output(cuda, output).lse) <= bound);
        }
    }
}

static void compare(enum dtype dtype, enum mode mode, bool deterministic, double bound)
{
    char directory[] = "/tmp/berth-forward-XXXXXX", command[128];
    struct refusal refusal = {{0}};
    struct forward *cpu, *cuda;
    struct model *model;

    assert_non_null(mkdtemp(directory));
    make_files(directory, dtype);
    if (model_open(directory, &model, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    emu_set(EMU_GREEDY, EMU_DICE, test_seed(3));
    cpu = open_on(&device_cpu, model, directory, mode, false);
    cuda = open_on(&device_cuda, model, directory, mode, deterministic);
    steps_compare(cpu, cuda, bound);
    forward_close(cpu);
    forward_close(cuda);
    model_close(model);
    snprintf(command, sizeof(command), "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

static void an_exact_model_has_the_cpus_logits(void **context)
{
    (void)context;
    compare(DTYPE_F32, MODE_EXACT, true, 1e-4);
    compare(DTYPE_F16, MODE_EXACT, true, 1e-4);
}

/* bf16 activations: a few of their last places. */
static void a_fast_model_has_nearly_the_cpus_logits(void **context)
{
    (void)context;
    compare(DTYPE_BF16, MODE_FAST, false, 0.15);
    compare(DTYPE_BF16, MODE_FAST, true, 0.15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exact_model_has_the_cpus_logits),
        cmocka_unit_test(a_fast_model_has_nearly_the_cpus_logits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
