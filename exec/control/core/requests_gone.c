/* What is left of requests when their server is gone, or the loop ends. */
#include "control/core/internal.h"

/* Its client has these tokens, and the server can say so no longer. */
static void bill(struct core *core, const struct request *request, struct worker_link *worker)
{
    const uint64_t last = worker->tells_count > 0 ? worker->tells[worker->tells_count - 1].seq : 0;
    struct tell tell = {.seq = max_u64(last, wire_state(worker->wire).seq) + 1, .hour = core_wall_ms() / 3600000,
                        .tokens_in = request->prompt_tokens, .tokens_out = request->sent_tokens};

    tell.is_usage = server_account(&tell, request->account, strlen(request->account));
    server_tell(core, worker, &tell);
}

static void end_lost(struct core *core, struct request *request)
{
    const struct core_end end = {.reason = request->is_aborted ? CORE_END_CANCELLED : CORE_END_LOST, .text = "",
                                 .prompt_tokens = request->prompt_tokens, .output_tokens = request->sent_tokens};

    core->counts.lost += end.reason == CORE_END_LOST;
    request->state = REQUEST_ASKED;
    request_finish(core, request, &end);
}

/* What was owed to it is owed no more. */
static void ask_elsewhere(struct core *core, struct request *request)
{
    request->state = REQUEST_ASKED;
    request->is_owing = false;
    request->credit_owed = 0;
    if (request->is_aborted) {
        request_end_early(core, request, CORE_END_CANCELLED, "");
        return;
    }
    core->counts.rerouted++;
    request_ask(core, request);
}

void requests_server_gone(struct core *core, struct request_list *sent, struct request_list *others, struct worker_link *worker)
{
    for (struct request *request = sent->first, *next; request != NULL; request = next) {
        next = request->next;
        if (request->sent_tokens > 0 && !request->is_billed)
            bill(core, request, worker);
        if (request->sent_tokens > 0 || request->is_billed)
            end_lost(core, request);
        else
            ask_elsewhere(core, request);
    }
    for (struct request *request = others->first, *next; request != NULL; request = next) {
        next = request->next;
        ask_elsewhere(core, request);
    }
}

/* The loop ends: what had begun is cut, the rest is told to come again. Servers forget them when the next control plane welcomes them. */
void requests_end_all(struct core *core)
{
    requests_give_up(core, true);
    for (uint32_t i = 0; i < core->replicas; i++) {
        struct server *server = &core->servers[i];

        while (server->parked.first != NULL)
            request_end_early(core, server->parked.first, CORE_END_BUSY, "the platform is stopping");
        while (server->ready.first != NULL)
            request_end_early(core, server->ready.first, CORE_END_BUSY, "the platform is stopping");
        while (server->sent.first != NULL) {
            struct request *request = server->sent.first;

            request_leave_server(core, request);
            request_tell_done(core, request, NULL);
            request_unlink(&server->sent, request);
            end_lost(core, request);
        }
    }
}
