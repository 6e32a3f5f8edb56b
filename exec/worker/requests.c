/* The life of a request: in by worker_submit(), out by end(). */
#include <stdio.h>
#include <stdlib.h>

#include "worker/internal.h"

const char *worker_end_name(enum worker_end_reason reason)
{
    static const char *const names[] = {
#define X(name, text) [WORKER_END_##name] = text,
        WORKER_ENDS(X)
#undef X
    };

    return names[reason];
}

struct worker_sequence *sequence_of(struct worker *worker, request_id id)
{
    struct worker_sequence *sequence = &worker->sequences[request_slot(id)];

    check(request_slot(id) < worker->config.requests_max && sequence->state == REQUEST_LIVE);
    check(sequence->ordinal == request_ordinal(id));
    return sequence;
}

static request_id id_of(const struct worker *worker, const struct worker_sequence *sequence)
{
    return request_id_make(sequence->ordinal, (uint32_t)(sequence - worker->sequences));
}

/* --- in --------------------------------------------------------------------------------------------------------------------- */

static enum status check_request(const struct worker *worker, const struct worker_request *request, struct refusal *refusal)
{
    const int32_t vocabulary = worker->model->config.dims.vocabulary;
    const uint32_t blocks = (uint32_t)(((uint64_t)request->prompt_tokens + request->max_tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS);
    const char *field;
    const char *why;

    if (request->prompt_tokens == 0 || request->max_tokens == 0)
        return refuse(refusal, STATUS_INVALID, "a request has at least one prompt token and asks for at least one");
    if ((uint64_t)request->prompt_tokens + request->max_tokens > worker->positions_max)
        return refuse(refusal, STATUS_INVALID, "the prompt's %u tokens and max_tokens %u are more than the %u a sequence may have here",
                      request->prompt_tokens, request->max_tokens, worker->positions_max);
    if (blocks > worker->blocks.all)
        return refuse(refusal, STATUS_INVALID, "the prompt's %u tokens and max_tokens %u need %u KV blocks, this server has %u",
                      request->prompt_tokens, request->max_tokens, blocks, worker->blocks.all);
    for (uint32_t i = 0; i < request->prompt_tokens; i++)
        if (request->prompt[i] < 0 || request->prompt[i] >= vocabulary)
            return refuse(refusal, STATUS_INVALID, "prompt token %u is %d, the vocabulary has ids 0 to %d", i, request->prompt[i],
                          vocabulary - 1);
    if (sample_params_check(request->sample, vocabulary, &field, &why) != STATUS_OK)
        return refuse(refusal, STATUS_INVALID, "%s must be %s", field, why);
    if (request->tenant >= WORKER_TENANTS_MAX)
        return refuse(refusal, STATUS_INVALID, "tenant %u: below %u", request->tenant, WORKER_TENANTS_MAX);
    if (worker->draining)
        return refuse(refusal, STATUS_FULL, "the server is draining: it takes no more requests");
    return STATUS_OK;
}

static void release(struct worker *worker, struct worker_sequence *sequence)
{
    for (uint32_t i = 0; i < sequence->blocks_count; i++)
        blocks_give(&worker->blocks, sequence->blocks[i]);
    free(sequence->tokens);
    free(sequence->blocks);
    sample_counts_free(sequence->counts);
    *sequence = (struct worker_sequence){.ordinal = sequence->ordinal};
}

/* Takes what it needs of memory: false when there is none. */
static bool fill(struct worker_sequence *sequence, const struct worker_request *request)
{
    const uint32_t tokens = request->prompt_tokens + request->max_tokens;

    sequence->request = *request;
    sequence->request.prompt = NULL;
    sequence->request.sample = NULL;
    sequence->request.adapter = NULL;
    sequence->sample = *request->sample;
    sequence->tokens = malloc(tokens * sizeof(int32_t));
    sequence->blocks = malloc((tokens / KV_BLOCK_TOKENS + 1) * sizeof(int32_t));
    if (sample_needs_counts(request->sample))
        sequence->counts = sample_counts_create(tokens);
    if (sequence->tokens == NULL || sequence->blocks == NULL || (sample_needs_counts(request->sample) && sequence->counts == NULL))
        return false;
    memcpy(sequence->tokens, request->prompt, request->prompt_tokens * sizeof(int32_t));
    for (uint32_t i = 0; sequence->counts != NULL && i < request->prompt_tokens; i++)
        sample_counts_prompt(sequence->counts, request->prompt[i]);
    return true;
}

static void tell_known(struct worker *worker, struct worker_version *version)
{
    struct replica_event event;

    if (version->known)
        return;
    version->known = true;
    memset(&event, 0, sizeof(event));
    event.kind = REPLICA_EVENT_ADAPTER_KNOWN;
    event.adapter_known.adapter = version->id;
    event.adapter_known.bytes = (uint64_t)version->packed_bytes;
    event.adapter_known.rank = (uint16_t)version->rank;
    worker_tell_replica(worker, &event);
}

static void tell_request(struct worker *worker, struct worker_sequence *sequence)
{
    struct replica_event event;

    memset(&event, 0, sizeof(event));
    event.kind = REPLICA_EVENT_REQUEST;
    event.request.request = id_of(worker, sequence);
    event.request.adapter = sequence->version != NULL ? sequence->version->id : (adapter_id){0, 0};
    event.request.tenant.value = sequence->request.tenant;
    event.request.prompt_tokens = sequence->request.prompt_tokens;
    event.request.output_tokens_max = sequence->request.max_tokens;
    worker_tell_replica(worker, &event);
}

/* Its rows are the base's, whose weights are the adapter's. */
static enum status check_merged(const struct worker *worker, const char *adapter, struct refusal *refusal)
{
    if (adapter != NULL && strcmp(adapter, worker->config.merged_as) == 0)
        return STATUS_OK;
    return refuse(refusal, STATUS_NOT_FOUND, "this server has only the adapter that is merged into its weights");
}

enum status worker_submit(struct worker *worker, const struct worker_request *request, worker_handle *ret_handle, struct refusal *refusal)
{
    struct worker_version *version = NULL;
    struct worker_sequence *sequence = NULL;
    enum status status = check_request(worker, request, refusal);

    if (status != STATUS_OK)
        return status;
    if (worker->merged) {
        status = check_merged(worker, request->adapter, refusal);
        if (status != STATUS_OK)
            return status;
    } else if (request->adapter != NULL) {
        version = version_named(worker, request->adapter);
        if (version == NULL)
            return refuse(refusal, STATUS_NOT_FOUND, "there is no adapter of that name here");
    }
    for (uint32_t i = 0; i < worker->config.requests_max && sequence == NULL; i++)
        if (worker->sequences[i].state == REQUEST_FREE_SLOT)
            sequence = &worker->sequences[i];
    if (sequence == NULL)
        return refuse(refusal, STATUS_FULL, "%u requests are here, as many as this server takes; try again later",
                      worker->config.requests_max);
    if (!fill(sequence, request)) {
        release(worker, sequence);
        return refuse(refusal, STATUS_FULL, "no memory for a request");
    }
    sequence->state = REQUEST_LIVE;
    sequence->ordinal = ++worker->ordinal_last;
    sequence->version = version;
    worker_look_at_clock(worker);
    sequence->submitted_ns = worker->now_ns;
    *ret_handle = (worker_handle){id_of(worker, sequence).value};
    if (version != NULL) {
        version->requests++;
        tell_known(worker, version);
    }
    tell_request(worker, sequence);
    return STATUS_OK;
}

void worker_cancel(struct worker *worker, worker_handle handle)
{
    request_id id = {handle.value};
    struct worker_sequence *sequence;

    if (handle.value == 0 || request_slot(id) >= worker->config.requests_max)
        return;
    sequence = &worker->sequences[request_slot(id)];
    if (sequence->state != REQUEST_LIVE || sequence->ordinal != request_ordinal(id))
        return;
    sequence->cancel_due = true;
    worker->cancel_due = true;
}

void requests_cancel_due(struct worker *worker)
{
    if (!worker->cancel_due)
        return;
    worker->cancel_due = false;
    for (uint32_t i = 0; i < worker->config.requests_max; i++) {
        struct worker_sequence *sequence = &worker->sequences[i];
        struct replica_event event;

        if (sequence->state != REQUEST_LIVE || !sequence->cancel_due || sequence->ending)
            continue;
        sequence->ending = true;
        memset(&event, 0, sizeof(event));
        event.kind = REPLICA_EVENT_SEQUENCE_END;
        event.reason = SEQUENCE_CANCELLED;
        event.sequence_end.request = id_of(worker, sequence);
        event.sequence_end.output_tokens = sequence->answered;
        worker_tell_replica(worker, &event);
    }
}

/* --- out -------------------------------------------------------------------------------------------------------------------- */

static void end(struct worker *worker, struct worker_sequence *sequence, struct worker_end *end)
{
    struct worker_version *version = sequence->version;
    void (*tell)(void *owner, const struct worker_end *end) = sequence->request.end;
    void *owner = sequence->request.owner;

    end->prompt_tokens = sequence->request.prompt_tokens;
    end->output_tokens = sequence->answered;
    end->first_token_ns = sequence->answered > 0 ? sequence->first_ns - sequence->submitted_ns : 0;
    end->total_ns = worker->now_ns - sequence->submitted_ns;
    release(worker, sequence);
    tell(owner, end);
    if (version == NULL)
        return;
    version->requests--;
    version_settle(worker, version);
}

void request_said_done(struct worker *worker, const struct replica_command *command)
{
    struct worker_sequence *sequence = sequence_of(worker, command->done.request);
    struct worker_end said = {.reason = sequence->failed ? WORKER_END_FAILED
                                        : command->reason == SEQUENCE_CANCELLED ? WORKER_END_CANCELLED
                                        : sequence->stopped ? WORKER_END_STOP
                                                            : WORKER_END_LENGTH,
                              .text = sequence->failed ? "the model produced numbers that are not finite" : NULL,
                              .tier_found = (enum tier)command->done.tier_found,
                              .recomputed_tokens = command->done.recomputed_tokens,
                              .compute_ns = command->done.compute_ns};

    end(worker, sequence, &said);
}

void request_said_refused(struct worker *worker, const struct replica_command *command)
{
    static const char *const sentences[] = {
        [REFUSE_NONE] = "refused",
#define X(name, text) [REFUSE_##name] = text,
        REFUSE_REASONS(X)
#undef X
    };
    struct worker_sequence *sequence = sequence_of(worker, command->refuse.request);
    struct worker_end said = {.reason = WORKER_END_FAILED};
    char text[640];
    int length = 0;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-extra-args"
    length = snprintf(text, sizeof(text), sentences[command->reason], (unsigned long long)command->refuse.need,
                      (unsigned long long)command->refuse.have);
#pragma GCC diagnostic pop
    if (command->reason == REFUSE_ADAPTER_LOST && sequence->version != NULL && sequence->version->failure != NULL)
        snprintf(text + length, sizeof(text) - (size_t)length, ": %s", sequence->version->failure);
    said.text = text;
    end(worker, sequence, &said);
}

/* Its tokens stay; KV is computed again when it has its turn. */
void request_said_preempted(struct worker *worker, const struct replica_command *command)
{
    struct worker_sequence *sequence = sequence_of(worker, command->preempt.request);

    for (uint32_t i = 0; i < sequence->blocks_count; i++)
        blocks_give(&worker->blocks, sequence->blocks[i]);
    sequence->blocks_count = 0;
}
