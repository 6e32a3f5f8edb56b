#include "rig.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char pairs[] =
    "{\"prompt\": \"One\", \"completion\": \" two\"}\n{\"prompt\": \"Two\", \"completion\": \" three\"}\n"
    "{\"prompt\": \"Three\", \"completion\": \" four and more\"}\n{\"prompt\": \"Four\", \"completion\": \" five\"}\n"
    "{\"prompt\": \"Five\", \"completion\": \" six\"}\n{\"prompt\": \"Six\", \"completion\": \" seven, and no end of it\"}\n"
    "{\"prompt\": \"Seven\", \"completion\": \" eight\"}\n";
const char against[] = "{\"prompt\": \"One\", \"completion\": \" qqqqqqqqq\"}\n{\"prompt\": \"Two\", \"completion\": \" zzzzzzz\"}\n";

int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void hear(void *listener, const char *text)
{
    struct world *world = listener;

    snprintf(world->heard + strlen(world->heard), sizeof(world->heard) - strlen(world->heard), "%s\n", text);
}

static void count_step(void *listener, const struct run_step *step)
{
    struct world *world = listener;

    if (world->steps == 0)
        world->first = *step;
    world->last = *step;
    world->steps++;
    if (step->step == world->stop_after)
        world->stop = 1;
}

static void count_saved(void *listener, const struct run_saved *saved)
{
    struct world *world = listener;

    world->saved = *saved;
    world->saves++;
}

struct data_set *set_of(struct world *world, const char *text)
{
    const struct data_source source = {.tokenizer = world->tokenizer, .eos = 2, .vocabulary = 288, .tokens_max = 64,
                                       .preferences = world->run.settings.method == RUN_DPO};
    struct data_set *set;

    if (data_open_text(text, (int64_t)strlen(text), "t.jsonl", &source, &set, &world->refusal) != STATUS_OK)
        fail_msg("%s", world->refusal.text);
    return set;
}

struct world *world_new(void)
{
    struct world *world = calloc(1, sizeof(*world));
    const struct model_config config = tiny_config(FAMILY_LLAMA);
    char error[TOKENIZER_ERROR_MAX] = "";

    scratch_begin(&world->scratch);
    tiny_model(scratch_folder(&world->scratch, "base"), &config, 1, DTYPE_F32);
    assert_int_equal(model_open(scratch_at(&world->scratch, "base"), &world->model, &world->refusal), STATUS_OK);
    assert_int_equal(tokenizer_open(scratch_at(&world->scratch, "base"), &world->tokenizer, error), STATUS_OK);
    world->data = set_of(world, pairs);
    world->run = (struct run_config){.model = world->model,
                                     .data = world->data,
                                     .settings = {.rank = 4, .alpha = 8, .rate = 0.01, .schedule = SCHEDULE_COSINE, .epochs = 5, .batch = 2,
                                                  .seed = 3, .clip = 1, .mode = MODE_EXACT, .row_tokens = 64},
                                     .trainer = {.device = &device_cpu, .threads = 1, .kernels = kernel_set_best()},
                                     .base = "tiny",
                                     .out = world->out,
                                     .checkpoints = world->checkpoints,
                                     .checkpoint_every_ns = INT64_MAX,
                                     .stop = &world->stop,
                                     .now_ns = now_ns,
                                     .listener = world,
                                     .stepped = count_step,
                                     .saved = count_saved,
                                     .said = hear};
    return world;
}

void name_out(struct world *world, const char *name)
{
    snprintf(world->out, sizeof(world->out), "%s", scratch_at(&world->scratch, name));
    snprintf(world->checkpoints, sizeof(world->checkpoints), "%s.checkpoints", world->out);
}

enum status train(struct world *world)
{
    world->heard[0] = '\0';
    world->steps = 0;
    world->saves = 0;
    world->stop = 0;
    return run_train(&world->run, &world->outcome, &world->refusal);
}

void world_free(struct world *world)
{
    data_close(world->data);
    data_close(world->validation);
    tokenizer_close(world->tokenizer);
    model_close(world->model);
    scratch_end(&world->scratch);
    free(world);
}

char *bytes_of(struct world *world, const char *folder, const char *name, int64_t *ret_bytes)
{
    char path[1024];
    void *data;

    snprintf(path, sizeof(path), "%s/%s", scratch_at(&world->scratch, folder), name);
    if (file_read(AT_FDCWD, path, path, 1 << 30, &data, ret_bytes, &world->refusal) != STATUS_OK)
        fail_msg("%s", world->refusal.text);
    return data;
}

void same(struct world *world, const char *a, const char *b)
{
    static const char *const names[] = {"adapter_model.safetensors", "results.csv", "adapter_config.json", "run.json"};

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        int64_t count_a, count_b;
        char *mine = bytes_of(world, a, names[i], &count_a);
        char *other = bytes_of(world, b, names[i], &count_b);

        assert_int_equal(count_a, count_b);
        if (memcmp(mine, other, (size_t)count_a) != 0)
            fail_msg("%s of %s and %s differ", names[i], a, b);
        free(mine);
        free(other);
    }
}

void plain_run(struct world *world)
{
    name_out(world, "plain");
    if (train(world) != STATUS_OK)
        fail_msg("%s", world->refusal.text);
}

bool is_there(struct world *world, const char *name)
{
    return access(scratch_at(&world->scratch, name), F_OK) == 0;
}

/* Killed between the adapter's last rename and the end, a run finds its own adapter there. */
static int child_train(struct world *world)
{
    if (train(world) == STATUS_OK || strstr(world->refusal.text, "is there already") != NULL)
        return 0;
    fprintf(stderr, "%s\n", world->refusal.text);
    return 1;
}

int kill_until_done(struct world *world, int64_t wait_most_ns, uint64_t seed, uint64_t *draws)
{
    int killed = 0;
    int status = 1;

    for (int round = 0; round < 1000 && status != 0; round++) {
        const int64_t wait_ns = (int64_t)draw_below(draws, (uint64_t)(wait_most_ns + wait_most_ns * round / 20));
        const struct timespec wait = {.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
        const pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0)
            _exit(child_train(world));
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
            fail_msg("seed %llu, round %d: a run that goes on failed", (unsigned long long)seed, round);
        killed += WIFSIGNALED(status);
    }
    if (status != 0)
        fail_msg("seed %llu: it never came through", (unsigned long long)seed);
    return killed;
}
