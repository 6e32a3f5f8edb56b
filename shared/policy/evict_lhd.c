/* LHD, least hit density (Beckmann, Chen, Cidon, NSDI 2018, 3 and 4): from what became of entries of the same class at the same age, how
 * many hits an entry may expect for each use's time and byte that it stays; the least of a sample leaves. Nothing is kept in order,
 * and a hit only counts.
 *
 * Hit density of a class at age a (3.2): hits at a or later, over the time that all that happened at a or later took from a on. Ages
 * are times since the last use, in four buckets an octave, where the paper has thousands of equal ones whose width it must adapt (4.1);
 * classes are by the sum of the last two ages at a hit (4.2), an octave each, around the number of entries. Counts decay by a
 * tenth each time that densities are worked out anew. The last to come are looked at too, and a few that were drawn when they came
 * ("explorers", 4.3: at most a hundredth of the cache) stay, so that long ages are known about.
 *
 * Densities have 32 fraction bits, and two are compared crosswise with the sizes, exactly. That is done for the few that are least to
 * within a double's precision, which one multiplication each finds. 34 KB, and 32 bytes an entry. */
#include "policy/policy.h"

enum { KEY_samples, KEY_period };

#define PURPOSE 0x6c6864 /* "lhd" */
#define CLASSES 16u
#define AGES 132u         /* ages below 2^35 */
#define RECENT 8u
#define SAMPLES_MAX 1024u
#define PERIOD_MIN 4096u
#define PERIOD_MAX (UINT32_C(1) << 24)
#define COUNT_ONE 16u     /* of an event; decay leaves fractions */
#define EXPLORE_ONE_IN 32u
#define NEAR_ENTRIES 1000u /* are in the first cache anyway */

/* Of an entry, apart from it: looked at by the dozen, in any order. */
struct seen {
    uint64_t used_at;
    double inverse;   /* 1 / size */
    double late;      /* what follows: the least leave first, whatever their density */
    uint32_t last;    /* its age at its last hit */
    uint32_t class;   /* where its class begins: AGES for each before it */
};
#define LEAVES 0.0
#define EXPLORES 1e30
#define ABSENT 2e30

struct lhd {
    uint64_t model_at;      /* `now` of the next model */
    uint64_t explorers_size;
    uint32_t recent[RECENT]; /* a ring of those that came last */
    uint32_t recent_at;
    uint32_t zero;
    uint32_t hits[CLASSES * AGES];
    uint32_t evictions[CLASSES * AGES];
    double density[CLASSES * AGES]; /* whole numbers below 2^53 */
    struct seen entries[];
};

static size_t lhd_state_bytes(uint32_t entries_max)
{
    return sizeof(struct lhd) + entries_max * sizeof(struct seen);
}

static uint32_t log2_of(uint64_t x)
{
    return 63 - (uint32_t)__builtin_clzll(x | 1);
}

/* Widths of 1 four times, of 2 four times, of 4 four times, ...: as a double, age + 4 has the octave in its exponent and the quarter in
 * the two bits below. */
static uint32_t bucket_of(uint64_t age)
{
    const double number = (double)(int64_t)(age + 4);
    uint64_t bits;

    memcpy(&bits, &number, sizeof(bits));
    return min_u32((uint32_t)(bits >> 50) - 4 * (1023 + 2), AGES - 1);
}

static uint64_t bucket_width(uint32_t bucket)
{
    return UINT64_C(1) << bucket / 4;
}

/* By the sum of its last two ages at a hit; the hottest last. Class 0 is of what has not been hit. */
static uint32_t class_for(const struct evict_view *view, uint64_t ages)
{
    const int32_t level = (int32_t)log2_of(ages) - (int32_t)log2_of(view->entries_used);

    return AGES * (level > 7 ? 1 : level < -7 ? CLASSES - 1 : (uint32_t)(8 - level));
}

/* What it is counted among, in hits, evictions and densities. */
static uint32_t cell_of(const struct evict_view *view, const struct seen *seen)
{
    return seen->class + bucket_of(view->now - seen->used_at);
}

/* --- the model --- */

/* From the oldest age down: what happened at this age or later, and how long all of it lasted from here on. */
static void model_class(struct lhd *lhd, uint32_t class)
{
    uint64_t hits = 0;
    uint64_t events = 0;
    uint128 lifetime = 0;

    for (uint32_t age = AGES; age-- > 0;) {
        const uint32_t cell = class * AGES + age;
        uint32_t *hits_here = &lhd->hits[cell];
        uint32_t *evictions_here = &lhd->evictions[cell];

        *hits_here -= *hits_here / 10;
        *evictions_here -= *evictions_here / 10;
        hits += *hits_here;
        events += (uint64_t)*hits_here + *evictions_here;
        lifetime += (uint128)events * bucket_width(age);
        if (events == 0)
            lhd->density[cell] = 0;
        else if (hits >> 32 == 0 && lifetime >> 64 == 0)
            lhd->density[cell] = (double)((hits << 32) / (uint64_t)lifetime); /* a machine's division, and nearly always */
        else
            lhd->density[cell] = (double)(uint64_t)(((uint128)hits << 32) / lifetime);
    }
}

static void model_if_due(struct evict_view *view)
{
    struct lhd *lhd = view->state;
    const double period = view->parameters[KEY_period] * view->entries_used;

    if (view->now < lhd->model_at)
        return;
    for (uint32_t class = 0; lhd->model_at > 0 && class < CLASSES; class++)
        model_class(lhd, class);
    lhd->model_at = view->now + (period < PERIOD_MIN ? PERIOD_MIN : period > PERIOD_MAX ? PERIOD_MAX : (uint64_t)period);
}

/* Until something is known, the hotter class and the younger age stay. */
static void lhd_begin(struct evict_view *view)
{
    struct lhd *lhd = view->state;
    uint64_t age = 0;

    for (uint32_t bucket = 0; bucket < AGES; age += bucket_width(bucket++))
        for (uint32_t class = 0; class < CLASSES; class++)
            lhd->density[class * AGES + bucket] = (double)(((uint64_t)(class + 1) << 32) / (age + 1));
    memset(lhd->recent, 0xff, sizeof(lhd->recent));
}

/* --- what happens --- */

static void explore(struct evict_view *view, struct seen *seen, uint64_t size)
{
    struct lhd *lhd = view->state;

    if (size > view->capacity / 100 || lhd->explorers_size > view->capacity / 100 - size ||
        evict_draw_below(view, PURPOSE, EXPLORE_ONE_IN) != 0)
        return;
    seen->late = EXPLORES;
    lhd->explorers_size += size;
}

static void explore_no_more(struct evict_view *view, uint32_t entry)
{
    struct lhd *lhd = view->state;

    if (lhd->entries[entry].late == EXPLORES)
        lhd->explorers_size -= view->entries[entry].size;
    lhd->entries[entry].late = LEAVES;
}

static void lhd_insert(struct evict_view *view, uint32_t entry)
{
    const uint64_t size = view->entries[entry].size;
    struct lhd *lhd = view->state;

    lhd->entries[entry] = (struct seen){.used_at = view->now, .inverse = 1 / (double)max_u64(size, 1)};
    explore(view, &lhd->entries[entry], size);
    lhd->recent[lhd->recent_at++ % RECENT] = entry;
    model_if_due(view);
}

static void lhd_touch(struct evict_view *view, uint32_t entry)
{
    struct lhd *lhd = view->state;
    struct seen *seen = &lhd->entries[entry];
    uint32_t last;

    lhd->hits[cell_of(view, seen)] += COUNT_ONE;
    explore_no_more(view, entry);
    last = (uint32_t)min_u64(view->now - seen->used_at, UINT32_MAX);
    seen->class = class_for(view, (uint64_t)last + seen->last);
    seen->last = last;
    seen->used_at = view->now;
    model_if_due(view);
}

/* What is retired was neither hit nor let go. */
static void lhd_remove(struct evict_view *view, uint32_t entry, bool evicted)
{
    struct lhd *lhd = view->state;

    if (evicted)
        lhd->evictions[cell_of(view, &lhd->entries[entry])] += COUNT_ONE;
    explore_no_more(view, entry);
    lhd->entries[entry].late = ABSENT;
}

/* --- the choice --- */

struct best {
    uint64_t density, size;
    double late;
    uint32_t entry;
};

/* density / size, the least first; the older of equals. */
static void look_at(const struct evict_view *view, uint32_t at, struct best *best)
{
    const struct lhd *lhd = view->state;
    const struct seen *seen = &lhd->entries[at];
    const struct evict_entry *entry = &view->entries[at];
    const uint64_t density = (uint64_t)lhd->density[cell_of(view, seen)];
    const uint64_t size = max_u64(entry->size, 1);
    const uint128 left = (uint128)density * best->size;
    const uint128 right = (uint128)best->density * size;

    if (seen->late > best->late || (seen->late == best->late && left > right) || !entry->evictable)
        return;
    if (seen->late == best->late && left == right && entry->order >= view->entries[best->entry].order)
        return;
    *best = (struct best){density, size, seen->late, at};
}

/* What is off by more than a double's error isn't the least. Where all of the rest may not leave, everything is looked at. */
static uint32_t least_of(const struct evict_view *view, const uint32_t *drawn, uint32_t count)
{
    const struct lhd *lhd = view->state;
    double values[SAMPLES_MAX + RECENT];
    double least = ABSENT;
    struct best best = {.size = 1, .entry = NONE_INDEX, .late = ABSENT};

    for (uint32_t i = 0; i < count; i++) {
        const struct seen *seen = &lhd->entries[drawn[i]];

        values[i] = lhd->density[cell_of(view, seen)] * seen->inverse + seen->late;
        least = values[i] < least ? values[i] : least;
    }
    for (uint32_t i = 0; i < count; i++)
        if (values[i] <= least * (1 + 0x1p-40))
            look_at(view, drawn[i], &best);
    if (best.entry != NONE_INDEX)
        return best.entry;
    for (uint32_t i = 0; i < count; i++)
        look_at(view, drawn[i], &best);
    return best.entry;
}

static uint32_t lhd_victim(struct evict_view *view)
{
    const struct lhd *lhd = view->state;
    const uint32_t samples = (uint32_t)view->parameters[KEY_samples];
    uint32_t drawn[SAMPLES_MAX + RECENT];
    uint32_t count = samples;
    uint32_t entry;

    if (view->entries_used <= samples) {
        for (uint32_t i = 0; i < view->entries_used; i++)
            drawn[i] = i;
        return least_of(view, drawn, view->entries_used);
    }
    evict_draw_sample(view, PURPOSE, samples, drawn);
    for (uint32_t i = 0; view->entries_used > NEAR_ENTRIES && i < samples; i++)
        __builtin_prefetch(&lhd->entries[drawn[i]]);
    for (uint32_t i = 0; i < RECENT; i++)
        if (lhd->recent[i] != NONE_INDEX)
            drawn[count++] = lhd->recent[i];
    entry = least_of(view, drawn, count);
    return entry != NONE_INDEX ? entry : evict_draw_entry(view, PURPOSE);
}

static const struct evict_key lhd_keys[] = {
    {"samples", "entries that are looked at, the least of which leaves", 32, 1, SAMPLES_MAX - 1},
    {"period", "uses per entry between two models", 4, 1, 1000},
};

const struct evict_policy evict_lhd = {
    .name = "lhd",
    .about = "least expected hits per byte and time, of a sample",
    .source = "Beckmann, Chen, Cidon, NSDI 2018, 3 and 4",
    .keys = lhd_keys,
    .keys_count = ARRAY_COUNT(lhd_keys),
    .state_bytes = lhd_state_bytes,
    .begin = lhd_begin,
    .insert = lhd_insert,
    .touch = lhd_touch,
    .remove = lhd_remove,
    .victim = lhd_victim,
};
