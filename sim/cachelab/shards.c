#include "cachelab/shards.h"

#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/histogram.h"
#include "base/table.h"
#include "cachelab/distance.h"
#include "cachelab/intern.h"
#include "workload/heap.h"

_Static_assert(SHARDS_BATCH_MAX <= INTERN_BATCH_MAX && SHARDS_BATCH_MAX <= DISTANCE_BATCH_MAX, "a batch goes through both");

/* A member of a sample of fixed size. */
struct member {
    uint64_t id;
    uint32_t hash;
    uint32_t number;
};

struct shards {
    uint32_t threshold; /* an object is in the sample if its hash is below */
    uint32_t objects_max;
    uint64_t salt;
    struct distance *distance;
    uint64_t requests; /* of the trace */
    uint64_t sampled;
    /* Requests by their distance as it would be in the trace, each as many as one stands for: when the rate falls, those counted before
     * stand for as many as then, which is what the paper gets by scaling its counts down. */
    double weight; /* of all, without a distance too */
    double at[HISTOGRAM_BUCKETS];
    double at_bytes[HISTOGRAM_BUCKETS]; /* by the bytes that the cache needs at least, less one */

    struct intern *intern; /* fixed rate only; what follows: fixed size only */
    struct table table;
    struct heap members; /* the largest hash first */
    uint32_t *numbers_free; /* [objects_max + 1], the lowest last at first */
    uint32_t numbers_free_count;
};

static bool member_before(const void *a, const void *b)
{
    const struct member *one = a;
    const struct member *other = b;

    return one->hash != other->hash ? one->hash > other->hash : one->number < other->number;
}

static enum status fixed_size_create(struct shards *shards)
{
    const uint32_t room = shards->objects_max + 1;
    void *cells = malloc(table_bytes(room));

    if (cells == NULL)
        return STATUS_FULL;
    table_init(&shards->table, cells, room);
    shards->numbers_free = malloc(room * sizeof(*shards->numbers_free));
    if (shards->numbers_free == NULL)
        return STATUS_FULL;
    while (shards->numbers_free_count < room) {
        shards->numbers_free[shards->numbers_free_count] = room - 1 - shards->numbers_free_count;
        shards->numbers_free_count++;
    }
    return heap_open(&shards->members, room, sizeof(struct member), member_before);
}

enum status shards_create(const struct shards_config *config, struct shards **ret_shards)
{
    struct shards *shards = calloc(1, sizeof(*shards));

    check(config->rate * SHARDS_STEPS >= 1 && config->rate <= 1);
    check(config->objects_max <= SHARDS_OBJECTS_MAX);
    if (shards == NULL)
        return STATUS_FULL;
    shards->threshold = (uint32_t)llround(config->rate * SHARDS_STEPS);
    shards->objects_max = config->objects_max;
    shards->salt = hash_mix(config->seed);
    if (distance_create(&shards->distance) != STATUS_OK ||
        (config->objects_max == 0 ? intern_create(&shards->intern) : fixed_size_create(shards)) != STATUS_OK) {
        shards_free(shards);
        return STATUS_FULL;
    }
    *ret_shards = shards;
    return STATUS_OK;
}

void shards_free(struct shards *shards)
{
    if (shards == NULL)
        return;
    distance_free(shards->distance);
    intern_free(shards->intern);
    free(shards->table.cells);
    free(shards->numbers_free);
    heap_close(&shards->members);
    free(shards);
}

double shards_rate(const struct shards *shards)
{
    return (double)shards->threshold / SHARDS_STEPS;
}

/* In a bucket as of whole numbers; what is beyond them all is in the last. */
static uint32_t bucket_of(double value)
{
    return histogram_bucket(value < 0x1p62 ? (uint64_t)value : UINT64_C(1) << 62);
}

static void request_count(struct shards *shards, const struct distance_answer *answer, uint64_t size_bytes)
{
    const double rate = shards_rate(shards);

    shards->sampled++;
    shards->weight += 1 / rate;
    if (answer->objects == NONE_INDEX)
        return;
    shards->at[bucket_of(answer->objects / rate)] += 1 / rate;
    if (!answer->changed && answer->bytes != UINT64_MAX)
        shards->at_bytes[bucket_of(fmax(1, (double)answer->bytes / rate + (double)size_bytes) - 1)] += 1 / rate;
}

static enum status add_fixed_rate(struct shards *shards, const uint64_t *ids, const uint64_t *sizes_bytes, uint32_t requests)
{
    uint32_t numbers[SHARDS_BATCH_MAX];
    struct distance_answer answers[SHARDS_BATCH_MAX];

    if (intern_ids(shards->intern, ids, requests, numbers) != STATUS_OK ||
        distance_requests(shards->distance, numbers, sizes_bytes, requests, answers) != STATUS_OK)
        return STATUS_FULL;
    for (uint32_t i = 0; i < requests; i++)
        request_count(shards, &answers[i], sizes_bytes[i]);
    return STATUS_OK;
}

static uint32_t number_of(struct shards *shards, uint64_t id, uint32_t hash)
{
    uint32_t number = table_find(&shards->table, id);

    if (number != NONE_INDEX)
        return number;
    number = shards->numbers_free[--shards->numbers_free_count];
    table_insert(&shards->table, id, number);
    heap_push(&shards->members, &(struct member){.id = id, .hash = hash, .number = number});
    return number;
}

/* The threshold falls to the largest hash, and whoever has that leaves. */
static void shrink(struct shards *shards)
{
    shards->threshold = ((const struct member *)heap_top(&shards->members))->hash;
    while (shards->members.count > 0 && ((const struct member *)heap_top(&shards->members))->hash >= shards->threshold) {
        struct member gone;

        heap_pop(&shards->members, &gone);
        table_remove(&shards->table, gone.id);
        distance_remove(shards->distance, gone.number);
        shards->numbers_free[shards->numbers_free_count++] = gone.number;
    }
}

static enum status add_fixed_size(struct shards *shards, uint64_t id, uint32_t hash, uint64_t size_bytes)
{
    const uint32_t number = number_of(shards, id, hash);
    struct distance_answer answer;

    if (distance_requests(shards->distance, &number, &size_bytes, 1, &answer) != STATUS_OK)
        return STATUS_FULL;
    request_count(shards, &answer, size_bytes);
    if (shards->members.count > shards->objects_max)
        shrink(shards);
    return STATUS_OK;
}

enum status shards_add(struct shards *shards, const uint64_t *ids, const uint64_t *sizes_bytes, uint32_t requests)
{
    uint64_t drawn_ids[SHARDS_BATCH_MAX];
    uint64_t drawn_sizes[SHARDS_BATCH_MAX];
    uint32_t drawn = 0;

    check(requests <= SHARDS_BATCH_MAX);
    shards->requests += requests;
    for (uint32_t i = 0; i < requests; i++) {
        const uint32_t hash = (uint32_t)(hash_mix(ids[i] ^ shards->salt) % SHARDS_STEPS);

        if (hash >= shards->threshold)
            continue;
        if (shards->objects_max > 0) {
            if (add_fixed_size(shards, ids[i], hash, sizes_bytes[i]) != STATUS_OK)
                return STATUS_FULL;
            continue;
        }
        drawn_ids[drawn] = ids[i];
        drawn_sizes[drawn++] = sizes_bytes[i];
    }
    return shards->objects_max > 0 ? STATUS_OK : add_fixed_rate(shards, drawn_ids, drawn_sizes, drawn);
}

uint32_t shards_objects(const struct shards *shards)
{
    return shards->objects_max > 0 ? shards->members.count : intern_count(shards->intern);
}

uint64_t shards_requests(const struct shards *shards) { return shards->sampled; }

uint64_t shards_memory_bytes(const struct shards *shards)
{
    return sizeof(*shards) + distance_memory_bytes(shards->distance) +
           (shards->objects_max > 0 ? table_bytes(shards->objects_max + 1) + (shards->objects_max + UINT64_C(1)) * (sizeof(struct member) + sizeof(uint32_t))
                                    : intern_bytes(shards->intern));
}

static double ratio(const struct shards *shards, double misses)
{
    return shards->requests == 0 ? 0 : fmax(0, fmin(1, misses / (double)shards->requests));
}

/* Within a bucket requests are taken as even. */
static double misses_at(const struct shards *shards, const double *at, uint32_t bucket, double misses, uint64_t capacity)
{
    const uint64_t low = histogram_bucket_low(bucket);
    const uint64_t width = bucket + 1 < HISTOGRAM_BUCKETS ? histogram_bucket_low(bucket + 1) - low : 1;

    return ratio(shards, misses - at[bucket] * (double)(capacity - low) / (double)width);
}

void shards_miss_ratios(const struct shards *shards, double *ret_ratios, uint64_t count)
{
    uint32_t bucket = 0;
    double misses = shards->weight;

    for (uint64_t i = 0; i < count; i++) {
        for (; bucket < histogram_bucket(i); bucket++)
            misses -= shards->at[bucket];
        ret_ratios[i] = i == 0 ? ratio(shards, (double)shards->requests) : misses_at(shards, shards->at, bucket, misses, i);
    }
}

double shards_miss_ratio_bytes(const struct shards *shards, uint64_t capacity_bytes)
{
    const uint64_t capacity = min_u64(capacity_bytes, INT64_MAX);
    const uint32_t bucket = histogram_bucket(capacity);
    double misses = shards->weight;

    for (uint32_t i = 0; i < bucket; i++)
        misses -= shards->at_bytes[i];
    return misses_at(shards, shards->at_bytes, bucket, misses, capacity);
}
