/* Texts as dense numbers: open addressing with linear probing, doubled when half full. */
#include "object_names.h"

#include <stdlib.h>

#include "base/hash.h"

enum { COUNT_FIRST = 1 << 10 };
#define COUNT_MAX (UINT32_C(1) << 30)

static size_t begin_of(const struct object_names *names, uint32_t number)
{
    return number == 0 ? 0 : names->ends[number - 1];
}

const char *object_names_text(const struct object_names *names, uint32_t number, size_t *ret_length)
{
    size_t begin = begin_of(names, number);

    check(number < names->count);
    *ret_length = names->ends[number] - begin;
    return names->text + begin;
}

static uint64_t hash_of(const char *text, size_t length)
{
    return hash_bytes(0, text, length);
}

static void place(struct name_cell *cells, uint32_t mask, uint64_t hash, uint32_t number)
{
    uint32_t at = (uint32_t)hash & mask;

    while (cells[at].number != NONE_INDEX)
        at = (at + 1) & mask;
    cells[at] = (struct name_cell){(uint32_t)(hash >> 32), number};
}

/* Room for one more: twice as many cells and places. */
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
    for (uint32_t i = 0; i < names->count; i++) {
        size_t length;
        const char *text = object_names_text(names, i, &length);

        place(cells, mask, hash_of(text, length), i);
    }
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

enum status object_names_number(struct object_names *names, const char *text, size_t length, uint32_t *ret_number)
{
    uint64_t hash = hash_of(text, length);
    const struct name_cell *cell;

    if (names->count == names->count_max && !grow(names))
        return STATUS_FULL;
    for (uint32_t at = (uint32_t)hash & names->mask; (cell = &names->cells[at])->number != NONE_INDEX; at = (at + 1) & names->mask) {
        size_t begin = begin_of(names, cell->number);

        if (cell->tag == hash >> 32 && names->ends[cell->number] - begin == length &&
            memcmp(names->text + begin, text, length) == 0) {
            *ret_number = cell->number;
            return STATUS_OK;
        }
    }
    if (!make_room(names, length))
        return STATUS_FULL;
    memcpy(names->text + names->text_used, text, length);
    names->text_used += length;
    names->ends[names->count] = names->text_used;
    place(names->cells, names->mask, hash, names->count);
    *ret_number = names->count++;
    return STATUS_OK;
}

void object_names_free(struct object_names *names)
{
    free(names->text);
    free(names->ends);
    free(names->cells);
    *names = (struct object_names){0};
}
