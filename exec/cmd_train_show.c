#include "cmd_train_show.h"

#include <math.h>
#include <stdio.h>

void train_say(void *listener, const char *text)
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

void train_show_saved(void *listener, const struct run_saved *saved)
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

void train_show_step(void *listener, const struct run_step *step)
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

void train_show_end(const struct training *training, const struct run_outcome *outcome)
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

void train_show_begin(const struct training *training)
{
    const struct train_arguments *arguments = training->arguments;
    const struct run_settings *settings = &training->run.settings;
    const struct data_set *data = training->data;
    json_t *begin = json_pack("{s:{s:s, s:f, s:s, s:s, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:s, s:s}}", "begin",
                              "method", run_method_name((enum run_method)settings->method), "learning_rate", settings->rate,
                              "learning_rate_from", arguments->wishes.rate_auto ? "auto" : arguments->wishes.rate > 0 ? "given" : "default",
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

void train_show_memory(const struct session *session)
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

int32_t train_units(const struct training *training)
{
    return training->data->count / (training->run.settings.method == RUN_DPO ? 2 : 1);
}

void train_show_data(const struct training *training)
{
    const struct data_set *data = training->data;
    const struct run_settings *settings = &training->run.settings;

    if (data->cut > 0)
        fprintf(stderr, "%s%d of %d samples are longer than %lld tokens; their ends, and that they end, are not learned\n", training->name,
                data->cut, data->count, (long long)settings->row_tokens);
    if (data->equal > 0)
        fprintf(stderr, "%s%d pairs are left out: their two answers are equal as far as they fit\n", training->name, data->equal);
    if (training->arguments->quiet)
        return;
    fprintf(stderr, "%s%d examples, %lld tokens, %lld of them learned", among(training), data->examples, (long long)data->tokens_count,
            (long long)data->targets_count);
    if (training->validation != NULL)
        fprintf(stderr, "; %d for validation", training->validation->examples);
    fprintf(stderr, "\n%s%lld epochs of %lld steps, %lld %s a step; rank %lld, alpha %g, learning rate %.3g%s\n", among(training), (long long)settings->epochs,
            (long long)((train_units(training) + settings->batch - 1) / settings->batch), (long long)settings->batch,
            settings->method == RUN_DPO ? "pairs" : "samples", (long long)settings->rank,
            settings->alpha, settings->rate, training->arguments->wishes.rate_auto ? ", fitted to the model" : "");
}
