/* Runs of a tiny model from data to adapter: undisturbed, stopped, killed, with damaged checkpoints, with numbers that are not finite. */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <openssl/evp.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/lora/peft.h"
#include "engine/train/run/checkpoint.h"
#include "rig.h"

/* Writes 0xff over the middle of the newest checkpoint, or of all. */
static void damage(const struct world *world, bool all)
{
    DIR *directory = opendir(world->checkpoints);
    struct dirent *entry;
    char newest[300] = "";
    char path[1024];

    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL) {
        FILE *file;

        if (entry->d_name[0] == '.' || (!all && strcmp(entry->d_name, newest) < 0))
            continue;
        snprintf(newest, sizeof(newest), "%.299s", entry->d_name);
        if (!all)
            continue;
        snprintf(path, sizeof(path), "%s/%.299s", world->checkpoints, entry->d_name);
        file = fopen(path, "r+b");
        assert_non_null(file);
        fseek(file, 2000, SEEK_SET);
        fputc(0xff, file);
        fputc(0x5a, file);
        fclose(file);
    }
    closedir(directory);
    snprintf(path, sizeof(path), "%s/%s", world->checkpoints, newest);
    if (!all)
        assert_int_equal(truncate(path, 3000), 0);
}

static void a_run_learns_and_leaves_an_adapter(void **state)
{
    struct world *world = world_new();
    struct peft *peft;
    int64_t bytes;
    double first, last, accuracy;
    char *rows;
    int lines = 0;

    (void)state;
    plain_run(world);
    assert_int_equal(world->outcome.steps, STEPS);
    assert_int_equal(world->steps, STEPS);
    assert_int_equal(peft_open(world->out, &world->model->config, 16, &peft, &world->refusal), STATUS_OK);
    assert_int_equal(peft->source.rank, 4);
    assert_true(fabs(peft->alpha_stated - 8) < 1e-9);
    assert_int_equal(peft->tensors, 3 * LORA_MODULE_COUNT * 2);
    peft_close(peft);
    rows = bytes_of(world, "plain", "results.csv", &bytes);
    for (int64_t i = 0; i < bytes; i++)
        lines += rows[i] == '\n';
    assert_int_equal(lines, STEPS + 1);
    assert_int_equal(sscanf(rows, "step,train_loss,train_accuracy,valid_loss,valid_mean_token_accuracy\n1,%lf,%lf,,\n", &first, &accuracy), 2);
    assert_true(accuracy >= 0 && accuracy < world->outcome.accuracy && world->outcome.accuracy <= 1);
    last = world->outcome.loss;
    if (!(last < first - 0.5))
        fail_msg("loss %g at first, %g at last", first, last);
    free(rows);
    assert_false(is_there(world, "plain.checkpoints"));
    assert_int_equal(train(world), STATUS_INVALID); /* its folder is taken now */
    assert_non_null(strstr(world->refusal.text, "is there already"));
    world_free(world);
}

/* Evaluations come after the steps after which they come undisturbed (LLaMA-Factory#7085 evaluated first), and a stop is no failure (geti#5484). */
static void a_stopped_run_goes_on_to_the_same_bytes(void **state)
{
    struct world *world = world_new();

    (void)state;
    world->validation = set_of(world, against);
    world->run.validation = world->validation;
    plain_run(world);
    name_out(world, "stopped");
    world->stop_after = 7;
    assert_int_equal(train(world), STATUS_END);
    assert_non_null(strstr(world->refusal.text, "stopped after step 7 of 20"));
    assert_false(is_there(world, "stopped"));
    world->stop_after = 8;
    assert_int_equal(train(world), STATUS_END);
    world->stop_after = 0;
    assert_int_equal(train(world), STATUS_OK);
    assert_int_equal(world->steps, STEPS - 8);
    same(world, "plain", "stopped");
    world_free(world);
}

static struct world *clock_world;
static int64_t clock_asked;
static int64_t clock_stops; /* when it is asked this often */

static int64_t stopping_clock(void)
{
    if (++clock_asked == clock_stops)
        clock_world->stop = 1;
    return now_ns();
}

/* The clock is asked before a step, behind its passes and behind its evaluation, so the stop comes anywhere: it does not wait for the
 * step or for the evaluation, and neither is lost. */
static void a_stop_waits_for_no_more_than_a_pass(void **state)
{
    struct world *world = world_new();
    const int64_t steps = 8;
    bool in_a_step = false;

    (void)state;
    world->validation = set_of(world, against);
    world->run.validation = world->validation;
    world->run.settings.epochs = 2;
    plain_run(world);
    clock_world = world;
    for (clock_stops = 1; world->outcome.steps == steps; clock_stops++) {
        char name[32];
        int64_t seen;

        snprintf(name, sizeof(name), "clock%lld", (long long)clock_stops);
        name_out(world, name);
        clock_asked = 0;
        world->run.now_ns = stopping_clock;
        world->outcome.steps = 0;
        if (train(world) != STATUS_OK) {
            assert_non_null(strstr(world->refusal.text, "stopped after step "));
            assert_int_equal(world->saves, 1);
            seen = world->steps;
            in_a_step |= seen == 0;
            world->run.now_ns = now_ns;
            assert_int_equal(train(world), STATUS_OK);
            assert_int_equal(seen + world->steps, steps);
        } else {
            world->outcome.steps = 0; /* it was not stopped any more: enough */
        }
        same(world, "plain", name);
    }
    assert_true(in_a_step && clock_stops > 2 * steps);
    world_free(world);
}

/* BERTH_TEST_KILLED runs, 5 by default; each is killed some eight times.
 * Resumed elsewhere, losses jumped (torchtune#2491, alpaca-lora#72, #585, text-generation-webui#1459, ACE-Step#742). */
static void a_killed_run_goes_on_to_the_same_bytes(void **state)
{
    const char *asked = getenv("BERTH_TEST_KILLED");
    const int runs = asked != NULL ? atoi(asked) : 5;
    const uint64_t seed = test_seed((uint64_t)now_ns());
    uint64_t draws = seed;
    struct world *world = world_new();
    int64_t plain_ns = now_ns();
    int killed = 0;

    (void)state;
    world->validation = set_of(world, against);
    world->run.validation = world->validation;
    plain_run(world);
    plain_ns = now_ns() - plain_ns;
    world->run.checkpoint_every_ns = 0;
    for (int i = 0; i < runs; i++) {
        char name[32];

        snprintf(name, sizeof(name), "killed%d", i);
        name_out(world, name);
        killed += kill_until_done(world, plain_ns, seed, &draws);
        same(world, "plain", name);
    }
    printf("seed %llu: killed %d times\n", (unsigned long long)seed, killed);
    world_free(world);
}

/* Half a checkpoint has been loaded elsewhere, or was all that was left (lightning#688, #19970, metaseq#53, speculators#739). */
static void a_damaged_checkpoint_leaves_the_one_before(void **state)
{
    struct world *world = world_new();

    (void)state;
    plain_run(world);
    name_out(world, "damaged");
    world->run.checkpoint_every_ns = 0;
    world->stop_after = 9;
    assert_int_equal(train(world), STATUS_END);
    damage(world, false);
    world->stop_after = 0;
    assert_int_equal(train(world), STATUS_OK);
    assert_non_null(strstr(world->heard, "step-000000000009.checkpoint is damaged"));
    assert_non_null(strstr(world->heard, "goes on from the checkpoint after step 8 of 20"));
    same(world, "plain", "damaged");
    world_free(world);
}

static void without_a_whole_checkpoint_only_restart_begins_anew(void **state)
{
    struct world *world = world_new();

    (void)state;
    plain_run(world);
    name_out(world, "all");
    world->run.checkpoint_every_ns = 0;
    world->stop_after = 9;
    assert_int_equal(train(world), STATUS_END);
    damage(world, true);
    world->stop_after = 0;
    assert_int_equal(train(world), STATUS_CORRUPT);
    assert_non_null(strstr(world->refusal.text, "--restart"));
    world->run.restart = true;
    assert_int_equal(train(world), STATUS_OK);
    assert_int_equal(world->steps, STEPS);
    same(world, "plain", "all");
    world_free(world);
}

static void another_run_s_checkpoint_is_refused(void **state)
{
    struct world *world = world_new();
    struct data_set *data;
    const struct model_config config = tiny_config(FAMILY_LLAMA);
    struct model *other;

    (void)state;
    name_out(world, "other");
    world->stop_after = 3;
    assert_int_equal(train(world), STATUS_END);
    world->stop_after = 0;
    data = set_of(world, against);
    world->run.data = data;
    assert_int_equal(train(world), STATUS_INVALID);
    assert_non_null(strstr(world->refusal.text, "another data set"));
    world->run.data = world->data;
    world->run.validation = data;
    assert_int_equal(train(world), STATUS_INVALID);
    assert_non_null(strstr(world->refusal.text, "another validation set"));
    world->run.validation = NULL;
    world->run.settings.rate = 0.02;
    world->run.settings.batch = 3;
    assert_int_equal(train(world), STATUS_INVALID);
    assert_non_null(strstr(world->refusal.text, "another learning rate"));
    assert_non_null(strstr(world->refusal.text, "another batch size"));
    world->run.settings.rate = 0.01;
    world->run.settings.batch = 2;
    tiny_model(scratch_folder(&world->scratch, "base2"), &config, 2, DTYPE_F32);
    assert_int_equal(model_open(scratch_at(&world->scratch, "base2"), &other, &world->refusal), STATUS_OK);
    world->run.model = other;
    assert_int_equal(train(world), STATUS_INVALID);
    assert_non_null(strstr(world->refusal.text, "another base"));
    world->run.model = world->model;
    model_close(other);
    world->run.trainer.kernels = KERNELS_SCALAR;
    assert_int_equal(train(world), STATUS_OK);
    if (kernel_set_best() != KERNELS_SCALAR)
        assert_non_null(strstr(world->heard, "going on with cpu-scalar"));
    data_close(data);
    world_free(world);
}

/* Changes the version in a checkpoint, and its digest with it. */
static void set_numerics(const char *path, uint64_t numerics)
{
    struct refusal refusal;
    void *data;
    int64_t bytes;

    assert_int_equal(file_read(AT_FDCWD, path, path, 1 << 30, &data, &bytes, &refusal), STATUS_OK);
    memcpy((char *)data + offsetof(struct checkpoint_head, numerics), &numerics, sizeof(numerics));
    assert_int_equal(EVP_Digest(data, (size_t)bytes - DIGEST_BYTES, (unsigned char *)data + bytes - DIGEST_BYTES, NULL, EVP_sha256(), NULL), 1);
    assert_int_equal(file_write(path, data, (size_t)bytes, &refusal), STATUS_OK);
    free(data);
}

/* A build is not in a checkpoint: what it computes is, as a version that people raise. */
static void another_arithmetic_is_refused_and_another_build_is_not_heard_of(void **state)
{
    struct world *world = world_new();
    char path[640];

    (void)state;
    name_out(world, "numerics");
    world->stop_after = 3;
    assert_int_equal(train(world), STATUS_END);
    world->stop_after = 4;
    snprintf(path, sizeof(path), "%s/step-000000000003.checkpoint", world->checkpoints);
    set_numerics(path, RUN_NUMERICS + 1);
    assert_int_equal(train(world), STATUS_INVALID);
    assert_non_null(strstr(world->refusal.text, "another numerics_version"));
    set_numerics(path, RUN_NUMERICS);
    assert_int_equal(train(world), STATUS_END);
    assert_string_equal(world->heard, "goes on from the checkpoint after step 3 of 20\n");
    world_free(world);
}

static void a_checkpoint_s_bytes_and_time_are_told(void **state)
{
    struct world *world = world_new();
    struct stat about;
    char path[640];

    (void)state;
    name_out(world, "told");
    world->run.checkpoint_every_ns = 0;
    world->stop_after = 3;
    assert_int_equal(train(world), STATUS_END);
    assert_int_equal(world->saves, 3);
    assert_int_equal(world->saved.step, 3);
    snprintf(path, sizeof(path), "%s/step-000000000003.checkpoint", world->checkpoints);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(world->saved.bytes, about.st_size);
    assert_true(world->saved.took_ns > 0);
    world_free(world);
}

static void two_runs_do_not_share_a_folder(void **state)
{
    struct world *world = world_new();
    struct checkpoint_folder folder;

    (void)state;
    name_out(world, "shared");
    assert_int_equal(checkpoint_folder_open(world->checkpoints, &folder, &world->refusal), STATUS_OK);
    assert_int_equal(train(world), STATUS_INVALID);
    assert_non_null(strstr(world->refusal.text, "another run"));
    checkpoint_folder_close(&folder, false);
    assert_int_equal(train(world), STATUS_OK);
    world_free(world);
}

static void numbers_that_are_not_finite_end_a_run_and_write_nothing(void **state)
{
    struct world *world = world_new();

    (void)state;
    name_out(world, "wild");
    world->stop_after = 2;
    assert_int_equal(train(world), STATUS_END);
    name_out(world, "wilder");
    world->stop_after = 0;
    world->run.settings.rate = 1e25;
    world->run.settings.schedule = SCHEDULE_CONSTANT;
    assert_int_equal(train(world), STATUS_INVALID);
    printf("%s\n", world->refusal.text);
    assert_non_null(strstr(world->refusal.text, "step 2 (batch 2 of epoch 1, examples of lines "));
    assert_non_null(strstr(world->refusal.text, "the largest gradient is "));
    assert_false(is_there(world, "wilder"));
    world_free(world);
}

/* The first step that is not finite fails the run, and what was saved before it stays (LLaMA-Factory#8088, #2916 went on with a loss of 0). */
static void a_step_that_is_not_finite_leaves_the_checkpoint_before_it(void **state)
{
    struct world *world = world_new();
    struct checkpoint_folder folder;

    (void)state;
    name_out(world, "wild");
    world->run.settings.rate = 1e25;
    world->run.settings.schedule = SCHEDULE_CONSTANT;
    world->run.checkpoint_every_ns = 0;
    assert_int_equal(train(world), STATUS_INVALID);
    assert_int_equal(world->steps, 1);
    assert_int_equal(world->saved.step, 1);
    assert_non_null(strstr(world->refusal.text, "step 2 (batch 2 of epoch 1"));
    assert_true(is_there(world, "wild.checkpoints/step-000000000001.checkpoint"));
    assert_false(is_there(world, "wild.checkpoints/step-000000000002.checkpoint"));
    assert_int_equal(train(world), STATUS_INVALID); /* from there again, and to the same end */
    assert_non_null(strstr(world->heard, "goes on from the checkpoint after step 1 of 20"));
    assert_int_equal(world->steps, 0);
    assert_int_equal(checkpoint_folder_open(world->checkpoints, &folder, &world->refusal), STATUS_OK);
    checkpoint_folder_close(&folder, true);
    world_free(world);
}

/* What is learned makes the validation worse: the first evaluation stays the best, and its matrices are written. */
static void early_stopping_keeps_the_best(void **state)
{
    struct world *world = world_new();

    (void)state;
    world->validation = set_of(world, against);
    world->run.validation = world->validation;
    world->run.settings.patience = 2;
    world->run.settings.epochs = 30;
    world->run.settings.rate = 0.05;
    world->run.settings.evaluate_every = 2;
    name_out(world, "early");
    assert_int_equal(train(world), STATUS_OK);
    assert_true(world->outcome.stopped_early);
    assert_true(world->outcome.best_step == world->outcome.steps - 4);
    assert_true(isfinite(world->outcome.valid_loss));
    printf("%lld steps, the best after %lld\n", (long long)world->outcome.steps, (long long)world->outcome.best_step);
    world_free(world);
}

static void a_split_keeps_both_sides_whole(void **state)
{
    struct world *world = world_new();
    struct data_set *part = NULL;
    const int64_t tokens = world->data->tokens_count;
    const int64_t targets = world->data->targets_count;
    struct data_set *whole = set_of(world, pairs);

    (void)state;
    assert_int_equal(data_split(world->data, 40, 1, &part, &world->refusal), STATUS_OK);
    assert_int_equal(world->data->count + part->count, 7);
    assert_int_equal(world->data->examples + part->examples, 7);
    assert_int_equal(world->data->tokens_count + part->tokens_count, tokens);
    assert_int_equal(world->data->targets_count + part->targets_count, targets);
    for (int side = 0; side < 2; side++) {
        const struct data_set *set = side == 0 ? world->data : part;

        for (int32_t i = 0; i < set->count; i++)
            assert_memory_equal(set->tokens + set->sample[i].at, whole->tokens + whole->sample[set->sample[i].line - 1].at,
                                (size_t)set->sample[i].tokens * sizeof(int32_t));
    }
    data_close(part);
    data_close(whole);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_learns_and_leaves_an_adapter),
        cmocka_unit_test(a_stopped_run_goes_on_to_the_same_bytes),
        cmocka_unit_test(a_stop_waits_for_no_more_than_a_pass),
        cmocka_unit_test(a_killed_run_goes_on_to_the_same_bytes),
        cmocka_unit_test(a_damaged_checkpoint_leaves_the_one_before),
        cmocka_unit_test(without_a_whole_checkpoint_only_restart_begins_anew),
        cmocka_unit_test(another_run_s_checkpoint_is_refused),
        cmocka_unit_test(another_arithmetic_is_refused_and_another_build_is_not_heard_of),
        cmocka_unit_test(a_checkpoint_s_bytes_and_time_are_told),
        cmocka_unit_test(two_runs_do_not_share_a_folder),
        cmocka_unit_test(numbers_that_are_not_finite_end_a_run_and_write_nothing),
        cmocka_unit_test(a_step_that_is_not_finite_leaves_the_checkpoint_before_it),
        cmocka_unit_test(early_stopping_keeps_the_best),
        cmocka_unit_test(a_split_keeps_both_sides_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
