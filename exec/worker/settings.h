/* Options that generate and server have in common: what a worker is made of. */
#ifndef WORKER_SETTINGS_H
#define WORKER_SETTINGS_H

#include "host/options.h"
#include "worker/worker.h"

#define WORKER_OPTIONS(X)                                                                                         \
    X(merged_as, "NAME", "the adapter that MODEL's weights have in them, by berth-exec model merge; it answers for NAME alone") \
    X(device, "KIND", "cpu, cuda, or auto (default): CUDA where its library loads and a GPU is there, else the CPU")  \
    X(base_socket, "PATH", "borrow the base, on a GPU, from the berth-exec hold that listens there")               \
    X(mode, "MODE", "exact (f32, the default of F32 and F16 bases) or fast (bfloat16, the default of BF16 bases)") \
    X(kernels, "SET", "a set of CPU kernels that berth-exec devices lists; the best by default")                  \
    X(threads, "N", "CPU threads (default: all)")                                                                 \
    X(deterministic, NULL, "on CUDA: equal bits alone and in any batch; the CPU always does that")                \
    X(context, "TOKENS", "the longest sequence (default: the model's, at most 8192)")                             \
    X(sequences, "N", "sequences in a batch (default 64)")                                                        \
    X(token_budget, "N", "tokens in a step (default 512)")                                                        \
    X(max_loras, "N", "distinct adapters in a step (default 32)")                                                 \
    X(slots, "N", "adapters on the device at once (default 32)")                                                  \
    X(rank_max, "R", "the largest rank of an adapter (default 64)")                                               \
    X(pool_mb, "MB", "device memory for adapters (default: slots times the largest, at most 1074 MB)")            \
    X(host_mb, "MB", "host memory for adapters (default 1074 MB)")                                                \
    X(kv_mb, "MB", "device memory for keys and values (default: what the sequences need, at most 1074 MB)")

/* Whether `name` is one of them, and took `value` (NULL: a flag). STATUS_NOT_FOUND: not one of them. STATUS_INVALID: said on
 * options->errors. */
enum status worker_option(struct worker_config *config, const struct options *options, uint32_t option, const char *value);
/* With --device auto, or without it: the best device that opens here. Call when the options are read: whoever says cpu has no library loaded. */
void worker_choose_device(struct worker_config *config);
/* What a START says (control/core/gpus.h): cpu; or cuda, with the one GPU that this process is to see, or NULL for any. NULL: as above. What the
 * command line chose stays. STATUS_INVALID: it does not run here. */
enum status worker_use_device(struct worker_config *config, const char *kind, const char *gpu, struct refusal *refusal);
/* config->threads when none was chosen: the processors there are. */
uint32_t worker_threads_here(void);

#endif
