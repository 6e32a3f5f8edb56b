/* berth-exec train --data: an adapter learned from a file of examples. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cmd_train.h"
#include "engine/files/file.h"

struct training {
    const struct train_arguments *arguments;
    struct model *model;
    struct tokenizer *tokenizer;
    struct data_set *data;
    struct data_set *validation;
    struct train_choice choice;
    struct run_config run;
    char checkpoints[4096];
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
    (void)listener;
    fprintf(stderr, "berth-exec train: %s\n", text);
}

static void print_json(const struct run_step *step)
{
    printf("{\"step\":%lld,\"steps\":%lld,\"epoch\":%d,\"train_loss\":%.9g,\"train_accuracy\":%.9g,\"grad_norm\":%.9g,"
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

static void show_saved(void *listener, const struct run_saved *saved)
{
    const struct training *training = listener;

    if (training->arguments->json) {
        printf("{\"checkpoint\":%lld,\"bytes\":%lld,\"ms\":%.3f}\n", (long long)saved->step, (long long)saved->bytes, (double)saved->took_ns / 1e6);
        fflush(stdout);
    }
    if (!training->arguments->quiet)
        fprintf(stderr, "checkpoint after step %lld: %.2f MB in %.0f ms\n", (long long)saved->step, (double)saved->bytes / 1e6,
                (double)saved->took_ns / 1e6);
}

static void show_step(void *listener, const struct run_step *step)
{
    const struct training *training = listener;
    const int64_t left_s = step->left_ns / 1000000000;
    const char *share = training->run.settings.method == RUN_DPO ? "of pairs won" : "right";
    char validation[64] = "";

    if (training->arguments->json)
        print_json(step);
    if (training->arguments->quiet)
        return;
    if (!isnan(step->valid_loss))
        snprintf(validation, sizeof(validation), "  validation %.4f, %.1f%% %s", step->valid_loss, 100 * step->valid_accuracy, share);
    fprintf(stderr, "step %lld/%lld  epoch %d  loss %.4f, %.1f%% %s%s  %.0f tokens/s  %lld:%02lld:%02lld left\n", (long long)step->step,
            (long long)step->steps, step->epoch, step->loss, 100 * step->accuracy, share, validation,
            (double)step->tokens / ((double)(step->step_ns + 1) / 1e9), (long long)(left_s / 3600), (long long)(left_s / 60 % 60),
            (long long)(left_s % 60));
}

static void print_end(const struct training *training, const struct run_outcome *outcome)
{
    const char *out = training->arguments->out;

    if (training->arguments->json) {
        json_t *end = json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:b}", "adapter", out, "recompute",
                                recompute_name(training->choice.recompute), "steps", (json_int_t)outcome->steps, "best_step",
                                (json_int_t)outcome->best_step, "train_loss", outcome->loss, "train_accuracy", outcome->accuracy,
                                "stopped_early", (int)outcome->stopped_early);

        if (!isnan(outcome->valid_loss))
            json_object_update_new(end, json_pack("{s:f, s:f}", "valid_loss", outcome->valid_loss, "valid_mean_token_accuracy",
                                                  outcome->valid_accuracy));
        json_dumpf(end, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
        putchar('\n');
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
                              recompute_name(training->choice.recompute));

    if (settings->method == RUN_DPO)
        json_object_set_new(json_object_get(begin, "begin"), "beta", json_real(settings->beta));
    json_dumpf(begin, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    fflush(stdout);
    json_decref(begin);
}

static void show_memory(const struct training *training)
{
    const struct train_choice *choice = &training->choice;
    const double gib = (double)(INT64_C(1) << 30);
    const double wanted = (double)(choice->plan.weights_bytes +
                                   plan_bytes(&choice->plan, choice->recompute, 1, training->arguments->trainer.device == &device_cpu)) / gib;

    if (!choice->fits)
        fprintf(stderr, "berth-exec train: about %.3g GiB are wanted, the base among them, and there are %.3g; a shorter --context or a lower "
                        "--rank takes less\n", wanted, (double)choice->memory_bytes / gib);
    if (!training->arguments->quiet)
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
        fprintf(stderr, "berth-exec train: %d of %d samples are longer than %lld tokens; their ends, and that they end, are not learned\n",
                data->cut, data->count, (long long)settings->row_tokens);
    if (training->arguments->quiet)
        return;
    fprintf(stderr, "%d examples, %lld tokens, %lld of them learned", data->examples, (long long)data->tokens_count,
            (long long)data->targets_count);
    if (training->validation != NULL)
        fprintf(stderr, "; %d for validation", training->validation->examples);
    fprintf(stderr, "\n%lld epochs of %lld steps, %lld %s a step; rank %lld, alpha %g, learning rate %.3g%s\n", (long long)settings->epochs,
            (long long)((units_of(training) + settings->batch - 1) / settings->batch), (long long)settings->batch,
            settings->method == RUN_DPO ? "pairs" : "samples", (long long)settings->rank,
            settings->alpha, settings->rate, training->arguments->rate_auto ? ", fitted to the model" : "");
}

/* --- opening ---------------------------------------------------------------------------------------------------------------- */

static enum status open_tokenizer(struct training *training, struct refusal *refusal)
{
    char error[TOKENIZER_ERROR_MAX] = "";

    if (tokenizer_open(training->arguments->model, &training->tokenizer, error) == STATUS_OK)
        return STATUS_OK;
    return refuse(refusal, STATUS_INVALID, "%s", error);
}

static enum status source_of(const struct training *training, struct data_source *ret_source, struct refusal *refusal)
{
    const struct model_config *config = &training->model->config;
    int32_t eos = tokenizer_special(training->tokenizer, TOKENIZER_EOS);

    if (eos == TOKENIZER_NO_ID && config->eos_count > 0)
        eos = config->eos[0];
    if (eos == TOKENIZER_NO_ID)
        return refuse(refusal, STATUS_INVALID, "%s: names no token that ends a text: put eos_token into tokenizer_config.json",
                      training->arguments->model);
    *ret_source = (struct data_source){.tokenizer = training->tokenizer, .eos = eos, .vocabulary = config->dims.vocabulary,
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

static enum status choose(struct training *training, struct refusal *refusal)
{
    const struct train_arguments *arguments = training->arguments;
    const struct model *model = training->model;
    enum status status = train_settings(arguments, &model->config, model->dtype, &training->run.settings, refusal);

    if (status == STATUS_OK)
        status = train_recompute(arguments, &model->config, model->dtype, &training->run.settings, &training->choice, refusal);
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
    run->model = training->model;
    run->data = training->data;
    run->validation = training->validation;
    run->trainer = arguments->trainer;
    run->trainer.recompute = training->choice.recompute;
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

static enum status open_all(struct training *training, struct refusal *refusal)
{
    enum status status = model_open(training->arguments->model, &training->model, refusal);

    if (status == STATUS_OK)
        status = choose(training, refusal);
    if (status == STATUS_OK)
        status = open_tokenizer(training, refusal);
    return status == STATUS_OK ? open_data(training, refusal) : status;
}

int train_data(const struct train_arguments *arguments)
{
    struct training training = {.arguments = arguments};
    const struct sigaction action = {.sa_handler = ask_to_stop};
    struct run_outcome outcome;
    struct refusal refusal = {{0}};
    enum status status;

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    status = open_all(&training, &refusal);
    if (status == STATUS_OK) {
        set_up(&training);
        show_data(&training);
        show_memory(&training);
        if (arguments->json)
            print_begin(&training);
        status = run_train(&training.run, &outcome, &refusal);
    }
    if (status == STATUS_OK)
        print_end(&training, &outcome);
    else
        fprintf(stderr, "berth-exec train: %s\n", refusal.text);
    data_close(training.data);
    data_close(training.validation);
    tokenizer_close(training.tokenizer);
    model_close(training.model);
    return status == STATUS_OK ? EXIT_OK : status == STATUS_END ? EXIT_STOPPED : EXIT_FAILED;
}
