/* Bytes and FLOPs of a model, its adapters, its KV cache and its training: ONE formula for the simulator, the policies
 * and the trainers. Every function is pure. Sources: Kaplan et al. 2020 (2 FLOPs a parameter and token
 * forward, 4 backward); Hu et al. 2021 (LoRA: r * (d_in + d_out) parameters a matrix).
 * tp: tensor-parallel degree, >= 1; figures "a GPU" are ceilings of the share.
 * Of an averaged shape only the adapter's figures exist; asking for another is a mistake (checked). */
#ifndef MODEL_FOOTPRINT_H
#define MODEL_FOOTPRINT_H

#include "model/lora_modules.h"
#include "model/shape.h"

uint64_t footprint_parameters(const struct shape *shape);            /* all weights, embeddings once if tied */
uint64_t footprint_embedding_parameters(const struct shape *shape);  /* the input table: vocabulary * hidden */
uint64_t footprint_weights_bytes(const struct shape *shape);
/* What a decode step reads: the weights without the input embedding (of which it reads a row a token). A tied table is
 * still read as the output head. */
uint64_t footprint_step_weights_bytes(const struct shape *shape);
/* Parameters that a token's forward pass multiplies with: without the input embedding. */
uint64_t footprint_step_parameters(const struct shape *shape);

uint64_t footprint_kv_bytes_per_token(const struct shape *shape);                    /* 2 * layers * kv_heads * head_dim * 2 */
uint64_t footprint_kv_bytes_per_token_gpu(const struct shape *shape, uint32_t tp);   /* max(1, kv_heads / tp) heads */

/* modules: bits 1 << enum lora_module. Sum over the modules of d_in + d_out, times layers: parameters a unit of rank. */
uint64_t footprint_adapter_parameters_per_rank(const struct shape *shape, uint32_t modules);
uint64_t footprint_adapter_parameters(const struct shape *shape, uint32_t modules, uint32_t rank);
/* The same with one matrix's share rounded to two significant digits before it is multiplied, as on a napkin: rank 16
 * of a mean of 13,000 is 208,000 -> 210,000 a matrix. Only of an averaged shape. */
uint64_t footprint_adapter_parameters_rounded(const struct shape *shape, uint32_t modules, uint32_t rank);
uint64_t footprint_adapter_bytes(const struct shape *shape, uint32_t modules, uint32_t rank); /* bf16 */
/* What it takes in a pool of adapters, where it lies packed: the rank is padded to a multiple of 16, and every matrix begins at a multiple of
 * 64 bytes (q, k, v share one matrix A, gate and up another). value_bytes: 2 in bf16, 4 in f32. Of an averaged shape without the 64. */
uint64_t footprint_adapter_packed_bytes(const struct shape *shape, uint32_t modules, uint32_t rank, uint32_t value_bytes);
uint64_t footprint_adapter_tensors(const struct shape *shape, uint32_t modules);              /* A and B a matrix */

/* Activations of one serving step on one GPU: token_budget * (4 * hidden + 3 * ffn / tp) * 2 bytes. A tensor-parallel group
 * cuts the FFN's insides; the residual stream, its norm and what the all-reduces add are whole on every GPU (Shoeybi et al.
 * 2019, without sequence parallelism), and so are the four widths of hidden counted: on the safe side by what is cut of q and
 * of the attention's output. */
uint64_t footprint_serving_activation_bytes_gpu(const struct shape *shape, uint32_t token_budget, uint32_t tp);

/* Training state of one LoRA job beside the base. Gradients bf16, moments two f32: 84 + 84 + 336 MB for r = 16 on 8B. */
struct training_bytes {
    uint64_t adapter;
    uint64_t gradients;
    uint64_t moments;
    uint64_t activations; /* batch_tokens live with recomputation by layer */
    uint64_t total;
};
struct training_bytes footprint_training_bytes(const struct shape *shape, uint32_t modules, uint32_t rank, uint32_t batch_tokens);

/* FLOPs to train on `tokens` (all epochs counted): 6ND full, 4ND LoRA (frozen weights need no weight gradient). N is
 * nominal when `parameters_nominal` > 0 (8e9 for "8B"), else footprint_parameters(). */
#define TRAIN_FLOPS_FULL 6u
#define TRAIN_FLOPS_LORA 4u
double footprint_training_flops(uint64_t parameters, uint64_t tokens, uint32_t flops_per_parameter_token);
double footprint_training_seconds(double flops, uint32_t gpus, double flops_per_s, double utilization);

/* k jobs on one resident base: N + k * (adapter + gradients + moments + activations). */
uint64_t footprint_shared_base_bytes(const struct shape *shape, uint32_t jobs, uint64_t bytes_per_job);

/* How many `item_bytes` fit whole in `room_bytes`. */
uint64_t footprint_fit_count(uint64_t room_bytes, uint64_t item_bytes);
/* bytes / rate + first byte, rounded up to a nanosecond. */
int64_t footprint_transfer_ns(uint64_t bytes, double bytes_per_s, int64_t first_byte_ns);

#endif
