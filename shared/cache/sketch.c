#include "cache/sketch.h"

#include "base/hash.h"

#define LINE_WORDS 8u
#define LINE_BYTES 64u
#define ENTRIES_PER_LINE 4u
#define ROWS 4u
#define BLOOM_BITS 4u
#define HALF_MASK UINT64_C(0x7777777777777777)

static uint64_t lines_for(uint32_t entries_max)
{
    uint64_t lines = SKETCH_ENTRIES_MIN / ENTRIES_PER_LINE;

    while (lines * ENTRIES_PER_LINE < entries_max)
        lines *= 2;
    return lines;
}

/* A hash's low bits choose the line: lines of the larger whose numbers agree in the smaller's bits are copies of one. */
static void lines_copy(uint64_t *to, uint64_t to_lines, const uint64_t *from, uint64_t from_lines)
{
    check(to_lines >= from_lines);
    for (uint64_t line = 0; line < to_lines; line++)
        memcpy(to + line * LINE_WORDS, from + (line & (from_lines - 1)) * LINE_WORDS, LINE_BYTES);
}

/* --- counts --- */

size_t sketch_bytes(uint32_t entries_max)
{
    return sizeof(struct sketch) + lines_for(entries_max) * LINE_BYTES;
}

void sketch_begin(struct sketch *sketch, uint32_t entries_max)
{
    sketch->lines = lines_for(entries_max);
}

void sketch_grow(struct sketch *sketch, uint32_t entries_max, const struct sketch *old)
{
    sketch_begin(sketch, entries_max);
    sketch->additions = old->additions;
    lines_copy(sketch->words, sketch->lines, old->words, old->lines);
}

/* A name has a counter in each pair of words of its line: which of 32 say five bits of the hash, from the top. */
struct place {
    uint32_t word;
    uint32_t shift;
};

static struct place place_of(uint64_t hash, uint32_t row)
{
    const uint32_t bits = (uint32_t)(hash >> (59 - 5 * row)) & 31;

    return (struct place){2 * row + (bits >> 4), 4 * (bits & 15)};
}

static uint32_t least(const uint64_t *line, uint64_t hash)
{
    uint32_t least = SKETCH_MAX;

    for (uint32_t row = 0; row < ROWS; row++) {
        const struct place place = place_of(hash, row);

        least = min_u32(least, (uint32_t)(line[place.word] >> place.shift) & SKETCH_MAX);
    }
    return least;
}

uint32_t sketch_estimate(const struct sketch *sketch, uint64_t name)
{
    const uint64_t hash = hash_mix(name);

    return least(sketch->words + (hash & (sketch->lines - 1)) * LINE_WORDS, hash);
}

static void halve(struct sketch *sketch)
{
    for (uint64_t i = 0; i < sketch->lines * LINE_WORDS; i++)
        sketch->words[i] = (sketch->words[i] >> 1) & HALF_MASK;
    sketch->additions /= 2;
}

/* Only the least of its counters grow: the others count others too. */
void sketch_add(struct sketch *sketch, uint64_t name, uint64_t period)
{
    const uint64_t hash = hash_mix(name);
    uint64_t *line = sketch->words + (hash & (sketch->lines - 1)) * LINE_WORDS;
    const uint32_t before = least(line, hash);

    for (uint32_t row = 0; row < ROWS && before < SKETCH_MAX; row++) {
        const struct place place = place_of(hash, row);
        const bool grows = ((line[place.word] >> place.shift) & SKETCH_MAX) == before;

        line[place.word] += (uint64_t)grows << place.shift;
    }
    if (++sketch->additions >= period)
        halve(sketch);
}

/* --- names --- */

size_t bloom_bytes(uint32_t entries_max)
{
    return sizeof(struct bloom) + 2 * lines_for(entries_max) * LINE_BYTES;
}

void bloom_begin(struct bloom *bloom, uint32_t entries_max)
{
    bloom->lines = lines_for(entries_max);
}

static uint64_t *half_of(struct bloom *bloom, uint64_t half)
{
    return bloom->words + half * bloom->lines * LINE_WORDS;
}

void bloom_grow(struct bloom *bloom, uint32_t entries_max, const struct bloom *old)
{
    bloom_begin(bloom, entries_max);
    bloom->names = old->names;
    bloom->newer = old->newer;
    bloom->seen = old->seen;
    for (uint64_t half = 0; half < 2; half++)
        lines_copy(half_of(bloom, half), bloom->lines, old->words + half * old->lines * LINE_WORDS, old->lines);
}

/* Four of the line's 512 bits, nine bits of the hash each, from the top. Two lines, one in each half. */
bool bloom_add(struct bloom *bloom, uint64_t name, uint64_t turn)
{
    const uint64_t hash = hash_mix(name);
    const uint64_t line = (hash & (bloom->lines - 1)) * LINE_WORDS;
    uint64_t *newer = half_of(bloom, bloom->newer) + line;
    const uint64_t *older = half_of(bloom, 1 - bloom->newer) + line;
    bool in_newer = true;
    bool in_older = true;

    for (uint32_t row = 0; row < BLOOM_BITS; row++) {
        const uint32_t bits = (uint32_t)(hash >> (55 - 9 * row)) & 511;
        const uint64_t bit = UINT64_C(1) << (bits & 63);

        in_newer = in_newer && (newer[bits >> 6] & bit) != 0;
        in_older = in_older && (older[bits >> 6] & bit) != 0;
        newer[bits >> 6] |= bit;
    }
    if (!in_newer && ++bloom->names >= turn) {
        bloom->newer = 1 - bloom->newer;
        bloom->names = 0;
        memset(half_of(bloom, bloom->newer), 0, bloom->lines * LINE_BYTES);
    }
    bloom->seen = in_newer || in_older;
    return bloom->seen;
}
