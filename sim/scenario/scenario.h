/* A scenario: what a person writes in YAML, read, checked and completed with defaults. A file may hold `variants:`
 * (name -> overrides of any keys); each variant is a whole scenario of its own, on the same seed and so the same luck. */
#ifndef SCENARIO_SCENARIO_H
#define SCENARIO_SCENARIO_H

#include <stdio.h>

#include "hardware/profile.h"
#include "model/shape.h"
#include "scenario/keys.h"

#define VARIANTS_MAX 64
#define VARIANT_NAME_MAX 64

/* A pool with its names resolved. */
struct scenario_pool {
    struct keys_pool keys;
    struct shape shape;         /* of keys.base */
    struct gpu_profile profile; /* of keys.gpu, with keys.step's overrides applied */
    uint32_t base_index;        /* bases are numbered by first appearance; pools of one base share the number */
};

/* Replicas that the pool may have at once. */
static inline uint64_t pool_replicas_most(const struct keys_pool *keys)
{
    return keys->replicas_max > 0 ? keys->replicas_max : keys->replicas;
}

/* Of one of its GPUs, where they are its own; 0: nobody has said. */
static inline double pool_price_per_h(const struct scenario_pool *pool)
{
    return pool->keys.price_per_h > 0 ? pool->keys.price_per_h : pool->profile.price_per_h;
}

/* With those that are merged for one adapter. */
static inline uint64_t pool_replicas_all(const struct keys_pool *keys)
{
    return pool_replicas_most(keys) + keys->merge_max;
}

/* A kind of job with its names resolved. */
struct scenario_job_kind {
    struct keys_job_kind keys;  /* named: kind-0, ... where the file does not */
    struct shape shape;         /* of keys.base */
    uint32_t base_index;        /* the pools' number where a pool has this base; others follow behind bases_count */
};

/* One flavor of capacity with its names resolved; its number is the flavor's. */
struct scenario_capacity {
    struct keys_capacity keys;
    struct gpu_profile profile;
};

/* An upgrade with its names resolved; of use only where keys.at_h > 0. */
struct scenario_upgrade {
    struct keys_upgrade keys;
    uint32_t from;              /* bases of pools */
    uint32_t to;
    uint32_t kind;              /* of jobs */
};

struct scenario {
    RUN_KEYS(KEY_FIELD)
    struct keys_slo slo;
    struct keys_fleet fleet;
    struct keys_workload workload;
    struct scenario_pool pools[POOLS_MAX];
    uint32_t pools_count;
    uint32_t bases_count;
    struct keys_jobs jobs;
    struct scenario_job_kind job_kinds[JOB_KINDS_MAX];
    uint32_t job_kinds_count;
    struct keys_scheduler scheduler;
    struct scenario_capacity capacity[CAPACITY_MAX];
    uint32_t capacity_count;        /* 0 without jobs */
    struct scenario_upgrade upgrade;
    uint32_t bases_and_jobs_count;  /* >= bases_count: with the bases that only jobs have */
    char variant[VARIANT_NAME_MAX]; /* "default" when the file has no variants */
    char directory[KEY_TEXT_MAX];   /* of the file: relative paths start here */
};

struct scenario_set {
    struct scenario *items;  /* [count], one a variant, in the file's order */
    uint32_t count;
    char *text;              /* the file as read, and the --set lines as comments below it: kept with results */
};

/* Reads `path`, applies `settings` ("key=value", dotted paths; `pool.x` or `pools.0.x`), completes and checks. On
 * failure writes one or more messages `file:line:column: ...` with remedy to `errors` and returns STATUS_INVALID (or
 * STATUS_NOT_FOUND, STATUS_IO for the file itself). The set is the caller's; scenario_set_free accepts {0}. */
enum status scenario_read(const char *path, const char *const *settings, uint32_t settings_count, FILE *errors,
                          struct scenario_set *ret_set);
void scenario_set_free(struct scenario_set *set);

/* The table of all keys: path, kind, default, range, about. With json, an array of objects. */
void scenario_keys_print(FILE *out, bool json);

/* The path of a file named in a scenario, relative to its directory; result in `ret_path` of KEY_TEXT_MAX * 2. */
void scenario_path(const struct scenario *scenario, const char *path, char *ret_path);

#endif
