/* What operators of model servers with many adapters look at, under the names that their dashboards and gateways have for it: vLLM's. By base
 * only; an adapter is told by the beginning of its hash, for a model's name is its tenant's word. Times are the control plane's: what a
 * client sees, but for the network. */
#include <stdio.h>
#include <time.h>

#include "control/api/chat.h"

/* Distinct ones under way at a base that are told of: more are counted and not named. */
#define ADAPTERS_SHOWN 64
#define KEY_DIGITS 12

static const double bounds_s[CHAT_SPREAD_BOUNDS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                    2.5,   5,      10,    20,   40,    80,   160, 320,  640};

/* --- measured --------------------------------------------------------------------------------------------------------------- */

static int64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* `count` times so long. */
static void add(struct chat_spread *spread, int64_t span_ns, uint32_t count)
{
    int bound = 0;

    while (bound < CHAT_SPREAD_BOUNDS && (double)span_ns * 1e-9 > bounds_s[bound])
        bound++;
    atomic_fetch_add_explicit(&spread->counts[bound], count, memory_order_relaxed);
    atomic_fetch_add_explicit(&spread->ns, (uint64_t)span_ns * count, memory_order_relaxed);
}

void chat_measure_asked(struct chat_choice *choice)
{
    choice->asked_at_ns = clock_ns();
}

/* Tokens that come in one frame share the time since the last one. */
void chat_measure_tokens(struct chat_choice *choice, uint32_t tokens)
{
    struct chat_measures *measures = choice->chat->base->measures;
    const int64_t now_ns = clock_ns();

    if (tokens == 0)
        return;
    if (choice->last_token_at_ns == 0)
        add(&measures->first_token, now_ns - choice->asked_at_ns, 1);
    else
        add(&measures->between_tokens, (now_ns - choice->last_token_at_ns) / tokens, tokens);
    choice->last_token_at_ns = now_ns;
}

void chat_measure_end(struct chat_choice *choice, const struct core_end *end)
{
    struct chat_measures *measures = choice->chat->base->measures;

    atomic_fetch_add_explicit(&measures->prompt_tokens, end->prompt_tokens, memory_order_relaxed);
    atomic_fetch_add_explicit(&measures->output_tokens, end->output_tokens, memory_order_relaxed);
    atomic_fetch_add_explicit(&measures->stopped, end->reason == CORE_END_STOP, memory_order_relaxed);
    atomic_fetch_add_explicit(&measures->cut, end->reason == CORE_END_LENGTH, memory_order_relaxed);
    atomic_fetch_add_explicit(&measures->aborted, end->reason == CORE_END_CANCELLED, memory_order_relaxed);
    if (end->reason == CORE_END_STOP || end->reason == CORE_END_LENGTH)
        add(&measures->whole, clock_ns() - choice->asked_at_ns, 1);
}

/* --- said ------------------------------------------------------------------------------------------------------------------- */

struct adapters_seen {
    const uint8_t *keys[ADAPTERS_SHOWN]; /* only while the core is looked at */
    bool at_server[ADAPTERS_SHOWN];
    char names[ADAPTERS_SHOWN][KEY_DIGITS + 1];
    uint32_t count;
};
struct base_seen {
    uint32_t running, waiting;
    struct adapters_seen adapters;
};

static void see_adapter(struct adapters_seen *seen, const struct core_seen *request)
{
    uint32_t at = 0;

    while (at < seen->count && memcmp(seen->keys[at], request->key, 32) != 0)
        at++;
    if (at == ADAPTERS_SHOWN)
        return;
    if (at == seen->count) {
        for (int i = 0; i < KEY_DIGITS / 2; i++)
            snprintf(&seen->names[at][2 * i], 3, "%02x", request->key[i]);
        seen->keys[at] = request->key;
        seen->count++;
    }
    seen->at_server[at] |= request->at_server;
}

static void see(void *context, const struct core_seen *request)
{
    struct base_seen *base = (struct base_seen *)context + request->base;

    base->running += request->at_server;
    base->waiting += !request->at_server;
    if (request->key != NULL)
        see_adapter(&base->adapters, request);
}

static void say_spread(struct exposition *exposition, const char *name, const struct exposition_label *labels, struct chat_spread *spread)
{
    uint64_t counts[CHAT_SPREAD_BOUNDS + 1];

    for (int i = 0; i <= CHAT_SPREAD_BOUNDS; i++)
        counts[i] = atomic_load_explicit(&spread->counts[i], memory_order_relaxed);
    exposition_histogram(exposition, name, labels, bounds_s, counts, CHAT_SPREAD_BOUNDS,
                         (double)atomic_load_explicit(&spread->ns, memory_order_relaxed) * 1e-9);
}

static void join(const struct adapters_seen *seen, bool at_server, char ret_names[ADAPTERS_SHOWN * (KEY_DIGITS + 1) + 1])
{
    size_t at = 0;

    ret_names[0] = '\0';
    for (uint32_t i = 0; i < seen->count; i++)
        if (seen->at_server[i] == at_server)
            at += (size_t)sprintf(ret_names + at, "%s%s", at > 0 ? "," : "", seen->names[i]);
}

/* Gateways read it by its labels; the value is when it was so. */
static void say_adapters(struct exposition *exposition, struct chats *chats, struct core *core, const struct base_seen *seen)
{
    char running[ADAPTERS_SHOWN * (KEY_DIGITS + 1) + 1];
    char waiting[sizeof(running)];
    char most[16];

    exposition_family(exposition, "vllm:lora_requests_info", "gauge",
                      "Adapters of requests under way, by the beginning of their hashes, not by name; max_lora: in one step. When it was so.");
    for (uint32_t i = 0; i < chats->bases_count; i++) {
        const struct exposition_label labels[] = {{"model_name", chats->bases[i].core->name}, {"max_lora", most},
                                                  {"running_lora_adapters", running}, {"waiting_lora_adapters", waiting}, {NULL, NULL}};

        snprintf(most, sizeof(most), "%u", core_base_counts(core, i).step_adapters_max);
        join(&seen[i].adapters, true, running);
        join(&seen[i].adapters, false, waiting);
        exposition_sample(exposition, "vllm:lora_requests_info", "", labels, (double)(api_now_ms() / 1000));
    }
}

static void say_ends(struct exposition *exposition, struct chats *chats)
{
    exposition_family(exposition, "vllm:request_success_total", "counter", "Answers that ended; abort: their client left.");
    for (uint32_t i = 0; i < chats->bases_count; i++) {
        struct chat_measures *measures = chats->bases[i].measures;
        const struct {
            const char *reason;
            uint64_t count;
        } ends[] = {{"stop", atomic_load(&measures->stopped)}, {"length", atomic_load(&measures->cut)}, {"abort", atomic_load(&measures->aborted)}};

        for (size_t j = 0; j < ARRAY_COUNT(ends); j++) {
            const struct exposition_label labels[] = {{"model_name", chats->bases[i].core->name}, {"finished_reason", ends[j].reason}, {NULL, NULL}};

            exposition_sample(exposition, "vllm:request_success_total", "", labels, (double)ends[j].count);
        }
    }
}

#define NUMBERS(X)                                                                                                                  \
    X("vllm:num_requests_running", "gauge", "Answers that a model server is at.", seen[i].running)                                  \
    X("vllm:num_requests_waiting", "gauge", "Answers that wait for a model server, their adapter, or room.", seen[i].waiting)       \
    X("vllm:kv_cache_usage_perc", "gauge", "Of the model servers' KV cache, the part that is used; 1 is all.",                      \
      core_base_counts(core, i).kv_used_permille / 1000.0)                                                                          \
    X("vllm:prompt_tokens_total", "counter", "Tokens of prompts of answers that ended.", atomic_load(&bases[i].measures->prompt_tokens)) \
    X("vllm:generation_tokens_total", "counter", "Tokens of answers that ended.", atomic_load(&bases[i].measures->output_tokens))   \
    X("berth_replicas_up", "gauge", "Model servers that serve.", core_base_counts(core, i).up)
#define SPREADS(X)                                                                                                                  \
    X("vllm:time_to_first_token_seconds", "From the request to its first token.", first_token)                                      \
    X("vllm:time_per_output_token_seconds", "Between two tokens of an answer.", between_tokens)                                     \
    X("vllm:e2e_request_latency_seconds", "From the request to its last token.", whole)

void chat_measures_say(struct chats *chats, struct core *core, struct exposition *exposition)
{
    const struct chat_base *bases = chats->bases;
    struct base_seen *seen = calloc(chats->bases_count + 1, sizeof(*seen));

    check(seen != NULL);
    core_look(core, see, seen);
#define LABELS (const struct exposition_label[]){{"model_name", bases[i].core->name}, {NULL, NULL}}
#define X(name, type, about, value)                                                  \
    exposition_family(exposition, name, type, about);                                \
    for (uint32_t i = 0; i < chats->bases_count; i++)                                \
        exposition_sample(exposition, name, "", LABELS, (double)(value));
    NUMBERS(X)
#undef X
#define X(name, about, spread)                                                       \
    exposition_family(exposition, name, "histogram", about);                         \
    for (uint32_t i = 0; i < chats->bases_count; i++)                                \
        say_spread(exposition, name, LABELS, &bases[i].measures->spread);
    SPREADS(X)
#undef X
    say_ends(exposition, chats);
    say_adapters(exposition, chats, core, seen);
    free(seen);
}
