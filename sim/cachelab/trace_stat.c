#include "cachelab/trace_stat.h"

#include <math.h>
#include <stdlib.h>

#include "cachelab/intern.h"

_Static_assert(TRACE_STAT_BATCH_MAX <= INTERN_BATCH_MAX && TRACE_STAT_BATCH_MAX <= DISTANCE_BATCH_MAX &&
               TRACE_STAT_BATCH_MAX <= SHARDS_BATCH_MAX, "a batch goes through all");

#define OBJECTS_MIN 1024u

struct object {
    uint64_t requests;
    uint64_t last; /* number of its last request */
    int64_t last_ns;
    uint64_t size_bytes;
};

struct trace_stat {
    struct intern *intern;
    struct distance *distance;
    struct lru_curve *curve;
    struct shards *shards;
    struct working_set *working_set;
    struct object *objects; /* [objects_max] */
    uint32_t objects_max;
    uint64_t *counts;
    uint64_t *lru_misses;
    double *shards_ratios;
    struct trace_facts facts;
};

enum status trace_stat_create(const struct shards_config *shards, struct trace_stat **ret_stat)
{
    struct trace_stat *stat = calloc(1, sizeof(*stat));

    if (stat == NULL)
        return STATUS_FULL;
    stat->facts.from_ns = INT64_MAX;
    stat->facts.until_ns = INT64_MIN;
    histogram_init(&stat->facts.object_sizes);
    histogram_init(&stat->facts.request_sizes);
    for (uint32_t i = 0; i < REUSE_COUNT; i++)
        histogram_init(&stat->facts.reuse[i]);
    if (intern_create(&stat->intern) != STATUS_OK || distance_create(&stat->distance) != STATUS_OK ||
        lru_curve_create(&stat->curve) != STATUS_OK || shards_create(shards, &stat->shards) != STATUS_OK ||
        working_set_create(&stat->working_set) != STATUS_OK) {
        trace_stat_free(stat);
        return STATUS_FULL;
    }
    *ret_stat = stat;
    return STATUS_OK;
}

void trace_stat_free(struct trace_stat *stat)
{
    if (stat == NULL)
        return;
    intern_free(stat->intern);
    distance_free(stat->distance);
    lru_curve_free(stat->curve);
    shards_free(stat->shards);
    working_set_free(stat->working_set);
    free(stat->objects);
    free(stat->counts);
    free(stat->lru_misses);
    free(stat->shards_ratios);
    free(stat);
}

static enum status objects_reserve(struct trace_stat *stat)
{
    uint64_t objects_max = max_u32(stat->objects_max, OBJECTS_MIN);
    struct object *objects;

    while (objects_max < intern_count(stat->intern))
        objects_max += objects_max / 2;
    if (objects_max == stat->objects_max)
        return STATUS_OK;
    objects = realloc(stat->objects, objects_max * sizeof(*objects));
    if (objects == NULL)
        return STATUS_FULL;
    memset(objects + stat->objects_max, 0, (objects_max - stat->objects_max) * sizeof(*objects));
    stat->objects = objects;
    stat->objects_max = (uint32_t)objects_max;
    return STATUS_OK;
}

static void reuse_add(struct trace_facts *facts, const struct object *object, const struct object_request *request,
                      const struct distance_answer *answer)
{
    histogram_add(&facts->reuse[REUSE_REQUESTS], (int64_t)(facts->requests - object->last));
    histogram_add(&facts->reuse[REUSE_OBJECTS], answer->objects);
    if (answer->bytes != UINT64_MAX)
        histogram_add(&facts->reuse[REUSE_BYTES], (int64_t)answer->bytes);
    histogram_add(&facts->reuse[REUSE_TIME], max_i64(0, request->at_ns - object->last_ns));
}

static void request_add(struct trace_stat *stat, struct object *object, const struct object_request *request,
                        const struct distance_answer *answer)
{
    struct trace_facts *facts = &stat->facts;
    const bool first = object->requests == 0;

    working_set_add(stat->working_set, first ? WORKING_SET_FIRST : object->last, request->size_bytes, request->at_ns);
    if (!first)
        reuse_add(facts, object, request, answer);
    histogram_add(&facts->request_sizes, (int64_t)request->size_bytes);
    facts->from_ns = min_i64(facts->from_ns, request->at_ns);
    facts->until_ns = max_i64(facts->until_ns, request->at_ns);
    *object = (struct object){.requests = object->requests + 1, .last = facts->requests++, .last_ns = request->at_ns,
                              .size_bytes = request->size_bytes};
}

enum status trace_stat_add(struct trace_stat *stat, const struct object_request *requests, uint32_t count)
{
    uint64_t ids[TRACE_STAT_BATCH_MAX];
    uint64_t sizes[TRACE_STAT_BATCH_MAX];
    uint32_t numbers[TRACE_STAT_BATCH_MAX];
    struct distance_answer answers[TRACE_STAT_BATCH_MAX];

    check(count <= TRACE_STAT_BATCH_MAX);
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = requests[i].id;
        sizes[i] = requests[i].size_bytes;
    }
    if (intern_ids(stat->intern, ids, count, numbers) != STATUS_OK || objects_reserve(stat) != STATUS_OK)
        return STATUS_FULL;
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(&stat->objects[numbers[i]], 1);
    if (distance_requests(stat->distance, numbers, sizes, count, answers) != STATUS_OK ||
        lru_curve_add(stat->curve, answers, sizes, count) != STATUS_OK || shards_add(stat->shards, ids, sizes, count) != STATUS_OK)
        return STATUS_FULL;
    for (uint32_t i = 0; i < count; i++)
        request_add(stat, &stat->objects[numbers[i]], &requests[i], &answers[i]);
    return STATUS_OK;
}

static void objects_count(struct trace_stat *stat)
{
    struct trace_facts *facts = &stat->facts;

    for (uint64_t i = 0; i < facts->objects; i++) {
        const struct object *object = &stat->objects[i];

        stat->counts[i] = object->requests;
        facts->one_hit_objects += object->requests == 1;
        histogram_add(&facts->object_sizes, (int64_t)object->size_bytes);
    }
    counts_sort(stat->counts, facts->objects);
    facts->objects_bytes = facts->object_sizes.sum;
    facts->requested_bytes = facts->request_sizes.sum;
    facts->largest_bytes = facts->request_sizes.max;
}

/* Over every size at which the curve may still bend. */
static void shards_compare(struct trace_stat *stat)
{
    struct trace_facts *facts = &stat->facts;
    double sum = 0;

    for (uint64_t i = 1; i <= facts->objects; i++) {
        const double away = fabs(stat->shards_ratios[i] - (double)stat->lru_misses[i] / (double)facts->requests);

        sum += away;
        facts->shards_most_error = fmax(facts->shards_most_error, away);
    }
    facts->shards_mean_error = facts->objects > 0 ? sum / (double)facts->objects : 0;
}

enum status trace_stat_facts(struct trace_stat *stat, const struct trace_facts **ret_facts)
{
    struct trace_facts *facts = &stat->facts;
    enum status status;

    check(stat->counts == NULL);
    facts->objects = intern_count(stat->intern);
    stat->counts = malloc((facts->objects + 1) * sizeof(*stat->counts));
    stat->lru_misses = malloc((facts->objects + 1) * sizeof(*stat->lru_misses));
    stat->shards_ratios = malloc((facts->objects + 1) * sizeof(*stat->shards_ratios));
    if (stat->counts == NULL || stat->lru_misses == NULL || stat->shards_ratios == NULL)
        return STATUS_FULL;
    objects_count(stat);
    lru_curve_misses(stat->curve, stat->lru_misses, facts->objects + 1);
    shards_miss_ratios(stat->shards, stat->shards_ratios, facts->objects + 1);
    shards_compare(stat);
    status = zipf_fit(stat->counts, facts->objects, &facts->zipf);
    if (status == STATUS_FULL)
        return STATUS_FULL;
    facts->has_zipf = status == STATUS_OK;
    facts->size_changes = lru_curve_changed(stat->curve);
    facts->bytes_known = distance_bytes_known(stat->distance);
    facts->counts = stat->counts;
    facts->curve = stat->curve;
    facts->lru_misses = stat->lru_misses;
    facts->shards = stat->shards;
    facts->shards_ratios = stat->shards_ratios;
    facts->windows_count = working_set_windows(stat->working_set, facts->windows);
    *ret_facts = facts;
    return STATUS_OK;
}

uint64_t trace_stat_memory_bytes(const struct trace_stat *stat)
{
    return intern_bytes(stat->intern) + distance_memory_bytes(stat->distance) + lru_curve_memory_bytes(stat->curve) +
           shards_memory_bytes(stat->shards) + stat->objects_max * sizeof(*stat->objects) +
           (stat->facts.objects + 1) * (sizeof(*stat->counts) + sizeof(*stat->lru_misses) + sizeof(*stat->shards_ratios));
}
