#include "scene.h"

#include <math.h>
#include <stdlib.h>

#include "engine/lora/pack.h"

static const float eps = 1e-3f;
/* Stated ranks of the three jobs, all but one to be padded. */
static const int32_t ranks[SCENE_SEGMENTS] = {3, 16, 20};

static void *zeros(int64_t bytes)
{
    void *memory = calloc((size_t)bytes + 8, 1);

    check(memory != NULL);
    return memory;
}

static float *input_add(struct scene *scene, const char *name, int64_t count, float middle, float spread)
{
    struct scene_input *input = &scene->input[scene->inputs++];

    check(scene->inputs <= SCENE_INPUTS);
    *input = (struct scene_input){.name = name, .count = count, .values = zeros(count * 4), .gradient = zeros(count * 4)};
    for (int64_t i = 0; i < count; i++) {
        float value = middle + spread * (float)(2 * draw_unit(&scene->config.seed) - 1);

        /* In fast mode inputs are bf16 numbers, so that both ways see the same ones. */
        input->values[i] = scene->config.mode == MODE_FAST ? bf16_widen(bf16_round(value)) : value;
    }
    return input->values;
}

static struct scene_input *input_of(struct scene *scene, const char *name)
{
    for (int i = 0; i < scene->inputs; i++)
        if (strcmp(scene->input[i].name, name) == 0)
            return &scene->input[i];
    check_failed(name, __FILE__, __LINE__);
}

static enum dtype dtype_of(const struct scene *scene)
{
    return scene->config.mode == MODE_FAST ? DTYPE_BF16 : DTYPE_F32;
}

/* A copy as act, or as a weight's type. */
static void *act_of(struct scene *scene, const char *name)
{
    const struct scene_input *input = input_of(scene, name);
    void *to = zeros(input->count * 4);

    ref_round(scene->dev, to, input->values, input->count);
    return to;
}

static struct weight weight_of(struct scene *scene, const char *name, const char *bias, int32_t out, int32_t in)
{
    return (struct weight){.data = act_of(scene, name), .bias = bias == NULL ? NULL : act_of(scene, bias), .dtype = dtype_of(scene), .out = out,
                           .in = in, .stride = in};
}

static void weight_drop(struct weight *w)
{
    free((void *)(uintptr_t)w->data);
    free((void *)(uintptr_t)w->bias);
}

/* --- the batch -------------------------------------------------------------------------------------------------------------- */

static void batch_make(struct scene *scene)
{
    const struct scene_config *config = &scene->config;
    int32_t row = 0;
    int32_t block = 1;

    for (int s = 0; s < SCENE_SEQUENCES && config->sequence_rows[s] > 0; s++) {
        scene->sequence[s] = (struct sequence){.row = scene->now.rows, .rows = config->sequence_rows[s], .table = s};
        scene->now.rows += config->sequence_rows[s];
        scene->now.sequences++;
        for (int32_t b = 0; b * KV_BLOCK_TOKENS < config->sequence_rows[s]; b++)
            scene->block_table[s][b] = block++;
    }
    scene->token = zeros(scene->now.rows * 4);
    scene->position = zeros(scene->now.rows * 4);
    scene->out_row = zeros(scene->now.rows * 4);
    scene->target = zeros(scene->now.rows * 4);
    for (int32_t s = 0; s < scene->now.sequences; s++)
        for (int32_t t = 0; t < scene->sequence[s].rows; t++, row++) {
            scene->token[row] = (int32_t)draw_below(&scene->config.seed, (uint64_t)config->dims.vocabulary);
            scene->position[row] = t;
            if (row % 3 == 1)
                continue;
            scene->target[scene->now.outputs] = (int32_t)draw_below(&scene->config.seed, (uint64_t)config->dims.vocabulary);
            scene->out_row[scene->now.outputs++] = row;
        }
    row = 0;
    for (int i = 0; i < SCENE_SEGMENTS && config->segment_rows[i] > 0; i++) {
        scene->segment[scene->now.segments++] = (struct segment){.row = row, .rows = config->segment_rows[i], .slot = i};
        row += config->segment_rows[i];
    }
    check(row <= scene->now.rows);
    scene->batch = (struct batch){.max = scene->now, .now = &scene->now, .token = scene->token, .position = scene->position,
                                  .out_row = scene->out_row, .block_table = &scene->block_table[0][0], .blocks_max = 64,
                                  .sequence = scene->sequence, .segment = scene->segment};
}

static void dev_open(struct scene *scene)
{
    const struct dev_config config = {.dims = scene->config.dims, .mode = scene->config.mode, .threads = scene->config.threads,
                                      .kernels = scene->config.kernels, .rows_max = scene->now.rows, .outputs_max = scene->now.rows,
                                      .lora_rank_max = 32, .positions_max = scene->now.rows, .trains = true};
    char error[128];

    scene->dev = device_cpu.open(&config, error, sizeof(error));
    if (scene->dev == NULL)
        fail_msg("%s", error);
    scene->angles = zeros((int64_t)scene->now.rows * config.dims.head_dim * 4);
    for (int32_t p = 0; p < scene->now.rows; p++)
        for (int32_t i = 0; i < config.dims.head_dim / 2; i++) {
            double angle = p * pow(100, -2.0 * i / config.dims.head_dim);

            scene->angles[p * config.dims.head_dim + i] = (float)cos(angle);
            scene->angles[p * config.dims.head_dim + config.dims.head_dim / 2 + i] = (float)sin(angle);
        }
}

/* --- linear ----------------------------------------------------------------------------------------------------------------- */

struct linear {
    enum lora_group group;
    enum lora_module first;
    int n;
};

static struct linear linear_of(enum scene_kind kind)
{
    if (kind == SCENE_QKV)
        return (struct linear){LORA_GROUP_QKV, LORA_Q, 3};
    if (kind == SCENE_O)
        return (struct linear){LORA_GROUP_O, LORA_O, 1};
    return (struct linear){LORA_GROUP_GATE_UP, LORA_GATE, 2};
}

static const char *const weight_names[3] = {"w0", "w1", "w2"};
static const char *const bias_names[3] = {"bias0", "bias1", "bias2"};
static const char *const a_names[3][3] = {{"a00", "a01", "a02"}, {"a10", "a11", "a12"}, {"a20", "a21", "a22"}};
static const char *const b_names[3][3] = {{"b00", "b01", "b02"}, {"b10", "b11", "b12"}, {"b20", "b21", "b22"}};

static bool adapts(int job, int i)
{
    return !(job == 1 && i == 1); /* one module of one job is not there */
}

static int32_t module_out(const struct scene *scene, const struct linear *it, int i)
{
    return lora_module_out(&scene->config.dims, (enum lora_module)((int)it->first + i));
}

static void linear_inputs(struct scene *scene)
{
    const struct linear it = linear_of(scene->config.kind);
    const int32_t in = lora_module_in(&scene->config.dims, it.first);
    int64_t width = 0;

    input_add(scene, "x", (int64_t)scene->now.rows * in, 0, 1);
    for (int i = 0; i < it.n; i++) {
        const int32_t out = module_out(scene, &it, i);

        width += out;
        input_add(scene, weight_names[i], (int64_t)out * in, 0, 1 / sqrtf((float)in));
        if (it.group == LORA_GROUP_QKV)
            input_add(scene, bias_names[i], out, 0, 1);
        for (int job = 0; job < scene->now.segments; job++) {
            if (!adapts(job, i))
                continue;
            input_add(scene, a_names[job][i], (int64_t)ranks[job] * in, 0, 1 / sqrtf((float)in));
            input_add(scene, b_names[job][i], (int64_t)ranks[job] * out, 0, 0.5f);
        }
    }
    scene->outputs = scene->now.rows * width;
}

static void linear_pack(struct scene *scene, const struct linear *it)
{
    const struct dims *dims = &scene->config.dims;
    int64_t at = 0;

    free(scene->pool);
    scene->pool = zeros(SCENE_SEGMENTS * (lora_packed_bytes(dims, scene->config.mode, 32, 0x7f) + 256));
    for (int job = 0; job < scene->now.segments; job++) {
        struct lora_pair pairs[LORA_MODULE_COUNT] = {{0}};
        struct lora_source source = {.layers = 1, .rank = ranks[job], .pair = pairs};

        for (int i = 0; i < it->n; i++) {
            if (!adapts(job, i))
                continue;
            pairs[(int)it->first + i] = (struct lora_pair){.a = input_of(scene, a_names[job][i])->values,
                                                           .b = input_of(scene, b_names[job][i])->values,
                                                           .a_dtype = DTYPE_F32, .b_dtype = DTYPE_F32, .rank = ranks[job], .scale = 2};
            source.modules |= 1u << ((int)it->first + i);
        }
        lora_pack(&source, dims, scene->config.mode, true, scene->pool + at);
        scene->slot[job] = (struct lora_slot){.offset = at, .rank = lora_rank_padded(ranks[job]), .modules = source.modules};
        at += (lora_pack_bytes(&source, dims, scene->config.mode) + 255) / 256 * 256;
    }
    scene->lora = (struct lora){.pool = scene->pool, .slot = scene->slot, .group = it->group};
}

static void linear_weights(struct scene *scene, const struct linear *it, struct weight ret_w[3])
{
    for (int i = 0; i < it->n; i++)
        ret_w[i] = weight_of(scene, weight_names[i], it->group == LORA_GROUP_QKV ? bias_names[i] : NULL, module_out(scene, it, i),
                             lora_module_in(&scene->config.dims, it->first));
}

static void linear_forward(struct scene *scene, const struct ops *ops, float *out)
{
    const struct linear it = linear_of(scene->config.kind);
    void *x = act_of(scene, "x");
    struct weight w[3];

    linear_pack(scene, &it);
    linear_weights(scene, &it, w);
    ops->linear(scene->dev, out, x, w, it.n, &scene->lora, &scene->batch);
    for (int i = 0; i < it.n; i++)
        weight_drop(&w[i]);
    free(x);
}

static void linear_back(struct scene *scene, const struct train_ops *ops, const act *dy)
{
    const struct linear it = linear_of(scene->config.kind);
    void *x = act_of(scene, "x");
    struct weight w[3];
    struct weight_grad dw[3] = {{0}};
    struct lora_grad grad[SCENE_SEGMENTS * 3] = {{0}};

    linear_pack(scene, &it);
    linear_weights(scene, &it, w);
    for (int i = 0; i < it.n; i++) {
        dw[i].weight = input_of(scene, weight_names[i])->gradient;
        dw[i].bias = it.group == LORA_GROUP_QKV ? input_of(scene, bias_names[i])->gradient : NULL;
        for (int job = 0; job < scene->now.segments; job++)
            if (adapts(job, i))
                grad[job * it.n + i] = (struct lora_grad){.a = input_of(scene, a_names[job][i])->gradient,
                                                          .b = input_of(scene, b_names[job][i])->gradient, .rank = ranks[job], .scale = 2};
    }
    ops->linear_back(scene->dev, input_of(scene, "x")->gradient, dy, x, w, it.n, &scene->lora, grad, dw, &scene->batch);
    for (int i = 0; i < it.n; i++)
        weight_drop(&w[i]);
    free(x);
}

/* --- attention -------------------------------------------------------------------------------------------------------------- */

struct attention {
    void *q, *k, *v;
    struct weight q_gain, k_gain;
};

/* Turned and stored; attended over too when `y` is wanted. */
static struct attention attention_make(struct scene *scene, const struct ops *ops)
{
    const struct dims *dims = &scene->config.dims;
    const int64_t blocks = 1 + scene->now.rows / KV_BLOCK_TOKENS + SCENE_SEQUENCES;
    struct attention it = {.q = zeros((int64_t)scene->now.rows * dims->heads * dims->head_dim * 4),
                           .k = zeros(blocks * dims->kv_heads * KV_BLOCK_TOKENS * dims->head_dim * 4),
                           .v = zeros(blocks * dims->kv_heads * KV_BLOCK_TOKENS * dims->head_dim * 4)};

    memset(it.k, 0xff, (size_t)(blocks * dims->kv_heads * KV_BLOCK_TOKENS * dims->head_dim * 4)); /* no number where nobody wrote */
    memset(it.v, 0xff, (size_t)(blocks * dims->kv_heads * KV_BLOCK_TOKENS * dims->head_dim * 4));
    if (scene->config.gains) {
        it.q_gain = weight_of(scene, "q_gain", NULL, 1, dims->head_dim);
        it.k_gain = weight_of(scene, "k_gain", NULL, 1, dims->head_dim);
    }
    ops->rope_store(scene->dev, it.q, it.k, it.v, input_of(scene, "qkv")->values, &it.q_gain, &it.k_gain, eps, scene->angles, &scene->batch);
    return it;
}

static void attention_drop(struct attention *it)
{
    weight_drop(&it->q_gain);
    weight_drop(&it->k_gain);
    free(it->q);
    free(it->k);
    free(it->v);
}

static void attention_forward(struct scene *scene, const struct ops *ops, act *out)
{
    struct attention it = attention_make(scene, ops);

    ops->attend(scene->dev, out, it.q, it.k, it.v, &scene->batch);
    attention_drop(&it);
}

static void attention_back(struct scene *scene, const struct train_ops *ops, const float *dy)
{
    struct attention it = attention_make(scene, &ops_ref);
    struct scene_input *qkv = input_of(scene, "qkv");
    const bool gains = scene->config.gains;
    float *dturned = zeros(qkv->count * 4);
    void *dqkv = zeros(qkv->count * 4);

    ops->attend_back(scene->dev, dturned, dy, it.q, it.k, it.v, &scene->batch);
    ops->rope_back(scene->dev, dqkv, dturned, gains ? qkv->values : NULL, &it.q_gain, &it.k_gain, eps, scene->angles,
                   gains ? input_of(scene, "q_gain")->gradient : NULL, gains ? input_of(scene, "k_gain")->gradient : NULL, &scene->batch);
    for (int64_t i = 0; i < qkv->count; i++)
        qkv->gradient[i] = (float)act_load(scene->config.mode, dqkv, i);
    free(dturned);
    free(dqkv);
    attention_drop(&it);
}

/* --- all of them ------------------------------------------------------------------------------------------------------------ */

static void inputs_make(struct scene *scene)
{
    const struct dims *dims = &scene->config.dims;
    const int64_t rows = scene->now.rows;

    switch (scene->config.kind) {
    case SCENE_NORM:
        input_add(scene, "x", rows * dims->hidden, 0, 1);
        input_add(scene, "gain", dims->hidden, 1, 0.5f);
        scene->outputs = rows * dims->hidden;
        break;
    case SCENE_ATTENTION:
        input_add(scene, "qkv", rows * (dims->heads + 2 * dims->kv_heads) * dims->head_dim, 0, 1.5f);
        if (scene->config.gains) {
            input_add(scene, "q_gain", dims->head_dim, 1, 0.5f);
            input_add(scene, "k_gain", dims->head_dim, 1, 0.5f);
        }
        scene->outputs = rows * dims->heads * dims->head_dim;
        break;
    case SCENE_SWIGLU:
        input_add(scene, "gate_up", rows * 2 * dims->ffn, 0, 3);
        scene->outputs = rows * dims->ffn;
        break;
    case SCENE_HEAD:
        input_add(scene, "x", rows * dims->hidden, 0, 1);
        input_add(scene, "w0", (int64_t)dims->vocabulary * dims->hidden, 0, 2 / sqrtf((float)dims->hidden));
        scene->outputs = scene->now.outputs;
        break;
    case SCENE_EMBED:
        input_add(scene, "table", (int64_t)dims->vocabulary * dims->hidden, 0, 1);
        scene->outputs = rows * dims->hidden;
        break;
    default:
        linear_inputs(scene);
        break;
    }
    scene->out_weight = zeros(scene->outputs * 4);
    for (int64_t i = 0; i < scene->outputs; i++) {
        float value = (float)(2 * draw_unit(&scene->config.seed) - 1);

        scene->out_weight[i] = scene->config.mode == MODE_FAST ? bf16_widen(bf16_round(value)) : value;
    }
}

void scene_open(struct scene *scene, const struct scene_config *config)
{
    memset(scene, 0, sizeof(*scene));
    scene->config = *config;
    batch_make(scene);
    dev_open(scene);
    inputs_make(scene);
}

void scene_close(struct scene *scene)
{
    device_cpu.close(scene->dev);
    for (int i = 0; i < scene->inputs; i++) {
        free(scene->input[i].values);
        free(scene->input[i].gradient);
    }
    free(scene->token);
    free(scene->position);
    free(scene->out_row);
    free(scene->target);
    free(scene->angles);
    free(scene->out_weight);
    free(scene->pool);
}

double scene_forward(struct scene *scene, const struct ops *ops)
{
    const struct dims *dims = &scene->config.dims;
    const enum mode mode = scene->config.mode;
    void *out = zeros(scene->outputs * 4 + (int64_t)scene->now.rows * dims->vocabulary * 4);
    int32_t *best = zeros(scene->outputs * 4);
    void *copy = NULL;
    struct weight w = {0};
    bool is_act = true;
    double sum = 0;

    switch (scene->config.kind) {
    case SCENE_NORM:
        copy = zeros(scene->outputs * 4);
        memcpy(copy, input_of(scene, "x")->values, (size_t)scene->outputs * 4);
        w = weight_of(scene, "gain", NULL, 1, dims->hidden);
        ops->norm(scene->dev, out, copy, NULL, &w, eps, &scene->batch);
        break;
    case SCENE_ATTENTION:
        attention_forward(scene, ops, out);
        break;
    case SCENE_SWIGLU:
        ops->swiglu(scene->dev, out, input_of(scene, "gate_up")->values, &scene->batch);
        break;
    case SCENE_HEAD:
        copy = act_of(scene, "x");
        w = weight_of(scene, "w0", NULL, dims->vocabulary, dims->hidden);
        ops->head(scene->dev, (float *)out + scene->outputs, copy, &w, &scene->batch);
        ref_loss(scene->dev, out, best, NULL, (float *)out + scene->outputs, scene->target, NULL, &scene->batch);
        is_act = false;
        break;
    case SCENE_EMBED:
        w = weight_of(scene, "table", NULL, dims->vocabulary, dims->hidden);
        ops->embed(scene->dev, out, &w, &scene->batch);
        is_act = false;
        break;
    default:
        linear_forward(scene, ops, out);
        is_act = false;
        break;
    }
    for (int64_t i = 0; i < scene->outputs; i++)
        sum += (double)scene->out_weight[i] * (is_act ? act_load(mode, out, i) : (double)((float *)out)[i]);
    weight_drop(&w);
    free(copy);
    free(best);
    free(out);
    return sum;
}

/* The number is the sum of weight * log p, so coef = -weight. */
static void head_back(struct scene *scene, const struct train_ops *ops)
{
    const struct dims *dims = &scene->config.dims;
    void *x = act_of(scene, "x");
    struct weight w = weight_of(scene, "w0", NULL, dims->vocabulary, dims->hidden);
    float *logits = zeros((int64_t)scene->now.rows * dims->vocabulary * 4);
    void *dlogits = zeros((int64_t)scene->now.rows * dims->vocabulary * 4);
    float *coef = zeros(scene->outputs * 4);
    float *logp = zeros(scene->outputs * 4);
    int32_t *best = zeros(scene->outputs * 4);

    for (int64_t i = 0; i < scene->outputs; i++)
        coef[i] = -scene->out_weight[i];
    ref_round(scene->dev, dlogits, logits, 0);
    ops_ref.head(scene->dev, logits, x, &w, &scene->batch);
    ops->loss(scene->dev, logp, best, dlogits, logits, scene->target, coef, &scene->batch);
    ops->head_back(scene->dev, input_of(scene, "x")->gradient, input_of(scene, "w0")->gradient, dlogits, x, &w, &scene->batch);
    free(x);
    free(logits);
    free(dlogits);
    free(coef);
    free(logp);
    free(best);
    weight_drop(&w);
}

void scene_back(struct scene *scene, const struct train_ops *ops)
{
    const struct dims *dims = &scene->config.dims;
    void *dy = zeros(scene->outputs * 4);
    void *da = zeros(scene->outputs * 8);
    struct weight w = {0};
    struct scene_input *in = &scene->input[0];

    for (int i = 0; i < scene->inputs; i++)
        memset(scene->input[i].gradient, 0, (size_t)scene->input[i].count * 4);
    ref_round(scene->dev, dy, scene->out_weight, scene->outputs);
    switch (scene->config.kind) {
    case SCENE_NORM:
        w = weight_of(scene, "gain", NULL, 1, dims->hidden);
        ops->norm_back(scene->dev, da, in->gradient, scene->out_weight, in->values, &w, eps, input_of(scene, "gain")->gradient,
                       &scene->batch);
        break;
    case SCENE_ATTENTION:
        attention_back(scene, ops, scene->out_weight);
        break;
    case SCENE_SWIGLU:
        ops->swiglu_back(scene->dev, da, scene->out_weight, in->values, &scene->batch);
        for (int64_t i = 0; i < in->count; i++)
            in->gradient[i] = (float)act_load(scene->config.mode, da, i);
        break;
    case SCENE_HEAD:
        head_back(scene, ops);
        break;
    case SCENE_EMBED:
        ops->embed_back(scene->dev, in->gradient, scene->out_weight, &scene->batch);
        break;
    default:
        linear_back(scene, ops, dy);
        break;
    }
    weight_drop(&w);
    free(dy);
    free(da);
}
