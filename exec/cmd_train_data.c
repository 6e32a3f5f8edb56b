/* berth-exec train --data and --jobs: adapters learned from files of examples. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cmd_train.h"
#include "engine/files/file.h"

/* What all jobs share. */
struct session {
    const struct train_arguments *arguments;
    struct model *model;
    struct tokenizer *tokenizer;
    struct train_choice choice;
};

/* One job. */
struct training {
    const struct session *session;
    const struct train_arguments *arguments;
    struct data_set *data;
    struct data_set *validation;
    struct run_config run;
    char checkpoints[4096];
    char name[4200];        /* before each line on stderr: "berth-exec train: " or, among several, its out */
    char *json_job;         /* "\"job\":\"OUT\"," among several; owned */
};

static volatile sig_atomic_t train_stop;

static void ask_to_stop(int signal)
{
    (void)signal;
    train_stop = 1;
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* --- what it says ----------------------------------------------------------------------------------------------------------- */

static void say(void *listener, const char *text)
{
    const struct training *training = listener;

    fprintf(stderr, "%s%s\n", training->name, text);
}

/* A line of stdout begins. */
static void begin_json(const struct training *training)
{
    printf("{%s", training->json_job != NULL ? training->json_job : "");
}

static void print_json(const struct training *training, const struct run_step *step)
{
    begin_json(training);
    printf("\"step\":%lld,\"steps\":%lld,\"epoch\":%d,\"train_loss\":%.9g,\"train_accuracy\":%.9g,\"grad_norm\":%.9g,"
           "\"learning_rate\":%.9g,\"tokens\":%lld,\"step_ms\":%.3f",
           (long long)step->step, (long long)step->steps, step->epoch, step->loss, step->accuracy, step->norm, step->rate,
           (long long)step->tokens, (double)step->step_ns / 1e6);
    if (!isnan(step->reward_margin))
        printf(",\"reward_margin\":%.9g", step->reward_margin);
    if (!isnan(step->valid_loss))
        printf(",\"valid_loss\":%.9g,\"valid_mean_token_accuracy\":%.9g", step->valid_loss, step->valid_accuracy);
    printf("}\n");
    fflush(stdout);
}

/* Before a line of progress: nothing when there is one job. */
static const char *among(const struct training *training)
{
    return training->json_job != NULL ? training->name : "";
}

static void show_saved(void *listener, const struct run_saved *saved)
{
    const struct training *training = listener;

    if (training->arguments->json) {
        begin_json(training);
        printf("\"checkpoint\":%lld,\"bytes\":%lld,\"ms\":%.3f}\n", (long long)saved->step, (long long)saved->bytes, (double)saved->took_ns / 1e6);
        fflush(stdout);
    }
    if (!training->arguments->quiet)
        fprintf(stderr, "%scheckpoint after step %lld: %.2f MB in %.0f ms\n", among(training), (long long)saved->step, (double)saved->bytes / 1e6,
                (double)saved->took_ns / 1e6);
}

static void show_step(void *listener, const struct run_step *step)
{
    const struct training *training = listener;
    const int64_t left_s = step->left_ns / 1000000000;
    const char *share = training->run.settings.method == RUN_DPO ? "of pairs won" : "right";
    char validation[64] = "";

    if (training->arguments->json)
        print_json(training, step);
    if (training->arguments->quiet)
        return;
    if (!isnan(step->valid_loss))
        snprintf(validation, sizeof(validation), "  validation %.4f, %.1f%% %s", step->valid_loss, 100 * step->valid_accuracy, share);
    fprintf(stderr, "%sstep %lld/%lld  epoch %d  loss %.4f, %.1f%% %s%s  %.0f tokens/s  %lld:%02lld:%02lld left\n", among(training), (long long)step->step,
            (long long)step->steps, step->epoch, step->loss, 100 * step->accuracy, share, validation,
            (double)step->tokens / ((double)(step->step_ns + 1) / 1e9), (long long)(left_s / 3600), (long long)(left_s / 60 % 60),
            (long long)(left_s % 60));
}

static void print_end(const struct training *training, const struct run_outcome *outcome)
{
    const char *out = training->arguments->out;

    if (training->arguments->json) {
        json_t *end = json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:b}", "adapter", out, "recompute",
                                recompute_name(outcome->recompute), "steps", (json_int_t)outcome->steps, "best_step",
                                (json_int_t)outcome->best_step, "train_loss", outcome->loss, "train_accuracy", outcome->accuracy,
                                "stopped_early", (int)outcome->stopped_early);

        if (!isnan(outcome->valid_loss))
            json_object_update_new(end, json_pack("{s:f, s:f}", "valid_loss", outcome->valid_loss, "valid_mean_token_accuracy",
                                                  outcome->valid_accuracy));
        if (training->json_job != NULL)
            json_object_set_new(end, "job", json_string(out));
        json_dumpf(end, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
        putchar('\n');
        fflush(stdout);
        json_decref(end);
    }
    if (training->arguments->quiet)
        return;
    if (outcome->stopped_early)
        fprintf(stderr, "stopped early: no better validation loss in %lld evaluations\n", (long long)training->run.settings.patience);
    if (!isnan(outcome->valid_loss))
        fprintf(stderr, "%s: the adapter after step %lld of %lld, with the best validation loss, %.4f\n", out, (long long)outcome->best_step,
                (long long)outcome->steps, outcome->valid_loss);
    else
        fprintf(stderr, "%s: the adapter after step %lld\n", out, (long long)outcome->steps);
}

/* What was chosen, before the first step. */
static void print_begin(const struct training *training)
{
    const struct train_arguments *arguments = training->arguments;
    const struct run_settings *settings = &training->run.settings;
    const struct data_set *data = training->data;
    json_t *begin = json_pack("{s:{s:s, s:f, s:s, s:s, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:s, s:s}}", "begin",
                              "method", run_method_name((enum run_method)settings->method), "learning_rate", settings->rate,
                              "learning_rate_from", arguments->rate_auto ? "auto" : arguments->rate > 0 ? "given" : "default",
                              "schedule", schedule_kind_name((enum schedule_kind)settings->schedule),
                              "epochs", (json_int_t)settings->epochs, "batch_size", (json_int_t)settings->batch,
                              "rank", (json_int_t)settings->rank, "alpha", settings->alpha, "seed", (json_int_t)settings->seed,
                              "tokens", (json_int_t)data->tokens_count, "learned_tokens", (json_int_t)data->targets_count,
                              "mode", settings->mode == MODE_FAST ? "fast" : "exact", "recompute",
                              recompute_name(training->session->choice.recompute));

    if (settings->method == RUN_DPO)
        json_object_set_new(json_object_get(begin, "begin"), "beta", json_real(settings->beta));
    if (training->json_job != NULL)
        json_object_set_new(begin, "job", json_string(arguments->out));
    json_dumpf(begin, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    fflush(stdout);
    json_decref(begin);
}

static void show_memory(const struct session *session)
{
    const struct train_choice *choice = &session->choice;
    const double gib = (double)(INT64_C(1) << 30);
    const double wanted = (double)train_bytes(session->arguments, choice, choice->recompute) / gib;

    if (!choice->fits)
        fprintf(stderr, "berth-exec train: about %.3g GiB are wanted, the base among them, and there are %.3g; a shorter --context or a lower "
                        "--rank takes less\n", wanted, (double)choice->memory_bytes / gib);
    if (!session->arguments->quiet)
        fprintf(stderr, "recompute %s: about %.3g GiB, %.3g of them the base's\n", recompute_name(choice->recompute), wanted,
                (double)choice->plan.weights_bytes / gib);
}

/* Samples, or pairs of them. */
static int32_t units_of(const struct training *training)
{
    return training->data->count / (training->run.settings.method == RUN_DPO ? 2 : 1);
}

static void show_data(const struct training *training)
{
    const struct data_set *data = training->data;
    const struct run_settings *settings = &training->run.settings;

    if (data->cut > 0)
        fprintf(stderr, "%s%d of %d samples are longer than %lld tokens; their ends, and that they end, are not learned\n", training->name,
                data->cut, data->count, (long long)settings->row_tokens);
    if (training->arguments->quiet)
        return;
    fprintf(stderr, "%s%d examples, %lld tokens, %lld of them learned", among(training), data->examples, (long long)data->tokens_count,
            (long long)data->targets_count);
    if (training->validation != NULL)
        fprintf(stderr, "; %d for validation", training->validation->examples);
    fprintf(stderr, "\n%s%lld epochs of %lld steps, %lld %s a step; rank %lld, alpha %g, learning rate %.3g%s\n", among(training), (long long)settings->epochs,
            (long long)((units_of(training) + settings->batch - 1) / settings->batch), (long long)settings->batch,
            settings->method == RUN_DPO ? "pairs" : "samples", (long long)settings->rank,
            settings->alpha, settings->rate, training->arguments->rate_auto ? ", fitted to the model" : "");
}

/* --- opening ---------------------------------------------------------------------------------------------------------------- */

static enum status source_of(const struct training *training, struct data_source *ret_source, struct refusal *refusal)
{
    const struct model_config *config = &training->session->model->config;
    int32_t eos = tokenizer_special(training->session->tokenizer, TOKENIZER_EOS);

    if (eos == TOKENIZER_NO_ID && config->eos_count > 0)
        eos = config->eos[0];
    if (eos == TOKENIZER_NO_ID)
        return refuse(refusal, STATUS_INVALID, "%s: names no token that ends a text: put eos_token into tokenizer_config.json",
                      training->arguments->model);
    *ret_source = (struct data_source){.tokenizer = training->session->tokenizer, .eos = eos, .vocabulary = config->dims.vocabulary,
                                       .tokens_max = (int32_t)training->run.settings.row_tokens,
                                       .preferences = training->run.settings.method == RUN_DPO};
    return STATUS_OK;
}

static enum status open_data(struct training *training, struct refusal *refusal)
{
    const struct train_arguments *arguments = training->arguments;
    struct data_source source;
    enum status status = source_of(training, &source, refusal);

    if (status == STATUS_OK)
        status = data_open(arguments->data, &source, &training->data, refusal);
    if (status == STATUS_OK && arguments->validation != NULL)
        status = data_open(arguments->validation, &source, &training->validation, refusal);
    if (status == STATUS_OK && arguments->validation_percent > 0)
        status = data_split(training->data, (int32_t)arguments->validation_percent, (uint64_t)arguments->settings.seed, &training->validation,
                            refusal);
    return status;
}

static void set_up(struct training *training)
{
    const struct train_arguments *arguments = training->arguments;
    struct run_config *run = &training->run;

    if (run->settings.epochs == 0)
        run->settings.epochs = data_epochs(training->data->examples);
    if (run->settings.batch == 0)
        run->settings.batch = data_batch(units_of(training));
    snprintf(training->checkpoints, sizeof(training->checkpoints), "%.4000s.checkpoints", arguments->out);
    run->model = training->session->model;
    run->data = training->data;
    run->validation = training->validation;
    run->trainer = arguments->trainer;
    run->trainer.recompute = training->session->choice.recompute;
    run->recompute_rises = !arguments->recompute_chosen;
    run->base = arguments->model;
    run->out = arguments->out;
    run->checkpoints = arguments->checkpoints != NULL ? arguments->checkpoints : training->checkpoints;
    run->checkpoint_every_ns = arguments->checkpoint_every_s * INT64_C(1000000000);
    run->restart = arguments->restart;
    run->stop = &train_stop;
    run->now_ns = now_ns;
    run->listener = training;
    run->stepped = show_step;
    run->saved = show_saved;
    run->said = say;
}

/* False: it has been said why. */
static bool training_open(struct training *training, const struct session *session, const struct train_arguments *arguments, bool among_others)
{
    const struct model *model = session->model;
    struct refusal refusal = {{0}};
    enum status status;
    char *name;

    *training = (struct training){.session = session, .arguments = arguments};
    snprintf(training->name, sizeof(training->name), "%.4100s: ", among_others ? arguments->out : "berth-exec train");
    if (among_others) {
        json_t *text = json_string(arguments->out);
        const size_t most = 6 * strlen(arguments->out) + 16;

        name = json_dumps(text, JSON_ENCODE_ANY);
        training->json_job = malloc(most);
        check(training->json_job != NULL);
        snprintf(training->json_job, most, "\"job\":%s,", name != NULL ? name : "null"); /* a name that is no UTF-8 */
        free(name);
        json_decref(text);
    }
    status = train_settings(arguments, &model->config, model->dtype, &training->run.settings, &refusal);
    if (status == STATUS_OK)
        status = open_data(training, &refusal);
    if (status != STATUS_OK) {
        say(training, refusal.text);
        return false;
    }
    set_up(training);
    return true;
}

static void training_close(struct training *training)
{
    data_close(training->data);
    data_close(training->validation);
    free(training->json_job);
}

static enum status session_open(struct session *session, const struct train_arguments *jobs, int32_t count, struct refusal *refusal)
{
    const struct train_arguments *arguments = session->arguments;
    struct run_settings settings;
    char error[TOKENIZER_ERROR_MAX] = "";
    enum status status = model_open(arguments->model, &session->model, refusal);

    if (status == STATUS_OK)
        status = train_settings(train_largest(jobs, count), &session->model->config, session->model->dtype, &settings, refusal);
    if (status == STATUS_OK)
        status = train_recompute(arguments, &session->model->config, session->model->dtype, &settings, count, &session->choice, refusal);
    if (status == STATUS_OK && tokenizer_open(arguments->model, &session->tokenizer, error) != STATUS_OK)
        status = refuse(refusal, STATUS_INVALID, "%s", error);
    return status;
}

/* --- training --------------------------------------------------------------------------------------------------------------- */

/* The exit code that the worst of them makes. */
static int finish(const struct training *training, const struct run_result *result)
{
    if (result->status == STATUS_OK) {
        train_plot(training->arguments, &result->outcome);
        print_end(training, &result->outcome);
        return EXIT_OK;
    }
    say((void *)(uintptr_t)training, result->refusal.text);
    return result->status == STATUS_END ? EXIT_STOPPED : EXIT_FAILED;
}

/* Those that have opened; the others have been told why not. */
static int train_opened(const struct session *session, struct training *trainings, int32_t count)
{
    struct run_config *configs = calloc((size_t)count, sizeof(*configs));
    struct run_result *results = calloc((size_t)count, sizeof(*results));
    int worst = EXIT_OK;

    check(configs != NULL && results != NULL);
    for (int32_t i = 0; i < count; i++) {
        configs[i] = trainings[i].run;
        show_data(&trainings[i]);
    }
    show_memory(session);
    for (int32_t i = 0; i < count && session->arguments->json; i++)
        print_begin(&trainings[i]);
    run_train_all(configs, count, results);
    for (int32_t i = 0; i < count; i++) {
        const int code = finish(&trainings[i], &results[i]);

        worst = worst == EXIT_FAILED || code == EXIT_OK ? worst : code;
    }
    free(configs);
    free(results);
    return worst;
}

int train_data(const struct train_arguments *arguments, const struct train_arguments *jobs, int32_t count)
{
    const struct sigaction action = {.sa_handler = ask_to_stop};
    struct session session = {.arguments = arguments};
    struct training *trainings = calloc((size_t)count, sizeof(*trainings));
    struct refusal refusal = {{0}};
    int32_t opened = 0;
    int code = EXIT_FAILED;

    check(trainings != NULL);
    train_stop = 0;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (session_open(&session, jobs, count, &refusal) == STATUS_OK) {
        for (int32_t i = 0; i < count; i++) {
            if (training_open(&trainings[opened], &session, &jobs[i], arguments->jobs != NULL))
                opened++;
            else
                training_close(&trainings[opened]);
        }
        code = opened > 0 ? train_opened(&session, trainings, opened) : EXIT_FAILED;
        if (opened < count)
            code = EXIT_FAILED;
    } else {
        fprintf(stderr, "berth-exec train: %s\n", refusal.text);
    }
    for (int32_t i = 0; i < opened; i++)
        training_close(&trainings[i]);
    free(trainings);
    tokenizer_close(session.tokenizer);
    model_close(session.model);
    return code;
}
