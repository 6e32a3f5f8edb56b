/* What the metadata's writer does for the loop. An act comes back as a call; one that the machine refused (a full queue, a full disk) is
 * tried again, since what was promised must not hang on it. */
#include <stdlib.h>

#include "control/core/internal.h"

#define AGAIN_NS NS_PER_S

struct act *act_create(struct core *core, meta_act *run, void (*then)(struct core *core, struct act *act), uint64_t worker)
{
    struct act *act = calloc(1, sizeof(*act));

    check(act != NULL);
    act->call.kind = CALL_ACT;
    act->call.act = act;
    act->core = core;
    act->run = run;
    act->then = then;
    act->worker = worker;
    act->now_ms = core_wall_ms();
    core_worker_id(worker, act->id);
    return act;
}

void act_free(struct act *act)
{
    free(act->tells);
    free(act->known);
    free(act);
}

static void done(void *context, enum status status, const struct refusal *refusal)
{
    struct act *act = context;

    (void)refusal;
    act->status = status;
    check(calls_push(act->core, &act->call, false) == STATUS_OK);
}

static void wait_for_room(struct core *core, struct act *act)
{
    if (core->acts_waiting == NULL)
        core->acts_again_at_ns = core->now_ns + AGAIN_NS;
    act->next = core->acts_waiting;
    core->acts_waiting = act;
}

void act_submit(struct core *core, struct act *act)
{
    struct refusal refusal = {{0}};

    if (meta_writer_submit(core->config.writer, act->run, done, act, &refusal) == STATUS_OK)
        core->acts_in_flight++;
    else
        wait_for_room(core, act);
}

void act_came_back(struct core *core, struct act *act)
{
    core->acts_in_flight--;
    if (act->status == STATUS_IO || act->status == STATUS_FULL) {
        core_log(core, "act=write-again worker=%s code=%s", act->id, act->status == STATUS_IO ? "io" : "full");
        wait_for_room(core, act);
        return;
    }
    act->then(core, act);
    act_free(act);
}

void acts_retry(struct core *core)
{
    struct act *act = core->acts_waiting;

    if (act == NULL || core->now_ns < core->acts_again_at_ns)
        return;
    core->acts_waiting = NULL;
    while (act != NULL) {
        struct act *next = act->next;

        act_submit(core, act);
        act = next;
    }
}
