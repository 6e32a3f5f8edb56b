/* Packing against the layout's words, read back value by value; and bytes against what footprint foretells. */
#include "support.h"

#include "engine/lora/pack.h"
#include "engine/lora/peft.h"
#include "engine/model/store.h"
#include "exec/scratch.h"
#include "model/footprint.h"

struct drawn {
    struct lora_pair pair[3 * LORA_MODULE_COUNT];
    struct lora_source source;
    unsigned char memory[1 << 18];
    size_t used;
};

/* Numbers of any dtype at an odd place. */
static const void *draw_values(struct drawn *drawn, enum dtype dtype, size_t count, uint64_t *chance)
{
    unsigned char *at = drawn->memory + drawn->used + 1;

    drawn->used += count * dtype_bytes(dtype) + 2;
    check(drawn->used < sizeof(drawn->memory));
    for (size_t i = 0; i < count; i++)
        dtype_store(dtype, 2 * draw_unit(chance) - 1, at, i);
    return at;
}

/* Some pairs are absent, some have fewer ranks. */
static void draw_source(struct drawn *drawn, const struct dims *dims, uint32_t modules, int32_t rank, uint64_t *chance)
{
    memset(drawn, 0, sizeof(*drawn));
    drawn->source = (struct lora_source){.layers = dims->layers, .rank = rank, .modules = modules, .pair = drawn->pair};
    for (int32_t layer = 0; layer < dims->layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++) {
            struct lora_pair *pair = &drawn->pair[layer * LORA_MODULE_COUNT + (int32_t)module];

            if ((modules >> module & 1) == 0 || (layer > 0 && draw_below(chance, 5) == 0))
                continue;
            pair->rank = layer == 0 ? rank : 1 + (int32_t)draw_below(chance, (uint64_t)rank);
            pair->a_dtype = (enum dtype)draw_below(chance, DTYPE_COUNT);
            pair->b_dtype = (enum dtype)draw_below(chance, DTYPE_COUNT);
            pair->scale = (float)(0.1 + 2 * draw_unit(chance));
            pair->a = draw_values(drawn, pair->a_dtype, (size_t)pair->rank * (size_t)lora_module_in(dims, module), chance);
            pair->b = draw_values(drawn, pair->b_dtype, (size_t)pair->rank * (size_t)lora_module_out(dims, module), chance);
        }
}

static float rounded(enum mode mode, float value)
{
    return mode == MODE_EXACT ? value : bf16_widen(bf16_round(value));
}

/* Each value of one pair, where the layout says; beyond the pair's rank zeros. */
static void check_pair(const struct drawn *drawn, const struct dims *dims, enum mode mode, bool pairs,
                       const unsigned char *layer_start, int32_t layer, enum lora_module module)
{
    const struct lora_pair *pair = lora_source_pair(&drawn->source, layer, module);
    const enum dtype dtype = mode == MODE_EXACT ? DTYPE_F32 : DTYPE_BF16;
    const int32_t padded = lora_rank_padded(drawn->source.rank);
    int32_t in = lora_module_in(dims, module);
    int32_t out = lora_module_out(dims, module);
    struct lora_layout layout;
    int32_t before = 0;

    lora_layout_of(dims, mode, padded, drawn->source.modules, &layout);
    for (enum lora_module other = 0; other < module; other++)
        before += lora_group_of(other) == lora_group_of(module) && (drawn->source.modules >> other & 1);
    for (int32_t k = 0; k < padded; k++) {
        bool real = pair->a != NULL && k < pair->rank;

        for (int32_t i = 0; i < in; i++) {
            float got = dtype_load(dtype, layer_start + layout.a[lora_group_of(module)],
                                   (size_t)(before * padded + k) * (size_t)in + (size_t)i);

            assert_true(got == (real ? rounded(mode, dtype_load(pair->a_dtype, pair->a, (size_t)(k * in + i))) : 0));
        }
        for (int32_t o = 0; o < out; o++) {
            size_t at = pairs ? (size_t)((k / 2 * out + o) * 2 + k % 2) : (size_t)(o * padded + k);
            float got = dtype_load(dtype, layer_start + layout.b[module], at);

            assert_true(got == (real ? rounded(mode, dtype_load(pair->b_dtype, pair->b, (size_t)(o * pair->rank + k)) *
                                                         pair->scale)
                                     : 0));
        }
    }
}

static void every_value_lies_where_the_layout_says(void **state)
{
    static const uint32_t some[] = {0x7f, 0x05, 0x0f, 0x70, 0x08, 0x22, 0x01};
    const struct dims dims = {.hidden = 24, .heads = 4, .kv_heads = 2, .head_dim = 10, .ffn = 36, .vocabulary = 50, .layers = 3};
    static struct drawn drawn;
    uint64_t seed = test_seed(77);
    uint64_t chance = seed;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (size_t i = 0; i < ARRAY_COUNT(some); i++)
        for (int k = 0; k < 4; k++)
            for (int way = 0; way < 4; way++) {
                static const int32_t ranks[] = {1, 4, 16, 19};
                enum mode mode = way / 2 == 0 ? MODE_EXACT : MODE_FAST;
                bool pairs = way % 2 == 1;
                int64_t bytes;
                unsigned char *blob;

                draw_source(&drawn, &dims, some[i], ranks[k], &chance);
                bytes = lora_pack_bytes(&drawn.source, &dims, mode);
                assert_int_equal(bytes, lora_packed_bytes(&dims, mode, lora_rank_padded(ranks[k]), some[i]));
                blob = malloc((size_t)bytes);
                assert_non_null(blob);
                memset(blob, 0xff, (size_t)bytes);
                lora_pack(&drawn.source, &dims, mode, pairs, blob);
                for (int32_t layer = 0; layer < 3; layer++)
                    for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++)
                        if (some[i] >> module & 1)
                            check_pair(&drawn, &dims, mode, pairs && mode == MODE_FAST, blob + layer * (bytes / 3), layer, module);
                free(blob);
            }
}

/* Gaps before the next multiple of 64 are zeros too: blobs can be compared, hashed and sent. */
static void equal_adapters_are_equal_bytes(void **state)
{
    const struct dims dims = {.hidden = 24, .heads = 4, .kv_heads = 2, .head_dim = 10, .ffn = 36, .vocabulary = 50, .layers = 3};
    static struct drawn drawn;
    uint64_t chance = 5;
    int64_t bytes;
    unsigned char *blobs[2];

    (void)state;
    draw_source(&drawn, &dims, 0x7f, 5, &chance);
    bytes = lora_pack_bytes(&drawn.source, &dims, MODE_FAST);
    for (int i = 0; i < 2; i++) {
        blobs[i] = malloc((size_t)bytes);
        assert_non_null(blobs[i]);
        memset(blobs[i], i == 0 ? 0 : 0xff, (size_t)bytes);
        lora_pack(&drawn.source, &dims, MODE_FAST, true, blobs[i]);
    }
    assert_memory_equal(blobs[0], blobs[1], (size_t)bytes);
    free(blobs[0]);
    free(blobs[1]);
}

static struct shape footprint_of(const struct dims *dims)
{
    return (struct shape){.layers = (uint32_t)dims->layers, .hidden = (uint32_t)dims->hidden, .heads = (uint32_t)dims->heads,
                          .kv_heads = (uint32_t)dims->kv_heads, .head_dim = (uint32_t)dims->head_dim, .ffn = (uint32_t)dims->ffn,
                          .vocabulary = (uint32_t)dims->vocabulary, .weight_bits = 16};
}

static void footprint_foretells_packed_bytes(void **state)
{
    static const struct dims models[] = {
        {.hidden = 4096, .heads = 32, .kv_heads = 8, .head_dim = 128, .ffn = 14336, .vocabulary = 128256, .layers = 32},
        {.hidden = 64, .heads = 8, .kv_heads = 4, .head_dim = 8, .ffn = 172, .vocabulary = 512, .layers = 5},
        {.hidden = 24, .heads = 3, .kv_heads = 1, .head_dim = 10, .ffn = 37, .vocabulary = 50, .layers = 2},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(models); i++) {
        struct shape dims = footprint_of(&models[i]);

        for (uint32_t modules = 1; modules < 0x80; modules++)
            for (uint32_t rank = 1; rank <= 64; rank += 7)
                for (int mode = MODE_EXACT; mode <= MODE_FAST; mode++)
                    assert_int_equal(footprint_adapter_packed_bytes(&dims, modules, rank, mode == MODE_EXACT ? 4 : 2),
                                     lora_packed_bytes(&models[i], (enum mode)mode, lora_rank_padded((int32_t)rank), modules));
    }
    assert_int_equal(lora_packed_bytes(&models[0], MODE_FAST, 16, 0x7f), 83886080);
}

static void footprint_foretells_the_reference_adapters(void **state)
{
    static const char *const names[] = {"robot", "sea", "shout", "sad"};
    const char *base = test_shared_path("models/stories260k");
    struct model_config config;
    struct refusal refusal = {""};

    (void)state;
    if (base == NULL) {
        print_message("skipped: ../shared/models is not there\n");
        skip();
    }
    assert_int_equal(model_config_read(base, &config, &refusal), STATUS_OK);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct shape dims = footprint_of(&config.dims);
        struct peft *peft = NULL;
        char relative[64];

        snprintf(relative, sizeof(relative), "models/adapters/%s", names[i]);
        if (peft_open(test_shared_path(relative), &config, 64, &peft, &refusal) != STATUS_OK)
            fail_msg("%s", refusal.text);
        /* They are stored in f32, twice the bytes of bf16. */
        assert_int_equal(peft->tensor_bytes, 2 * footprint_adapter_bytes(&dims, peft->source.modules, (uint32_t)peft->source.rank));
        assert_int_equal(peft->tensors, footprint_adapter_tensors(&dims, peft->source.modules));
        assert_in_range(peft->file_bytes - peft->tensor_bytes, 1, 200 * peft->tensors + 64);
        assert_int_equal(lora_pack_bytes(&peft->source, &config.dims, MODE_EXACT),
                         footprint_adapter_packed_bytes(&dims, peft->source.modules, (uint32_t)peft->source.rank, 4));
        assert_int_equal(lora_pack_bytes(&peft->source, &config.dims, MODE_FAST),
                         footprint_adapter_packed_bytes(&dims, peft->source.modules, (uint32_t)peft->source.rank, 2));
        peft_close(peft);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_lies_where_the_layout_says),
        cmocka_unit_test(equal_adapters_are_equal_bytes),
        cmocka_unit_test(footprint_foretells_packed_bytes),
        cmocka_unit_test(footprint_foretells_the_reference_adapters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
