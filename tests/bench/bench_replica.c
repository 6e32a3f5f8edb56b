/* replica_step: a STEP_DONE and the RUN that follows it, for batches that only decode, one step and 16 folded steps an
 * event; and a whole request: its arrival, the step that prefills it, its decode steps in one event, its end. */
#include <stdlib.h>

#include "bench/bench.h"
#include "replica/replica.h"

#define ADAPTERS 64u
#define ADAPTERS_ASKED 32u /* max_loras of a batch */
#define ADAPTER_BYTES 83886080u

static struct replica_commands commands;
static void *memory;
static int64_t now_ns;
static uint64_t seq;

static void send(struct replica *replica, struct replica_event *event)
{
    event->at_ns = ++now_ns;
    event->seq = ++seq;
    replica_step(replica, event, &commands);
}

static struct replica *replica_new(void)
{
    const struct replica_config config = {
        .requests_max = 1024,
        .rows_max = 256,
        .token_budget = 2048,
        .block_tokens = 16,
        .kv_blocks = UINT64_C(1) << 27,
        .max_loras = 32,
        .passes_max = 64,
        .adapters_max = ADAPTERS,
        .tenants_max = 16,
        .loads_max = 4,
        .prefetch_max = 32,
        .prompt_weight = 1,
        .output_weight = 2,
        .batching = BATCHING_CHUNKED,
        .queue = &queue_fcfs,
        .slots = {.unit = CACHE_SLOTS, .capacity = ADAPTERS, .entries_max = ADAPTERS, .evict = &evict_lru},
    };
    size_t bytes = replica_bytes(&config);
    struct replica *replica;

    memory = malloc(bytes);
    check(memory != NULL);
    replica = replica_create(memory, bytes, &config);
    for (uint32_t i = 1; i <= ADAPTERS; i++) {
        struct replica_event known = {.kind = REPLICA_EVENT_ADAPTER_KNOWN};

        known.adapter_known.adapter = (adapter_id){i, 1};
        known.adapter_known.bytes = ADAPTER_BYTES;
        known.adapter_known.rank = 16;
        send(replica, &known);
    }
    return replica;
}

static const struct replica_command *last_of(enum replica_command_kind kind)
{
    for (uint32_t i = commands.count; i-- > 0;)
        if (commands.items[i].kind == kind)
            return &commands.items[i];
    return NULL;
}

static void ask(struct replica *replica, uint64_t ordinal, uint32_t slot, uint32_t output_tokens)
{
    struct replica_event request = {.kind = REPLICA_EVENT_REQUEST};

    request.request.request = request_id_make(ordinal, slot);
    request.request.adapter = (adapter_id){(uint32_t)(ordinal % ADAPTERS_ASKED) + 1, 1};
    request.request.prompt_tokens = 100;
    request.request.output_tokens_max = output_tokens;
    send(replica, &request);
}

/* Ends the run in flight after `steps`. */
static void step(struct replica *replica, struct replica_command *run, uint32_t steps)
{
    struct replica_event done = {.kind = REPLICA_EVENT_STEP_DONE, .answers = run->id};
    const struct replica_command *next;

    done.step_done.step = run->run.step;
    done.step_done.busy_ns = 7000000;
    done.step_done.steps = steps;
    send(replica, &done);
    next = last_of(REPLICA_COMMAND_RUN);
    *run = next != NULL ? *next : (struct replica_command){0};
}

/* A request with its adapter's load answered, if one begins. */
static void ask_and_load(struct replica *replica, uint64_t ordinal, uint32_t slot, uint32_t output_tokens)
{
    const struct replica_command *load;

    ask(replica, ordinal, slot, output_tokens);
    load = last_of(REPLICA_COMMAND_LOAD);
    if (load != NULL) {
        struct replica_event arrived = {.kind = REPLICA_EVENT_ADAPTER_ARRIVED, .answers = load->id};

        arrived.adapter_arrived.adapter = load->load.adapter;
        arrived.adapter_arrived.bytes = load->load.bytes;
        arrived.adapter_arrived.tier = TIER_HOST;
        send(replica, &arrived);
    }
}

static void time_decoding(uint32_t rows, uint32_t steps, uint32_t events)
{
    struct replica *replica = replica_new();
    struct replica_command run = {0};
    char what[64];
    double from_s;

    for (uint32_t i = 0; i < rows; i++) {
        const struct replica_command *began;

        ask_and_load(replica, i, i, 1u << 26);
        began = last_of(REPLICA_COMMAND_RUN);
        if (began != NULL)
            run = *began;
    }
    while (replica_plan(replica).count < rows || run.run.prefill_tokens > 0)
        step(replica, &run, 1);
    from_s = bench_cpu_s();
    for (uint32_t i = 0; i < events; i++)
        step(replica, &run, steps);
    snprintf(what, sizeof(what), "step_done, %u rows, %u step%s", rows, steps, steps == 1 ? "" : "s folded");
    bench_print("replica_step", what, bench_cpu_s() - from_s, events);
    free(memory);
}

static void time_requests(uint32_t requests)
{
    struct replica *replica = replica_new();
    struct replica_command run;
    double from_s = 0;

    for (uint32_t i = 0; i < requests + ADAPTERS_ASKED; i++) {
        const struct replica_command *began;

        if (i == ADAPTERS_ASKED) /* all adapters are resident now */
            from_s = bench_cpu_s();
        if (i < ADAPTERS_ASKED)
            ask_and_load(replica, i, 0, 20);
        else
            ask(replica, i, 0, 20);
        began = last_of(REPLICA_COMMAND_RUN);
        check(began != NULL);
        run = *began;
        while (run.id != 0)
            step(replica, &run, run.run.steps_max);
    }
    bench_print("replica_step", "request to done, 3 events", bench_cpu_s() - from_s, requests);
    free(memory);
}

int main(int argc, char **argv)
{
    if (!bench_wanted(argc, argv, "replica_step"))
        return 0;
    time_decoding(12, 1, 2000000);
    time_decoding(12, 16, 2000000);
    time_decoding(64, 1, 500000);
    time_decoding(64, 16, 500000);
    time_requests(2000000);
    return 0;
}
