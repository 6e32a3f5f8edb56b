/* One engine step: the plan's rows to the engine, its outputs to tokens, tokens to their owners. */
#include <math.h>

#include "worker/internal.h"

/* KV blocks for positions below `tokens`. The core has counted them. */
static void grow_blocks(struct worker *worker, struct worker_sequence *sequence, uint32_t tokens)
{
    uint32_t blocks = (tokens + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;

    while (sequence->blocks_count < blocks)
        sequence->blocks[sequence->blocks_count++] = blocks_take(&worker->blocks);
}

/* Whether the row's token is still where the step before left it; see struct forward_part. */
static int32_t follows(const struct worker *worker, const struct worker_sequence *sequence, const struct step_row *row)
{
    bool last = row->tokens == 1 && row->context_tokens + 1 == sequence->request.prompt_tokens + sequence->answered;

    return last && sequence->answered > 0 && sequence->picked_step == worker->counts.steps ? sequence->picked : 0;
}

/* The rows that have tokens in this step; their number. */
static int32_t fill_parts(struct worker *worker, const struct step_plan *plan)
{
    int32_t count = 0;

    for (uint32_t i = 0; i < plan->count; i++) {
        const struct step_row *row = &plan->rows[i];
        struct worker_sequence *sequence;

        if (row->tokens == 0)
            continue;
        sequence = sequence_of(worker, row->request);
        check(row->context_tokens + row->tokens <= sequence->request.prompt_tokens + sequence->answered);
        grow_blocks(worker, sequence, row->context_tokens + row->tokens);
        worker->part_slots[count] = request_slot(row->request);
        worker->parts[count++] = (struct forward_part){
            .tokens = sequence->tokens + row->context_tokens,
            .blocks = sequence->blocks,
            .rows = (int32_t)row->tokens,
            .before = (int32_t)row->context_tokens,
            .slot = row->gpu_slot == NO_SLOT ? SEGMENT_NONE : row->gpu_slot,
            .wants_output = (row->flags & ROW_PREFILL) == 0 || (row->flags & ROW_LAST) != 0,
            .follows = follows(worker, sequence, row),
        };
    }
    return count;
}

/* False: the numbers are not finite. */
static bool sample(struct worker *worker, struct worker_sequence *sequence, int32_t output, const struct forward_output *best,
                   struct sample_choice *ret_choice)
{
    struct sample_row row = {.lse = best->lse,
                             .logits = best->logits,
                             .ids = best->ids,
                             .count = worker->best,
                             .vocabulary = worker->model->config.dims.vocabulary};
    int64_t position = (int64_t)sequence->request.prompt_tokens + sequence->answered;

    if (!isfinite(best->lse) || !isfinite(best->logits[0]))
        return false;
    if (sample_token(&sequence->sample, sequence->counts, &row, position, worker->scratch, ret_choice) == STATUS_OK)
        return true;
    forward_logits(worker->forward, output, worker->logits);
    row.whole = worker->logits;
    return sample_token(&sequence->sample, sequence->counts, &row, position, worker->scratch, ret_choice) == STATUS_OK;
}

static bool is_end(const struct worker *worker, int32_t id)
{
    for (int32_t i = 0; i < worker->eos_count; i++)
        if (worker->eos[i] == id)
            return true;
    return false;
}

/* Before its STEP_DONE: the core hears which sequences end with this step by something other than their length. */
static void tell_end(struct worker *worker, struct worker_sequence *sequence)
{
    struct replica_event event;

    sequence->ending = true;
    memset(&event, 0, sizeof(event));
    event.kind = REPLICA_EVENT_SEQUENCE_END;
    event.reason = SEQUENCE_FINISHED;
    event.sequence_end.request = request_id_make(sequence->ordinal, (uint32_t)(sequence - worker->sequences));
    event.sequence_end.output_tokens = sequence->answered;
    worker_tell_replica(worker, &event);
}

static void take_token(struct worker *worker, struct worker_sequence *sequence, int32_t output)
{
    struct forward_output best = forward_output(worker->forward, output);
    struct worker_token token = {.index = sequence->answered,
                                 .lse = best.lse,
                                 .best_logits = best.logits,
                                 .best_ids = best.ids,
                                 .best_count = (uint32_t)worker->best};
    struct sample_choice choice = {0};
    bool over;

    if (sequence->ending) /* cancelled */
        return;
    sequence->failed = !sample(worker, sequence, output, &best, &choice);
    sequence->tokens[sequence->request.prompt_tokens + sequence->answered++] = choice.id;
    if (sequence->failed) {
        tell_end(worker, sequence);
        return;
    }
    if (sequence->answered == 1)
        sequence->first_ns = worker->now_ns;
    if (sequence->counts != NULL)
        sample_counts_answer(sequence->counts, choice.id);
    sequence->picked = choice.id == best.ids[0] ? output + 1 : 0;
    sequence->picked_step = worker->counts.steps;
    token.id = choice.id;
    token.logprob = choice.logprob;
    token.ends = !sequence->request.ignore_eos && is_end(worker, choice.id);
    over = sequence->request.token(sequence->request.owner, &token);
    sequence->stopped = over || token.ends;
    /* Of one that has its whole length the core knows. */
    if (sequence->stopped && sequence->answered < sequence->request.max_tokens && !sequence->ending)
        tell_end(worker, sequence);
}

void worker_step(struct worker *worker)
{
    struct step_plan plan = replica_plan(worker->replica);
    int64_t from_ns = worker->now_ns;
    int32_t count = fill_parts(worker, &plan);
    struct replica_event event;
    int32_t output = 0;

    forward_step(worker->forward, worker->parts, count);
    worker->counts.steps++;
    worker_look_at_clock(worker);
    memset(&event, 0, sizeof(event));
    event.kind = REPLICA_EVENT_STEP_DONE;
    event.answers = worker->run_command;
    event.step_done.step = plan.step;
    event.step_done.steps = 1;
    event.step_done.busy_ns = worker->now_ns - from_ns;
    for (int32_t i = 0; i < count; i++)
        if (worker->parts[i].wants_output)
            take_token(worker, &worker->sequences[worker->part_slots[i]], output++);
    worker->run_pending = false;
    worker_tell_replica(worker, &event);
}
