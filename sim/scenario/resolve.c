/* Looking up what a scenario names: shapes of bases and profiles of GPUs. */
#include "scenario/resolve.h"

#include <stdlib.h>

#include "estimate/config_json.h"
#include "fleet/event.h"
#include "host/words.h"

/* A resolver writes its errors, already in our look, to a stream: they are told below the key that asked. */
static void tell_captured(struct messages *messages, struct location at, const char *key, const char *captured)
{
    messages_add(messages, SEVERITY_ERROR, at, "%s: %.*s", key, (int)strcspn(captured, "\n"), captured);
}

static void suggest_shapes(const char *name, char *ret_names, size_t names_bytes, struct suggestion *ret_suggestion)
{
    const struct shape *shape;

    ret_names[0] = '\0';
    suggestion_begin(ret_suggestion, name, strlen(name));
    for (size_t i = 0; (shape = shape_at(i)) != NULL; i++) {
        size_t used = strlen(ret_names);

        if (shape->averaged)
            continue;
        suggest(ret_suggestion, shape->name, strlen(shape->name));
        snprintf(ret_names + used, names_bytes - used, "%s%s", used > 0 ? ", " : "", shape->name);
    }
}

static bool is_path(const char *name, const char *ending)
{
    size_t count = strlen(name);
    size_t ending_count = strlen(ending);

    return strchr(name, '/') != NULL || (count > ending_count && strcmp(name + count - ending_count, ending) == 0);
}

static void resolve_base(const char *base, struct location at, const struct scenario *scenario,
                         struct messages *messages, struct shape *ret_shape)
{
    const struct shape *shape = shape_find(base);
    struct suggestion suggestion;
    char names[512];
    char path[KEY_TEXT_MAX * 2];
    char shown[EXCERPT_MAX];
    char *captured = NULL;
    size_t captured_count;
    const char *near;
    FILE *errors;

    if (shape != NULL && shape->averaged) {
        messages_add(messages, SEVERITY_ERROR, at,
                     "%s is known only by its size, and a KV cache needs heads; name a model, or give the path of its config.json",
                     shape->name);
        return;
    }
    if (shape != NULL) {
        *ret_shape = *shape;
        return;
    }
    if (!is_path(base, ".json")) {
        suggest_shapes(base, names, sizeof(names), &suggestion);
        near = suggestion_answer(&suggestion);
        messages_add(messages, SEVERITY_ERROR, at, "no shape is called `%s`%s%s%s; there are %s; or give the path of a config.json",
                     excerpt(base, strlen(base), shown), near != NULL ? " (did you mean `" : "",
                     near != NULL ? near : "", near != NULL ? "`?)" : "", names);
        return;
    }
    scenario_path(scenario, base, path);
    errors = open_memstream(&captured, &captured_count);
    check(errors != NULL);
    if (config_json_read(path, errors, ret_shape) != STATUS_OK) {
        fflush(errors);
        tell_captured(messages, at, "base", captured);
    }
    fclose(errors);
    free(captured);
}

/* `gpu`: the key's value in the draft. */
static void resolve_gpu(const char *gpu, struct location at, const char *directory, struct messages *messages,
                        struct gpu_profile *ret_profile)
{
    char *captured = NULL;
    size_t captured_count;
    FILE *errors = open_memstream(&captured, &captured_count);

    check(errors != NULL);
    if (profile_read(gpu, directory, errors, ret_profile) != STATUS_OK) {
        fflush(errors);
        tell_captured(messages, at, "gpu", captured);
    }
    fclose(errors);
    free(captured);
}

/* The range that a profile's field must keep, for the overrides that take its place. */
struct bounds {
    double min;
    double max;
};
static const struct {
#define X(field, min, max, about) struct bounds field;
    PROFILE_KEYS(X)
#undef X
} profile_bounds = {
#define X(field, least, most, about) .field = {least, most},
    PROFILE_KEYS(X)
#undef X
};

static void override_field(double override, struct bounds bounds, const char *name, struct location at,
                           struct messages *messages, double *field)
{
    char texts[3][NUMBER_TEXT_MAX];

    if (override == -1)
        return;
    if (override < bounds.min || override > bounds.max)
        messages_add(messages, SEVERITY_ERROR, at, "%s must be from %s to %s, or -1 for the profile's, not %s", name,
                     number_text(bounds.min, texts[0]), number_text(bounds.max, texts[1]), number_text(override, texts[2]));
    else
        *field = override;
}

static void override_step(const struct draft *draft, uint32_t index, struct location top, struct messages *messages,
                          struct gpu_profile *profile)
{
    const struct keys_step *step = &draft->values.pools[index].step;

#define X(kind, field, default_text, min, max, choices, about)                                                        \
    override_field(step->field, profile_bounds.field, "step." #field, GIVEN_AT(draft, top, &step->field), messages,     \
                   &profile->field);
    STEP_KEYS(X)
#undef X
}

static void number_bases(struct scenario *scenario)
{
    for (uint32_t i = 0; i < scenario->pools_count; i++) {
        struct scenario_pool *pool = &scenario->pools[i];
        uint32_t other = 0;

        while (other < i && strcmp(scenario->pools[other].keys.base, pool->keys.base) != 0)
            other++;
        pool->base_index = other < i ? scenario->pools[other].base_index : scenario->bases_count++;
    }
}

/* A pool without a name is called by its base and its GPU. */
static void name_pool(struct scenario_pool *pool)
{
    char name[SHAPE_NAME_MAX + PROFILE_NAME_MAX + 2];

    if (pool->keys.name[0] != '\0')
        return;
    snprintf(name, sizeof(name), "%s/%s", pool->shape.name, pool->profile.name);
    strcpy(pool->keys.name, name);
}

/* Without jobs their kinds are not looked at: nobody wants a base looked up that nothing uses. */
static void resolve_job_kinds(const struct draft *draft, struct location top, struct messages *messages,
                              struct scenario *scenario)
{
    const struct keys_job_kind *kinds = draft->values.job_kinds;

    scenario->bases_and_jobs_count = scenario->bases_count;
    if (scenario->jobs.source == KEY_JOBS_NONE)
        return;
    scenario->job_kinds_count = draft->lists[LIST_JOB_KINDS].count;
    for (uint32_t i = 0; i < scenario->job_kinds_count; i++) {
        struct scenario_job_kind *kind = &scenario->job_kinds[i];

        kind->keys = kinds[i];
        kind->base_index = NONE_INDEX;
        if (kind->keys.name[0] == '\0')
            snprintf(kind->keys.name, sizeof(kind->keys.name), "kind-%u", i);
        resolve_base(kinds[i].base, GIVEN_AT(draft, top, kinds[i].base), scenario, messages, &kind->shape);
        for (uint32_t j = 0; j < i && kind->base_index == NONE_INDEX; j++)
            if (strcmp(kinds[j].base, kinds[i].base) == 0)
                kind->base_index = scenario->job_kinds[j].base_index;
        for (uint32_t j = 0; j < scenario->pools_count && kind->base_index == NONE_INDEX; j++)
            if (strcmp(scenario->pools[j].keys.base, kinds[i].base) == 0)
                kind->base_index = scenario->pools[j].base_index;
        if (kind->base_index == NONE_INDEX)
            kind->base_index = scenario->bases_and_jobs_count++;
    }
}

/* A flavor without a name is called by its GPU. */
static void name_capacity(struct scenario_capacity *capacity)
{
    char gpu[PROFILE_NAME_MAX]; /* of its own: the compiler cannot tell the parts of a scenario apart */

    memcpy(gpu, capacity->profile.name, sizeof(gpu));
    snprintf(capacity->keys.name, sizeof(capacity->keys.name), "%s%s", gpu, capacity->keys.spot ? "-spot" : "");
}

static void resolve_capacity(const struct draft *draft, struct location top, struct messages *messages,
                             struct scenario *scenario)
{
    const struct keys_capacity *capacities = draft->values.capacities;

    if (scenario->jobs.source == KEY_JOBS_NONE)
        return;
    scenario->capacity_count = draft->lists[LIST_CAPACITY].count;
    for (uint32_t i = 0; i < scenario->capacity_count; i++) {
        struct scenario_capacity *capacity = &scenario->capacity[i];

        capacity->keys = capacities[i];
        resolve_gpu(capacities[i].gpu, GIVEN_AT(draft, top, capacities[i].gpu), scenario->directory, messages,
                    &capacity->profile);
        if (capacity->keys.name[0] == '\0')
            name_capacity(capacity);
    }
}

static uint32_t pool_base(const struct scenario *scenario, const char *base)
{
    for (uint32_t i = 0; i < scenario->pools_count; i++)
        if (strcmp(scenario->pools[i].keys.base, base) == 0)
            return scenario->pools[i].base_index;
    return NONE_INDEX;
}

/* What cannot be found stays NONE_INDEX, for the checks to tell. */
static void resolve_upgrade(const struct keys_upgrade *keys, struct scenario *scenario)
{
    struct scenario_upgrade *upgrade = &scenario->upgrade;

    *upgrade = (struct scenario_upgrade){.keys = *keys, .kind = NONE_INDEX};
    upgrade->from = pool_base(scenario, keys->from);
    upgrade->to = pool_base(scenario, keys->to);
    for (uint32_t i = 0; i < scenario->job_kinds_count && upgrade->kind == NONE_INDEX; i++) {
        const struct scenario_job_kind *kind = &scenario->job_kinds[i];
        bool trains_there = kind->base_index == upgrade->to && kind->keys.stage == STAGE_TRAIN;

        if (trains_there && (keys->kind[0] == '\0' || strcmp(kind->keys.name, keys->kind) == 0))
            upgrade->kind = i;
    }
}

void scenario_resolve(const struct draft *draft, struct location top, struct messages *messages,
                      struct scenario *ret_scenario)
{
    const struct draft_values *values = &draft->values;
    uint32_t errors_before = messages->errors;

#define X(kind, field, default_text, min, max, choices, about) \
    memcpy(&ret_scenario->field, &values->run.field, sizeof(ret_scenario->field));
    RUN_KEYS(X)
#undef X
    ret_scenario->slo = values->slo;
    ret_scenario->fleet = values->fleet;
    ret_scenario->workload = values->workload;
    ret_scenario->jobs = values->jobs;
    ret_scenario->scheduler = values->scheduler;
    ret_scenario->pools_count = draft->lists[LIST_POOLS].count;
    for (uint32_t i = 0; i < ret_scenario->pools_count; i++) {
        struct scenario_pool *pool = &ret_scenario->pools[i];

        pool->keys = values->pools[i];
        resolve_base(values->pools[i].base, GIVEN_AT(draft, top, values->pools[i].base), ret_scenario, messages, &pool->shape);
        resolve_gpu(values->pools[i].gpu, GIVEN_AT(draft, top, values->pools[i].gpu), ret_scenario->directory, messages,
                    &pool->profile);
        override_step(draft, i, top, messages, &pool->profile);
        name_pool(pool);
    }
    number_bases(ret_scenario);
    resolve_job_kinds(draft, top, messages, ret_scenario);
    resolve_capacity(draft, top, messages, ret_scenario);
    resolve_upgrade(&values->upgrade, ret_scenario);
    if (messages->errors == errors_before)
        scenario_cross_check(draft, top, ret_scenario, messages);
}
