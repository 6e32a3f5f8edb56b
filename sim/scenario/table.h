/* The keys of keys.h as data: sections that contain keys, and one setter for them all. A draft is a scenario being
 * read: every field, and who gave it. */
#ifndef SCENARIO_TABLE_H
#define SCENARIO_TABLE_H

#include "scenario/keys.h"
#include "scenario/messages.h"

#define KEY_KINDS(X)                                        \
    X(TEXT, "text")                                         \
    X(COUNT, "a whole number")                              \
    X(REAL, "a number")                                     \
    X(FLAG, "true or false")                                \
    X(CHOICE, "a choice")                                   \
    X(LIST, "a list of numbers, such as [8, 16]")           \
    X(EVICT, "the name of an evict policy")                 \
    X(QUEUE, "the name of a queue policy")                  \
    X(ROUTE, "the name of a route policy")                  \
    X(ORDER, "the name of an order policy")                 \
    X(PLACE, "the name of a place policy")                  \
    X(SCALE, "the name of a scale policy")
enum key_kind {
#define X(kind, wants) KEY_##kind,
    KEY_KINDS(X)
#undef X
};

struct key {
    const char *name;
    enum key_kind kind;
    uint32_t offset;           /* of the field in its section's struct */
    const char *default_text;
    double min;
    double max;
    const char *choices;       /* "a|b|c", or NULL */
    const char *about;
};

/* The root's keys; the other sections' structs are in keys.h. */
struct keys_run { RUN_KEYS(KEY_FIELD) };

struct draft_values {
    struct keys_run run;
    struct keys_slo slo;
    struct keys_fleet fleet;
    struct keys_pool pool;
    struct keys_workload workload;
    struct keys_jobs jobs;
    struct keys_scheduler scheduler;
    struct keys_capacity capacity;
    struct keys_upgrade upgrade;
    struct keys_pool pools[POOLS_MAX];
    struct keys_job_kind job_kinds[JOB_KINDS_MAX];
    struct keys_capacity capacities[CAPACITY_MAX];
};

/* X(ID, parent, path, name, field of draft_values, keys, about); a parent stands before its children, and the section that
 * a list's entries start from stands right before the sections below it: the entries have them all. */
#define SECTIONS(X)                                                                                                     \
    X(RUN, RUN, "", "", run, RUN_KEYS, "the run")                                                                       \
    X(SLO, RUN, "slo", "slo", slo, SLO_KEYS, "what counts as good")                                                     \
    X(FLEET, RUN, "fleet", "fleet", fleet, FLEET_KEYS, "routing")                                                       \
    X(POOL, RUN, "pool", "pool", pool, POOL_KEYS,                                                                       \
      "the only pool, or what each entry of `pools` starts from (pools.0.gpu, pools.1.gpu, ...)")                       \
    X(STEP, POOL, "pool.step", "step", pool.step, STEP_KEYS, "overrides of the GPU profile's step model")               \
    X(WORKLOAD, RUN, "workload", "workload", workload, WORKLOAD_KEYS, "where requests come from")                       \
    X(TRACE, WORKLOAD, "workload.trace", "trace", workload.trace, TRACE_KEYS, "source trace")                           \
    X(ARRIVALS, WORKLOAD, "workload.arrivals", "arrivals", workload.arrivals, ARRIVAL_KEYS, "source generated")         \
    X(PROMPT, WORKLOAD, "workload.prompt", "prompt", workload.prompt, LENGTH_KEYS, "lengths of prompts")                \
    X(OUTPUT, WORKLOAD, "workload.output", "output", workload.output, LENGTH_KEYS, "lengths of answers")                \
    X(ADAPTERS, WORKLOAD, "workload.adapters", "adapters", workload.adapters, ADAPTER_KEYS, "who asks for what")        \
    X(SESSIONS, WORKLOAD, "workload.sessions", "sessions", workload.sessions, SESSION_KEYS, "source sessions: closed loop") \
    X(JOBS, RUN, "jobs", "jobs", jobs, JOBS_KEYS, "fine-tuning, evaluation and interactive work")                       \
    X(JOB_KIND, JOBS, "jobs.kind", "kind", jobs.kind, JOB_KIND_KEYS,                                                    \
      "the only kind of job, or what each entry of `jobs.kinds` starts from")                                           \
    X(SCHEDULER, RUN, "scheduler", "scheduler", scheduler, SCHEDULER_KEYS, "placing, quotas and the physics of jobs")   \
    X(CAPACITY, RUN, "gpus", "gpus", capacity, CAPACITY_KEYS,                                                           \
      "the only capacity for jobs, or what each entry of `capacity` starts from")                                       \
    X(UPGRADE, RUN, "upgrade", "upgrade", upgrade, UPGRADE_KEYS, "a base takes another's place")
enum section_id {
#define X(id, parent, path, name, field, keys, about) SECTION_##id,
    SECTIONS(X)
#undef X
    SECTION_COUNT
};

struct section {
    enum section_id parent;
    const char *path;
    const char *name;
    const struct key *keys;
    uint32_t keys_count;
    uint32_t offset;     /* of its struct in draft_values */
    uint32_t first;      /* number of its first key, counting through all sections */
    const char *about;
};
const struct section *section_at(enum section_id id);
/* SECTION_COUNT, NULL: none of that name. */
enum section_id section_child(enum section_id parent, const char *name, size_t count);
const struct key *section_key(enum section_id id, const char *name, size_t count);
/* As the file would have it, where that differs from keys.h: the same table serves prompts and answers. */
const char *key_default(enum section_id id, const struct key *key);

/* Lists of alike entries. Each entry starts from the values of a section, `entry`, and has its keys and those of the
 * sections below it, the last of which is `last`; a list that is not written has one entry, that section itself.
 * X(ID, parent section, name, path, entry section, last section, entries at most, field of draft_values, a key to show, noun)
 *
 * To add one: the section and the list's line here, the array in struct draft_values, and the section's rows in table.c. */
#define LISTS(X)                                                                                                        \
    X(POOLS, RUN, "pools", "pools", POOL, STEP, POOLS_MAX, pools, "replicas", "pool")                                   \
    X(JOB_KINDS, JOBS, "kinds", "jobs.kinds", JOB_KIND, JOB_KIND, JOB_KINDS_MAX, job_kinds, "gpus", "kind")             \
    X(CAPACITY, RUN, "capacity", "capacity", CAPACITY, CAPACITY, CAPACITY_MAX, capacities, "nodes", "capacity")
enum list_id {
#define X(id, parent, name, path, entry, last, most, field, example, noun) LIST_##id,
    LISTS(X)
#undef X
    LIST_COUNT
};

struct list {
    enum section_id parent;
    enum section_id entry;
    enum section_id last;
    const char *name;
    const char *path;
    const char *example;
    const char *noun;
    uint32_t entries_max;
    uint32_t offset;        /* of the array in draft_values */
    uint32_t entry_bytes;
    uint32_t origins;       /* number of the first entry's first origin */
    uint32_t entry_origins;
};
const struct list *list_at(enum list_id id);
/* LIST_COUNT: none of that name. */
enum list_id list_child(enum section_id parent, const char *name, size_t count);
/* Whose entries have this section; LIST_COUNT: none's. */
enum list_id list_of(enum section_id id);

/* Where a section's struct lies: sections of a list's entries have one an entry. */
#define ENTRY_DEFAULTS UINT32_MAX
struct scope {
    enum section_id section;
    uint32_t entry; /* index in the list, or ENTRY_DEFAULTS: the section itself */
};

/* Who gave a value last. layer 0: nobody; 1: the file; 2: its variant; above: the settings in turn. */
struct origin {
    struct location location;
    uint32_t layer;
    bool is_inherited; /* of an entry of a list: given to what it started from */
};

#define KEY_ONE(...) +1
#define SECTION_ORIGINS(id, parent, path, name, field, keys, about) keys(KEY_ONE)
#define FIXED_ORIGINS (0 SECTIONS(SECTION_ORIGINS))

/* Keys before each section: the sum of those of the sections above. */
enum section_first {
#define X(id, parent, path, name, field, keys, about) \
    SECTION_FIRST_##id, SECTION_LAST_##id = SECTION_FIRST_##id + (0 keys(KEY_ONE)) - 1,
    SECTIONS(X)
#undef X
    SECTION_KEYS_TOTAL
};
#define LIST_ENTRY_ORIGINS(entry, last) (SECTION_LAST_##last - SECTION_FIRST_##entry + 1)
#define LIST_ORIGINS(id, parent, name, path, entry, last, most, field, example, noun) +(most) * LIST_ENTRY_ORIGINS(entry, last)

struct draft_list {
    uint32_t count;
    bool is_written; /* otherwise entry 0 is the section that entries start from */
};

struct draft {
    struct draft_values values;
    struct origin origins[FIXED_ORIGINS LISTS(LIST_ORIGINS)];
    struct draft_list lists[LIST_COUNT];
};

void draft_init(struct draft *draft);
void *draft_field(struct draft *draft, struct scope scope, const struct key *key);
struct origin *draft_origin(struct draft *draft, struct scope scope, const struct key *key);
/* The entry becomes a copy of the section that entries start from. */
void draft_inherit(struct draft *draft, enum list_id id, uint32_t index);
/* Where the latest given of these fields of draft->values was given; `otherwise` when none was. */
struct location draft_where(const struct draft *draft, struct location otherwise, const void *const *fields, uint32_t count);

/* Sets a field from text; on failure returns false, leaves it, and says in a clause what is wanted ("must be ..."). */
#define WHY_MAX 512
bool key_set(const struct key *key, void *field, const char *text, size_t count, char *ret_why);
/* One more value of a list; the list must have been emptied. */
bool key_list_add(const struct key *key, struct key_list *list, const char *text, size_t count, char *ret_why);
/* A number in full: no NaN, no infinity, no hexadecimal, no unit. ret_whole is exact when `wants_whole`. */
bool number_read(const char *text, size_t count, bool wants_whole, double *ret_value, uint64_t *ret_whole, char *ret_why);

/* name0|name1: the words of a choice list; false past the end. */
bool choice_at(const char *choices, uint32_t index, const char **ret_name, size_t *ret_count);

#endif
