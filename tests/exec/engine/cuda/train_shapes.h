/* The worlds in which the ops of training are tried: sequences from position 0, several of an adapter, more rows of one than a piece of
 * TRAIN_ROWS, adapters that lack modules, rows of the base, widths that are no multiple of anything. */
#ifndef CUDA_TESTS_TRAIN_SHAPES_H
#define CUDA_TESTS_TRAIN_SHAPES_H

#include "shapes.h"

static const struct { const char *name; struct world_ask ask; } train_shapes[] = {
    {"one row", {.trains = true, .dims = DIMS_8, .sequences = 1, .sequence = {{1, 0, 0}}, .slots = 1, .slot = {{4, MODULES_ALL}}}},
    {"a sample and a half of an adapter", {.trains = true, .dims = DIMS_8, .sequences = 3,
     .sequence = {{97, 0, 0}, {16, 0, 0}, {5, 0, SEGMENT_NONE}}, .slots = 1, .slot = {{16, MODULES_ALL}}, .rows_spare = 3}},
    {"three adapters, ranks 3, 16 and 20, one lacks k, one is q and down alone", {.trains = true, .dims = DIMS_64, .sequences = 5,
     .sequence = {{40, 0, 0}, {27, 0, 0}, {3, 0, 1}, {80, 0, 2}, {9, 0, SEGMENT_NONE}}, .slots = 3,
     .slot = {{3, MODULES_ALL & ~(1u << LORA_K)}, {16, 1u << LORA_Q | 1u << LORA_DOWN}, {20, MODULES_ALL}}, .rows_spare = 7, .bias = true}},
    {"eight queries a key, a head of 128", {.trains = true, .dims = DIMS_128, .sequences = 3, .sequence = {{70, 0, 0}, {1, 0, 1}, {33, 0, 1}},
     .slots = 2, .slot = {{64, MODULES_ALL}, {8, MODULES_ALL}}, .rows_spare = 1}},
    {"a head of 20", {.trains = true, .dims = DIMS_20, .sequences = 3, .sequence = {{5, 0, 1}, {40, 0, 1}, {150, 0, 0}}, .slots = 2,
     .slot = {{16, MODULES_ALL}, {32, MODULES_ALL}}}},
    {"the base alone", {.trains = true, .dims = DIMS_8, .sequences = 2, .sequence = {{20, 0, SEGMENT_NONE}, {2, 0, SEGMENT_NONE}}}},
    {"nobody", {.trains = true, .dims = DIMS_8, .sequences = 0}},
};

#endif
