/* The thread that holds the link: START, leases, what is granted later, the end. The working thread speaks through it. */
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "task/internal.h"

#define AGAIN_MS 10        /* while a queue is full */
#define SETTLE_MS 600000
#define FAILED_EXIT 1

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* --- the working thread's words ----------------------------------------------------------------------------------------------- */

static void wake(const struct task *task)
{
    const uint64_t one = 1;

    (void)!write(task->wake, &one, sizeof(one));
}

void task_say(struct task *task, enum wire_kind kind, const void *body)
{
    const struct timespec pause = {.tv_nsec = AGAIN_MS * NS_PER_MS};
    enum status status;

    for (;;) {
        pthread_mutex_lock(&task->mutex);
        if (kind == WIRE_PROGRESS)
            task->step = ((const struct wire_progress *)body)->step;
        status = link_say(task->link, kind, body, 0);
        pthread_mutex_unlock(&task->mutex);
        wake(task);
        if (status != STATUS_FULL || wire_kind_info(kind)->class != WIRE_CLASS_MUST)
            return;
        nanosleep(&pause, NULL);
    }
}

void task_say_failed(struct task *task, uint64_t step, enum fault fault, const char *text)
{
    static const struct grant none;
    const struct grant *first = task->grants->start_count > 0 ? &task->grants->start[0] : &none;
    uint8_t sealed[FAULT_SEALED_MAX];
    struct wire_failed failed = {.step = step, .code = (uint32_t)fault, .sealed = sealed};

    if (task->grants->start_count > 0)
        failed.sealed_count = (uint32_t)fault_seal(first->key, task->tenant, first->object, text, sealed);
    task_say(task, WIRE_FAILED, &failed);
    task->has_failed = true;
}

/* Of what has come first. */
static bool find_spare(struct grants *grants, enum spare sort, struct grant *ret_grant)
{
    for (uint32_t i = 0; i < grants->spare_count; i++) {
        if (grants->is_adapter[i] != (sort == SPARE_ADAPTER))
            continue;
        *ret_grant = grants->spare[i];
        grants->spare_count--;
        memmove(&grants->spare[i], &grants->spare[i + 1], (grants->spare_count - i) * sizeof(grants->spare[0]));
        memmove(&grants->is_adapter[i], &grants->is_adapter[i + 1], (grants->spare_count - i) * sizeof(grants->is_adapter[0]));
        return true;
    }
    return false;
}

void task_add_spare(struct task *task, enum spare sort, const struct grant *grant)
{
    struct grants *grants = task->grants;

    check(grants->spare_count < SPARES_MAX);
    grants->is_adapter[grants->spare_count] = sort == SPARE_ADAPTER;
    grants->spare[grants->spare_count] = *grant;
    for (uint32_t i = 0; i < GRANTS_MAX; i++)
        if (task->files[i] == grant->file)
            task->files[i] = -1; /* it is the spare's now */
    grants->spare_count++;
}

enum status task_take_spare(struct task *task, enum spare sort, bool waits, struct grant *ret_grant)
{
    bool found;

    pthread_mutex_lock(&task->mutex);
    while (!(found = find_spare(task->grants, sort, ret_grant)) && waits && task->stop == 0)
        pthread_cond_wait(&task->changed, &task->mutex);
    pthread_mutex_unlock(&task->mutex);
    return found ? STATUS_OK : STATUS_NOT_FOUND;
}

/* --- frames ------------------------------------------------------------------------------------------------------------------- */

/* A grant's id as a name; false: it is none. */
static bool read_grant(const uint8_t *bytes, uint32_t index, int file, struct grant *ret_grant)
{
    struct wire_grant grant;

    wire_grant_read(bytes, &grant);
    *ret_grant = (struct grant){.file = file, .index = index};
    memcpy(ret_grant->object, grant.id, NAME_BYTES);
    memcpy(ret_grant->key, grant.key, KEY_BYTES);
    return memchr(grant.id, '\0', sizeof(grant.id)) != NULL && name_is_valid(ret_grant->object);
}

static void take_spares(struct task *task, const struct wire_checkpoint_now *more, struct wire_inbox *inbox)
{
    struct grants *grants = task->grants;

    for (uint32_t i = 0; i < more->grants_count && i < inbox->descriptors_count; i++) {
        if (grants->spare_count == SPARES_MAX ||
            !read_grant(more->grants + (size_t)i * WIRE_GRANT_BYTES, i, inbox->descriptors[i], &grants->spare[grants->spare_count]))
            continue; /* the link closes its descriptor */
        grants->is_adapter[grants->spare_count++] = i < 32 && (more->adapters >> i & 1) != 0;
        inbox->descriptors[i] = -1;
    }
    if (more->deadline_ms != UINT32_MAX)
        task->stop = 1;
}

static void take_frame(struct task *task, const struct wire_frame *frame, struct wire_inbox *inbox)
{
    switch (frame->header.kind) {
    case WIRE_WELCOME:
        (void)link_say(task->link, WIRE_INVENTORY, &(struct wire_inventory){.step = task->step}, 0);
        break;
    case WIRE_CHECKPOINT_NOW:
        take_spares(task, &frame->body.checkpoint_now, inbox);
        break;
    case WIRE_DRAIN:
        task->stop = 1;
        break;
    default: /* what a server is told */
        break;
    }
}

/* --- START -------------------------------------------------------------------------------------------------------------------- */

static enum fault take_start(struct task *task, const struct wire_start *start, struct wire_inbox *inbox, struct refusal *refusal)
{
    json_error_t error;
    const char *tenant;

    task->start = *start;
    task->step = max_u64(start->step, 1);
    for (uint32_t i = 0; i < inbox->descriptors_count; i++) {
        task->files[i] = inbox->descriptors[i];
        inbox->descriptors[i] = -1;
    }
    for (uint32_t i = 0; i < start->grants_count && i < GRANTS_MAX; i++, task->grants->start_count++)
        if (!read_grant(start->grants + (size_t)i * WIRE_GRANT_BYTES, i, -1, &task->grants->start[i]))
            break;
    task->settings = json_loadb((const char *)start->settings, start->settings_count, JSON_REJECT_DUPLICATES, &error);
    tenant = json_string_value(json_object_get(task->settings, "tenant"));
    if (start->grants_count == 0 || task->grants->start_count != start->grants_count || tenant == NULL || !name_is_valid(tenant)) {
        refuse(refusal, STATUS_INVALID, "START is not one that a task has: grants, a JSON object, a tenant");
        return FAULT_SETTINGS;
    }
    memcpy(task->tenant, tenant, strlen(tenant) + 1);
    return FAULT_NONE;
}

enum fault task_start(struct task *task, struct refusal *refusal)
{
    struct wire_frame frame;
    struct wire_inbox *inbox;

    for (uint32_t i = 0; i < GRANTS_MAX; i++)
        task->files[i] = -1;
    for (;;) {
        switch (link_next(task->link, -1, &frame, &inbox)) {
        case LINK_FRAME:
            if (frame.header.kind == WIRE_START)
                return take_start(task, &frame.body.start, inbox, refusal);
            take_frame(task, &frame, inbox);
            break;
        case LINK_KILLED:
        case LINK_GONE: _exit(FAILED_EXIT);
        default: break;
        }
    }
}

/* --- while it works ----------------------------------------------------------------------------------------------------------- */

/* Takes all that is there. */
static void hear(struct task *task)
{
    struct wire_frame frame;
    struct wire_inbox *inbox;
    enum link_event event;

    pthread_mutex_lock(&task->mutex);
    while ((event = link_next(task->link, 0, &frame, &inbox)) == LINK_FRAME) {
        take_frame(task, &frame, inbox);
        (void)link_flush(task->link);
    }
    if (event == LINK_KILLED || event == LINK_GONE)
        _exit(FAILED_EXIT);
    if (now_ns() < wire_state(link_wire(task->link)).lease_until_ns)
        task->lost_at_ns = NEVER_NS;
    else if (task->lost_at_ns == NEVER_NS)
        task->lost_at_ns = now_ns();
    if (task->lost_at_ns != NEVER_NS && now_ns() - task->lost_at_ns >= task->config->lost_ms * NS_PER_MS)
        task->stop = 1;
    pthread_cond_broadcast(&task->changed);
    pthread_mutex_unlock(&task->mutex);
}

static int wait_ms(const struct task *task)
{
    int64_t due_ns = link_due_at_ns(task->link);

    if (task->lost_at_ns != NEVER_NS && task->stop == 0)
        due_ns = min_i64(due_ns, task->lost_at_ns + task->config->lost_ms * NS_PER_MS);
    due_ns = min_i64(due_ns, task->settled_by_ns);
    if (due_ns == NEVER_NS)
        return -1;
    return (int)min_i64(max_i64(due_ns - now_ns(), 0) / NS_PER_MS + 1, INT32_MAX);
}

static bool is_committed(const struct task *task)
{
    const struct wire_state state = wire_state(link_wire(task->link));

    return state.committed_seq == state.seq;
}

/* What was done may wait for a control plane, but not for ever. */
static bool goes_on(struct task *task)
{
    bool goes_on;

    pthread_mutex_lock(&task->mutex);
    if (task->is_over && task->settled_by_ns == NEVER_NS)
        task->settled_by_ns = now_ns() + (task->lost_at_ns != NEVER_NS ? task->config->lost_ms : SETTLE_MS) * NS_PER_MS;
    goes_on = !task->is_over || (!is_committed(task) && now_ns() < task->settled_by_ns);
    pthread_mutex_unlock(&task->mutex);
    return goes_on;
}

/* What is waited for, and how long: of the link, to which the working thread may be speaking. */
static int choose_wait(struct task *task, struct pollfd ret_both[2])
{
    int within_ms;

    pthread_mutex_lock(&task->mutex);
    ret_both[0] = (struct pollfd){.fd = link_descriptor(task->link), .events = (short)(POLLIN | (link_wants_output(task->link) ? POLLOUT : 0))};
    ret_both[1] = (struct pollfd){.fd = task->wake, .events = POLLIN};
    within_ms = wait_ms(task);
    pthread_mutex_unlock(&task->mutex);
    return within_ms;
}

bool task_attend(struct task *task)
{
    while (goes_on(task)) {
        struct pollfd both[2];
        uint64_t count;

        (void)poll(both, 2, choose_wait(task, both));
        if ((both[1].revents & POLLIN) != 0)
            (void)!read(task->wake, &count, sizeof(count));
        hear(task);
    }
    return is_committed(task);
}
