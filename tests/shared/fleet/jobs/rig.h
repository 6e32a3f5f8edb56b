/* A fleet that only schedules jobs, and a small honest host: it answers each asking command exactly once. */
#ifndef JOBS_RIG_H
#define JOBS_RIG_H

#include "fleet/fleet.h"
#include "support.h"

#define GB UINT64_C(1000000000)
#define MINUTE (60 * NS_PER_S)
#define HOUR (60 * MINUTE)

#define RIG_JOBS 64
#define RIG_ASKED 256

/* A command that waits for its answer. */
struct rig_asked {
    struct fleet_command command;
    bool open;
};

struct rig {
    struct fleet_config config;
    struct fleet *fleet;
    void *memory;
    int64_t at_ns;
    uint64_t seq;
    uint64_t ordinals;
    struct rig_asked asked[RIG_ASKED];
    struct fleet_commands out;   /* of the last step */
    struct fleet_command said[256]; /* of the last steps at one instant, ticks included */
    uint32_t said_count;
    bool slots[RIG_JOBS];        /* taken */
    job_id ids[RIG_JOBS];
    int64_t done_ns[RIG_JOBS];   /* durable work, as the host keeps it */
    int64_t size_ns[RIG_JOBS];
    bool running[RIG_JOBS];
    bool check;                  /* fleet_check() after every step */
};

/* One flavor if not said otherwise, 8 GPUs a node at most, one cohort 0; order and place may be changed in rig->config before rig_open(). */
void rig_init(struct rig *rig);
void rig_open(struct rig *rig);
void rig_close(struct rig *rig);

void rig_step(struct rig *rig, struct fleet_event *event);
void rig_cohort(struct rig *rig, uint32_t cohort, uint32_t parent, int64_t nominal_milli);
void rig_tenant(struct rig *rig, uint32_t tenant, uint32_t cohort, int64_t nominal_milli, int64_t borrowing_milli,
                int64_t lending_milli);
/* The same in another flavor: rig->config.jobs.flavors_max says how many there are. */
void rig_cohort_in(struct rig *rig, uint32_t cohort, uint16_t flavor, int64_t nominal_milli);
void rig_tenant_in(struct rig *rig, uint32_t tenant, uint32_t cohort, uint16_t flavor, int64_t nominal_milli);
void rig_node_in(struct rig *rig, uint16_t node, uint32_t gpus, uint16_t flavor); /* of 80 GB */
void rig_base(struct rig *rig, uint16_t base, uint64_t bytes, uint16_t gpus, int64_t load_ns);
void rig_node(struct rig *rig, uint16_t node, uint32_t gpus, uint64_t bytes);

/* What tests vary of a job; the rest is: 1 GPU, exclusive, preemptible, base 0, an hour, 1 GB beside its base. */
struct rig_job {
    uint32_t tenant;
    uint16_t base;
    uint16_t gpus;
    int16_t priority;
    uint16_t flags;
    uint8_t stage;
    uint8_t isolation;
    uint64_t bytes;
    int64_t size_ns;
    int64_t runtime_min_ns;
};
struct rig_job rig_job(uint32_t tenant);
/* Submits; the slot. */
uint32_t rig_submit(struct rig *rig, const struct rig_job *job);

/* Answers everything that is open, in the order it was asked, until nothing is: loads end well, jobs start, stops yield. */
void rig_answer_all(struct rig *rig);
/* One of rig->asked[]. */
void rig_answer_one(struct rig *rig, struct rig_asked *asked);
/* Answers one kind only. */
void rig_answer(struct rig *rig, enum fleet_command_kind kind);
/* Answers every load that is open: it failed. */
void rig_fail_loads(struct rig *rig);
void rig_end(struct rig *rig, uint32_t slot, enum job_end_reason reason);
struct job_view rig_view(const struct rig *rig, uint32_t slot);
/* Commands of a kind among those said since the last event that a test sent. */
uint32_t rig_count(const struct rig *rig, enum fleet_command_kind kind);
const struct fleet_command *rig_said(const struct rig *rig, enum fleet_command_kind kind, uint32_t i);
void rig_wait(struct rig *rig, int64_t ns); /* time passes; ticks that are due come */

#endif
