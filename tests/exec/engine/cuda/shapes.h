/* The worlds in which kernels are tried: head sizes 8, 64 and 128, 1, 4 and 8 query heads a kv head, 1 to 65 and more
 * rows, ranks 4 to 64, widths that are no multiple of 64, of 8, of anything. */
#ifndef CUDA_TESTS_SHAPES_H
#define CUDA_TESTS_SHAPES_H

#include "world.h"

#define MODULES_ALL 0x7fu

/* head 8, 4 queries a kv head, the widths of a small model that fits nothing */
#define DIMS_8 {.hidden = 60, .heads = 4, .kv_heads = 1, .head_dim = 8, .ffn = 172, .vocabulary = 301, .layers = 2}
/* head 64, no sharing */
#define DIMS_64 {.hidden = 200, .heads = 2, .kv_heads = 2, .head_dim = 64, .ffn = 136, .vocabulary = 130, .layers = 2}
/* head 128, 8 queries a kv head; o has k in two pieces */
#define DIMS_128 {.hidden = 72, .heads = 8, .kv_heads = 1, .head_dim = 128, .ffn = 72, .vocabulary = 67, .layers = 2}
/* a head size that only the simple kernel takes */
#define DIMS_20 {.hidden = 32, .heads = 3, .kv_heads = 1, .head_dim = 20, .ffn = 48, .vocabulary = 7, .layers = 2}

static const struct { const char *name; struct world_ask ask; } shapes[] = {
    {"one base row", {.dims = DIMS_8, .sequences = 1, .sequence = {{1, 0, SEGMENT_NONE}}}},
    {"one row of rank 4", {.dims = DIMS_8, .sequences = 1, .sequence = {{1, 20, 0}}, .slots = 1, .slot = {{4, MODULES_ALL}}}},
    {"15 rows, a prompt, rank 8, q and down alone", {.dims = DIMS_64, .sequences = 2, .sequence = {{14, 0, 1}, {1, 33, SEGMENT_NONE}},
     .slots = 2, .slot = {{16, MODULES_ALL}, {8, 1u << LORA_Q | 1u << LORA_DOWN}}, .bias = true}},
    {"16 rows, decode, three adapters, one empty", {.dims = DIMS_8, .sequences = 16, .sequence = {
     {1, 0, 0}, {1, 15, 0}, {1, 16, 0}, {1, 31, 1}, {1, 5, 1}, {1, 7, 2}, {1, 90, 2}, {1, 9, 2}, {1, 1, SEGMENT_NONE}, {1, 2, SEGMENT_NONE},
     {1, 3, SEGMENT_NONE}, {1, 4, SEGMENT_NONE}, {1, 5, SEGMENT_NONE}, {1, 6, SEGMENT_NONE}, {1, 7, SEGMENT_NONE}, {1, 8, SEGMENT_NONE}},
     .slots = 3, .slot = {{16, MODULES_ALL}, {0, 0}, {64, 1u << LORA_K | 1u << LORA_V | 1u << LORA_O | 1u << LORA_UP}}, .rows_spare = 3}},
    {"17 rows of one adapter of rank 64, long", {.dims = DIMS_128, .sequences = 2, .sequence = {{16, 0, 0}, {1, 1030, 0}}, .slots = 1,
     .slot = {{64, MODULES_ALL}}}},
    {"65 rows, prompts and decode, mixed adapters", {.dims = DIMS_64, .sequences = 6, .sequence = {
     {40, 0, 0}, {0, 5, 0}, {1, 17, 1}, {17, 30, 1}, {1, 600, SEGMENT_NONE}, {6, 3, SEGMENT_NONE}},
     .slots = 2, .slot = {{8, MODULES_ALL}, {80, MODULES_ALL & ~(1u << LORA_V)}}, .rows_spare = 5}},
    {"65 rows of one prompt", {.dims = DIMS_8, .sequences = 1, .sequence = {{65, 0, 0}}, .slots = 1, .slot = {{16, MODULES_ALL}}}},
    {"a head of 20", {.dims = DIMS_20, .sequences = 3, .sequence = {{5, 0, 0}, {1, 40, 0}, {1, 0, SEGMENT_NONE}}, .slots = 1,
     .slot = {{16, MODULES_ALL}}}},
    {"300 rows, tiles of 64", {.dims = DIMS_20, .sequences = 3, .sequence = {{150, 0, 0}, {100, 0, 1}, {50, 10, SEGMENT_NONE}}, .slots = 2,
     .slot = {{16, MODULES_ALL}, {32, MODULES_ALL}}}},
    {"nobody", {.dims = DIMS_8, .sequences = 0}},
};

#endif
