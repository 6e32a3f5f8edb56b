/* Texts as dense numbers: open addressing with linear probing, doubled when half full. A cell knows where its text is, so a
 * lookup waits for memory twice, and a batch of them twice in all. */
#include "object_names.h"

#include <stdlib.h>

#include "base/hash.h"

#define COUNT_FIRST (UINT32_C(1) << 10)
#define COUNT_MAX (UINT32_C(1) << 30)
#define PLACE_LENGTHS (NAME_BYTES_MAX * 2)

const char *object_names_text(const struct object_names *names, uint32_t number, size_t *ret_length)
{
    size_t begin = number == 0 ? 0 : names->ends[number - 1];

    check(number < names->count);
    *ret_length = names->ends[number] - begin;
    return names->text + begin;
}

static struct name_cell *free_cell(struct name_cell *cells, uint32_t mask, uint32_t tag)
{
    uint32_t at = tag & mask;

    while (cells[at].number != NONE_INDEX)
        at = (at + 1) & mask;
    return &cells[at];
}

/* Twice as many cells and places. */
static bool grow(struct object_names *names)
{
    uint32_t count_max = names->count_max == 0 ? COUNT_FIRST : names->count_max * 2;
    uint32_t mask = count_max * 2 - 1;
    size_t *ends;
    struct name_cell *cells;

    if (names->count_max >= COUNT_MAX)
        return false;
    ends = realloc(names->ends, count_max * sizeof(*ends));
    if (ends == NULL)
        return false;
    names->ends = ends;
    cells = malloc(((size_t)mask + 1) * sizeof(*cells));
    if (cells == NULL)
        return false;
    memset(cells, 0xff, ((size_t)mask + 1) * sizeof(*cells));
    for (size_t i = 0; names->cells != NULL && i <= names->mask; i++)
        if (names->cells[i].number != NONE_INDEX)
            *free_cell(cells, mask, names->cells[i].tag) = names->cells[i];
    free(names->cells);
    names->cells = cells;
    names->mask = mask;
    names->count_max = count_max;
    return true;
}

static bool make_room(struct object_names *names, size_t length)
{
    size_t bytes = names->text_bytes == 0 ? 1 << 16 : names->text_bytes;
    char *text;

    while (bytes - names->text_used < length)
        bytes *= 2;
    if (bytes == names->text_bytes)
        return true;
    text = realloc(names->text, bytes);
    if (text == NULL)
        return false;
    names->text = text;
    names->text_bytes = bytes;
    return true;
}

static bool is_equal(const struct object_names *names, const struct name_cell *cell, const struct name_wanted *wanted)
{
    return cell->place % PLACE_LENGTHS == wanted->length &&
           memcmp(names->text + cell->place / PLACE_LENGTHS, wanted->text, wanted->length) == 0;
}

/* There is room for it. Returns its number. */
static uint32_t find_or_add(struct object_names *names, const struct name_wanted *wanted, uint32_t tag)
{
    uint32_t at = tag & names->mask;
    struct name_cell *cell;

    for (; (cell = &names->cells[at])->number != NONE_INDEX; at = (at + 1) & names->mask)
        if (cell->tag == tag && is_equal(names, cell, wanted))
            return cell->number;
    *cell = (struct name_cell){tag, names->count, names->text_used * PLACE_LENGTHS + wanted->length};
    memcpy(names->text + names->text_used, wanted->text, wanted->length);
    names->text_used += wanted->length;
    names->ends[names->count] = names->text_used;
    return names->count++;
}

enum status object_names_numbers(struct object_names *names, const struct name_wanted *wanted, uint32_t count, uint64_t first)
{
    uint32_t tags[NAMES_BATCH_MAX];

    check(count <= NAMES_BATCH_MAX);
    if (count == 0)
        return STATUS_OK;
    if ((names->count_max - names->count < count && !grow(names)) || !make_room(names, (size_t)count * NAME_BYTES_MAX))
        return STATUS_FULL;
    for (uint32_t i = 0; i < count; i++) {
        tags[i] = (uint32_t)hash_bytes(0, wanted[i].text, wanted[i].length);
        __builtin_prefetch(&names->cells[tags[i] & names->mask]);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct name_cell *cell = &names->cells[tags[i] & names->mask];

        if (cell->tag == tags[i] && cell->number != NONE_INDEX)
            __builtin_prefetch(names->text + cell->place / PLACE_LENGTHS);
    }
    for (uint32_t i = 0; i < count; i++)
        *wanted[i].ret_number = first + find_or_add(names, &wanted[i], tags[i]);
    return STATUS_OK;
}

void object_names_free(struct object_names *names)
{
    free(names->text);
    free(names->ends);
    free(names->cells);
    *names = (struct object_names){0};
}
