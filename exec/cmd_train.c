/* berth-exec train: an adapter learned from data, or the trainer held to a recorded run. */
#include "cmd_train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/ranks.h"
#include "worker/settings.h"

#define OPTIONS(X)                                                                                                        \
    X(model, "DIR", "the base, in Hugging Face's layout")                                                                 \
    X(data, "FILE", "examples, a JSON object a line: {\"messages\": [...]} or {\"prompt\": TEXT, \"completion\": TEXT}")   \
    X(out, "DIR", "where the adapter goes, as PEFT saves one, with results.csv and loss.svg; must not be there yet")     \
    X(jobs, "FILE", "several adapters at once: a JSON object a line, {\"data\": FILE, \"out\": DIR} and options of its own; see above") \
    X(method, "KIND", "supervised (default): learn the answers; dpo: learn which of two is preferred, against the base")  \
    X(beta, "B", "of dpo: how far it may go from the base, above 0 and at most 2; smaller is farther (default 0.1)")      \
    X(validation, "FILE", "examples that are not learned: their loss decides which step is kept")                        \
    X(validation_split, "PERCENT", "take about so many of the data's examples for validation, 1 to 50")                   \
    X(rank, "R", "of the adapter, in all linear layers (default 16)")                                                     \
    X(alpha, "A", "its strength is A / R (default: twice the rank)")                                                      \
    X(dropout, "P", "0 is the only one there is")                                                                         \
    X(epochs, "N", "times through the data (default: 3, more for few examples, fewer for many)")                         \
    X(batch_size, "N", "samples a step, or pairs (default: a sixteenth of them, at most 16)")                                    \
    X(learning_rate, "X", "the peak, or auto: fitted to the model's family and width, Llama and Qwen only (default 1e-4; dpo 1e-5)")  \
    X(learning_rate_multiplier, "X", "times the default or the fitted peak; not beside a peak of your own (default 1)")     \
    X(schedule, "KIND", "constant, linear (default) or cosine; a twentieth of the steps warms up")                       \
    X(weight_decay, "W", "of AdamW (default 0)")                                                                          \
    X(clip, "N", "cut the gradient's norm to N; 0: never (default 1)")                                                    \
    X(context, "TOKENS", "of a sample at most, and of a pass (default: the model's, at most 2048)")                      \
    X(seed, "N", "of the first matrices, the orders, the split (default 0)")                                              \
    X(evaluate_every, "STEPS", "between evaluations (default: after each epoch)")                                         \
    X(patience, "N", "stop after N evaluations without a better one; 0: never (default 3)")                              \
    X(checkpoints, "DIR", "where checkpoints lie while it runs (default: the adapter's folder and .checkpoints)")         \
    X(checkpoint_every_s, "S", "seconds between checkpoints; 0: after each step (default 600)")                           \
    X(restart, NULL, "begin anew, though there are checkpoints to go on from")                                            \
    X(recompute, "LEVEL", "none, partial or layer: less memory, more time, the same bits; auto (default): the first that fits") \
    X(dry_run, NULL, "print what it would take of memory, and end; config.json is all that is read")                      \
    X(memory_gib, "G", "plan for so much memory instead of what the machine has")                                         \
    X(tp, "N", "plan for N devices that cut the model among them; only with --dry-run")                                   \
    X(mode, "MODE", "exact (f32, the default of F32 and F16 bases) or fast (bfloat16, the default of BF16 bases)")       \
    X(reference, "CASE", "do a recorded run again and print the differences; exit code 1 when they are above 1e-5")       \
    X(device, "KIND", "cpu, cuda, or auto (default): CUDA where its library loads and a GPU is there, else the CPU")      \
    X(base_socket, "PATH", "borrow the base, on a GPU, from the berth-exec hold that listens there")                    \
    X(kernels, "SET", "a set of CPU kernels that berth-exec devices lists; the best by default")                          \
    X(threads, "N", "CPU threads (default: all)")                                                                         \
    X(json, NULL, "one JSON object a step on stdout")                                                                     \
    X(quiet, NULL, "no progress on stderr")                                                                               \
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

struct line {
    struct options options;
    struct worker_config worker;
    struct train_arguments arguments;
};

static void print_help(void)
{
    puts("usage: berth-exec train --model DIR --data FILE --out DIR [option]...\n"
         "       berth-exec train --model DIR --jobs FILE [option]...\n"
         "       berth-exec train --model DIR --dry-run [option]...\n"
         "       berth-exec train --model DIR --reference CASE [option]...\n\n"
         "The first teaches a LoRA adapter what assistants answer in chats, or what follows prompts, or, with --method dpo, which\n"
         "of two answers is preferred. When it is stopped (Ctrl-C, SIGTERM) or killed, the same command goes on from the last\n"
         "checkpoint, and ends in the same bytes. The second teaches up to 64 adapters over one base in one batch; each is the one\n"
         "that it would be alone. A job's line may have, with underscores, what concerns one adapter: data, out, validation,\n"
         "validation-split, rank, alpha, epochs, batch-size, learning-rate, learning-rate-multiplier, schedule, weight-decay, clip,\n"
         "seed, evaluate-every, patience, beta, checkpoints; the command line has what all share, and what a line leaves out. The\n"
         "third reckons what any of this takes of memory. The last does a recorded training run again, in f32: CASE has\n"
         "reference.json, adapter_init and adapter_final, and batches.json lies beside it.\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 done, 1 it could not be done (stderr says why), 2 wrong usage, 130 stopped.");
}

static int take_whole(const struct line *line, uint32_t option, const char *value, int64_t least, int64_t most, int64_t *ret)
{
    return options_whole(&line->options, option, value, least, most, ret) ? EXIT_OK : EXIT_USAGE;
}

static int take_real(const struct line *line, uint32_t option, const char *value, bool may_be_zero, double *ret)
{
    return options_real(&line->options, option, value, may_be_zero, ret) ? EXIT_OK : EXIT_USAGE;
}

static int wrong(const struct line *line, uint32_t option, const char *value, const char *why)
{
    options_complain(&line->options, option, value, why);
    return EXIT_USAGE;
}

static int take_schedule(struct line *line, uint32_t option, const char *value)
{
    enum schedule_kind kind;

    if (!schedule_kind_find(value, &kind))
        return wrong(line, option, value, "constant, linear or cosine");
    line->arguments.wishes.settings.schedule = (int64_t)kind;
    return EXIT_OK;
}

static int take_dropout(const struct line *line, uint32_t option, const char *value)
{
    double dropout = 1;

    if (take_real(line, option, value, true, &dropout) != EXIT_OK)
        return EXIT_USAGE;
    return dropout == 0 ? EXIT_OK : wrong(line, option, value, "dropout is not done; only 0 is taken");
}

static int take_recompute(struct line *line, uint32_t option, const char *value)
{
    line->arguments.recompute_chosen = recompute_find(value, &line->arguments.trainer.recompute);
    return line->arguments.recompute_chosen || strcmp(value, "auto") == 0 ? EXIT_OK : wrong(line, option, value, "auto, none, partial or layer");
}

static int take_method(struct line *line, uint32_t option, const char *value)
{
    enum run_method method;

    if (!run_method_find(value, &method))
        return wrong(line, option, value, "supervised or dpo");
    line->arguments.wishes.settings.method = (int64_t)method;
    return EXIT_OK;
}

static int take_beta(struct line *line, uint32_t option, const char *value)
{
    double *beta = &line->arguments.wishes.settings.beta;

    line->arguments.wishes.beta_chosen = true;
    if (take_real(line, option, value, false, beta) != EXIT_OK)
        return EXIT_USAGE;
    return *beta <= 2 ? EXIT_OK : wrong(line, option, value, "at most 2");
}

static int take_rate(struct line *line, uint32_t option, const char *value)
{
    line->arguments.wishes.rate_auto = strcmp(value, "auto") == 0;
    line->arguments.wishes.rate = 0;
    if (line->arguments.wishes.rate_auto || take_real(line, option, value, false, &line->arguments.wishes.rate) == EXIT_OK)
        return EXIT_OK;
    return EXIT_USAGE;
}

static int take_text(const char **ret, const char *value)
{
    *ret = value;
    return EXIT_OK;
}

static int take_flag(bool *ret)
{
    *ret = true;
    return EXIT_OK;
}

static int take(struct line *line, uint32_t option, const char *value)
{
    struct train_arguments *arguments = &line->arguments;
    struct run_settings *settings = &arguments->wishes.settings;

    switch (option) {
    case OPTION_model: return take_text(&arguments->model, value);
    case OPTION_data: return take_text(&arguments->data, value);
    case OPTION_out: return take_text(&arguments->out, value);
    case OPTION_jobs: return take_text(&arguments->jobs, value);
    case OPTION_validation: return take_text(&arguments->validation, value);
    case OPTION_reference: return take_text(&arguments->reference, value);
    case OPTION_base_socket: return take_text(&arguments->base_socket, value);
    case OPTION_checkpoints: return take_text(&arguments->checkpoints, value);
    case OPTION_json: return take_flag(&arguments->json);
    case OPTION_quiet: return take_flag(&arguments->quiet);
    case OPTION_restart: return take_flag(&arguments->restart);
    case OPTION_validation_split: return take_whole(line, option, value, 1, 50, &arguments->validation_percent);
    case OPTION_rank: return take_whole(line, option, value, 1, LORA_RANK_MAX, &settings->rank);
    case OPTION_epochs: return take_whole(line, option, value, 1, 1000, &settings->epochs);
    case OPTION_batch_size: return take_whole(line, option, value, 1, 65536, &settings->batch);
    case OPTION_context: return take_whole(line, option, value, 2, 1 << 20, &settings->row_tokens);
    case OPTION_seed: return take_whole(line, option, value, 0, INT64_MAX, &settings->seed);
    case OPTION_evaluate_every: return take_whole(line, option, value, 1, INT32_MAX, &settings->evaluate_every);
    case OPTION_patience: return take_whole(line, option, value, 0, INT32_MAX, &settings->patience);
    case OPTION_checkpoint_every_s: return take_whole(line, option, value, 0, 1 << 30, &arguments->checkpoint_every_s);
    case OPTION_alpha: return take_real(line, option, value, false, &settings->alpha);
    case OPTION_learning_rate: return take_rate(line, option, value);
    case OPTION_learning_rate_multiplier: return take_real(line, option, value, false, &arguments->wishes.rate_multiplier);
    case OPTION_weight_decay: return take_real(line, option, value, true, &settings->decay);
    case OPTION_clip: return take_real(line, option, value, true, &settings->clip);
    case OPTION_method: return take_method(line, option, value);
    case OPTION_beta: return take_beta(line, option, value);
    case OPTION_dropout: return take_dropout(line, option, value);
    case OPTION_schedule: return take_schedule(line, option, value);
    case OPTION_recompute: return take_recompute(line, option, value);
    case OPTION_dry_run: return take_flag(&arguments->dry_run);
    case OPTION_tp: return take_whole(line, option, value, 1, RANKS_MAX, &arguments->tp);
    case OPTION_memory_gib: return take_real(line, option, value, false, &arguments->memory_gib);
    default:
        return worker_option(&line->worker, &line->options, option, value) == STATUS_OK ? EXIT_OK : EXIT_USAGE;
    }
}

static int check_job(const struct line *line)
{
    const struct train_arguments *arguments = &line->arguments;

    if (arguments->validation != NULL && arguments->validation_percent > 0) {
        fprintf(stderr, "%s: --validation or --validation-split, not both\n", line->options.command);
        return EXIT_USAGE;
    }
    if (arguments->wishes.settings.method != RUN_DPO && arguments->wishes.beta_chosen) {
        fprintf(stderr, "%s: --beta belongs to --method dpo\n", line->options.command);
        return EXIT_USAGE;
    }
    if (arguments->wishes.settings.method == RUN_DPO && arguments->wishes.rate_auto) {
        fprintf(stderr, "%s: --learning-rate auto is fitted to supervised learning; leave it out for %g, or give one\n", line->options.command,
                RUN_RATE_DPO);
        return EXIT_USAGE;
    }
    if (arguments->wishes.rate > 0 && arguments->wishes.rate_multiplier != 1) {
        fprintf(stderr, "%s: --learning-rate is the peak itself: --learning-rate-multiplier is for the default and for auto\n", line->options.command);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

/* What all jobs share. */
static int check_all(const struct line *line)
{
    const struct train_arguments *arguments = &line->arguments;
    const bool learns = (arguments->data != NULL && arguments->out != NULL) || arguments->jobs != NULL;

    if (arguments->tp > 1 && !arguments->dry_run) {
        fprintf(stderr, "%s: --tp plans only, with --dry-run: one device trains here\n", line->options.command);
        return EXIT_USAGE;
    }
    if (arguments->base_socket != NULL && (arguments->dry_run || arguments->reference != NULL)) {
        fprintf(stderr, "%s: --base-socket is for training from data\n", line->options.command);
        return EXIT_USAGE;
    }
    if (arguments->jobs != NULL && (arguments->out != NULL || arguments->checkpoints != NULL)) {
        fprintf(stderr, "%s: with --jobs each job names its own out and checkpoints\n", line->options.command);
        return EXIT_USAGE;
    }
    if (arguments->model != NULL && (arguments->dry_run ? arguments->reference == NULL : learns != (arguments->reference != NULL)))
        return arguments->jobs != NULL ? EXIT_OK : check_job(line);
    fprintf(stderr, "%s: --model, and --data with --out, or --jobs, or --dry-run, or --reference; --help says more\n", line->options.command);
    return EXIT_USAGE;
}

/* EXIT_OK to go on; EXIT_STOPPED: help was asked for. */
static int parse(struct line *line)
{
    const char *value;
    int option;

    while ((option = options_next(&line->options, &value)) != OPTION_END) {
        if (option == OPTION_WRONG)
            return EXIT_USAGE;
        if (option == OPTION_help)
            return EXIT_STOPPED;
        if (option == OPTION_OPERAND) {
            fprintf(stderr, "%s: %s: give the base with --model\n", line->options.command, value);
            return EXIT_USAGE;
        }
        if (take(line, (uint32_t)option, value) != EXIT_OK)
            return EXIT_USAGE;
    }
    return check_all(line);
}

static void line_init(struct line *line, int argc, char **argv)
{
    memset(line, 0, sizeof(*line));
    line->options = (struct options){.command = "berth-exec train", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                                     .argc = argc, .argv = argv, .at = 1};
    worker_config_init(&line->worker);
    line->worker.threads = worker_threads_here();
    line->arguments.checkpoint_every_s = 600;
    line->arguments.tp = 1;
    line->arguments.wishes = RUN_WISHES_DEFAULT;
}

/* --- the jobs --------------------------------------------------------------------------------------------------------------- */

/* Whether a job may have it for itself. */
static bool is_of_job(uint32_t option)
{
    static const bool of_job[ARRAY_COUNT(table)] = {
        [OPTION_data] = true,       [OPTION_out] = true,           [OPTION_validation] = true,    [OPTION_validation_split] = true,
        [OPTION_rank] = true,       [OPTION_alpha] = true,         [OPTION_epochs] = true,        [OPTION_batch_size] = true,
        [OPTION_learning_rate] = true, [OPTION_learning_rate_multiplier] = true, [OPTION_schedule] = true, [OPTION_weight_decay] = true,
        [OPTION_clip] = true,       [OPTION_seed] = true,          [OPTION_evaluate_every] = true, [OPTION_patience] = true,
        [OPTION_beta] = true,       [OPTION_checkpoints] = true,   [OPTION_checkpoint_every_s] = true, [OPTION_dropout] = true,
    };

    return of_job[option];
}

static int take_field(struct line *line, const char *name, const json_t *value)
{
    char buffer[64];
    const char *text = train_job_value(value, buffer, sizeof(buffer));

    for (uint32_t option = 0; option < ARRAY_COUNT(table); option++) {
        if (strcmp(table[option].name, name) != 0 || !is_of_job(option))
            continue;
        return text != NULL ? take(line, option, text) : wrong(line, option, NULL, "must be a text or a number");
    }
    fprintf(stderr, "%s: a job has no field %.64s; berth-exec train --help lists them\n", line->options.command, name);
    return EXIT_USAGE;
}

/* The command line with the job's fields in place of its own. */
static int take_job(const struct line *all, const struct train_jobs *jobs, int32_t index, struct train_arguments *ret_arguments)
{
    struct line line = *all;
    char command[4200];
    const char *name;
    json_t *value;

    snprintf(command, sizeof(command), "%.4100s:%d", all->arguments.jobs, jobs->line[index]);
    line.options.command = command;
    json_object_foreach(jobs->object[index], name, value)
        if (take_field(&line, name, value) != EXIT_OK)
            return EXIT_FAILED;
    if (check_job(&line) != EXIT_OK)
        return EXIT_FAILED;
    if (line.arguments.data == NULL || line.arguments.out == NULL) {
        fprintf(stderr, "%s: a job wants data and out\n", command);
        return EXIT_FAILED;
    }
    *ret_arguments = line.arguments;
    return EXIT_OK;
}

static int run_all(const struct train_arguments *arguments, const struct train_arguments *jobs, int32_t count)
{
    if (arguments->dry_run)
        return train_plan(arguments, jobs, count);
    return train_data(arguments, jobs, count);
}

static int run_jobs(const struct line *line)
{
    static struct train_arguments arguments[RUNS_MAX];
    struct train_jobs jobs;
    struct refusal refusal = {{0}};
    int code = EXIT_OK;

    if (train_jobs_open(line->arguments.jobs, &jobs, &refusal) != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", line->options.command, refusal.text);
        code = EXIT_FAILED;
    }
    for (int32_t i = 0; i < jobs.count && code == EXIT_OK; i++) {
        code = take_job(line, &jobs, i, &arguments[i]);
        for (int32_t j = 0; j < i && code == EXIT_OK; j++) {
            if (strcmp(arguments[i].out, arguments[j].out) != 0)
                continue;
            fprintf(stderr, "%s:%d: %s is where the job of line %d goes\n", line->arguments.jobs, jobs.line[i], arguments[i].out, jobs.line[j]);
            code = EXIT_FAILED;
        }
    }
    if (code == EXIT_OK)
        code = run_all(&line->arguments, arguments, jobs.count);
    train_jobs_close(&jobs);
    return code;
}

int cmd_train(int argc, char **argv)
{
    struct line line;
    struct train_arguments *arguments = &line.arguments;
    int code;

    line_init(&line, argc, argv);
    code = parse(&line);
    if (code == EXIT_STOPPED) {
        print_help();
        return EXIT_OK;
    }
    if (code != EXIT_OK)
        return code;
    worker_choose_device(&line.worker);
    arguments->trainer.device = line.worker.device;
    arguments->trainer.threads = line.worker.threads;
    arguments->trainer.kernels = line.worker.kernels;
    arguments->wishes.mode_chosen = line.worker.mode_chosen;
    arguments->wishes.settings.mode = (int64_t)line.worker.mode;
    if (arguments->reference != NULL)
        return train_reference(arguments);
    return arguments->jobs != NULL ? run_jobs(&line) : run_all(arguments, arguments, 1);
}
