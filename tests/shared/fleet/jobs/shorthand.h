/* What the tests of the job scheduler say often, about the one rig of their program. */
#ifndef JOBS_SHORTHAND_H
#define JOBS_SHORTHAND_H

#include "rig.h"

static struct rig rig;

static inline int init(void **state)
{
    (void)state;
    rig_init(&rig);
    return 0;
}

static inline int close_rig(void **state)
{
    (void)state;
    rig_close(&rig);
    return 0;
}

static inline void open_with(uint32_t tenants, const int64_t *nominal_milli)
{
    rig_open(&rig);
    rig_cohort(&rig, 0, NO_COHORT, 0);
    for (uint32_t i = 0; i < tenants; i++)
        rig_tenant(&rig, i, 0, nominal_milli[i], QUOTA_UNLIMITED, QUOTA_UNLIMITED);
    rig_base(&rig, 0, 16 * GB, 1, 10 * NS_PER_S);
    rig_base(&rig, 1, 18 * GB, 4, 60 * NS_PER_S);
}
#define OPEN(...) open_with((uint32_t)ARRAY_COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__})

static inline struct job_view view(uint32_t slot) { return rig_view(&rig, slot); }
static inline struct jobs_totals totals(void) { return jobs_totals(fleet_jobs(rig.fleet)); }
static inline int64_t used(uint32_t tenant) { return quota_used(jobs_quota(fleet_jobs(rig.fleet)), tenant, 0); }

/* Submits `count` such jobs and lets them run; slots in order. */
static inline void run_some(const struct rig_job *job, uint32_t count, uint32_t *ret_slots)
{
    for (uint32_t i = 0; i < count; i++) {
        ret_slots[i] = rig_submit(&rig, job);
        rig_answer_all(&rig);
        assert_int_equal(view(ret_slots[i]).state, JOB_RUNNING);
        rig_wait(&rig, NS_PER_S); /* so that one is newer than the other */
    }
}

static inline struct rig_job job_of(uint32_t tenant, uint16_t gpus)
{
    struct rig_job job = rig_job(tenant);

    job.gpus = gpus;
    return job;
}

static inline void node_event(enum fleet_event_kind kind, uint16_t node, uint16_t mask)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = (uint16_t)kind;
    event.gpus.node.value = node;
    event.gpus.gpu_mask = mask;
    event.gpus.gone_at_ns = rig.at_ns + 2 * MINUTE;
    rig_step(&rig, &event);
}

static inline void cancel(uint32_t slot)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.kind = FLEET_EVENT_JOB_CANCEL;
    event.job_progress.job = rig.ids[slot];
    rig_step(&rig, &event);
}

static inline uint64_t stopped(uint32_t i)
{
    return rig_said(&rig, FLEET_COMMAND_JOB_STOP, i)->job_stop.job.value;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, init, close_rig)

#endif
