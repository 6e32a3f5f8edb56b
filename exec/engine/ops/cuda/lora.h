/* Where the parts of an adapter and of a batch are that a kernel's block works on. */
#ifndef CUDA_LORA_H
#define CUDA_LORA_H

#include "engine/ops/cuda/cuda_ops.h"

#define LORA_THREADS 128
#define SHRINK_K_LEAST 512

/* How large the pieces of a packed adapter are; their order is that of values.h. */
struct lora_sizes {
    int32_t in[LORA_GROUP_COUNT], out[LORA_MODULE_COUNT];
    int32_t layers, number_bytes;
};

struct lora_work {
    struct lora_sizes sizes;
    const void *pool;
    const struct lora_slot *slot;
    const struct segment *segment;
    const struct tile *tile;
    const struct counts *now;
    int32_t layer, group, in;
    int32_t splits_max;          /* of any k: 1 in exact */
    int32_t splits, split_k;     /* of `in` */
    int32_t u_width;             /* of a row of u */
    int64_t u_rows;              /* of a split of u */
    int32_t rank_max;
    int32_t first, modules;      /* of the group */
};

/* One block's tile and its adapter. */
struct lora_place {
    struct tile tile;
    int32_t rank, present;       /* modules of the group that are there */
    uint32_t modules;
    const char *layer;           /* where the layer's pieces begin */
};

/* One module of the group: its columns of y (and of dy), and of u. */
struct lora_column { int32_t module, y, u; };

/* How k is cut, by its length alone. */
static __host__ __device__ __forceinline__ int split_k_of(int k, int splits_max)
{
    int piece = ((k + splits_max - 1) / splits_max + 63) / 64 * 64;

    return piece > SHRINK_K_LEAST ? piece : SHRINK_K_LEAST;
}

DEVICE int64_t piece_bytes(int64_t numbers, int number_bytes)
{
    return (numbers * number_bytes + 63) / 64 * 64;
}

DEVICE int group_of(int module)
{
    return module <= LORA_V ? LORA_GROUP_QKV : module == LORA_O ? LORA_GROUP_O : module <= LORA_UP ? LORA_GROUP_GATE_UP : LORA_GROUP_DOWN;
}

/* Bytes from a layer's start to B of `module` (LORA_MODULE_COUNT: to the layer's end), or to A of its group. */
DEVICE int64_t piece_at(const struct lora_sizes &sizes, int rank, uint32_t modules, int module, bool want_a)
{
    int64_t at = 0;
    int wanted = module < LORA_MODULE_COUNT ? group_of(module) : LORA_GROUP_COUNT;

    UNROLL
    for (int group = 0; group < LORA_GROUP_COUNT; group++) {
        int present = 0;

        UNROLL
        for (int each = 0; each < LORA_MODULE_COUNT; each++)
            present += group_of(each) == group ? (int)(modules >> each & 1) : 0;
        if (group < wanted || (group == wanted && !want_a))
            at += piece_bytes((int64_t)present * rank * sizes.in[group], sizes.number_bytes);
        UNROLL
        for (int each = 0; each < LORA_MODULE_COUNT; each++) {
            if (group_of(each) == group && (group < wanted || (group == wanted && !want_a && each < module)) && (modules >> each & 1))
                at += piece_bytes((int64_t)sizes.out[each] * rank, sizes.number_bytes);
        }
    }
    return at;
}

/* False when nobody is there, or nothing for this group. */
DEVICE bool lora_adapter(const struct lora_work &work, int slot, struct lora_place *ret_place)
{
    if (slot == SEGMENT_NONE)
        return false;
    ret_place->rank = work.slot[slot].rank;
    ret_place->modules = work.slot[slot].modules;
    ret_place->present = __popc(ret_place->modules >> work.first & ((1u << work.modules) - 1));
    if (ret_place->rank == 0 || ret_place->present == 0)
        return false;

    int64_t layer = piece_at(work.sizes, ret_place->rank, ret_place->modules, LORA_MODULE_COUNT, false);
    ret_place->layer = static_cast<const char *>(work.pool) + work.slot[slot].offset + layer * work.layer;
    return true;
}

/* The same of a tile. */
DEVICE bool lora_find(const struct lora_work &work, int index, struct lora_place *ret_place)
{
    if (index >= work.now->tiles)
        return false;
    ret_place->tile = work.tile[index];
    return ret_place->tile.rows > 0 && lora_adapter(work, work.segment[ret_place->tile.segment].slot, ret_place);
}

/* The group's module number `index`; false when the adapter lacks it. */
DEVICE bool lora_column_of(const struct lora_work &work, const struct lora_place &place, int index, struct lora_column *ret_column)
{
    *ret_column = {work.first + index, 0, __popc(place.modules >> work.first & ((1u << index) - 1)) * place.rank};
    for (int module = work.first; module < ret_column->module; module++)
        ret_column->y += work.sizes.out[module];
    return (place.modules >> ret_column->module & 1) != 0;
}

struct lora_work cuda_lora_work(const struct dev *dev, const struct lora *lora, const struct batch *batch);

#endif
