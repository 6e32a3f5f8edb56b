#include "host.h"

#include "support.h"

#include <stdlib.h>

/* A history to come, so that it is known what will be asked for again. */
struct course {
    const struct host_plan *plan;
    const struct host_twin *twin;
    uint8_t *names;  /* [turns] */
    uint64_t *next;  /* [turns], from 1 on as `now` counts; NONE_USE */
    uint64_t random;
    uint32_t turn;
    uint64_t evictions, hits;
    void *memory;
};

static uint64_t size_of(const struct course *course, uint64_t name)
{
    if (!course->plan->bytes)
        return 1;
    if (name % 13 == 12)
        return course->plan->capacity + 1;
    return name == 7 ? 0 : 1 + name * 7 % 40;
}

static void draw_course(struct course *course)
{
    const uint32_t turns = course->plan->turns;
    uint64_t last[HOST_NAMES];

    for (uint32_t i = 0; i < turns; i++)
        course->names[i] = (uint8_t)draw_below(&course->random, 1 + draw_below(&course->random, HOST_NAMES));
    for (uint32_t i = 0; i < HOST_NAMES; i++)
        last[i] = NONE_USE;
    for (uint32_t i = turns; i-- > 0;) {
        course->next[i] = last[course->names[i]];
        last[course->names[i]] = i + 1;
    }
}

static uint32_t find(const struct host *host, uint64_t name)
{
    for (uint32_t i = 0; i < host->count; i++)
        if (host->objects[i].name == name)
            return i;
    return NONE_INDEX;
}

uint32_t host_first(const struct host *host, bool (*before)(const struct host *host, const struct host_object *a, const struct host_object *b))
{
    uint32_t first = NONE_INDEX;

    for (uint32_t i = 0; i < host->count; i++)
        if (!host->objects[i].pinned && (first == NONE_INDEX || before(host, &host->objects[i], &host->objects[first])))
            first = i;
    return first;
}

static void go(struct course *course, struct host *host, uint32_t at, bool evicted)
{
    const uint32_t entry = host->objects[at].entry;

    course->twin->policy->remove(&host->view, entry, evicted);
    evict_entry_give_back(&host->view, entry);
    if (course->twin->go != NULL)
        course->twin->go(host, at, evicted);
    host->used -= host->objects[at].size;
    host->count--;
    memmove(&host->objects[at], &host->objects[at + 1], (host->count - at) * sizeof(host->objects[0]));
}

/* Both choose; NONE_INDEX from both is a choice too. */
static uint32_t choose(struct course *course, struct host *host)
{
    const uint32_t chosen = course->twin->policy->victim(&host->view);
    const uint32_t expected = course->twin->victim(host);

    if (chosen != (expected == NONE_INDEX ? NONE_INDEX : host->objects[expected].entry))
        fail_msg("%s, capacity %llu, seed %llu, turn %u: it chose %lld, its twin %lld", course->twin->policy->name,
                 (unsigned long long)course->plan->capacity, (unsigned long long)course->plan->seed, course->turn,
                 chosen == NONE_INDEX ? -1LL : (long long)host->view.entries[chosen].name,
                 expected == NONE_INDEX ? -1LL : (long long)host->objects[expected].name);
    return expected;
}

static uint64_t pinned(const struct host *host)
{
    uint64_t size = 0;

    for (uint32_t i = 0; i < host->count; i++)
        size += host->objects[i].pinned ? host->objects[i].size : 0;
    return size;
}

static void grow_if_full(struct course *course, struct host *host)
{
    struct evict_view *view = &host->view;
    void *memory;

    if (view->entries_free != NONE_INDEX || view->entries_used < view->entries_max)
        return;
    memory = malloc(evict_view_bytes(view->policy, 2 * view->entries_max));
    evict_view_move(view, memory, 2 * view->entries_max);
    free(course->memory);
    course->memory = memory;
}

static void come(struct course *course, struct host *host, uint64_t name, uint64_t size, uint64_t bytes)
{
    struct evict_view *view = &host->view;
    struct host_object *object = &host->objects[host->count];

    grow_if_full(course, host);
    *object = (struct host_object){.name = name, .size = size, .bytes = bytes, .hits = 1, .order = view->order_next, .came_at = host->now,
                                   .used_at = host->now, .next_use = host->next_use};
    object->entry = evict_entry_take(view, name, size, bytes);
    view->entries[object->entry].evictable = true;
    host->places = view->entries_used;
    host->used += size;
    host->count++;
    view->now = host->now;
    course->twin->policy->insert(view, object->entry);
    view->asked.open = false;
    if (course->twin->come != NULL)
        course->twin->come(host, host->count - 1);
}

static void miss(struct course *course, struct host *host, uint64_t name, uint64_t size)
{
    const uint64_t bytes = course->plan->bytes ? size : 1 + name;
    bool comes;

    if (size > host->capacity)
        return;
    /* No more objects than the twin has places for: objects of no size would fit without end. */
    if (size > host->capacity - pinned(host) || host->count == HOST_MAX)
        return;
    host->asked = name;
    host->asked_size = size;
    comes = evict_ask(&host->view, name, size, bytes);
    if (course->twin->miss != NULL)
        course->twin->miss(host, name, size);
    if (!comes) { /* belady-size alone says so, and of this alone */
        assert_true(course->twin->policy->offline && host->next_use == NONE_USE);
        host->view.asked.open = false;
        return;
    }
    if (!course->plan->quiet && draw_below(&course->random, 16) == 0)
        (void)choose(course, host);
    while (host->used + size > host->capacity) {
        const uint32_t at = choose(course, host);

        assert_int_not_equal(at, NONE_INDEX);
        go(course, host, at, true);
        course->evictions++;
    }
    host->now++;
    come(course, host, name, size, bytes);
}

static void use(struct course *course, struct host *host)
{
    const uint64_t name = course->names[course->turn];
    const uint32_t at = find(host, name);
    struct host_object *object;

    host->next_use = host->view.next_use = course->next[course->turn];
    if (course->twin->policy->offline)
        host->now = host->view.now = course->turn; /* they count every request */
    if (at == NONE_INDEX) {
        miss(course, host, name, size_of(course, name));
        return;
    }
    object = &host->objects[at];
    object->hits = ++host->view.entries[object->entry].hits;
    host->view.now = ++host->now;
    object->used_before = object->used_at;
    object->used_at = host->now;
    object->next_use = host->next_use;
    course->twin->policy->touch(&host->view, object->entry);
    if (course->twin->use != NULL)
        course->twin->use(host, at);
    course->hits++;
}

static void disturb(struct course *course, struct host *host)
{
    struct host_object *object;
    uint32_t at;

    if (course->plan->quiet || host->count == 0 || draw_below(&course->random, 4) != 0)
        return;
    at = (uint32_t)draw_below(&course->random, host->count);
    object = &host->objects[at];
    if (draw_below(&course->random, 8) == 0 && !object->pinned) {
        go(course, host, at, false);
        return;
    }
    object->pinned = draw_below(&course->random, 3) == 0;
    host->view.entries[object->entry].evictable = !object->pinned;
}

void host_compare(const struct host_twin *twin, const struct host_plan *plan)
{
    struct course course = {.plan = plan, .twin = twin, .random = test_seed(plan->seed)};
    const struct evict_setup setup = {.policy = twin->policy, .parameters = plan->parameters, .entries_max = 16, .capacity = plan->capacity,
                                      .cost_fixed_ns = plan->cost_fixed_ns, .cost_ns_per_mib = plan->cost_ns_per_mib, .salt = plan->seed};
    struct host *host = calloc(1, sizeof(*host));

    course.names = malloc(plan->turns);
    course.next = malloc(plan->turns * sizeof(uint64_t));
    course.memory = malloc(evict_view_bytes(twin->policy, setup.entries_max));
    draw_course(&course);
    evict_view_begin(&host->view, course.memory, &setup);
    host->capacity = plan->capacity;
    host->own = aligned_alloc(64, (twin->own_bytes + 64) & ~(size_t)63);
    memset(host->own, 0, twin->own_bytes);
    for (course.turn = 0; course.turn < plan->turns; course.turn++) {
        use(&course, host);
        disturb(&course, host);
        if (course.turn % 16 == 0)
            evict_view_check(&host->view);
    }
    assert_true(course.evictions > plan->turns / 200 || plan->capacity >= HOST_NAMES);
    assert_true(course.hits > plan->turns / 50);
    free(host->own);
    free(host);
    free(course.memory);
    free(course.next);
    free(course.names);
}

void host_compare_all(const struct host_twin *twin)
{
    static const uint64_t slots[] = {1, 2, 3, 7, 16, 40, 64};
    struct host_plan plan = {.turns = 8000, .seed = 5};

    for (size_t i = 0; i < ARRAY_COUNT(slots); i++) {
        plan.capacity = slots[i];
        plan.quiet = i % 2 == 0;
        plan.seed++;
        host_compare(twin, &plan);
    }
    plan.bytes = true;
    plan.capacity = 100;
    plan.quiet = false;
    host_compare(twin, &plan);
    plan.capacity = 500;
    plan.quiet = true;
    plan.cost_fixed_ns = 3000000;
    plan.cost_ns_per_mib = 1000;
    host_compare(twin, &plan);
}
