/* berth-exec model random: a model of random numbers, and adapters for it, for benchmarks. */
#include "cmd_model.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "engine/model/random.h"
#include "host/words.h"

#define ADAPTERS_MAX 100000

#define OPTIONS(X)                                                                    \
    X(preset, "NAME", "its size; see above")                                          \
    X(out, "DIR", "where it goes; a new folder")                                      \
    X(seed, "N", "same seed, same numbers (0)")                                       \
    X(dtype, "NAME", "bf16, f32 or f16 (bf16)")                                       \
    X(adapters, "N", "PEFT adapters beside it, in DIR/adapters/NNNN (0)")             \
    X(rank, "R", "rank of the adapters (16)")                                         \
    X(help, NULL, "this text")
enum {
#define X(name, argument, about) OPTION_##name,
    OPTIONS(X)
#undef X
};
static const struct option table[] = {
#define X(name, argument, about) {#name, argument, about},
    OPTIONS(X)
#undef X
};

struct wish {
    struct model_config config;
    bool chosen;
    const char *out;
    uint64_t seed;
    enum dtype dtype;
    int64_t adapters;
    int64_t rank;
};

static void print_help(void)
{
    puts(
        "usage: berth-exec model random --preset NAME --out DIR [options]\n\n"
        "Writes a Llama of random numbers in the format of Hugging Face, with a byte-level tokenizer: it says nothing sensible and is as\n"
        "fast as a real one. With --adapters, as many adapters of all seven linear modules.\n");
#define X(name, layers, hidden, heads, kv_heads, head_dim, ffn, vocabulary, positions, tied, about)                    \
    printf("  %-5s %s\n", name, about);
    RANDOM_PRESETS(X)
#undef X
    putchar('\n');
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 done, 1 it could not be done, 2 wrong usage, 130 stopped by Ctrl-C.");
}

static bool read_dtype(const char *text, enum dtype *ret_dtype)
{
    static const char *const names[DTYPE_COUNT] = {[DTYPE_F32] = "f32", [DTYPE_F16] = "f16", [DTYPE_BF16] = "bf16"};

    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(text, names[i]) == 0) {
            *ret_dtype = (enum dtype)i;
            return true;
        }
    return false;
}

static enum status write_adapters(const struct wish *wish, const char *directory, struct refusal *refusal)
{
    enum status status = STATUS_OK;
    char path[4096 + 64];

    snprintf(path, sizeof(path), "%s/adapters", directory);
    if (wish->adapters > 0 && mkdir(path, 0777) != 0)
        return refuse(refusal, STATUS_IO, "%s: cannot be made: %s", path, strerror(errno));
    for (int64_t i = 0; i < wish->adapters && status == STATUS_OK; i++) {
        snprintf(path, sizeof(path), "%s/adapters/%04lld", directory, (long long)i);
        if (mkdir(path, 0777) != 0)
            return refuse(refusal, STATUS_IO, "%s: cannot be made: %s", path, strerror(errno));
        if (model_stop != 0)
            return STATUS_END;
        status = random_adapter_write(path, &wish->config, (int32_t)wish->rank, (1u << LORA_MODULE_COUNT) - 1,
                                      wish->seed + 1 + (uint64_t)i, wish->dtype, wish->out, refusal);
    }
    return status;
}

static int write_model(const struct wish *wish)
{
    struct refusal refusal = {""};
    struct folder folder;
    char shown[] = "model.safetensors";
    enum status status;

    model_catch_stop();
    status = folder_begin(&folder, wish->out, &refusal);
    if (status == STATUS_OK)
        status = random_model_write(folder.temporary, &wish->config, wish->seed, wish->dtype, model_progress, shown, &refusal);
    if (status == STATUS_OK)
        status = write_adapters(wish, folder.temporary, &refusal);
    if (status == STATUS_OK)
        status = folder_commit(&folder, &refusal);
    folder_abandon(&folder);
    return status == STATUS_OK ? EXIT_OK : model_refused("random", &refusal);
}

/* False: it has been said what is wrong. */
static bool take(struct options *options, int option, const char *value, struct wish *wish)
{
    int64_t number = 0;

    switch (option) {
    case OPTION_preset:
        wish->chosen = random_preset(value, &wish->config);
        if (!wish->chosen)
            options_complain(options, OPTION_preset, value, "there is no such size; --help lists them");
        return wish->chosen;
    case OPTION_out:
        wish->out = value;
        return true;
    case OPTION_seed:
        if (!options_whole(options, OPTION_seed, value, 0, INT64_MAX, &number))
            return false;
        wish->seed = (uint64_t)number;
        return true;
    case OPTION_dtype:
        if (read_dtype(value, &wish->dtype))
            return true;
        options_complain(options, OPTION_dtype, value, "must be bf16, f32 or f16");
        return false;
    case OPTION_adapters:
        return options_whole(options, OPTION_adapters, value, 0, ADAPTERS_MAX, &wish->adapters);
    case OPTION_rank:
        return options_whole(options, OPTION_rank, value, 1, LORA_RANK_MAX, &wish->rank);
    case OPTION_OPERAND:
        fprintf(stderr, "berth-exec model random: takes no operand (%s)\n", value);
        return false;
    default:
        return false;
    }
}

int cmd_model_random(int argc, char **argv)
{
    struct options options = {.command = "berth-exec model random", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    struct wish wish = {.dtype = DTYPE_BF16, .rank = 16};
    const char *value;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        if (option == OPTION_help) {
            print_help();
            return EXIT_OK;
        }
        if (!take(&options, option, value, &wish))
            return EXIT_USAGE;
    }
    if (wish.chosen && wish.out != NULL)
        return write_model(&wish);
    fputs("berth-exec model random: needs --preset NAME and --out DIR\n", stderr);
    return EXIT_USAGE;
}
