/* berth-exec train --reference: a recorded training run (batches, initial adapter, losses, gradient norms, final adapter, as other
 * people's automatic differentiation found them) done again here in f32, and the differences. */
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd_train.h"
#include "engine/files/file.h"
#include "engine/lora/peft.h"
#include "engine/model/weights.h"

#define TOLERANCE 1e-5
#define REFERENCE_BYTES_MAX (16 << 20)
enum { BATCHES = 2, SAMPLES_MAX = 64, TOKENS_MAX = 512, STEPS_MAX = 10000 };

struct recorded_batch {
    struct train_sample sample[SAMPLES_MAX];
    int32_t tokens[SAMPLES_MAX][TOKENS_MAX];
    uint8_t is_target[SAMPLES_MAX][TOKENS_MAX];
    int32_t count;
    int32_t rows;
    int32_t rows_longest;
    int64_t targets;
};

struct replay {
    const struct train_arguments *arguments;
    struct model *model;
    struct peft *initial;
    struct trainer *trainer;
    json_t *batches_file;
    json_t *reference;
    const json_t *losses;
    const json_t *norms;
    struct recorded_batch batch[BATCHES];
    bool alternates;              /* batches take turns */
    int64_t steps;
    double loss_worst;            /* the largest differences */
    double norm_worst;
    double final_worst;           /* NAN: the record has none for this base */
};

static enum status malformed(const char *what, struct refusal *refusal)
{
    return refuse(refusal, STATUS_INVALID, "the reference is not as expected: %s", what);
}

/* --- reading ---------------------------------------------------------------------------------------------------------------- */

static enum status read_sample(const json_t *batch, int32_t index, const struct dims *dims, struct recorded_batch *ret, struct refusal *refusal)
{
    const json_t *ids = json_array_get(json_object_get(batch, "input_ids"), (size_t)index);
    const json_t *mask = json_array_get(json_object_get(batch, "loss_mask"), (size_t)index);
    const int64_t rows = json_integer_value(json_array_get(json_object_get(batch, "lengths"), (size_t)index));

    if (rows < 1 || rows > TOKENS_MAX || json_array_size(ids) < (size_t)rows || json_array_size(mask) < (size_t)rows)
        return malformed("lengths, input_ids and loss_mask of a batch disagree", refusal);
    for (int32_t t = 0; t < rows; t++) {
        const int64_t id = json_integer_value(json_array_get(ids, (size_t)t));

        if (id < 0 || id >= dims->vocabulary)
            return malformed("a token that the model does not have", refusal);
        ret->tokens[index][t] = (int32_t)id;
        ret->is_target[index][t] = t > 0 && json_integer_value(json_array_get(mask, (size_t)t)) != 0;
        ret->targets += ret->is_target[index][t];
    }
    ret->sample[index] = (struct train_sample){.tokens = ret->tokens[index], .is_target = ret->is_target[index], .rows = (int32_t)rows};
    ret->rows += (int32_t)rows;
    ret->rows_longest = ret->rows_longest > (int32_t)rows ? ret->rows_longest : (int32_t)rows;
    return STATUS_OK;
}

static enum status read_batch(const json_t *batch, const struct dims *dims, struct recorded_batch *ret, struct refusal *refusal)
{
    const size_t count = json_array_size(json_object_get(batch, "input_ids"));
    enum status status = STATUS_OK;

    if (count < 1 || count > SAMPLES_MAX)
        return malformed("batches.json wants batch1 and batch2 of 1 to 64 samples", refusal);
    ret->count = (int32_t)count;
    for (int32_t b = 0; b < ret->count && status == STATUS_OK; b++)
        status = read_sample(batch, b, dims, ret, refusal);
    if (status == STATUS_OK && ret->targets == 0)
        return malformed("a batch without targets", refusal);
    return status;
}

static enum status read_record(struct replay *replay, struct refusal *refusal)
{
    const bool rounded = replay->model->dtype == DTYPE_BF16;

    replay->losses = json_object_get(replay->reference, rounded ? "losses_bf16_base" : "losses");
    replay->norms = json_object_get(replay->reference, rounded ? "grad_norms_bf16_base" : "grad_norms");
    replay->steps = json_integer_value(json_object_get(replay->reference, "steps"));
    replay->alternates = strcmp(json_string_value(json_object_get(replay->reference, "batches")) != NULL
                                    ? json_string_value(json_object_get(replay->reference, "batches")) : "",
                                "batch1 every step") != 0;
    if (replay->steps < 1 || replay->steps > STEPS_MAX || json_array_size(replay->losses) != (size_t)replay->steps + 1 ||
        json_array_size(replay->norms) != (size_t)replay->steps || !json_is_object(json_object_get(replay->reference, "optimizer")))
        return malformed("reference.json wants steps, optimizer, losses[steps + 1] and grad_norms[steps]", refusal);
    return STATUS_OK;
}

static enum status read_all(struct replay *replay, struct refusal *refusal)
{
    const char *folder = replay->arguments->reference;
    char path[4096];
    enum status status = model_open(replay->arguments->model, &replay->model, refusal);

    if (status != STATUS_OK)
        return status;
    snprintf(path, sizeof(path), "%.4000s/reference.json", folder);
    status = file_read_json(AT_FDCWD, path, path, REFERENCE_BYTES_MAX, &replay->reference, refusal);
    if (status == STATUS_OK)
        status = read_record(replay, refusal);
    snprintf(path, sizeof(path), "%.4000s/../batches.json", folder);
    if (status == STATUS_OK)
        status = file_read_json(AT_FDCWD, path, path, REFERENCE_BYTES_MAX, &replay->batches_file, refusal);
    for (int i = 0; i < BATCHES && status == STATUS_OK; i++)
        status = read_batch(json_object_get(replay->batches_file, i == 0 ? "batch1" : "batch2"), &replay->model->config.dims,
                            &replay->batch[i], refusal);
    snprintf(path, sizeof(path), "%.4000s/adapter_init", folder);
    if (status == STATUS_OK)
        status = peft_open(path, &replay->model->config, LORA_RANK_MAX, &replay->initial, refusal);
    return status;
}

/* --- running ---------------------------------------------------------------------------------------------------------------- */

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static enum status open_trainer(struct replay *replay, struct refusal *refusal)
{
    const json_t *recorded = json_object_get(replay->reference, "optimizer");
    struct trainer_config config = replay->arguments->trainer;
    struct optimizer optimizer = OPTIMIZER_DEFAULT;
    enum status status;

    optimizer.decay = (float)json_number_value(json_object_get(recorded, "weight_decay"));
    optimizer.clip = (float)json_number_value(json_object_get(recorded, "max_grad_norm"));
    config.mode = MODE_EXACT;
    config.rows_max = most(replay->batch[0].rows, replay->batch[1].rows);
    config.job_rows_max = config.rows_max;
    config.samples_max = most(replay->batch[0].count, replay->batch[1].count);
    config.positions_max = most(replay->batch[0].rows_longest, replay->batch[1].rows_longest);
    config.jobs_max = 1;
    config.lora_rank_max = lora_rank_padded(replay->initial->source.rank);
    config.head_rows = config.rows_max;
    status = trainer_open(replay->model, &config, &replay->trainer, refusal);
    if (status == STATUS_OK && trainer_job_open(replay->trainer, 0, &replay->initial->source, &optimizer) != STATUS_OK)
        return refuse(refusal, STATUS_FULL, "no room for the adapter's gradients and moments");
    return status;
}

static void print_step(const struct train_arguments *arguments, int64_t step, double loss, double loss_want, double norm, double norm_want)
{
    if (arguments->json && isfinite(norm))
        printf("{\"step\":%lld,\"loss\":%.9g,\"loss_reference\":%.9g,\"grad_norm\":%.9g,\"grad_norm_reference\":%.9g}\n", (long long)step,
               loss, loss_want, norm, norm_want);
    else if (arguments->json)
        printf("{\"step\":%lld,\"loss\":%.9g,\"loss_reference\":%.9g}\n", (long long)step, loss, loss_want);
    else
        printf("step %-3lld loss %.7f (reference %.7f)\n", (long long)step, loss, loss_want);
}

/* NAN stays NAN: it fails every comparison. */
static double worse(double worst, double found, double want)
{
    const double difference = fabs(found - want);

    return difference <= worst ? worst : difference;
}

static enum status run_steps(struct replay *replay, struct refusal *refusal)
{
    const json_t *rate = json_object_get(json_object_get(replay->reference, "optimizer"), "lr");

    for (int64_t step = 0; step < replay->steps; step++) {
        const struct recorded_batch *batch = &replay->batch[replay->alternates ? step % BATCHES : 0];
        const double rates[1] = {json_number_value(json_is_array(rate) ? json_array_get(rate, (size_t)step) : rate)};
        const double loss = json_number_value(json_array_get(replay->losses, (size_t)step));
        const double norm = json_number_value(json_array_get(replay->norms, (size_t)step));
        struct train_outcome outcome;

        if (trainer_step(replay->trainer, batch->sample, batch->count, rates, &outcome) != STATUS_OK)
            return refuse(refusal, STATUS_INVALID, "step %lld: the gradient is not finite", (long long)step);
        replay->loss_worst = worse(replay->loss_worst, outcome.loss, loss);
        replay->norm_worst = worse(replay->norm_worst, outcome.norm, norm);
        print_step(replay->arguments, step, outcome.loss, loss, outcome.norm, norm);
    }
    return STATUS_OK;
}

/* The loss after the last update, of the batch that the next step would take. */
static void run_last(struct replay *replay)
{
    const struct recorded_batch *batch = &replay->batch[replay->alternates ? replay->steps % BATCHES : 0];
    const double want = json_number_value(json_array_get(replay->losses, (size_t)replay->steps));
    struct train_score scores[SAMPLES_MAX];
    double loss = 0;

    trainer_logp(replay->trainer, batch->sample, batch->count, scores);
    for (int32_t b = 0; b < batch->count; b++)
        loss -= scores[b].logp / (double)batch->targets;
    replay->loss_worst = worse(replay->loss_worst, loss, want);
    print_step(replay->arguments, replay->steps, loss, want, NAN, NAN);
}

static double pair_difference(const struct dims *dims, enum lora_module module, const struct lora_pair *found, const struct lora_pair *want)
{
    double worst = 0;

    if (found->a == NULL || want->a == NULL)
        return found->a == want->a ? 0 : INFINITY;
    if (found->rank != want->rank)
        return INFINITY;
    for (int64_t i = 0; i < (int64_t)found->rank * lora_module_in(dims, module); i++)
        worst = worse(worst, (double)dtype_load(found->a_dtype, found->a, (size_t)i), (double)dtype_load(want->a_dtype, want->a, (size_t)i));
    for (int64_t i = 0; i < (int64_t)found->rank * lora_module_out(dims, module); i++)
        worst = worse(worst, (double)dtype_load(found->b_dtype, found->b, (size_t)i), (double)dtype_load(want->b_dtype, want->b, (size_t)i));
    return worst;
}

/* Only for the base that the final adapter was recorded with. */
static enum status compare_final(struct replay *replay, struct refusal *refusal)
{
    const struct dims *dims = &replay->model->config.dims;
    char path[4096];
    struct peft *want;
    struct lora_source found;
    float *values;
    enum status status;

    replay->final_worst = NAN;
    if (replay->model->dtype == DTYPE_BF16)
        return STATUS_OK;
    snprintf(path, sizeof(path), "%.4000s/adapter_final", replay->arguments->reference);
    status = peft_open(path, &replay->model->config, LORA_RANK_MAX, &want, refusal);
    if (status != STATUS_OK)
        return status;
    values = calloc((size_t)trainer_parameters(replay->trainer, 0), sizeof(float));
    if (values == NULL) {
        peft_close(want);
        return refuse(refusal, STATUS_FULL, "no memory");
    }
    found = trainer_source(replay->trainer, 0, values);
    replay->final_worst = 0;
    for (int32_t layer = 0; layer < dims->layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++)
            replay->final_worst = worse(replay->final_worst, 0, pair_difference(dims, module, lora_source_pair(&found, layer, module),
                                                                                lora_source_pair(&want->source, layer, module)));
    free(values);
    peft_close(want);
    return STATUS_OK;
}

static int print_verdict(const struct replay *replay)
{
    const bool has_final = !isnan(replay->final_worst);
    const bool agrees = replay->loss_worst < TOLERANCE && replay->norm_worst < TOLERANCE &&
                        (!has_final || replay->final_worst < TOLERANCE);

    if (replay->arguments->json) {
        printf("{\"steps\":%lld,\"loss_difference_max\":%.3g,\"grad_norm_difference_max\":%.3g,", (long long)replay->steps,
               replay->loss_worst, replay->norm_worst);
        if (has_final)
            printf("\"final_adapter_difference_max\":%.3g,", replay->final_worst);
        printf("\"tolerance\":%g,\"agrees\":%s}\n", TOLERANCE, agrees ? "true" : "false");
    } else {
        printf("largest differences: losses %.2g, gradient norms %.2g", replay->loss_worst, replay->norm_worst);
        if (has_final)
            printf(", final adapter %.2g", replay->final_worst);
        printf("; %s %g\n", agrees ? "within" : "NOT within", TOLERANCE);
    }
    return agrees ? EXIT_OK : EXIT_FAILED;
}

int train_reference(const struct train_arguments *arguments)
{
    struct replay *replay = calloc(1, sizeof(*replay));
    struct refusal refusal = {{0}};
    enum status status;
    int code = EXIT_FAILED;

    if (replay == NULL)
        return EXIT_FAILED;
    replay->arguments = arguments;
    status = read_all(replay, &refusal);
    if (status == STATUS_OK)
        status = open_trainer(replay, &refusal);
    if (status == STATUS_OK)
        status = run_steps(replay, &refusal);
    if (status == STATUS_OK) {
        run_last(replay);
        status = compare_final(replay, &refusal);
    }
    if (status == STATUS_OK)
        code = print_verdict(replay);
    else
        fprintf(stderr, "berth-exec train: %s\n", refusal.text);
    trainer_close(replay->trainer);
    peft_close(replay->initial);
    json_decref(replay->reference);
    json_decref(replay->batches_file);
    model_close(replay->model);
    free(replay);
    return code;
}
