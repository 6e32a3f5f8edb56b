/* A GPU and its surroundings as numbers, read from a file under scenarios/hardware. Every number in a file carries its
 * source: `memory_bytes: {value: 80e9, source: "..."}`. */
#ifndef HARDWARE_PROFILE_H
#define HARDWARE_PROFILE_H

#include <stdio.h>

#include "base/base.h"

/* X(field, min, max, about): all double, all required in a profile file. */
#define PROFILE_KEYS(X)                                                                                            \
    X(memory_bytes, 1e6, 1e18, "of one GPU")                                                                       \
    X(memory_bytes_per_s, 1, 1e30, "peak memory bandwidth")                                                        \
    X(flops_per_s, 1, 1e30, "peak dense bf16, or f16 where bf16 is slower")                                        \
    X(host_bytes_per_s, 1, 1e30, "host to GPU, pinned, measured or the link's usable rate")                        \
    X(peer_bytes_per_s, 1, 1e30, "between GPUs of a replica, one direction")                                       \
    X(peer_latency_us, 0, 1e6, "alpha: one all-reduce's fixed cost; 8 NVLink, 30 PCIe")                            \
    X(store_bytes_per_s, 1, 1e30, "object store to a node, all connections together")                              \
    X(store_connection_bytes_per_s, 1, 1e30, "one connection's cap")                                               \
    X(store_first_byte_ms, 0, 1e6, "until an object's first byte")                                                 \
    X(decrypt_bytes_per_s, 1, 1e30, "decrypt and verify on the store path, one core")                              \
    X(load_fixed_us, 0, 1e9, "a host to GPU copy's fixed cost")                                                    \
    X(fixed_us, 0, 1e9, "t0 of a step")                                                                            \
    X(row_us, 0, 1e9, "c_row: a row's cost in a step")                                                             \
    X(weights_efficiency, 1e-6, 1, "e_w")                                                                          \
    X(kv_efficiency, 1e-6, 1, "e_kv")                                                                              \
    X(flops_efficiency, 1e-6, 1, "e_f")                                                                            \
    X(attention_efficiency, 1e-6, 1, "e_a")                                                                        \
    X(lora_bytes_efficiency, 1e-6, 1, "of bandwidth, reading adapters")                                            \
    X(lora_flops_efficiency, 1e-6, 1, "of peak, LoRA products")                                                    \
    X(launch_us, 0, 1e6, "one LoRA kernel")                                                                        \
    X(slora_rank_us, 0, 1e6, "S-LoRA's kernels: a unit of rank, summed over distinct adapters")                                  \
    X(slora_fixed_us, 0, 1e9, "S-LoRA's kernels: a step with any adapter")                                         \
    X(price_per_h, 0, 1e6, "one GPU, in currency units; 0: unknown")

#define PROFILE_NAME_MAX 64
struct gpu_profile {
    char name[PROFILE_NAME_MAX];
    char title[128]; /* "NVIDIA H100 SXM 80 GB" */
#define X(field, min, max, about) double field;
    PROFILE_KEYS(X)
#undef X
};

/* `name`: a profile of scenarios/hardware (found beside `directory`'s tree, see profile.c), or a path ending in .yaml.
 * On failure says what and where on `errors`. */
enum status profile_read(const char *name, const char *directory, FILE *errors, struct gpu_profile *ret_profile);

#endif
