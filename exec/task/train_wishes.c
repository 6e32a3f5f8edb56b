/* START's hyperparameters as a run's wishes. Whoever sent them has checked them for the tenant; here they are only held to their bounds. */
#include <math.h>
#include <string.h>

#include "task/train.h"

static enum status refuse_value(const char *name, struct refusal *refusal)
{
    return refuse(refusal, STATUS_INVALID, "START's %s is not one that a run takes", name);
}

/* Missing, null and "auto" leave it as it is. */
static enum status take_whole(const json_t *all, const char *name, int64_t least, int64_t most, int64_t *ret, struct refusal *refusal)
{
    const double value = real_of(all, name, (double)*ret);

    if (value == (double)*ret)
        return STATUS_OK;
    if (!(value >= (double)least && value <= (double)most && floor(value) == value))
        return refuse_value(name, refusal);
    *ret = (int64_t)value;
    return STATUS_OK;
}

static enum status take_real(const json_t *all, const char *name, double most, double *ret, struct refusal *refusal)
{
    const double value = real_of(all, name, *ret);

    if (!(value >= 0 && value <= most))
        return refuse_value(name, refusal);
    *ret = value;
    return STATUS_OK;
}

static enum status take_names(const json_t *settings, const json_t *all, struct run_settings *ret_settings, struct refusal *refusal)
{
    const char *method_name = json_string_value(json_object_get(settings, "method"));
    const char *schedule_name = json_string_value(json_object_get(all, "schedule"));
    enum run_method method;
    enum schedule_kind schedule;

    if (method_name == NULL || !run_method_find(method_name, &method))
        return refuse_value("method", refusal);
    ret_settings->method = (int64_t)method;
    if (schedule_name == NULL || strcmp(schedule_name, "auto") == 0)
        return STATUS_OK;
    if (!schedule_kind_find(schedule_name, &schedule))
        return refuse_value("schedule", refusal);
    ret_settings->schedule = (int64_t)schedule;
    return STATUS_OK;
}

/* An adapter keeps its rank and its strength. */
static void take_parent(const struct peft *parent, struct run_settings *settings)
{
    settings->rank = parent->source.rank;
    settings->alpha = parent->alpha_stated;
}

enum status train_wishes(struct training *training, struct refusal *refusal)
{
    const json_t *all = json_object_get(training->task->settings, "hyperparameters");
    struct run_wishes wishes = RUN_WISHES_DEFAULT;
    struct run_settings *settings = &wishes.settings;
    const struct model_config *model = &training->model->config;
    enum status status = take_names(training->task->settings, all, settings, refusal);

    if (training->parent_adapter != NULL)
        take_parent(training->parent_adapter, settings);
#define TAKE(call)             \
    if (status == STATUS_OK) \
        status = call
    TAKE(take_whole(all, "epochs", 1, 1000, &settings->epochs, refusal));
    TAKE(take_whole(all, "batch", 1, 65536, &settings->batch, refusal));
    TAKE(take_whole(all, "rank", 1, LORA_RANK_MAX, &settings->rank, refusal));
    TAKE(take_whole(all, "seed", 0, INT64_C(1) << 53, &settings->seed, refusal));
    TAKE(take_whole(all, "patience", 0, INT32_MAX, &settings->patience, refusal));
    TAKE(take_whole(all, "context", 2, 1 << 20, &settings->row_tokens, refusal));
    TAKE(take_whole(all, "evaluate_every", 1, INT32_MAX, &settings->evaluate_every, refusal));
    TAKE(take_real(all, "alpha", 1e6, &settings->alpha, refusal));
    TAKE(take_real(all, "beta", 2, &settings->beta, refusal));
    TAKE(take_real(all, "min_delta", 1e6, &settings->min_delta, refusal));
    TAKE(take_real(all, "rate", 1e3, &wishes.rate, refusal));
    TAKE(take_real(all, "rate_multiplier", 1e6, &wishes.rate_multiplier, refusal));
#undef TAKE
    wishes.beta_chosen = settings->beta > 0;
    if (!(wishes.rate > 0))
        wishes.rate = run_rate((enum run_method)settings->method, model);
    training->wishes = wishes;
    return status;
}
