/* berth-exec hold and those who borrow from it, each a process of its own, with the emulation as their GPU: trainers learn what they learn
 * with a base of their own, to the byte, and the base is there once. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* setenv */
#endif
#include <math.h>
#include <signal.h>
#include <sys/prctl.h>

#include "processes.h"
#include "scratch.h"

#if defined(__SANITIZE_ADDRESS__)
enum { JOBS = 2 };
#else
enum { JOBS = 3 };
#endif

struct world {
    struct scratch scratch;
    const char *program;
    char base[512];
    char socket[512];
    struct process holder;
};

/* The emulation beside berth-exec; the test is skipped where nobody built it. */
static void use_emulation(const char *program)
{
    char path[4300];
    const char *end = strstr(program, "/bin/berth-exec");

    snprintf(path, sizeof(path), "%.*s/lib/libberth-cuda-emulated.so", (int)(end - program), program);
    if (access(path, R_OK) != 0) {
        printf("skipped: %s is not built\n", path);
        skip();
    }
    setenv("BERTH_CUDA_LIBRARY", path, 1);
}

static void make_base(struct world *world, const char *name, uint64_t seed)
{
    const struct model_config config = tiny_config(FAMILY_QWEN2);

    tiny_model(scratch_folder(&world->scratch, name), &config, seed, DTYPE_BF16);
}

static void world_open(struct world *world)
{
    memset(world, 0, sizeof(*world));
    world->program = berth_exec();
    use_emulation(world->program);
    scratch_begin(&world->scratch);
    make_base(world, "base", 1);
    snprintf(world->base, sizeof(world->base), "%s", scratch_at(&world->scratch, "base"));
    snprintf(world->socket, sizeof(world->socket), "%s", scratch_at(&world->scratch, "base.sock"));
    for (int job = 0; job < JOBS; job++) {
        char name[32];
        char text[256];

        snprintf(name, sizeof(name), "%d.jsonl", job);
        snprintf(text, sizeof(text), "{\"prompt\": \"%d\", \"completion\": \"abc\"}\n{\"prompt\": \"b\", \"completion\": \"%d\"}\n", job, job);
        scratch_text(&world->scratch, name, text);
    }
}

static void hold(struct world *world)
{
    const char *arguments[] = {world->program, "hold", world->base, "--socket", world->socket, NULL};

    world->holder = process_begin(arguments);
    for (int i = 0; i < 1000 && access(world->socket, F_OK) != 0; i++)
        usleep(20000);
    assert_int_equal(access(world->socket, F_OK), 0);
}

static void name_out(const struct world *world, const char *name, int job, char ret_name[600])
{
    snprintf(ret_name, 600, "%s/%s-%d", world->scratch.path, name, job);
}

/* More steps than the pipe takes, so that it is there as long as nobody reads. */
static struct process train_begin(const struct world *world, const char *name, int job, bool borrows)
{
    char data[600];
    char out[600];
    char seed[16];
    const char *arguments[] = {world->program, "train", "--model", world->base, "--data", data, "--out", out, "--rank", "4", "--seed", seed,
                               "--epochs", "15", "--batch-size", "1", "--context", "16", "--recompute", "none", "--device", "cuda", "--json",
                               "--quiet", borrows ? "--base-socket" : NULL, world->socket, NULL};

    snprintf(data, sizeof(data), "%s/%d.jsonl", world->scratch.path, job);
    name_out(world, name, job, out);
    snprintf(seed, sizeof(seed), "%d", job);
    return process_begin(arguments);
}

static void *adapter_of(const struct world *world, const char *name, int job, int64_t *ret_bytes)
{
    char out[600];
    char path[700];
    struct refusal refusal = {{0}};
    void *data = NULL;

    name_out(world, name, job, out);
    snprintf(path, sizeof(path), "%s/adapter_model.safetensors", out);
    if (file_read(AT_FDCWD, path, path, 1 << 30, &data, ret_bytes, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    return data;
}

static void expect_same_adapter(const struct world *world, const char *name, int job)
{
    int64_t bytes[2];
    void *alone = adapter_of(world, "own", job, &bytes[0]);
    void *lent = adapter_of(world, name, job, &bytes[1]);

    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(alone, lent, (size_t)bytes[0]);
    free(alone);
    free(lent);
}

/* Of the pages of the GPU's allocation: rights, size, share. */
struct memory { double size_kb, pss_kb; bool shared; };

static struct memory memory_of(pid_t id)
{
    struct memory memory = {0, 0, true};
    bool base = false;
    char path[64], line[4400];
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/smaps", (int)id);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        char rights[8];
        double kb;

        if (sscanf(line, "%*x-%*x %7s", rights) == 1) {
            base = strstr(line, "memfd:gpu") != NULL;
            memory.shared &= !base || rights[3] == 's';
        } else if (base && sscanf(line, "Size: %lf", &kb) == 1) {
            memory.size_kb += kb;
        } else if (base && sscanf(line, "Pss: %lf", &kb) == 1) {
            memory.pss_kb += kb;
        }
    }
    fclose(file);
    return memory;
}

static void train_alone(const struct world *world, int jobs)
{
    for (int job = 0; job < jobs; job++) {
        struct process process = train_begin(world, "own", job, false);

        assert_int_equal(process_end(&process), 0);
    }
}

static void trainers_of_one_base_learn_what_they_learn_alone(void **state)
{
    struct world world;
    struct process process[JOBS];
    struct memory held;
    double pss_kb;

    (void)state;
    world_open(&world);
    train_alone(&world, JOBS);
    hold(&world);
    for (int job = 0; job < JOBS; job++)
        process[job] = train_begin(&world, "lent", job, true);
    for (int job = 0; job < JOBS; job++)
        process_await(&process[job], "{\"step\":");
    held = memory_of(world.holder.id);
    pss_kb = held.pss_kb;
    for (int job = 0; job < JOBS; job++) {
        const struct memory memory = memory_of(process[job].id);

        assert_true(memory.shared && memory.size_kb > 0 && fabs(memory.size_kb - held.size_kb) < 1);
        pss_kb += memory.pss_kb;
    }
    printf("a holder and %d trainers: the base %.0f kB of %.0f\n", JOBS, pss_kb, held.size_kb);
    assert_true(fabs(pss_kb - held.size_kb) <= 0.01 * held.size_kb);
    for (int job = 0; job < JOBS; job++) {
        assert_int_equal(process_end(&process[job]), 0);
        expect_same_adapter(&world, "lent", job);
    }
    kill(world.holder.id, SIGTERM);
    assert_int_equal(process_end(&world.holder), 0);
    assert_int_not_equal(access(world.socket, F_OK), 0);
    scratch_end(&world.scratch);
}

static void a_trainer_ends_as_ever_though_its_holder_was_killed(void **state)
{
    struct world world;
    struct process process;

    (void)state;
    world_open(&world);
    train_alone(&world, 1);
    hold(&world);
    process = train_begin(&world, "orphan", 0, true);
    process_await(&process, "{\"step\":");
    kill(world.holder.id, SIGKILL);
    assert_int_equal(process_end(&world.holder), 128 + SIGKILL);
    assert_int_equal(process_end(&process), 0);
    expect_same_adapter(&world, "orphan", 0);
    process = train_begin(&world, "late", 0, true); /* nobody lends any more: it does not load the base instead */
    assert_int_equal(process_end(&process), 1);
    scratch_end(&world.scratch);
}

static void generate(const struct world *world, const char *base, const char *device, bool borrows, int code, char *ret_text, size_t size)
{
    const char *arguments[] = {world->program, "generate", base, "--prompt", "ab", "--max-tokens", "6", "--temperature", "0", "--device", device,
                               "--deterministic", "--kv-mb", "1", "--pool-mb", "1", "--sequences", "1", "--token-budget", "16", "--context", "32",
                               "--quiet", borrows ? "--base-socket" : NULL, world->socket, NULL};
    struct process process = process_begin(arguments);
    const ssize_t bytes = read(process.out, ret_text, size - 1);

    ret_text[bytes > 0 ? bytes : 0] = '\0';
    assert_int_equal(process_end(&process), code);
}

static void who_generates_borrows_too_and_other_bases_and_the_cpu_are_refused(void **state)
{
    struct world world;
    char own[512];
    char lent[512];

    (void)state;
    world_open(&world);
    make_base(&world, "other", 2);
    hold(&world);
    generate(&world, world.base, "cuda", false, 0, own, sizeof(own));
    generate(&world, world.base, "cuda", true, 0, lent, sizeof(lent));
    assert_true(own[0] != '\0');
    assert_string_equal(own, lent);
    generate(&world, scratch_at(&world.scratch, "other"), "cuda", true, 1, lent, sizeof(lent));
    generate(&world, world.base, "cpu", true, 1, lent, sizeof(lent));
    kill(world.holder.id, SIGTERM);
    assert_int_equal(process_end(&world.holder), 0);
    scratch_end(&world.scratch);
}

static void devices(const char *program, char *ret_text, size_t size)
{
    const char *arguments[] = {program, "devices", "--json", NULL};
    struct process process = process_begin(arguments);
    size_t count = 0;
    ssize_t bytes;

    while ((bytes = read(process.out, ret_text + count, size - 1 - count)) > 0)
        count += (size_t)bytes;
    ret_text[count] = '\0';
    assert_int_equal(process_end(&process), 0);
}

static void devices_tells_of_sharing_and_of_mps(void **state)
{
    const char *program = berth_exec();
    static char text[8192];
    pid_t daemon;

    (void)state;
    use_emulation(program);
    devices(program, text, sizeof(text));
    assert_non_null(strstr(text, "\"shares_base\": true"));
    if (strstr(text, "\"mps_runs\": true") != NULL) {
        printf("skipped: MPS runs here already\n");
        skip();
    }
    fflush(stdout);
    daemon = fork();
    assert_true(daemon >= 0);
    if (daemon == 0) {
        prctl(PR_SET_NAME, "nvidia-cuda-mps-control");
        pause();
        _exit(0);
    }
    for (int i = 0; i < 100 && strstr(text, "\"mps_runs\": true") == NULL; i++)
        devices(program, text, sizeof(text));
    assert_non_null(strstr(text, "\"mps_runs\": true"));
    kill(daemon, SIGKILL);
    waitpid(daemon, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trainers_of_one_base_learn_what_they_learn_alone),
        cmocka_unit_test(a_trainer_ends_as_ever_though_its_holder_was_killed),
        cmocka_unit_test(who_generates_borrows_too_and_other_bases_and_the_cpu_are_refused),
        cmocka_unit_test(devices_tells_of_sharing_and_of_mps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
