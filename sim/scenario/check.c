/* Keys against each other: what each of them allows but all together do not. Every message names the keys, shows the
 * arithmetic and says what would help. */
#include <math.h>
#include <unistd.h>

#include "fleet/event.h"
#include "model/footprint.h"
#include "scenario/memory.h"
#include "scenario/resolve.h"
#include "host/words.h"

struct checking {
    const struct draft *draft;
    const struct scenario *scenario;
    struct messages *messages;
    struct location top;
};

#define ERROR(checking, at, ...) messages_add((checking)->messages, SEVERITY_ERROR, (at), __VA_ARGS__)
#define WARNING(checking, at, ...) messages_add((checking)->messages, SEVERITY_WARNING, (at), __VA_ARGS__)
#define AT(...) GIVEN_AT(checking->draft, checking->top, __VA_ARGS__)
#define PLURAL(count) ((count) == 1 ? "" : "s")

static void check_run(const struct checking *checking)
{
    const struct keys_run *run = &checking->draft->values.run;
    const struct keys_workload *workload = &checking->draft->values.workload;
    char texts[2][NUMBER_TEXT_MAX];

    if (run->warmup_s >= run->duration_s)
        ERROR(checking, AT(&run->warmup_s, &run->duration_s),
              "warmup_s %s must be below duration_s %s, or nothing is counted", number_text(run->warmup_s, texts[0]),
              number_text(run->duration_s, texts[1]));
    if (workload->requests_max > 0 && run->warmup_requests >= workload->requests_max)
        ERROR(checking, AT(&run->warmup_requests, &workload->requests_max),
              "warmup_requests %llu must be below workload.requests_max %llu, or nothing is counted",
              (unsigned long long)run->warmup_requests, (unsigned long long)workload->requests_max);
    if (workload->source == KEY_SOURCE_SESSIONS && workload->sessions.users > run->requests_max)
        WARNING(checking, AT(&workload->sessions.users, &run->requests_max),
                "workload.sessions.users %llu may have more requests in flight than requests_max %llu: the rest is refused",
                (unsigned long long)workload->sessions.users, (unsigned long long)run->requests_max);
}

static void check_batch(const struct checking *checking, const struct keys_pool *keys, const struct shape *shape)
{
    unsigned long long tp = keys->tp;

    if (keys->batching == KEY_BATCHING_CHUNKED && keys->rows_max > keys->token_budget)
        ERROR(checking, AT(&keys->rows_max, &keys->token_budget, &keys->batching),
              "rows_max %llu needs as many tokens a step, but token_budget is %llu; raise token_budget or lower rows_max",
              (unsigned long long)keys->rows_max, (unsigned long long)keys->token_budget);
    if ((keys->block_tokens & (keys->block_tokens - 1)) != 0)
        ERROR(checking, AT(&keys->block_tokens), "block_tokens must be a power of two (1, 2, 4 ... 256), not %llu",
              (unsigned long long)keys->block_tokens);
    if (keys->gpus_per_node % tp != 0 && tp < keys->gpus_per_node)
        ERROR(checking, AT(&keys->tp, &keys->gpus_per_node),
              "gpus_per_node %llu is not a multiple of tp %llu: a replica would lie on two nodes; choose a tp that divides it",
              (unsigned long long)keys->gpus_per_node, tp);
    if (shape->heads % tp != 0)
        ERROR(checking, AT(&keys->tp, keys->base), "tp %llu does not divide the %u attention heads of %s", tp, shape->heads,
              shape->name);
}

/* "72.0 GB": enough to follow a sum. */
#define GB(bytes) ((bytes) / 1e9)

static void check_memory(const struct checking *checking, uint32_t index)
{
    const struct scenario_pool *pool = &checking->scenario->pools[index];
    const struct keys_pool *keys = &checking->draft->values.pools[index];
    struct pool_memory memory = pool_memory(pool, adapter_bytes_max(checking->scenario, pool));
    struct location at = AT(keys->gpu, keys->base, &keys->tp, &keys->slots_bytes, &keys->slots_count, &keys->kv_bytes,
                            &keys->memory_share, &keys->reserve_bytes, &keys->token_budget);
    const char *remedy = memory.weights_bytes > memory.usable_bytes
                             ? "raise tp or choose a larger gpu"
                             : "lower slots_bytes (or slots_count, kv_bytes, token_budget), raise tp or choose a larger gpu";
    double wanted = keys->kv_bytes > 0 ? memory.kv_bytes : 0;
    double request_tokens = (double)checking->scenario->workload.prompt.max_tokens +
                            (double)checking->scenario->workload.output.max_tokens;

    if (memory.left_bytes < wanted || memory.kv_blocks == 0) {
        ERROR(checking, at,
              "%s does not fit a GPU of %s: %.1f GB x memory_share %g = %.1f; less weights %.1f, slots %.1f, activations "
              "%.1f, reserve %.1f (weights and slots / tp %llu) leaves %.1f GB for a KV cache of %.1f; %s",
              pool->shape.name, pool->profile.name, GB(pool->profile.memory_bytes), keys->memory_share,
              GB(memory.usable_bytes), GB(memory.weights_bytes), GB(memory.slots_bytes), GB(memory.activations_bytes),
              GB(memory.reserve_bytes), (unsigned long long)keys->tp, GB(memory.left_bytes), GB(wanted), remedy);
        return;
    }
    if (checking->scenario->workload.source != KEY_SOURCE_TRACE && (double)memory.kv_tokens < request_tokens)
        WARNING(checking, at,
                "the KV cache of %s holds %llu tokens, and the longest request may have %.0f (workload.prompt.max_tokens + "
                "workload.output.max_tokens): such requests are refused",
                pool->keys.name, (unsigned long long)memory.kv_tokens, request_tokens);
}

static void check_slots(const struct checking *checking, uint32_t index)
{
    const struct scenario_pool *pool = &checking->scenario->pools[index];
    const struct keys_pool *keys = &checking->draft->values.pools[index];
    uint64_t adapter_bytes = adapter_bytes_max(checking->scenario, pool);
    uint64_t held;
    struct location at;

    if (adapter_bytes == 0)
        return;
    held = keys->slots_count > 0 ? keys->slots_count : footprint_fit_count((uint64_t)keys->slots_bytes, adapter_bytes);
    if (held == 0) {
        at = AT(&keys->slots_bytes, &keys->slots_count, &checking->draft->values.workload.adapters.ranks);
        WARNING(checking, at,
                "an adapter of rank %u has %.1f MB on %s, more than slots_bytes (%.1f MB): requests for it are refused",
                adapter_rank_max(checking->scenario), (double)adapter_bytes / 1e6, pool->shape.name,
                keys->slots_bytes / 1e6);
    } else if (keys->max_loras > held) {
        at = AT(&keys->max_loras, &keys->slots_bytes, &keys->slots_count);
        /* Nobody who left both at their defaults meant anything by it. */
        if (at.count == 0 && at.text == checking->top.text)
            return;
        WARNING(checking, at,
                "max_loras %llu is more than the %llu adapter%s of rank %u (%.1f MB) that %s hold: such a batch cannot form",
                (unsigned long long)keys->max_loras, (unsigned long long)held, PLURAL(held),
                adapter_rank_max(checking->scenario), (double)adapter_bytes / 1e6,
                keys->slots_count > 0 ? "slots_count" : "slots_bytes");
    }
}

/* A shared pool stands on capacity that jobs have, of its own kind of GPU, and that nobody takes away under its requests. */
static void check_shared(const struct checking *checking, uint32_t index)
{
    const struct scenario *scenario = checking->scenario;
    const struct keys_pool *keys = &checking->draft->values.pools[index];
    const struct keys_capacity *capacities = checking->draft->values.capacities;
    bool found = false;

    if (!keys->shared)
        return;
    if (keys->replicas_max == 0)
        ERROR(checking, AT(&keys->shared), "a shared pool's replicas come and go: it needs replicas_max");
    for (uint32_t i = 0; i < scenario->capacity_count; i++) {
        const struct scenario_capacity *capacity = &scenario->capacity[i];

        if (!capacity->keys.serve_ok)
            continue;
        if (capacity->keys.spot || capacity->keys.fail_mean_h > 0)
            ERROR(checking, AT(&capacities[i].serve_ok),
                  "capacity %u is spot, or fails: a lost replica's requests would have to be sent again, which is not simulated", i);
        found = found || (strcmp(capacity->profile.name, scenario->pools[index].profile.name) == 0 &&
                          capacity->keys.gpus_per_node >= keys->tp);
    }
    if (!found)
        ERROR(checking, AT(&keys->shared),
              "a shared pool needs jobs, and capacity that is serve_ok with GPUs of its own kind, at least tp of them a node");
}

/* Replicas that come and go: a base's belong together, since it is the base's load that is looked at. */
static void check_scale(const struct checking *checking, uint32_t index)
{
    const struct scenario *scenario = checking->scenario;
    const struct keys_pool *pools = checking->draft->values.pools;
    const struct keys_pool *keys = &pools[index];

    for (uint32_t j = 0; j < scenario->pools_count; j++)
        if (j != index && keys->replicas_max > 0 && scenario->pools[j].base_index == scenario->pools[index].base_index)
            ERROR(checking, AT(&keys->replicas_max),
                  "pool %u serves the same base: the replicas of a base can only come and go where one pool has them all", j);
    if (keys->replicas_max > 0 && keys->replicas_min > keys->replicas_max)
        ERROR(checking, AT(&keys->replicas_min, &keys->replicas_max), "replicas_min %llu is above replicas_max %llu",
              (unsigned long long)keys->replicas_min, (unsigned long long)keys->replicas_max);
    else if (keys->replicas_max > 0 && !keys->shared && (keys->replicas < keys->replicas_min || keys->replicas > keys->replicas_max))
        ERROR(checking, AT(&keys->replicas, &keys->replicas_max),
              "replicas %llu, how many there are at the start, must lie between replicas_min %llu and replicas_max %llu",
              (unsigned long long)keys->replicas, (unsigned long long)keys->replicas_min,
              (unsigned long long)keys->replicas_max);
}

/* A bill of some of the GPUs would pass for one of all. */
static void check_prices(const struct checking *checking)
{
    const struct scenario *scenario = checking->scenario;
    const struct keys_pool *pools = checking->draft->values.pools;
    uint32_t with = NONE_INDEX;
    uint32_t without = NONE_INDEX;

    for (uint32_t i = 0; i < scenario->pools_count; i++) {
        if (pools[i].shared)
            continue;
        if (pool_price_per_h(&scenario->pools[i]) > 0)
            with = i;
        else
            without = i;
    }
    if (with != NONE_INDEX && without != NONE_INDEX)
        ERROR(checking, AT(&pools[with].price_per_h, &pools[without].price_per_h),
              "the GPUs of pool %u have a price and those of pool %u have none, so their bill would be of a part; give each "
              "pool a price_per_h, or none", with, without);
}

/* A base's merged replicas belong together, as it is one adapter's traffic that is looked at. */
static void check_merge(const struct checking *checking, uint32_t index)
{
    const struct scenario *scenario = checking->scenario;
    const struct keys_pool *keys = &checking->draft->values.pools[index];

    if (keys->merge_max == 0)
        return;
    if (keys->shared)
        ERROR(checking, AT(&keys->merge_max, &keys->shared),
              "merge_max %llu in a shared pool: merging overwrites the base, which jobs on the same GPU train on; give the hot "
              "adapters' base a pool of its own", (unsigned long long)keys->merge_max);
    for (uint32_t j = 0; j < scenario->pools_count; j++)
        if (j != index && scenario->pools[j].base_index == scenario->pools[index].base_index)
            ERROR(checking, AT(&keys->merge_max),
                  "pool %u serves the same base: an adapter can only get a replica of its own where one pool has them all", j);
    if (keys->merge_rows > keys->rows_max)
        ERROR(checking, AT(&keys->merge_rows, &keys->rows_max), "merge_rows %llu is above rows_max %llu: no step has so many",
              (unsigned long long)keys->merge_rows, (unsigned long long)keys->rows_max);
    if (keys->merge_rows > 0 && keys->merge_adapters > keys->merge_rows)
        ERROR(checking, AT(&keys->merge_adapters, &keys->merge_rows), "merge_adapters %llu is above merge_rows %llu",
              (unsigned long long)keys->merge_adapters, (unsigned long long)keys->merge_rows);
}

static void check_pools(const struct checking *checking)
{
    const struct scenario *scenario = checking->scenario;
    const struct keys_pool *pools = checking->draft->values.pools;
    double shares = 0;
    uint64_t replicas = 0;

    for (uint32_t i = 0; i < scenario->pools_count; i++) {
        uint32_t errors_before = checking->messages->errors;

        check_batch(checking, &pools[i], &scenario->pools[i].shape);
        if (checking->messages->errors == errors_before) {
            check_memory(checking, i);
            check_slots(checking, i);
        }
        shares += pools[i].traffic_share;
        check_scale(checking, i);
        check_shared(checking, i);
        check_merge(checking, i);
        replicas += pool_replicas_all(&pools[i]);
        for (uint32_t j = 0; j < i; j++) {
            if (scenario->pools[j].base_index == scenario->pools[i].base_index &&
                pools[j].traffic_share != pools[i].traffic_share)
                ERROR(checking, AT(&pools[i].traffic_share, &pools[j].traffic_share),
                      "pools %u and %u serve the same base, so their traffic_share, which is the base's, must be equal", j, i);
        }
    }
    check_prices(checking);
    if (shares <= 0)
        ERROR(checking, AT(&pools[0].traffic_share), "traffic_share must be above 0 for at least one pool");
    if (replicas > 1024)
        ERROR(checking, AT(&pools[0].replicas, &pools[scenario->pools_count - 1].replicas),
              "the pools have %llu replicas together; a fleet has at most 1024", (unsigned long long)replicas);
}

/* A file that a key names; false, with a message, when it is not there. */
static bool check_file(const struct checking *checking, const char *field, const char *key, const char *needed_by)
{
    char path[KEY_TEXT_MAX * 2];

    if (field[0] == '\0') {
        ERROR(checking, checking->top, "%s is needed when %s", key, needed_by);
        return false;
    }
    scenario_path(checking->scenario, field, path);
    if (access(path, R_OK) == 0)
        return true;
    ERROR(checking, AT(field), "%s: no file can be read at %s (relative paths start at the scenario's directory)", key, path);
    return false;
}

static void check_length(const struct checking *checking, const struct keys_length *length, const char *section)
{
    char key[64];
    char needed_by[64];
    char texts[1][NUMBER_TEXT_MAX];

    if (length->min_tokens > length->max_tokens)
        ERROR(checking, AT(&length->min_tokens, &length->max_tokens), "%s.min_tokens %llu is above max_tokens %llu", section,
              (unsigned long long)length->min_tokens, (unsigned long long)length->max_tokens);
    if (length->law == KEY_LENGTH_CONSTANT) {
        if (length->mean_tokens != floor(length->mean_tokens))
            ERROR(checking, AT(&length->mean_tokens), "%s.mean_tokens must be whole when the law is constant, not %s", section,
                  number_text(length->mean_tokens, texts[0]));
        if (length->mean_tokens < (double)length->min_tokens || length->mean_tokens > (double)length->max_tokens)
            ERROR(checking, AT(&length->mean_tokens, &length->min_tokens, &length->max_tokens),
                  "%s.mean_tokens %s is outside min_tokens %llu to max_tokens %llu", section,
                  number_text(length->mean_tokens, texts[0]), (unsigned long long)length->min_tokens,
                  (unsigned long long)length->max_tokens);
    }
    if (length->law == KEY_LENGTH_EMPIRICAL) {
        snprintf(key, sizeof(key), "%s.trace_path", section);
        snprintf(needed_by, sizeof(needed_by), "%s.law is empirical", section);
        check_file(checking, length->trace_path, key, needed_by);
    }
}

static void check_trace(const struct checking *checking)
{
    const struct keys_trace *trace = &checking->draft->values.workload.trace;
    char path[KEY_TEXT_MAX * 2];

    if (trace->format == KEY_FORMAT_CSV && trace->time_column[0] == '\0')
        ERROR(checking, AT(&trace->format), "workload.trace.time_column is needed when format is csv");
    scenario_path(checking->scenario, trace->path, path);
    if (trace->path_fallback[0] == '\0' || (trace->path[0] != '\0' && access(path, R_OK) == 0)) {
        check_file(checking, trace->path, "workload.trace.path", "workload.source is trace");
        return;
    }
    scenario_path(checking->scenario, trace->path_fallback, path);
    if (access(path, R_OK) != 0)
        ERROR(checking, AT(trace->path, trace->path_fallback),
              "neither workload.trace.path `%.150s` nor path_fallback `%.150s` can be read (relative paths start at the "
              "scenario's directory)",
              trace->path, trace->path_fallback);
}

static void check_jobs_trace(const struct checking *checking)
{
    const struct keys_jobs *jobs = &checking->draft->values.jobs;
    char path[KEY_TEXT_MAX * 2];

    if (jobs->trace_format == KEY_JOBS_CSV && jobs->trace_time_column[0] == '\0' && jobs->trace_runtime_column[0] == '\0')
        ERROR(checking, AT(&jobs->trace_format),
              "jobs.trace_time_column or trace_runtime_column is needed when trace_format is csv");
    scenario_path(checking->scenario, jobs->trace_path, path);
    if (jobs->trace_path_fallback[0] == '\0' || (jobs->trace_path[0] != '\0' && access(path, R_OK) == 0)) {
        check_file(checking, jobs->trace_path, "jobs.trace_path", "jobs.source is trace");
        return;
    }
    scenario_path(checking->scenario, jobs->trace_path_fallback, path);
    if (access(path, R_OK) != 0)
        ERROR(checking, AT(jobs->trace_path, jobs->trace_path_fallback),
              "neither jobs.trace_path `%.150s` nor trace_path_fallback `%.150s` can be read (relative paths start at the "
              "scenario's directory)",
              jobs->trace_path, jobs->trace_path_fallback);
}

static void check_job_kinds(const struct checking *checking)
{
    const struct keys_job_kind *kinds = checking->draft->values.job_kinds;
    const struct scenario *scenario = checking->scenario;
    double shares = 0;

    for (uint32_t i = 0; i < scenario->job_kinds_count; i++) {
        const char *name = scenario->job_kinds[i].keys.name;

        shares += kinds[i].share;
        if (kinds[i].gpus > 1 && kinds[i].isolation != ISOLATION_EXCLUSIVE)
            ERROR(checking, AT(&kinds[i].gpus, &kinds[i].isolation),
                  "jobs.kinds.%u asks for %llu GPUs, and only whole ones can be gathered; isolation must be exclusive", i,
                  (unsigned long long)kinds[i].gpus);
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(scenario->job_kinds[j].keys.name, name) == 0)
                ERROR(checking, AT(kinds[i].name), "jobs.kinds.%u and jobs.kinds.%u are both called `%.100s`", j, i, name);
        }
    }
    if (shares <= 0)
        ERROR(checking, AT(&kinds[0].share), "jobs.kinds: share must be above 0 for at least one kind");
}

static void check_burst(const struct checking *checking)
{
    const struct keys_jobs *jobs = &checking->draft->values.jobs;
    const struct scenario *scenario = checking->scenario;
    bool is_known = jobs->burst_kind[0] == '\0';

    if (jobs->burst_jobs == 0)
        return;
    if (jobs->burst_tenant >= jobs->tenants)
        ERROR(checking, AT(&jobs->burst_tenant, &jobs->tenants),
              "jobs.burst_tenant %llu: there are %llu tenants (jobs.tenants), counted from 0",
              (unsigned long long)jobs->burst_tenant, (unsigned long long)jobs->tenants);
    for (uint32_t i = 0; i < scenario->job_kinds_count; i++)
        is_known |= strcmp(scenario->job_kinds[i].keys.name, jobs->burst_kind) == 0;
    if (!is_known)
        ERROR(checking, AT(jobs->burst_kind), "jobs.burst_kind `%.100s` is the name of no kind in jobs.kinds",
              jobs->burst_kind);
}

static void check_jobs(const struct checking *checking)
{
    if (checking->draft->values.jobs.source == KEY_JOBS_NONE)
        return;
    if (checking->draft->values.jobs.source == KEY_JOBS_TRACE)
        check_jobs_trace(checking);
    check_job_kinds(checking);
    check_burst(checking);
}

static void check_upgrade_base(const struct checking *checking, const char *field, const char *key, uint32_t base)
{
    if (base == NONE_INDEX)
        ERROR(checking, AT(field, &checking->draft->values.upgrade.at_h), "upgrade.%s `%.100s` is the base of no pool", key, field);
}

static void check_upgrade(const struct checking *checking)
{
    const struct keys_upgrade *keys = &checking->draft->values.upgrade;
    const struct scenario_upgrade *upgrade = &checking->scenario->upgrade;
    char texts[2][NUMBER_TEXT_MAX];

    if (keys->at_h <= 0)
        return;
    if (publications_max(checking->scenario) == 0) {
        ERROR(checking, AT(&keys->at_h),
              "an upgrade publishes what is retrained: it needs requests (workload.source), room for adapters "
              "(workload.adapters.publish_max), jobs (jobs.source) and scheduler.evaluate");
        return;
    }
    check_upgrade_base(checking, keys->from, "from", upgrade->from);
    check_upgrade_base(checking, keys->to, "to", upgrade->to);
    if (upgrade->from == NONE_INDEX || upgrade->to == NONE_INDEX)
        return;
    if (upgrade->from == upgrade->to)
        ERROR(checking, AT(keys->from, keys->to), "upgrade.from and upgrade.to are both `%.100s`", keys->to);
    else if (upgrade->kind == NONE_INDEX)
        ERROR(checking, AT(keys->kind, keys->to), "no kind in jobs.kinds%s%.100s%s trains on %.100s, which the retraining needs",
              keys->kind[0] != '\0' ? " called `" : "", keys->kind, keys->kind[0] != '\0' ? "`" : "", keys->to);
    for (uint32_t i = 0; i < checking->scenario->pools_count && keys->drain_by_h > 0; i++) {
        const struct keys_pool *pool = &checking->draft->values.pools[i];

        if (checking->scenario->pools[i].base_index == upgrade->from && pool->replicas_max > 0)
            ERROR(checking, AT(&pool->replicas_max, &keys->drain_by_h),
                  "pools.%u scales (replicas_max %llu), and a pool that drains by a date (upgrade.drain_by_h) must not: "
                  "its floor would bring the old base back", i, (unsigned long long)pool->replicas_max);
        if (checking->scenario->pools[i].base_index == upgrade->from && pool->merge_max > 0)
            ERROR(checking, AT(&pool->merge_max, &keys->drain_by_h),
                  "pools.%u merges (merge_max %llu), and a pool that drains by a date (upgrade.drain_by_h) must not", i,
                  (unsigned long long)pool->merge_max);
    }
    if (keys->drain_by_h > 0 && keys->drain_by_h < keys->at_h)
        ERROR(checking, AT(&keys->drain_by_h, &keys->at_h), "upgrade.drain_by_h %s is before at_h %s",
              number_text(keys->drain_by_h, texts[0]), number_text(keys->at_h, texts[1]));
}

static void check_adapters(const struct checking *checking)
{
    const struct keys_adapters *adapters = &checking->draft->values.workload.adapters;
    double weights = 0;

    if (adapters->law == KEY_ADAPTER_EMPIRICAL)
        check_file(checking, adapters->counts_path, "workload.adapters.counts_path", "workload.adapters.law is empirical");
    if (adapters->ranks.count == 0)
        ERROR(checking, AT(&adapters->ranks), "workload.adapters.ranks must have at least one rank");
    for (uint32_t i = 0; i < adapters->ranks.count; i++) {
        if (adapters->ranks.values[i] != floor(adapters->ranks.values[i]))
            ERROR(checking, AT(&adapters->ranks), "workload.adapters.ranks must be whole numbers, not %g",
                  adapters->ranks.values[i]);
    }
    if (adapters->rank_weights.count == 0)
        return;
    for (uint32_t i = 0; i < adapters->rank_weights.count; i++)
        weights += adapters->rank_weights.values[i];
    if (adapters->rank_weights.count != adapters->ranks.count)
        ERROR(checking, AT(&adapters->rank_weights, &adapters->ranks),
              "workload.adapters.rank_weights has %u value%s for %u rank%s; give one a rank, or none",
              adapters->rank_weights.count, PLURAL(adapters->rank_weights.count), adapters->ranks.count,
              PLURAL(adapters->ranks.count));
    else if (weights <= 0)
        ERROR(checking, AT(&adapters->rank_weights), "workload.adapters.rank_weights must not all be 0");
}

void scenario_cross_check(const struct draft *draft, struct location top, const struct scenario *scenario,
                          struct messages *messages)
{
    const struct checking checking = {.draft = draft, .scenario = scenario, .messages = messages, .top = top};
    const struct keys_workload *workload = &draft->values.workload;
    uint32_t errors_before = messages->errors;

    check_run(&checking);
    check_adapters(&checking);
    check_length(&checking, &workload->prompt, "workload.prompt");
    check_length(&checking, &workload->output, "workload.output");
    if (workload->source == KEY_SOURCE_TRACE)
        check_trace(&checking);
    check_jobs(&checking);
    check_upgrade(&checking);
    if (messages->errors == errors_before)
        check_pools(&checking);
}
