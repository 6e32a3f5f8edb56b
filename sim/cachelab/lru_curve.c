#include "cachelab/lru_curve.h"

#include <stdlib.h>

#include "base/histogram.h"

#define OBJECTS_MIN 1024u

struct lru_curve {
    uint64_t *at; /* [objects_max]; requests that many objects away from their last */
    uint64_t objects_max;
    uint64_t requests;
    uint64_t first;
    uint64_t changed;
    uint64_t at_bytes[HISTOGRAM_BUCKETS]; /* by the bytes that the cache needs at least, less one */
};

enum status lru_curve_create(struct lru_curve **ret_curve)
{
    *ret_curve = calloc(1, sizeof(**ret_curve));
    return *ret_curve != NULL ? STATUS_OK : STATUS_FULL;
}

void lru_curve_free(struct lru_curve *curve)
{
    if (curve != NULL)
        free(curve->at);
    free(curve);
}

static enum status objects_reserve(struct lru_curve *curve, uint64_t objects)
{
    const uint64_t objects_max = max_u64(max_u64(OBJECTS_MIN, objects + 1), curve->objects_max + curve->objects_max / 2);
    uint64_t *at = realloc(curve->at, objects_max * sizeof(*at));

    if (at == NULL)
        return STATUS_FULL;
    memset(at + curve->objects_max, 0, (objects_max - curve->objects_max) * sizeof(*at));
    curve->at = at;
    curve->objects_max = objects_max;
    return STATUS_OK;
}

enum status lru_curve_add(struct lru_curve *curve, const struct distance_answer *answers, const uint64_t *sizes_bytes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct distance_answer *answer = &answers[i];

        if (answer->objects == NONE_INDEX) {
            curve->first++;
        } else {
            if (answer->objects >= curve->objects_max && objects_reserve(curve, answer->objects) != STATUS_OK)
                return STATUS_FULL;
            curve->at[answer->objects]++;
            curve->changed += answer->changed;
            if (!answer->changed && answer->bytes != UINT64_MAX)
                curve->at_bytes[histogram_bucket(max_u64(1, answer->bytes + sizes_bytes[i]) - 1)]++;
        }
        curve->requests++;
    }
    return STATUS_OK;
}

uint64_t lru_curve_requests(const struct lru_curve *curve) { return curve->requests; }
uint64_t lru_curve_first(const struct lru_curve *curve) { return curve->first; }
uint64_t lru_curve_changed(const struct lru_curve *curve) { return curve->changed; }

void lru_curve_misses(const struct lru_curve *curve, uint64_t *ret_misses, uint64_t count)
{
    uint64_t misses = curve->requests;

    for (uint64_t i = 0; i < count; i++) {
        ret_misses[i] = misses;
        misses -= i < curve->objects_max ? curve->at[i] : 0;
    }
}

uint64_t lru_curve_misses_bytes(const struct lru_curve *curve, uint64_t capacity_bytes)
{
    const uint32_t buckets = histogram_bucket(min_u64(capacity_bytes, INT64_MAX));
    uint64_t misses = curve->requests;

    for (uint32_t i = 0; i < buckets; i++)
        misses -= curve->at_bytes[i];
    return misses;
}

uint64_t lru_curve_memory_bytes(const struct lru_curve *curve)
{
    return sizeof(*curve) + curve->objects_max * sizeof(*curve->at);
}
