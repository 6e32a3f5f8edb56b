/* berth-sim trace convert IN OUT: an object trace in another format. */
#include <signal.h>
#include <unistd.h>

#include <jansson.h>

#include "cmd.h"
#include "cmd_objects.h"
#include "cmd_trace.h"
#include "convert/convert.h"
#include "host/words.h"

#define COMMAND "berth-sim trace convert"

#define CONVERT_FLAGS(X)                                                     \
    X(json, NULL, "one JSON object on stdout when it is done")               \
    X(quiet, NULL, "no progress line")                                       \
    X(help, NULL, "this text")

enum {
#define X(field, argument, about) OPTION_##field,
    OBJECT_VALUES(X)
    X(to, , )
    OBJECT_FLAGS(X)
    CONVERT_FLAGS(X)
#undef X
};
static const struct option table[] = {
#define X(field, argument, about) {#field, argument, about},
    OBJECT_VALUES(X)
    X(to, "FORMAT", "of OUT: oracleGeneral, lcs, berth-hdf5, csv or txt; without it its name tells")
    OBJECT_FLAGS(X)
    CONVERT_FLAGS(X)
#undef X
};

struct convert_arguments {
    struct object_arguments objects;
    const char *to;
#define X(field, argument, about) bool field;
    CONVERT_FLAGS(X)
#undef X
    const char *paths[2];
    unsigned paths_count;
};

static volatile sig_atomic_t stop;

static void ask_to_stop(int number)
{
    (void)number;
    stop = 1;
}

static void print_help(FILE *output)
{
    fputs("usage: " COMMAND " IN OUT [options]\n\n"
          "Writes a trace of requests for objects in another format: oracleGeneral, csv and txt plain or, where OUT ends in .zst,\n"
          "packed; lcs (version 3); berth-hdf5 (.h5). OUT comes into being whole or not at all. Next accesses that IN does not tell are\n"
          "found: that takes at most 80 bytes of memory an object, and 32 bytes a request of room beside OUT while it runs.\n"
          "What OUT cannot hold and what would change a cache's numbers (sizes) is refused; what would not (parts of a second,\n"
          "texts of ids) is written as it can be, and said.\n\noptions:\n",
          output);
    options_print(output, table, ARRAY_COUNT(table));
    object_formats_print(output);
    fputs("\nExit codes: 0 done, 1 the file is bad or cannot be read or written, 2 wrong usage, 130 stopped by Ctrl-C.\n", output);
}

static bool read_arguments(int argc, char **argv, struct convert_arguments *arguments, FILE *errors)
{
    struct options options = {.command = COMMAND, .table = table, .count = ARRAY_COUNT(table), .errors = errors, .argc = argc,
                              .argv = argv, .at = 1};
    const char *value;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END && !arguments->help) {
        switch (option) {
#define X(field, argument, about)                 \
        case OPTION_##field:                      \
            arguments->objects.field = value;     \
            break;
            OBJECT_VALUES(X)
#undef X
#define X(field, argument, about)                 \
        case OPTION_##field:                      \
            arguments->objects.field = true;      \
            break;
            OBJECT_FLAGS(X)
#undef X
#define X(field, argument, about)                 \
        case OPTION_##field:                      \
            arguments->field = true;              \
            break;
            CONVERT_FLAGS(X)
#undef X
        case OPTION_to:
            arguments->to = value;
            break;
        case OPTION_OPERAND:
            if (arguments->paths_count == ARRAY_COUNT(arguments->paths)) {
                fprintf(errors, COMMAND ": one trace in and one out, not also '%s'\n", value);
                return false;
            }
            arguments->paths[arguments->paths_count++] = value;
            break;
        default:
            return false;
        }
    }
    if (!arguments->help && arguments->paths_count < ARRAY_COUNT(arguments->paths))
        fprintf(errors, COMMAND ": name the trace to read and the one to write; see --help\n");
    return arguments->help || arguments->paths_count == ARRAY_COUNT(arguments->paths);
}

/* --- what was done --- */

static void print_done(FILE *output, const struct convert_config *config, const struct convert_result *result)
{
    char count[NUMBER_TEXT_MAX];

    fprintf(output, "%-10s %s (%s)\n", "read", config->input, result->info.format);
    fprintf(output, "%-10s %s (%s%s), %s bytes\n", "written", config->output, result->format, result->packed ? ", zstd" : "",
            count_text(result->bytes, count));
    fprintf(output, "%-10s %s\n", "requests", count_text(result->info.requests, count));
    if (result->names > 0)
        fprintf(output, "%-10s %s ids are texts\n", "names", count_text(result->names, count));
    if (result->info.passed_over > 0)
        fprintf(output, "%-10s %s requests for the base, which is not cached\n", "left out",
                count_text(result->info.passed_over, count));
    if (result->info.backward > 0)
        fprintf(output, "%-10s %s times are before that of the row above: kept\n", "backward", count_text(result->info.backward, count));
    if (result->info.zero_sizes > 0)
        fprintf(output, "%-10s %s sizes are 0: kept\n", "zero", count_text(result->info.zero_sizes, count));
    if (result->found_next || result->kept_next)
        fprintf(output, "%-10s %s\n", "next", result->found_next ? "found here" : "as the input tells them");
}

/* To people, whatever the output is for. */
static void print_losses(FILE *errors, const struct convert_result *result)
{
    const struct writer_losses *losses = &result->losses;
    char count[NUMBER_TEXT_MAX];

    if (losses->fractions > 0)
        fprintf(errors, COMMAND ": lost: parts of a second of %s times, since %s has whole ones\n", count_text(losses->fractions, count),
                result->format);
    if (losses->names)
        fprintf(errors, COMMAND ": lost: the texts of %s ids; in %s they are numbers from 2^63 on\n", count_text(result->names, count),
                result->format);
    if (losses->sizes || losses->times)
        fprintf(errors, COMMAND ": lost: %s%s%s, which %s does not have\n", losses->sizes ? "sizes" : "",
                losses->sizes && losses->times ? " and " : "", losses->times ? "times" : "", result->format);
}

/* What is not in the input, and stands in the output all the same. */
static void print_inventions(FILE *errors, const struct convert_config *config, const struct convert_result *result)
{
    if (!result->needs_all)
        return;
    if (!result->info.has_size && !config->size_given)
        fprintf(errors, COMMAND ": %s has no sizes, and %s must: each object is 1 byte; --size-bytes gives another\n",
                result->info.format, result->format);
    if (!result->info.has_time)
        fprintf(errors, COMMAND ": %s has no times, and %s must: all are 0\n", result->info.format, result->format);
}

static void print_json(FILE *output, const struct convert_config *config, const struct convert_result *result)
{
    const struct object_trace_info *info = &result->info;
    json_t *lost = json_pack("{s:I, s:b, s:b, s:b}", "fractions", (json_int_t)result->losses.fractions, "names", result->losses.names,
                             "sizes", result->losses.sizes, "times", result->losses.times);
    json_t *root = json_pack("{s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:o}", "input", config->input, "from",
                             info->format, "output", config->output, "to", result->format, "packed", result->packed, "requests",
                             (json_int_t)info->requests, "names", (json_int_t)result->names, "passed_over",
                             (json_int_t)info->passed_over, "backward", (json_int_t)info->backward, "zero_sizes",
                             (json_int_t)info->zero_sizes, "bytes", (json_int_t)result->bytes, "next",
                             result->found_next ? "found" : result->kept_next ? "kept" : "none", "lost", lost);

    json_dumpf(root, output, 0);
    fputc('\n', output);
    json_decref(root);
}

/* --- the work --- */

static int convert_trace(const struct convert_config *config, bool json, FILE *output, FILE *errors)
{
    char message[TRACE_MESSAGE_MAX] = "";
    struct convert_result result;
    enum status status = convert(config, &result, message);

    if (status == STATUS_CONFLICT) {
        fprintf(errors, COMMAND ": stopped; %s is as it was\n", config->output);
        return EXIT_STOPPED;
    }
    if (status != STATUS_OK) {
        fprintf(errors, "%s\n", message);
        return status == STATUS_NOT_FOUND || status == STATUS_INVALID ? EXIT_USAGE : EXIT_FAILED;
    }
    print_losses(errors, &result);
    print_inventions(errors, config, &result);
    if (json)
        print_json(output, config, &result);
    else
        print_done(output, config, &result);
    return EXIT_OK;
}

int trace_convert_command(int argc, char **argv, FILE *output, FILE *errors)
{
    struct convert_arguments arguments = {0};
    struct object_columns columns;
    struct object_options options;
    struct convert_config config = {.options = &options, .stop = &stop};

    if (!read_arguments(argc, argv, &arguments, errors))
        return EXIT_USAGE;
    if (arguments.help) {
        print_help(output);
        return EXIT_OK;
    }
    if (!object_arguments_take(&arguments.objects, COMMAND, &columns, &options, errors))
        return EXIT_USAGE;
    config.input = arguments.paths[0];
    config.output = arguments.paths[1];
    config.input_format = arguments.objects.format;
    config.output_format = arguments.to;
    config.size_given = arguments.objects.size_bytes != NULL;
    if (!arguments.quiet && isatty(fileno(errors)) == 1)
        config.progress = errors;
    signal(SIGINT, ask_to_stop);
    signal(SIGTERM, ask_to_stop);
    return convert_trace(&config, arguments.json, output, errors);
}
