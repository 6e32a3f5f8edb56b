/* Runs of preferences: what they learn, and that they end in the same bytes however they are disturbed. */
#include <math.h>

#include "engine/lora/peft.h"
#include "rig.h"

#define PREFER(prompt, chosen, rejected) "{\"prompt\": \"" prompt "\", \"chosen\": \"" chosen "\", \"rejected\": \"" rejected "\"}\n"
static const char preferences[] = PREFER("One", " two", " three") PREFER("Two", " three", " no") PREFER("Three", " four and more", " one")
    PREFER("Four", " five", " five, or six, or none") PREFER("Five", " six", " two") PREFER("Six", " seven", " eight") PREFER("Seven", " a", " b");
static const char contrary[] = PREFER("One", " three", " two") PREFER("Five", " two", " six");

static struct world *prefer_world(void)
{
    struct world *world = world_new();

    data_close(world->data);
    world->run.settings.method = RUN_DPO;
    world->run.settings.beta = 0.1;
    world->data = set_of(world, preferences);
    world->run.data = world->data;
    return world;
}

/* log p of each sample of the world's data, with the adapter in `out`, and by the base. */
static void score(struct world *world, double *ret_policy, double *ret_base)
{
    const struct trainer_config config = {.device = &device_cpu, .threads = 1, .kernels = kernel_set_best(), .rows_max = 64, .job_rows_max = 64,
                                          .samples_max = 1, .positions_max = 64, .jobs_max = 1, .lora_rank_max = 16, .head_rows = 64};
    struct trainer *trainer;
    struct peft *peft;

    assert_int_equal(trainer_open(world->model, &config, &trainer, &world->refusal), STATUS_OK);
    assert_int_equal(peft_open(world->out, &world->model->config, 16, &peft, &world->refusal), STATUS_OK);
    assert_int_equal(trainer_job_open(trainer, 0, &peft->source, &OPTIMIZER_DEFAULT), STATUS_OK);
    for (int32_t i = 0; i < world->data->count; i++) {
        const struct data_sample *at = &world->data->sample[i];
        struct train_sample sample = {.tokens = world->data->tokens + at->at, .is_target = world->data->is_target + at->at, .rows = at->tokens};
        struct train_score scores[2];

        trainer_logp(trainer, &sample, 1, &scores[0]);
        sample.job = SEGMENT_NONE;
        trainer_logp(trainer, &sample, 1, &scores[1]);
        ret_policy[i] = scores[0].logp;
        ret_base[i] = scores[1].logp;
    }
    peft_close(peft);
    trainer_close(trainer);
}

static void what_is_preferred_gains_on_what_is_not(void **state)
{
    struct world *world = prefer_world();
    double policy[14];
    double base[14];

    (void)state;
    world->run.settings.epochs = 10;
    plain_run(world);
    assert_true(world->first.loss == log(2));
    assert_true(world->first.reward_margin == 0);
    assert_true(world->last.reward_margin > 0 && world->last.loss < log(2));
    assert_true(world->outcome.accuracy == 1);
    assert_int_equal(world->data->count, ARRAY_COUNT(policy));
    score(world, policy, base);
    for (size_t i = 0; i < ARRAY_COUNT(policy); i += 2)
        if (!(policy[i] - policy[i + 1] > base[i] - base[i + 1]))
            fail_msg("pair %zu: %g against %g with the adapter, %g against %g by the base", i / 2, policy[i], policy[i + 1], base[i], base[i + 1]);
    world_free(world);
}

static void a_stopped_or_killed_run_of_preferences_goes_on_to_the_same_bytes(void **state)
{
    const uint64_t seed = test_seed((uint64_t)now_ns());
    uint64_t draws = seed;
    struct world *world = prefer_world();
    int64_t plain_ns = now_ns();
    int killed;

    (void)state;
    world->validation = set_of(world, contrary);
    world->run.validation = world->validation;
    plain_run(world);
    plain_ns = now_ns() - plain_ns;
    name_out(world, "stopped");
    world->stop_after = 7;
    assert_int_equal(train(world), STATUS_END);
    world->stop_after = 0;
    assert_int_equal(train(world), STATUS_OK);
    assert_int_equal(world->steps, STEPS - 7);
    same(world, "plain", "stopped");
    name_out(world, "killed");
    world->run.checkpoint_every_ns = 0;
    killed = kill_until_done(world, plain_ns, seed, &draws);
    printf("seed %llu: killed %d times\n", (unsigned long long)seed, killed);
    same(world, "plain", "killed");
    world_free(world);
}

static void preferences_are_learned_the_same_at_every_level(void **state)
{
    struct world *world = prefer_world();

    (void)state;
    plain_run(world);
    world->run.trainer.threads = 3;
    for (enum recompute recompute = RECOMPUTE_PARTIAL; recompute < RECOMPUTE_COUNT; recompute++) {
        name_out(world, recompute_name(recompute));
        world->run.trainer.recompute = recompute;
        assert_int_equal(train(world), STATUS_OK);
        same(world, "plain", recompute_name(recompute));
    }
    world_free(world);
}

static void another_method_or_beta_is_another_run(void **state)
{
    struct world *world = prefer_world();

    (void)state;
    name_out(world, "other");
    world->stop_after = 3;
    assert_int_equal(train(world), STATUS_END);
    world->stop_after = 0;
    world->run.settings.beta = 0.2;
    assert_int_equal(train(world), STATUS_INVALID);
    assert_non_null(strstr(world->refusal.text, "another beta"));
    world->run.settings.method = RUN_SUPERVISED;
    assert_int_equal(train(world), STATUS_INVALID);
    assert_non_null(strstr(world->refusal.text, "another method"));
    world_free(world);
}

/* What is validated is the contrary of what is learned. */
static void early_stopping_knows_preferences(void **state)
{
    struct world *world = prefer_world();

    (void)state;
    world->validation = set_of(world, contrary);
    world->run.validation = world->validation;
    world->run.settings.patience = 2;
    world->run.settings.epochs = 30;
    world->run.settings.evaluate_every = 2;
    name_out(world, "early");
    assert_int_equal(train(world), STATUS_OK);
    assert_true(world->outcome.stopped_early);
    assert_true(world->outcome.best_step == world->outcome.steps - 4);
    assert_true(isfinite(world->outcome.valid_loss));
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_preferred_gains_on_what_is_not),
        cmocka_unit_test(a_stopped_or_killed_run_of_preferences_goes_on_to_the_same_bytes),
        cmocka_unit_test(preferences_are_learned_the_same_at_every_level),
        cmocka_unit_test(another_method_or_beta_is_another_run),
        cmocka_unit_test(early_stopping_knows_preferences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
