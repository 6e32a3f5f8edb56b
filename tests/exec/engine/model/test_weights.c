/* Bases: all tensors in their places, each fault named; random models and rounding, on which other tests stand. */
#include "support.h"

#include <math.h>

#include "engine/model/store.h"
#include "engine/model/weights.h"
#include "exec/scratch.h"

static struct model *opened(const char *path)
{
    struct model *model = NULL;
    struct refusal refusal = {""};

    if (model_open(path, &model, &refusal) != STATUS_OK)
        fail_msg("refused: %s", refusal.text);
    return model;
}

static void expect_refused(const char *path, const char *why)
{
    struct model *model = NULL;
    struct refusal refusal = {""};

    assert_int_not_equal(model_open(path, &model, &refusal), STATUS_OK);
    assert_null(model);
    if (strstr(refusal.text, why) == NULL)
        fail_msg("expected \"%s\" in: %s", why, refusal.text);
}

static void every_family_opens_with_all_its_weights(void **state)
{
    (void)state;
    for (enum model_family family = 0; family < FAMILY_COUNT; family++) {
        struct scratch scratch;
        struct model_config config = tiny_config(family);
        struct model *model;
        const struct layer_weights *layer;

        scratch_begin(&scratch);
        config.tied_head = family == FAMILY_QWEN2;
        tiny_model(scratch.path, &config, 3, DTYPE_BF16);
        model = opened(scratch.path);
        layer = &model->weights.layer[2];
        assert_int_equal(model->dtype, DTYPE_BF16);
        assert_int_equal(model->weights_bytes, 2 * model_parameters(&config));
        assert_int_equal(layer->qkv[0].out, 40);
        assert_int_equal(layer->qkv[1].out, 20);
        assert_int_equal(layer->qkv[2].in, 24);
        assert_int_equal(layer->qkv[2].stride, 24);
        assert_int_equal(layer->o.in, 40);
        assert_int_equal(layer->gate_up[1].out, 36);
        assert_int_equal(layer->down.in, 36);
        assert_int_equal(layer->attn_norm.in, 24);
        assert_int_equal(layer->attn_norm.out, 1);
        assert_true((layer->q_norm.data != NULL) == (family == FAMILY_QWEN3));
        assert_true((layer->k_norm.data != NULL) == (family == FAMILY_QWEN3));
        assert_true((layer->qkv[1].bias != NULL) == (family == FAMILY_QWEN2));
        assert_null(layer->o.bias);
        assert_true((model->weights.head.data == model->weights.embed.data) == config.tied_head);
        assert_int_equal(model->weights.head.out, 288);
        assert_ptr_equal(model_linear(model, 2, LORA_UP), &layer->gate_up[1]);
        assert_ptr_equal(model_linear(model, 2, LORA_UP)->data,
                         safetensors_find(model->files, "model.layers.2.mlp.up_proj.weight")->data);
        assert_ptr_equal(layer->attn_norm.data, safetensors_find(model->files, "model.layers.2.input_layernorm.weight")->data);
        assert_ptr_equal(layer->mlp_norm.data,
                         safetensors_find(model->files, "model.layers.2.post_attention_layernorm.weight")->data);
        model_close(model);
        scratch_end(&scratch);
    }
}

static void a_config_of_another_model_is_refused_tensor_by_tensor(void **state)
{
    struct scratch scratch;
    struct model_config config = tiny_config(FAMILY_LLAMA);
    struct model_config other = config;
    char *text;

    (void)state;
    scratch_begin(&scratch);
    tiny_model(scratch.path, &config, 3, DTYPE_F32);
    other.dims.ffn = 40;
    text = model_config_text(&other, DTYPE_F32);
    scratch_text(&scratch, "config.json", text);
    free(text);
    expect_refused(scratch.path, "tensor model.layers.0.mlp.gate_proj.weight is [36, 24]; by config.json it must be [40, 24]");
    expect_refused(scratch.path, "and 1 faults more");
    other = config;
    other.dims.layers = 2;
    text = model_config_text(&other, DTYPE_F32);
    scratch_text(&scratch, "config.json", text);
    free(text);
    expect_refused(scratch.path, "tensor model.layers.2.input_layernorm.weight is not part of a llama model");
    other.dims.layers = 4;
    text = model_config_text(&other, DTYPE_F32);
    scratch_text(&scratch, "config.json", text);
    free(text);
    expect_refused(scratch.path, "tensor model.layers.3.self_attn.q_proj.weight is missing");
    other = config;
    other.tied_head = true;
    text = model_config_text(&other, DTYPE_F32);
    scratch_text(&scratch, "config.json", text);
    free(text);
    expect_refused(scratch.path, "lm_head.weight differs from model.embed_tokens.weight");
    scratch_text(&scratch, "config.json", "{}");
    expect_refused(scratch.path, "not supported");
    expect_refused(scratch_at(&scratch, "nothing"), "no such file");
    scratch_end(&scratch);
}

/* What add() adds to the tensors of a model before they are written. */
static void write_with(struct scratch *scratch, const struct tensor *more, const char *less)
{
    struct model *model = opened(scratch_at(scratch, "base"));
    struct tensor tensors[64];
    uint32_t count = 0;
    struct refusal refusal;

    for (uint32_t i = 0; i < safetensors_count(model->files); i++)
        if (less == NULL || strcmp(safetensors_at(model->files, i)->name, less) != 0)
            tensors[count++] = *safetensors_at(model->files, i);
    if (more != NULL)
        tensors[count++] = *more;
    assert_int_equal(
        safetensors_write(scratch_at(scratch, "changed/model.safetensors"), tensors, count, NULL, NULL, &refusal),
        STATUS_OK);
    model_close(model);
}

static void surplus_and_missing_tensors_are_named(void **state)
{
    static const int32_t numbers[24];
    const struct tensor inverse = {.name = "model.layers.0.self_attn.rotary_emb.inv_freq",
                                   .data = numbers,
                                   .type = TENSOR_F32,
                                   .dims = 1,
                                   .shape = {5}};
    const struct tensor strange = {
        .name = "model.layers.0.self_attn.q_proj.bias", .data = numbers, .type = TENSOR_F32, .dims = 1, .shape = {24}};
    const struct tensor integers = {.name = "model.norm.weight", .data = numbers, .type = TENSOR_I32, .dims = 1, .shape = {24}};
    struct scratch scratch;
    struct model_config config = tiny_config(FAMILY_LLAMA);
    char *text = model_config_text(&config, DTYPE_F32);

    (void)state;
    scratch_begin(&scratch);
    tiny_model(scratch_folder(&scratch, "base"), &config, 3, DTYPE_F32);
    scratch_folder(&scratch, "changed");
    scratch_text(&scratch, "changed/config.json", text);
    free(text);
    write_with(&scratch, &inverse, NULL);
    model_close(opened(scratch_at(&scratch, "changed")));
    write_with(&scratch, &strange, NULL);
    expect_refused(scratch_at(&scratch, "changed"), "tensor model.layers.0.self_attn.q_proj.bias is not part of a llama model");
    write_with(&scratch, NULL, "lm_head.weight");
    expect_refused(scratch_at(&scratch, "changed"), "tensor lm_head.weight is missing; if the embedding table is the head");
    write_with(&scratch, &integers, "model.norm.weight");
    expect_refused(scratch_at(&scratch, "changed"), "model.norm.weight is of dtype I32");
    scratch_end(&scratch);
}

static void random_models_depend_on_the_seed_alone(void **state)
{
    struct scratch scratch;
    struct model_config config = tiny_config(FAMILY_LLAMA);
    struct model *models[3];
    double sum = 0;
    double squares = 0;
    const struct weight *weight;

    (void)state;
    scratch_begin(&scratch);
    config.dims.vocabulary = 5000;
    for (uint64_t i = 0; i < 3; i++) {
        char name[2] = {(char)('a' + (char)i), 0};
        const char *path = scratch_folder(&scratch, name);

        tiny_model(path, &config, i / 2, DTYPE_F32);
        models[i] = opened(path);
    }
    weight = &models[0]->weights.embed;
    assert_memory_equal(weight->data, models[1]->weights.embed.data, 5000 * 24 * 4);
    assert_true(memcmp(weight->data, models[2]->weights.embed.data, 5000 * 24 * 4) != 0);
    for (size_t i = 0; i < 5000 * 24; i++) {
        double value = dtype_load(DTYPE_F32, weight->data, i);

        sum += value;
        squares += value * value;
    }
    assert_true(fabs(sum / 120000) < 0.02);
    assert_true(fabs(squares / 120000 - 1) < 0.02);
    for (int i = 0; i < 3; i++)
        model_close(models[i]);
    scratch_end(&scratch);
}

static void presets_have_the_size_of_their_names(void **state)
{
    static const struct { const char *name; uint64_t least, most;
    } sizes[] = {{"15m", 15000000, 16000000},
                 {"110m", 105000000, 115000000},
                 {"250m", 250000000, 260000000},
                 {"1b", 1050000000, 1150000000}};
    struct model_config config;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        assert_true(random_preset(sizes[i].name, &config));
        assert_in_range(model_parameters(&config), sizes[i].least, sizes[i].most);
    }
    assert_false(random_preset("2b", &config));
}

/* Every half is the nearest one of what lies around it. */
static void halves_are_rounded_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x7c00; half++) {
        float value = f16_widen((uint16_t)half);
        double next = half + 1 < 0x7c00 ? (double)f16_widen((uint16_t)(half + 1)) : 65536.0;
        double middle = ((double)value + next) / 2;
        uint16_t got = 0;

        assert_int_equal(f16_round(value), half);
        assert_int_equal(f16_round(-value), half | 0x8000);
        assert_int_equal(f16_round((float)middle), half % 2 == 0 ? half : half + 1);
        assert_int_equal(f16_round(nextafterf((float)middle, 0)), half);
        assert_int_equal(f16_round(nextafterf((float)middle, 1e9f)), half + 1);
        /* Nearer than a float can say. */
        dtype_store(DTYPE_F16, middle * (1 + 1e-13), &got, 0);
        assert_int_equal(got, half + 1);
        dtype_store(DTYPE_F16, -middle * (1 - 1e-13), &got, 0);
        assert_int_equal(got, half | 0x8000);
    }
    assert_int_equal(f16_round(1e9f), 0x7c00);
    assert_int_equal(f16_round(-INFINITY), 0xfc00);
    assert_int_equal(f16_round(NAN) & 0x7fff, 0x7e00);
}

static void bf16_is_rounded_once_from_double(void **state)
{
    uint16_t got = 0;

    (void)state;
    for (uint32_t bits = 0x0080; bits < 0x7f7f; bits += 3) {
        double middle = ((double)bf16_widen((uint16_t)bits) + (double)bf16_widen((uint16_t)(bits + 1))) / 2;

        dtype_store(DTYPE_BF16, middle, &got, 0);
        assert_int_equal(got, bits % 2 == 0 ? bits : bits + 1);
        dtype_store(DTYPE_BF16, middle * (1 + 1e-13), &got, 0);
        assert_int_equal(got, bits + 1);
        dtype_store(DTYPE_BF16, middle * (1 - 1e-13), &got, 0);
        assert_int_equal(got, bits);
        dtype_store(DTYPE_BF16, -middle * (1 + 1e-13), &got, 0);
        assert_int_equal(got, (bits + 1) | 0x8000);
    }
}

static void the_reference_models_open(void **state)
{
    const char *one = test_shared_path("models/stories260k");
    struct model *models[2];

    (void)state;
    if (one == NULL) {
        print_message("skipped: ../shared/models is not there\n");
        skip();
    }
    models[0] = opened(one);
    models[1] = opened(test_shared_path("models/stories260k-sharded"));
    assert_int_equal(models[0]->weights_bytes, 1040128);
    assert_int_equal(safetensors_files(models[1]->files), 2);
    assert_int_equal(safetensors_count(models[0]->files), safetensors_count(models[1]->files));
    for (uint32_t i = 0; i < safetensors_count(models[0]->files); i++) {
        const struct tensor *a = safetensors_at(models[0]->files, i);
        const struct tensor *b = safetensors_at(models[1]->files, i);

        assert_string_equal(a->name, b->name);
        assert_memory_equal(a->data, b->data, (size_t)a->bytes);
    }
    model_close(models[0]);
    model_close(models[1]);
    models[0] = opened(test_shared_path("models/stories260k-bf16"));
    assert_int_equal(models[0]->dtype, DTYPE_BF16);
    model_close(models[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_opens_with_all_its_weights),
        cmocka_unit_test(a_config_of_another_model_is_refused_tensor_by_tensor),
        cmocka_unit_test(surplus_and_missing_tensors_are_named),
        cmocka_unit_test(random_models_depend_on_the_seed_alone),
        cmocka_unit_test(presets_have_the_size_of_their_names),
        cmocka_unit_test(halves_are_rounded_to_nearest_even),
        cmocka_unit_test(bf16_is_rounded_once_from_double),
        cmocka_unit_test(the_reference_models_open),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
