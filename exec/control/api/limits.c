#include "control/api/limits.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "control/metadata/metadata.h"

#define TENANTS_MAX 4096u
#define MINUTE_MS 60000

/* Millis of a unit: a slow rate adds something every millisecond. `per_minute` 0: not used yet. */
struct bucket {
    int64_t level_milli;
    int64_t at_ms;
    uint64_t per_minute;
};

struct entry {
    char tenant[NAME_BYTES]; /* "": free */
    uint32_t running;
    struct bucket buckets[LIMITS_KIND_COUNT];
};

struct limits {
    pthread_mutex_t lock;
    uint32_t used;
    struct entry entries[2 * TENANTS_MAX]; /* open addressing */
};

struct limits *limits_create(void)
{
    struct limits *limits = calloc(1, sizeof(*limits));

    if (limits != NULL)
        pthread_mutex_init(&limits->lock, NULL);
    return limits;
}

void limits_free(struct limits *limits)
{
    if (limits != NULL)
        pthread_mutex_destroy(&limits->lock);
    free(limits);
}

static uint64_t spread(const char *tenant)
{
    uint64_t hash = 0;

    for (const char *at = tenant; *at != '\0'; at++)
        hash = hash_mix(hash ^ (unsigned char)*at);
    return hash;
}

static struct entry *place_of(struct limits *limits, const char *tenant)
{
    uint64_t at = spread(tenant) % ARRAY_COUNT(limits->entries);

    while (limits->entries[at].tenant[0] != '\0' && strcmp(limits->entries[at].tenant, tenant) != 0)
        at = (at + 1) % ARRAY_COUNT(limits->entries);
    return &limits->entries[at];
}

/* Who was not seen for a minute has full buckets, unless it is in debt: it can be forgotten. */
static bool is_idle(const struct entry *entry, int64_t now_ms)
{
    for (uint32_t i = 0; i < LIMITS_KIND_COUNT; i++) {
        const struct bucket *bucket = &entry->buckets[i];

        if (bucket->per_minute > 0 && (bucket->level_milli < 0 || now_ms - bucket->at_ms < MINUTE_MS))
            return false;
    }
    return entry->running == 0;
}

static void forget_idle(struct limits *limits, int64_t now_ms)
{
    struct entry *kept = malloc(sizeof(limits->entries));

    check(kept != NULL);
    memcpy(kept, limits->entries, sizeof(limits->entries));
    memset(limits->entries, 0, sizeof(limits->entries));
    limits->used = 0;
    for (size_t i = 0; i < ARRAY_COUNT(limits->entries); i++) {
        if (kept[i].tenant[0] == '\0' || is_idle(&kept[i], now_ms))
            continue;
        *place_of(limits, kept[i].tenant) = kept[i];
        limits->used++;
    }
    free(kept);
}

/* NULL: more tenants are at work than are counted. */
static struct entry *entry_of(struct limits *limits, const char *tenant, int64_t now_ms)
{
    struct entry *entry = place_of(limits, tenant);

    if (entry->tenant[0] != '\0')
        return entry;
    if (limits->used >= TENANTS_MAX) {
        forget_idle(limits, now_ms);
        entry = place_of(limits, tenant);
    }
    if (limits->used >= TENANTS_MAX)
        return NULL;
    limits->used++;
    snprintf(entry->tenant, sizeof(entry->tenant), "%s", tenant);
    return entry;
}

static void fill(struct bucket *bucket, uint64_t per_minute, int64_t now_ms)
{
    const int64_t full_milli = (int64_t)per_minute * 1000;
    const int64_t passed_ms = now_ms > bucket->at_ms ? now_ms - bucket->at_ms : 0;

    if (bucket->per_minute == 0)
        bucket->level_milli = full_milli;
    else if (passed_ms < INT64_MAX / 1000 / (int64_t)max_u64(per_minute, 1))
        bucket->level_milli += passed_ms * (int64_t)per_minute * 1000 / MINUTE_MS;
    else
        bucket->level_milli = full_milli;
    bucket->level_milli = bucket->level_milli < full_milli ? bucket->level_milli : full_milli;
    bucket->per_minute = max_u64(per_minute, 1);
    bucket->at_ms = now_ms;
}

/* Until so much more has come; where nothing ever comes, a minute. */
static uint32_t ms_for(uint64_t per_minute, int64_t lacking_milli)
{
    const uint64_t lacking = lacking_milli > 0 ? min_u64((uint64_t)lacking_milli, UINT64_MAX / MINUTE_MS) : 0;

    if (per_minute == 0)
        return MINUTE_MS;
    return (uint32_t)min_u64((lacking * (MINUTE_MS / 1000) + per_minute - 1) / per_minute, UINT32_MAX);
}

static bool take(struct bucket *bucket, uint64_t per_minute, uint64_t amount, int64_t now_ms, struct limits_state *ret_state)
{
    const int64_t full_milli = (int64_t)per_minute * 1000;
    const int64_t wanted_milli = (int64_t)min_u64(amount, INT64_MAX / 4000) * 1000;
    int64_t needed_milli;
    bool taken;

    fill(bucket, per_minute, now_ms);
    needed_milli = wanted_milli < full_milli ? wanted_milli : full_milli;
    taken = per_minute > 0 && bucket->level_milli >= needed_milli;
    if (taken)
        bucket->level_milli -= wanted_milli;
    *ret_state = (struct limits_state){
        .limit = per_minute, .remaining = bucket->level_milli > 0 ? (uint64_t)bucket->level_milli / 1000 : 0,
        .reset_ms = ms_for(per_minute, full_milli - bucket->level_milli),
        .retry_ms = taken ? 0 : ms_for(per_minute, needed_milli - bucket->level_milli)};
    return taken;
}

bool limits_take(struct limits *limits, const char *tenant, enum limits_kind kind, uint64_t per_minute, uint64_t amount, int64_t now_ms,
                 struct limits_state *ret_state)
{
    struct entry *entry;
    bool taken = false;

    *ret_state = (struct limits_state){.limit = per_minute, .reset_ms = MINUTE_MS, .retry_ms = MINUTE_MS};
    pthread_mutex_lock(&limits->lock);
    entry = entry_of(limits, tenant, now_ms);
    if (entry != NULL)
        taken = take(&entry->buckets[kind], per_minute, amount, now_ms, ret_state);
    pthread_mutex_unlock(&limits->lock);
    return taken;
}

void limits_give(struct limits *limits, const char *tenant, enum limits_kind kind, uint64_t amount)
{
    struct entry *entry;

    pthread_mutex_lock(&limits->lock);
    entry = place_of(limits, tenant);
    if (entry->tenant[0] != '\0')
        entry->buckets[kind].level_milli += (int64_t)min_u64(amount, INT64_MAX / 4000) * 1000;
    pthread_mutex_unlock(&limits->lock);
}

bool limits_enter(struct limits *limits, const char *tenant, uint32_t count, int64_t now_ms)
{
    struct entry *entry;
    bool enters;

    pthread_mutex_lock(&limits->lock);
    entry = entry_of(limits, tenant, now_ms);
    enters = entry != NULL && entry->running + count <= LIMITS_TENANT_RUNNING_MAX;
    if (enters)
        entry->running += count;
    pthread_mutex_unlock(&limits->lock);
    return enters;
}

void limits_leave(struct limits *limits, const char *tenant, uint32_t count)
{
    struct entry *entry;

    pthread_mutex_lock(&limits->lock);
    entry = place_of(limits, tenant);
    check(entry->running >= count);
    entry->running -= count;
    pthread_mutex_unlock(&limits->lock);
}
