/* Who waits: pending jobs in classes, each of one tenant and one shape, a skew heap (Sleator, Tarjan 1986) by the policy's key
 * and then by age; shapes, the classes to which the same places are open. A cycle asks the devices once a shape, orders the
 * best class of each tenant that such a place is open to, and looks at heads of classes, never at jobs. */
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

/* Whether a job may slip in before a reservation depends on how long it takes, so a shape holds half an octave of that:
 * twice the exponent, and the bit after the first. */
static uint8_t span_of(const struct job *job)
{
    uint64_t ns = (uint64_t)job->remaining_ns | 2;
    uint32_t exponent = 63 - (uint32_t)__builtin_clzll(ns);

    return (uint8_t)(2 * exponent + (ns >> (exponent - 1) & 1));
}

int64_t span_max_ns(uint8_t span)
{
    uint32_t exponent = span / 2;

    if (exponent >= 62)
        return NEVER_NS;
    return span % 2 == 0 ? (INT64_C(3) << (exponent - 1)) - 1 : (INT64_C(2) << exponent) - 1;
}

static struct pending_kind kind_of(const struct job *job)
{
    bool own = job->isolation == ISOLATION_TIME_SLICE || (job->isolation == ISOLATION_MPS && !job->trusted);

    return (struct pending_kind){.bytes = job->bytes,
                                 .tenant = own ? job->tenant : NONE_INDEX,
                                 .shapes = NONE_INDEX,
                                 .base = job->base,
                                 .gpus = job->gpus,
                                 .isolation = job->isolation,
                                 .trusted = job->isolation == ISOLATION_MPS && job->trusted,
                                 .spot = (job->flags & JOB_SPOT_OK) != 0};
}

static uint64_t kind_key(const struct pending_kind *kind, uint32_t collision)
{
    uint64_t key = hash_fold(collision, kind->bytes);

    key = hash_fold(key, (uint64_t)kind->tenant << 32 | (uint64_t)kind->base << 16 | kind->gpus);
    return hash_mix(hash_fold(key, (uint64_t)kind->isolation << 16 | (uint64_t)kind->trusted << 8 | kind->spot));
}

static bool same_kind(const struct pending_kind *a, const struct pending_kind *b)
{
    return a->bytes == b->bytes && a->tenant == b->tenant && a->base == b->base && a->gpus == b->gpus &&
           a->isolation == b->isolation && a->trusted == b->trusted && a->spot == b->spot;
}

static uint64_t shape_key(uint32_t kind, uint8_t span, uint32_t collision)
{
    return hash_mix(hash_fold(collision, (uint64_t)kind << 8 | span));
}

static uint64_t class_key(uint32_t shape, const struct job *job, uint32_t collision)
{
    uint64_t key = hash_fold(collision, (uint64_t)shape << 32 | job->tenant);

    return hash_mix(hash_fold(key, (uint64_t)(uint16_t)job->priority << 32 | job->flags));
}

static bool same_class(const struct pending_class *class, uint32_t shape, const struct job *job)
{
    return class->shape == shape && class->tenant == job->tenant && class->priority == job->priority &&
           class->flags == job->flags;
}

void pending_init(struct jobs *jobs)
{
    for (uint32_t i = 0; i < jobs->config.jobs_max; i++) {
        uint32_t next = i + 1 < jobs->config.jobs_max ? i + 1 : NONE_INDEX;

        jobs->classes[i].tenant_next = next; /* free ones */
        jobs->classes[i].root = NONE_INDEX;
        jobs->shapes[i].next_free = next;
        jobs->kinds[i].next_free = next;
    }
    for (uint32_t i = 0; i < jobs->config.tenants_max; i++) {
        jobs->tenants[i].running_head = jobs->tenants[i].classes = NONE_INDEX;
        jobs->tenants[i].active_at = NONE_INDEX;
    }
    jobs->class_free = jobs->shape_free = jobs->kind_free = 0;
}

static uint32_t kind_open(struct jobs *jobs, const struct job *job)
{
    struct pending_kind kind = kind_of(job);
    uint32_t index;

    for (;; kind.collision++) {
        index = table_find(&jobs->kind_of, kind_key(&kind, kind.collision));
        if (index == NONE_INDEX)
            break;
        if (same_kind(&jobs->kinds[index], &kind))
            return index;
    }
    index = jobs->kind_free;
    check(index != NONE_INDEX); /* there are as many as jobs */
    jobs->kind_free = jobs->kinds[index].next_free;
    kind.wait = JOB_WAIT_ORDER;
    jobs->kinds[index] = kind;
    table_insert(&jobs->kind_of, kind_key(&kind, kind.collision), index);
    return index;
}

static uint32_t shape_open(struct jobs *jobs, const struct job *job)
{
    struct pending_shape shape = {.kind = kind_open(jobs, job), .classes = NONE_INDEX, .kind_prev = NONE_INDEX, .span = span_of(job)};
    struct pending_kind *kind = &jobs->kinds[shape.kind];
    uint32_t index;

    for (;; shape.collision++) {
        index = table_find(&jobs->shape_of, shape_key(shape.kind, shape.span, shape.collision));
        if (index == NONE_INDEX)
            break;
        if (jobs->shapes[index].kind == shape.kind && jobs->shapes[index].span == shape.span)
            return index;
    }
    index = jobs->shape_free;
    check(index != NONE_INDEX); /* there are as many as jobs */
    jobs->shape_free = jobs->shapes[index].next_free;
    shape.active_at = jobs->shapes_count;
    shape.kind_next = kind->shapes;
    if (kind->shapes != NONE_INDEX)
        jobs->shapes[kind->shapes].kind_prev = index;
    kind->shapes = index;
    jobs->shapes[index] = shape;
    jobs->shapes_active[jobs->shapes_count++] = index;
    table_insert(&jobs->shape_of, shape_key(shape.kind, shape.span, shape.collision), index);
    return index;
}

static void shape_close(struct jobs *jobs, uint32_t index)
{
    struct pending_shape *shape = &jobs->shapes[index];
    struct pending_kind *kind = &jobs->kinds[shape->kind];
    uint32_t last = jobs->shapes_active[--jobs->shapes_count];

    table_remove(&jobs->shape_of, shape_key(shape->kind, shape->span, shape->collision));
    jobs->shapes_active[shape->active_at] = last;
    jobs->shapes[last].active_at = shape->active_at;
    if (shape->kind_prev != NONE_INDEX)
        jobs->shapes[shape->kind_prev].kind_next = shape->kind_next;
    else
        kind->shapes = shape->kind_next;
    if (shape->kind_next != NONE_INDEX)
        jobs->shapes[shape->kind_next].kind_prev = shape->kind_prev;
    shape->next_free = jobs->shape_free;
    jobs->shape_free = index;
    if (kind->shapes != NONE_INDEX)
        return;
    table_remove(&jobs->kind_of, kind_key(kind, kind->collision));
    kind->next_free = jobs->kind_free;
    jobs->kind_free = shape->kind;
}

/* Within a tenant: priority, the policy's key if it is the job's own, age. */
static bool class_before(const struct pending_class *a, const struct pending_class *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->head_key != b->head_key ? a->head_key < b->head_key : a->head < b->head;
}

static void tenant_link(struct jobs *jobs, uint32_t index)
{
    struct pending_class *class = &jobs->classes[index];
    struct known_tenant *tenant = &jobs->tenants[class->tenant];
    uint32_t before = NONE_INDEX;
    uint32_t at = tenant->classes;

    for (; at != NONE_INDEX && class_before(&jobs->classes[at], class); at = jobs->classes[at].tenant_next)
        before = at;
    class->tenant_prev = before;
    class->tenant_next = at;
    if (at != NONE_INDEX)
        jobs->classes[at].tenant_prev = index;
    if (before != NONE_INDEX)
        jobs->classes[before].tenant_next = index;
    else
        tenant->classes = index;
}

static void tenant_unlink(struct jobs *jobs, uint32_t index)
{
    struct pending_class *class = &jobs->classes[index];

    if (class->tenant_prev != NONE_INDEX)
        jobs->classes[class->tenant_prev].tenant_next = class->tenant_next;
    else
        jobs->tenants[class->tenant].classes = class->tenant_next;
    if (class->tenant_next != NONE_INDEX)
        jobs->classes[class->tenant_next].tenant_prev = class->tenant_prev;
}

static void class_link(struct jobs *jobs, uint32_t index)
{
    struct pending_class *class = &jobs->classes[index];
    struct pending_shape *shape = &jobs->shapes[class->shape];
    struct known_tenant *tenant = &jobs->tenants[class->tenant];

    class->shape_prev = NONE_INDEX;
    class->shape_next = shape->classes;
    if (shape->classes != NONE_INDEX)
        jobs->classes[shape->classes].shape_prev = index;
    shape->classes = index;
    if (tenant->classes == NONE_INDEX) {
        tenant->active_at = jobs->tenants_count;
        jobs->tenants_active[jobs->tenants_count++] = class->tenant;
    }
    tenant_link(jobs, index);
}

static void class_unlink(struct jobs *jobs, uint32_t index)
{
    struct pending_class *class = &jobs->classes[index];
    struct pending_shape *shape = &jobs->shapes[class->shape];
    struct known_tenant *tenant = &jobs->tenants[class->tenant];

    if (class->shape_prev != NONE_INDEX)
        jobs->classes[class->shape_prev].shape_next = class->shape_next;
    else
        shape->classes = class->shape_next;
    if (class->shape_next != NONE_INDEX)
        jobs->classes[class->shape_next].shape_prev = class->shape_prev;
    tenant_unlink(jobs, index);
    if (tenant->classes == NONE_INDEX) {
        uint32_t last = jobs->tenants_active[--jobs->tenants_count];

        jobs->tenants_active[tenant->active_at] = last;
        jobs->tenants[last].active_at = tenant->active_at;
        tenant->active_at = NONE_INDEX;
    }
    if (shape->classes == NONE_INDEX)
        shape_close(jobs, class->shape);
}

static uint32_t class_open(struct jobs *jobs, const struct job *job)
{
    uint32_t shape = shape_open(jobs, job);
    uint32_t collision = 0;
    uint32_t index;

    for (;; collision++) {
        index = table_find(&jobs->class_of, class_key(shape, job, collision));
        if (index == NONE_INDEX)
            break;
        if (same_class(&jobs->classes[index], shape, job))
            return index;
    }
    index = jobs->class_free;
    check(index != NONE_INDEX); /* there are as many as jobs */
    jobs->class_free = jobs->classes[index].tenant_next;
    jobs->classes[index] = (struct pending_class){.head = job->id.value,
                                                  .head_key = job->order_key,
                                                  .shape = shape,
                                                  .tenant = job->tenant,
                                                  .root = NONE_INDEX,
                                                  .collision = collision,
                                                  .need_milli = (uint32_t)quota_need_milli(jobs, job, NULL),
                                                  .priority = job->priority,
                                                  .flags = job->flags};
    class_link(jobs, index);
    table_insert(&jobs->class_of, class_key(shape, job, collision), index);
    return index;
}

static void class_close(struct jobs *jobs, uint32_t index, const struct job *job)
{
    struct pending_class *class = &jobs->classes[index];

    table_remove(&jobs->class_of, class_key(class->shape, job, class->collision));
    class_unlink(jobs, index);
    class->tenant_next = jobs->class_free;
    jobs->class_free = index;
}

/* What a cycle reads of the head, and where that puts the class among its tenant's. */
static void class_head(struct jobs *jobs, uint32_t index)
{
    struct pending_class *class = &jobs->classes[index];

    if (class->root == NONE_INDEX || class->head == jobs->jobs[class->root].id.value)
        return;
    tenant_unlink(jobs, index);
    class->head = jobs->jobs[class->root].id.value;
    class->head_key = jobs->jobs[class->root].order_key;
    tenant_link(jobs, index);
}

void pending_insert(struct jobs *jobs, uint32_t slot)
{
    struct job *job = &jobs->jobs[slot];
    uint32_t index;
    struct pending_class *class;

    check(job->class == NONE_INDEX);
    job->order_key = jobs->config.order->by_size ? (uint64_t)job->remaining_ns : 0;
    index = class_open(jobs, job);
    class = &jobs->classes[index];
    job->class = index;
    job->left = job->right = job->parent = NONE_INDEX;
    class->root = meld(jobs, class->root, slot);
    class->count++;
    class_head(jobs, index);
    jobs->bases[job->base].work_ns += (uint128)(uint64_t)job->remaining_ns * job->gpus;
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
    class_head(jobs, job->class);
    jobs->bases[job->base].work_ns -= (uint128)(uint64_t)job->remaining_ns * job->gpus;
    if (class->count == 0)
        class_close(jobs, job->class, job);
    job->class = NONE_INDEX;
}

/* --- order ------------------------------------------------------------------------------------------------------------- */

const struct known_tenant *tenant_room(struct jobs *jobs, uint32_t index)
{
    struct known_tenant *tenant = &jobs->tenants[index];

    if (tenant->room_version == jobs->version)
        return tenant;
    tenant->room_version = jobs->version;
    for (uint16_t flavor = 0; flavor < jobs->config.flavors_max; flavor++) {
        int64_t available_milli = quota_available(jobs->quota, index, flavor);
        int64_t nominal_milli = quota_nominal(jobs->quota, index, flavor) - quota_used(jobs->quota, index, flavor);

        tenant->available_milli[flavor] = available_milli;
        tenant->nominal_milli[flavor] = min_i64(available_milli, nominal_milli);
    }
    if (jobs->config.order->by_share)
        tenant->key = quota_share_key(jobs->quota, index, jobs->at_ns);
    return tenant;
}

struct order_rank pending_rank(struct jobs *jobs, uint32_t index, uint32_t flavors)
{
    const struct pending_class *class = &jobs->classes[index];
    const struct known_tenant *tenant = tenant_room(jobs, class->tenant);
    struct order_rank rank = {.head = class->head, .key = class->head_key, .priority = class->priority, .borrows = true};

    for (uint16_t flavor = 0; flavor < jobs->config.flavors_max; flavor++)
        if ((flavors >> flavor & 1) && class->need_milli <= tenant->nominal_milli[flavor])
            rank.borrows = false;
    if (jobs->config.order->by_share)
        rank.key = tenant->key;
    return rank;
}

bool rank_before(const struct order_rank *a, const struct order_rank *b)
{
    if (a->tried != b->tried)
        return a->tried < b->tried;
    if (a->borrows != b->borrows)
        return b->borrows;
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

void order_clear(struct jobs *jobs)
{
    jobs->order_count = 0;
}

uint32_t order_pop(struct jobs *jobs, struct order_rank *ret_rank)
{
    uint32_t class;

    if (jobs->order_count == 0)
        return NONE_INDEX;
    class = jobs->order[0];
    *ret_rank = jobs->ranks[0];
    jobs->order_count--;
    jobs->order[0] = jobs->order[jobs->order_count];
    jobs->ranks[0] = jobs->ranks[jobs->order_count];
    sift_down(jobs, 0);
    return class;
}

void order_push(struct jobs *jobs, uint32_t class, struct order_rank rank)
{
    uint32_t hole = jobs->order_count++;

    while (hole > 0 && rank_before(&rank, &jobs->ranks[(hole - 1) / 2])) {
        jobs->order[hole] = jobs->order[(hole - 1) / 2];
        jobs->ranks[hole] = jobs->ranks[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    jobs->order[hole] = class;
    jobs->ranks[hole] = rank;
}

/* Counts a heap, walked by its own links, and adds its work to that of its base. */
static uint32_t count_heap(const struct jobs *jobs, uint32_t class, uint128 *ret_work_ns)
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
            *ret_work_ns += (uint128)(uint64_t)job->remaining_ns * job->gpus;
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

static uint32_t check_class(const struct jobs *jobs, uint32_t index, uint128 *ret_work_ns)
{
    const struct pending_class *class = &jobs->classes[index];

    check(class->count > 0);
    check(count_heap(jobs, index, ret_work_ns) == class->count);
    check(class->head == jobs->jobs[class->root].id.value);
    check(class->shape_next == NONE_INDEX || jobs->classes[class->shape_next].shape_prev == index);
    check(class->tenant_next == NONE_INDEX || jobs->classes[class->tenant_next].tenant_prev == index);
    return class->count;
}

void pending_check(const struct jobs *jobs)
{
    uint64_t pending = jobs->claimers_count;
    uint32_t classes = 0;

    for (uint32_t i = 0; i < jobs->shapes_count; i++) {
        const struct pending_shape *shape = &jobs->shapes[jobs->shapes_active[i]];
        uint128 work_ns = 0;

        check(shape->active_at == i && shape->classes != NONE_INDEX);
        for (uint32_t at = shape->classes; at != NONE_INDEX; at = jobs->classes[at].shape_next) {
            check(jobs->classes[at].shape == jobs->shapes_active[i]);
            pending += check_class(jobs, at, &work_ns);
            classes++;
        }
    }
    for (uint32_t i = 0; i < jobs->tenants_count; i++) {
        const struct known_tenant *tenant = &jobs->tenants[jobs->tenants_active[i]];

        check(tenant->active_at == i && tenant->classes != NONE_INDEX);
        for (uint32_t at = tenant->classes; at != NONE_INDEX; at = jobs->classes[at].tenant_next, classes--) {
            uint32_t before = jobs->classes[at].tenant_prev;

            check(jobs->classes[at].tenant == jobs->tenants_active[i]);
            check(before == NONE_INDEX || class_before(&jobs->classes[before], &jobs->classes[at]));
        }
    }
    check(classes == 0);
    check(pending == jobs->totals.pending);
}
