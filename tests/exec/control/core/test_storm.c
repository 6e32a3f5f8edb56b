/* Anything at any time: asks, aborts, slow readers, servers that die, adapters that come late or not. Each request ends once; what clients
 * got is billed, and no more than what servers said. */
#include <fcntl.h>
#include <unistd.h>

#include "rig.h"

#define LIVE_MAX 48
#define STEPS 1500

struct storm {
    struct rig rig;
    uint64_t random;
    struct answer answers[LIVE_MAX];
    bool live[LIVE_MAX];
    bool aborted[LIVE_MAX];
    uint32_t fetches_answered;
    uint32_t ends;
    uint32_t asks;
    uint64_t shown;   /* tokens that clients got */
    uint64_t said;    /* that servers said */
    uint32_t reasons[8];
};

static void ask_one(struct storm *storm, uint32_t i)
{
    static const char *const digests[] = {"a", "b", "c", "d", "e"};
    const struct core_adapter adapter = rig_adapter(&storm->rig, digests[draw_below(&storm->random, 5)]);
    const bool plain = draw_below(&storm->random, 2) == 0;

    storm->answers[i] = (struct answer){.takes = draw_below(&storm->random, 4) != 0};
    storm->live[i] = true;
    storm->aborted[i] = false;
    storm->asks++;
    OK(&storm->rig, rig_ask(&storm->rig, (uint32_t)draw_below(&storm->random, 2), plain ? NULL : &adapter,
                            1 + (uint32_t)draw_below(&storm->random, 1500), &storm->answers[i]));
}

static void settle_one(struct storm *storm, uint32_t i)
{
    struct answer *answer = &storm->answers[i];

    if (!storm->live[i] || answer->ends == 0)
        return;
    assert_int_equal(answer->ends, 1);
    storm->live[i] = false;
    storm->ends++;
    storm->shown += answer->tokens;
    storm->reasons[answer->end.reason]++;
    if (answer->end.reason == CORE_END_CANCELLED)
        assert_true(storm->aborted[i]);
}

static void answer_fetches(struct storm *storm)
{
    struct rig *rig = &storm->rig;

    while (storm->fetches_answered < rig->seen.fetches_count && draw_below(&storm->random, 4) != 0) {
        const uint64_t fetch = rig->seen.fetches[storm->fetches_answered++ % 64];
        const uint8_t key[32] = {1};
        const bool fails = draw_below(&storm->random, 6) == 0;

        OK(rig, core_fetched(rig->core, fetch, fails ? STATUS_IO : STATUS_OK, key, fails ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC)));
    }
}

/* The server goes on with it, and ends it at last. */
static void serve_one(struct storm *storm, struct actor *actor, struct asked *asked)
{
    const uint32_t want = 1 + (uint32_t)draw_below(&storm->random, 40);
    const uint32_t count = min_u32(want, asked->max_tokens - asked->said_tokens);

    if (count > 0 && actor_tokens(actor, asked->request, count))
        storm->said += count;
    if (asked->said_tokens == asked->max_tokens || asked->aborted || draw_below(&storm->random, 30) == 0)
        actor_done(actor, asked->request, asked->aborted ? CORE_END_CANCELLED : CORE_END_STOP);
}

static void serve_all(struct storm *storm)
{
    for (uint32_t i = 0; i < ACTORS_MAX; i++) {
        struct actor *actor = &storm->rig.stage.actors[i];

        for (uint32_t k = 0; k < ASKED_MAX && actor->used && !actor->has_exited && actor->asked_count > 0; k++) {
            if (actor->asked[k].used)
                serve_one(storm, actor, &actor->asked[k]);
        }
    }
}

static void step(struct storm *storm, bool is_ending)
{
    const uint32_t i = (uint32_t)draw_below(&storm->random, LIVE_MAX);
    struct actor *actor = rig_server(&storm->rig, (uint32_t)draw_below(&storm->random, 2), 0);

    if (!storm->live[i] && !is_ending)
        ask_one(storm, i);
    if (storm->live[i] && (is_ending || draw_below(&storm->random, 4) == 0))
        core_taken(storm->rig.core, storm->answers[i].request, (uint32_t)draw_below(&storm->random, 600));
    if (storm->live[i] && draw_below(&storm->random, 12) == 0) {
        storm->aborted[i] = true;
        core_abort(storm->rig.core, storm->answers[i].request);
    }
    if (actor != NULL && !is_ending && draw_below(&storm->random, 250) == 0)
        rig_kill(&storm->rig, actor);
    answer_fetches(storm);
    if (draw_below(&storm->random, 3) == 0)
        serve_all(storm);
    if (draw_below(&storm->random, 3) == 0)
        rig_turn(&storm->rig);
    for (uint32_t k = 0; k < LIVE_MAX; k++)
        settle_one(storm, k);
}

static void each_request_ends_once_and_is_billed(void **state)
{
    static struct storm storm;
    const uint64_t seed = test_seed(17);
    int64_t output = 0;

    (void)state;
    memset(&storm, 0, sizeof(storm));
    storm.random = seed;
    rig_begin(&storm.rig);
    storm.rig.config.server_requests_max = 16;
    storm.rig.config.server_adapters_max = 3;
    storm.rig.config.adapters_max = 4;
    rig_up(&storm.rig);
    for (uint32_t i = 0; i < STEPS; i++)
        step(&storm, false);
    for (uint32_t i = 0; storm.ends < storm.asks; i++) {
        if (i > 400000)
            fail_msg("seed %llu: %u of %u ended", (unsigned long long)seed, storm.ends, storm.asks);
        step(&storm, true);
    }
    UNTIL(&storm.rig, core_counts(storm.rig.core).requests == 0);
    rig_turn_for(&storm.rig, 200);
    (void)rig_usage(&storm.rig, &output);
    if ((uint64_t)output < storm.shown || (uint64_t)output > storm.said)
        fail_msg("seed %llu: %lld tokens billed, %llu shown, %llu said", (unsigned long long)seed, (long long)output,
                 (unsigned long long)storm.shown, (unsigned long long)storm.said);
    assert_true(storm.reasons[CORE_END_STOP] > 0 && storm.reasons[CORE_END_CANCELLED] > 0);
    rig_end(&storm.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_ends_once_and_is_billed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
