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

#define KEY_OWNER struct keys_jobs
static const struct key jobs_keys[] = {JOBS_KEYS(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct keys_job_kind
static const struct key job_kind_keys[] = {JOB_KIND_KEYS(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct keys_scheduler
static const struct key scheduler_keys[] = {SCHEDULER_KEYS(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct keys_capacity
static const struct key capacity_keys[] = {CAPACITY_KEYS(KEY_ROW)};
#undef KEY_OWNER
#define KEY_OWNER struct keys_upgrade
static const struct key upgrade_keys[] = {UPGRADE_KEYS(KEY_ROW)};
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
#define ROWS_JOBS_KEYS jobs_keys
#define ROWS_JOB_KIND_KEYS job_kind_keys
#define ROWS_SCHEDULER_KEYS scheduler_keys
#define ROWS_CAPACITY_KEYS capacity_keys
#define ROWS_UPGRADE_KEYS upgrade_keys

_Static_assert(SECTION_KEYS_TOTAL == FIXED_ORIGINS, "every key has an origin");

static const struct section sections[SECTION_COUNT] = {
#define X(id, parent_id, path_text, name_text, field, keys_macro, text)               \
    [SECTION_##id] = {.parent = SECTION_##parent_id, .path = path_text, .name = name_text, \
                      .keys = ROWS_##keys_macro, .keys_count = ARRAY_COUNT(ROWS_##keys_macro), \
                      .offset = (uint32_t)offsetof(struct draft_values, field),       \
                      .first = SECTION_FIRST_##id, .about = text},
    SECTIONS(X)
#undef X
};

/* Origins before each list's: those of the sections, and of the lists above. */
enum list_first {
    LIST_FIRST_BASE = FIXED_ORIGINS - 1,
#define X(id, parent, name, path, entry, last, most, field, example, noun) \
    LIST_FIRST_##id, LIST_LAST_##id = LIST_FIRST_##id + (most) * LIST_ENTRY_ORIGINS(entry, last) - 1,
    LISTS(X)
#undef X
};

static const struct list lists[LIST_COUNT] = {
#define X(id, parent_id, name_text, path_text, entry_id, last_id, most, field, example_text, noun_text)               \
    [LIST_##id] = {.parent = SECTION_##parent_id, .entry = SECTION_##entry_id, .last = SECTION_##last_id,              \
                   .name = name_text, .path = path_text, .example = example_text, .noun = noun_text,                   \
                   .entries_max = most, .offset = (uint32_t)offsetof(struct draft_values, field),                      \
                   .entry_bytes = (uint32_t)sizeof(((struct draft_values *)NULL)->field[0]),                           \
                   .origins = LIST_FIRST_##id, .entry_origins = LIST_ENTRY_ORIGINS(entry_id, last_id)},
    LISTS(X)
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

const struct list *list_at(enum list_id id)
{
    check(id < LIST_COUNT);
    return &lists[id];
}

static bool name_equal(const char *name, const char *text, size_t count)
{
    return strlen(name) == count && memcmp(name, text, count) == 0;
}

enum list_id list_child(enum section_id parent, const char *name, size_t count)
{
    for (uint32_t i = 0; i < LIST_COUNT; i++) {
        if (lists[i].parent == parent && name_equal(lists[i].name, name, count))
            return (enum list_id)i;
    }
    return LIST_COUNT;
}

enum list_id list_of(enum section_id id)
{
    for (uint32_t i = 0; i < LIST_COUNT; i++) {
        if (id >= lists[i].entry && id <= lists[i].last)
            return (enum list_id)i;
    }
    return LIST_COUNT;
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
            bool is_set = key_set(key, draft_field(draft, (struct scope){(enum section_id)id, ENTRY_DEFAULTS}, key),
                                  text, strlen(text), why);

            check(is_set);
        }
    }
}

void *draft_field(struct draft *draft, struct scope scope, const struct key *key)
{
    size_t offset = section_at(scope.section)->offset + key->offset;

    if (scope.entry != ENTRY_DEFAULTS) {
        const struct list *list = list_at(list_of(scope.section));

        check(scope.entry < list->entries_max);
        offset += list->offset - section_at(list->entry)->offset + (size_t)scope.entry * list->entry_bytes;
    }
    return (char *)&draft->values + offset;
}

/* The number of an origin, from the section's first key and the key's place in it. */
static uint32_t origin_index(struct scope scope, uint32_t key_index)
{
    uint32_t index = section_at(scope.section)->first + key_index;
    const struct list *list;

    if (scope.entry == ENTRY_DEFAULTS)
        return index;
    list = list_at(list_of(scope.section));
    return list->origins + scope.entry * list->entry_origins + index - section_at(list->entry)->first;
}

struct origin *draft_origin(struct draft *draft, struct scope scope, const struct key *key)
{
    return &draft->origins[origin_index(scope, (uint32_t)(key - section_at(scope.section)->keys))];
}

void draft_inherit(struct draft *draft, enum list_id id, uint32_t index)
{
    const struct list *list = list_at(id);
    const struct section *start = section_at(list->entry);
    struct origin *to = &draft->origins[list->origins + index * list->entry_origins];
    char *values = (char *)&draft->values;

    check(index < list->entries_max);
    memcpy(values + list->offset + (size_t)index * list->entry_bytes, values + start->offset, list->entry_bytes);
    memcpy(to, &draft->origins[start->first], list->entry_origins * sizeof(*to));
    for (uint32_t i = 0; i < list->entry_origins; i++)
        to[i].is_inherited = true;
}

/* An address in a list becomes that in the section its entries start from, and the entry's index. */
static size_t offset_without_entry(size_t offset, uint32_t *ret_entry)
{
    *ret_entry = ENTRY_DEFAULTS;
    for (uint32_t i = 0; i < LIST_COUNT; i++) {
        size_t bytes = (size_t)lists[i].entries_max * lists[i].entry_bytes;

        if (offset < lists[i].offset || offset >= lists[i].offset + bytes)
            continue;
        *ret_entry = (uint32_t)((offset - lists[i].offset) / lists[i].entry_bytes);
        return (offset - lists[i].offset) % lists[i].entry_bytes + section_at(lists[i].entry)->offset;
    }
    return offset;
}

/* The origin of the field that lies at an address in draft->values. */
static const struct origin *origin_of(const struct draft *draft, const void *field)
{
    size_t offset = (size_t)((const char *)field - (const char *)&draft->values);
    const struct origin *found = NULL;
    uint32_t entry;

    check(offset < sizeof(draft->values));
    offset = offset_without_entry(offset, &entry);
    for (uint32_t id = 0; id < SECTION_COUNT && found == NULL; id++) {
        for (uint32_t i = 0; i < sections[id].keys_count; i++) {
            if (sections[id].offset + sections[id].keys[i].offset == offset)
                found = &draft->origins[origin_index((struct scope){(enum section_id)id, entry}, i)];
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
