/* The inside of a source: what generated, trace and sessions share, and the table through which they differ. Retries,
 * bounds and the facts of adapters are common; a kind only says when the next fresh request comes and what it asks. */
#ifndef WORKLOAD_KIND_H
#define WORKLOAD_KIND_H

#include "trace.h"
#include "workload/catalog.h"
#include "workload/heap.h"
#include "workload/lengths.h"
#include "workload/notes.h"
#include "workload/rng.h"
#include "workload/source.h"

struct source_kind {
    /* Opens source->catalog and what else it needs. On failure one message in `errors`; close() is called anyway. */
    enum status (*open)(struct source *source, FILE *errors);
    void (*close)(struct source *source);
    /* NEVER_NS: none now. Never decreasing. */
    int64_t (*next_at_ns)(struct source *source);
    /* STATUS_OK, or why there are no more, with source->message. */
    enum status (*take)(struct source *source, struct arrival *ret_arrival);
    /* The request with this session is over and will not be retried; NULL: the kind does not listen. */
    void (*over)(struct source *source, const struct arrival *arrival, int64_t at_ns, enum request_outcome outcome);
    void (*say)(const struct source *source, struct notes *notes);
};

extern const struct source_kind source_generated;
extern const struct source_kind source_trace;
extern const struct source_kind source_sessions;
extern const struct source_kind source_none;

struct source {
    const struct scenario *scenario;
    const struct source_kind *kind;
    void *state;                /* the kind's */
    struct rng_streams streams;
    struct catalog catalog;
    struct lengths prompt;
    struct lengths output;
    struct heap retries;        /* of struct arrival, by time */
    uint64_t retries_lost;      /* given up because the heap was full */
    uint64_t fresh_count;
    uint64_t fresh_max;
    uint64_t adapters_drawn;    /* what the distinct law goes by */
    uint32_t tenants_max;
    int64_t duration_ns;
    int64_t timeout_ns;
    bool broken;                /* a take failed: nothing comes any more */
    char message[TRACE_MESSAGE_MAX];
    struct notes *notes;        /* composed anew whenever they are asked for */
};

/* The luck of one request: a number in (0, 1) for each choice, drawn whether needed or not, so that the k-th request's
 * luck does not depend on what those before it were. */
struct luck {
    double choice;
    double adapter;
    double base;
    double tenant;
    double prompt;
    double output;
};
struct luck source_luck(const struct source *source);

/* The fields that say whom a request asks, from an adapter's index (0: the base) or the scenario's laws. `ordinal`: of
 * the distinct law. */
void source_ask_adapter(const struct source *source, uint32_t index, struct arrival *arrival);
void source_ask_base(const struct source *source, const struct luck *luck, struct arrival *arrival);
void source_ask_by_law(const struct source *source, const struct luck *luck, uint64_t ordinal, struct arrival *arrival);
bool source_wants_base(const struct source *source, const struct luck *luck);

/* "1,000 adapters are assigned by a Zipf law with exponent 1.0." and what goes with it. */
void source_say_law(const struct source *source, struct notes *notes, const char *before);
void source_say_base_share(const struct source *source, struct notes *notes);
void source_say_lengths(const struct source *source, struct notes *notes, bool prompt, bool output);

#endif
