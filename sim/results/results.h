/* What a run leaves behind: a stream of finished requests and of samples goes to HDF5 as it comes (chunked, compressed),
 * and into a summary of fixed size. One `struct results` a variant; several share one file. */
#ifndef RESULTS_RESULTS_H
#define RESULTS_RESULTS_H

#include <stdio.h>

#include "base/ids.h"
#include "results/summary.h"
#include "scenario/scenario.h"

enum request_status { REQUEST_DONE, REQUEST_REFUSED, REQUEST_OVERLOAD, REQUEST_TIMEOUT, REQUEST_UNFINISHED };

struct request_row {
    uint64_t ordinal;
    int64_t at_ns;              /* arrival */
    int64_t admitted_ns;        /* first time in a batch; -1: never */
    int64_t first_token_ns;     /* -1: never */
    int64_t done_ns;            /* end, whatever it was; -1: unfinished */
    adapter_id adapter;
    uint32_t tenant;
    uint16_t base;
    uint16_t replica;           /* UINT16_MAX: none */
    uint16_t rank;
    uint8_t tier;               /* enum tier, where the adapter was found */
    uint8_t status;             /* enum request_status */
    uint8_t reason;             /* enum refuse_reason of a refusal */
    bool merged;                /* by a replica of its adapter's own: `replica` says which; no column of the file */
    uint64_t refuse_need;       /* the refusal's arithmetic, in the unit of its sentence; no column of the file */
    uint64_t refuse_have;
    uint32_t prompt_tokens;
    uint32_t output_tokens;     /* produced */
    uint32_t recomputed_tokens;
    uint32_t attempt;
    int64_t blame_ns[BLAME_COUNT]; /* add up to done_ns - at_ns exactly when REQUEST_DONE */
};

struct replica_sample {
    int64_t at_ns;              /* end of the interval */
    uint32_t replica;
    uint32_t waiting;
    uint32_t running;
    uint32_t loading;
    float kv_share;             /* used part of the KV pool */
    float slots_share;
    float slots_pinned_share;
    float busy_share;           /* of the interval, a step was running */
    uint64_t output_tokens;     /* in the interval */
    uint64_t prefill_tokens;
    uint64_t loads;             /* arrived in the interval */
    uint64_t hits;              /* in the interval, of the GPU slots */
    uint64_t misses;
};

/* The file that variants share. */
struct results_file;
/* Creates `path` (through a temporary name beside it; renamed when closed, so nothing half-written is left under the
 * name). Writes scenario text, seed, version. Errors go to `errors`. */
enum status results_file_create(const char *path, const char *scenario_text, uint64_t seed, FILE *errors,
                                struct results_file **ret_file);
/* partial: Ctrl-C; the file says so and is readable. */
enum status results_file_close(struct results_file *file, bool partial, FILE *errors);

struct results;
/* file NULL: summary only. */
enum status results_open(struct results_file *file, const struct scenario *scenario, uint32_t replicas_count,
                         uint32_t tenants_count, struct results **ret_results);
void results_request(struct results *results, const struct request_row *row);
/* A replica's samples follow each other without gaps from time 0, but for those that are told; an interval may differ from
 * the one before. */
void results_sample(struct results *results, const struct replica_sample *sample);
/* It was down until until_ns: no sample speaks of the time since the last one. */
void results_replica_gap(struct results *results, uint32_t replica, int64_t until_ns);
/* Facts only the engine knows are in `facts`; everything else was gathered. Frees `results`. */
enum status results_close(struct results *results, const struct run_facts *facts, struct summary *ret_summary, FILE *errors);

#endif
