/* shared/model/footprint.h and engine/ops/values.h both name the seven modules, in the same order but as two enums, so
 * a file can see only one of them; this one stands between. */
#ifndef TESTS_LORA_FOOTPRINT_H
#define TESTS_LORA_FOOTPRINT_H

#include <stdint.h>

struct footprint_dims {
    uint32_t layers, hidden, heads, kv_heads, head_dim, ffn, vocabulary;
};
uint64_t footprint_file_bytes(const struct footprint_dims *dims, uint32_t modules, uint32_t rank); /* bf16 */
uint64_t footprint_pool_bytes(const struct footprint_dims *dims, uint32_t modules, uint32_t rank, uint32_t value_bytes);
uint64_t footprint_tensors(const struct footprint_dims *dims, uint32_t modules);

#endif
