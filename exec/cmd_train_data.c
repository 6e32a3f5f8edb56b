/* berth-exec train --data and --jobs: adapters learned from files of examples. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cmd_train_show.h"
#include "engine/files/file.h"

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

/* --- opening ---------------------------------------------------------------------------------------------------------------- */

static enum status open_data(struct training *training, struct refusal *refusal)
{
    const struct train_arguments *arguments = training->arguments;
    struct data_source source;
    enum status status = run_source(arguments->model, training->session->tokenizer, &training->session->model->config, &training->run.settings,
                                    &source, refusal);

    if (status == STATUS_OK)
        status = data_open(arguments->data, &source, &training->data, refusal);
    if (status == STATUS_OK && arguments->validation != NULL)
        status = data_open(arguments->validation, &source, &training->validation, refusal);
    if (status == STATUS_OK && arguments->validation_percent > 0)
        status = data_split(training->data, (int32_t)arguments->validation_percent, (uint64_t)arguments->wishes.settings.seed, &training->validation,
                            refusal);
    return status;
}

static void set_up(struct training *training)
{
    const struct train_arguments *arguments = training->arguments;
    struct run_config *run = &training->run;

    run_choose_data(&run->settings, training->data);
    snprintf(training->checkpoints, sizeof(training->checkpoints), "%.*s.checkpoints", (int)min_i64((int64_t)folder_path_length(arguments->out), 4000),
             arguments->out);
    run->model = training->session->model;
    run->data = training->data;
    run->validation = training->validation;
    run->trainer = arguments->trainer;
    run->trainer.base = arguments->base_socket != NULL ? &training->session->loan.base : NULL;
    run->trainer.recompute = training->session->choice.recompute;
    run->recompute_rises = !arguments->recompute_chosen;
    run->base = arguments->model;
    run->out = arguments->out;
    run->checkpoints = arguments->checkpoints != NULL ? arguments->checkpoints : training->checkpoints;
    run->checkpoint_every_ns = arguments->checkpoint_every_s * INT64_C(1000000000);
    run->restart = arguments->restart;
    run->done_counts = arguments->jobs != NULL;
    run->stop = &train_stop;
    run->now_ns = now_ns;
    run->listener = training;
    run->stepped = train_show_step;
    run->saved = train_show_saved;
    run->said = train_say;
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
    status = run_choose(&arguments->wishes, &model->config, model->dtype, &training->run.settings, &refusal);
    if (status == STATUS_OK)
        status = open_data(training, &refusal);
    if (status != STATUS_OK) {
        train_say(training, refusal.text);
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
    enum status status = model_open(arguments->model, &session->model, refusal);

    if (status == STATUS_OK && arguments->base_socket != NULL)
        status = base_borrow(arguments->base_socket, arguments->trainer.device, session->model, &train_stop, &session->loan, refusal);
    if (status == STATUS_OK)
        status = run_choose(&train_largest(jobs, count)->wishes, &session->model->config, session->model->dtype, &settings, refusal);
    if (status == STATUS_OK)
        status = train_recompute(arguments, &session->model->config, session->model->dtype, &settings, count, &session->choice, refusal);
    return status == STATUS_OK ? run_tokenizer(arguments->model, &session->tokenizer, refusal) : status;
}

/* --- training --------------------------------------------------------------------------------------------------------------- */

/* The exit code that the worst of them makes. */
static int finish(const struct training *training, const struct run_result *result)
{
    if (result->status == STATUS_OK) {
        train_plot(training->arguments, &result->outcome);
        train_show_end(training, &result->outcome);
        return EXIT_OK;
    }
    train_say((void *)(uintptr_t)training, result->refusal.text);
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
        train_show_data(&trainings[i]);
    }
    train_show_memory(session);
    for (int32_t i = 0; i < count && session->arguments->json; i++)
        train_show_begin(&trainings[i]);
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
    struct session session = {.arguments = arguments, .loan = LOAN_NONE};
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
    loan_return(&session.loan);
    model_close(session.model);
    return code;
}
