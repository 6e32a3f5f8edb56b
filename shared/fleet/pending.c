/* Who waits: pending jobs in classes that ask for the same, each class a skew heap (Sleator, Tarjan 1986) by the policy's key
 * and then by age; classes in a cycle's heap by priority, the policy's key, and the age of their heads. A cycle looks at
 * heads of classes, never at jobs. */
#include "base/hash.h"
#include "fleet/jobs_state.h"

static bool job_before(const struct jobs *jobs, uint32_t a, uint32_t b)
{
    const struct job *x = &jobs->jobs[a];
    const struct job *y = &jobs->jobs[b];

    return x->order_key != y->order_key ? x->order_key < y->order_key : x->id.value < y->id.value;
}

/* Merges two skew heaps without recursion: walks down both right spines, swapping children on the way. */
static uint32_t meld(struct jobs *jobs, uint32_t a, uint32_t b)
{
    uint32_t root = NONE_INDEX;
    uint32_t *hole = &root;
    uint32_t parent = NONE_INDEX;

    while (a != NONE_INDEX && b != NONE_INDEX) {
        uint32_t least = job_before(jobs, a, b) ? a : b;
        struct job *job = &jobs->jobs[least];
        uint32_t right = job->right;

        if (least == b)
            b = a;
        *hole = least;
        job->parent = parent;
        /* The merged part becomes the left child, the old left child the right one. */
        job->right = job->left;
        hole = &job->left;
        parent = least;
        a = right;
    }
    *hole = a != NONE_INDEX ? a : b;
    if (*hole != NONE_INDEX)
        jobs->jobs[*hole].parent = parent;
    return root;
}

/* Whether a job may slip in before a reservation depends on how long it takes, so a class holds one octave of that. */
static uint8_t octave_of(const struct job *job)
{
    return (uint8_t)(63 - __builtin_clzll((uint64_t)job->remaining_ns | 1));
}

static uint64_t class_key(const struct job *job, uint32_t collision)
{
    uint64_t key = hash_fold(collision, job->bytes);

    key = hash_fold(key, (uint64_t)job->tenant << 32 | (uint64_t)job->base << 16 | job->gpus);
    key = hash_fold(key, (uint64_t)(uint16_t)job->priority << 32 | (uint64_t)job->flags << 16 | (uint64_t)job->stage << 8 |
                             job->isolation);
    key = hash_fold(key, octave_of(job));
    return hash_mix(key);
}

static bool same_class(const struct pending_class *class, const struct job *job)
{
    return class->bytes == job->bytes && class->tenant == job->tenant && class->base == job->base &&
           class->gpus == job->gpus && class->priority == job->priority && class->flags == job->flags &&
           class->stage == job->stage && class->isolation == job->isolation && class->octave == octave_of(job);
}

void pending_init(struct jobs *jobs)
{
    for (uint32_t i = 0; i < jobs->config.jobs_max; i++) {
        jobs->classes[i].next_free = i + 1 < jobs->config.jobs_max ? i + 1 : NONE_INDEX;
        jobs->classes[i].root = NONE_INDEX;
        jobs->classes[i].active_at = NONE_INDEX;
    }
    jobs->class_free = 0;
}

static uint32_t class_open(struct jobs *jobs, const struct job *job)
{
    uint32_t collision = 0;
    uint32_t index;

    for (;; collision++) {
        index = table_find(&jobs->class_of, class_key(job, collision));
        if (index == NONE_INDEX)
            break;
        if (same_class(&jobs->classes[index], job))
            return index;
    }
    index = jobs->class_free;
    check(index != NONE_INDEX); /* there are as many classes as jobs */
    jobs->class_free = jobs->classes[index].next_free;
    jobs->classes[index] = (struct pending_class){
        .bytes = job->bytes, .tenant = job->tenant, .root = NONE_INDEX, .active_at = jobs->active_count,
        .next_free = NONE_INDEX, .reserved = NONE_INDEX, .collision = collision, .base = job->base, .gpus = job->gpus, .priority = job->priority,
        .flags = job->flags, .stage = job->stage, .isolation = job->isolation, .octave = octave_of(job),
        .wait = JOB_WAIT_ORDER};
    jobs->active[jobs->active_count++] = index;
    table_insert(&jobs->class_of, class_key(job, collision), index);
    return index;
}

static void class_close(struct jobs *jobs, uint32_t index, const struct job *job)
{
    struct pending_class *class = &jobs->classes[index];
    uint32_t last = jobs->active[--jobs->active_count];

    table_remove(&jobs->class_of, class_key(job, class->collision));
    jobs->active[class->active_at] = last;
    jobs->classes[last].active_at = class->active_at;
    class->active_at = NONE_INDEX;
    class->next_free = jobs->class_free;
    jobs->class_free = index;
}

void pending_insert(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    uint32_t index = class_open(jobs, job);
    struct pending_class *class = &jobs->classes[index];

    job->class = index;
    job->left = job->right = job->parent = NONE_INDEX;
    job->order_key = jobs->config.order->by_size ? (uint64_t)job->remaining_ns : 0;
    job->state = JOB_PENDING;
    job->wait = JOB_WAIT_ORDER;
    job->blocked_at_ns = NEVER_NS;
    class->root = meld(jobs, class->root, slot);
    class->count++;
    class->work_ns += (uint64_t)job->remaining_ns * job->gpus;
    jobs->bases[job->base].work_ns += (uint64_t)job->remaining_ns * job->gpus;
    jobs->totals.pending++;
}

void pending_remove(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    struct pending_class *class = &jobs->classes[job->class];
    uint32_t rest = meld(jobs, job->left, job->right);

    if (rest != NONE_INDEX)
        jobs->jobs[rest].parent = job->parent;
    if (job->parent == NONE_INDEX)
        class->root = rest;
    else if (jobs->jobs[job->parent].left == slot)
        jobs->jobs[job->parent].left = rest;
    else
        jobs->jobs[job->parent].right = rest;
    class->count--;
    class->work_ns -= (uint64_t)job->remaining_ns * job->gpus;
    jobs->bases[job->base].work_ns -= (uint64_t)job->remaining_ns * job->gpus;
    jobs->totals.pending--;
    if (class->count == 0)
        class_close(jobs, job->class, job);
    job->class = NONE_INDEX;
    job->wait = JOB_WAIT_NONE;
}

struct order_rank pending_rank(const struct jobs *jobs, uint32_t index)
{
    const struct pending_class *class = &jobs->classes[index];
    const struct job *head = &jobs->jobs[class->root];
    struct order_rank rank = {.head = head->id.value, .priority = class->priority};

    if (jobs->config.order->by_size)
        rank.key = head->order_key;
    else if (jobs->config.order->by_share)
        rank.key = quota_share_key(jobs->quota, class->tenant, jobs->at_ns);
    return rank;
}

bool rank_before(const struct order_rank *a, const struct order_rank *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->key != b->key ? a->key < b->key : a->head < b->head;
}

static void sift_down(struct jobs *jobs, uint32_t at)
{
    for (;;) {
        uint32_t least = at;

        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < jobs->order_count; child++)
            if (rank_before(&jobs->ranks[child], &jobs->ranks[least]))
                least = child;
        if (least == at)
            return;
        uint32_t class = jobs->order[at];
        struct order_rank rank = jobs->ranks[at];

        jobs->order[at] = jobs->order[least];
        jobs->ranks[at] = jobs->ranks[least];
        jobs->order[least] = class;
        jobs->ranks[least] = rank;
        at = least;
    }
}

void pending_order(struct jobs *jobs, uint32_t only_class)
{
    jobs->order_count = 0;
    if (only_class != NONE_INDEX) {
        pending_again(jobs, only_class);
        return;
    }
    for (uint32_t i = 0; i < jobs->active_count; i++) {
        jobs->order[i] = jobs->active[i];
        jobs->ranks[i] = pending_rank(jobs, jobs->active[i]);
    }
    jobs->order_count = jobs->active_count;
    for (uint32_t at = jobs->order_count / 2; at-- > 0;)
        sift_down(jobs, at);
}

uint32_t pending_next(struct jobs *jobs)
{
    uint32_t class;

    if (jobs->order_count == 0)
        return NONE_INDEX;
    class = jobs->order[0];
    jobs->order_count--;
    jobs->order[0] = jobs->order[jobs->order_count];
    jobs->ranks[0] = jobs->ranks[jobs->order_count];
    if (jobs->order_count > 0)
        sift_down(jobs, 0);
    return class;
}

void pending_again(struct jobs *jobs, uint32_t class)
{
    struct order_rank rank = pending_rank(jobs, class);
    uint32_t hole = jobs->order_count++;

    while (hole > 0 && rank_before(&rank, &jobs->ranks[(hole - 1) / 2])) {
        jobs->order[hole] = jobs->order[(hole - 1) / 2];
        jobs->ranks[hole] = jobs->ranks[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    jobs->order[hole] = class;
    jobs->ranks[hole] = rank;
}

/* Sums of a heap, walked by its own links. */
static uint32_t count_heap(const struct jobs *jobs, uint32_t class, uint64_t *ret_work_ns)
{
    uint32_t count = 0;
    uint32_t at = jobs->classes[class].root;
    uint32_t from = NONE_INDEX;

    while (at != NONE_INDEX) {
        const struct job *job = &jobs->jobs[at];
        uint32_t next;

        if (from == job->parent) {
            check(job->class == class && job->state == JOB_PENDING);
            check(job->parent == NONE_INDEX || !job_before(jobs, at, job->parent));
            count++;
            *ret_work_ns += (uint64_t)job->remaining_ns * job->gpus;
            next = job->left != NONE_INDEX ? job->left : job->right != NONE_INDEX ? job->right : job->parent;
        } else if (from == job->left && job->right != NONE_INDEX) {
            next = job->right;
        } else {
            next = job->parent;
        }
        from = at;
        at = next;
    }
    return count;
}

void pending_check(const struct jobs *jobs)
{
    uint64_t pending = 0;

    for (uint32_t i = 0; i < jobs->active_count; i++) {
        const struct pending_class *class = &jobs->classes[jobs->active[i]];
        uint64_t work_ns = 0;

        check(class->active_at == i);
        check(class->count > 0);
        check(count_heap(jobs, jobs->active[i], &work_ns) == class->count);
        check(work_ns == class->work_ns);
        pending += class->count;
    }
    check(pending == jobs->totals.pending);
}
