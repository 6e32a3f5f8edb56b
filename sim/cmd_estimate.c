/* berth-sim estimate: sizes and times of a model, its adapters and its fine-tunes, with the arithmetic shown. */
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd.h"
#include "estimate/config_json.h"
#include "estimate/estimate.h"
#include "hardware/profile.h"
#include "hardware/step.h"
#include "host/options.h"

/* X(name, argument, kind, smallest, greatest, help). Every number fits a double exactly, and the ranges, with those of
 * shape_validate(), keep every product within 63 bits. */
#define OPTIONS(X)                                                                                                    \
    X(shape, "NAME", TEXT, 0, 0, "a named shape; llama-8b when neither this nor --config is given")                   \
    X(config, "FILE", TEXT, 0, 0, "a Hugging Face config.json")                                                       \
    X(shapes, NULL, FLAG, 0, 0, "list the named shapes")                                                              \
    X(parameters, "N", WHOLE, 1, 1e15, "parameter count for training and nominal weights; default: by the name")      \
    X(rank, "N", WHOLE, 1, 1024, "LoRA rank; 16")                                                                    \
    X(modules, "LIST", TEXT, 0, 0, "all, attention, or a list out of q,k,v,o,gate,up,down; all")                      \
    X(tp, "N", WHOLE, 1, 1024, "tensor-parallel degree; 1")                                                           \
    X(adapter_bytes, "BYTES", WHOLE, 1, 1e12, "count adapters of this size instead of the reckoned one")              \
    X(adapters, "N", WHOLE, 1, 1e6, "how many adapters lie in the store")                                             \
    X(slots_bytes, "BYTES", WHOLE, 1, 1e15, "GPU memory for adapters: how many fit")                                  \
    X(host_bytes, "BYTES", WHOLE, 1, 1e15, "host memory for adapters: how many fit")                                  \
    X(host_bytes_per_s, "RATE", REAL, 1e6, 1e18, "host to GPU; the GPU profile's, or 25 GB/s")                        \
    X(store_bytes_per_s, "RATE", REAL, 1e6, 1e18, "object store to host; the GPU profile's, or 1 GB/s")               \
    X(first_byte_ms, "MS", REAL, 0, 1e6, "of the object store; the GPU profile's, or 0")                              \
    X(train_tokens, "N", WHOLE, 1, 1e15, "tokens of the training set: how long a fine-tune takes")                    \
    X(epochs, "N", WHOLE, 1, 1000, "times over the training set; 1")                                                  \
    X(full, NULL, FLAG, 0, 0, "full fine-tuning, 6ND, instead of LoRA, 4ND")                                          \
    X(gpu, "NAME", TEXT, 0, 0, "a profile of scenarios/hardware (h100, h200, a100-80, l40s, a10g), or a .yaml file")  \
    X(flops_per_s, "RATE", REAL, 1, 1e30, "peak of one GPU, instead of the profile's")                                \
    X(gpus, "N", WHOLE, 1, 1e6, "how many GPUs train together; 1")                                                    \
    X(mfu, "X", REAL, 1e-6, 1, "share of the peak that is reached; 0.4")                                              \
    X(batch_tokens, "N", WHOLE, 1, 1e6, "tokens live in a training step: adds activations")                           \
    X(resident_jobs, "N", WHOLE, 1, 1e4, "fine-tunes that share one resident base")                                   \
    X(merge, "ROWS", WHOLE, 1, 65536, "from what traffic on merged weights pay, against a pool with steps of so many rows")  \
    X(merge_adapters, "N", WHOLE, 1, 65536, "distinct adapters in such a step; one a row")                              \
    X(merge_context, "N", WHOLE, 0, 1e6, "tokens that each row has behind it; 1024")                                    \
    X(merge_prompts, "X", REAL, 0, 1e6, "prompt tokens computed beside them for each token; 0: the pool decodes alone")  \
    X(jobs_per_day, "LIST", TEXT, 0, 0, "demand as JOBSxGPU-HOURS, ...: 160x0.7,40x6")                                \
    X(json, NULL, FLAG, 0, 0, "one JSON object instead of a table")                                                   \
    X(help, NULL, FLAG, 0, 0, "this")

enum kind { FLAG, TEXT, WHOLE, REAL };

static const struct option table[] = {
#define X(name, argument, kind, smallest, greatest, help) {#name, argument, help},
    OPTIONS(X)
#undef X
};
static const struct range {
    enum kind kind;
    double smallest;
    double greatest;
} ranges[] = {
#define X(name, argument, kind, smallest, greatest, help) {kind, smallest, greatest},
    OPTIONS(X)
#undef X
};
enum {
#define X(name, argument, kind, smallest, greatest, help) OPTION_##name,
    OPTIONS(X)
#undef X
    OPTION_COUNT
};

struct given {
    bool is;
    const char *text;
    double number;
};

static void print_help(void)
{
    puts("usage: berth-sim estimate [--shape NAME | --config FILE] [options]\n\n"
         "Sizes and times of a model, its adapters and its fine-tunes, with the arithmetic shown.\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nNumbers may end in k, M, G, T (powers of 1000) or Ki, Mi, Gi, Ti, with or without B: 12GB, 80GiB, 30M.\n"
         "Exit codes: 0 done, 1 it could not be done, 2 wrong usage.");
}

/* "12GB" -> 12e9. False when the text is not a number, or more than one. */
static bool read_number(const char *text, const char *end, double *ret_number)
{
    static const struct {
        const char *suffix;
        double unit;
    } suffixes[] = {
        {"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12},
        {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40},
    };
    char *rest;
    double number = strtod(text, &rest);
    size_t length = (size_t)(end - rest);

    if (rest == text || rest > end || isspace((unsigned char)text[0]) || !isfinite(number))
        return false;
    if (length > 0 && rest[length - 1] == 'B')
        length--;
    for (size_t i = 0; i < ARRAY_COUNT(suffixes); i++)
        if (strlen(suffixes[i].suffix) == length && strncmp(suffixes[i].suffix, rest, length) == 0) {
            *ret_number = number * suffixes[i].unit;
            return true;
        }
    return false;
}

static int complain(uint32_t option, const char *text, const char *why)
{
    const struct options options = {.command = "berth-sim estimate", .table = table, .count = ARRAY_COUNT(table), .errors = stderr};

    options_complain(&options, option, text, why);
    return EXIT_USAGE;
}

static int read_value(uint32_t option, const char *text, struct given *ret_given)
{
    const struct range *range = &ranges[option];
    char why[80];

    ret_given->is = true;
    ret_given->text = text;
    if (range->kind == FLAG || range->kind == TEXT)
        return EXIT_OK;
    if (!read_number(text, text + strlen(text), &ret_given->number))
        return complain(option, text, "not a number");
    if (range->kind == WHOLE && floor(ret_given->number) != ret_given->number)
        return complain(option, text, "must be a whole number");
    if (ret_given->number < range->smallest || ret_given->number > range->greatest) {
        snprintf(why, sizeof(why), "must be from %g to %g", range->smallest, range->greatest);
        return complain(option, text, why);
    }
    return EXIT_OK;
}

static int read_options(int argc, char **argv, struct given given[OPTION_COUNT])
{
    struct options options = {.command = "berth-sim estimate", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    const char *value;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        int code = EXIT_USAGE;

        if (option == OPTION_OPERAND)
            fprintf(stderr, "berth-sim estimate: takes no %s; a file is named by --config\n", value);
        else if (option != OPTION_WRONG)
            code = read_value((uint32_t)option, value, &given[option]);
        if (code != EXIT_OK)
            return code;
    }
    return EXIT_OK;
}

static int read_modules(const struct given *given, uint32_t *ret_modules)
{
    static const char *const names[] = {
#define X(name, text) text,
        LORA_MODULE_LIST(X)
#undef X
    };
    uint32_t modules = 0;

    if (!given->is || strcmp(given->text, "all") == 0) {
        *ret_modules = LORA_ALL_LINEAR;
        return EXIT_OK;
    }
    if (strcmp(given->text, "attention") == 0) {
        *ret_modules = LORA_ATTENTION;
        return EXIT_OK;
    }
    for (const char *at = given->text;; at++) {
        size_t length = strcspn(at, ",");
        size_t i = 0;

        while (i < ARRAY_COUNT(names) && (strlen(names[i]) != length || strncmp(names[i], at, length) != 0))
            i++;
        if (i == ARRAY_COUNT(names))
            return complain(OPTION_modules, given->text,
                            "must be all, attention, or a list out of q,k,v,o,gate,up,down");
        modules |= 1u << i;
        at += length;
        if (*at == '\0')
            break;
    }
    *ret_modules = modules;
    return EXIT_OK;
}

/* 160x0.7,40x6 */
static int read_demands(const struct given *given, struct estimate_question *question)
{
    static const char wrong[] = "must be JOBSxGPU-HOURS, ... with at most 16 of them, as in 160x0.7,40x6";

    if (!given->is)
        return EXIT_OK;
    for (const char *at = given->text;; at++) {
        const char *end = at + strcspn(at, ",");
        const char *times = at + strcspn(at, "x");
        struct estimate_demand demand;

        if (question->demands_count == ESTIMATE_DEMANDS_MAX || times >= end ||
            !read_number(at, times, &demand.jobs_per_day) || !read_number(times + 1, end, &demand.gpu_hours) ||
            demand.jobs_per_day < 0 || demand.gpu_hours < 0)
            return complain(OPTION_jobs_per_day, given->text, wrong);
        question->demands[question->demands_count++] = demand;
        at = end;
        if (*at == '\0')
            return EXIT_OK;
    }
}

static int read_shape(const struct given given[OPTION_COUNT], struct shape *ret_shape)
{
    const char *name = given[OPTION_shape].is ? given[OPTION_shape].text : "llama-8b";
    const struct shape *found;

    if (given[OPTION_shape].is && given[OPTION_config].is) {
        fputs("berth-sim estimate: --shape or --config, not both\n", stderr);
        return EXIT_USAGE;
    }
    if (given[OPTION_config].is)
        return config_json_read(given[OPTION_config].text, stderr, ret_shape) == STATUS_OK ? EXIT_OK : EXIT_FAILED;
    found = shape_find(name);
    if (found == NULL)
        return complain(OPTION_shape, name, "no such shape (--shapes lists them)");
    *ret_shape = *found;
    return EXIT_OK;
}

static int read_gpu(const struct given *given, struct estimate_question *question)
{
    struct gpu_profile profile;

    if (!given->is)
        return EXIT_OK;
    if (profile_read(given->text, ".", stderr, &profile) != STATUS_OK)
        return EXIT_FAILED;
    question->flops_per_s = profile.flops_per_s;
    question->memory_bytes = profile.memory_bytes;
    question->host_bytes_per_s = profile.host_bytes_per_s;
    question->store_bytes_per_s = profile.store_bytes_per_s;
    question->store_first_byte_ms = profile.store_first_byte_ms;
    return EXIT_OK;
}

/* Where a question's number comes from; what is not given keeps its default. */
static void read_numbers(const struct given given[OPTION_COUNT], struct estimate_question *question)
{
#define TAKE(option, field, type) \
    if (given[OPTION_##option].is) \
        question->field = (type)given[OPTION_##option].number
    TAKE(parameters, parameters, uint64_t);
    TAKE(rank, rank, uint32_t);
    TAKE(tp, tp, uint32_t);
    TAKE(adapter_bytes, adapter_bytes, uint64_t);
    TAKE(adapters, adapters, uint64_t);
    TAKE(slots_bytes, slots_bytes, uint64_t);
    TAKE(host_bytes, host_bytes, uint64_t);
    TAKE(host_bytes_per_s, host_bytes_per_s, double);
    TAKE(store_bytes_per_s, store_bytes_per_s, double);
    TAKE(first_byte_ms, store_first_byte_ms, double);
    TAKE(train_tokens, train_tokens, uint64_t);
    TAKE(epochs, epochs, uint32_t);
    TAKE(flops_per_s, flops_per_s, double);
    TAKE(gpus, gpus, uint32_t);
    TAKE(mfu, utilization, double);
    TAKE(batch_tokens, batch_tokens, uint32_t);
    TAKE(resident_jobs, resident_jobs, uint32_t);
    TAKE(merge, merge.rows, uint32_t);
    TAKE(merge_adapters, merge_adapters, uint32_t);
    TAKE(merge_context, merge_context, uint32_t);
    TAKE(merge_prompts, merge_prompts, double);
#undef TAKE
    question->full = given[OPTION_full].is;
}

/* A decode step of the pool, and the same on merged weights, by the simulator's own model of a step. */
static int read_merge(const struct given given[OPTION_COUNT], struct estimate_question *question)
{
    struct merge_steps *merge = &question->merge;
    struct merge_load load = {
        .rows = merge->rows,
        .adapters = given[OPTION_merge_adapters].is ? question->merge_adapters : merge->rows,
        .context_tokens = question->merge_context,
        .rank = question->rank,
        .prompt_ratio = question->merge_prompts,
    };
    struct gpu_profile profile;
    struct step_model model;

    if (!given[OPTION_merge].is)
        return EXIT_OK;
    if (!given[OPTION_gpu].is || question->shape.averaged) {
        fputs("berth-sim estimate: --merge needs --gpu, and a shape that is not an average\n", stderr);
        return EXIT_USAGE;
    }
    if (load.adapters > load.rows)
        return complain(OPTION_merge_adapters, given[OPTION_merge_adapters].text, "more adapters than rows");
    if (profile_read(given[OPTION_gpu].text, ".", stderr, &profile) != STATUS_OK)
        return EXIT_FAILED;
    load.adapter_bytes = footprint_adapter_bytes(&question->shape, question->modules, question->rank);
    step_model_init(&model, &profile, &question->shape, question->tp, question->modules, LORA_COST_OURS, 0);
    *merge = step_merge(&model, &load);
    question->merge_adapters = load.adapters;
    return EXIT_OK;
}

static int read_question(const struct given given[OPTION_COUNT], struct estimate_question *question)
{
    int code;

    *question = (struct estimate_question){
        .rank = 16, .tp = 1, .epochs = 1, .gpus = 1, .utilization = 0.4,
        .host_bytes_per_s = 25e9, .store_bytes_per_s = 1e9, .merge_context = 1024,
    };
    if ((code = read_shape(given, &question->shape)) != EXIT_OK ||
        (code = read_modules(&given[OPTION_modules], &question->modules)) != EXIT_OK ||
        (code = read_demands(&given[OPTION_jobs_per_day], question)) != EXIT_OK ||
        (code = read_gpu(&given[OPTION_gpu], question)) != EXIT_OK)
        return code;
    read_numbers(given, question);
    if (!question->shape.averaged && question->shape.heads % question->tp != 0) {
        fprintf(stderr, "berth-sim estimate: --tp %u does not divide the %u attention heads of %s\n", question->tp,
                question->shape.heads, question->shape.name);
        return EXIT_USAGE;
    }
    if (question->train_tokens > 0 && question->flops_per_s <= 0) {
        fputs("berth-sim estimate: --train-tokens needs --gpu or --flops-per-s\n", stderr);
        return EXIT_USAGE;
    }
    return read_merge(given, question);
}

static void print_shape(const struct shape *shape)
{
    if (shape->averaged)
        printf("%s: %u layers of seven matrices, mean d_in + d_out %u (an average)\n", shape->name, shape->layers,
               shape->averaged_sum);
    else
        printf("%s: %u layers, hidden %u, %u heads of %u, %u KV heads, FFN %u, vocabulary %u%s, %u bits\n", shape->name,
               shape->layers, shape->hidden, shape->heads, shape->head_dim, shape->kv_heads, shape->ffn,
               shape->vocabulary, shape->tied_embeddings ? " (tied)" : "", shape->weight_bits);
}

static void print_table(const struct estimate_question *question, const struct estimate *estimate)
{
    const char *group = "";
    char text[ESTIMATE_TEXT_MAX];

    print_shape(&question->shape);
    for (uint32_t i = 0; i < estimate->count; i++) {
        const struct estimate_line *line = &estimate->lines[i];

        if (strcmp(line->group, group) != 0)
            printf("\n%s\n", line->group);
        group = line->group;
        printf("  %-28s %s = %s\n", line->label, line->how, estimate_text(text, line->unit, line->value));
    }
    for (uint32_t i = 0; i < estimate->notes_count; i++)
        printf("%s%s\n", i == 0 ? "\n" : "", estimate->notes[i]);
}

static int print_json(const struct estimate_question *question, const struct estimate *estimate)
{
    json_t *object = json_object();
    json_t *notes = json_array();
    int failed = json_object_set_new(object, "shape", json_string(question->shape.name));

    failed |= json_object_set_new(object, "averaged", json_boolean(question->shape.averaged));
    failed |= json_object_set_new(object, "rank", json_integer((json_int_t)question->rank));
    for (uint32_t i = 0; i < estimate->count; i++) {
        const struct estimate_line *line = &estimate->lines[i];

        failed |= json_object_set_new(object, line->key,
                                      line->whole ? json_integer((json_int_t)line->count) : json_real(line->value));
    }
    for (uint32_t i = 0; i < estimate->notes_count; i++)
        failed |= json_array_append_new(notes, json_string(estimate->notes[i]));
    failed |= json_object_set_new(object, "notes", notes);
    failed |= json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    putchar('\n');
    json_decref(object);
    return failed == 0 ? EXIT_OK : EXIT_FAILED;
}

static void print_shapes(void)
{
    char text[ESTIMATE_TEXT_MAX];

    printf("%-16s %18s  %6s %6s %5s %4s %5s %6s %10s\n", "shape", "parameters", "layers", "hidden", "heads", "KV", "of",
           "FFN", "vocabulary");
    for (size_t i = 0; shape_at(i) != NULL; i++) {
        const struct shape *shape = shape_at(i);

        if (shape->averaged)
            printf("%-16s %18s  %6u  seven matrices a layer, mean d_in + d_out %u (an average)\n", shape->name,
                   estimate_count_text(text, shape->parameters_nominal), shape->layers, shape->averaged_sum);
        else
            printf("%-16s %18s  %6u %6u %5u %4u %5u %6u %10u\n", shape->name,
                   estimate_count_text(text, footprint_parameters(shape)), shape->layers, shape->hidden, shape->heads,
                   shape->kv_heads, shape->head_dim, shape->ffn, shape->vocabulary);
    }
}

static int print_shapes_json(void)
{
    json_t *list = json_array();
    int failed = 0;

    for (size_t i = 0; shape_at(i) != NULL; i++) {
        const struct shape *shape = shape_at(i);
        uint64_t parameters = shape->averaged ? shape->parameters_nominal : footprint_parameters(shape);

        failed |= json_array_append_new(
            list, json_pack("{s:s, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:b}", "name", shape->name,
                            "parameters", (json_int_t)parameters,
                            "layers", (int)shape->layers, "hidden", (int)shape->hidden, "heads", (int)shape->heads,
                            "kv_heads", (int)shape->kv_heads, "head_dim", (int)shape->head_dim, "ffn", (int)shape->ffn,
                            "vocabulary", (int)shape->vocabulary, "tied_embeddings", (int)shape->tied_embeddings,
                            "averaged", (int)shape->averaged));
    }
    failed |= json_dumpf(list, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(list);
    return failed == 0 ? EXIT_OK : EXIT_FAILED;
}

int cmd_estimate(int argc, char **argv)
{
    struct given given[OPTION_COUNT];
    struct estimate_question question;
    static struct estimate estimate;
    int code;

    memset(given, 0, sizeof(given));
    code = read_options(argc, argv, given);
    if (code != EXIT_OK)
        return code;
    if (given[OPTION_help].is) {
        print_help();
        return EXIT_OK;
    }
    if (given[OPTION_shapes].is) {
        if (given[OPTION_json].is)
            return print_shapes_json();
        print_shapes();
        return EXIT_OK;
    }
    code = read_question(given, &question);
    if (code != EXIT_OK)
        return code;
    estimate_make(&question, &estimate);
    if (given[OPTION_json].is)
        return print_json(&question, &estimate);
    print_table(&question, &estimate);
    return EXIT_OK;
}
