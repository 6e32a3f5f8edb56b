/* Several runs over one base in one batch: each leaves the bytes that it leaves alone, however many there are, whatever becomes of the
 * others, stopped and gone on with as well. */
#include <math.h>
#include <unistd.h>

#include "rig.h"

enum { RUNS = 4 };

/* Runs that differ in data, rank, batch, epochs, schedule and seed, of which one stops early. */
struct together {
    struct world *world;
    struct data_set *data[RUNS];
    struct run_config config[RUNS];
    struct run_result result[RUNS];
    char out[RUNS][640];
    char checkpoints[RUNS][700];
};

static void together_open(struct together *together)
{
    struct world *world = world_new();

    memset(together, 0, sizeof(*together));
    together->world = world;
    world->validation = set_of(world, against);
    for (int i = 0; i < RUNS; i++) {
        struct run_config *config = &together->config[i];

        together->data[i] = set_of(world, i == 1 ? against : pairs);
        *config = world->run;
        config->data = together->data[i];
        config->settings.rank = 2 + 5 * i;
        config->settings.batch = 1 + i;
        config->settings.epochs = 2 + i;
        config->settings.seed = i;
        config->settings.schedule = i % 2 == 0 ? SCHEDULE_COSINE : SCHEDULE_LINEAR;
        config->out = together->out[i];
        config->checkpoints = together->checkpoints[i];
        config->done_counts = true;
    }
    together->config[2].validation = world->validation;
    together->config[2].settings.evaluate_every = 1;
    together->config[2].settings.patience = 2;
    together->config[2].settings.rate = 0.05;
}

static void together_close(struct together *together)
{
    for (int i = 0; i < RUNS; i++)
        data_close(together->data[i]);
    world_free(together->world);
}

/* "NAME0" .. "NAME3" in the scratch folder. */
static void name_all(struct together *together, const char *name)
{
    for (int i = 0; i < RUNS; i++) {
        snprintf(together->out[i], sizeof(together->out[i]), "%s/%s%d", together->world->scratch.path, name, i);
        snprintf(together->checkpoints[i], sizeof(together->checkpoints[i]), "%s/%s%d.checkpoints", together->world->scratch.path, name, i);
    }
}

static enum status train_all(struct together *together, int first, int count)
{
    together->world->heard[0] = '\0';
    together->world->steps = 0;
    together->world->stop = 0;
    return run_train_all(together->config + first, count, together->result + first);
}

static void train_alone(struct together *together)
{
    name_all(together, "alone");
    for (int i = 0; i < RUNS; i++)
        if (train_all(together, i, 1) != STATUS_OK)
            fail_msg("run %d: %s", i, together->result[i].refusal.text);
    assert_true(together->result[2].outcome.stopped_early);
}

static void same_as_alone(struct together *together, const char *name, int i)
{
    char alone[32];
    char other[48];

    snprintf(alone, sizeof(alone), "alone%d", i);
    snprintf(other, sizeof(other), "%s%d", name, i);
    same(together->world, alone, other);
}

static void each_leaves_the_bytes_that_it_leaves_alone(void **state)
{
    struct together together;

    (void)state;
    together_open(&together);
    train_alone(&together);
    for (int count = 2; count <= RUNS; count++) {
        char name[32];
        int64_t steps = 0;

        snprintf(name, sizeof(name), "of%d-", count);
        name_all(&together, name);
        assert_int_equal(train_all(&together, RUNS - count, count), STATUS_OK);
        for (int i = RUNS - count; i < RUNS; i++) {
            same_as_alone(&together, name, i);
            assert_false(access(together.checkpoints[i], F_OK) == 0);
            steps += together.result[i].outcome.steps;
        }
        assert_int_equal(together.world->steps, steps);
    }
    together_close(&together);
}

/* A step of all of them is one pass while they fit: that is what they are together for. */
static void passes_have_room_for_all_up_to_a_bound(void **state)
{
    const struct run_settings settings = {.rank = 16, .row_tokens = 512};
    const struct run_settings long_settings = {.rank = 16, .row_tokens = 8192};
    struct trainer_config config = {0};

    (void)state;
    run_limits(&settings, 4, &config);
    assert_int_equal(config.rows_max, 2048);
    assert_int_equal(config.job_rows_max, 512);
    assert_int_equal(config.jobs_max, 4);
    run_limits(&settings, RUNS_MAX, &config);
    assert_int_equal(config.rows_max, 4096);
    run_limits(&long_settings, 3, &config);
    assert_int_equal(config.rows_max, 8192);
}

static int64_t clock_asked;
static int64_t clock_stops;
static struct world *clock_world;

static int64_t stopping_clock(void)
{
    if (++clock_asked == clock_stops)
        clock_world->stop = 1;
    return now_ns();
}

static void all_are_stopped_and_go_on_to_the_same_bytes(void **state)
{
    struct together together;

    (void)state;
    together_open(&together);
    train_alone(&together);
    clock_world = together.world;
    for (clock_stops = 3; clock_stops < 200; clock_stops += 31) {
        char name[32];
        int stopped = 0;

        snprintf(name, sizeof(name), "stop%lld-", (long long)clock_stops);
        name_all(&together, name);
        clock_asked = 0;
        for (int i = 0; i < RUNS; i++)
            together.config[i].now_ns = stopping_clock;
        if (train_all(&together, 0, RUNS) == STATUS_OK)
            break;
        for (int i = 0; i < RUNS; i++) {
            stopped += together.result[i].status == STATUS_END;
            assert_int_equal(together.result[i].status == STATUS_OK, access(together.out[i], F_OK) == 0);
            assert_int_equal(together.result[i].status == STATUS_END, access(together.checkpoints[i], F_OK) == 0);
        }
        assert_true(stopped > 0);
        for (int i = 0; i < RUNS; i++)
            together.config[i].now_ns = now_ns;
        /* Those that were done are there already, and are known. */
        assert_int_equal(train_all(&together, 0, RUNS), STATUS_OK);
        assert_int_equal(strstr(together.world->heard, "there is nothing to do") != NULL, stopped < RUNS);
        assert_int_equal(train_all(&together, 0, RUNS), STATUS_OK);
        assert_int_equal(together.world->steps, 0);
        for (int i = 0; i < RUNS; i++)
            same_as_alone(&together, name, i);
    }
    assert_true(clock_stops > 100);
    together_close(&together);
}

/* What is there is taken for done only by the run that it came of. */
static void an_adapter_of_other_settings_is_not_taken(void **state)
{
    struct together together;

    (void)state;
    together_open(&together);
    name_all(&together, "own");
    assert_int_equal(train_all(&together, 0, 1), STATUS_OK);
    assert_int_equal(train_all(&together, 0, 1), STATUS_OK);
    assert_int_equal(together.world->steps, 0);
    assert_int_equal(together.result[0].outcome.steps, 14);
    together.config[0].settings.seed = 77;
    assert_int_equal(train_all(&together, 0, 1), STATUS_INVALID);
    assert_non_null(strstr(together.result[0].refusal.text, "is there already"));
    together.config[0].settings.seed = 0;
    together.config[0].data = together.data[1];
    assert_int_equal(train_all(&together, 0, 1), STATUS_INVALID);
    together.config[0].data = together.data[0];
    together.config[0].done_counts = false;
    assert_int_equal(train_all(&together, 0, 1), STATUS_INVALID);
    together_close(&together);
}

/* One's numbers overflow, one's folder is taken, one's checkpoints are another run's: each is told so, and the fourth does not notice. */
static void what_ends_one_run_ends_no_other(void **state)
{
    struct together together;

    (void)state;
    together_open(&together);
    train_alone(&together);
    name_all(&together, "beside");
    together.config[3].settings.epochs = 9;
    together.world->stop_after = 1;
    assert_int_equal(train_all(&together, 3, 1), STATUS_END); /* leaves a checkpoint of other epochs */
    together.world->stop_after = 0;
    together.config[3].settings.epochs = 5;
    scratch_folder(&together.world->scratch, "beside1");
    scratch_text(&together.world->scratch, "beside1/mine.txt", "not an adapter");
    together.config[0].settings.rate = 1e25;
    together.config[0].settings.schedule = SCHEDULE_CONSTANT;
    assert_int_equal(train_all(&together, 0, RUNS), STATUS_INVALID);
    assert_int_equal(together.result[0].status, STATUS_INVALID);
    assert_non_null(strstr(together.result[0].refusal.text, "step 2 (batch 2 of epoch 1, examples of lines "));
    assert_non_null(strstr(together.result[1].refusal.text, "is there already"));
    assert_int_equal(together.result[2].status, STATUS_OK);
    same_as_alone(&together, "beside", 2);
    assert_non_null(strstr(together.result[3].refusal.text, "another epochs"));
    assert_false(access(together.out[0], F_OK) == 0);
    together_close(&together);
}

static int64_t room_most_bytes;
static int64_t room_bytes;

static void *little_reserve(struct dev *dev, size_t bytes)
{
    room_bytes -= (int64_t)bytes;
    return room_bytes < 0 ? NULL : device_cpu.reserve(dev, bytes);
}

static struct dev *little_open(const struct dev_config *config, char *ret_error, size_t error_bytes)
{
    room_bytes = room_most_bytes;
    return device_cpu.open(config, ret_error, error_bytes);
}

/* A device with room for one layer, not for all: nobody knew before it was tried. */
static void what_has_no_room_is_made_again_unless_it_was_named(void **state)
{
    struct world *world = world_new();
    struct device little = device_cpu;
    struct trainer_config limits = {.device = &device_cpu, .recompute = RECOMPUTE_LAYER};

    (void)state;
    world->run.settings.rank = 1;
    run_limits(&world->run.settings, 1, &limits);
    little.open = little_open;
    little.reserve = little_reserve;
    world->run.trainer.device = &little;
    room_most_bytes = INT64_MAX;
    plain_run(world);
    assert_int_equal(world->outcome.recompute, RECOMPUTE_NONE);
    room_most_bytes = trainer_bytes(world->model, &limits) + 20000; /* the job takes 19,008 */
    name_out(world, "little");
    assert_int_equal(train(world), STATUS_FULL);
    world->run.recompute_rises = true;
    assert_int_equal(train(world), STATUS_OK);
    assert_int_equal(world->outcome.recompute, RECOMPUTE_LAYER);
    assert_string_equal(world->heard, "the device cpu has no room for recompute none; taking partial\n"
                                      "the device cpu has no room for recompute partial; taking layer\n");
    same(world, "plain", "little");
    world_free(world);
}

static const char preferences[] = "{\"prompt\": \"One\", \"chosen\": \" two\", \"rejected\": \" three\"}\n"
                                  "{\"prompt\": \"Two\", \"chosen\": \" three and more\", \"rejected\": \" no\"}\n"
                                  "{\"prompt\": \"Three\", \"chosen\": \" four\", \"rejected\": \" none of them\"}\n";

/* Preferences are learned one run after the other in a turn, and are what they are alone. */
static void preferences_are_learned_together_too(void **state)
{
    struct together together;
    const char *const names[] = {"alone", "pair"};

    (void)state;
    together_open(&together);
    for (int i = 0; i < 2; i++) {
        data_close(together.data[i]);
        together.world->run.settings.method = RUN_DPO;
        together.data[i] = set_of(together.world, preferences);
        together.config[i].data = together.data[i];
        together.config[i].settings.method = RUN_DPO;
        together.config[i].settings.beta = 0.1 + 0.2 * i;
    }
    name_all(&together, names[0]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(train_all(&together, i, 1), STATUS_OK);
    name_all(&together, names[1]);
    assert_int_equal(train_all(&together, 0, 2), STATUS_OK);
    for (int i = 0; i < 2; i++)
        same_as_alone(&together, names[1], i);
    together_close(&together);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_leaves_the_bytes_that_it_leaves_alone),
        cmocka_unit_test(passes_have_room_for_all_up_to_a_bound),
        cmocka_unit_test(all_are_stopped_and_go_on_to_the_same_bytes),
        cmocka_unit_test(what_has_no_room_is_made_again_unless_it_was_named),
        cmocka_unit_test(preferences_are_learned_together_too),
        cmocka_unit_test(an_adapter_of_other_settings_is_not_taken),
        cmocka_unit_test(what_ends_one_run_ends_no_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
