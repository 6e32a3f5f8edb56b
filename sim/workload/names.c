#include "workload/names.h"

#include <stdlib.h>

#include "base/hash.h"

void names_close(struct names *names)
{
    free(names->texts);
    free(names->table_memory);
    *names = (struct names){0};
}

/* The number of `name`, or NONE_INDEX and the key to give it. Two names of one hash take keys in a row. */
static uint32_t find(const struct names *names, const char *name, uint64_t *ret_key)
{
    uint64_t key = hash_bytes(0, name, strlen(name));

    for (;;) {
        uint32_t number = names->room > 0 ? table_find(&names->table, key) : NONE_INDEX;

        if (number == NONE_INDEX || strcmp(names->texts[number], name) == 0) {
            *ret_key = key;
            return number;
        }
        key++;
    }
}

static void insert(struct names *names, uint32_t number)
{
    uint64_t key;

    check(find(names, names->texts[number], &key) == NONE_INDEX);
    table_insert(&names->table, key, number);
}

/* Twice the room: the table is built anew, in the same order and so with the same keys. */
static enum status grow(struct names *names)
{
    uint32_t room = names->room > 0 ? names->room * 2 : 1024;
    void *texts = realloc(names->texts, (size_t)room * sizeof(*names->texts));
    void *table_memory;

    if (texts == NULL)
        return STATUS_FULL;
    names->texts = texts;
    table_memory = malloc(table_bytes(room));
    if (table_memory == NULL)
        return STATUS_FULL;
    free(names->table_memory);
    names->table_memory = table_memory;
    names->room = room;
    table_init(&names->table, table_memory, room);
    for (uint32_t i = 0; i < names->count; i++)
        insert(names, i);
    return STATUS_OK;
}

enum status names_number(struct names *names, const char *name, uint32_t *ret_number)
{
    uint64_t key;
    uint32_t number = find(names, name, &key);

    check(strlen(name) < TRACE_ID_MAX);
    if (number == NONE_INDEX) {
        if (names->count == NAMES_MAX || (names->count == names->room && grow(names) != STATUS_OK))
            return STATUS_FULL;
        number = names->count++;
        strcpy(names->texts[number], name);
        table_insert(&names->table, key, number);
    }
    *ret_number = number;
    return STATUS_OK;
}
