/* The kernels on a GPU against the definitions of their ops, and the device's promises. A line a check; the last line
 * counts. Without a GPU: SKIP and why, which is no pass. With "quick": fewer, for the sanitizers, which are slow. */
#include <stdio.h>
#include <string.h>

#include "cases.h"
#include "cases_back.h"
#include "cases_train.h"
#include "gpu.h"
#include "promises.h"
#include "promises_train.h"
#include "train_shapes.h"

static int passed, failed, skipped;

static void tell(const char *what, const char *name, const char *answer)
{
    printf("%s %s: %s%s%s\n", answer == NULL ? "ok" : "not ok", what, name, answer != NULL ? ": " : "", answer != NULL ? answer : "");
    passed += answer == NULL;
    failed += answer != NULL;
}

static struct world *open(const struct device *device, struct world_ask ask, enum mode mode, bool deterministic, bool integers, uint64_t seed)
{
    char error[256] = "";
    struct world *world;

    ask.mode = mode;
    ask.deterministic = deterministic;
    ask.integers = integers;
    ask.seed = seed;
    ask.dtype = mode == MODE_FAST ? DTYPE_BF16 : (enum dtype)(seed % DTYPE_COUNT);
    world = world_open(&ask, device, error, sizeof(error));
    if (world == NULL)
        tell("open", error, error);
    return world;
}

static const struct { const char *name; enum mode mode; bool deterministic, integers; } kinds[] = {
    {"exact", MODE_EXACT, true, false},
    {"fast, cuBLAS", MODE_FAST, false, false},
    {"fast, deterministic", MODE_FAST, true, false},
    {"fast, sums without error", MODE_FAST, true, true},
};

static void ops(const struct device *device, uint64_t seeds)
{
    for (size_t kind = 0; kind < ARRAY_COUNT(kinds); kind++) {
        for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
            const char *answer = NULL;

            for (uint64_t seed = 1; seed <= seeds && answer == NULL; seed++) {
                struct world *world = open(device, shapes[i].ask, kinds[kind].mode, kinds[kind].deterministic, kinds[kind].integers, seed);

                if (world == NULL)
                    return;
                answer = case_all(world);
                world_close(world);
            }
            tell(kinds[kind].name, shapes[i].name, answer);
        }
    }
}

static void train_ops(const struct device *device, uint64_t seeds)
{
    for (size_t kind = 0; kind < ARRAY_COUNT(kinds); kind++) {
        for (size_t i = 0; i < ARRAY_COUNT(train_shapes) && kinds[kind].deterministic; i++) {
            const char *answer = NULL;

            for (uint64_t seed = 1; seed <= seeds && answer == NULL; seed++) {
                struct world *world = open(device, train_shapes[i].ask, kinds[kind].mode, true, kinds[kind].integers, seed);

                if (world == NULL)
                    return;
                answer = case_train_all(world);
                world_close(world);
            }
            tell(kinds[kind].name, train_shapes[i].name, answer);
        }
    }
    struct world *world = open(device, train_shapes[0].ask, MODE_EXACT, true, false, 1);

    if (world == NULL)
        return;
    tell("exact", "a norm of millions of numbers", case_sumsq_long(world));
    world_close(world);
}

static void promises(const struct device *device)
{
    const struct world_ask decode = {.dims = DIMS_128, .sequences = 9,
                                     .sequence = {{1, 3, 0}, {1, 40, 1}, {1, 16, 1}, {1, 0, 2}, {1, 1, 3}, {1, 15, 4}, {1, 1600, 4},
                                                  {1, 2, SEGMENT_NONE}, {1, 30, SEGMENT_NONE}},
                                     .slots = 5, .slot = {{16, MODULES_ALL}, {8, MODULES_ALL}, {64, MODULES_ALL}, {16, 1u << LORA_K}, {32, MODULES_ALL}},
                                     .rows_spare = 7};

    for (int i = 0; i < 2; i++) {
        bool no_graphs = false;
        struct world *world = open(device, decode, MODE_FAST, i == 1, false, 3);

        if (world == NULL)
            return;
        tell(i == 1 ? "graphs, deterministic" : "graphs, cuBLAS", "recorded with one segment, replayed with all and with nobody",
             promise_graphs(world, &no_graphs));
        skipped += no_graphs;
        world_close(world);
    }
    for (size_t i = 0; i < ARRAY_COUNT(shapes); i++) {
        struct world *world;

        if (shapes[i].ask.sequences == 0)
            continue;
        world = open(device, shapes[i].ask, MODE_FAST, true, false, 4);
        if (world == NULL)
            return;
        tell("bits alone and mixed", shapes[i].name, promise_alone_or_mixed(world));
        tell("bits in one segment and in many", shapes[i].name, promise_one_segment_or_many(world));
        world_close(world);
    }
    for (size_t i = 0; i < ARRAY_COUNT(train_shapes); i++) {
        struct world *world = open(device, train_shapes[i].ask, i % 2 == 0 ? MODE_FAST : MODE_EXACT, true, false, 5);

        if (world == NULL)
            return;
        tell("a job's gradients alone and beside others", train_shapes[i].name, promise_back_alone(world));
        tell("a sequence's rows alone and beside others", train_shapes[i].name, promise_rows_back_alone(world));
        world_close(world);
    }
    tell("memory", "moves, lanes, marks", promise_memory(device));
}

int main(int argc, char **argv)
{
    bool quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    char why[512] = "";
    const struct device *device = gpu_device(why, sizeof(why));

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (device == NULL) {
        printf("SKIP the checks on a GPU: %s\n", why);
        return 0;
    }
    ops(device, quick ? 1 : 5);
    train_ops(device, quick ? 1 : 5);
    promises(device);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed == 0 ? 0 : 1;
}
