#include "workload/source.h"

#include <math.h>
#include <stdlib.h>

#include "workload/kind.h"

static const struct source_kind *const kinds[] = {
    [KEY_SOURCE_GENERATED] = &source_generated,
    [KEY_SOURCE_TRACE] = &source_trace,
    [KEY_SOURCE_SESSIONS] = &source_sessions,
    [KEY_SOURCE_NONE] = &source_none,
};

static int64_t ns_of(double seconds)
{
    return (int64_t)rint(seconds * (double)NS_PER_S);
}

/* By time, then by what is asked: two retries that agree in all of this are the same to everyone. */
static bool retry_before(const void *a, const void *b)
{
    const struct arrival *x = a;
    const struct arrival *y = b;
    const uint64_t x_keys[] = {(uint64_t)x->at_ns, x->session, x->adapter.index, x->tenant.value, x->base.value,
                               x->prompt_tokens, x->output_tokens, x->attempt};
    const uint64_t y_keys[] = {(uint64_t)y->at_ns, y->session, y->adapter.index, y->tenant.value, y->base.value,
                               y->prompt_tokens, y->output_tokens, y->attempt};

    for (size_t i = 0; i < ARRAY_COUNT(x_keys); i++) {
        if (x_keys[i] != y_keys[i])
            return x_keys[i] < y_keys[i];
    }
    return false;
}

static enum status open_parts(struct source *source, FILE *errors)
{
    const struct scenario *scenario = source->scenario;
    uint32_t retries_room = scenario->workload.retries_max > 0 ? (uint32_t)scenario->requests_max : 0;
    enum status status = heap_open(&source->retries, retries_room, sizeof(struct arrival), retry_before);

    source->notes = calloc(1, sizeof(*source->notes));
    if (source->notes == NULL) {
        fprintf(errors, "workload: not enough memory\n");
        return STATUS_FULL;
    }
    if (status != STATUS_OK) {
        fprintf(errors, "workload.retries_max: not enough memory for %u pending retries (requests_max)\n",
                retries_room);
        return status;
    }
    status = lengths_open(&source->prompt, scenario, LENGTHS_PROMPT, errors);
    if (status == STATUS_OK)
        status = lengths_open(&source->output, scenario, LENGTHS_OUTPUT, errors);
    if (status == STATUS_OK)
        status = source->kind->open(source, errors);
    return status;
}

enum status source_open(const struct scenario *scenario, FILE *errors, struct source **ret_source)
{
    const struct keys_workload *keys = &scenario->workload;
    struct source *source = calloc(1, sizeof(*source));
    enum status status;

    check(keys->source < ARRAY_COUNT(kinds));
    if (source == NULL) {
        fprintf(errors, "workload: not enough memory\n");
        return STATUS_FULL;
    }
    source->scenario = scenario;
    source->kind = kinds[keys->source];
    source->fresh_max = keys->requests_max > 0 ? keys->requests_max : UINT64_MAX;
    source->tenants_max = (uint32_t)keys->tenants;
    source->duration_ns = ns_of(scenario->duration_s);
    source->timeout_ns = keys->timeout_s > 0 ? ns_of(keys->timeout_s) : NEVER_NS;
    rng_streams_open(&source->streams, scenario->seed);
    status = open_parts(source, errors);
    if (status != STATUS_OK) {
        source_close(source);
        return status;
    }
    *ret_source = source;
    return STATUS_OK;
}

void source_close(struct source *source)
{
    if (source == NULL)
        return;
    source->kind->close(source);
    catalog_close(&source->catalog);
    lengths_close(&source->prompt);
    lengths_close(&source->output);
    heap_close(&source->retries);
    free(source->notes);
    rng_streams_close(&source->streams);
    free(source);
}

static int64_t fresh_at_ns(struct source *source)
{
    int64_t at_ns;

    if (source->broken || source->fresh_count == source->fresh_max)
        return NEVER_NS;
    at_ns = source->kind->next_at_ns(source);
    return at_ns <= source->duration_ns ? at_ns : NEVER_NS;
}

static int64_t retry_at_ns(const struct source *source)
{
    const struct arrival *retry = heap_top(&source->retries);

    return retry != NULL ? retry->at_ns : NEVER_NS;
}

int64_t source_next_at_ns(struct source *source)
{
    return min_i64(fresh_at_ns(source), retry_at_ns(source));
}

/* A retry asks for what the adapter is by then: its old version may be gone. */
static void take_retry(struct source *source, struct arrival *ret_arrival)
{
    heap_pop(&source->retries, ret_arrival);
    catalog_advance(&source->catalog, ret_arrival->at_ns);
    if (!adapter_is_base(ret_arrival->adapter)) {
        ret_arrival->base = catalog_fact(&source->catalog, ret_arrival->adapter.index).base;
        ret_arrival->adapter = catalog_current(&source->catalog, ret_arrival->adapter.index);
    }
}

static enum status take_fresh(struct source *source, int64_t at_ns, struct arrival *ret_arrival)
{
    struct arrival arrival = {.at_ns = at_ns, .timeout_ns = source->timeout_ns, .session = NONE_INDEX};
    enum status status;

    catalog_advance(&source->catalog, at_ns);
    status = source->kind->take(source, &arrival);
    if (status != STATUS_OK) {
        source->broken = true;
        return status;
    }
    arrival.output_tokens_max = arrival.output_tokens;
    if (source->scenario->workload.announced_output == KEY_ANNOUNCED_MAX)
        arrival.output_tokens_max = max_u32(arrival.output_tokens, source->output.max_tokens);
    source->fresh_count++;
    *ret_arrival = arrival;
    return STATUS_OK;
}

/* At one instant a retry, being the older request, comes first. */
enum status source_take(struct source *source, struct arrival *ret_arrival)
{
    int64_t fresh_ns = fresh_at_ns(source);
    int64_t retry_ns = retry_at_ns(source);

    check(fresh_ns != NEVER_NS || retry_ns != NEVER_NS);
    if (fresh_ns < retry_ns)
        return take_fresh(source, fresh_ns, ret_arrival);
    take_retry(source, ret_arrival);
    return STATUS_OK;
}

/* False: the client gives up, because it tried often enough or too many others are waiting to try again. */
static bool try_again(struct source *source, const struct arrival *arrival, int64_t at_ns)
{
    const struct keys_workload *keys = &source->scenario->workload;
    double delay_ns = ldexp(keys->retry_delay_s * (double)NS_PER_S, (int)arrival->attempt);
    struct arrival retry = *arrival;

    if (arrival->attempt >= keys->retries_max)
        return false;
    if (delay_ns > (double)(source->duration_ns - at_ns))
        return true; /* it will, after the end of the run */
    if (source->retries.count == source->retries.room) {
        source->retries_lost++;
        return false;
    }
    retry.at_ns = at_ns + (int64_t)delay_ns;
    retry.attempt++;
    heap_push(&source->retries, &retry);
    return true;
}

void source_finished(struct source *source, const struct arrival *arrival, int64_t at_ns, enum request_outcome outcome)
{
    check(at_ns >= arrival->at_ns);
    if (outcome != OUTCOME_DONE && try_again(source, arrival, at_ns))
        return;
    if (arrival->session != NONE_INDEX && source->kind->over != NULL)
        source->kind->over(source, arrival, at_ns, outcome);
}

const char *source_message(const struct source *source)
{
    return source->message;
}

struct adapter_fact source_adapter(const struct source *source, adapter_id adapter)
{
    return catalog_fact(&source->catalog, adapter.index);
}

enum status source_publish(struct source *source, base_id base, uint32_t kind, tenant_id tenant, int64_t at_ns,
                           adapter_id *ret_adapter)
{
    uint32_t index;

    catalog_advance(&source->catalog, at_ns);
    index = catalog_publish(&source->catalog, base.value, kind, tenant.value);
    if (index == 0)
        return STATUS_FULL;
    *ret_adapter = catalog_current(&source->catalog, index);
    return STATUS_OK;
}

adapter_id source_republish(struct source *source, uint32_t index, base_id base, int64_t at_ns)
{
    catalog_advance(&source->catalog, at_ns);
    catalog_republish(&source->catalog, index, base.value);
    return catalog_current(&source->catalog, index);
}

uint32_t source_adapters_count(const struct source *source)
{
    return source->catalog.adapters_count;
}

uint32_t source_adapters_max(const struct source *source)
{
    return source->catalog.adapters_max;
}

uint32_t source_tenants_max(const struct source *source)
{
    return source->tenants_max;
}

bool source_popular(const struct source *source, uint32_t rank, adapter_id *ret_adapter)
{
    return catalog_popular(&source->catalog, rank, ret_adapter);
}

bool source_retired(struct source *source, adapter_id *ret_adapter)
{
    return catalog_retired(&source->catalog, ret_adapter);
}
