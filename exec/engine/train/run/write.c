/* The ends of a run: matrices it begins from, what it hands over, what it says when a number is not finite. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/lora/peft.h"
#include "engine/train/run/internal.h"

/* --- the beginning ---------------------------------------------------------------------------------------------------------- */

static float uniform(uint64_t stream, uint64_t index, double most)
{
    const double unit = (double)(hash_mix(stream ^ index) >> 40) / (double)(1 << 24); /* [0, 1) */

    return (float)((2 * unit - 1) * most);
}

static void fill_pairs(const struct run *run, float *values, struct lora_pair *pairs)
{
    const struct dims *dims = &run->config->model->config.dims;
    const struct run_settings *settings = &run->config->settings;
    const int32_t rank = (int32_t)settings->rank;
    const float scale = (float)peft_scale(settings->alpha, rank, false);

    for (int32_t i = 0; i < dims->layers * LORA_MODULE_COUNT; i++) {
        const enum lora_module module = (enum lora_module)(i % LORA_MODULE_COUNT);
        const int64_t inputs = lora_module_in(dims, module);
        const int64_t a = rank * inputs;
        const uint64_t stream = hash_mix(hash_mix((uint64_t)settings->seed ^ UINT64_C(0x6C6F7261)) ^ (uint64_t)i); /* "lora" */

        for (int64_t k = 0; k < a; k++)
            values[k] = uniform(stream, (uint64_t)k, 1 / sqrt((double)inputs));
        pairs[i] = (struct lora_pair){.a = values, .b = values + a, .a_dtype = DTYPE_F32, .b_dtype = DTYPE_F32, .rank = rank, .scale = scale};
        values += a + rank * (int64_t)lora_module_out(dims, module);
    }
}

static int64_t numbers_of(const struct dims *dims, int64_t rank)
{
    int64_t count = 0;

    for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++)
        count += dims->layers * rank * (lora_module_in(dims, module) + lora_module_out(dims, module));
    return count;
}

/* Those that the caller gives. */
static enum status take_initial(struct run *run, const struct optimizer *optimizer, struct refusal *refusal)
{
    const struct run_config *config = run->config;
    const struct dims *dims = &config->model->config.dims;
    const float scale = (float)peft_scale(config->settings.alpha, (int32_t)config->settings.rank, false);

    for (int32_t i = 0; i < dims->layers * LORA_MODULE_COUNT; i++) {
        const struct lora_pair *pair = &config->initial->pair[i];

        if (pair->a == NULL || pair->rank != config->settings.rank || memcmp(&pair->scale, &scale, sizeof(scale)) != 0)
            return refuse(refusal, STATUS_INVALID, "the adapter to go on from does not adapt every linear layer with rank %lld and alpha %g",
                          (long long)config->settings.rank, config->settings.alpha);
    }
    return trainer_job_open(run->trainer, run->job, config->initial, optimizer) == STATUS_OK
               ? STATUS_OK
               : refuse(refusal, STATUS_FULL, "no room for the adapter's numbers, their gradients and moments");
}

static enum status draw_initial(struct run *run, const struct optimizer *optimizer, struct refusal *refusal)
{
    const struct dims *dims = &run->config->model->config.dims;
    float *values = calloc((size_t)numbers_of(dims, run->config->settings.rank), sizeof(float));
    struct lora_pair *pairs = calloc((size_t)dims->layers * LORA_MODULE_COUNT, sizeof(*pairs));
    const struct lora_source source = {.layers = dims->layers, .rank = (int32_t)run->config->settings.rank,
                                       .modules = (1u << LORA_MODULE_COUNT) - 1, .pair = pairs};
    enum status status = STATUS_FULL;

    if (values != NULL && pairs != NULL) {
        fill_pairs(run, values, pairs);
        status = trainer_job_open(run->trainer, run->job, &source, optimizer);
    }
    free(values);
    free(pairs);
    return status == STATUS_OK ? STATUS_OK : refuse(refusal, STATUS_FULL, "no room for the adapter's %lld numbers, their gradients and moments",
                                                    (long long)numbers_of(dims, run->config->settings.rank));
}

enum status run_initial(struct run *run, const struct optimizer *optimizer, struct refusal *refusal)
{
    return (run->config->initial != NULL ? take_initial : draw_initial)(run, optimizer, refusal);
}

/* NAN is larger than everything. */
static int64_t largest(const float *values, int64_t count)
{
    int64_t at = 0;

    for (int64_t i = 0; i < count && !isnan(values[at]); i++)
        if (isnan(values[i]) || fabsf(values[i]) > fabsf(values[at]))
            at = i;
    return at;
}

/* --- the end ---------------------------------------------------------------------------------------------------------------- */

/* The columns of OpenAI's result files. free() it. */
static char *rows_text(const struct run *run, size_t *ret_bytes)
{
    const size_t most = 64 + (size_t)run->at.head.step * 96;
    char *text = malloc(most);
    size_t at;

    if (text == NULL)
        return NULL;
    at = (size_t)snprintf(text, most, "step,train_loss,train_accuracy,valid_loss,valid_mean_token_accuracy\n");
    for (int64_t i = 0; i < run->at.head.step; i++) {
        const struct run_row *row = &run->at.rows[i];

        at += (size_t)snprintf(text + at, most - at, "%lld,%.9g,%.9g,", (long long)i + 1, row->loss, row->accuracy);
        if (isnan(row->valid_loss))
            at += (size_t)snprintf(text + at, most - at, ",\n");
        else
            at += (size_t)snprintf(text + at, most - at, "%.9g,%.9g\n", row->valid_loss, row->valid_accuracy);
    }
    *ret_bytes = at;
    return text;
}

enum status run_give(struct run *run, float *values, const struct run_outcome *outcome,
                     enum status (*take)(struct run *run, const struct run_made *made, struct refusal *refusal), struct refusal *refusal)
{
    const struct lora_source source = trainer_source(run->trainer, run->job, values);
    const struct peft_write adapter = {.source = &source, .dims = trainer_dims(run->trainer), .alpha = run->config->settings.alpha,
                                       .base = run->config->base};
    struct run_made made = {.adapter = &adapter, .outcome = outcome};
    char *rows;
    enum status status;

    if (!isfinite(values[largest(values, run->at.head.parameters)]))
        return refuse(refusal, STATUS_INVALID, "the last step made numbers that are not finite. Nothing was written; a lower learning rate may help");
    rows = rows_text(run, &made.results_bytes);
    if (rows == NULL)
        return refuse(refusal, STATUS_FULL, "no memory");
    made.results = rows;
    status = take(run, &made, refusal);
    free(rows);
    return status;
}

/* --- numbers that are not finite -------------------------------------------------------------------------------------------- */

/* Which matrix number `index` of a job's is in. */
static void name_number(const struct lora_source *source, const struct dims *dims, const float *values, int64_t index, char *ret_name, size_t size)
{
    char module_name[TENSOR_NAME_MAX];

    snprintf(ret_name, size, "a matrix");
    for (int32_t i = 0; i < source->layers * LORA_MODULE_COUNT; i++) {
        const enum lora_module module = (enum lora_module)(i % LORA_MODULE_COUNT);
        const struct lora_pair *pair = &source->pair[i];
        const int64_t a = pair->a == NULL ? 0 : (const float *)pair->a - values;
        const int64_t b = pair->a == NULL ? 0 : (const float *)pair->b - values;
        const bool in_a = index >= a && index < a + pair->rank * (int64_t)lora_module_in(dims, module);

        if (pair->a == NULL || (!in_a && (index < b || index >= b + pair->rank * (int64_t)lora_module_out(dims, module))))
            continue;
        model_linear_name(i / LORA_MODULE_COUNT, module, "", module_name);
        snprintf(ret_name, size, "lora_%c of %.100s", in_a ? 'A' : 'B', module_name);
        return;
    }
}

static void name_lines(const struct run *run, int32_t count, char *ret_text, size_t size)
{
    const int32_t most = 8 * run->unit; /* a pair is one line */
    size_t at = 0;

    for (int32_t i = 0; i < count && i < most; i += run->unit)
        at += (size_t)snprintf(ret_text + at, size - at, "%s%d", i == 0 ? "" : ", ", run_sample(run, run->at.head.step, i)->line);
    if (count > most)
        snprintf(ret_text + at, size - at, ", ...");
}

enum status run_diagnose(struct run *run, double loss, struct refusal *refusal)
{
    const int64_t parameters = trainer_parameters(run->trainer, run->job);
    float *values = run->at.state[0];
    float *gradients = run->at.state[1];
    const struct lora_source source = trainer_source(run->trainer, run->job, values);
    const int64_t step = run->at.head.step;
    const int64_t matrix = largest(values, parameters);
    char lines[160];
    char name[160];
    int64_t worst;

    /* The step has cleared what it gathered; it comes again, sample by sample. */
    for (int32_t i = 0; i < run->count; i++) {
        struct train_sample sample = run->samples[i];

        sample.coef = 1;
        trainer_pass(run->trainer, &sample, 1, run->scores);
    }
    trainer_get(run->trainer, run->job, TRAIN_GRADIENTS, gradients);
    worst = largest(gradients, parameters);
    name_lines(run, run->count, lines, sizeof(lines));
    name_number(&source, trainer_dims(run->trainer), values, worst, name, sizeof(name));
    return refuse(refusal, STATUS_INVALID,
                  "step %lld (batch %lld of epoch %lld, examples of lines %s): the loss is %g; the largest gradient is %g, in %s; the largest number "
                  "of the adapter is %g. Nothing was written; a lower learning rate may help",
                  (long long)step + 1, (long long)(step % run->steps_per_epoch) + 1, (long long)(step / run->steps_per_epoch) + 1, lines, loss,
                  (double)gradients[worst], name, (double)values[matrix]);
}
