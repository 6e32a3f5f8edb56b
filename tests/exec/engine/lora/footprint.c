#include "exec/engine/lora/footprint.h"

#include "model/footprint.h"

static struct shape shape_of(const struct footprint_dims *dims)
{
    return (struct shape){.layers = dims->layers, .hidden = dims->hidden, .heads = dims->heads, .kv_heads = dims->kv_heads,
                          .head_dim = dims->head_dim, .ffn = dims->ffn, .vocabulary = dims->vocabulary, .weight_bits = 16};
}

uint64_t footprint_file_bytes(const struct footprint_dims *dims, uint32_t modules, uint32_t rank)
{
    struct shape shape = shape_of(dims);

    return footprint_adapter_bytes(&shape, modules, rank);
}

uint64_t footprint_pool_bytes(const struct footprint_dims *dims, uint32_t modules, uint32_t rank, uint32_t value_bytes)
{
    struct shape shape = shape_of(dims);

    return footprint_adapter_packed_bytes(&shape, modules, rank, value_bytes);
}

uint64_t footprint_tensors(const struct footprint_dims *dims, uint32_t modules)
{
    struct shape shape = shape_of(dims);

    return footprint_adapter_tensors(&shape, modules);
}
