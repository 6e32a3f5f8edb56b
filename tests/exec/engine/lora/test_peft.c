/* Adapters of PEFT: what is taken, with what scale and rank; every refusal by its reason; what makes two adapters the same. */
#define _GNU_SOURCE /* memmem */
#include "support.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "engine/lora/peft.h"
#include "engine/model/weights.h"
#include "exec/scratch.h"

/* The modules of the tiny model that a test's adapter holds, with ranks; tensors are made on demand. */
struct made {
    struct scratch scratch;
    struct model_config config;
    struct tensor tensor[2 * 3 * LORA_MODULE_COUNT + 4];
    char name[2 * 3 * LORA_MODULE_COUNT + 4][TENSOR_NAME_MAX + 64];
    uint32_t count;
    float number[4096];
};

static void made_begin(struct made *made)
{
    memset(made, 0, sizeof(*made));
    scratch_begin(&made->scratch);
    made->config = tiny_config(FAMILY_LLAMA);
    for (size_t i = 0; i < ARRAY_COUNT(made->number); i++)
        made->number[i] = (float)i / 64;
}

static struct tensor *add_tensor(struct made *made, const char *name, int64_t rows, int64_t columns)
{
    struct tensor *tensor = &made->tensor[made->count];

    snprintf(made->name[made->count], sizeof(made->name[0]), "%s", name);
    *tensor = (struct tensor){.name = made->name[made->count], .data = made->number + made->count, .type = TENSOR_F32, .dims = 2,
                              .shape = {rows, columns}};
    made->count++;
    return tensor;
}

static void add_pair(struct made *made, int32_t layer, enum lora_module module, int32_t rank)
{
    char path[TENSOR_NAME_MAX];
    char name[TENSOR_NAME_MAX + 64];

    snprintf(name, sizeof(name), "base_model.model.%s", model_linear_name(layer, module, ".lora_A.weight", path));
    add_tensor(made, name, rank, lora_module_in(&made->config.dims, module));
    snprintf(name, sizeof(name), "base_model.model.%s", model_linear_name(layer, module, ".lora_B.weight", path));
    add_tensor(made, name, lora_module_out(&made->config.dims, module), rank);
}

/* modules of all layers, rank 4. */
static void add_all(struct made *made, uint32_t modules)
{
    for (int32_t layer = 0; layer < 3; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++)
            if (modules >> module & 1)
                add_pair(made, layer, module, 4);
}

static void write_tensors(struct made *made)
{
    struct refusal refusal;

    assert_int_equal(safetensors_write(scratch_at(&made->scratch, "adapter_model.safetensors"), made->tensor,
                                       made->count, NULL, NULL, &refusal),
                     STATUS_OK);
    made->count = 0;
}

/* fields: besides peft_type. */
static void write_config(struct made *made, const char *fields)
{
    char text[2048];

    snprintf(text, sizeof(text), "{\"peft_type\": \"LORA\", %s}", fields);
    scratch_text(&made->scratch, "adapter_config.json", text);
}

/* Whatever is taken can be written, and is the same again: patterns and layers as paths, no expression of a stranger's left. */
static void assert_written_the_same(const struct peft *peft, const struct model_config *config)
{
    const struct peft_write write = {.source = &peft->source, .dims = &config->dims, .alpha = peft->alpha_stated, .rslora = peft->rslora,
                                     .base = "tiny"};
    struct refusal refusal = {""};
    struct peft *again = NULL;
    void *data = NULL;
    size_t bytes = 0;

    if (peft_write_bytes(&write, "object", &data, &bytes, &refusal) != STATUS_OK ||
        peft_open_bytes(data, (int64_t)bytes, "object", config, 64, &again, &refusal) != STATUS_OK)
        fail_msg("written: %s", refusal.text);
    assert_memory_equal(again->digest, peft->digest, DIGEST_BYTES);
    assert_null(memmem(data, bytes, "\\\\", 2));
    peft_close(again);
    free(data);
}

static struct peft *taken(struct made *made, const char *fields)
{
    struct peft *peft = NULL;
    struct refusal refusal = {""};

    write_config(made, fields);
    if (peft_open(made->scratch.path, &made->config, 64, &peft, &refusal) != STATUS_OK)
        fail_msg("refused: %s", refusal.text);
    assert_written_the_same(peft, &made->config);
    return peft;
}

static void expect_refused(struct made *made, const char *fields, const char *why)
{
    struct peft *peft = NULL;
    struct refusal refusal = {""};

    if (fields != NULL)
        write_config(made, fields);
    assert_int_not_equal(peft_open(made->scratch.path, &made->config, 64, &peft, &refusal), STATUS_OK);
    assert_null(peft);
    if (strstr(refusal.text, why) == NULL)
        fail_msg("expected \"%s\" in: %s", why, refusal.text);
}

#define QV "\"r\": 4, \"lora_alpha\": 6, \"target_modules\": [\"q_proj\", \"v_proj\"]"

static void pairs_lie_where_their_names_say(void **state)
{
    struct made made;
    struct peft *peft;
    const struct lora_pair *pair;

    (void)state;
    made_begin(&made);
    add_all(&made, 0x05);
    write_tensors(&made);
    peft = taken(&made, QV);
    assert_int_equal(peft->source.modules, 0x05);
    assert_int_equal(peft->source.rank, 4);
    assert_int_equal(peft->source.layers, 3);
    assert_int_equal(peft->layers_adapted, 3);
    assert_int_equal(peft->tensors, 12);
    assert_int_equal(peft->tensor_bytes, 3 * 4 * 4 * (24 + 40 + 24 + 20));
    pair = lora_source_pair(&peft->source, 1, LORA_V);
    assert_true(pair->scale == 1.5f);
    assert_int_equal(pair->rank, 4);
    assert_ptr_equal(pair->b, safetensors_find(peft->file, "base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight")->data);
    assert_null(lora_source_pair(&peft->source, 1, LORA_K)->a);
    peft_close(peft);
    scratch_end(&made.scratch);
}

static void scales_and_ranks_follow_peft(void **state)
{
    struct made made;
    struct peft *peft;

    (void)state;
    made_begin(&made);
    add_all(&made, 0x05);
    write_tensors(&made);
    peft = taken(&made, QV ", \"use_rslora\": true");
    assert_true(lora_source_pair(&peft->source, 0, LORA_Q)->scale == 3);
    assert_true(peft->rslora);
    peft_close(peft);
    /* A whole path, an ending, a regular expression; the first key that fits wins. */
    peft = taken(
        &made, QV
        ", \"alpha_pattern\": {\"model.layers.1.self_attn.v_proj\": 8, \"v_proj\": 2, \"layers\\\\.[02].*q_proj\": 16}");
    assert_true(lora_source_pair(&peft->source, 1, LORA_V)->scale == 2);
    assert_true(lora_source_pair(&peft->source, 0, LORA_V)->scale == 0.5f);
    assert_true(lora_source_pair(&peft->source, 2, LORA_Q)->scale == 4);
    assert_true(lora_source_pair(&peft->source, 1, LORA_Q)->scale == 1.5f);
    peft_close(peft);
    /* An ending is one only after a dot. */
    peft = taken(&made, QV ", \"alpha_pattern\": {\"proj\": 8, \"^q_proj\": 8}");
    assert_true(lora_source_pair(&peft->source, 1, LORA_Q)->scale == 1.5f);
    peft_close(peft);
    for (int32_t layer = 0; layer < 3; layer++) {
        add_pair(&made, layer, LORA_Q, layer == 1 ? 9 : 4);
        add_pair(&made, layer, LORA_V, 2);
    }
    write_tensors(&made);
    peft = taken(&made, QV ", \"rank_pattern\": {\"layers.1.self_attn.q_proj\": 9, \"v_proj\": 2}");
    assert_int_equal(peft->source.rank, 9);
    assert_int_equal(lora_source_pair(&peft->source, 1, LORA_Q)->rank, 9);
    assert_int_equal(lora_source_pair(&peft->source, 2, LORA_V)->rank, 2);
    assert_true(lora_source_pair(&peft->source, 2, LORA_V)->scale == 3);
    assert_true(lora_source_pair(&peft->source, 1, LORA_Q)->scale == (float)(6.0 / 9));
    peft_close(peft);
    expect_refused(&made, QV, "must be [4, 24]");
    expect_refused(&made, QV ", \"rank_pattern\": {\"v_proj\": 65}", "rank 65 is above the largest that is taken, 64");
    scratch_end(&made.scratch);
}

static void targets_are_matched_as_peft_does(void **state)
{
    static const struct {
        const char *fields;
        uint32_t modules;
    } cases[] = {
        {"\"target_modules\": \"all-linear\", \"r\": 4", 0x7f},
        {"\"target_modules\": [\"self_attn.q_proj\", \"mlp.down_proj\"], \"r\": 4", 0x41},
        {"\"target_modules\": \".*\\\\.self_attn\\\\.(q|k|v|o)_proj\", \"r\": 4", 0x0f},
        {"\"target_modules\": \"model.layers.\\\\d+.mlp.*\", \"r\": 4", 0x70},
        {"\"target_modules\": \"all-linear\", \"exclude_modules\": [\"k_proj\", \"mlp.up_proj\"], \"r\": 4", 0x5d},
    };
    struct made made;
    struct peft *peft;

    (void)state;
    made_begin(&made);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        add_all(&made, cases[i].modules);
        write_tensors(&made);
        peft = taken(&made, cases[i].fields);
        assert_int_equal(peft->source.modules, cases[i].modules);
        peft_close(peft);
    }
    /* Layers. */
    add_pair(&made, 0, LORA_Q, 4);
    add_pair(&made, 2, LORA_Q, 4);
    write_tensors(&made);
    peft = taken(
        &made,
        "\"r\": 4, \"target_modules\": [\"q_proj\"], \"layers_to_transform\": [0, 2], \"layers_pattern\": [\"layers\"]");
    assert_int_equal(peft->layers_adapted, 2);
    assert_null(lora_source_pair(&peft->source, 1, LORA_Q)->a);
    peft_close(peft);
    expect_refused(&made, "\"r\": 4, \"target_modules\": [\"q_proj\"]", "layers.1.self_attn.q_proj.lora_A.weight is missing");
    expect_refused(&made, "\"r\": 4, \"target_modules\": [\"q_proj\"], \"layers_to_transform\": 2",
                   "belongs to no module that adapter_config.json names");
    expect_refused(&made, "\"r\": 4, \"target_modules\": [\"q_proj\"], \"layers_to_transform\": [0, 3]",
                   "there is no layer 3 in a model of 3");
    /* Without r and lora_alpha both are 8. */
    add_pair(&made, 1, LORA_DOWN, 8);
    write_tensors(&made);
    peft = taken(&made, "\"target_modules\": [\"layers.1.mlp.down_proj\"]");
    assert_true(lora_source_pair(&peft->source, 1, LORA_DOWN)->scale == 1);
    peft_close(peft);
    scratch_end(&made.scratch);
}

/* A rank above the largest, or what is not known, has been served as if it were nothing elsewhere (vllm#2847, #9280, gpustack#5438). */
static void what_cannot_be_served_is_refused_with_its_reason(void **state)
{
    static const struct {
        const char *fields;
        const char *why;
    } cases[] = {
        {QV ", \"use_dora\": true", "use_dora: DoRA is not supported"},
        {QV ", \"modules_to_save\": [\"lm_head\"]", "modules_to_save: full copies"},
        {QV ", \"bias\": \"all\"", "bias must be none"},
        {QV ", \"lora_bias\": true", "lora_bias"},
        {QV ", \"fan_in_fan_out\": true", "fan_in_fan_out"},
        {QV ", \"layer_replication\": [[0, 2]]", "layer_replication"},
        {QV ", \"target_parameters\": [\"x\"]", "target_parameters"},
        {QV ", \"trainable_token_indices\": [1]", "trainable_token_indices"},
        {QV ", \"alora_invocation_tokens\": [1]", "aLoRA"},
        {QV ", \"use_something_new\": true", "the field use_something_new of adapter_config.json is not known here"},
        {QV ", \"init_lora_weights\": \"pissa_niter_4\"", "init_lora_weights pissa changes the base"},
        {QV ", \"layers_pattern\": \"h\"", "layers_pattern must be"},
        {QV ", \"lora_alpha\": 6", "duplicate"},
        {QV ", \"use_rslora\": 1", "use_rslora must be true or false"},
        {QV ", \"rank_pattern\": {\"q_proj\": 0}", "rank_pattern: q_proj must be a whole number"},
        {QV ", \"rank_pattern\": [1]", "rank_pattern must be an object"},
        {QV ", \"alpha_pattern\": {\"q_proj\": \"x\"}", "alpha_pattern: q_proj must be a number"},
        {QV ", \"alpha_pattern\": {\"q_proj(\": 4}", "no regular expression"},
        {QV ", \"exclude_modules\": \"x\"", "exclude_modules must be a list"},
        {"\"r\": 0, \"target_modules\": [\"q_proj\"]", "r must be a whole number"},
        {"\"r\": 4.0, \"target_modules\": [\"q_proj\"]", "r must be a whole number"},
        {"\"lora_alpha\": 0, \"target_modules\": [\"q_proj\"]", "lora_alpha must be a number above 0"},
        {"\"r\": 4", "target_modules is missing"},
        {"\"r\": 4, \"target_modules\": []", "target_modules is missing"},
        {"\"r\": 4, \"target_modules\": [4]", "must be a list of strings"},
        {"\"r\": 4, \"target_modules\": [\"q_proj\", \"lm_head\"]", "lm_head is none of the modules"},
        {"\"r\": 4, \"target_modules\": [\"proj\"]", "proj is none of the modules"},
        {"\"r\": 4, \"target_modules\": \".*c_attn\"", "match no module of this model"},
        {"\"r\": 4, \"target_modules\": \".*\"", "target_modules matches lm_head"},
        {"\"r\": 4, \"target_modules\": \"(\"", "no regular expression"},
        {"\"r\": 4, \"target_modules\": \"((([a-z.0-9_]*)*)*)*[0-9]\"", "takes too many steps"},
        {"\"r\": 4, \"target_modules\": \".*q_proj\", \"layers_to_transform\": [1]", "needs target_modules to be a list"},
        {"\"r\": 128, \"target_modules\": [\"q_proj\", \"v_proj\"]", "rank 128 is above the largest"},
    };
    struct made made;
    struct refusal refusal;
    struct peft *peft = NULL;

    (void)state;
    made_begin(&made);
    add_all(&made, 0x05);
    write_tensors(&made);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        expect_refused(&made, cases[i].fields, cases[i].why);
    /* All of it at once. */
    write_config(&made, QV ", \"use_dora\": true, \"bias\": \"all\", \"modules_to_save\": [\"x\"]");
    assert_int_equal(peft_open(made.scratch.path, &made.config, 64, &peft, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "use_dora"));
    assert_non_null(strstr(refusal.text, "modules_to_save"));
    assert_non_null(strstr(refusal.text, "bias must"));
    scratch_text(&made.scratch, "adapter_config.json", "{\"peft_type\": \"IA3\", \"target_modules\": [\"q_proj\"]}");
    expect_refused(&made, NULL, "peft_type must be LORA; IA3");
    scratch_text(&made.scratch, "adapter_config.json", "nonsense");
    expect_refused(&made, NULL, "not JSON");
    scratch_end(&made.scratch);
}

/* Missing keys, or ones that nobody asked for, have been passed over in silence (peft#2115, #2118, #2566, #1932). */
static void tensors_must_be_those_that_are_promised(void **state)
{
    struct made made;
    uint32_t infinity = 0x7f800000;

    (void)state;
    made_begin(&made);
    add_all(&made, 0x05);
    made.count--;
    write_tensors(&made);
    expect_refused(&made, QV, "layers.2.self_attn.v_proj.lora_B.weight is missing, which adapter_config.json promises");
    add_all(&made, 0x05);
    add_tensor(&made, "base_model.model.lm_head.weight", 4, 4);
    write_tensors(&made);
    expect_refused(&made, QV, "tensor base_model.model.lm_head.weight belongs to no module");
    add_all(&made, 0x05);
    made.tensor[3].shape[0] += 1;
    write_tensors(&made);
    expect_refused(&made, QV, "v_proj.lora_B.weight is [21, 4]; for this base and rank it must be [20, 4]");
    add_all(&made, 0x05);
    made.tensor[5].type = TENSOR_I32;
    write_tensors(&made);
    expect_refused(&made, QV, "dtype is I32");
    add_all(&made, 0x05);
    memcpy(&made.number[4000 + 79], &infinity, sizeof(infinity));
    made.tensor[3].data = made.number + 4000;
    write_tensors(&made);
    expect_refused(&made, QV, "v_proj.lora_B.weight holds numbers that are not finite");
    assert_int_equal(unlink(scratch_at(&made.scratch, "adapter_model.safetensors")), 0);
    expect_refused(&made, QV, "no such file");
    scratch_text(&made.scratch, "adapter_model.bin", "x");
    expect_refused(&made, QV, "a pickle");
    assert_int_equal(symlink("adapter_model.bin", scratch_at(&made.scratch, "adapter_model.safetensors")), 0);
    expect_refused(&made, QV, "symbolic link");
    scratch_end(&made.scratch);
}

static void f16_and_bf16_that_are_not_finite_are_found(void **state)
{
    static const struct { enum tensor_type type; uint16_t bits; bool finite; } cases[] = {
        {TENSOR_F16, 0x7bff, true}, {TENSOR_F16, 0x7c00, false}, {TENSOR_F16, 0xfe01, false},
        {TENSOR_BF16, 0x7f7f, true}, {TENSOR_BF16, 0x7f80, false}, {TENSOR_BF16, 0xffc1, false}, {TENSOR_BF16, 0x7c00, true}};
    struct made made;

    (void)state;
    made_begin(&made);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        memset(made.number, 0, sizeof(made.number));
        add_pair(&made, 0, LORA_Q, 4);
        made.tensor[0].type = made.tensor[1].type = cases[i].type;
        memcpy((char *)made.number + 95 * 2, &cases[i].bits, 2);
        write_tensors(&made);
        if (cases[i].finite)
            peft_close(taken(&made, "\"r\": 4, \"target_modules\": [\"layers.0.self_attn.q_proj\"]"));
        else
            expect_refused(&made, "\"r\": 4, \"target_modules\": [\"layers.0.self_attn.q_proj\"]",
                           "lora_A.weight holds numbers that are not finite");
    }
    scratch_end(&made.scratch);
}

/* Same numbers: same identity. Anything that changes them changes it. */
static void the_digest_is_that_of_the_effect(void **state)
{
    struct made made;
    struct peft *first;
    uint8_t digest[DIGEST_BYTES];
    static const char *const same[] = {
        QV ", \"lora_dropout\": 0.5, \"task_type\": \"CAUSAL_LM\", \"inference_mode\": true",
        "\"r\": 4, \"lora_alpha\": 6, \"target_modules\": \".*\\\\.[qv]_proj\"",
        "\"r\": 4, \"lora_alpha\": 3, \"use_rslora\": true, \"target_modules\": [\"v_proj\", \"q_proj\"]"};

    (void)state;
    made_begin(&made);
    add_all(&made, 0x05);
    write_tensors(&made);
    first = taken(&made, QV);
    memcpy(digest, first->digest, sizeof(digest));
    peft_close(first);
    for (size_t i = 0; i < ARRAY_COUNT(same); i++) {
        first = taken(&made, same[i]);
        assert_memory_equal(first->digest, digest, sizeof(digest));
        peft_close(first);
    }
    first = taken(&made, "\"r\": 4, \"lora_alpha\": 7, \"target_modules\": [\"q_proj\", \"v_proj\"]");
    assert_memory_not_equal(first->digest, digest, sizeof(digest));
    peft_close(first);
    made.number[0] += 1;
    add_all(&made, 0x05);
    write_tensors(&made);
    first = taken(&made, QV);
    assert_memory_not_equal(first->digest, digest, sizeof(digest));
    peft_close(first);
    scratch_end(&made.scratch);
}

static void what_is_written_is_read_again(void **state)
{
    struct scratch scratch;
    struct model_config config = tiny_config(FAMILY_QWEN3);
    struct refusal refusal = {""};
    struct peft *peft = NULL;
    struct peft *again = NULL;
    struct peft_write write = {.dims = &config.dims, .alpha = 10, .base = "tiny"};

    (void)state;
    scratch_begin(&scratch);
    tiny_adapter(scratch_folder(&scratch, "a"), &config, 5, 0x7f, 9, DTYPE_BF16);
    assert_int_equal(peft_open(scratch_at(&scratch, "a"), &config, 5, &peft, &refusal), STATUS_OK);
    assert_int_equal(peft->rank_stated, 5);
    assert_true(peft->alpha_stated == 10);
    assert_true(lora_source_pair(&peft->source, 2, LORA_DOWN)->scale == 2);
    write.source = &peft->source;
    assert_int_equal(peft_write(scratch_folder(&scratch, "b"), &write, &refusal), STATUS_OK);
    assert_int_equal(peft_open(scratch_at(&scratch, "b"), &config, 5, &again, &refusal), STATUS_OK);
    assert_memory_equal(peft->digest, again->digest, DIGEST_BYTES);
    peft_close(again);
    write.alpha = 11; /* it says nothing of a pair that has another scale */
    assert_int_equal(peft_write(scratch_at(&scratch, "b"), &write, &refusal), STATUS_OK);
    assert_int_equal(peft_open(scratch_at(&scratch, "b"), &config, 5, &again, &refusal), STATUS_OK);
    assert_memory_equal(peft->digest, again->digest, DIGEST_BYTES);
    peft_close(peft);
    peft_close(again);
    scratch_end(&scratch);
}

static enum status open_made(const void *data, size_t bytes, const struct model_config *config, int32_t rank_max, struct peft **ret_peft,
                             struct refusal *refusal)
{
    refusal->text[0] = '\0';
    *ret_peft = NULL;
    return peft_open_bytes(data, (int64_t)bytes, "object", config, rank_max, ret_peft, refusal);
}

static void one_file_is_the_folders_adapter(void **state)
{
    struct scratch scratch;
    struct model_config config = tiny_config(FAMILY_QWEN3);
    struct refusal refusal = {""};
    struct peft *peft = NULL;
    struct peft *again = NULL;
    struct peft_write write = {.dims = &config.dims, .alpha = 10, .base = "a \"tiny\" one"};
    void *data = NULL;
    size_t bytes = 0;

    (void)state;
    scratch_begin(&scratch);
    tiny_adapter(scratch_folder(&scratch, "a"), &config, 5, 0x7f, 9, DTYPE_BF16);
    assert_int_equal(peft_open(scratch_at(&scratch, "a"), &config, 5, &peft, &refusal), STATUS_OK);
    write.source = &peft->source;
    assert_int_equal(peft_write_bytes(&write, "object", &data, &bytes, &refusal), STATUS_OK);
    assert_int_equal(open_made(data, bytes, &config, 5, &again, &refusal), STATUS_OK);
    assert_memory_equal(peft->digest, again->digest, DIGEST_BYTES);
    assert_int_equal(again->file_bytes, bytes);
    peft_close(again);
    /* A folder whose tensors' file is that one has the same digest: other readers see a plain file of tensors. */
    scratch_write(&scratch, "a/adapter_model.safetensors", data, bytes);
    assert_int_equal(peft_open(scratch_at(&scratch, "a"), &config, 5, &again, &refusal), STATUS_OK);
    assert_memory_equal(peft->digest, again->digest, DIGEST_BYTES);
    peft_close(again);
    assert_int_equal(open_made(data, bytes, &config, 4, &again, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "object: rank 5 is above"));
    assert_int_equal(open_made(data, bytes - 1, &config, 5, &again, &refusal), STATUS_INVALID);
    free(data);
    peft_close(peft);
    scratch_end(&scratch);
}

static enum status open_parts(const struct peft_parts *parts, int64_t config_bytes, int64_t tensors_bytes, const struct model_config *config,
                              struct peft **ret_peft, struct refusal *refusal)
{
    struct peft_parts cut = *parts;

    cut.config_bytes = config_bytes;
    cut.tensors_bytes = tensors_bytes;
    refusal->text[0] = '\0';
    *ret_peft = NULL;
    return peft_open_parts(&cut, config, LORA_RANK_MAX, ret_peft, refusal);
}

static void a_folders_files_are_read_from_memory_by_the_same_rules(void **state)
{
    const struct model_config config = tiny_config(FAMILY_LLAMA);
    struct scratch scratch;
    struct refusal refusal = {""};
    struct peft *folder = NULL;
    struct peft *peft = NULL;
    struct peft_parts parts;
    void *text = NULL;
    void *tensors = NULL;

    (void)state;
    scratch_begin(&scratch);
    tiny_adapter(scratch_folder(&scratch, "a"), &config, 5, 0x7f, 9, DTYPE_F32);
    assert_int_equal(peft_open(scratch_at(&scratch, "a"), &config, 5, &folder, &refusal), STATUS_OK);
    assert_int_equal(file_read(AT_FDCWD, scratch_at(&scratch, "a/adapter_config.json"), "a", 1 << 20, &text, &parts.config_bytes, &refusal), STATUS_OK);
    assert_int_equal(file_read(AT_FDCWD, scratch_at(&scratch, "a/adapter_model.safetensors"), "a", 1 << 20, &tensors, &parts.tensors_bytes, &refusal),
                     STATUS_OK);
    parts.config = text;
    parts.tensors = tensors;
    assert_int_equal(open_parts(&parts, parts.config_bytes, parts.tensors_bytes, &config, &peft, &refusal), STATUS_OK);
    assert_memory_equal(peft->digest, folder->digest, DIGEST_BYTES);
    assert_string_equal(peft->base_stated, "tiny");
    peft_close(peft);
    assert_int_equal(open_parts(&parts, parts.config_bytes, parts.tensors_bytes - 1, &config, &peft, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "adapter_model.safetensors"));
    assert_int_equal(open_parts(&parts, parts.config_bytes / 2, parts.tensors_bytes, &config, &peft, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "adapter_config.json"));
    assert_int_equal(open_parts(&parts, 0, 0, &config, &peft, &refusal), STATUS_INVALID);
    assert_int_equal(open_parts(&parts, parts.config_bytes, 0, &config, &peft, &refusal), STATUS_INVALID);
    peft_close(folder);
    free(text);
    free(tensors);
    scratch_end(&scratch);
}

static void one_file_needs_its_config(void **state)
{
    const float number[4] = {1, 2, 3, 4};
    const struct tensor tensor = {.name = "a", .data = number, .type = TENSOR_F32, .dims = 2, .shape = {2, 2}};
    static const struct {
        const char *key;
        const char *text;
        const char *why;
    } cases[] = {
        {NULL, NULL, "has no adapter_config"},
        {"other", "{}", "has no adapter_config"},
        {PEFT_CONFIG_KEY, "[1]", "is not a JSON object"},
        {PEFT_CONFIG_KEY, "{\"r\": 1, \"r\": 2}", "is not a JSON object"},
        {PEFT_CONFIG_KEY, "{\"r\": 1}", "peft_type"},
    };
    const struct model_config config = tiny_config(FAMILY_LLAMA);

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct refusal refusal = {""};
        struct peft *peft;
        void *data = NULL;
        size_t bytes = 0;

        assert_int_equal(safetensors_make(&tensor, 1, cases[i].key, cases[i].text, "object", &data, &bytes, &refusal), STATUS_OK);
        assert_int_equal(open_made(data, bytes, &config, 8, &peft, &refusal), STATUS_INVALID);
        if (strstr(refusal.text, cases[i].why) == NULL)
            fail_msg("expected \"%s\" in: %s", cases[i].why, refusal.text);
        free(data);
    }
}

static void the_reference_adapters_are_taken_and_the_stranger_is_not(void **state)
{
    static const struct { const char *name; int32_t rank; uint32_t modules; float scale; } adapters[] = {
        {"robot", 4, 0x7f, 2}, {"sea", 8, 0x05, 2}, {"shout", 16, 0x0f, 2}, {"sad", 8, 0x70, 2.8284271247461903f}};
    const char *base = test_shared_path("models/stories260k");
    struct model_config config;
    struct refusal refusal = {""};
    struct peft *peft = NULL;

    (void)state;
    if (base == NULL) {
        print_message("skipped: ../shared/models is not there\n");
        skip();
    }
    assert_int_equal(model_config_read(base, &config, &refusal), STATUS_OK);
    for (size_t i = 0; i < ARRAY_COUNT(adapters); i++) {
        char relative[64];

        snprintf(relative, sizeof(relative), "models/adapters/%s", adapters[i].name);
        if (peft_open(test_shared_path(relative), &config, 16, &peft, &refusal) != STATUS_OK)
            fail_msg("%s", refusal.text);
        assert_int_equal(peft->source.rank, adapters[i].rank);
        assert_int_equal(peft->source.modules, adapters[i].modules);
        assert_true(lora_source_pair(&peft->source, 4, adapters[i].modules & 1 ? LORA_Q : LORA_UP)->scale == adapters[i].scale);
        peft_close(peft);
    }
    peft = NULL;
    assert_int_equal(
        peft_open(test_shared_path("models/adapters/third_party/gradience-tiny-lora"), &config, 64, &peft, &refusal),
        STATUS_INVALID);
    assert_null(peft);
    assert_non_null(strstr(refusal.text, "the field alpha"));
    assert_non_null(strstr(refusal.text, "c_attn is none of the modules of this model"));
    assert_non_null(strstr(refusal.text, "c_proj is none of the modules of this model"));
    assert_int_equal(peft_open(test_shared_path("models/adapters/shout"), &config, 8, &peft, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "rank 16 is above the largest that is taken, 8"));
    config.dims.ffn = 176;
    assert_int_equal(peft_open(test_shared_path("models/adapters/robot"), &config, 64, &peft, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "for this base and rank it must be"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_lie_where_their_names_say),
        cmocka_unit_test(scales_and_ranks_follow_peft),
        cmocka_unit_test(targets_are_matched_as_peft_does),
        cmocka_unit_test(what_cannot_be_served_is_refused_with_its_reason),
        cmocka_unit_test(tensors_must_be_those_that_are_promised),
        cmocka_unit_test(f16_and_bf16_that_are_not_finite_are_found),
        cmocka_unit_test(the_digest_is_that_of_the_effect),
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(one_file_is_the_folders_adapter),
        cmocka_unit_test(a_folders_files_are_read_from_memory_by_the_same_rules),
        cmocka_unit_test(one_file_needs_its_config),
        cmocka_unit_test(the_reference_adapters_are_taken_and_the_stranger_is_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
