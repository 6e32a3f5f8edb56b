#include "restored.h"

#include <stdio.h>
#include <stdlib.h>

#include "support.h"

static void tell(void *context, const struct fleet_event *event)
{
    struct restored *restored = context;

    fleet_step(restored->fleet, event, &restored->said);
    if (event->kind != FLEET_EVENT_RESTORE_DONE) {
        assert_int_equal(restored->said.count, 0);
        assert_true(fleet_wakeup_at_ns(restored->fleet) == NEVER_NS);
    }
    fleet_check(restored->fleet);
}

void restored_open(struct restored *restored, struct fleet *from, const struct fleet_config *config)
{
    size_t bytes = fleet_bytes(config);

    restored->memory = aligned_alloc(16, (bytes + 15) & ~(size_t)15);
    assert_non_null(restored->memory);
    restored->fleet = fleet_create(restored->memory, bytes, config);
    restored->exported = fleet_export(from, tell, restored);
}

void restored_close(struct restored *restored)
{
    free(restored->memory);
    restored->memory = NULL;
}

static void nothing(void *context, const struct fleet_event *event)
{
    (void)context;
    (void)event;
}

uint32_t restored_plans(struct fleet *fleet)
{
    return fleet_export(fleet, nothing, NULL).plans;
}

struct kept {
    struct fleet_event *events;
    uint32_t count;
};

static void keep(void *context, const struct fleet_event *event)
{
    struct kept *kept = context;

    if ((kept->count & (kept->count + 1)) == 0) {
        kept->events = realloc(kept->events, (size_t)(2 * kept->count + 2) * sizeof(*event));
        assert_non_null(kept->events);
    }
    kept->events[kept->count++] = *event;
}

/* The first word that is not the same, and of what event; false: none. */
static bool differ(const struct fleet_event *one, const struct fleet_event *other, char *ret_text, size_t bytes)
{
    if (memcmp(one, other, sizeof(*one)) == 0)
        return false;
    for (uint32_t i = 0; i < ARRAY_COUNT(one->word); i++)
        if (one->word[i] != other->word[i]) {
            snprintf(ret_text, bytes, "event kind %u, word %u: %llx, restored %llx", one->kind, i, (unsigned long long)one->word[i],
                     (unsigned long long)other->word[i]);
            return true;
        }
    snprintf(ret_text, bytes, "event kind %u, restored kind %u: the heads differ", one->kind, other->kind);
    return true;
}

bool restored_differs(struct fleet *one, struct fleet *other, char *ret_text, size_t bytes)
{
    struct kept first = {0};
    struct kept second = {0};
    bool differs;

    (void)fleet_export(one, keep, &first);
    (void)fleet_export(other, keep, &second);
    differs = first.count != second.count;
    if (differs)
        snprintf(ret_text, bytes, "%u events are told, restored %u", first.count, second.count);
    for (uint32_t i = 0; !differs && i < first.count; i++)
        differs = differ(&first.events[i], &second.events[i], ret_text, bytes);
    free(first.events);
    free(second.events);
    return differs;
}
