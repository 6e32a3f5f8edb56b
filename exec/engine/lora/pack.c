#include "engine/lora/pack.h"

#define PIECE 1024

static void widen(enum dtype dtype, const void *data, size_t first, size_t count, float *ret_values)
{
    const char *at = (const char *)data + first * dtype_bytes(dtype);
    uint16_t half[PIECE];

    check(count <= PIECE);
    if (dtype == DTYPE_F32) {
        memcpy(ret_values, at, count * sizeof(float));
        return;
    }
    memcpy(half, at, count * sizeof(half[0]));
    if (dtype == DTYPE_BF16)
        for (size_t i = 0; i < count; i++)
            ret_values[i] = bf16_widen(half[i]);
    else
        for (size_t i = 0; i < count; i++)
            ret_values[i] = f16_widen(half[i]);
}

/* to: f32 in exact, bf16 in fast; values side by side. */
static void store(enum mode mode, const float *values, size_t count, char *to)
{
    uint16_t half[PIECE];

    if (mode == MODE_EXACT) {
        memcpy(to, values, count * sizeof(float));
        return;
    }
    for (size_t i = 0; i < count; i++)
        half[i] = bf16_round(values[i]);
    memcpy(to, half, count * sizeof(half[0]));
}

/* Rows of A, which are [in] before and after. */
static void pack_a(const struct lora_pair *pair, int32_t in, enum mode mode, char *to)
{
    const size_t count = (size_t)pair->rank * (size_t)in;
    float values[PIECE];

    for (size_t at = 0; at < count; at += PIECE) {
        size_t piece = count - at < PIECE ? count - at : PIECE;

        widen(pair->a_dtype, pair->a, at, piece, values);
        store(mode, values, piece, to + at * act_bytes(mode));
    }
}

/* A row of B goes to a row of the padded rank, or to one column of pairs. */
static void pack_b(const struct lora_pair *pair, int32_t out, int32_t padded, enum mode mode, bool pairs, char *to)
{
    const size_t size = act_bytes(mode);
    float values[PIECE];

    for (int32_t row = 0; row < out; row++) {
        widen(pair->b_dtype, pair->b, (size_t)row * (size_t)pair->rank, (size_t)pair->rank, values);
        for (int32_t k = 0; k < pair->rank; k++)
            values[k] *= pair->scale;
        if (!pairs) {
            store(mode, values, (size_t)pair->rank, to + (size_t)row * (size_t)padded * size);
            continue;
        }
        for (int32_t k = 0; k < pair->rank; k++) {
            uint16_t half = bf16_round(values[k]);

            memcpy(to + ((size_t)(k / 2) * (size_t)out * 2 + (size_t)row * 2 + (size_t)(k % 2)) * 2, &half, sizeof(half));
        }
    }
}

int64_t lora_pack_bytes(const struct lora_source *source, const struct dims *dims, enum mode mode)
{
    return lora_packed_bytes(dims, mode, lora_rank_padded(source->rank), source->modules);
}

void lora_pack(const struct lora_source *source, const struct dims *dims, enum mode mode, bool b_in_pairs, void *ret_blob)
{
    const int32_t padded = lora_rank_padded(source->rank);
    struct lora_layout layout;
    int64_t layer_bytes = lora_layout_of(dims, mode, padded, source->modules, &layout);

    check(source->layers == dims->layers);
    check(source->rank >= 1 && source->rank <= LORA_RANK_MAX);
    memset(ret_blob, 0, (size_t)(dims->layers * layer_bytes));
    for (int32_t layer = 0; layer < dims->layers; layer++) {
        char *base = (char *)ret_blob + layer * layer_bytes;
        int64_t stacked = 0; /* matrices of A of this group so far */

        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++) {
            const struct lora_pair *pair = lora_source_pair(source, layer, module);
            enum lora_group group = lora_group_of(module);
            int32_t in = lora_module_in(dims, module);

            if (module > 0 && lora_group_of((enum lora_module)(module - 1)) != group)
                stacked = 0;
            if ((source->modules >> module & 1) == 0) {
                check(pair->a == NULL);
                continue;
            }
            if (pair->a != NULL) {
                check(pair->rank >= 1 && pair->rank <= source->rank);
                pack_a(pair, in, mode, base + layout.a[group] + stacked * padded * in * (int64_t)act_bytes(mode));
                pack_b(pair, lora_module_out(dims, module), padded, mode, b_in_pairs && mode == MODE_FAST, base + layout.b[module]);
            }
            stacked++;
        }
    }
}
