/* Workers of the driver's: it is told what they say, and they are told what it says. */
#include <stdlib.h>
#include <unistd.h>

#include "control/core/internal.h"

void driven_heard(struct core *core, struct core_heard *heard)
{
    heard->at_ns = core->now_ns;
    if (core->config.hears != NULL)
        core->config.hears(core->config.hears_context, heard);
}

void driven_frame(struct core *core, struct worker_link *worker, const struct wire_frame *frame)
{
    driven_heard(core, &(struct core_heard){.kind = CORE_HEARD_FRAME, .launch = worker->launch, .frame = frame,
                 .frame_bytes = core->inbox.bytes, .frame_count = frame->header.length});
}

static void refuse_launch(struct core *core, struct call *call, enum status status)
{
    said_free(call->said, true);
    driven_heard(core, &(struct core_heard){.kind = CORE_HEARD_REFUSED, .launch = call->launch, .status = status});
}

static void launch(struct core *core, struct call *call)
{
    struct launcher *launcher = core->config.launcher;
    struct worker_link *worker = worker_link_find(core, call->launch.worker);
    enum status status;

    if (worker != NULL) { /* asked twice, it is one worker */
        said_free(call->said, true);
        return;
    }
    worker = worker_link_add(core, &call->launch, WORKER_ASKED);
    if (worker == NULL) {
        refuse_launch(core, call, STATUS_FULL);
        return;
    }
    status = launcher->table->start(launcher, &call->launch);
    if (status == STATUS_OK) {
        worker_link_say(core, worker, call->said);
        return;
    }
    core->launcher_gone |= status == STATUS_IO;
    worker_link_free(core, worker);
    refuse_launch(core, call, status);
}

void driven_call(struct core *core, struct call *call)
{
    struct worker_link *worker = worker_link_find(core, call->number);

    if (call->kind == CALL_LAUNCH) {
        launch(core, call);
        return;
    }
    if (worker == NULL || worker->launch.kind == CORE_SERVER) {
        said_free(call->said, true);
        return;
    }
    switch ((int)call->kind) {
    case CALL_SAY:
        worker_link_say(core, worker, call->said);
        break;
    case CALL_COMMIT:
        if (worker->wire != NULL && call->seq <= wire_state(worker->wire).seq)
            wire_commit(worker->wire, call->seq);
        break;
    case CALL_END:
        worker_link_end(core, worker, call->at_once);
        break;
    case CALL_FORGET:
        if (worker->is_gone)
            worker_link_forget(core, worker);
        break;
    }
}
