/* Several trainers, each a process of its own, over one base: its pages are there once, read-only, and each process adds the same x; and
 * each learns what it learns alone, to the byte. */
#include <math.h>
#include <signal.h>
#include <time.h>

#include "processes.h"
#include "scratch.h"

#if defined(__SANITIZE_ADDRESS__)
enum { JOBS = 2 }; /* ten times slower */
#else
enum { JOBS = 3 };
#endif

struct memory {
    double base_rss_kb;      /* of the mapping of the weights */
    double base_pss_kb;      /* its share: pages of k processes count 1 / k */
    double base_dirty_kb;
    double own_kb;           /* what nobody else has: heap, stacks, data */
    bool read_only;
};

/* Sums the lines of /proc/PID/smaps. */
static struct memory memory_of(pid_t id, const char *weights)
{
    struct memory memory = {.read_only = true};
    bool base = false;
    char path[64];
    char line[4400];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/smaps", (int)id);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        char permissions[8];
        double kb;

        if (sscanf(line, "%*x-%*x %7s", permissions) == 1) {
            base = strstr(line, weights) != NULL;
            memory.read_only &= !base || strcmp(permissions, "r--s") == 0;
        }
        if (base && sscanf(line, "Rss: %lf", &kb) == 1)
            memory.base_rss_kb += kb;
        if (base && sscanf(line, "Pss: %lf", &kb) == 1)
            memory.base_pss_kb += kb;
        if (base && (sscanf(line, "Private_Dirty: %lf", &kb) == 1 || sscanf(line, "Shared_Dirty: %lf", &kb) == 1))
            memory.base_dirty_kb += kb;
        if (!base && sscanf(line, "Anonymous: %lf", &kb) == 1)
            memory.own_kb += kb;
    }
    fclose(file);
    return memory;
}

struct world {
    struct scratch scratch;
    const char *program;
    char base[512];
    double weights_kb;
};

static void world_open(struct world *world)
{
    const char *arguments[] = {berth_exec(), "model", "random", "--preset", "15m", "--out", world->base, NULL};
    char path[600];
    struct stat about;
    struct process process;

    world->program = arguments[0];
    scratch_begin(&world->scratch);
    snprintf(world->base, sizeof(world->base), "%s", scratch_at(&world->scratch, "base"));
    process = process_begin(arguments);
    assert_int_equal(process_end(&process), 0);
    snprintf(path, sizeof(path), "%s/model.safetensors", world->base);
    assert_int_equal(stat(path, &about), 0);
    world->weights_kb = (double)about.st_size / 1024;
    for (int job = 0; job < JOBS; job++) {
        char name[32];
        char text[512];

        snprintf(name, sizeof(name), "%d.jsonl", job);
        snprintf(text, sizeof(text), "{\"prompt\": \"%d\", \"completion\": \"abc\"}\n{\"prompt\": \"b\", \"completion\": \"%d\"}\n", job, job);
        scratch_text(&world->scratch, name, text);
    }
}

/* Thirty steps: more than the pipe takes, so that it is there as long as nobody reads. */
static struct process job_begin(struct world *world, int job, const char *out)
{
    char data[600];
    char seed[16];
    const char *arguments[] = {world->program, "train", "--model", world->base, "--data", data, "--out", out, "--rank", "8", "--seed", seed,
                               "--epochs", "15", "--batch-size", "1", "--context", "256", "--threads", "1", "--device", "cpu", "--recompute", "none",
                               "--json", "--quiet", NULL};

    snprintf(data, sizeof(data), "%s/%d.jsonl", world->scratch.path, job);
    snprintf(seed, sizeof(seed), "%d", job);
    return process_begin(arguments);
}

static void name_out(const struct world *world, int jobs, int job, char ret_name[600])
{
    snprintf(ret_name, 600, "%s/%d-of-%d", world->scratch.path, job, jobs);
}

/* `jobs` at once; ret_memory is of the instant at which each has done a step. */
static void train_at_once(struct world *world, int jobs, int first, struct memory *ret_memory)
{
    struct process process[JOBS];
    char weights[600];

    snprintf(weights, sizeof(weights), "%s/model.safetensors", world->base);
    for (int i = 0; i < jobs; i++) {
        char out[600];

        name_out(world, jobs, first + i, out);
        process[i] = job_begin(world, first + i, out);
    }
    for (int i = 0; i < jobs; i++)
        process_await(&process[i], "{\"step\":");
    for (int i = 0; i < jobs; i++)
        ret_memory[i] = memory_of(process[i].id, weights);
    for (int i = 0; i < jobs; i++)
        assert_int_equal(process_end(&process[i]), 0);
}

static void *adapter_of(const struct world *world, int jobs, int job, int64_t *ret_bytes)
{
    char name[600];
    char path[700];
    struct refusal refusal = {{0}};
    void *data = NULL;

    name_out(world, jobs, job, name);
    snprintf(path, sizeof(path), "%s/adapter_model.safetensors", name);
    if (file_read(AT_FDCWD, path, path, 1 << 30, &data, ret_bytes, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    return data;
}

static void expect_same_adapter(const struct world *world, int jobs, int job)
{
    int64_t bytes[2];
    void *alone = adapter_of(world, 1, job, &bytes[0]);
    void *beside = adapter_of(world, jobs, job, &bytes[1]);

    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(alone, beside, (size_t)bytes[0]);
    free(alone);
    free(beside);
}

/* x by --dry-run; `jobs`: a file of them, or NULL. */
static double planned_kb(const struct world *world, const char *jobs)
{
    const char *arguments[] = {world->program, "train", "--model", world->base, "--dry-run", "--rank", "8", "--context", "256", "--device", "cpu",
                               "--recompute", "none", "--json", jobs != NULL ? "--jobs" : NULL, jobs, NULL};
    struct process process = process_begin(arguments);
    char text[4096] = "";
    const ssize_t bytes = read(process.out, text, sizeof(text) - 1);
    const char *at = bytes > 0 ? strstr(text, "\"process_bytes\":") : NULL;
    double kb = 0;

    if (at != NULL)
        kb = strtod(at + strlen("\"process_bytes\":"), NULL) / 1024;
    assert_int_equal(process_end(&process), 0);
    return kb;
}

/* The program's own, threads' scratch and the tokenizer are not in the plan, and what a run has reserved and not yet used is: some megabytes
 * either way. Sanitizers have shadows. */
static void expect_planned(const struct world *world, const char *jobs, double own_kb)
{
    const double planned = planned_kb(world, jobs);

    printf("planned: %.1f MB, found %.1f\n", planned / 1024, own_kb / 1024);
    assert_true(own_kb >= planned - 8192);
#if !defined(__SANITIZE_ADDRESS__)
    assert_true(own_kb <= planned + 8192);
#endif
}

/* N + k x: N within 1%, which is what rounds, and x of each process within 2 MB of x alone. */
static void k_processes_hold_one_base(void **state)
{
    struct world world;
    struct memory alone[JOBS];

    (void)state;
    memset(&world, 0, sizeof(world));
    world_open(&world);
    for (int job = 0; job < JOBS; job++)
        train_at_once(&world, 1, job, &alone[job]);
    expect_planned(&world, NULL, alone[0].own_kb);
    for (int jobs = 1; jobs <= JOBS; jobs++) {
        struct memory memory[JOBS] = {{0}};
        double base_kb = 0;
        double own_kb = 0;

        if (jobs > 1)
            train_at_once(&world, jobs, 0, memory);
        else
            memory[0] = alone[0];
        for (int job = 0; job < jobs; job++) {
            assert_true(memory[job].read_only);
            assert_true(memory[job].base_dirty_kb <= 0);
            assert_true(memory[job].base_rss_kb >= 0.99 * world.weights_kb);
            base_kb += memory[job].base_pss_kb;
            own_kb += memory[job].own_kb;
            if (jobs > 1)
                expect_same_adapter(&world, jobs, job);
        }
        printf("%d processes: the base %.1f MB of a file of %.1f, their own %.1f = %d x %.1f\n", jobs, base_kb / 1024,
               world.weights_kb / 1024, own_kb / 1024, jobs, own_kb / 1024 / jobs);
        assert_true(fabs(base_kb - world.weights_kb) <= 0.01 * world.weights_kb);
        assert_true(fabs(own_kb - jobs * alone[0].own_kb) <= 2048.0 * jobs);
    }
    scratch_end(&world.scratch);
}

/* The same jobs in one process: the base once, what was planned beside it, the bytes that each makes alone. */
static void one_process_holds_several_jobs(void **state)
{
    struct world world;
    struct memory memory;
    struct process process;
    char jobs[600];
    char weights[600];
    char text[4096] = "";

    (void)state;
    memset(&world, 0, sizeof(world));
    world_open(&world);
    for (int job = 0; job < JOBS; job++) {
        train_at_once(&world, 1, job, &memory);
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "{\"data\": \"%s/%d.jsonl\", \"out\": \"%s/%d-of-9\", \"seed\": %d}\n",
                 world.scratch.path, job, world.scratch.path, job, job);
    }
    scratch_text(&world.scratch, "jobs", text);
    snprintf(jobs, sizeof(jobs), "%s/jobs", world.scratch.path);
    snprintf(weights, sizeof(weights), "%s/model.safetensors", world.base);
    {
        const char *arguments[] = {world.program, "train", "--model", world.base, "--jobs", jobs, "--rank", "8", "--epochs", "15", "--batch-size", "1",
                                   "--context", "256", "--threads", "1", "--device", "cpu", "--recompute", "none", "--json", "--quiet", NULL};

        process = process_begin(arguments);
    }
    process_await(&process, "\"step\":1,");
    memory = memory_of(process.id, weights);
    assert_int_equal(process_end(&process), 0);
    assert_true(memory.read_only && memory.base_dirty_kb <= 0);
    assert_true(fabs(memory.base_pss_kb - world.weights_kb) <= 0.01 * world.weights_kb);
    expect_planned(&world, jobs, memory.own_kb);
    for (int job = 0; job < JOBS; job++)
        expect_same_adapter(&world, 9, job);
    scratch_end(&world.scratch);
}

/* SIGTERM as a keeper sends it: a checkpoint long before the notice is over, exit code 130, and the same command comes to the same bytes. */
static void a_terminated_process_checkpoints_and_goes_on(void **state)
{
    struct world world;
    struct memory memory;
    struct process process;
    struct timespec begun;
    struct timespec ended;
    char out[600];
    char path[700];

    (void)state;
    memset(&world, 0, sizeof(world));
    world_open(&world);
    train_at_once(&world, 1, 0, &memory);
    name_out(&world, 2, 0, out);
    process = job_begin(&world, 0, out);
    process_await(&process, "{\"step\":");
    clock_gettime(CLOCK_MONOTONIC, &begun);
    kill(process.id, SIGTERM);
    assert_int_equal(process_end(&process), 130);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    assert_true(ended.tv_sec - begun.tv_sec < 30);
    assert_int_not_equal(access(out, F_OK), 0);
    snprintf(path, sizeof(path), "%s.checkpoints", out);
    assert_int_equal(access(path, F_OK), 0);
    process = job_begin(&world, 0, out);
    assert_int_equal(process_end(&process), 0);
    expect_same_adapter(&world, 2, 0);
    assert_int_not_equal(access(path, F_OK), 0);
    scratch_end(&world.scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(k_processes_hold_one_base),
        cmocka_unit_test(one_process_holds_several_jobs),
        cmocka_unit_test(a_terminated_process_checkpoints_and_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
