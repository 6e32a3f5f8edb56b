#include "merge_rig.h"

void scene_answer(struct scene *scene, bool fine)
{
    struct asked asked = scene->asked[0];
    struct fleet_event event;

    assert_true(scene->asked_count > 0);
    memmove(scene->asked, scene->asked + 1, --scene->asked_count * sizeof(asked));
    memset(&event, 0, sizeof(event));
    event.answers = asked.command;
    event.replica_up.replica = asked.replica;
    if (!asked.drain && fine) {
        event.replica_up.adapter = asked.adapter;
        rig_send(&scene->rig, FLEET_EVENT_REPLICA_UP, &event);
        return;
    }
    event.reason = asked.drain ? REPLICA_DRAINED : REPLICA_FAILED;
    rig_send(&scene->rig, FLEET_EVENT_REPLICA_DOWN, &event);
}

void scene_hear(struct scene *scene)
{
    struct fleet_commands out = scene->rig.out;

    for (uint32_t i = 0; i < out.count; i++) {
        const struct fleet_command *command = &out.items[i];
        bool drain = command->kind == FLEET_COMMAND_REPLICA_DRAIN;

        if (!drain && command->kind != FLEET_COMMAND_REPLICA_START)
            continue;
        assert_true(scene->asked_count < ARRAY_COUNT(scene->asked));
        assert_int_equal(command->replica_start.node.value, NODE_ANY);
        assert_int_equal(command->replica_start.base.value, 0);
        assert_int_equal(command->replica_start.tp, 2);
        assert_true(replica_index(command->replica_start.replica) >= FIRST);
        scene->asked[scene->asked_count++] =
            (struct asked){command->id, command->replica_start.replica, command->replica_start.adapter, drain};
        if (!drain)
            scene->merged_of[replica_index(command->replica_start.replica)] = command->replica_start.adapter;
        scene->starts += !drain;
        scene->drains += drain;
        *(drain ? &scene->drained_at_ns : &scene->started_at_ns) = scene->rig.at_ns;
    }
    while (scene->answers && scene->asked_count > 0) {
        uint32_t left = scene->asked_count;

        scene_answer(scene, true);
        assert_int_equal(scene->asked_count, left - 1);
        if (scene->rig.out.count > 0)
            scene_hear(scene);
    }
}

void scene_advance(struct scene *scene, int64_t until_ns)
{
    while (fleet_wakeup_at_ns(scene->rig.fleet) <= until_ns) {
        struct fleet_event event;

        memset(&event, 0, sizeof(event));
        scene->rig.at_ns = max_i64(scene->rig.at_ns, fleet_wakeup_at_ns(scene->rig.fleet));
        rig_send(&scene->rig, FLEET_EVENT_TICK, &event);
        scene_hear(scene);
    }
    scene->rig.at_ns = until_ns;
}

void scene_tell(struct scene *scene, uint16_t count)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.merge.up_ns = UP_S * SECOND;
    event.merge.down_ns = DOWN_S * SECOND;
    event.merge.break_even_milli = 1000000;
    event.merge.up_milli = 1200;
    event.merge.down_milli = 800;
    event.merge.outstanding_max = 3;
    event.merge.first = FIRST;
    event.merge.count = count;
    event.merge.tp = 2;
    rig_send(&scene->rig, FLEET_EVENT_MERGE, &event);
    assert_int_equal(scene->rig.out.count, 0);
}

void scene_open(struct scene *scene, uint16_t count)
{
    struct fleet_config config = rig_config(&route_affinity);

    *scene = (struct scene){.answers = true};
    config.rate_half_life_ns = 10 * SECOND;
    rig_open(&scene->rig, &config);
    for (uint32_t i = 0; i < 3; i++)
        rig_up(&scene->rig, i, 0, 0, 0);
    scene_tell(scene, count);
}

replica_id scene_begin(struct scene *scene, adapter_id adapter, uint32_t slot, request_id *ret_request,
                       enum route_reason *ret_reason)
{
    struct fleet_event event;
    replica_id replica = {UINT32_MAX};

    *ret_request = request_id_make(++scene->ordinal, slot);
    memset(&event, 0, sizeof(event));
    event.request.request = *ret_request;
    event.request.adapter = adapter;
    event.request.output_tokens_max = 10;
    rig_send(&scene->rig, FLEET_EVENT_REQUEST, &event);
    for (uint32_t i = 0; i < scene->rig.out.count; i++)
        if (scene->rig.out.items[i].kind == FLEET_COMMAND_ROUTE) {
            replica = scene->rig.out.items[i].route.replica;
            *ret_reason = (enum route_reason)scene->rig.out.items[i].reason;
        }
    assert_int_not_equal(replica.value, UINT32_MAX);
    scene_hear(scene);
    return replica;
}

void scene_end(struct scene *scene, request_id request, replica_id replica, uint32_t output_tokens)
{
    struct fleet_event event;

    memset(&event, 0, sizeof(event));
    event.request_done.request = request;
    event.request_done.replica = replica;
    event.request_done.output_tokens = output_tokens;
    rig_send(&scene->rig, FLEET_EVENT_REQUEST_DONE, &event);
    scene_hear(scene);
}
