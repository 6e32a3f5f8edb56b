/* What the writer keeps of model servers: all that they must tell, in order, a batch at a time; how they ended. */
#include <sched.h>
#include <stdlib.h>

#include "control/core/internal.h"

#define TELLS_PIECE 4 /* records; some 0.1 ms */

/* --- what they tell -------------------------------------------------------------------------------------------------------------- */

void server_tell(struct core *core, struct worker_link *worker, const struct tell *tell)
{
    if (worker->tells_count == worker->tells_max) {
        worker->tells_max = max_u32(TELLS_TOGETHER_MAX, 2 * worker->tells_max);
        worker->tells = realloc(worker->tells, worker->tells_max * sizeof(*tell));
        check(worker->tells != NULL);
    }
    worker->tells[worker->tells_count] = *tell;
    worker->tells[worker->tells_count++].at_ns = core->now_ns;
}

bool server_account(struct tell *tell, const char *account, size_t bytes)
{
    const char *space = memchr(account, ' ', bytes);
    const size_t tenant = space != NULL ? (size_t)(space - account) : 0;
    const size_t model = space != NULL ? bytes - tenant - 1 : 0;

    if (tenant == 0 || tenant >= sizeof(tell->tenant) || model == 0 || model >= sizeof(tell->model))
        return false;
    memcpy(tell->tenant, account, tenant);
    memcpy(tell->model, space + 1, model);
    return true;
}

static uint32_t records_of(const struct act *act, struct meta_usage *ret_records)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < act->tells_count; i++) {
        const struct tell *tell = &act->tells[i];

        if (tell->is_usage)
            ret_records[count++] = (struct meta_usage){.seq = (int64_t)tell->seq, .tenant = tell->tenant, .model = tell->model,
                                                       .hour = tell->hour, .tokens_in = tell->tokens_in, .tokens_out = tell->tokens_out};
    }
    return count;
}

/* A record that names nobody is told of and passed over: kept back, it would keep back all that come after it. */
static enum status write_each(struct metadata *metadata, struct act *act, const struct meta_usage *records, uint32_t count,
                              int64_t *ret_acked, struct refusal *refusal)
{
    enum status status = STATUS_OK;

    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        status = meta_usage_add(metadata, act->id, &records[i], 1, ret_acked, refusal);
        if (status == STATUS_INVALID) {
            act->refused++;
            status = STATUS_OK;
        }
    }
    return status;
}

/* A piece at a time, others between them: a thread that runs is left its slice by those that come awake, however nice it is. With as much
 * to tell as one commit takes, the writer falls behind and stands back no more. */
static enum status write_records(struct metadata *metadata, struct act *act, const struct meta_usage *records, uint32_t count,
                                 int64_t *ret_acked, struct refusal *refusal)
{
    enum status status = STATUS_OK;
    uint32_t piece;

    for (uint32_t at = 0; at < count && status == STATUS_OK; at += piece) {
        piece = min_u32(count - at, act->tells_count < TELLS_TOGETHER_MAX ? TELLS_PIECE : count);
        if (at > 0)
            (void)sched_yield();
        status = meta_usage_add(metadata, act->id, records + at, piece, ret_acked, refusal);
        if (status == STATUS_INVALID)
            status = write_each(metadata, act, records + at, piece, ret_acked, refusal);
    }
    return status;
}

static enum status write_tells(struct metadata *metadata, void *context, struct refusal *refusal)
{
    struct act *act = context;
    struct meta_usage records[TELLS_TOGETHER_MAX];
    const uint32_t count = records_of(act, records);
    const int64_t last = (int64_t)act->tells[act->tells_count - 1].seq;
    int64_t acked = 0;
    enum status status;

    act->refused = 0;
    status = write_records(metadata, act, records, count, &acked, refusal);
    if (status == STATUS_OK && acked < last)
        status = meta_worker_ack(metadata, act->id, last, refusal);
    return status;
}

static void tells_were_written(struct core *core, struct act *act)
{
    struct worker_link *worker = worker_link_find(core, act->worker);

    check(worker != NULL && worker->is_telling);
    if (act->refused > 0 || act->status != STATUS_OK)
        core_log(core, "act=usage-refused worker=%s count=%u", act->id, (unsigned)act->refused);
    worker->is_telling = false;
    worker->tells_count -= act->tells_count;
    memmove(worker->tells, worker->tells + act->tells_count, worker->tells_count * sizeof(worker->tells[0]));
    wire_commit(worker->wire, min_u64(act->tells[act->tells_count - 1].seq, wire_state(worker->wire).seq));
    server_tells_turn(core, worker);
}

static enum status write_end(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct act *act = context;

    return meta_worker_ended(metadata, act->id, act->text, act->now_ms, refusal);
}

static void end_was_written(struct core *core, struct act *act)
{
    worker_link_forget(core, worker_link_find(core, act->worker));
}

void server_end_row(struct core *core, struct worker_link *worker, const char *how)
{
    struct act *act = act_create(core, write_end, end_was_written, worker->launch.worker);

    worker->is_ending = true;
    (void)snprintf(act->text, sizeof(act->text), "%s", how);
    act_submit(core, act);
}

/* More may come, and share the commit. Of a server that is gone, what it told is here alone. */
static bool may_wait(const struct core *core, const struct worker_link *worker)
{
    return worker->tells_count > 0 && worker->tells_count < TELLS_TOGETHER_MAX && worker->socket >= 0 && !core->is_closed &&
           core->now_ns < worker->tells_due_ns;
}

void server_tells_turn(struct core *core, struct worker_link *worker)
{
    struct act *act;
    char how[32];

    if (worker->is_telling || worker->is_ending || may_wait(core, worker))
        return;
    if (worker->tells_count > 0) {
        act = act_create(core, write_tells, tells_were_written, worker->launch.worker);
        act->tells_count = min_u32(worker->tells_count, TELLS_TOGETHER_MAX);
        act->tells = malloc(act->tells_count * sizeof(act->tells[0]));
        check(act->tells != NULL);
        memcpy(act->tells, worker->tells, act->tells_count * sizeof(act->tells[0]));
        worker->is_telling = true;
        worker->tells_due_ns = core->now_ns + TELLS_NS;
        act_submit(core, act);
    } else if (worker->is_gone) {
        (void)snprintf(how, sizeof(how), "%s-%d", worker->end.by_signal ? "signal" : "exit", (int)worker->end.code);
        server_end_row(core, worker, how);
    }
}

/* --- rows of servers that are no more --------------------------------------------------------------------------------------------- */

static bool is_known(const struct act *act, const char *id)
{
    for (uint32_t i = 0; i < act->known_count; i++) {
        char known[NAME_BYTES];

        core_worker_id(act->known[i], known);
        if (strcmp(known, id) == 0)
            return true;
    }
    return false;
}

static enum status end_rows(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct act *act = context;
    char after[NAME_BYTES] = "";
    bool more = true;
    enum status status = STATUS_OK;

    while (more && status == STATUS_OK) {
        struct meta_results results = {0};
        struct meta_worker *workers = NULL;
        uint32_t count = 0;

        status = meta_worker_list(metadata, after, META_PAGE_MAX, &results, &workers, &count, &more, refusal);
        for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
            (void)snprintf(after, sizeof(after), "%s", workers[i].id);
            if (strcmp(workers[i].kind, "server") == 0 && workers[i].started_at_ms < act->now_ms && !is_known(act, workers[i].id))
                status = meta_worker_ended(metadata, workers[i].id, "lost", act->now_ms, refusal);
        }
        meta_results_free(&results);
    }
    return status;
}

static void rows_were_ended(struct core *core, struct act *act)
{
    if (act->status != STATUS_OK)
        core_log(core, "act=rows-not-ended code=%d", (int)act->status);
}

/* The machine went down with them: nobody is there to be reaped. */
void servers_end_rows(struct core *core)
{
    struct act *act = act_create(core, end_rows, rows_were_ended, 0);

    act->known = calloc(WORKERS_MAX, sizeof(act->known[0]));
    check(act->known != NULL);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        if (core->workers[i] != NULL)
            act->known[act->known_count++] = core->workers[i]->launch.worker;
    }
    act_submit(core, act);
}
