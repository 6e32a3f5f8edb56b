#include "validate/twins.h"

#include <stdlib.h>

#define CAPACITY_FIRST 1024u
#define STEPS_MAX 1024u /* chance makes runs of some tens in a table that is half full; a stranger may make longer ones */

/* The entry of this hash, or the empty one where it would stand; NULL: neither is near. */
static struct twin *place(const struct twins *twins, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & (twins->capacity - 1);

    for (uint32_t steps = 0; steps < STEPS_MAX; steps++) {
        if (twins->entries[at].line == 0 || twins->entries[at].hash == hash)
            return &twins->entries[at];
        at = (at + 1) & (twins->capacity - 1);
    }
    return NULL;
}

const struct twin *twins_find(const struct twins *twins, uint64_t hash)
{
    const struct twin *twin = twins->capacity > 0 ? place(twins, hash) : NULL;

    return twin != NULL && twin->line != 0 ? twin : NULL;
}

static void grow(struct twins *twins)
{
    const struct twins old = *twins;

    twins->capacity = old.capacity == 0 ? CAPACITY_FIRST : 2 * old.capacity;
    twins->entries = calloc(twins->capacity, sizeof(*twins->entries));
    check(twins->entries != NULL);
    for (uint32_t i = 0; i < old.capacity; i++) {
        struct twin *twin = old.entries[i].line != 0 ? place(twins, old.entries[i].hash) : NULL;

        if (twin != NULL)
            *twin = old.entries[i];
    }
    free(old.entries);
}

bool twins_add(struct twins *twins, uint64_t hash, uint32_t other, int32_t line)
{
    struct twin *twin;

    check(line > 0);
    if (twins->count == twins->count_max)
        return false;
    if (2 * (twins->count + 1) > twins->capacity)
        grow(twins);
    twin = place(twins, hash);
    if (twin == NULL)
        return false;
    check(twin->line == 0);
    *twin = (struct twin){.hash = hash, .other = other, .line = line};
    twins->count++;
    return true;
}

void twins_free(struct twins *twins)
{
    free(twins->entries);
    *twins = (struct twins){0};
}
