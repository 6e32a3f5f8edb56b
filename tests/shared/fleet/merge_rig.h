/* A fleet with a small pool and places for merged replicas: requests that pass, time that passes, and what is asked for
 * answered, at once or when the test says so. */
#ifndef TESTS_FLEET_MERGE_RIG_H
#define TESTS_FLEET_MERGE_RIG_H

#include "rig.h"

#define SECOND NS_PER_S
/* Replicas 0 to 2 are the pool. */
#define FIRST 4
/* Break-even 1000 tokens a second: the lines lie at 1200 and 800. A merged replica takes three requests at once. */
#define UP_S 20
#define DOWN_S 40

struct asked {
    uint64_t command;
    replica_id replica;
    adapter_id adapter;
    bool drain;
};

struct scene {
    struct rig rig;
    struct asked asked[16];
    uint32_t asked_count;
    uint32_t starts;
    uint32_t drains;
    uint64_t ordinal;
    bool answers;           /* what is asked for is done at once */
    int64_t started_at_ns;  /* the last start, and the last drain */
    int64_t drained_at_ns;
    adapter_id merged_of[8]; /* by replica index: for whom it was last started */
};

/* affinity, a half-life of 10 s, `count` places. */
void scene_open(struct scene *scene, uint16_t count);
void scene_tell(struct scene *scene, uint16_t count);
/* Lets time pass, with all ticks that are asked for on the way. */
void scene_advance(struct scene *scene, int64_t until_ns);
/* What the last step has asked for. */
void scene_hear(struct scene *scene);
/* Answers the oldest thing asked for. */
void scene_answer(struct scene *scene, bool fine);
/* Routes a request; several may be under way at once, in slots of their own. */
replica_id scene_begin(struct scene *scene, adapter_id adapter, uint32_t slot, request_id *ret_request,
                       enum route_reason *ret_reason);
void scene_end(struct scene *scene, request_id request, replica_id replica, uint32_t output_tokens);

#endif
