/* Policies that leave something to chance, or age, against naive twins that draw the same numbers. */
#include "base/hash.h"
#include "host.h"
#include "support.h"

#include <math.h>

/* What is drawn, once more. Zeros at first, but for the salt. */
static struct evict_view *draws_of(struct host *host, struct evict_view *draws)
{
    draws->salt = host->view.salt;
    return draws;
}

static uint32_t object_at(const struct host *host, uint64_t place)
{
    for (uint32_t i = 0; i < host->count; i++)
        if (host->objects[i].entry == place && !host->objects[i].pinned)
            return i;
    return NONE_INDEX;
}

/* As evict_draw_entry() does. */
static uint32_t draw_object(struct host *host, struct evict_view *draws, uint64_t purpose)
{
    uint64_t place = 0;

    for (uint32_t i = 0; i < 64 && host->places > 0; i++) {
        place = evict_draw_below(draws, purpose, host->places);
        if (object_at(host, place) != NONE_INDEX)
            return object_at(host, place);
    }
    for (uint32_t i = 0; i < host->places; i++)
        if (object_at(host, (place + i) % host->places) != NONE_INDEX)
            return object_at(host, (place + i) % host->places);
    return NONE_INDEX;
}

/* --- LFU with dynamic aging --- */

static void lfuda_use(struct host *host, uint32_t at)
{
    const uint64_t *age = host->own;

    host->objects[at].own[0] = *age + host->objects[at].hits;
}

static void lfuda_go(struct host *host, uint32_t at, bool evicted)
{
    uint64_t *age = host->own;

    if (evicted && host->objects[at].own[0] > *age)
        *age = host->objects[at].own[0];
}

static bool lower_key(const struct host *host, const struct host_object *a, const struct host_object *b)
{
    (void)host;
    return a->own[0] != b->own[0] ? a->own[0] < b->own[0] : a->order < b->order;
}

static uint32_t lfuda_victim(struct host *host)
{
    return host_first(host, lower_key);
}

static void lfuda_is_its_twin(void **state)
{
    (void)state;
    host_compare_all(&(struct host_twin){.policy = &evict_lfuda, .own_bytes = sizeof(uint64_t), .come = lfuda_use, .use = lfuda_use,
                                         .go = lfuda_go, .victim = lfuda_victim});
}

/* --- hyperbolic --- */

static uint64_t weight(const struct host *host, const struct host_object *object)
{
    const uint64_t fixed = (uint64_t)host->view.cost_fixed_ns, per_mib = (uint64_t)host->view.cost_ns_per_mib;
    const uint64_t cost = fixed + per_mib > 0 ? fixed + object->bytes * per_mib / 1048576 : 1 << 24;

    return cost * (1 << 24) / (object->size > 0 ? object->size : 1);
}

static bool used_less(const struct host *host, const struct host_object *a, const struct host_object *b)
{
    const uint128 first = (uint128)weight(host, a) * a->hits * (host->now - b->came_at + 1);
    const uint128 second = (uint128)weight(host, b) * b->hits * (host->now - a->came_at + 1);

    return first != second ? first < second : a->order < b->order;
}

static uint32_t hyperbolic_victim(struct host *host)
{
    struct evict_view *draws = draws_of(host, host->own);
    const uint32_t samples = (uint32_t)host->view.parameters[0];
    uint32_t best = NONE_INDEX;
    uint64_t start;

    if (host->places <= samples)
        return host_first(host, used_less);
    start = evict_draw(draws, 0x68797065);
    for (uint32_t i = 0; i < samples; i++) {
        const uint64_t draw = hash_mix(start + i / 2 * 2);
        const uint32_t at = object_at(host, ((i % 2 == 0 ? draw & UINT32_MAX : draw >> 32) * host->places) >> 32);

        if (at != NONE_INDEX && (best == NONE_INDEX || used_less(host, &host->objects[at], &host->objects[best])))
            best = at;
    }
    return best != NONE_INDEX ? best : draw_object(host, draws, 0x68797065);
}

static void hyperbolic_is_its_twin(void **state)
{
    const struct host_twin twin = {.policy = &evict_hyperbolic, .own_bytes = sizeof(struct evict_view), .victim = hyperbolic_victim};
    const double samples = 3;

    (void)state;
    host_compare_all(&twin);
    host_compare(&twin, &(struct host_plan){.capacity = 20, .turns = 8000, .seed = 31, .parameters = &samples});
    host_compare(&twin, &(struct host_plan){.capacity = 300, .bytes = true, .turns = 8000, .seed = 32, .parameters = &samples,
                                            .cost_fixed_ns = 70, .cost_ns_per_mib = 900000000});
}

/* --- LeCaR --- */

enum { GHOSTS = 256, BY_LRU = 0, BY_LFU = 1, BY_BOTH = 2 };

struct lecar {
    struct evict_view draws;
    double weight_lru;
    struct {
        uint64_t name, size, at;
    } ghosts[2][GHOSTS]; /* the oldest first */
    uint32_t counts[2];
    uint32_t by;
    bool begun;
};

static struct lecar *lecar_of(struct host *host)
{
    struct lecar *own = host->own;

    if (!own->begun)
        own->weight_lru = 0.5;
    own->begun = true;
    return own;
}

static void forget(struct lecar *own, uint32_t list, uint32_t at)
{
    own->counts[list]--;
    memmove(&own->ghosts[list][at], &own->ghosts[list][at + 1], (own->counts[list] - at) * sizeof(own->ghosts[0][0]));
}

static void lecar_miss(struct host *host, uint64_t name, uint64_t size)
{
    struct lecar *own = lecar_of(host);

    (void)size;
    for (uint32_t list = 0; list < 2; list++)
        for (uint32_t i = 0; i < own->counts[list]; i++) {
            double lru = own->weight_lru, lfu = 1 - own->weight_lru, r;

            if (own->ghosts[list][i].name != name)
                continue;
            r = pow(0.005, (double)(host->now - own->ghosts[list][i].at) / host->places);
            lru *= list == BY_LRU ? exp(-0.45 * r) : 1;
            lfu *= list == BY_LFU ? exp(-0.45 * r) : 1;
            own->weight_lru = lru / (lru + lfu);
            forget(own, list, i);
            return;
        }
}

static bool less_recent(const struct host *host, const struct host_object *a, const struct host_object *b)
{
    (void)host;
    return a->used_at < b->used_at;
}

static bool less_frequent(const struct host *host, const struct host_object *a, const struct host_object *b)
{
    (void)host;
    return a->hits != b->hits ? a->hits < b->hits : a->used_at < b->used_at;
}

static uint32_t lecar_victim(struct host *host)
{
    struct lecar *own = lecar_of(host);
    const uint32_t recent = host_first(host, less_recent);
    const uint32_t frequent = host_first(host, less_frequent);
    uint32_t at = recent;

    own->by = BY_BOTH;
    if (recent != frequent) {
        own->by = (double)evict_draw(draws_of(host, &own->draws), 0x6c656361) / 18446744073709551616.0 < own->weight_lru ? BY_LRU : BY_LFU;
        at = own->by == BY_LRU ? recent : frequent;
    }
    return at;
}

static void lecar_go(struct host *host, uint32_t at, bool evicted)
{
    struct lecar *own = lecar_of(host);
    const uint32_t list = own->by;
    uint64_t size = 0;

    if (evicted && list != BY_BOTH) {
        own->ghosts[list][own->counts[list]].name = host->objects[at].name;
        own->ghosts[list][own->counts[list]].size = host->objects[at].size;
        own->ghosts[list][own->counts[list]++].at = host->now;
        for (uint32_t i = 0; i < own->counts[list]; i++)
            size += own->ghosts[list][i].size;
        for (; own->counts[list] > 1 && size > host->capacity / 2; forget(own, list, 0))
            size -= own->ghosts[list][0].size;
        assert_true(own->counts[0] + own->counts[1] <= host->view.ghosts.bound);
    }
}

static void lecar_is_its_twin(void **state)
{
    (void)state;
    host_compare_all(&(struct host_twin){.policy = &evict_lecar, .own_bytes = sizeof(struct lecar), .miss = lecar_miss, .go = lecar_go,
                                         .victim = lecar_victim});
}

/* Weights add up to 1 and stay off 0 and 1, however long one of the two is wrong. */
static void lecar_never_forgets_an_expert(void **state)
{
    const struct evict_setup setup = {.policy = &evict_lecar, .entries_max = 8, .capacity = 8, .salt = 1};
    _Alignas(64) static unsigned char memory[8192];
    struct evict_view view;

    (void)state;
    assert_true(evict_view_bytes(&evict_lecar, 8) <= sizeof(memory));
    evict_view_begin(&view, memory, &setup);
    (void)evict_entry_take(&view, 1, 1, 1); /* ghosts are as many as entries */
    for (uint32_t turn = 0; turn < 20000; turn++) {
        const uint32_t list = turn < 10000 ? 0 : 1;
        const uint64_t *weight_lru = view.state;
        const uint64_t before = *weight_lru;

        (void)evict_ghost_add(&view.ghosts, list, 5, 1, view.now);
        assert_true(evict_ask(&view, 5, 1, 1));
        view.asked.open = false;
        assert_true(list == 0 ? *weight_lru <= before : *weight_lru >= before);
        assert_true(*weight_lru >= UINT64_C(1) << 31 && *weight_lru <= UINT64_MAX - (UINT64_C(1) << 31));
        if (turn == 100)
            assert_true(*weight_lru < UINT64_C(1) << 40);
    }
}

/* --- LHD --- */

enum { CLASSES = 16, AGES = 132, RECENT = 8, LAST = 0, BEFORE = 1, CLASS = 2, EXPLORES = 3 }; /* the last four: of an object's own[] */

struct lhd {
    struct evict_view draws;
    uint32_t hits[CLASSES][AGES], evictions[CLASSES][AGES]; /* sixteenths */
    uint64_t density[CLASSES][AGES];
    uint32_t recent[RECENT]; /* places, the newest first */
    uint32_t models;
    uint64_t model_at, explorers;
};

/* Widths of 1 four times, of 2 four times, of 4 four times, ... */
static uint64_t width(uint32_t bucket) { return bucket < 4 ? 1 : 2 * width(bucket - 4); }

static uint32_t bucket(uint64_t age)
{
    uint32_t bucket = 0;

    for (uint64_t end = 1; age >= end && bucket + 1 < AGES; end += width(++bucket))
        continue;
    return bucket;
}

static int octave(uint64_t x) { return x < 2 ? 0 : 1 + octave(x / 2); }

static struct lhd *lhd_of(struct host *host)
{
    struct lhd *own = host->own;

    for (uint32_t class = 0; own->models == 0 && class < CLASSES; class++)
        for (uint32_t i = 0, age = 0; i < 60; age += (uint32_t)width(i++))
            own->density[class][i] = ((uint64_t)(class + 1) << 32) / (age + 1);
    for (uint32_t i = 0; own->models == 0 && i < RECENT; i++)
        own->recent[i] = NONE_INDEX;
    own->models += own->models == 0;
    return own;
}

/* Hits from this age on, over all the time from this age on of everything that happened later or then. */
static void lhd_model(struct lhd *own, uint32_t class)
{
    for (uint32_t i = 0; i < AGES; i++) {
        own->hits[class][i] -= own->hits[class][i] / 10;
        own->evictions[class][i] -= own->evictions[class][i] / 10;
    }
    for (uint32_t from = 0; from < AGES; from++) {
        uint64_t hits = 0, time = 0, lasts = 0;

        for (uint32_t i = from; i < AGES; i++) {
            lasts += width(i);
            hits += own->hits[class][i];
            if (own->hits[class][i] + own->evictions[class][i] > 0)
                time += lasts * (own->hits[class][i] + own->evictions[class][i]);
        }
        own->density[class][from] = time == 0 ? 0 : (hits << 32) / time;
    }
}

static void lhd_model_if_due(struct host *host)
{
    struct lhd *own = lhd_of(host);
    const uint64_t period = host->places * (uint64_t)host->view.parameters[1];

    if (host->now < own->model_at)
        return;
    for (uint32_t class = 0; own->models > 1 && class < CLASSES; class++)
        lhd_model(own, class);
    own->models++;
    own->model_at = host->now + (period > 4096 ? period : 4096);
}

static void lhd_come(struct host *host, uint32_t at)
{
    struct host_object *object = &host->objects[at];
    struct lhd *own = lhd_of(host);
    const uint64_t limit = host->capacity / 100;

    if (own->explorers + object->size <= limit && evict_draw_below(draws_of(host, &own->draws), 0x6c6864, 32) == 0) {
        object->own[EXPLORES] = 1;
        own->explorers += object->size;
    }
    memmove(&own->recent[1], &own->recent[0], (RECENT - 1) * sizeof(own->recent[0]));
    own->recent[0] = object->entry;
    lhd_model_if_due(host);
}

static void lhd_go(struct host *host, uint32_t at, bool evicted)
{
    struct host_object *object = &host->objects[at];
    struct lhd *own = lhd_of(host);

    if (evicted)
        own->evictions[object->own[CLASS]][bucket(host->now - object->used_at)] += 16;
    own->explorers -= object->own[EXPLORES] != 0 ? object->size : 0;
    object->own[EXPLORES] = 0;
}

/* The host has written down that it was used already; when before that is what it knew at the last use. */
static void lhd_use(struct host *host, uint32_t at)
{
    struct host_object *object = &host->objects[at];
    struct lhd *own = lhd_of(host);
    const uint64_t age = object->used_at - object->used_before;
    int level;

    own->hits[object->own[CLASS]][bucket(age)] += 16;
    lhd_go(host, at, false);
    object->own[BEFORE] = object->own[LAST];
    object->own[LAST] = age;
    level = octave(object->own[LAST] + object->own[BEFORE]) - octave(host->places);
    object->own[CLASS] = level >= 7 ? 1 : level <= -7 ? 15 : (uint64_t)(8 - level);
    lhd_model_if_due(host);
}

static bool less_dense(const struct host *host, const struct host_object *a, const struct host_object *b)
{
    const struct lhd *own = host->own;
    const uint128 first = (uint128)own->density[a->own[CLASS]][bucket(host->now - a->used_at)] * (b->size > 0 ? b->size : 1);
    const uint128 second = (uint128)own->density[b->own[CLASS]][bucket(host->now - b->used_at)] * (a->size > 0 ? a->size : 1);

    if (a->own[EXPLORES] != b->own[EXPLORES])
        return b->own[EXPLORES] != 0;
    return first != second ? first < second : a->order < b->order;
}

static uint32_t lhd_victim(struct host *host)
{
    struct lhd *own = lhd_of(host);
    const uint32_t samples = (uint32_t)host->view.parameters[0];
    uint32_t best = NONE_INDEX;
    uint64_t start;

    if (host->places <= samples)
        return host_first(host, less_dense);
    start = evict_draw(draws_of(host, &own->draws), 0x6c6864);
    for (uint32_t i = 0; i < samples + RECENT; i++) {
        const uint64_t draw = hash_mix(start + i / 2 * 2);
        const uint32_t at = object_at(host, i < samples ? ((i % 2 == 0 ? draw & UINT32_MAX : draw >> 32) * host->places) >> 32
                                                        : own->recent[i - samples]);

        if (at != NONE_INDEX && (best == NONE_INDEX || less_dense(host, &host->objects[at], &host->objects[best])))
            best = at;
    }
    return best != NONE_INDEX ? best : draw_object(host, &own->draws, 0x6c6864);
}

static void lhd_is_its_twin(void **state)
{
    const struct host_twin twin = {.policy = &evict_lhd, .own_bytes = sizeof(struct lhd), .come = lhd_come, .use = lhd_use, .go = lhd_go,
                                   .victim = lhd_victim};
    const double parameters[] = {3, 4};

    (void)state;
    host_compare_all(&twin);
    host_compare(&twin, &(struct host_plan){.capacity = 20, .turns = 60000, .seed = 41, .parameters = parameters});
    host_compare(&twin, &(struct host_plan){.capacity = 500, .bytes = true, .turns = 60000, .seed = 42, .parameters = parameters});
    host_compare(&twin, &(struct host_plan){.capacity = 500, .bytes = true, .quiet = true, .turns = 60000, .seed = 43});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lfuda_is_its_twin),
        cmocka_unit_test(hyperbolic_is_its_twin),
        cmocka_unit_test(lecar_is_its_twin),
        cmocka_unit_test(lecar_never_forgets_an_expert),
        cmocka_unit_test(lhd_is_its_twin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
