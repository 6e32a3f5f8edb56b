#include "engine/slots.h"

#include <stdlib.h>

void slots_init(struct slots *slots, uint32_t count_max)
{
    uint32_t bits = count_max;

    check(count_max > 0 && count_max <= 1u << 24);
    *slots = (struct slots){.count_max = count_max};
    do {
        uint32_t words = (uint32_t)div_up_u64(bits, 64);
        uint64_t *level = calloc(words, sizeof(*level));

        check(level != NULL);
        for (uint32_t bit = 0; bit < bits; bit++)
            level[bit / 64] |= UINT64_C(1) << (bit % 64);
        slots->free[slots->levels++] = level;
        bits = words;
    } while (bits > 1);
}

void slots_free(struct slots *slots)
{
    for (uint32_t i = 0; i < slots->levels; i++)
        free(slots->free[i]);
    *slots = (struct slots){0};
}

uint32_t slots_take(struct slots *slots)
{
    uint32_t at = 0;

    for (uint32_t level = slots->levels; level-- > 0;) {
        uint64_t word = slots->free[level][at];

        if (word == 0)
            return NONE_INDEX;
        at = at * 64 + (uint32_t)__builtin_ctzll(word);
    }
    for (uint32_t level = 0, bit = at; level < slots->levels; level++, bit /= 64) {
        uint64_t *word = &slots->free[level][bit / 64];

        *word &= ~(UINT64_C(1) << (bit % 64));
        if (*word != 0)
            break;
    }
    slots->taken++;
    return at;
}

void slots_give(struct slots *slots, uint32_t slot)
{
    check(slot < slots->count_max);
    check((slots->free[0][slot / 64] >> (slot % 64) & 1) == 0);
    for (uint32_t level = 0, bit = slot; level < slots->levels; level++, bit /= 64)
        slots->free[level][bit / 64] |= UINT64_C(1) << (bit % 64);
    slots->taken--;
}
