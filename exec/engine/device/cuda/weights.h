/* Lists of device memory, and weights in them: rows padded to 128 bytes, those of one kind one behind the other. */
#ifndef CUDA_WEIGHTS_H
#define CUDA_WEIGHTS_H

#include "engine/ops/cuda/cuda_ops.h"

struct dev_memory {
    struct dev_memory *next;
    char *data;
    size_t bytes, used;
    bool lent;                  /* of the shared allocation, which goes as a whole */
};

/* All device memory that a process takes for itself comes from here, zeroed: who had it before may have been another tenant. NULL: no room. */
void *cuda_memory_clear(struct dev *dev, size_t bytes);
/* One more piece of it at the head of a list; false: no room. */
bool cuda_memory_take(struct dev *dev, struct dev_memory **list, size_t bytes);
void cuda_memory_free(struct dev_memory *list);

/* device.weight(). */
enum status cuda_weight(struct dev *dev, const struct weight *file, struct weight *ret_weight);
/* The bytes that these take, and where those that come next are put, which stays whoever's it is. */
void cuda_weights_room(const struct weight *const *weights, uint32_t count, size_t *ret_matrices_bytes, size_t *ret_vectors_bytes);
void cuda_weights_into(struct dev *dev, char *data, size_t matrices_bytes, size_t vectors_bytes);

#endif
