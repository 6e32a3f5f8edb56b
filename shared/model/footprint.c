/* The one place where dimensions become bytes and FLOPs. Counts are exact integers; only what divides by a rate is a
 * double. Norm gains are counted, group scales of quantised weights are not (a few percent at 4 bits). */
#include "model/footprint.h"

struct matrix {
    uint64_t in;
    uint64_t out;
};

static struct matrix matrix_of(const struct shape *shape, enum lora_module module)
{
    uint64_t query = (uint64_t)shape->heads * shape->head_dim;
    uint64_t key = (uint64_t)shape->kv_heads * shape->head_dim;
    const struct matrix matrices[LORA_MODULE_COUNT] = {
        [LORA_Q] = {shape->hidden, query},
        [LORA_K] = {shape->hidden, key},
        [LORA_V] = {shape->hidden, key},
        [LORA_O] = {query, shape->hidden},
        [LORA_GATE] = {shape->hidden, shape->ffn},
        [LORA_UP] = {shape->hidden, shape->ffn},
        [LORA_DOWN] = {shape->ffn, shape->hidden},
    };

    return matrices[module];
}

/* The seven matrices of all layers: what a quantised model stores in fewer bits. */
static uint64_t matrix_parameters(const struct shape *shape)
{
    uint64_t sum = 0;

    check(!shape->averaged);
    for (uint32_t i = 0; i < LORA_MODULE_COUNT; i++) {
        struct matrix matrix = matrix_of(shape, (enum lora_module)i);

        sum += matrix.in * matrix.out;
    }
    return sum * shape->layers;
}

/* Two norms a layer and a last one; biases of q, k and v. */
static uint64_t vector_parameters(const struct shape *shape)
{
    uint64_t biases = shape->qkv_bias ? ((uint64_t)shape->heads + 2 * (uint64_t)shape->kv_heads) * shape->head_dim : 0;

    return shape->layers * (2 * (uint64_t)shape->hidden + biases) + shape->hidden;
}

uint64_t footprint_embedding_parameters(const struct shape *shape)
{
    check(!shape->averaged);
    return (uint64_t)shape->vocabulary * shape->hidden;
}

uint64_t footprint_parameters(const struct shape *shape)
{
    uint64_t tables = shape->tied_embeddings ? 1 : 2;

    return matrix_parameters(shape) + vector_parameters(shape) + tables * footprint_embedding_parameters(shape);
}

uint64_t footprint_step_parameters(const struct shape *shape)
{
    return matrix_parameters(shape) + vector_parameters(shape) + footprint_embedding_parameters(shape);
}

/* Quantisers leave norms, embeddings and the output head at 16 bits. */
static uint64_t bytes_of(const struct shape *shape, uint64_t parameters)
{
    uint64_t matrices = matrix_parameters(shape);

    return div_up_u64(matrices * shape->weight_bits + (parameters - matrices) * max_u32(shape->weight_bits, 16), 8);
}

uint64_t footprint_weights_bytes(const struct shape *shape)
{
    return bytes_of(shape, footprint_parameters(shape));
}

uint64_t footprint_step_weights_bytes(const struct shape *shape)
{
    return bytes_of(shape, footprint_step_parameters(shape));
}

uint64_t footprint_kv_bytes_per_token_gpu(const struct shape *shape, uint32_t tp)
{
    check(!shape->averaged);
    check(tp >= 1);
    return 2 * (uint64_t)shape->layers * div_up_u64(shape->kv_heads, tp) * shape->head_dim * 2;
}

uint64_t footprint_kv_bytes_per_token(const struct shape *shape)
{
    return footprint_kv_bytes_per_token_gpu(shape, 1);
}

static uint32_t modules_count(uint32_t modules)
{
    check((modules & ~LORA_ALL_LINEAR) == 0);
    return (uint32_t)__builtin_popcount(modules);
}

uint64_t footprint_adapter_parameters_per_rank(const struct shape *shape, uint32_t modules)
{
    uint64_t sum = 0;

    if (shape->averaged)
        return (uint64_t)shape->layers * modules_count(modules) * shape->averaged_sum;
    check((modules & ~LORA_ALL_LINEAR) == 0);
    for (uint32_t i = 0; i < LORA_MODULE_COUNT; i++)
        if (modules >> i & 1) {
            struct matrix matrix = matrix_of(shape, (enum lora_module)i);

            sum += matrix.in + matrix.out;
        }
    return sum * shape->layers;
}

uint64_t footprint_adapter_parameters(const struct shape *shape, uint32_t modules, uint32_t rank)
{
    return rank * footprint_adapter_parameters_per_rank(shape, modules);
}

static uint64_t round_two_digits(uint64_t value)
{
    uint64_t unit = 1;

    while (value / unit >= 100)
        unit *= 10;
    return (value + unit / 2) / unit * unit;
}

uint64_t footprint_adapter_parameters_rounded(const struct shape *shape, uint32_t modules, uint32_t rank)
{
    check(shape->averaged);
    return round_two_digits((uint64_t)rank * shape->averaged_sum) * shape->layers * modules_count(modules);
}

uint64_t footprint_adapter_bytes(const struct shape *shape, uint32_t modules, uint32_t rank)
{
    return 2 * footprint_adapter_parameters(shape, modules, rank);
}

static uint64_t pad(uint64_t value, uint64_t step)
{
    return div_up_u64(value, step) * step;
}

uint64_t footprint_adapter_packed_bytes(const struct shape *shape, uint32_t modules, uint32_t rank, uint32_t value_bytes)
{
    /* Modules that share an input stand one after the other. */
    static const uint32_t groups[] = {1u << LORA_Q | 1u << LORA_K | 1u << LORA_V, 1u << LORA_O, 1u << LORA_GATE | 1u << LORA_UP,
                                      1u << LORA_DOWN};
    uint64_t row_bytes = pad(rank, 16) * value_bytes;
    uint64_t sum = 0;

    check((modules & ~LORA_ALL_LINEAR) == 0);
    if (shape->averaged)
        return row_bytes * footprint_adapter_parameters_per_rank(shape, modules);
    for (size_t group = 0; group < ARRAY_COUNT(groups); group++) {
        uint64_t inputs = 0;

        for (uint32_t i = 0; i < LORA_MODULE_COUNT; i++)
            if ((groups[group] & modules) >> i & 1) {
                struct matrix matrix = matrix_of(shape, (enum lora_module)i);

                inputs += matrix.in;
                sum += pad(row_bytes * matrix.out, 64);
            }
        sum += pad(row_bytes * inputs, 64);
    }
    return sum * shape->layers;
}

uint64_t footprint_adapter_tensors(const struct shape *shape, uint32_t modules)
{
    return 2 * (uint64_t)modules_count(modules) * shape->layers;
}

uint64_t footprint_serving_activation_bytes_gpu(const struct shape *shape, uint32_t token_budget, uint32_t tp)
{
    check(!shape->averaged);
    check(tp >= 1);
    return (uint64_t)token_budget * (4 * (uint64_t)shape->hidden + 3 * div_up_u64(shape->ffn, tp)) * 2;
}

/* With recomputation by layer a token keeps the input of every layer, one layer's insides, and its logits in f32. */
static uint64_t training_activation_bytes(const struct shape *shape, uint32_t batch_tokens)
{
    if (batch_tokens == 0)
        return 0;
    return footprint_serving_activation_bytes_gpu(shape, batch_tokens, 1) +
           (uint64_t)batch_tokens * (2 * (uint64_t)shape->layers * shape->hidden + 4 * (uint64_t)shape->vocabulary);
}

struct training_bytes footprint_training_bytes(const struct shape *shape, uint32_t modules, uint32_t rank,
                                               uint32_t batch_tokens)
{
    uint64_t parameters = footprint_adapter_parameters(shape, modules, rank);
    struct training_bytes bytes = {
        .adapter = 2 * parameters,
        .gradients = 2 * parameters,
        .moments = 2 * 4 * parameters,
        .activations = training_activation_bytes(shape, batch_tokens),
    };

    bytes.total = bytes.adapter + bytes.gradients + bytes.moments + bytes.activations;
    return bytes;
}

double footprint_training_flops(uint64_t parameters, uint64_t tokens, uint32_t flops_per_parameter_token)
{
    return (double)flops_per_parameter_token * (double)parameters * (double)tokens;
}

double footprint_training_seconds(double flops, uint32_t gpus, double flops_per_s, double utilization)
{
    check(gpus >= 1);
    check(flops_per_s > 0);
    check(utilization > 0);
    return flops / ((double)gpus * flops_per_s * utilization);
}

uint64_t footprint_shared_base_bytes(const struct shape *shape, uint32_t jobs, uint64_t bytes_per_job)
{
    return footprint_weights_bytes(shape) + jobs * bytes_per_job;
}

uint64_t footprint_fit_count(uint64_t room_bytes, uint64_t item_bytes)
{
    check(item_bytes > 0);
    return room_bytes / item_bytes;
}

int64_t footprint_transfer_ns(uint64_t bytes, double bytes_per_s, int64_t first_byte_ns)
{
    check(bytes_per_s > 0);
    check(first_byte_ns >= 0);

    double ns = (double)bytes * 1e9 / bytes_per_s;

    check(ns < 4e18);

    int64_t whole_ns = (int64_t)ns;

    return whole_ns + ((double)whole_ns < ns) + first_byte_ns;
}
