/* Opening and closing a worker, its clock, and what its two cores say. */
#include "worker/worker.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "engine/model/generation.h"
#include "worker/internal.h"
#include "worker/merged.h"

#define GIB (UINT64_C(1) << 30)

void worker_config_init(struct worker_config *config)
{
    *config = (struct worker_config){.device = &device_cpu,
                                     .kernels = kernel_set_best(),
                                     .threads = 1,
                                     .requests_max = 256,
                                     .sequences_max = 64,
                                     .token_budget = 512,
                                     .max_loras = 32,
                                     .slots = 32,
                                     .rank_max = 64,
                                     .adapters_max = 1000,
                                     .host_bytes = GIB};
}

/* --- time ------------------------------------------------------------------------------------------------------------------- */

static int64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

void worker_look_at_clock(struct worker *worker)
{
    worker->now_ns = clock_ns() - worker->started_ns;
}

/* --- the cores -------------------------------------------------------------------------------------------------------------- */

void worker_tell_replica(struct worker *worker, struct replica_event *event)
{
    check(!worker->telling_replica);
    worker->telling_replica = true;
    event->at_ns = worker->now_ns;
    event->seq = ++worker->replica_seq;
    replica_turn(worker->replica, &worker->replica_host, event, &worker->replica_commands);
    worker->telling_replica = false;
}

void worker_tell_node(struct worker *worker, struct node_event *event)
{
    check(!worker->telling_node);
    worker->telling_node = true;
    event->at_ns = worker->now_ns;
    event->seq = ++worker->node_seq;
    node_turn(worker->node, &worker->node_host, event, &worker->node_commands);
    worker->telling_node = false;
}

static void replica_perform(void *self, const struct replica_event *event, const struct replica_command *command)
{
    struct worker *worker = self;

    (void)event;
    switch ((enum replica_command_kind)command->kind) {
    case REPLICA_COMMAND_RUN:
        worker->run_pending = true;
        worker->run_command = command->id;
        return;
    case REPLICA_COMMAND_LOAD:
        load_begin(worker, command);
        return;
    case REPLICA_COMMAND_EVICT:
        load_evicted(worker, command);
        return;
    case REPLICA_COMMAND_REFUSE:
        request_said_refused(worker, command);
        return;
    case REPLICA_COMMAND_DONE:
        request_said_done(worker, command);
        return;
    case REPLICA_COMMAND_PREEMPT:
        request_said_preempted(worker, command);
        return;
    case REPLICA_COMMAND_DRAINED:
        worker->drained = true;
        return;
    case REPLICA_COMMAND_NONE:
    case REPLICA_COMMAND_COUNT:
        break;
    }
    check(false && "a replica core said nothing that exists");
}

static void replica_arm(void *self, int64_t wakeup_at_ns)
{
    ((struct worker *)self)->replica_tick_ns = wakeup_at_ns;
}

static void node_perform(void *self, const struct node_event *event, const struct node_command *command)
{
    (void)event;
    load_node_command(self, command);
}

static void node_arm(void *self, int64_t wakeup_at_ns)
{
    ((struct worker *)self)->node_tick_ns = wakeup_at_ns;
}

static bool tick(struct worker *worker)
{
    bool due = false;

    while (worker->replica_tick_ns <= worker->now_ns) {
        struct replica_event event;

        memset(&event, 0, sizeof(event));
        event.kind = REPLICA_EVENT_TICK;
        worker_tell_replica(worker, &event);
        due = true;
    }
    while (worker->node_tick_ns <= worker->now_ns) {
        struct node_event event;

        memset(&event, 0, sizeof(event));
        event.kind = NODE_EVENT_TICK;
        worker_tell_node(worker, &event);
        due = true;
    }
    return due;
}

static void settle(struct worker *worker)
{
    if (!worker->settle_due)
        return;
    worker->settle_due = false;
    for (uint32_t i = 0; i < worker->versions_max; i++)
        if (worker->versions[i].used)
            version_settle(worker, &worker->versions[i]);
}

bool worker_pump(struct worker *worker)
{
    bool changed;

    worker_look_at_clock(worker);
    requests_cancel_due(worker);
    changed = tick(worker);
    changed |= loads_pump(worker);
    if (worker->run_pending) {
        worker_step(worker);
        changed = true;
    }
    settle(worker);
    changed |= tick(worker);
    return changed || worker->run_pending || worker->cancel_due || worker->settle_due;
}

int worker_fd(const struct worker *worker)
{
    return loader_fd(worker->loader);
}

void worker_drain(struct worker *worker)
{
    struct replica_event event;

    if (worker->draining)
        return;
    worker->draining = true;
    worker_look_at_clock(worker);
    memset(&event, 0, sizeof(event));
    event.kind = REPLICA_EVENT_DRAIN;
    worker_tell_replica(worker, &event);
}

bool worker_drained(const struct worker *worker)
{
    return worker->drained;
}

/* --- opening ---------------------------------------------------------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Sizes that were left to us; returns the number of KV blocks. */
static uint64_t fill_sizes(struct worker *worker)
{
    struct worker_config *config = &worker->config;
    const struct dims *dims = &worker->model->config.dims;
    int32_t rank = lora_rank_padded((int32_t)config->rank_max);
    uint64_t adapter;
    uint64_t block;
    uint64_t sequence;

    if (!config->mode_chosen)
        config->mode = forward_default_mode(worker->model);
    adapter = (uint64_t)pool_aligned(lora_packed_bytes(dims, config->mode, rank, (1u << LORA_MODULE_COUNT) - 1));
    block = 2 * (uint64_t)dims->layers * (uint64_t)dims->kv_heads * KV_BLOCK_TOKENS * (uint64_t)dims->head_dim *
            act_bytes(config->mode);
    worker->positions_max = config->positions_max > 0 ? config->positions_max
                                                      : (uint32_t)least((uint64_t)worker->model->config.positions_max, 8192);
    sequence = (worker->positions_max + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS * block;
    if (config->kv_bytes == 0)
        config->kv_bytes = max_u64(least(config->sequences_max * sequence, GIB), sequence);
    if (config->pool_bytes == 0)
        config->pool_bytes = max_u64(least(config->slots * adapter, GIB), adapter);
    config->pool_bytes = (uint64_t)pool_aligned((int64_t)config->pool_bytes);
    return config->kv_bytes / block;
}

static enum status open_engine(struct worker *worker, uint64_t blocks, struct refusal *refusal)
{
    const struct worker_config *config = &worker->config;
    const int32_t vocabulary = worker->model->config.dims.vocabulary;
    struct forward_config forward = {.device = config->device,
                                     .mode = config->mode,
                                     .threads = config->threads,
                                     .kernels = config->kernels,
                                     .deterministic = config->deterministic,
                                     .rows_max = (int32_t)config->token_budget,
                                     .outputs_max = (int32_t)config->sequences_max,
                                     .sequences_max = (int32_t)config->sequences_max,
                                     .segments_max = (int32_t)config->max_loras,
                                     .blocks = (int32_t)blocks,
                                     .positions_max = (int32_t)worker->positions_max,
                                     .slots = (int32_t)config->slots,
                                     .pool_bytes = (int64_t)config->pool_bytes,
                                     .lora_rank_max = lora_rank_padded((int32_t)config->rank_max),
                                     .best = vocabulary < PICK_MAX ? vocabulary : PICK_MAX,
                                     .tp = 1,
                                     .base = config->base_socket != NULL ? &worker->loan.base : NULL};
    enum status status = forward_open(worker->model, &forward, &worker->forward, refusal);

    if (status != STATUS_OK)
        return status;
    worker->best = forward.best;
    worker->logits = malloc((size_t)vocabulary * sizeof(float));
    worker->scratch = sample_scratch_create(vocabulary);
    worker->parts = calloc(config->sequences_max, sizeof(worker->parts[0]));
    worker->part_slots = calloc(config->sequences_max, sizeof(worker->part_slots[0]));
    worker->sequences = calloc(config->requests_max, sizeof(worker->sequences[0]));
    worker->versions = calloc(worker->versions_max, sizeof(worker->versions[0]));
    worker->by_name = calloc(config->adapters_max, sizeof(worker->by_name[0]));
    worker->loader = loader_create(worker->model, worker->forward, (int32_t)config->rank_max, LOADS_MAX + FETCHES_MAX);
    if (worker->logits == NULL || worker->scratch == NULL || worker->parts == NULL || worker->part_slots == NULL ||
        worker->sequences == NULL || worker->versions == NULL || worker->by_name == NULL || worker->loader == NULL ||
        blocks_create(&worker->blocks, (uint32_t)blocks) != STATUS_OK ||
        pool_create(&worker->pool, (int64_t)config->pool_bytes, config->slots) != STATUS_OK)
        return refuse(refusal, STATUS_FULL, "no memory for the tables of a server");
    for (uint32_t i = 0; i < worker->versions_max; i++)
        worker->versions[i] = VERSION_NONE;
    return STATUS_OK;
}

static enum status open_replica(struct worker *worker, uint64_t blocks, struct refusal *refusal)
{
    const struct worker_config *config = &worker->config;
    const struct replica_config replica = {.salt = 1,
                                           .requests_max = config->requests_max,
                                           .rows_max = config->sequences_max,
                                           .token_budget = config->token_budget,
                                           .block_tokens = KV_BLOCK_TOKENS,
                                           .kv_blocks = blocks,
                                           .kv_watermark_permille = 10,
                                           .max_loras = config->max_loras,
                                           .passes_max = 64,
                                           .adapters_max = worker->versions_max,
                                           .tenants_max = WORKER_TENANTS_MAX,
                                           .loads_max = LOADS_MAX,
                                           .prefetch_max = 32,
                                           .prompt_weight = 1,
                                           .output_weight = 2,
                                           .batching = BATCHING_CHUNKED,
                                           .queue = queue_policy_find("vtc"),
                                           .slots = {.unit = CACHE_BYTES,
                                                     .capacity = config->pool_bytes,
                                                     .entries_max = config->slots,
                                                     .evict = evict_policy_find("lru"),
                                                     .cost_ns_per_mib = 100000}};
    const char *field;
    size_t bytes;
    void *memory;

    if (replica_config_validate(&replica, &field) != STATUS_OK)
        return refuse(refusal, STATUS_INVALID, "%s is outside what a server can be", field);
    bytes = replica_bytes(&replica);
    memory = malloc(bytes);
    if (memory == NULL)
        return refuse(refusal, STATUS_FULL, "no memory for the tables of a server");
    worker->replica = replica_create(memory, bytes, &replica);
    worker->replica_host = (struct replica_host){.self = worker, .perform = replica_perform, .arm = replica_arm};
    worker->replica_tick_ns = NEVER_NS;
    return STATUS_OK;
}

static enum status open_node(struct worker *worker, struct refusal *refusal)
{
    const struct node_config node = {.host = {.unit = CACHE_BYTES,
                                              .capacity = worker->config.host_bytes,
                                              .entries_max = worker->versions_max,
                                              .evict = evict_policy_find("lru"),
                                              .cost_ns_per_mib = 1000000},
                                     .wants_max = LOADS_MAX,
                                     .fetches_max = FETCHES_MAX};
    size_t bytes = node_bytes(&node);
    void *memory = malloc(bytes);

    if (memory == NULL)
        return refuse(refusal, STATUS_FULL, "no memory for the tables of a server");
    worker->node = node_create(memory, bytes, &node);
    worker->node_host = (struct node_host){.self = worker, .perform = node_perform, .arm = node_arm};
    worker->node_tick_ns = NEVER_NS;
    return STATUS_OK;
}

/* Merged weights under no name, and a name for weights that are a base's, would both answer with the wrong model. */
static enum status open_merged(struct worker *worker, struct refusal *refusal)
{
    const struct worker_config *config = &worker->config;
    struct refusal none = {{0}};
    enum status status = merged_read(config->model_directory, worker->merged_digest, &none);

    if (status == STATUS_NOT_FOUND && config->merged_as == NULL)
        return STATUS_OK;
    if (status == STATUS_NOT_FOUND)
        return refuse(refusal, STATUS_INVALID, "%s: there is no %s, so no adapter was merged into it", config->model_directory, MERGED_FILE);
    if (status != STATUS_OK)
        return refuse(refusal, status, "%s", none.text);
    if (config->merged_as == NULL || !worker_name_fine(config->merged_as))
        return refuse(refusal, STATUS_INVALID, "%s: an adapter is merged into these weights: say the name that it answers for (--merged-as)",
                      config->model_directory);
    worker->merged = true;
    return STATUS_OK;
}

static enum status open_all(struct worker *worker, struct refusal *refusal)
{
    enum status status = model_open(worker->config.model_directory, &worker->model, refusal);
    uint64_t blocks;

    if (status == STATUS_OK)
        status = open_merged(worker, refusal);
    if (status == STATUS_OK && worker->config.base_socket != NULL)
        status = base_borrow(worker->config.base_socket, worker->config.device, worker->model, NULL, &worker->loan, refusal);
    if (status == STATUS_OK)
        status = generation_ends(worker->config.model_directory, &worker->model->config, worker->eos, &worker->eos_count, refusal);
    if (status != STATUS_OK)
        return status;
    blocks = fill_sizes(worker);
    if (blocks == 0 || blocks > INT32_MAX)
        return refuse(refusal, STATUS_INVALID, "the KV memory holds %llu blocks of %d tokens", (unsigned long long)blocks, KV_BLOCK_TOKENS);
    status = open_engine(worker, blocks, refusal);
    if (status == STATUS_OK)
        status = open_replica(worker, blocks, refusal);
    return status == STATUS_OK ? open_node(worker, refusal) : status;
}

enum status worker_open(const struct worker_config *config, struct worker **ret_worker, struct refusal *refusal)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    enum status status;

    if (worker == NULL)
        return refuse(refusal, STATUS_FULL, "no memory");
    check(config->sequences_max >= 1 && config->requests_max >= 1 && config->adapters_max >= 1);
    worker->config = *config;
    worker->loan = LOAN_NONE;
    worker->config.sequences_max = min_u32(config->sequences_max, config->token_budget);
    /* Retired ones stay for their requests, or until slot and loads are free. One more: a version is made before the one it replaces goes. */
    worker->versions_max = config->adapters_max + config->requests_max + config->slots + LOADS_MAX + FETCHES_MAX + 1;
    worker->started_ns = clock_ns();
    status = open_all(worker, refusal);
    if (status == STATUS_OK) {
        *ret_worker = worker;
        return STATUS_OK;
    }
    worker_close(worker);
    return status;
}

void worker_close(struct worker *worker)
{
    if (worker == NULL)
        return;
    loader_close(worker->loader);
    for (uint32_t i = 0; worker->sequences != NULL && i < worker->config.requests_max; i++) {
        free(worker->sequences[i].tokens);
        free(worker->sequences[i].blocks);
        sample_counts_free(worker->sequences[i].counts);
    }
    for (uint32_t i = 0; worker->versions != NULL && i < worker->versions_max; i++) {
        free(worker->versions[i].source.directory);
        if (worker->versions[i].source.file >= 0)
            close(worker->versions[i].source.file);
        free(worker->versions[i].failure);
        free(worker->versions[i].blob);
    }
    secret_free(worker->secrets);
    free(worker->sequences);
    free(worker->versions);
    free(worker->by_name);
    free(worker->parts);
    free(worker->part_slots);
    free(worker->logits);
    sample_scratch_free(worker->scratch);
    blocks_free(&worker->blocks);
    pool_free(&worker->pool);
    free(worker->replica);
    free(worker->node);
    forward_close(worker->forward);
    loan_return(&worker->loan);
    model_close(worker->model);
    free(worker);
}

/* --- questions -------------------------------------------------------------------------------------------------------------- */

struct worker_state worker_state(const struct worker *worker)
{
    struct worker_state state = worker->counts;

    state.replica = replica_state(worker->replica);
    state.host_used_bytes = node_state(worker->node).used_bytes;
    state.adapters = worker->named_count;
    state.pool_used_bytes = 0;
    for (uint32_t i = 0; i < worker->pool.count; i++)
        state.pool_used_bytes += (uint64_t)worker->pool.blobs[i].bytes;
    return state;
}

const struct model *worker_model(const struct worker *worker)
{
    return worker->model;
}

enum mode worker_mode(const struct worker *worker)
{
    return worker->config.mode;
}

uint32_t worker_positions_max(const struct worker *worker)
{
    return worker->positions_max;
}

/* Blocks: each with one owner, or free. */
static void check_requests(const struct worker *worker)
{
    uint32_t owned = 0;

    for (uint32_t i = 0; i < worker->config.requests_max; i++) {
        const struct worker_sequence *sequence = &worker->sequences[i];

        check(sequence->state == REQUEST_LIVE || (sequence->blocks_count == 0 && sequence->tokens == NULL));
        check(sequence->version == NULL || (sequence->version->used && sequence->version->requests > 0));
        owned += sequence->blocks_count;
    }
    check(owned + worker->blocks.count == worker->blocks.all);
}

static uint32_t requests_of(const struct worker *worker, const struct worker_version *version)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < worker->config.requests_max; i++)
        count += worker->sequences[i].version == version;
    return count;
}

/* What is in the pool is a version's in its slot, or on its way there. */
static void check_versions(const struct worker *worker)
{
    uint32_t named = 0;
    uint32_t blobs = 0;

    for (uint32_t i = 0; i < worker->versions_max; i++) {
        const struct worker_version *version = &worker->versions[i];

        check(version->used || (version->slot < 0 && version->blob == NULL && version->requests == 0 && version->source.directory == NULL));
        if (!version->used)
            continue;
        check(version->id.index == i + 1 && version->requests == requests_of(worker, version));
        check(version->named || version->requests > 0 || version->loading > 0 || version->slot >= 0 || worker->settle_due);
        if (version->slot >= 0)
            (void)pool_offset(&worker->pool, version->slot);
        named += version->named;
        blobs += version->slot >= 0;
    }
    for (uint32_t i = 0; i < LOADS_MAX; i++)
        blobs += worker->loads[i].stage == LOAD_COPYING;
    check(named == worker->named_count && blobs == worker->pool.count);
    for (uint32_t i = 0; i < worker->named_count; i++) {
        const struct worker_version *version = &worker->versions[worker->by_name[i]];

        check(version->used && version->named);
        check(i == 0 || strcmp(worker->versions[worker->by_name[i - 1]].name, version->name) < 0);
    }
}

void worker_check(const struct worker *worker)
{
    replica_check(worker->replica);
    node_check(worker->node);
    pool_check(&worker->pool);
    check_requests(worker);
    check_versions(worker);
}
