/* The free slots of a table, lowest first, so that tables stay as small as what is in flight: bits, and bits over words of
 * bits, up to 2^24 slots. */
#ifndef ENGINE_SLOTS_H
#define ENGINE_SLOTS_H

#include "base/base.h"

#define SLOTS_LEVELS 4

struct slots {
    uint64_t *free[SLOTS_LEVELS]; /* [0]: a bit a slot, 1 is free; [n + 1]: a bit a word of [n], 1 where it is not zero */
    uint32_t levels;
    uint32_t count_max;
    uint32_t taken;
};

/* Owns its memory; slots_free() accepts {0}. Out of memory stops the program. */
void slots_init(struct slots *slots, uint32_t count_max);
void slots_free(struct slots *slots);
/* The lowest free one; NONE_INDEX when all are taken. */
uint32_t slots_take(struct slots *slots);
/* The slot must be taken. */
void slots_give(struct slots *slots, uint32_t slot);

#endif
