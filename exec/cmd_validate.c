/* berth-exec validate: what is wrong with a file of examples, before anything is trained on it. */
#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd.h"
#include "engine/files/file.h"
#include "engine/train/run/choose.h"
#include "host/options.h"
#include "host/words.h"
#include "validate/validate.h"

#define PIECE_BYTES (256 << 10)

#define OPTIONS(X)                                                                                                                \
    X(method, "KIND", "supervised (default) or dpo: what the file is for")                                                        \
    X(validation, "FILE", "examples that are not learned: looked at too, and for what both files hold")                           \
    X(model, "DIR", "the base: its template, tokenizer and context; config.json and tokenizer.json are all that is read")         \
    X(context, "TOKENS", "of an example at most (default: as berth-exec train, the model's and at most 2048)")                    \
    X(epochs, "N", "for the dry run (default: as berth-exec train: 3, more for few examples, fewer for many)")                    \
    X(batch_size, "N", "for the dry run (default: as berth-exec train: a sixteenth of the samples, at most 16)")                  \
    X(price, "X", "of a million tokens read in training, in any currency: the dry run says what it costs")                        \
    X(tokens_per_s, "X", "that training reads: the dry run says how long it takes")                                               \
    X(examples_min, "N", "fewer are refused (default 10)")                                                                        \
    X(line_bytes, "N", "longer lines are refused (default 1048576, at most 16777216)")                                            \
    X(json, NULL, "one JSON object on stdout")                                                                                    \
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

struct arguments {
    struct options options;
    const char *file;
    const char *validation;
    const char *model;
    bool preferences;
    bool json;
    int64_t context;
    int64_t epochs;
    int64_t batch;
    int64_t examples_min;
    int64_t line_bytes;
    double price;        /* 0: not known */
    double tokens_per_s;
    FILE *output;
};

static void print_help(FILE *out)
{
    fputs("usage: berth-exec validate FILE [option]...\n\n"
          "Reads a file of examples once and says all that is wrong with it: encoding, JSON, shape, roles and turns, weights, tool calls,\n"
          "preferences, duplicates, answers that contradict each other, and what the validation file holds too. With --model also what\n"
          "each example comes to in tokens, what the context cuts off, and what training would be: steps, tokens and, where --price and\n"
          "--tokens-per-s say the rates, price and time. What is accepted here, berth-exec train takes.\n\n"
          "  berth-exec validate train.jsonl\n"
          "  berth-exec validate pairs.jsonl --method dpo --json\n"
          "  berth-exec validate train.jsonl --validation held-out.jsonl --model MODEL --price 3 --tokens-per-s 9000\n\n"
          "FILE may be - for standard input. A line is FILE:LINE:COLUMN: with columns in bytes from 1. Errors reject the file, warnings\n"
          "do not. Of one code 100 issues are shown, and the rest is counted.\n\n"
          "--json: {\"accept\": BOOL, \"method\", \"issues\": [{\"file\": \"training\" or \"validation\", \"line\", \"column\", \"severity\":\n"
          "\"error\" or \"warning\", \"code\", \"message\", \"hint\", \"path\"}], \"counts\": {CODE: {\"severity\", \"count\", \"shown\"}},\n"
          "\"statistics\": {...}} and, with a validation file, \"validation_counts\" and \"validation_statistics\"; with a model, \"dry_run\".\n"
          "Line and column are null where an issue is of the whole file or line. Codes are listed below; each issue brings its hint.\n\n",
          out);
    options_print(out, table, ARRAY_COUNT(table));
    fputs("\nCodes that reject (E) and that warn (W):\n", out);
    for (enum validate_code code = 0; code < VALIDATE_CODE_COUNT; code++)
        fprintf(out, "  %c  %s\n", validate_code_rejects(code) ? 'E' : 'W', validate_code_name(code));
    fputs("\nExit codes: 0 the file is accepted, 1 it is rejected or cannot be read, 2 wrong usage.\n", out);
}

/* --- the command line ------------------------------------------------------------------------------------------------------- */

static int take_whole(const struct arguments *arguments, uint32_t option, const char *value, int64_t least, int64_t most, int64_t *ret)
{
    return options_whole(&arguments->options, option, value, least, most, ret) ? EXIT_OK : EXIT_USAGE;
}

static int take_real(const struct arguments *arguments, uint32_t option, const char *value, double *ret)
{
    return options_real(&arguments->options, option, value, false, ret) ? EXIT_OK : EXIT_USAGE;
}

static int take_method(struct arguments *arguments, uint32_t option, const char *value)
{
    enum run_method method;

    if (!run_method_find(value, &method)) {
        options_complain(&arguments->options, option, value, "supervised or dpo");
        return EXIT_USAGE;
    }
    arguments->preferences = method == RUN_DPO;
    return EXIT_OK;
}

static int take(struct arguments *arguments, uint32_t option, const char *value)
{
    switch (option) {
    case OPTION_method: return take_method(arguments, option, value);
    case OPTION_validation: arguments->validation = value; return EXIT_OK;
    case OPTION_model: arguments->model = value; return EXIT_OK;
    case OPTION_json: arguments->json = true; return EXIT_OK;
    case OPTION_context: return take_whole(arguments, option, value, 2, 1 << 20, &arguments->context);
    case OPTION_epochs: return take_whole(arguments, option, value, 1, 1000, &arguments->epochs);
    case OPTION_batch_size: return take_whole(arguments, option, value, 1, 65536, &arguments->batch);
    case OPTION_examples_min: return take_whole(arguments, option, value, 1, DATA_SAMPLES_MAX, &arguments->examples_min);
    case OPTION_line_bytes: return take_whole(arguments, option, value, 1, VALIDATE_LINE_BYTES_MAX, &arguments->line_bytes);
    case OPTION_price: return take_real(arguments, option, value, &arguments->price);
    default: return take_real(arguments, option, value, &arguments->tokens_per_s);
    }
}

static const char *contradiction(const struct arguments *arguments)
{
    const bool plans = arguments->context > 0 || arguments->epochs > 0 || arguments->batch > 0 || arguments->price > 0 || arguments->tokens_per_s > 0;

    if (arguments->file == NULL)
        return "needs a file: berth-exec validate FILE; --help says more";
    if (plans && arguments->model == NULL)
        return "--context, --epochs, --batch-size, --price and --tokens-per-s go with --model";
    return NULL;
}

/* EXIT_OK to go on; EXIT_STOPPED: help was asked for. */
static int parse(struct arguments *arguments)
{
    const char *value;
    int option;

    while ((option = options_next(&arguments->options, &value)) != OPTION_END) {
        if (option == OPTION_WRONG)
            return EXIT_USAGE;
        if (option == OPTION_help)
            return EXIT_STOPPED;
        if (option == OPTION_OPERAND && arguments->file != NULL) {
            fprintf(arguments->options.errors, "%s: takes one file, not '%s' too\n", arguments->options.command, value);
            return EXIT_USAGE;
        }
        if (option == OPTION_OPERAND)
            arguments->file = value;
        else if (take(arguments, (uint32_t)option, value) != EXIT_OK)
            return EXIT_USAGE;
    }
    value = contradiction(arguments);
    if (value == NULL)
        return EXIT_OK;
    fprintf(arguments->options.errors, "%s: %s\n", arguments->options.command, value);
    return EXIT_USAGE;
}

/* --- files ------------------------------------------------------------------------------------------------------------------ */

/* The bytes of a file, a piece at a time. */
static enum status read_stream(int file, const char *shown, struct validator *validator, struct refusal *refusal)
{
    char *piece = malloc(PIECE_BYTES);
    ssize_t count;
    enum status status = STATUS_OK;

    check(piece != NULL);
    for (;;) {
        count = read(file, piece, PIECE_BYTES);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            status = refuse(refusal, STATUS_IO, "%s: %s", shown, strerror(errno));
        if (count <= 0 || !validator_put(validator, piece, (size_t)count))
            break;
    }
    free(piece);
    return status;
}

static enum status read_file(const char *path, struct validator *validator, struct refusal *refusal)
{
    int64_t bytes;
    int file = STDIN_FILENO;
    enum status status = STATUS_OK;

    if (strcmp(path, "-") != 0)
        status = file_open(AT_FDCWD, path, path, &file, &bytes, refusal);
    if (status != STATUS_OK)
        return status;
    status = read_stream(file, path, validator, refusal);
    if (file != STDIN_FILENO)
        close(file);
    if (status == STATUS_OK)
        validator_end(validator);
    return status;
}

/* --- the model -------------------------------------------------------------------------------------------------------------- */

/* As training opens it, but for its weights. */
static enum status source_open(const struct arguments *arguments, struct tokenizer **ret_tokenizer, struct data_source *ret_source,
                               struct refusal *refusal)
{
    struct run_wishes wishes = RUN_WISHES_DEFAULT;
    struct run_settings settings;
    struct model_config model;
    enum status status = model_config_read(arguments->model, &model, refusal);

    wishes.settings.row_tokens = arguments->context;
    if (status == STATUS_OK)
        status = run_choose(&wishes, &model, model.dtype, &settings, refusal);
    if (status == STATUS_OK)
        status = run_tokenizer(arguments->model, ret_tokenizer, refusal);
    if (status == STATUS_OK)
        status = run_source(arguments->model, *ret_tokenizer, &model, &settings, ret_source, refusal);
    if (status == STATUS_OK)
        ret_source->preferences = arguments->preferences;
    return status;
}

/* --- what it says ----------------------------------------------------------------------------------------------------------- */

static void print_json(const struct arguments *arguments, const struct validator *training, const struct validator *validation,
                       const struct data_source *source)
{
    const struct validate_report report = {.training = training, .validation = validation, .preferences = arguments->preferences,
                                           .context = source != NULL ? source->tokens_max : 0, .epochs = arguments->epochs,
                                           .batch = arguments->batch, .price = arguments->price, .tokens_per_s = arguments->tokens_per_s};
    json_t *all = validate_report_json(&report);

    json_dumpf(all, arguments->output, VALIDATE_REPORT_FORM);
    fputc('\n', arguments->output);
    json_decref(all);
}

static void print_dry_run(const struct arguments *arguments, const struct validate_dry_run *plan, int32_t context)
{
    char text[2][NUMBER_TEXT_MAX];

    fprintf(arguments->output, "dry run: %lld epochs of %lld steps, %lld %s a step, context %d: %s tokens, %s of them learned\n", (long long)plan->epochs,
            (long long)(plan->steps / plan->epochs), (long long)plan->batch, arguments->preferences ? "pairs" : "samples", context,
            count_text((uint64_t)plan->tokens, text[0]), count_text((uint64_t)plan->trained_tokens, text[1]));
    if (arguments->price > 0)
        fprintf(arguments->output, "dry run: %.2f at %g a million tokens\n", arguments->price * (double)plan->tokens / 1e6, arguments->price);
    if (arguments->tokens_per_s > 0)
        fprintf(arguments->output, "dry run: %.0f s at %g tokens/s, without validation, checkpoints and waiting\n",
                (double)plan->tokens / arguments->tokens_per_s, arguments->tokens_per_s);
}

static void print_text(const struct arguments *arguments, const struct validator *training, const struct validator *validation,
                       const struct data_source *source)
{
    const bool accept = validator_accepts(training) && (validation == NULL || validator_accepts(validation));
    struct validate_dry_run plan;

    validate_print(training, arguments->file, arguments->output);
    if (validation != NULL)
        validate_print(validation, arguments->validation, arguments->output);
    if (source != NULL && validate_plan(training, arguments->epochs, arguments->batch, &plan))
        print_dry_run(arguments, &plan, source->tokens_max);
    fprintf(arguments->output, "%s: %s\n", arguments->file, accept ? "accepted" : "rejected");
}

/* --- the verb --------------------------------------------------------------------------------------------------------------- */

static int run(const struct arguments *arguments)
{
    struct refusal refusal = {{0}};
    struct tokenizer *tokenizer = NULL;
    struct data_source source;
    const struct data_source *const wanted = arguments->model != NULL ? &source : NULL;
    struct validate_config config = {.preferences = arguments->preferences, .examples_min = 1, .line_bytes_max = arguments->line_bytes, .source = wanted};
    struct validator *training = NULL;
    struct validator *validation = NULL;
    enum status status = wanted != NULL ? source_open(arguments, &tokenizer, &source, &refusal) : STATUS_OK;
    int code = EXIT_FAILED;

    if (status == STATUS_OK && arguments->validation != NULL) {
        validation = validator_open(&config, NULL);
        status = read_file(arguments->validation, validation, &refusal);
    }
    if (status == STATUS_OK) {
        config.examples_min = arguments->examples_min;
        training = validator_open(&config, validation);
        status = read_file(arguments->file, training, &refusal);
    }
    if (status == STATUS_OK) {
        (arguments->json ? print_json : print_text)(arguments, training, validation, wanted);
        code = validator_accepts(training) && (validation == NULL || validator_accepts(validation)) ? EXIT_OK : EXIT_FAILED;
    } else {
        fprintf(arguments->options.errors, "%s: %s\n", arguments->options.command, refusal.text);
    }
    validator_close(training);
    validator_close(validation);
    tokenizer_close(tokenizer);
    return code;
}

static int validate_command(int argc, char **argv, FILE *output, FILE *errors)
{
    struct arguments arguments = {.examples_min = VALIDATE_EXAMPLES_MIN, .line_bytes = VALIDATE_LINE_BYTES, .output = output};
    int code;

    arguments.options = (struct options){.command = "berth-exec validate", .table = table, .count = ARRAY_COUNT(table), .errors = errors,
                                         .argc = argc, .argv = argv, .at = 1};
    code = parse(&arguments);
    if (code == EXIT_STOPPED) {
        print_help(output);
        return EXIT_OK;
    }
    return code == EXIT_OK ? run(&arguments) : code;
}

int cmd_validate(int argc, char **argv)
{
    return validate_command(argc, argv, stdout, stderr);
}
