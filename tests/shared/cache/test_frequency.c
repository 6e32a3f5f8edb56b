/* W-TinyLFU against its naive twin. */
#include "cache/sketch.h"
#include "host.h"
#include "support.h"

#include <stdlib.h>

/* --- W-TinyLFU --- */

enum { WINDOW, PROBATION, PROTECTED };
enum { PART, RANK }; /* of an object's own[]: its list, and where in it: the larger, the nearer to the head */

struct wtinylfu {
    uint64_t rank;
    _Alignas(64) unsigned char sketch[2048];
};

static void twin_count(struct host *host, uint64_t name)
{
    struct wtinylfu *own = host->own;
    struct sketch *sketch = (struct sketch *)own->sketch;
    const uint32_t entries = host->places > host->view.entries_max / 16 ? host->places : host->view.entries_max / 16;

    assert_int_equal(sketch_bytes(host->view.entries_max), sketch_bytes(SKETCH_ENTRIES_MIN));
    sketch_begin(sketch, SKETCH_ENTRIES_MIN); /* all that the host's caches need */
    sketch_add(sketch, name, 32 * (entries > 0 ? entries : 1));
}

static uint32_t twin_frequency(const struct host *host, uint32_t at)
{
    const struct wtinylfu *own = host->own;

    return sketch_estimate((const struct sketch *)own->sketch, host->objects[at].name);
}

static void put(struct host *host, uint32_t at, uint64_t part)
{
    struct wtinylfu *own = host->own;

    host->objects[at].own[PART] = part;
    host->objects[at].own[RANK] = ++own->rank;
}

static uint64_t part_size(const struct host *host, uint64_t part)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < host->count; i++)
        size += host->objects[i].own[PART] == part ? host->objects[i].size : 0;
    return size;
}

static uint32_t part_tail(const struct host *host, uint64_t part, bool pinned_too, uint64_t above)
{
    uint32_t tail = NONE_INDEX;

    for (uint32_t i = 0; i < host->count; i++)
        if (host->objects[i].own[PART] == part && (pinned_too || !host->objects[i].pinned) && host->objects[i].own[RANK] > above &&
            (tail == NONE_INDEX || host->objects[i].own[RANK] < host->objects[tail].own[RANK]))
            tail = i;
    return tail;
}

static uint64_t window_of(const struct host *host) { return host->capacity >= 200 ? host->capacity / 100 : 1; }
static uint64_t main_of(const struct host *host) { return host->capacity - window_of(host); }

static uint32_t part_count(const struct host *host, uint64_t part)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < host->count; i++)
        count += host->objects[i].own[PART] == part;
    return count;
}

static void wtinylfu_miss(struct host *host, uint64_t name, uint64_t size)
{
    (void)size;
    twin_count(host, name);
}

static void wtinylfu_come(struct host *host, uint32_t at)
{
    put(host, at, WINDOW);
    while (part_size(host, WINDOW) > window_of(host) && part_count(host, WINDOW) > 1)
        put(host, part_tail(host, WINDOW, true, 0), PROBATION);
}

static void wtinylfu_use(struct host *host, uint32_t at)
{
    twin_count(host, host->objects[at].name);
    put(host, at, host->objects[at].own[PART] == WINDOW ? WINDOW : PROTECTED);
    while (part_size(host, PROTECTED) > main_of(host) * 80 / 100 && part_count(host, PROTECTED) > 1)
        put(host, part_tail(host, PROTECTED, true, 0), PROBATION);
}

/* The sum of the frequencies of those that would have to leave the main part for `room`; more than any where there are not enough. */
static uint32_t in_the_way(const struct host *host, uint64_t room)
{
    uint32_t sum = 0;
    uint64_t freed = 0;

    for (uint64_t part = PROBATION; part <= PROTECTED; part++)
        for (uint32_t at = part_tail(host, part, false, 0); at != NONE_INDEX && freed < room;
             at = part_tail(host, part, false, host->objects[at].own[RANK])) {
            sum += twin_frequency(host, at);
            freed += host->objects[at].size;
        }
    return freed < room ? UINT32_MAX : sum;
}

static uint32_t wtinylfu_victim(struct host *host)
{
    for (;;) {
        const uint32_t candidate = part_tail(host, WINDOW, false, 0);
        const uint64_t main = part_size(host, PROBATION) + part_size(host, PROTECTED);
        uint32_t victim = part_tail(host, PROBATION, false, 0);

        if (victim == NONE_INDEX)
            victim = part_tail(host, PROTECTED, false, 0);
        if (candidate == NONE_INDEX ||
            (victim != NONE_INDEX && part_size(host, WINDOW) + host->asked_size <= window_of(host)))
            return victim;
        if (main + host->objects[candidate].size <= main_of(host)) {
            put(host, candidate, PROBATION);
            continue;
        }
        if (twin_frequency(host, candidate) <= in_the_way(host, main + host->objects[candidate].size - main_of(host)))
            return candidate;
        put(host, candidate, PROBATION);
        return victim;
    }
}

static void wtinylfu_is_its_twin(void **state)
{
    (void)state;
    host_compare_all(&(struct host_twin){.policy = &evict_wtinylfu,
                                         .own_bytes = sizeof(struct wtinylfu),
                                         .miss = wtinylfu_miss,
                                         .come = wtinylfu_come,
                                         .use = wtinylfu_use,
                                         .victim = wtinylfu_victim});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wtinylfu_is_its_twin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
