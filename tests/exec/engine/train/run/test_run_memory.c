/* Runs whose states and results are handed to the caller: the same bytes as with folders, from whatever state they go on. */
#include <math.h>

#include "engine/lora/peft.h"
#include "engine/train/run/checkpoint.h"
#include "rig.h"

#define STATES_MAX 64

struct held {
    struct world *world;
    char *state[STATES_MAX];
    int64_t state_bytes[STATES_MAX];
    int64_t state_step[STATES_MAX];
    int states;
    int64_t epoch_step[16];
    int epochs;
    int epoch_refused;          /* this one, from 1, ends the run */
    int finished;
    char to[64];                /* the folder that a finished adapter is unpacked to */
    struct run_memory memory;
};

static enum status append(void *context, const void *data, int64_t bytes, struct refusal *refusal)
{
    struct held *held = context;
    char **state = &held->state[held->states];
    int64_t *count = &held->state_bytes[held->states];

    (void)refusal;
    *state = realloc(*state, (size_t)(*count + bytes));
    assert_non_null(*state);
    memcpy(*state + *count, data, (size_t)bytes);
    *count += bytes;
    return STATUS_OK;
}

static enum status save(void *owner, const struct checkpoint *checkpoint, struct refusal *refusal)
{
    struct held *held = owner;

    assert_true(held->states < STATES_MAX);
    assert_int_equal(checkpoint_write(checkpoint, append, held, refusal), STATUS_OK);
    assert_int_equal(held->state_bytes[held->states], checkpoint_bytes(&checkpoint->head));
    held->state_step[held->states++] = checkpoint->head.step;
    return STATUS_OK;
}

static enum status epoch(void *owner, const struct run_made *made, struct refusal *refusal)
{
    struct held *held = owner;

    if (held->epochs + 1 == held->epoch_refused)
        return refuse(refusal, STATUS_END, "not now");
    held->epoch_step[held->epochs++] = made->outcome->steps;
    return STATUS_OK;
}

static enum status finish(void *owner, const struct run_made *made, struct refusal *refusal)
{
    struct held *held = owner;
    char name[96];

    assert_int_equal(peft_write(scratch_folder(&held->world->scratch, held->to), made->adapter, refusal), STATUS_OK);
    snprintf(name, sizeof(name), "%s/results.csv", held->to);
    scratch_write(&held->world->scratch, name, made->results, made->results_bytes);
    held->finished++;
    return STATUS_OK;
}

static void hold(struct held *held, struct world *world, const char *to)
{
    memset(held, 0, sizeof(*held));
    held->world = world;
    snprintf(held->to, sizeof(held->to), "%s", to);
    held->memory = (struct run_memory){.owner = held, .save = save, .epoch = epoch, .finish = finish};
    world->run.memory = &held->memory;
}

static void let_go(struct held *held)
{
    for (int i = 0; i < held->states; i++)
        free(held->state[i]);
    held->world->run.memory = NULL;
}

static void same_files(struct world *world, const char *a, const char *b)
{
    static const char *const names[] = {"adapter_model.safetensors", "adapter_config.json", "results.csv"};

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        int64_t counts[2];
        char *mine = bytes_of(world, a, names[i], &counts[0]);
        char *other = bytes_of(world, b, names[i], &counts[1]);

        if (counts[0] != counts[1] || memcmp(mine, other, (size_t)counts[0]) != 0)
            fail_msg("%s of %s and %s differ", names[i], a, b);
        free(mine);
        free(other);
    }
}

static void go_on(struct world *world, struct held *from, int state, const char *to)
{
    struct held held;

    hold(&held, world, to);
    held.memory.state = from->state[state];
    held.memory.state_bytes = from->state_bytes[state];
    if (train(world) != STATUS_OK)
        fail_msg("after step %lld: %s", (long long)from->state_step[state], world->refusal.text);
    assert_int_equal(world->steps, STEPS - from->state_step[state]);
    assert_int_equal(held.finished, 1);
    let_go(&held);
}

static void from_any_state_a_run_ends_in_the_bytes_of_folders(void **state)
{
    struct world *world = world_new();
    struct held held;
    char to[32];

    (void)state;
    world->validation = set_of(world, against);
    world->run.validation = world->validation;
    plain_run(world);
    hold(&held, world, "held");
    name_out(world, "nowhere");
    world->run.checkpoint_every_ns = 0;
    assert_int_equal(train(world), STATUS_OK);
    assert_int_equal(held.states, STEPS);
    assert_int_equal(held.finished, 1);
    assert_false(is_there(world, "nowhere") || is_there(world, "nowhere.checkpoints"));
    same_files(world, "plain", "held");
    world->run.checkpoint_every_ns = INT64_MAX;
    for (int i = 0; i < STEPS; i++) {
        snprintf(to, sizeof(to), "from-%d", i);
        go_on(world, &held, i, to);
        same_files(world, "plain", to);
    }
    let_go(&held);
    world_free(world);
}

static void a_stopped_run_hands_over_its_state(void **state)
{
    struct world *world = world_new();
    struct held held;

    (void)state;
    plain_run(world);
    hold(&held, world, "stopped");
    world->stop_after = 7;
    assert_int_equal(train(world), STATUS_END);
    world->stop_after = 0;
    assert_int_equal(held.states, 1);
    assert_int_equal(held.state_step[0], 7);
    assert_int_equal(held.finished, 0);
    go_on(world, &held, 0, "gone-on");
    same_files(world, "plain", "gone-on");
    let_go(&held);
    world_free(world);
}

static void each_epoch_but_the_last_gives_its_adapter_once(void **state)
{
    struct world *world = world_new();
    struct held first, second;

    (void)state;
    hold(&first, world, "whole");
    assert_int_equal(train(world), STATUS_OK);
    assert_int_equal(first.epochs, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(first.epoch_step[i], 4 * (i + 1));
    let_go(&first);
    hold(&first, world, "refused");
    first.epoch_refused = 2;
    assert_int_equal(train(world), STATUS_END);
    assert_int_equal(first.epochs, 1);
    assert_int_equal(first.states, 1);
    assert_int_equal(first.state_step[0], 8);
    hold(&second, world, "then");
    second.memory.state = first.state[0];
    second.memory.state_bytes = first.state_bytes[0];
    second.memory.epoch_due = true;
    assert_int_equal(train(world), STATUS_OK);
    assert_int_equal(second.epochs, 3);
    assert_int_equal(second.epoch_step[0], 8);
    same_files(world, "whole", "then");
    let_go(&second);
    let_go(&first);
    world_free(world);
}

static void a_state_that_is_damaged_or_anothers_is_refused(void **state)
{
    struct world *world = world_new();
    struct held held, other;

    (void)state;
    hold(&held, world, "stopped");
    world->stop_after = 3;
    assert_int_equal(train(world), STATUS_END);
    world->stop_after = 0;
    hold(&other, world, "other");
    other.memory.state = held.state[0];
    other.memory.state_bytes = held.state_bytes[0];
    world->run.settings.seed++;
    assert_int_equal(train(world), STATUS_INVALID);
    assert_non_null(strstr(world->refusal.text, "another seed"));
    world->run.settings.seed--;
    other.memory.state_bytes--;
    assert_int_equal(train(world), STATUS_CORRUPT);
    held.state[0][held.state_bytes[0] / 2] ^= 1;
    other.memory.state_bytes++;
    assert_int_equal(train(world), STATUS_CORRUPT);
    assert_int_equal(other.finished + other.states, 0);
    let_go(&other);
    let_go(&held);
    world_free(world);
}

/* What is better by less than was asked for is not kept, and patience runs out. */
static void a_gain_below_the_least_is_none(void **state)
{
    struct world *world = world_new();

    (void)state;
    world->validation = set_of(world, pairs);
    world->run.validation = world->validation;
    world->run.settings.patience = 2;
    plain_run(world);
    assert_int_equal(world->outcome.steps, STEPS);
    world->run.settings.min_delta = 100;
    name_out(world, "hard-to-please");
    assert_int_equal(train(world), STATUS_OK);
    assert_true(world->outcome.stopped_early);
    assert_int_equal(world->outcome.best_step, 4);
    assert_int_equal(world->outcome.steps, 12);
    world_free(world);
}

/* --- from an adapter -------------------------------------------------------------------------------------------------------- */

static void a_run_may_begin_from_an_adapter(void **state)
{
    struct world *world = world_new();
    struct held held;
    struct peft *parent;
    double first;

    (void)state;
    plain_run(world);
    first = world->first.loss;
    assert_int_equal(peft_open(world->out, &world->model->config, 16, &parent, &world->refusal), STATUS_OK);
    world->run.initial = &parent->source;
    name_out(world, "child");
    assert_int_equal(train(world), STATUS_OK);
    if (!(world->first.loss < first - 0.5))
        fail_msg("it begins with a loss of %g; the base had %g", world->first.loss, first);
    hold(&held, world, "stopped");
    world->stop_after = 9;
    assert_int_equal(train(world), STATUS_END);
    world->stop_after = 0;
    go_on(world, &held, 0, "gone-on");
    same_files(world, "child", "gone-on");
    let_go(&held);
    world->run.settings.alpha = 4;
    name_out(world, "stronger");
    assert_int_equal(train(world), STATUS_INVALID);
    assert_non_null(strstr(world->refusal.text, "rank 4 and alpha 4"));
    peft_close(parent);
    world_free(world);
}

/* Before the first update the policy is the reference: each pair's loss is the logarithm of 2. Against the base it would not be. */
static void preferences_are_against_what_a_run_begins_from(void **state)
{
    struct world *world = world_new();
    struct held held;
    struct peft *parent;

    (void)state;
    plain_run(world);
    assert_int_equal(peft_open(world->out, &world->model->config, 16, &parent, &world->refusal), STATUS_OK);
    data_close(world->data);
    world->run.settings.method = RUN_DPO;
    world->run.settings.beta = 0.1;
    world->data = set_of(world, "{\"prompt\": \"One\", \"chosen\": \" two\", \"rejected\": \" three\"}\n{\"prompt\": \"Two\", \"chosen\": \" three\", "
                                "\"rejected\": \" two, or so\"}\n{\"prompt\": \"Three\", \"chosen\": \" four\", \"rejected\": \" none\"}\n");
    world->run.data = world->data;
    world->run.settings.epochs = STEPS / 2; /* of two steps */
    world->run.initial = &parent->source;
    name_out(world, "preferred");
    if (train(world) != STATUS_OK)
        fail_msg("%s", world->refusal.text);
    if (!(fabs(world->first.loss - log(2)) < 1e-6))
        fail_msg("the first loss is %.9g, not log 2", world->first.loss);
    hold(&held, world, "stopped");
    world->stop_after = 5;
    assert_int_equal(train(world), STATUS_END);
    world->stop_after = 0;
    go_on(world, &held, 0, "gone-on");
    same_files(world, "preferred", "gone-on");
    let_go(&held);
    peft_close(parent);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_any_state_a_run_ends_in_the_bytes_of_folders),
        cmocka_unit_test(a_stopped_run_hands_over_its_state),
        cmocka_unit_test(each_epoch_but_the_last_gives_its_adapter_once),
        cmocka_unit_test(a_state_that_is_damaged_or_anothers_is_refused),
        cmocka_unit_test(a_gain_below_the_least_is_none),
        cmocka_unit_test(a_run_may_begin_from_an_adapter),
        cmocka_unit_test(preferences_are_against_what_a_run_begins_from),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
