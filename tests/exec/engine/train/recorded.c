#include "recorded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "engine/safetensors/safetensors.h"
#include "rig.h"

#define FOLDER "models/reference/lora_train"
enum { BATCH_MAX = 8, TOKENS_MAX = 64 };

struct batch_file {
    struct train_sample sample[BATCH_MAX];
    int32_t tokens[BATCH_MAX][TOKENS_MAX];
    uint8_t is_target[BATCH_MAX][TOKENS_MAX];
    int32_t count;
};

static json_t *json_of(const char *relative)
{
    const char *path = test_shared_path(relative);
    json_t *json;

    if (path == NULL) {
        printf("skipped: ../shared/%s is missing\n", relative);
        skip();
    }
    json = json_load_file(path, 0, NULL);
    assert_non_null(json);
    return json;
}

static void batch_read(const json_t *root, const char *name, struct batch_file *ret_batch)
{
    const json_t *batch = json_object_get(root, name);
    const json_t *rows = json_object_get(batch, "input_ids");

    memset(ret_batch, 0, sizeof(*ret_batch));
    ret_batch->count = (int32_t)json_array_size(rows);
    assert_true(ret_batch->count <= BATCH_MAX);
    for (int32_t b = 0; b < ret_batch->count; b++) {
        const json_t *ids = json_array_get(rows, (size_t)b);
        const json_t *mask = json_array_get(json_object_get(batch, "loss_mask"), (size_t)b);
        const int32_t length = (int32_t)json_integer_value(json_array_get(json_object_get(batch, "lengths"), (size_t)b));

        assert_true(length <= TOKENS_MAX);
        for (int32_t t = 0; t < length; t++) {
            ret_batch->tokens[b][t] = (int32_t)json_integer_value(json_array_get(ids, (size_t)t));
            ret_batch->is_target[b][t] = json_integer_value(json_array_get(mask, (size_t)t)) != 0;
        }
        ret_batch->sample[b] =
            (struct train_sample){.tokens = ret_batch->tokens[b], .is_target = ret_batch->is_target[b], .rows = length};
    }
}

/* The largest difference between the job's numbers and an adapter-shaped file's. */
static double difference(struct trainer *trainer, enum train_state state, const char *relative)
{
    const char *path = test_shared_path(relative);
    struct refusal refusal = {{0}};
    struct safetensors *file;
    int64_t parameters = trainer_parameters(trainer, 0);
    float *values = malloc((size_t)parameters * sizeof(float));
    struct lora_source source = trainer_source(trainer, 0, values);
    double worst = 0;
    int64_t seen = 0;

    assert_non_null(path);
    if (safetensors_map(path, &safetensors_limits_adapter, &file, &refusal) != STATUS_OK)
        fail_msg("%s: %s", path, refusal.text);
    trainer_get(trainer, 0, state, values);
    for (int32_t layer = 0; layer < source.layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++)
            for (int side = 0; side < 2; side++) {
                const struct lora_pair *pair = lora_source_pair(&source, layer, module);
                const float *mine = side == 0 ? pair->a : pair->b;
                const struct dims *dims = trainer_dims(trainer);
                int64_t count = (int64_t)pair->rank * (side == 0 ? lora_module_in(dims, module) : lora_module_out(dims, module));
                char name[TENSOR_NAME_MAX];
                char full[TENSOR_NAME_MAX + 64];
                const struct tensor *tensor;

                if (mine == NULL)
                    continue;
                model_linear_name(layer, module, "", name);
                snprintf(full, sizeof(full), "base_model.model.%s.lora_%c.weight", name, side == 0 ? 'A' : 'B');
                tensor = safetensors_find(file, full);
                if (tensor == NULL)
                    fail_msg("%s has no %s", relative, full);
                for (int64_t i = 0; i < count; i++)
                    worst = fmax(worst, fabs((double)mine[i] - (double)dtype_load(DTYPE_F32, tensor->data, (size_t)i)));
                seen += count;
            }
    assert_int_equal(seen, parameters);
    safetensors_close(file);
    free(values);
    return worst;
}

static void gradients_clear(struct trainer *trainer)
{
    float *zeros = calloc((size_t)trainer_parameters(trainer, 0), sizeof(float));

    assert_non_null(zeros);
    trainer_put(trainer, 0, TRAIN_GRADIENTS, zeros);
    free(zeros);
}

static double rate_of(const json_t *reference, int64_t step)
{
    const json_t *lr = json_object_get(json_object_get(reference, "optimizer"), "lr");

    return json_is_array(lr) ? json_real_value(json_array_get(lr, (size_t)step)) : json_real_value(lr);
}

struct found recorded_run(const char *name, const struct model *model, const struct trainer_config *config, const char *suffix,
                          int32_t steps)
{
    static struct batch_file batches[2];
    char relative[256];
    json_t *file = json_of(FOLDER "/batches.json");
    json_t *reference;
    const json_t *optimizer;
    struct found found = {0};
    struct refusal refusal = {{0}};
    struct peft *peft;
    struct trainer *trainer = rig_trainer(model, config);
    struct optimizer with = OPTIMIZER_DEFAULT;
    double rates[3] = {0};
    struct train_outcome outcomes[3];
    struct train_score scores[BATCH_MAX];
    const bool alternate = strcmp(name, "c_schedule") == 0;

    batch_read(file, "batch1", &batches[0]);
    batch_read(file, "batch2", &batches[1]);
    json_decref(file);
    snprintf(relative, sizeof(relative), FOLDER "/%s/reference.json", name);
    reference = json_of(relative);
    optimizer = json_object_get(reference, "optimizer");
    with.decay = (float)json_number_value(json_object_get(optimizer, "weight_decay"));
    with.clip = (float)json_number_value(json_object_get(optimizer, "max_grad_norm"));
    snprintf(relative, sizeof(relative), FOLDER "/%s/adapter_init", name);
    if (peft_open(test_shared_path(relative), &model->config, 32, &peft, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    assert_int_equal(trainer_job_open(trainer, 0, &peft->source, &with), STATUS_OK);
    peft_close(peft);
    for (int64_t step = 0; step <= steps; step++) {
        struct batch_file *batch = &batches[alternate ? step % 2 : 0];
        char field[64];
        double loss = 0;
        double want;
        int64_t targets = 0;

        snprintf(field, sizeof(field), "losses%s", suffix);
        want = json_real_value(json_array_get(json_object_get(reference, field), (size_t)step));
        for (int32_t b = 0; b < batch->count; b++)
            for (int32_t t = 0; t < batch->sample[b].rows; t++)
                targets += batch->is_target[b][t];
        if (step == steps) {
            trainer_logp(trainer, batch->sample, batch->count, scores);
            for (int32_t b = 0; b < batch->count; b++)
                loss -= scores[b].logp / (double)targets;
            found.loss = fmax(found.loss, fabs(loss - want));
            continue;
        }
        if (step == 0 && suffix[0] == '\0') {
            for (int32_t b = 0; b < batch->count; b++)
                batch->sample[b].coef = 1.0f / (float)targets;
            trainer_pass(trainer, batch->sample, batch->count, scores);
            snprintf(relative, sizeof(relative), FOLDER "/%s/grads_step0_f32.safetensors", name);
            found.gradient = difference(trainer, TRAIN_GRADIENTS, relative);
            gradients_clear(trainer);
        }
        rates[0] = rate_of(reference, step);
        assert_int_equal(trainer_step(trainer, batch->sample, batch->count, rates, outcomes), STATUS_OK);
        assert_int_equal(outcomes[0].targets, targets);
        found.loss = fmax(found.loss, fabs(outcomes[0].loss - want));
        snprintf(field, sizeof(field), "grad_norms%s", suffix);
        want = json_real_value(json_array_get(json_object_get(reference, field), (size_t)step));
        found.norm = fmax(found.norm, fabs(outcomes[0].norm - want));
    }
    if (suffix[0] == '\0' && steps == RECORDED_STEPS) {
        snprintf(relative, sizeof(relative), FOLDER "/%s/adapter_final/adapter_model.safetensors", name);
        found.final = difference(trainer, TRAIN_MATRICES, relative);
    }
    json_decref(reference);
    trainer_close(trainer);
    return found;
}

struct model *recorded_model(const char *relative)
{
    const char *path = test_shared_path(relative);

    if (path == NULL) {
        printf("skipped: ../shared/%s is missing\n", relative);
        skip();
    }
    return rig_model(path);
}
