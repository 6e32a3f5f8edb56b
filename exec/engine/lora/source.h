/* An adapter as its matrices: what a PEFT folder, a trainer or a test offers to be packed. */
#ifndef LORA_SOURCE_H
#define LORA_SOURCE_H

#include "engine/ops/values.h"

/* y += scale * B (A x); A [rank][in], B [out][rank], row-major, at any alignment. */
struct lora_pair {
    const void *a;      /* NULL: this module of this layer is not adapted */
    const void *b;
    enum dtype a_dtype;
    enum dtype b_dtype;
    int32_t rank;       /* 1 .. the source's */
    float scale;        /* alpha / r, or alpha / sqrt(r) */
};

struct lora_source {
    int32_t layers;
    int32_t rank;       /* the largest of its pairs' */
    uint32_t modules;   /* bits of enum lora_module: adapted in some layer */
    const struct lora_pair *pair; /* [layers][LORA_MODULE_COUNT] */
};

static inline const struct lora_pair *lora_source_pair(const struct lora_source *source, int32_t layer, enum lora_module module)
{
    return &source->pair[(size_t)layer * LORA_MODULE_COUNT + module];
}

/* Rank as it is packed: the next multiple of LORA_RANK_STEP. */
static inline int32_t lora_rank_padded(int32_t rank)
{
    return (rank + LORA_RANK_STEP - 1) / LORA_RANK_STEP * LORA_RANK_STEP;
}

#endif
