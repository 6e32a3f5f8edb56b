/* Where requests come from: generators, traces or closed-loop sessions behind one interface. Every draw comes from a
 * named stream split from the seed ("arrivals", "adapters", "prompts", "outputs", ...), so that a new draw in one model
 * moves no other and variants share their luck. Memory does not grow with the number of requests. */
#ifndef WORKLOAD_SOURCE_H
#define WORKLOAD_SOURCE_H

#include "base/ids.h"
#include "scenario/scenario.h"

struct arrival {
    int64_t at_ns;
    adapter_id adapter;          /* {0, 0}: the base */
    tenant_id tenant;            /* < source_tenants_max(), or of a published adapter's owner */
    base_id base;                /* base_index of the scenario */
    uint32_t prompt_tokens;
    uint32_t output_tokens;      /* what will be produced; the core is told only output_tokens_max */
    uint32_t output_tokens_max;
    int64_t timeout_ns;          /* the client waits so long; NEVER_NS: for ever */
    uint32_t session;            /* comes back in source_finished(); NONE_INDEX: nobody listens */
    uint32_t attempt;            /* 0, or the number of the retry */
};

struct adapter_fact {
    uint64_t bytes;
    tenant_id tenant;
    base_id base;
    uint16_t rank;
};

enum request_outcome { OUTCOME_DONE, OUTCOME_REFUSED, OUTCOME_TIMEOUT };

struct source;

/* Errors (a trace that cannot be opened ...) are written to `errors`. The scenario must outlive the source. */
enum status source_open(const struct scenario *scenario, FILE *errors, struct source **ret_source);
void source_close(struct source *source); /* accepts NULL */

/* When the next arrival is; NEVER_NS: none now (closed loops may have one after source_finished()). Arrivals after
 * duration_s are not given. */
int64_t source_next_at_ns(struct source *source);
/* Takes it. STATUS_OK, or what the trace said (STATUS_CORRUPT, STATUS_IO) with source_message(). */
enum status source_take(struct source *source, struct arrival *ret_arrival);
/* The host tells what became of a request: of every one that has a session, and of every one that was refused or timed
 * out where workload.retries_max > 0 (telling more does no harm). May create a new arrival >= at_ns: what was refused
 * or timed out is tried again while its attempt < retries_max, and only then is it over for its session. */
void source_finished(struct source *source, const struct arrival *arrival, int64_t at_ns, enum request_outcome outcome);
const char *source_message(const struct source *source);

/* Facts of an adapter (not of the base) in its latest version; only its base, and with it the bytes, may have been others
 * before (source_republish). */
struct adapter_fact source_adapter(const struct source *source, adapter_id adapter);
/* A training of this kind has passed its gate: its adapter joins, of this tenant, on a pool's base, and is asked for from now
 * on as workload/catalog.h says. STATUS_FULL: workload.adapters.publish_max have joined. A trace that names its adapters
 * asks for those alone: the new one joins and idles. Time never goes back, here and in source_take(). */
enum status source_publish(struct source *source, base_id base, uint32_t kind, tenant_id tenant, int64_t at_ns,
                           adapter_id *ret_adapter); /* the tenant may be any: jobs have customers, too */
/* The same as a new version of the adapter `index`, perhaps on another base: whoever asks for it asks for this version, there.
 * The one before is told by source_retired(), to be emptied. */
adapter_id source_republish(struct source *source, uint32_t index, base_id base, int64_t at_ns);
/* Adapters there are: indexes 1 to this. */
uint32_t source_adapters_count(const struct source *source);
/* Adapter indexes are 1..source_adapters_max(), tenants 0..source_tenants_max() - 1: bounds known at open. */
uint32_t source_adapters_max(const struct source *source);
uint32_t source_tenants_max(const struct source *source);
/* The adapters of the start by popularity, most popular first (version as first given); false past the end. */
bool source_popular(const struct source *source, uint32_t rank, adapter_id *ret_adapter);
/* A version that will never be asked for again, one a call; false when there is none to tell. To be emptied after each
 * source_take(), source_publish() and source_republish(), which make the changes that are due. Requests for the version may still be in flight. */
bool source_retired(struct source *source, adapter_id *ret_adapter);
/* What the report must say: that adapters were assigned by a law, which trace file was used, lines skipped ...; one
 * sentence a line; owned by the source. */
const char *source_notes(const struct source *source);

#endif
