/* The engine that the simulator pretends to be: a RUN takes as long as the step model says. Equal decode steps are folded
 * into one event; settling takes a folded run apart again before anything else reaches the core, so that the results are
 * those of single steps, bit for bit: durations are integers of single steps, added up. */
#include "engine/internal.h"

/* In whole nanoseconds, with the noise of engine step number `step`. */
static int64_t duration_ns(const struct sim_replica *replica, const struct step_line *line, uint64_t kv_tokens, uint64_t step)
{
    double ns = step_line_ns(line, kv_tokens);

    if (replica->model.jitter > 0)
        ns *= step_jitter(&replica->model, replica->salt, step);
    return ns < 1 ? 1 : (int64_t)ns;
}

/* Duration of the run's step number j, from 0. */
static int64_t step_ns(const struct sim_replica *replica, uint32_t j)
{
    const struct sim_run *run = &replica->run;

    return duration_ns(replica, &run->line, run->kv_tokens + (uint64_t)j * run->decode_rows, run->step + j);
}

/* How many of the run's steps have ended by now, the last one excepted, and when the last of them did. It goes on from
 * where it came to the last time. */
static uint32_t steps_ended(struct sim_replica *replica, int64_t *ret_at_ns)
{
    struct sim_run *run = &replica->run;

    while (run->walked_steps + 1 < run->steps) {
        int64_t next_ns = run->walked_at_ns + step_ns(replica, run->walked_steps);

        if (next_ns > replica->sim->now_ns)
            break;
        run->walked_at_ns = next_ns;
        run->walked_steps++;
    }
    *ret_at_ns = run->walked_at_ns;
    return run->walked_steps;
}

static void count_adapter(struct sim_replica *replica, struct step_load *load, const struct step_row *row)
{
    struct sim_weight *weight = &replica->weights[row->gpu_slot];

    load->rank_tokens += (uint64_t)weight->rank * row->tokens;
    if (weight->mark == replica->plan_mark)
        return;
    weight->mark = replica->plan_mark;
    load->adapters++;
    load->adapter_bytes += weight->bytes;
    load->adapter_ranks += weight->rank;
}

/* `part`: ROW_PREFILL, or 0 for the decoding rows. */
static void count_rows(struct sim_replica *replica, const struct step_plan *plan, uint16_t part, struct step_load *load)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct step_row *row = &plan->rows[i];

        if (row->tokens == 0 || (row->flags & ROW_PREFILL) != part)
            continue;
        load->rows++;
        load->kv_tokens += row->context_tokens;
        if (part == ROW_PREFILL) {
            load->prefill_tokens += row->tokens;
            load->attention_area += (double)row->tokens * ((double)row->context_tokens + row->tokens / 2.0);
        } else {
            load->decode_rows++;
        }
        if (row->gpu_slot != NO_SLOT)
            count_adapter(replica, load, row);
    }
}

/* The fewest steps until a sequence ends by its own length, where the core was only told an upper bound. */
static uint32_t steps_until_end(const struct sim_replica *replica, const struct step_plan *plan, uint32_t steps)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct sim_request *request =
            &replica->sim->requests[replica->request_of[request_slot(plan->rows[i].request)]];

        if ((plan->rows[i].flags & ROW_PREFILL) == 0 && plan->rows[i].tokens > 0)
            steps = min_u32(steps, request->arrival.output_tokens - request->output_tokens);
    }
    return steps;
}

static void arm_end(struct sim_replica *replica, int64_t at_ns)
{
    struct sim_run *run = &replica->run;

    run->generation++;
    sim_push(replica->sim, at_ns, CLASS_PHYSICS, ACTOR_STEP, replica->index, run->generation, run->generation);
}

/* What the plan carries, and whom it has admitted. */
static void plan_count(struct sim_replica *replica, const struct step_plan *plan)
{
    struct sim_run *run = &replica->run;
    struct step_load load = {0};

    replica->plan_mark++;
    count_rows(replica, plan, 0, &load);
    if (load.decode_rows < plan->count) {
        run->prefills = true;
        if (load.decode_rows > 0) {
            run->line = step_line(&replica->model, &load);
            run->without_prefill_ns = duration_ns(replica, &run->line, load.kv_tokens, run->step);
        }
        count_rows(replica, plan, ROW_PREFILL, &load);
        for (uint32_t i = 0; i < plan->count; i++)
            if (plan->rows[i].flags & ROW_ADMITTED)
                request_admitted(replica, &plan->rows[i]);
    }
    run->line = step_line(&replica->model, &load);
    run->kv_tokens = load.kv_tokens;
    run->decode_rows = load.decode_rows;
}

void run_begin(struct sim_replica *replica, const struct replica_command *command)
{
    struct sim *sim = replica->sim;
    struct sim_run *run = &replica->run;
    struct step_plan plan = replica_plan(replica->core);
    int64_t end_ns = sim->now_ns;

    check(run->steps == 0);
    check(plan.count == command->run.rows);
    if (replica->settling) {
        /* The rows of the run that was cut: nothing but their contexts has changed. */
        check(plan.count == run->decode_rows && command->run.prefill_tokens == 0);
        run->kv_tokens += (command->run.step - run->step) * run->decode_rows;
        run->step = command->run.step;
    } else {
        *run = (struct sim_run){.step = command->run.step,
                                .prefill_tokens = command->run.prefill_tokens,
                                .generation = run->generation};
        plan_count(replica, &plan);
    }
    run->command = command->id;
    run->from_ns = sim->now_ns;
    run->walked_steps = 0;
    run->walked_at_ns = sim->now_ns;
    run->steps = sim->scenario->single_step || replica->settling ? 1 : command->run.steps_max;
    if (sim->scenario->workload.announced_output == KEY_ANNOUNCED_MAX)
        run->steps = steps_until_end(replica, &plan, run->steps);
    check(run->steps >= 1 && run->steps <= command->run.steps_max);
    for (uint32_t j = 0; j < run->steps; j++)
        end_ns += step_ns(replica, j);
    replica->runs++;
    arm_end(replica, end_ns);
}

/* The part of [run began, until] in the measured window. */
static int64_t measured_ns(const struct sim_replica *replica, int64_t until_ns)
{
    const struct sim *sim = replica->sim;

    return max_i64(0, min_i64(until_ns, sim->arrivals_end_ns) - max_i64(replica->run.from_ns, sim->facts.warmup_until_ns));
}

int64_t run_measured_busy_ns(const struct sim_replica *replica)
{
    return replica->measured_busy_ns + (replica->run.steps > 0 ? measured_ns(replica, replica->sim->now_ns) : 0);
}

/* Tells the core that the first `steps` of the run have ended at `at_ns`. */
static void report_done(struct sim_replica *replica, uint32_t steps, int64_t at_ns)
{
    struct sim_run *run = &replica->run;
    int64_t busy_ns = at_ns - run->from_ns;
    struct replica_event event;

    memset(&event, 0, sizeof(event));
    event.at_ns = at_ns;
    event.kind = REPLICA_EVENT_STEP_DONE;
    event.answers = run->command;
    event.step_done.step = run->step;
    event.step_done.busy_ns = busy_ns;
    event.step_done.steps = steps;
    replica->totals.busy_ns += busy_ns;
    replica->totals.output_tokens += (uint64_t)steps * run->decode_rows;
    replica->totals.prefill_tokens += run->prefill_tokens;
    replica->measured_busy_ns += measured_ns(replica, at_ns);
    replica->engine_steps += steps;
    run->steps = 0;
    replica_deliver(replica, &event);
}

/* What the host keeps of each row when a step with prompts in it ends. */
static void account_prefill(struct sim_replica *replica, const struct step_plan *plan, int64_t now_ns)
{
    struct sim_run *run = &replica->run;
    int64_t step_ns_all = now_ns - run->from_ns;

    replica->interference_ns += step_ns_all - min_i64(run->without_prefill_ns, step_ns_all);
    for (uint32_t i = 0; i < plan->count; i++) {
        if (plan->rows[i].flags & ROW_PREFILL)
            request_prefilled(replica, &plan->rows[i], step_ns_all, now_ns);
        if ((plan->rows[i].flags & ROW_LAST) != 0)
            replica->totals.output_tokens++;
    }
}

/* Only where the core does not know the length: count tokens, and say which sequences end with this step. */
static void end_sequences(struct sim_replica *replica, const struct step_plan *plan, uint32_t steps, int64_t now_ns)
{
    struct sim *sim = replica->sim;

    for (uint32_t i = 0; i < plan->count; i++) {
        const struct step_row *row = &plan->rows[i];
        struct sim_request *request = &sim->requests[replica->request_of[request_slot(row->request)]];
        struct replica_event event;

        if (row->tokens == 0)
            continue;
        if ((row->flags & ROW_PREFILL) == 0)
            request->output_tokens += steps;
        else if (row->flags & ROW_LAST)
            request->output_tokens++;
        if (request->output_tokens < request->arrival.output_tokens || request->ending ||
            request->arrival.output_tokens == request->arrival.output_tokens_max)
            continue;
        request->ending = true;
        memset(&event, 0, sizeof(event));
        event.at_ns = now_ns;
        event.kind = REPLICA_EVENT_SEQUENCE_END;
        event.reason = SEQUENCE_FINISHED;
        event.sequence_end.request = row->request;
        event.sequence_end.output_tokens = request->output_tokens;
        replica_deliver(replica, &event);
    }
}

void run_ended(struct sim_replica *replica, uint32_t generation)
{
    struct sim_run *run = &replica->run;
    struct sim *sim = replica->sim;
    struct step_plan plan;

    if (generation != run->generation || run->steps == 0)
        return;
    plan = replica_plan(replica->core);
    if (run->prefills)
        account_prefill(replica, &plan, sim->now_ns);
    if (sim->scenario->workload.announced_output == KEY_ANNOUNCED_MAX) {
        replica->settling = true; /* the run ends at this very instant: nothing to take apart */
        end_sequences(replica, &plan, run->steps, sim->now_ns);
        replica->settling = false;
    }
    report_done(replica, run->steps, sim->now_ns);
}

void run_settle(struct sim_replica *replica)
{
    struct sim_run *run = &replica->run;
    int64_t at_ns;
    uint32_t ended;

    if (run->steps <= 1 || replica->settling)
        return;
    ended = steps_ended(replica, &at_ns);
    if (ended == 0) {
        run->steps = 1;
        arm_end(replica, run->from_ns + step_ns(replica, 0));
        return;
    }
    if (replica->sim->scenario->workload.announced_output == KEY_ANNOUNCED_MAX) {
        struct step_plan plan = replica_plan(replica->core);

        for (uint32_t i = 0; i < plan.count; i++)
            replica->sim->requests[replica->request_of[request_slot(plan.rows[i].request)]].output_tokens += ended;
    }
    replica->settling = true;
    /* The core hears of it as of the boundary; its answer can only be the next RUN, which begins there. */
    int64_t now_ns = replica->sim->now_ns;
    replica->sim->now_ns = at_ns;
    report_done(replica, ended, at_ns);
    replica->sim->now_ns = now_ns;
    replica->settling = false;
    check(run->steps == 1);
}

struct replica_totals run_totals(struct sim_replica *replica)
{
    struct replica_totals totals = replica->totals;

    if (replica->run.steps > 1) {
        int64_t at_ns;
        uint32_t ended = steps_ended(replica, &at_ns);

        totals.busy_ns += at_ns - replica->run.from_ns;
        totals.output_tokens += (uint64_t)ended * replica->run.decode_rows;
    }
    return totals;
}

uint64_t run_kv_blocks(struct sim_replica *replica, const struct replica_state *state)
{
    uint64_t blocks = state->kv_blocks_used;
    struct step_plan plan;
    int64_t at_ns;
    uint32_t ended;

    if (replica->run.steps <= 1)
        return blocks;
    ended = steps_ended(replica, &at_ns);
    if (ended == 0)
        return blocks;
    plan = replica_plan(replica->core);
    /* A row that decodes holds the blocks of its context and of the token being added: ceil((context + 1) / block). */
    for (uint32_t i = 0; i < plan.count; i++) {
        uint32_t last = plan.rows[i].context_tokens;

        blocks += ((last + ended) >> replica->block_shift) - (last >> replica->block_shift);
    }
    return blocks;
}
