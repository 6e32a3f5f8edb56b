/* Tables made from keys.h by its own macros, and the draft that they describe. */
#include "scenario/table.h"

#define KEY_ROW(keys_kind, field, default_value, least, most, names, text) \
    {.name = #field, .kind = KEY_##keys_kind, .offset = (uint32_t)offsetof(KEY_OWNER, field), \
     .default_text = default_value, .min = least, .max = most, .choices = names, .about = text},

#define KEY_OWNER struct keys_run
static const struct key run_keys[] = {RUN_KEYS(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct keys_slo
static const struct key slo_keys[] = {SLO_KEYS(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct keys_fleet
static const struct key fleet_keys[] = {FLEET_KEYS(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct keys_pool
static const struct key pool_keys[] = {POOL_KEYS(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct keys_step
static const struct key step_keys[] = {STEP_KEYS(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct keys_workload
static const struct key workload_keys[] = {WORKLOAD_KEYS(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct keys_trace
static const struct key trace_keys[] = {TRACE_KEYS(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct keys_arrivals
static const struct key arrivals_keys[] = {ARRIVAL_KEYS(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct keys_length
static const struct key length_keys[] = {LENGTH_KEYS(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct keys_adapters
static const struct key adapter_keys[] = {ADAPTER_KEYS(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct keys_sessions
static const struct key session_keys[] = {SESSION_KEYS(KEY_ROW)};
#undef KEY_OWNER

/* keys.h's tables by the name they have there. */
#define ROWS_RUN_KEYS run_keys
#define ROWS_SLO_KEYS slo_keys
#define ROWS_FLEET_KEYS fleet_keys
#define ROWS_POOL_KEYS pool_keys
#define ROWS_STEP_KEYS step_keys
#define ROWS_WORKLOAD_KEYS workload_keys
#define ROWS_TRACE_KEYS trace_keys
#define ROWS_ARRIVAL_KEYS arrivals_keys
#define ROWS_LENGTH_KEYS length_keys
#define ROWS_ADAPTER_KEYS adapter_keys
#define ROWS_SESSION_KEYS session_keys

/* Keys before each section: the sum of those of the sections above. */
enum section_first {
#define X(id, parent, path, name, field, keys, about) \
    SECTION_FIRST_##id, SECTION_LAST_##id = SECTION_FIRST_##id + (0 keys(KEY_ONE)) - 1,
    SECTIONS(X)
#undef X
    SECTION_KEYS_TOTAL
};
_Static_assert(SECTION_KEYS_TOTAL == FIXED_ORIGINS, "every key has an origin");
_Static_assert(SECTION_FIRST_STEP == SECTION_LAST_POOL + 1, "an entry of pools is one run of keys");

static const struct section sections[SECTION_COUNT] = {
#define X(id, parent_id, path_text, name_text, field, keys_macro, text)               \
    [SECTION_##id] = {.parent = SECTION_##parent_id, .path = path_text, .name = name_text, \
                      .keys = ROWS_##keys_macro, .keys_count = ARRAY_COUNT(ROWS_##keys_macro), \
                      .offset = (uint32_t)offsetof(struct draft_values, field),       \
                      .first = SECTION_FIRST_##id, .about = text},
    SECTIONS(X)
#undef X
};

/* Answers are shorter than prompts; everything else of LENGTH_KEYS is alike. */
static const struct {
    enum section_id section;
    const char *name;
    const char *default_text;
} defaults_that_differ[] = {
    {SECTION_OUTPUT, "mean_tokens", "200"},
    {SECTION_OUTPUT, "sigma", "0.8"},
    {SECTION_OUTPUT, "max_tokens", "2000"},
};

const char *key_default(enum section_id id, const struct key *key)
{
    for (size_t i = 0; i < ARRAY_COUNT(defaults_that_differ); i++) {
        if (defaults_that_differ[i].section == id && strcmp(defaults_that_differ[i].name, key->name) == 0)
            return defaults_that_differ[i].default_text;
    }
    return key->default_text;
}

const struct section *section_at(enum section_id id)
{
    check(id < SECTION_COUNT);
    return &sections[id];
}

static bool name_equal(const char *name, const char *text, size_t count)
{
    return strlen(name) == count && memcmp(name, text, count) == 0;
}

enum section_id section_child(enum section_id parent, const char *name, size_t count)
{
    for (uint32_t i = SECTION_RUN + 1; i < SECTION_COUNT; i++) {
        if (sections[i].parent == parent && name_equal(sections[i].name, name, count))
            return (enum section_id)i;
    }
    return SECTION_COUNT;
}

const struct key *section_key(enum section_id id, const char *name, size_t count)
{
    const struct section *section = section_at(id);

    for (uint32_t i = 0; i < section->keys_count; i++) {
        if (name_equal(section->keys[i].name, name, count))
            return &section->keys[i];
    }
    return NULL;
}

void draft_init(struct draft *draft)
{
    memset(draft, 0, sizeof(*draft));
    for (uint32_t id = 0; id < SECTION_COUNT; id++) {
        for (uint32_t i = 0; i < sections[id].keys_count; i++) {
            const struct key *key = &sections[id].keys[i];
            const char *text = key_default((enum section_id)id, key);
            char why[WHY_MAX];
            bool is_set = key_set(key, draft_field(draft, (struct scope){(enum section_id)id, POOL_DEFAULTS}, key),
                                  text, strlen(text), why);

            check(is_set);
        }
    }
}

static bool is_of_pool(enum section_id id)
{
    return id == SECTION_POOL || id == SECTION_STEP;
}

void *draft_field(struct draft *draft, struct scope scope, const struct key *key)
{
    size_t offset = section_at(scope.section)->offset + key->offset;

    if (scope.pool != POOL_DEFAULTS) {
        check(is_of_pool(scope.section));
        check(scope.pool < POOLS_MAX);
        offset += offsetof(struct draft_values, pools) - offsetof(struct draft_values, pool) +
                  scope.pool * sizeof(struct keys_pool);
    }
    return (char *)&draft->values + offset;
}

/* The number of an origin, from the section's first key and the key's place in it. */
static uint32_t origin_index(struct scope scope, uint32_t key_index)
{
    uint32_t index = section_at(scope.section)->first + key_index;

    if (scope.pool == POOL_DEFAULTS)
        return index;
    return FIXED_ORIGINS + scope.pool * POOL_ORIGINS + index - sections[SECTION_POOL].first;
}

struct origin *draft_origin(struct draft *draft, struct scope scope, const struct key *key)
{
    return &draft->origins[origin_index(scope, (uint32_t)(key - section_at(scope.section)->keys))];
}

void draft_inherit(struct draft *draft, uint32_t index)
{
    struct origin *to = &draft->origins[FIXED_ORIGINS + index * POOL_ORIGINS];

    check(index < POOLS_MAX);
    draft->values.pools[index] = draft->values.pool;
    memcpy(to, &draft->origins[sections[SECTION_POOL].first], POOL_ORIGINS * sizeof(*to));
    for (uint32_t i = 0; i < POOL_ORIGINS; i++)
        to[i].is_inherited = true;
}

/* The origin of the field that lies at an address in draft->values. */
static const struct origin *origin_of(const struct draft *draft, const void *field)
{
    size_t offset = (size_t)((const char *)field - (const char *)&draft->values);
    uint32_t pool = POOL_DEFAULTS;
    const struct origin *found = NULL;

    check(offset < sizeof(draft->values));
    if (offset >= offsetof(struct draft_values, pools)) {
        pool = (uint32_t)((offset - offsetof(struct draft_values, pools)) / sizeof(struct keys_pool));
        offset = offset - offsetof(struct draft_values, pools) - pool * sizeof(struct keys_pool) +
                 offsetof(struct draft_values, pool);
    }
    for (uint32_t id = 0; id < SECTION_COUNT && found == NULL; id++) {
        for (uint32_t i = 0; i < sections[id].keys_count; i++) {
            if (sections[id].offset + sections[id].keys[i].offset == offset)
                found = &draft->origins[origin_index((struct scope){(enum section_id)id, pool}, i)];
        }
    }
    check(found != NULL);
    return found;
}

struct location draft_where(const struct draft *draft, struct location otherwise, const void *const *fields, uint32_t count)
{
    const struct origin *latest = NULL;

    for (uint32_t i = 0; i < count; i++) {
        const struct origin *origin = origin_of(draft, fields[i]);

        if (origin->layer > 0 && (latest == NULL || origin->layer > latest->layer))
            latest = origin;
    }
    return latest != NULL ? latest->location : otherwise;
}

bool choice_at(const char *choices, uint32_t index, const char **ret_name, size_t *ret_count)
{
    const char *name = choices;

    for (; index > 0; index--) {
        name = strchr(name, '|');
        if (name == NULL)
            return false;
        name++;
    }
    *ret_name = name;
    *ret_count = strcspn(name, "|");
    return true;
}
