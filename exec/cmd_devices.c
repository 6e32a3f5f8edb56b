/* berth-exec devices: what this machine can compute with. */
#include <jansson.h>
#include <stdio.h>

#include "cmd.h"
#include "engine/device/cuda_load.h"
#include "engine/device/kernel_set.h"
#include "engine/device/mps.h"
#include "host/options.h"

enum { OPTION_json, OPTION_help };
static const struct option table[] = {
    {"json", NULL, "one array of objects instead of the table"},
    {"help", NULL, "this text"},
};

/* What has to do with GPUs; `why` is empty where it is so. */
struct gpu {
    uint32_t count; /* 0: none runs */
    uint64_t bytes; /* of the smallest */
    bool shares, mps;
    char runs_why[512], shares_why[512], mps_text[512];
};

static void gpu_look(struct gpu *gpu)
{
    memset(gpu, 0, sizeof(*gpu));
    gpu->count = cuda_gpus_here(&gpu->bytes, gpu->runs_why, sizeof(gpu->runs_why));
    gpu->shares = cuda_shares_here(gpu->shares_why, sizeof(gpu->shares_why));
    gpu->mps = mps_runs_here(gpu->mps_text, sizeof(gpu->mps_text));
}

static void print_line(const char *name, bool is, const char *about)
{
    printf("  %-16s %-4s %s\n", name, is ? "yes" : "no", about);
}

static void print_table(void)
{
    struct gpu gpu;
    char text[64];

    for (enum kernel_set set = 0; set < KERNELS_COUNT; set++)
        printf("  %-16s %-4s %s\n", kernel_set_name(set),
               !kernel_set_runs_here(set) ? "no" : set == kernel_set_best() ? "used" : "yes", kernel_set_about(set));
    gpu_look(&gpu);
    if (gpu.count == 0) {
        print_line("cuda", false, gpu.runs_why);
        return;
    }
    snprintf(text, sizeof(text), "GPUs of sm_80 or later: %u, of %.1f GB at least", gpu.count, (double)gpu.bytes / 1e9);
    print_line("cuda", true, text);
    print_line("  shared base", gpu.shares, gpu.shares ? "berth-exec hold lends a base to other processes" : gpu.shares_why);
    print_line("  mps", gpu.mps, gpu.mps_text);
}

static int print_json(void)
{
    json_t *list = json_array();
    int failed = 0;
    struct gpu gpu;

    gpu_look(&gpu);
    for (enum kernel_set set = 0; set < KERNELS_COUNT; set++)
        failed |= json_array_append_new(list, json_pack("{s:s, s:b, s:b}", "name", kernel_set_name(set), "runs_here",
                                                        kernel_set_runs_here(set), "default", set == kernel_set_best()));
    failed |= json_array_append_new(list, json_pack("{s:s, s:b, s:i, s:I, s:b, s:s, s:b, s:s, s:b, s:s}", "name", "cuda", "runs_here",
                                                    gpu.count > 0, "gpus", (int)gpu.count, "gpu_bytes", (json_int_t)gpu.bytes, "default", 0,
                                                    "why", gpu.runs_why, "shares_base", gpu.shares, "shares_base_why", gpu.shares_why,
                                                    "mps_runs", gpu.mps, "mps", gpu.mps_text));
    failed |= json_dumpf(list, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(list);
    return failed == 0 ? EXIT_OK : EXIT_FAILED;
}

int cmd_devices(int argc, char **argv)
{
    struct options options = {.command = "berth-exec devices", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    const char *value;
    bool json = false;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_json:
            json = true;
            break;
        case OPTION_help:
            puts("usage: berth-exec devices [--json]\n\n"
                 "Lists the sets of kernels and CUDA, which of them run on this machine, and which is used by default;\n"
                 "of a GPU also whether processes can share a base on it, and whether MPS lets them run at the same time.\n");
            options_print(stdout, table, ARRAY_COUNT(table));
            puts("\nExit codes: 0 done, 1 it could not be done, 2 wrong usage.");
            return EXIT_OK;
        case OPTION_OPERAND:
            fprintf(stderr, "berth-exec devices: takes no operand (%s)\n", value);
            return EXIT_USAGE;
        default:
            return EXIT_USAGE;
        }
    }
    if (json)
        return print_json();
    print_table();
    return EXIT_OK;
}
