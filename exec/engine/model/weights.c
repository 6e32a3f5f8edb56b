/* One walk over all weights of a config serves opening, listing and writing models: what is read is what is written. */
#include "engine/model/weights.h"

#include <stdio.h>
#include <stdlib.h>

/* One weight of the model: PREFIX.weight, and PREFIX.bias where `bias`. */
struct place {
    char prefix[TENSOR_NAME_MAX];
    struct weight *weight;
    int32_t out, in; /* a gain: out = 1 */
    bool vector;
    bool bias;
};

typedef void place_seen(void *context, const struct place *place);

static const struct {
    const char *part;
    const char *name;
} linears[] = {
#define X(name, text, group) [LORA_##name] = {LORA_##name <= LORA_O ? "self_attn" : "mlp", text},
    LORA_MODULES(X)
#undef X
};

const char *model_linear_name(int32_t layer, enum lora_module module, const char *suffix, char *ret_name)
{
    snprintf(ret_name, TENSOR_NAME_MAX, "model.layers.%d.%s.%s%s", layer, linears[module].part, linears[module].name, suffix);
    return ret_name;
}

static struct weight *linear_of(struct layer_weights *layer, enum lora_module module)
{
    switch (module) {
    case LORA_Q: case LORA_K: case LORA_V: return &layer->qkv[module - LORA_Q];
    case LORA_O: return &layer->o;
    case LORA_GATE: case LORA_UP: return &layer->gate_up[module - LORA_GATE];
    default: return &layer->down;
    }
}

const struct weight *model_linear(const struct model *model, int32_t layer, enum lora_module module)
{
    check(layer >= 0 && layer < model->config.dims.layers);
    check(module < LORA_MODULE_COUNT);
    return linear_of(&model->weights.layer[layer], module);
}

static void walk_gain(place_seen *each, void *context, struct weight *weight, int32_t layer, const char *name, int32_t length)
{
    struct place place = {.weight = weight, .out = 1, .in = length, .vector = true};

    snprintf(place.prefix, sizeof(place.prefix), "model.layers.%d.%s", layer, name);
    each(context, &place);
}

static void walk_layer(const struct model_config *config, int32_t index, struct layer_weights *layer, place_seen *each,
                       void *context)
{
    const struct dims *dims = &config->dims;

    walk_gain(each, context, &layer->attn_norm, index, "input_layernorm", dims->hidden);
    walk_gain(each, context, &layer->mlp_norm, index, "post_attention_layernorm", dims->hidden);
    if (config->qk_norm) {
        walk_gain(each, context, &layer->q_norm, index, "self_attn.q_norm", dims->head_dim);
        walk_gain(each, context, &layer->k_norm, index, "self_attn.k_norm", dims->head_dim);
    }
    for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++) {
        struct place place = {.weight = linear_of(layer, module),
                              .out = lora_module_out(dims, module),
                              .in = lora_module_in(dims, module)};

        place.bias = module <= LORA_V ? config->qkv_bias : module == LORA_O ? config->o_bias : config->mlp_bias;
        model_linear_name(index, module, "", place.prefix);
        each(context, &place);
    }
}

/* layers: [layers], or NULL: their places are then of no use but as names and shapes. */
static void walk(const struct model_config *config, struct model_weights *weights, place_seen *each, void *context)
{
    const struct dims *dims = &config->dims;
    struct layer_weights nowhere;
    struct place embed = {"model.embed_tokens", &weights->embed, dims->vocabulary, dims->hidden, false, false};
    struct place norm = {"model.norm", &weights->norm, 1, dims->hidden, true, false};
    struct place head = {"lm_head", &weights->head, dims->vocabulary, dims->hidden, false, false};

    each(context, &embed);
    for (int32_t i = 0; i < dims->layers; i++)
        walk_layer(config, i, weights->layer != NULL ? &weights->layer[i] : &nowhere, each, context);
    each(context, &norm);
    if (!config->tied_head)
        each(context, &head);
}

struct lister {
    model_tensor_seen *each;
    void *context;
};

static void list_place(void *context, const struct place *place)
{
    const struct lister *lister = context;
    const int64_t shape[2] = {place->vector ? place->in : place->out, place->in};
    char name[TENSOR_NAME_MAX + 16];

    snprintf(name, sizeof(name), "%s.weight", place->prefix);
    lister->each(lister->context, name, shape, place->vector ? 1 : 2);
    if (!place->bias)
        return;
    snprintf(name, sizeof(name), "%s.bias", place->prefix);
    lister->each(lister->context, name, shape, 1);
}

void model_tensors(const struct model_config *config, model_tensor_seen *each, void *context)
{
    struct model_weights weights = {.layer = NULL};
    struct lister lister = {each, context};

    walk(config, &weights, list_place, &lister);
}

static void count_parameters(void *context, const char *name, const int64_t *shape, int32_t dims)
{
    (void)name;
    *(uint64_t *)context += (uint64_t)shape[0] * (dims == 2 ? (uint64_t)shape[1] : 1);
}

uint64_t model_parameters(const struct model_config *config)
{
    uint64_t count = 0;

    model_tensors(config, count_parameters, &count);
    return count;
}

#define FAULTS_NAMED_MAX 8

struct opener {
    struct model *model;
    const char *directory;
    bool *seen; /* [tensors of the files] */
    uint32_t faults;
    int64_t bytes_of[DTYPE_COUNT];
    struct refusal *refusal;
};

#define fault(opener, ...) \
    ((opener)->faults++ < FAULTS_NAMED_MAX ? (void)refuse_also((opener)->refusal, STATUS_INVALID, __VA_ARGS__) : (void)0)

/* NULL when it is missing or not as it should be; that has been noted then. */
static const struct tensor *take(struct opener *opener, const struct place *place, const char *suffix, bool vector,
                                 enum dtype *ret_dtype)
{
    char name[TENSOR_NAME_MAX + 16];
    char shape[TENSOR_SHAPE_TEXT_MAX];
    char wanted[TENSOR_SHAPE_TEXT_MAX];
    struct tensor pattern = {.dims = vector ? 1 : 2};
    const struct tensor *tensor;

    snprintf(name, sizeof(name), "%s.%s", place->prefix, suffix);
    pattern.shape[0] = vector && place->vector ? place->in : place->out;
    pattern.shape[1] = vector ? 0 : place->in;
    tensor = safetensors_find(opener->model->files, name);
    if (tensor == NULL) {
        fault(opener, "%s: tensor %s is missing%s", opener->directory, name,
              strcmp(place->prefix, "lm_head") == 0
                  ? "; if the embedding table is the head, config.json must say tie_word_embeddings: true"
                  : "");
        return NULL;
    }
    opener->seen[tensor - safetensors_at(opener->model->files, 0)] = true;
    if (tensor->dims != pattern.dims || tensor->shape[0] != pattern.shape[0] || tensor->shape[1] != pattern.shape[1]) {
        fault(opener, "%s: tensor %s is %s; by config.json it must be %s",
              safetensors_path(opener->model->files, tensor->file), name, tensor_shape_text(tensor, shape),
              tensor_shape_text(&pattern, wanted));
        return NULL;
    }
    if (!tensor_dtype(tensor, ret_dtype)) {
        fault(opener, "%s: tensor %s is of dtype %s; weights must be F32, F16 or BF16",
              safetensors_path(opener->model->files, tensor->file), name, tensor_type_name(tensor->type));
        return NULL;
    }
    opener->bytes_of[*ret_dtype] += tensor->bytes;
    return tensor;
}

static void open_place(void *context, const struct place *place)
{
    struct opener *opener = context;
    enum dtype dtype = DTYPE_F32;
    const struct tensor *tensor = take(opener, place, "weight", place->vector, &dtype);

    *place->weight = (struct weight){.data = tensor != NULL ? tensor->data : NULL,
                                     .dtype = dtype,
                                     .out = place->out,
                                     .in = place->in,
                                     .stride = place->in};
    if (!place->bias)
        return;
    tensor = take(opener, place, "bias", true, &dtype);
    place->weight->bias = tensor != NULL ? tensor->data : NULL;
    if (tensor != NULL && dtype != place->weight->dtype)
        fault(opener, "%s: tensor %s is not of its weight's dtype", opener->directory, tensor->name);
}

/* A head beside a tied table must be the same numbers: then it is a copy that may lie there. */
static void take_tied_head(struct opener *opener)
{
    const struct tensor *head = safetensors_find(opener->model->files, "lm_head.weight");
    const struct tensor *embed = safetensors_find(opener->model->files, "model.embed_tokens.weight");

    opener->model->weights.head = opener->model->weights.embed;
    if (head == NULL || embed == NULL)
        return;
    opener->seen[head - safetensors_at(opener->model->files, 0)] = true;
    if (head->type != embed->type || head->bytes != embed->bytes || memcmp(head->data, embed->data, (size_t)head->bytes) != 0)
        fault(
            opener,
            "%s: config.json says tie_word_embeddings, but lm_head.weight differs from model.embed_tokens.weight; one of the two is wrong",
            opener->directory);
}

static bool is_reckoned(const char *name)
{
    static const char ending[] = "rotary_emb.inv_freq";
    size_t length = strlen(name);

    return length >= strlen(ending) && strcmp(name + length - strlen(ending), ending) == 0;
}

static void find_surplus(struct opener *opener)
{
    for (uint32_t i = 0; i < safetensors_count(opener->model->files); i++) {
        const struct tensor *tensor = safetensors_at(opener->model->files, i);

        if (!opener->seen[i] && !is_reckoned(tensor->name))
            fault(opener, "%s: tensor %s is not part of a %s model",
                  safetensors_path(opener->model->files, tensor->file), tensor->name,
                  model_family_name(opener->model->config.family));
    }
}

static enum status open_weights(struct opener *opener)
{
    struct model *model = opener->model;

    opener->refusal->text[0] = '\0';
    walk(&model->config, &model->weights, open_place, opener);
    if (model->config.tied_head)
        take_tied_head(opener);
    find_surplus(opener);
    if (opener->faults > FAULTS_NAMED_MAX)
        refuse_also(opener->refusal, STATUS_INVALID, "and %u faults more", opener->faults - FAULTS_NAMED_MAX);
    for (int i = 0; i < DTYPE_COUNT; i++) {
        model->weights_bytes += opener->bytes_of[i];
        if (opener->bytes_of[i] > opener->bytes_of[model->dtype])
            model->dtype = (enum dtype)i;
    }
    return opener->faults > 0 ? STATUS_INVALID : STATUS_OK;
}

enum status model_open(const char *directory, struct model **ret_model, struct refusal *refusal)
{
    struct opener opener = {.directory = directory, .refusal = refusal};
    struct model *model = calloc(1, sizeof(*model));
    enum status status;

    if (model == NULL)
        return refuse(refusal, STATUS_IO, "%s: no memory", directory);
    status = model_config_read(directory, &model->config, refusal);
    if (status == STATUS_OK)
        status = safetensors_map_model(directory, &model->files, refusal);
    if (status != STATUS_OK)
        goto close_model;
    model->weights.layer = calloc((size_t)model->config.dims.layers, sizeof(*model->weights.layer));
    opener.seen = calloc((size_t)safetensors_count(model->files) + 1, sizeof(*opener.seen));
    opener.model = model;
    if (model->weights.layer == NULL || opener.seen == NULL)
        status = refuse(refusal, STATUS_IO, "%s: no memory", directory);
    else
        status = open_weights(&opener);
    free(opener.seen);
    if (status == STATUS_OK) {
        *ret_model = model;
        return STATUS_OK;
    }
close_model:
    model_close(model);
    return status;
}

void model_close(struct model *model)
{
    if (model == NULL)
        return;
    safetensors_close(model->files);
    free(model->weights.layer);
    free(model);
}
