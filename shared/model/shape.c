/* The shapes we ship, each from the config.json its authors published, and the rules a shape must obey. */
#include "model/shape.h"

/* nominal: what the name says, in millions of parameters. */
#define SHAPES(X)                                                                                                    \
    /* name            layers hidden heads kv  head  ffn   vocabulary context tied  bias nominal */                  \
    X("tinyllama-1.1b",   22,  2048,  32,  4,  64,  5632,   32000,   2048, false, false,   1100)                     \
    X("llama-1b",         16,  2048,  32,  8,  64,  8192,  128256, 131072, true,  false,   1000) /* Llama 3.2 */     \
    X("llama-3b",         28,  3072,  24,  8, 128,  8192,  128256, 131072, true,  false,   3000) /* Llama 3.2 */     \
    X("llama-7b",         32,  4096,  32, 32, 128, 11008,   32000,   4096, false, false,   7000) /* Llama 1 and 2 */ \
    X("llama-8b",         32,  4096,  32,  8, 128, 14336,  128256, 131072, false, false,   8000) /* Llama 3.1 */     \
    X("llama-13b",        40,  5120,  40, 40, 128, 13824,   32000,   4096, false, false,  13000) /* Llama 1 and 2 */ \
    X("llama-30b",        60,  6656,  52, 52, 128, 17920,   32000,   2048, false, false,  30000) /* Llama 1 */       \
    X("llama2-70b",       80,  8192,  64,  8, 128, 28672,   32000,   4096, false, false,  70000)                     \
    X("llama-70b",        80,  8192,  64,  8, 128, 28672,  128256, 131072, false, false,  70000) /* Llama 3.1 */     \
    X("llama-405b",      126, 16384, 128,  8, 128, 53248,  128256, 131072, false, false, 405000) /* Llama 3.1 */     \
    X("mistral-7b",       32,  4096,  32,  8, 128, 14336,   32000,  32768, false, false,   7000) /* v0.1, v0.2 */    \
    X("mistral-24b",      40,  5120,  32,  8, 128, 32768,  131072,  32768, false, false,  24000) /* Small 2501 */    \
    X("qwen2.5-0.5b",     24,   896,  14,  2,  64,  4864,  151936,  32768, true,  true,     500)                     \
    X("qwen2.5-1.5b",     28,  1536,  12,  2, 128,  8960,  151936,  32768, true,  true,    1500)                     \
    X("qwen2.5-7b",       28,  3584,  28,  4, 128, 18944,  152064,  32768, false, true,    7000)                     \
    X("qwen2.5-14b",      48,  5120,  40,  8, 128, 13824,  152064,  32768, false, true,   14000)                     \
    X("qwen2.5-32b",      64,  5120,  40,  8, 128, 27648,  152064,  32768, false, true,   32000)                     \
    X("qwen2.5-72b",      80,  8192,  64,  8, 128, 29568,  152064,  32768, false, true,   72000)                     \
    X("phi-3-mini",       32,  3072,  32, 32,  96,  8192,   32064,   4096, false, false,   3800)

static const struct shape shapes[] = {
#define X(name_, layers_, hidden_, heads_, kv_, head_, ffn_, vocabulary_, context_, tied_, bias_, millions_)          \
    {.name = name_, .layers = layers_, .hidden = hidden_, .heads = heads_, .kv_heads = kv_, .head_dim = head_,        \
     .ffn = ffn_, .vocabulary = vocabulary_, .context_max = context_, .weight_bits = 16, .tied_embeddings = tied_,    \
     .qkv_bias = bias_, .parameters_nominal = UINT64_C(1000000) * millions_},
    SHAPES(X)
#undef X
    /* A 24B of which only the size is known; mistral-24b is a real one. */
    {.name = "24b-average", .layers = 40, .weight_bits = 16, .averaged = true, .averaged_sum = 13000,
     .parameters_nominal = UINT64_C(24000000000)},
};

const struct shape *shape_at(size_t index)
{
    return index < ARRAY_COUNT(shapes) ? &shapes[index] : NULL;
}

const struct shape *shape_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++)
        if (strcmp(shapes[i].name, name) == 0)
            return &shapes[i];
    return NULL;
}

struct shape shape_averaged(const char *name, uint32_t layers, uint32_t averaged_sum)
{
    struct shape shape = {.layers = layers, .weight_bits = 16, .averaged = true, .averaged_sum = averaged_sum};

    for (size_t i = 0; i + 1 < sizeof(shape.name) && name[i] != '\0'; i++)
        shape.name[i] = name[i];
    return shape;
}

/* X(field, most): what every shape must have, from 1. Far above any model, and low enough that the bytes of a million
 * adapters of rank 1024, or of ten thousand fine-tunes, stay below 2^63. */
#define DIMENSIONS(X)   \
    X(layers, 512)      \
    X(hidden, 131072)   \
    X(heads, 65536)     \
    X(kv_heads, 65536)  \
    X(head_dim, 65536)  \
    X(ffn, 1048576)     \
    X(vocabulary, 16777216)

enum status shape_validate(const struct shape *shape, const char **ret_field, const char **ret_rule)
{
#define RULE(field, holds, rule)      \
    do {                              \
        if (!(holds)) {               \
            *ret_field = field;       \
            *ret_rule = rule;         \
            return STATUS_INVALID;    \
        }                             \
    } while (0)
    RULE("weight_bits",
         shape->weight_bits == 4 || shape->weight_bits == 8 || shape->weight_bits == 16 || shape->weight_bits == 32,
         "must be 4, 8, 16 or 32");
    if (shape->averaged) {
        RULE("layers", shape->layers >= 1 && shape->layers <= 512, "must be from 1 to 512");
        RULE("averaged_sum", shape->averaged_sum >= 1 && shape->averaged_sum <= 524288, "must be from 1 to 524288");
        return STATUS_OK;
    }
#define X(field, most) RULE(#field, shape->field >= 1 && shape->field <= (most), "must be from 1 to " #most);
    DIMENSIONS(X)
#undef X
    RULE("kv_heads", shape->kv_heads <= shape->heads, "must not exceed heads");
    RULE("heads", shape->heads % shape->kv_heads == 0, "must be a multiple of kv_heads");
    RULE("head_dim", (uint64_t)shape->heads * shape->head_dim <= 262144, "times heads must not exceed 262144");
    RULE("context_max", shape->context_max <= 1073741824, "must not exceed 1073741824");
#undef RULE
    return STATUS_OK;
}
