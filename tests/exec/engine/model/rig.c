#include "rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/lora/pack.h"
#include "engine/lora/peft.h"

struct engine engine_open(const struct engine_ask *ask)
{
    struct engine engine = {0};
    struct refusal refusal = {{0}};
    struct forward_config config = {.device = &device_cpu,
                                    .kernels = ask->kernels,
                                    .threads = ask->threads,
                                    .rows_max = ask->rows_max,
                                    .outputs_max = 8,
                                    .sequences_max = 8,
                                    .segments_max = 8,
                                    .blocks = 160,
                                    .slots = ask->slots > 0 ? ask->slots : 1,
                                    .pool_bytes = 8 << 20,
                                    .lora_rank_max = 64,
                                    .tp = 1};

    if (model_open(ask->directory, &engine.model, &refusal) != STATUS_OK)
        fail_msg("%s: %s", ask->directory, refusal.text);
    config.mode = ask->mode < 0 ? forward_default_mode(engine.model) : (enum mode)ask->mode;
    config.positions_max = engine.model->config.positions_max;
    config.best = (int32_t)min_u32(PICK_MAX, (uint32_t)engine.model->config.dims.vocabulary);
    if (forward_open(engine.model, &config, &engine.forward, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    engine.logits = malloc((size_t)engine.model->config.dims.vocabulary * sizeof(float));
    return engine;
}

void engine_close(struct engine *engine)
{
    forward_close(engine->forward);
    model_close(engine->model);
    free(engine->logits);
}

double engine_logprob(struct engine *engine, int32_t output, int32_t id)
{
    struct forward_output best = forward_output(engine->forward, output);

    forward_logits(engine->forward, output, engine->logits);
    return (double)engine->logits[id] - (double)best.lse;
}

void engine_logprobs(struct engine *engine, const int32_t *ids, int32_t count, int32_t chunk, int32_t slot, double *ret)
{
    int32_t blocks[160];

    for (int32_t i = 0; i < 160; i++)
        blocks[i] = i + 1;
    for (int32_t at = 0; at + 1 < count; at += chunk) {
        int32_t rows = at + chunk < count ? chunk : count - at;
        const struct forward_part part = {
            .tokens = ids + at, .blocks = blocks, .rows = rows, .before = at, .slot = slot, .wants_output = true};

        forward_step(engine->forward, &part, 1);
        if (at + rows < count)
            ret[at + rows - 1] = engine_logprob(engine, 0, ids[at + rows]);
    }
}

bool engine_looks_at(enum kernel_set set)
{
#ifdef __SANITIZE_ADDRESS__
    return set == kernel_set_best();
#else
    return kernel_set_runs_here(set);
#endif
}

json_t *reference_lines(const char *name)
{
    char relative[256];
    const char *path;
    json_t *lines = json_array();
    char *line = NULL;
    size_t size = 0;
    FILE *file;

    snprintf(relative, sizeof(relative), "models/reference/%s", name);
    path = test_shared_path(relative);
    file = path != NULL ? fopen(path, "r") : NULL;
    if (file == NULL) {
        json_decref(lines);
        return NULL;
    }
    while (getline(&line, &size, file) > 0) {
        json_t *value = json_loads(line, 0, NULL);

        assert_non_null(value);
        json_array_append_new(lines, value);
    }
    free(line);
    fclose(file);
    return lines;
}

int32_t ids_of(const json_t *array, int32_t *ret_ids, int32_t max)
{
    int32_t count = (int32_t)json_array_size(array);

    assert_true(count <= max);
    for (int32_t i = 0; i < count; i++)
        ret_ids[i] = (int32_t)json_integer_value(json_array_get(array, (size_t)i));
    return count;
}

int64_t engine_adapter(struct engine *engine, const char *directory, int32_t slot, int64_t offset)
{
    struct refusal refusal = {{0}};
    struct peft *peft;
    int64_t bytes;
    void *blob;

    if (peft_open(directory, &engine->model->config, 64, &peft, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    bytes = lora_pack_bytes(&peft->source, forward_dims(engine->forward), forward_mode(engine->forward));
    blob = malloc((size_t)bytes);
    lora_pack(&peft->source, forward_dims(engine->forward), forward_mode(engine->forward), forward_b_in_pairs(engine->forward), blob);
    forward_put(engine->forward, offset, blob, bytes);
    forward_slot(engine->forward, slot, &(struct lora_slot){.offset = offset, .rank = lora_rank_padded(peft->source.rank),
                                                            .generation = 1, .modules = peft->source.modules});
    free(blob);
    peft_close(peft);
    return offset + (bytes + 255) / 256 * 256;
}
