/* Every key a scenario file may hold: one table a section, from which the struct, the parser, the checks, `scenario keys`
 * and the documentation follow. A key's unit is the last word of its name; every key has a default.
 *
 * X(kind, field, default, min, max, choices, about)
 *   TEXT   char[KEY_TEXT_MAX]   min, max unused
 *   COUNT  uint64_t             whole numbers; 12e9 is read as one
 *   REAL   double
 *   FLAG   bool                 true, false
 *   CHOICE uint32_t             index into `choices`, "a|b|c"; the enums below name them in the same order
 *   LIST   struct key_list      [8, 16, 32]
 *   EVICT, QUEUE, ROUTE, ORDER, PLACE, SCALE  char[KEY_TEXT_MAX], a policy's name */
#ifndef SCENARIO_KEYS_H
#define SCENARIO_KEYS_H

#include "base/base.h"

#define KEY_TEXT_MAX 256
#define KEY_LIST_MAX 16
#define POOLS_MAX 16
#define CAPACITY_MAX 8 /* flavors */
#define JOB_KINDS_MAX 16

struct key_list {
    uint32_t count;
    double values[KEY_LIST_MAX];
};

/* The top of the file. */
#define RUN_KEYS(X)                                                                                                     \
    X(TEXT, name, "unnamed", 0, 0, NULL, "what the report calls it")                                                    \
    X(TEXT, about, "", 0, 0, NULL, "one sentence for the reader of the report")                                         \
    X(COUNT, seed, "1", 0, 1e18, NULL, "of every random stream")                                                        \
    X(REAL, duration_s, "600", 0.001, 1e9, NULL, "arrivals end here; what is in flight is finished and counted")        \
    X(REAL, warmup_s, "0", 0, 1e9, NULL, "requests that arrive before this are left out of every statistic")            \
    X(COUNT, warmup_requests, "0", 0, 1e12, NULL, "the same by count; the later of the two holds")                      \
    X(REAL, drain_max_s, "3600", 0, 1e9, NULL, "after the last arrival, give up on what is not finished by then")       \
    X(REAL, sample_s, "1", 0.001, 86400, NULL, "interval of the time series")                                           \
    X(COUNT, sample_rows_max, "20000", 10, 1e7, NULL, "a longer series is thinned by doubling its interval")            \
    X(REAL, report_ms, "100", 1, 1e6, NULL, "how often a replica reports its state to the fleet")                       \
    X(FLAG, single_step, "false", 0, 0, NULL, "one event an engine step instead of folding equal ones; equal results")  \
    X(COUNT, requests_max, "65536", 1, 1048576, NULL, "requests in flight in the whole fleet; more are refused (overload)")

/* slo: what counts as good. */
#define SLO_KEYS(X)                                                                                                     \
    X(REAL, ttft_ms, "1000", 0, 1e9, NULL, "time to first token; 0: not part of the objective")                         \
    X(REAL, tpot_ms, "50", 0, 1e9, NULL, "mean time per output token after the first; 0: not part of it")               \
    X(REAL, e2e_s, "0", 0, 1e9, NULL, "end to end; 0: not part of it")

#define FLEET_KEYS(X)                                                                                                   \
    X(ROUTE, route, "affinity", 0, 0, NULL, "which replica serves a request: see berth-sim policies")                   \
    X(REAL, bound, "1.25", 1, 100, NULL, "a replica is busy above bound x the pool's mean outstanding + bound_add_count") \
    X(COUNT, bound_add_count, "4", 0, 1e6, NULL, "see bound")                                                           \
    X(REAL, hot_share, "0.5", 0.01, 100, NULL, "an adapter gets another home for each such part of a replica's fair share of requests") \
    X(REAL, cool_ratio, "0.75", 0.01, 1, NULL, "and loses it below this part of the line it got it at")                 \
    X(REAL, rate_half_life_s, "60", 0.1, 1e6, NULL, "of the request counters behind hot_share")                         \
    X(SCALE, scale, "load", 0, 0, NULL, "how many replicas a base has, where pool.replicas_max lets them come and go")

/* pool: the defaults of every pool, or the only pool; pools: a list of them. */
#define POOL_KEYS(X)                                                                                                    \
    X(TEXT, name, "", 0, 0, NULL, "shown in reports; empty: the base and the GPU")                                      \
    X(TEXT, base, "llama-8b", 0, 0, NULL, "a named shape (berth-sim estimate --shapes) or the path of a config.json")   \
    X(TEXT, gpu, "h100", 0, 0, NULL, "a profile of scenarios/hardware, or a path ending in .yaml")                      \
    X(REAL, traffic_share, "1", 0, 1e6, NULL, "this base's part of the requests, relative to the other bases'")         \
    X(COUNT, replicas, "1", 1, 1024, NULL, "copies of the base")                                                        \
    X(COUNT, tp, "1", 1, 64, NULL, "tensor-parallel degree: GPUs a replica")                                            \
    X(COUNT, gpus_per_node, "8", 1, 64, NULL, "GPUs that share a host's memory and its link to the store")              \
    X(COUNT, rows_max, "256", 1, 65536, NULL, "sequences in a batch")                                                   \
    X(COUNT, token_budget, "2048", 1, 1e6, NULL, "tokens in one step, decodes and prefill chunks together")             \
    X(CHOICE, batching, "chunked", 0, 0, "chunked|prefill-first", "prefill-first: prompts stop all decoding, as in S-LoRA") \
    X(QUEUE, queue, "fcfs", 0, 0, NULL, "which waiting request goes next")                                              \
    X(COUNT, waiting_max, "4096", 1, 500000, NULL, "requests a replica holds, running ones included; more are refused (overload)") \
    X(COUNT, max_loras, "32", 1, 65534, NULL, "distinct adapters in a batch")                                           \
    X(COUNT, passes_max, "64", 1, 1e6, NULL, "how many later requests may be admitted before one that max_loras or slots hold back") \
    X(REAL, slots_bytes, "12e9", 0, 1e13, NULL, "room for resident adapters on a replica's GPUs together")              \
    X(COUNT, slots_count, "0", 0, 65534, NULL, "count slots instead of bytes; 0: bytes")                                \
    X(EVICT, evict, "lru", 0, 0, NULL, "what leaves the GPU slots")                                                     \
    X(COUNT, loads_max, "4", 1, 1024, NULL, "adapters on their way to a replica at once")                               \
    X(COUNT, prefetch_max, "32", 0, 1e6, NULL, "waiting requests beyond the admitted ones whose adapters are fetched ahead") \
    X(REAL, memory_share, "0.9", 0.1, 1, NULL, "of GPU memory that may be used")                                        \
    X(REAL, reserve_bytes, "0", 0, 1e12, NULL, "a GPU: kept free beside that")                                          \
    X(REAL, kv_bytes, "0", 0, 1e14, NULL, "the KV pool of a replica; 0: what memory leaves")                            \
    X(COUNT, block_tokens, "16", 1, 256, NULL, "tokens of a KV block; a power of two")                                  \
    X(COUNT, kv_watermark_permille, "10", 0, 900, NULL, "of the KV pool that admission keeps free")                     \
    X(COUNT, prompt_weight, "1", 0, 1000, NULL, "virtual token counters (queue vtc): service of a prompt token")        \
    X(COUNT, output_weight, "2", 0, 1000, NULL, "and of an output token; only their ratio matters")                     \
    X(REAL, host_bytes, "1e12", 0, 1e15, NULL, "a node's memory for adapters; 0: none, each load comes from the store") \
    X(FLAG, host_warm, "false", 0, 0, NULL, "start with the host tier filled, the most popular adapters first")         \
    X(EVICT, host_evict, "lru", 0, 0, NULL, "what leaves host memory")                                                  \
    X(COUNT, fetches_max, "16", 1, 4096, NULL, "adapters on their way from the store to a node at once")                \
    X(COUNT, fetch_connections, "8", 1, 1024, NULL, "connections an adapter is fetched over")                           \
    X(CHOICE, lora_cost, "ours", 0, 0, "ours|vllm|slora", "whose kernels a step pays for")                              \
    X(REAL, step_jitter, "0", 0, 1, NULL, "relative width of a uniform noise on step times, hashed from replica and step") \
    X(COUNT, replicas_max, "0", 0, 1024, NULL, "replicas come and go with the load, at most so many at once; 0: `replicas`, always") \
    X(COUNT, replicas_min, "1", 1, 1024, NULL, "and never fewer than so many; `replicas` is how many there are at the start") \
    X(REAL, target_outstanding, "32", 0.001, 1e6, NULL, "requests that one replica is meant to have, waiting ones included") \
    X(REAL, scale_up_ratio, "1.2", 1, 100, NULL, "more replicas when there are more than so many times the target for each") \
    X(REAL, scale_down_ratio, "0.7", 0, 1, NULL, "fewer when there are fewer than so many times the target for each")  \
    X(REAL, scale_up_s, "10", 0.001, 1e6, NULL, "and it has been so for so long; the load is looked at four times in it") \
    X(REAL, scale_down_s, "300", 0, 1e6, NULL, "the same, before replicas drain and leave")                             \
    X(REAL, replica_start_s, "10", 0, 1e6, NULL, "process start of a replica, its base being there")                    \
    X(REAL, base_bytes_per_s, "5e9", 1, 1e30, NULL, "a starting replica reads its part of the base so fast, each GPU")  \
    X(REAL, price_per_h, "0", 0, 1e5, NULL, "of one GPU of a pool of its own, in currency units; 0: the profile's, and without that no cost is shown") \
    X(COUNT, merge_max, "0", 0, 1024, NULL, "adapters that may have a replica of their own at once, its weights merged with theirs; 0: none") \
    X(REAL, merge_up_ratio, "1.1", 1, 100, NULL, "an adapter gets one above so many times the break-even, in output tokens a second") \
    X(REAL, merge_down_ratio, "0.8", 0, 1, NULL, "and loses it below so many times the break-even")                     \
    X(REAL, merge_up_s, "60", 0.001, 1e6, NULL, "and it has been so for so long")                                       \
    X(REAL, merge_down_s, "300", 0.001, 1e6, NULL, "the same, before it drains and leaves")                             \
    X(COUNT, merge_rows, "0", 0, 65536, NULL, "the break-even is that of a step with so many rows, and a merged replica has so many requests, the rest goes to the pool; 0: target_outstanding where replicas come and go, else 64, and no more than rows_max") \
    X(COUNT, merge_adapters, "0", 0, 65534, NULL, "distinct adapters in that step; 0: one a row, as far as max_loras allows") \
    X(COUNT, merge_context, "0", 0, 1e6, NULL, "tokens behind each of its rows; 0: a prompt and half an answer of mean length") \
    X(REAL, merge_prompt_ratio, "-1", -1, 1e6, NULL, "prompt tokens that it computes for each output token; -1: that of the mean lengths") \
    X(FLAG, shared, "false", 0, 0, NULL, "on the GPUs of `capacity` that are serve_ok, which jobs give back when serving needs them; needs replicas_max")

/* pool.step: overrides of the GPU profile's step model; -1: the profile's. */
#define STEP_KEYS(X)                                                                                                    \
    X(REAL, fixed_us, "-1", -1, 1e9, NULL, "t0: a step's cost before any work")                                         \
    X(REAL, row_us, "-1", -1, 1e9, NULL, "c_row: a sequence's cost in a step (sampling, bookkeeping)")                  \
    X(REAL, weights_efficiency, "-1", -1, 1, NULL, "e_w: of memory bandwidth when weights are read")                    \
    X(REAL, kv_efficiency, "-1", -1, 1, NULL, "e_kv")                                                                   \
    X(REAL, flops_efficiency, "-1", -1, 1, NULL, "e_f: of peak in the linear layers")                                   \
    X(REAL, attention_efficiency, "-1", -1, 1, NULL, "e_a: of peak in prefill attention")                               \
    X(REAL, lora_bytes_efficiency, "-1", -1, 1, NULL, "of memory bandwidth when adapters are read")                     \
    X(REAL, lora_flops_efficiency, "-1", -1, 1, NULL, "of peak in LoRA's products")                                     \
    X(REAL, launch_us, "-1", -1, 1e6, NULL, "one LoRA kernel launch")                                                   \
    X(REAL, slora_rank_us, "-1", -1, 1e6, NULL, "lora_cost slora: a unit of rank, summed over the distinct adapters of a step")       \
    X(REAL, slora_fixed_us, "-1", -1, 1e9, NULL, "lora_cost slora: once a step with any adapter")

#define WORKLOAD_KEYS(X)                                                                                                \
    X(CHOICE, source, "generated", 0, 0, "generated|trace|sessions|none", "where requests come from; none: jobs only, the pools are not built")                      \
    X(COUNT, requests_max, "0", 0, 1e12, NULL, "stop after so many; 0: only duration_s ends it")                        \
    X(COUNT, tenants, "50", 1, 1e6, NULL, "customers; each adapter belongs to one")                                     \
    X(REAL, tenant_alpha, "0", 0, 10, NULL, "Zipf exponent of tenants' shares of the adapters; 0: equal")               \
    X(REAL, timeout_s, "0", 0, 1e6, NULL, "a client gives up after this; 0: never")                                     \
    X(COUNT, retries_max, "0", 0, 100, NULL, "and tries again so often")                                                \
    X(REAL, retry_delay_s, "1", 0, 1e6, NULL, "after so long, doubled each time")                                       \
    X(CHOICE, announced_output, "exact", 0, 0, "exact|max", "what the scheduler is told of an answer's length: itself, or output.max_tokens")

/* workload.trace */
#define TRACE_KEYS(X)                                                                                                   \
    X(CHOICE, format, "azure", 0, 0, "azure|burstgpt|mooncake|alibaba-lora|csv", "see berth-sim trace --help")          \
    X(TEXT, path, "", 0, 0, NULL, "plain, .gz or .zst; relative to the scenario file")                                  \
    X(TEXT, path_fallback, "", 0, 0, NULL, "used, and said so, when `path` does not exist")                             \
    X(REAL, time_scale, "1", 1e-6, 1e6, NULL, "arrival times are multiplied by this: 0.5 doubles the rate")             \
    X(FLAG, lenient, "false", 0, 0, NULL, "skip bad lines and count them instead of stopping")                          \
    X(REAL, backward_tolerance_s, "0", 0, 1e6, NULL, "with lenient: how far back a time may step and be taken as equal to the last") \
    X(TEXT, time_column, "", 0, 0, NULL, "csv: name or number (from 1) of the arrival time")                            \
    X(CHOICE, time_unit, "s", 0, 0, "s|ms|us|ns|datetime", "csv: of the time column")                                   \
    X(TEXT, prompt_column, "", 0, 0, NULL, "csv; empty: the scenario's prompt law")                                     \
    X(TEXT, output_column, "", 0, 0, NULL, "csv; empty: the scenario's output law")                                     \
    X(TEXT, adapter_column, "", 0, 0, NULL, "csv; empty: the scenario assigns adapters; an empty cell or 0 is the base") \
    X(TEXT, tenant_column, "", 0, 0, NULL, "csv; empty: the adapter's tenant")

/* workload.arrivals */
#define ARRIVAL_KEYS(X)                                                                                                 \
    X(CHOICE, process, "poisson", 0, 0, "poisson|gamma|mmpp|even", "gamma: renewal with arrivals.cv; mmpp: two rates in turn") \
    X(REAL, rate_per_s, "10", 1e-9, 1e9, NULL, "mean over the run, before the daily shape's phase")                     \
    X(REAL, cv, "1", 0.01, 100, NULL, "gamma: coefficient of variation of the gaps")                                    \
    X(REAL, burst_ratio, "5", 1, 1e6, NULL, "mmpp: rate in a burst over the rate outside")                              \
    X(REAL, burst_s, "30", 0.001, 1e6, NULL, "mmpp: mean length of a burst")                                            \
    X(REAL, calm_s, "270", 0.001, 1e6, NULL, "mmpp: mean length between bursts")                                        \
    X(REAL, diurnal_amplitude, "0", 0, 1, NULL, "rate x (1 + amplitude sin): 0.5 swings between half and one and a half") \
    X(REAL, diurnal_peak_h, "15", 0, 24, NULL, "hour of the day of the peak; runs start at midnight of a Monday")       \
    X(REAL, weekend_ratio, "1", 0, 10, NULL, "rate on days 6 and 7 over that of the others")

/* workload.prompt and workload.output */
#define LENGTH_KEYS(X)                                                                                                  \
    X(CHOICE, law, "lognormal", 0, 0, "lognormal|uniform|geometric|exponential|constant|empirical", "empirical: drawn from the rows of a trace") \
    X(REAL, mean_tokens, "512", 1, 1e7, NULL, "of the law before it is cut to its bounds")                              \
    X(REAL, sigma, "1", 0, 10, NULL, "lognormal: deviation of the logarithm")                                           \
    X(COUNT, min_tokens, "1", 1, 1e7, NULL, "cut below; uniform: the least")                                            \
    X(COUNT, max_tokens, "8000", 1, 1e7, NULL, "cut above; uniform: the greatest")                                      \
    X(TEXT, trace_path, "", 0, 0, NULL, "empirical: an Azure file (prompt or output column by section)")

/* workload.adapters */
#define ADAPTER_KEYS(X)                                                                                                 \
    X(COUNT, count, "1000", 0, 1e7, NULL, "adapters in all; 0: base only")                                              \
    X(CHOICE, law, "zipf", 0, 0, "zipf|power|uniform|distinct|empirical", "power: index = floor(U^(1/alpha) n), alpha 1 is uniform; distinct: each request the next one") \
    X(REAL, alpha, "1", 0.001, 10, NULL, "exponent of zipf or power")                                                   \
    X(TEXT, counts_path, "", 0, 0, NULL, "empirical: a file with one weight a line")                                    \
    X(REAL, base_share, "0", 0, 1, NULL, "of requests that name no adapter")                                            \
    X(LIST, ranks, "[16]", 1, 4096, NULL, "adapters take these in turn, by rank_weights")                               \
    X(LIST, rank_weights, "[]", 0, 1e6, NULL, "empty: equal")                                                           \
    X(CHOICE, modules, "all", 0, 0, "all|attention", "which matrices carry LoRA: seven, or q k v o")                    \
    X(REAL, drift_per_h, "0", 0, 1e6, NULL, "part of the popularity ranks that change places with a random one, an hour") \
    X(REAL, churn_per_h, "0", 0, 1e6, NULL, "part of the adapters replaced by new ones (same popularity, cold), an hour") \
    X(REAL, update_per_h, "0", 0, 1e6, NULL, "new versions of an adapter, an hour: the old one is never served again")   \
    X(COUNT, publish_max, "10000", 0, 1e7, NULL, "adapters that trainings may add in a run (scheduler.evaluate); more are refused and counted") \
    X(CHOICE, publish_rank, "random", 0, 0, "tail|random|head", "the popularity a new adapter takes over, from an adapter of its base: of the last tenth, of all, of the first tenth")

/* workload.sessions: closed loop */
#define SESSION_KEYS(X)                                                                                                 \
    X(COUNT, users, "100", 1, 500000, NULL, "each waits for an answer, thinks, asks again")                             \
    X(REAL, think_s, "10", 0, 1e6, NULL, "mean, exponential")                                                           \
    X(REAL, turns, "5", 1, 1e6, NULL, "mean requests of a session (geometric); then the user starts another with another adapter") \
    X(FLAG, grow_prompt, "true", 0, 0, NULL, "each turn's prompt contains the turns before it, up to prompt.max_tokens")

/* jobs: fine-tuning, evaluation and interactive work beside the requests */
#define JOBS_KEYS(X)                                                                                                    \
    X(CHOICE, source, "none", 0, 0, "none|generated|trace", "where jobs come from")                                     \
    X(COUNT, jobs_max, "0", 0, 1e12, NULL, "stop after so many, bursts not counted; 0: only duration_s ends it")        \
    X(COUNT, tenants, "500", 1, 1e6, NULL, "customers with jobs; the same numbers as the customers of requests")        \
    X(REAL, tenant_alpha, "0", 0, 10, NULL, "Zipf exponent of tenants' shares of the jobs; 0: equal")                   \
    X(CHOICE, process, "poisson", 0, 0, "poisson|even", "of arrivals that no trace gives")                              \
    X(REAL, rate_per_day, "200", 1e-6, 1e12, NULL, "mean over the run, before the shape of the week")                   \
    X(REAL, business_amplitude, "0", 0, 1, NULL, "rate x (1 + amplitude cos): 1 leaves nobody at work twelve hours from the peak") \
    X(REAL, business_peak_h, "14", 0, 24, NULL, "hour of the day of the peak; runs start at midnight of a Monday")      \
    X(REAL, weekend_ratio, "1", 0, 10, NULL, "rate on days 6 and 7 over that of the others")                            \
    X(COUNT, burst_jobs, "0", 0, 1e6, NULL, "jobs that one tenant submits at one instant, beside the others; 0: no burst") \
    X(COUNT, burst_tenant, "0", 0, 1e6, NULL, "whose they are")                                                         \
    X(REAL, burst_at_s, "0", 0, 1e9, NULL, "when")                                                                      \
    X(REAL, burst_every_s, "0", 0, 1e9, NULL, "and again after each such time; 0: once")                                \
    X(TEXT, burst_kind, "", 0, 0, NULL, "the name of their kind; empty: each by the kinds' shares")                     \
    X(CHOICE, trace_format, "swf", 0, 0, "swf|philly|gavel|openb|sia|csv", "see berth-sim trace --help")                \
    X(TEXT, trace_path, "", 0, 0, NULL, "plain, .gz or .zst; relative to the scenario file")                            \
    X(TEXT, trace_path_fallback, "", 0, 0, NULL, "used, and said so, when `trace_path` does not exist")                 \
    X(REAL, trace_time_scale, "1", 1e-6, 1e6, NULL, "arrival times are multiplied by this: 0.5 doubles the rate")       \
    X(REAL, trace_runtime_scale, "1", 1e-6, 1e6, NULL, "run times are multiplied by this")                              \
    X(COUNT, trace_gpus_max, "0", 0, 1e6, NULL, "jobs that ask for more are left out, counted and said; 0: none are")   \
    X(FLAG, trace_lenient, "false", 0, 0, NULL, "skip bad lines and count them instead of stopping")                    \
    X(REAL, trace_backward_tolerance_s, "0", 0, 1e6, NULL, "with lenient: how far back a time may step and be taken as equal to the last") \
    X(TEXT, trace_time_column, "", 0, 0, NULL, "csv: name or number (from 1) of the arrival time; empty: arrivals are generated") \
    X(CHOICE, trace_time_unit, "s", 0, 0, "s|ms|us|ns|datetime", "csv: of the time column and of run times (datetime: s)") \
    X(TEXT, trace_runtime_column, "", 0, 0, NULL, "csv; empty: the kinds' tokens say how long")                         \
    X(TEXT, trace_gpus_column, "", 0, 0, NULL, "csv; empty: the kinds' GPUs")                                           \
    X(TEXT, trace_user_column, "", 0, 0, NULL, "csv; empty: tenants are drawn")                                         \
    X(TEXT, trace_class_column, "", 0, 0, NULL, "csv: a job whose class has the name of a kind is of that kind")

/* jobs.kind: the only kind of job, or the defaults of each; jobs.kinds: a list of them. */
#define JOB_KIND_KEYS(X)                                                                                                \
    X(TEXT, name, "", 0, 0, NULL, "shown in reports; empty: kind-0, kind-1, ...")                                       \
    X(REAL, share, "1", 0, 1e6, NULL, "of the jobs, relative to the other kinds")                                       \
    X(TEXT, base, "llama-8b", 0, 0, NULL, "a named shape (berth-sim estimate --shapes) or the path of a config.json")   \
    X(COUNT, gpus, "1", 1, 1024, NULL, "GPUs of one job, all or nothing")                                               \
    X(COUNT, rank, "16", 1, 4096, NULL, "of its adapter")                                                               \
    X(CHOICE, modules, "all", 0, 0, "all|attention", "which matrices carry LoRA: seven, or q k v o")                    \
    X(REAL, tokens_mean, "2e6", 1, 1e15, NULL, "of an epoch, lognormal")                                                \
    X(REAL, tokens_sigma, "1", 0, 10, NULL, "deviation of the logarithm; 0: all alike")                                 \
    X(COUNT, epochs, "3", 1, 1e4, NULL, "passes over them")                                                             \
    X(CHOICE, stage, "train", 0, 0, "train|evaluate|interactive", "what it does; interactive: a session, which tokens do not size") \
    X(CHOICE, isolation, "exclusive", 0, 0, "exclusive|mig|mps|time-slice", "how far from others it must stand")        \
    X(COUNT, priority, "0", 0, 1000, NULL, "higher goes first, whatever the shares say")                                \
    X(FLAG, preemptible, "true", 0, 0, NULL, "may be stopped for others; otherwise it may only use nominal quota")      \
    X(FLAG, spot_ok, "false", 0, 0, NULL, "may run on capacity that can be taken back")                                 \
    X(REAL, runtime_min_s, "0", 0, 1e9, NULL, "not stopped for others before it ran so long")                           \
    X(REAL, deadline_h, "0", 0, 1e6, NULL, "from its arrival; 0: none")                                                 \
    X(REAL, session_s, "3600", 1, 1e9, NULL, "interactive: mean length, exponential")                                   \
    X(REAL, republish_share, "0", 0, 1, NULL, "of published trainings that are a new version of their tenant's latest adapter of this kind, where it has one")

enum key_batching { KEY_BATCHING_CHUNKED, KEY_BATCHING_PREFILL_FIRST };
enum key_lora_cost { KEY_LORA_OURS, KEY_LORA_VLLM, KEY_LORA_SLORA };
enum key_source { KEY_SOURCE_GENERATED, KEY_SOURCE_TRACE, KEY_SOURCE_SESSIONS, KEY_SOURCE_NONE };
enum key_announced { KEY_ANNOUNCED_EXACT, KEY_ANNOUNCED_MAX };
enum key_format { KEY_FORMAT_AZURE, KEY_FORMAT_BURSTGPT, KEY_FORMAT_MOONCAKE, KEY_FORMAT_ALIBABA_LORA, KEY_FORMAT_CSV };
enum key_time_unit { KEY_TIME_S, KEY_TIME_MS, KEY_TIME_US, KEY_TIME_NS, KEY_TIME_DATETIME };
enum key_process { KEY_PROCESS_POISSON, KEY_PROCESS_GAMMA, KEY_PROCESS_MMPP, KEY_PROCESS_EVEN };
enum key_length_law { KEY_LENGTH_LOGNORMAL, KEY_LENGTH_UNIFORM, KEY_LENGTH_GEOMETRIC, KEY_LENGTH_EXPONENTIAL,
                      KEY_LENGTH_CONSTANT, KEY_LENGTH_EMPIRICAL };
enum key_adapter_law { KEY_ADAPTER_ZIPF, KEY_ADAPTER_POWER, KEY_ADAPTER_UNIFORM, KEY_ADAPTER_DISTINCT, KEY_ADAPTER_EMPIRICAL };
enum key_publish_rank { KEY_PUBLISH_TAIL, KEY_PUBLISH_RANDOM, KEY_PUBLISH_HEAD };
enum key_modules { KEY_MODULES_ALL, KEY_MODULES_ATTENTION };
enum key_jobs_source { KEY_JOBS_NONE, KEY_JOBS_GENERATED, KEY_JOBS_TRACE };
enum key_jobs_process { KEY_JOBS_POISSON, KEY_JOBS_EVEN };
enum key_jobs_format { KEY_JOBS_SWF, KEY_JOBS_PHILLY, KEY_JOBS_GAVEL, KEY_JOBS_OPENB, KEY_JOBS_SIA, KEY_JOBS_CSV };
/* jobs.kind.stage and .isolation have the words and the order of fleet/event.h, trace_format those of traces/job_trace.h. */

/* Field types by kind. */
#define KEY_TYPE_TEXT(field) char field[KEY_TEXT_MAX]
#define KEY_TYPE_EVICT(field) char field[KEY_TEXT_MAX]
#define KEY_TYPE_QUEUE(field) char field[KEY_TEXT_MAX]
#define KEY_TYPE_ROUTE(field) char field[KEY_TEXT_MAX]
#define KEY_TYPE_ORDER(field) char field[KEY_TEXT_MAX]
#define KEY_TYPE_PLACE(field) char field[KEY_TEXT_MAX]
#define KEY_TYPE_SCALE(field) char field[KEY_TEXT_MAX]
#define KEY_TYPE_COUNT(field) uint64_t field
#define KEY_TYPE_REAL(field) double field
#define KEY_TYPE_FLAG(field) bool field
#define KEY_TYPE_CHOICE(field) uint32_t field
#define KEY_TYPE_LIST(field) struct key_list field
#define KEY_FIELD(kind, field, default_text, min, max, choices, about) KEY_TYPE_##kind(field);

struct keys_slo { SLO_KEYS(KEY_FIELD) };
struct keys_fleet { FLEET_KEYS(KEY_FIELD) };
struct keys_step { STEP_KEYS(KEY_FIELD) };
struct keys_pool { POOL_KEYS(KEY_FIELD) struct keys_step step; };
struct keys_trace { TRACE_KEYS(KEY_FIELD) };
struct keys_arrivals { ARRIVAL_KEYS(KEY_FIELD) };
struct keys_length { LENGTH_KEYS(KEY_FIELD) };
struct keys_adapters { ADAPTER_KEYS(KEY_FIELD) };
struct keys_sessions { SESSION_KEYS(KEY_FIELD) };
struct keys_workload {
    WORKLOAD_KEYS(KEY_FIELD)
    struct keys_trace trace;
    struct keys_arrivals arrivals;
    struct keys_length prompt;
    struct keys_length output;
    struct keys_adapters adapters;
    struct keys_sessions sessions;
};
/* capacity: the GPUs that jobs run on; a list, since prices and promises differ. Serving pools have their own. */
#define CAPACITY_KEYS(X)                                                                                                \
    X(TEXT, name, "", 0, 0, NULL, "of the flavor, shown in reports; empty: the GPU, and spot where it is")              \
    X(TEXT, gpu, "h100", 0, 0, NULL, "a profile of scenarios/hardware, or a path ending in .yaml")                      \
    X(COUNT, nodes, "3", 1, 4096, NULL, "hosts")                                                                        \
    X(COUNT, gpus_per_node, "8", 1, 16, NULL, "GPUs of each; a gang stands on one node")                                \
    X(REAL, memory_share, "0.9", 0.1, 1, NULL, "of GPU memory that bases and jobs may use")                             \
    X(REAL, price_per_h, "2.5", 0, 1e5, NULL, "of one GPU, in currency units")                                          \
    X(FLAG, spot, "false", 0, 0, NULL, "can be taken back with notice; only jobs that are spot_ok run here")            \
    X(REAL, notice_s, "30", 0, 1e6, NULL, "spot: between being told and being gone")                                    \
    X(REAL, reclaim_mean_h, "0", 0, 1e6, NULL, "spot: mean time until a node is taken, exponential; 0: never")          \
    X(REAL, return_mean_h, "1", 0, 1e6, NULL, "spot: mean time until it is back")                                       \
    X(TEXT, spot_path, "", 0, 0, NULL, "spot: availability of instances over time (SkyPilot JSON) instead of the hazard") \
    X(REAL, fail_mean_h, "0", 0, 1e9, NULL, "mean time between failures of a node, without notice; 0: none")            \
    X(REAL, repair_mean_h, "4", 0, 1e6, NULL, "mean time until a failed node is back")                                  \
    X(FLAG, serve_ok, "false", 0, 0, NULL, "replicas of shared pools may stand here, and jobs leave when they are needed")

/* scheduler: how the fleet core places jobs, and what the host's physics are. */
#define SCHEDULER_KEYS(X)                                                                                               \
    X(ORDER, order, "wfq", 0, 0, NULL, "which job goes next: see berth-sim policies")                                   \
    X(PLACE, place, "residency", 0, 0, NULL, "where it runs")                                                           \
    X(COUNT, jobs_max, "65536", 1, 1048576, NULL, "pending and running at once; more are refused (overload)")           \
    X(COUNT, sharers_max, "2", 1, 8, NULL, "jobs on one GPU at once (mps, time-slice)")                                 \
    X(LIST, eta, "[1, 1.15, 1.2, 1.25]", 0.1, 8, NULL, "what 1, 2, ... jobs on a GPU do together, of one alone; the last holds for more") \
    X(REAL, mfu, "0.4", 0.01, 1, NULL, "part of peak FLOPs that training reaches")                                      \
    X(REAL, nominal_share, "1", 0, 1, NULL, "of the capacity of each flavor, dealt to the tenants as nominal quota; the rest is the cohort's") \
    X(REAL, nominal_alpha, "0", 0, 10, NULL, "Zipf exponent of the tenants' nominal quotas; 0: equal")                  \
    X(REAL, borrowing_gpus, "-1", -1, 1e6, NULL, "that a tenant may use beyond nominal; -1: no limit")                  \
    X(REAL, lending_share, "1", 0, 1, NULL, "of a tenant's nominal quota that others may use while it does not")        \
    X(COUNT, cohorts, "1", 1, 4096, NULL, "groups of tenants that lend to each other, in turn; one root above")         \
    X(REAL, half_life_h, "24", 0.001, 1e6, NULL, "of usage in fair share")                                              \
    X(REAL, usage_factor, "1", 0, 1, NULL, "price of borrowed time relative to nominal time; the rest is the platform's") \
    X(REAL, preempt_delay_s, "30", 0, 1e6, NULL, "a claimer waits so long before anyone is stopped for it")             \
    X(COUNT, victims_max, "16", 0, 64, NULL, "jobs stopped for one claimer; 0: nobody is ever stopped")                 \
    X(COUNT, reservations_max, "1", 0, 64, NULL, "gangs that hold a place for the future while others backfill")        \
    X(REAL, payback, "1", 0, 1000, NULL, "a base is loaded when queued GPU time for it is so much of its load time")    \
    X(REAL, checkpoint_s, "600", 0, 1e7, NULL, "between checkpoints; 0: the square root of 2 x cost x mean time between stops (Young)") \
    X(REAL, checkpoint_bytes_per_s, "2e9", 1, 1e30, NULL, "a job's write to, and read from, where checkpoints lie")     \
    X(REAL, start_s, "2", 0, 1e6, NULL, "process start, allocation, first batch: before a job computes")                \
    X(REAL, clear_bytes_per_s, "1e12", 1, 1e30, NULL, "memory cleared between tenants")                                 \
    X(REAL, disk_bytes_per_s, "5e9", 1, 1e30, NULL, "a node's disk, shared by the loads of bases")                      \
    X(REAL, page_cache_bytes, "2e11", 0, 1e15, NULL, "a node's memory that keeps bases read before; least recently used leaves") \
    X(REAL, page_cache_bytes_per_s, "2e10", 1, 1e30, NULL, "a load from there, a GPU")                                  \
    X(FLAG, base_in_store, "false", 0, 0, NULL, "bases come from the object store the first time on a node, at the profile's rates") \
    X(FLAG, evaluate, "false", 0, 0, NULL, "each training that succeeds is followed by an evaluation, a claim of its own") \
    X(REAL, evaluate_s, "300", 0, 1e6, NULL, "its length")                                                              \
    X(REAL, gate_pass_share, "0.9", 0, 1, NULL, "of evaluations whose adapter is published")                            \
    X(REAL, fail_share, "0", 0, 1, NULL, "of training jobs that fail by themselves, at a random point")                 \
    X(REAL, idle_timeout_s, "0", 0, 1e7, NULL, "interactive: a session without use ends after so long; 0: never")       \
    X(REAL, idle_share, "0", 0, 1, NULL, "interactive: of sessions that are left idle halfway")                         \
    X(REAL, storage_price_per_gb_month, "0.023", 0, 1e6, NULL, "object store; adapters and checkpoints that are kept")  \
    X(REAL, host_price_per_gb_month, "2", 0, 1e6, NULL, "host memory")

/* upgrade: a base takes another's place. */
#define UPGRADE_KEYS(X)                                                                                                 \
    X(REAL, at_h, "0", 0, 1e6, NULL, "when a retraining is queued for each adapter of the old base; 0: no upgrade")     \
    X(TEXT, from, "", 0, 0, NULL, "the old base, as its pool has it")                                                   \
    X(TEXT, to, "", 0, 0, NULL, "the new base, as its pool has it; an adapter's requests go there once it has a version for it") \
    X(REAL, drain_by_h, "0", 0, 1e6, NULL, "from then on requests for the old base are refused; 0: it stays")           \
    X(REAL, retrain_share, "1", 0, 1, NULL, "of its adapters that are retrained; the others stay on the old base")      \
    X(TEXT, kind, "", 0, 0, NULL, "the name of the kind of job that retrains them; empty: the first that trains on the new base")

struct keys_upgrade { UPGRADE_KEYS(KEY_FIELD) };
struct keys_capacity { CAPACITY_KEYS(KEY_FIELD) };
struct keys_scheduler { SCHEDULER_KEYS(KEY_FIELD) };
struct keys_job_kind { JOB_KIND_KEYS(KEY_FIELD) };
struct keys_jobs { JOBS_KEYS(KEY_FIELD) struct keys_job_kind kind; };

#endif
