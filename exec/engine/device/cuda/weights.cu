#include "engine/device/cuda/weights.h"

#include <stdlib.h>

#define ROW_ALIGN_BYTES 128
#define CHUNK_BYTES_MAX ((size_t)512 << 20)
#define CHUNK_BYTES_LEAST ((size_t)1 << 20)

static void memory_add(struct dev_memory **list, char *data, size_t bytes, bool lent)
{
    struct dev_memory *piece = (struct dev_memory *)calloc(1, sizeof(*piece));

    check(piece != NULL);
    piece->data = data;
    piece->bytes = bytes;
    piece->lent = lent;
    piece->next = *list;
    *list = piece;
}

void *cuda_memory_clear(struct dev *dev, size_t bytes)
{
    void *data;

    if (cudaMalloc(&data, bytes) != cudaSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    MUST(cudaMemsetAsync(data, 0, bytes, dev->lane[LANE_COMPUTE]));
    MUST(cudaStreamSynchronize(dev->lane[LANE_COMPUTE]));
    return data;
}

bool cuda_memory_take(struct dev *dev, struct dev_memory **list, size_t bytes)
{
    void *data = cuda_memory_clear(dev, bytes);

    if (data == NULL)
        return false;
    memory_add(list, (char *)data, bytes, false);
    return true;
}

void cuda_memory_free(struct dev_memory *list)
{
    while (list != NULL) {
        struct dev_memory *next = list->next;

        if (!list->lent)
            MUST(cudaFree(list->data));
        free(list);
        list = next;
    }
}

/* Weights of one kind lie one behind the other, so that those that share an input and are asked for in turn adjoin.
 * NULL: no room. */
static void *chunk_take(struct dev *dev, struct dev_memory **list, size_t bytes)
{
    struct dev_memory *chunk = *list;
    size_t chunk_bytes = bytes * 16;

    if (chunk == NULL || chunk->used + bytes > chunk->bytes) {
        if (chunk_bytes > CHUNK_BYTES_MAX)
            chunk_bytes = CHUNK_BYTES_MAX;
        if (chunk_bytes < CHUNK_BYTES_LEAST)
            chunk_bytes = CHUNK_BYTES_LEAST;
        if (chunk_bytes < bytes)
            chunk_bytes = bytes;
        if (!cuda_memory_take(dev, list, chunk_bytes))
            return NULL;
        chunk = *list;
    }
    chunk->used += bytes;
    return chunk->data + chunk->used - bytes;
}

static size_t aligned_bytes(size_t bytes)
{
    return (bytes + ROW_ALIGN_BYTES - 1) / ROW_ALIGN_BYTES * ROW_ALIGN_BYTES;
}

/* How a weight lies: rows of `pitch` bytes, `bytes` in all, a bias of bias_bytes among the vectors. */
struct room {
    bool is_matrix;
    size_t pitch, bytes, bias_bytes;
};

static struct room room_of(const struct weight *file)
{
    size_t size = dtype_bytes(file->dtype), row_bytes = (size_t)file->in * size;
    struct room room = {};

    room.is_matrix = file->out > 1 && file->in > 1;
    room.pitch = room.is_matrix ? aligned_bytes(row_bytes) : row_bytes;
    room.bytes = file->data != NULL ? aligned_bytes((size_t)file->out * room.pitch) : 0;
    room.bias_bytes = file->bias != NULL ? aligned_bytes((size_t)file->out * size) : 0;
    return room;
}

void cuda_weights_room(const struct weight *const *weights, uint32_t count, size_t *ret_matrices_bytes, size_t *ret_vectors_bytes)
{
    *ret_matrices_bytes = 0;
    *ret_vectors_bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct room room = room_of(weights[i]);

        *(room.is_matrix ? ret_matrices_bytes : ret_vectors_bytes) += room.bytes;
        *ret_vectors_bytes += room.bias_bytes;
    }
}

void cuda_weights_into(struct dev *dev, char *data, size_t matrices_bytes, size_t vectors_bytes)
{
    memory_add(&dev->matrices, data, matrices_bytes, true);
    memory_add(&dev->vectors, data + matrices_bytes, vectors_bytes, true);
}

/* A matrix in fast mode is bf16: the GEMMs read it as it lies. Vectors may be anything. */
enum status cuda_weight(struct dev *dev, const struct weight *file, struct weight *ret_weight)
{
    const struct room room = room_of(file);
    size_t size = dtype_bytes(file->dtype);
    cudaStream_t stream = dev->lane[LANE_COMPUTE];
    struct weight weight = *file;
    void *data, *bias = NULL;

    if (file->data == NULL) {
        *ret_weight = weight;
        return STATUS_OK;
    }
    if (file->scales != NULL || (room.is_matrix && is_fast(dev) && file->dtype != DTYPE_BF16))
        return STATUS_INVALID;
    data = chunk_take(dev, room.is_matrix ? &dev->matrices : &dev->vectors, room.bytes);
    if (file->bias != NULL)
        bias = chunk_take(dev, &dev->vectors, room.bias_bytes);
    if (data == NULL || (file->bias != NULL && bias == NULL))
        return STATUS_FULL;
    MUST(cudaMemcpy2DAsync(data, room.pitch, file->data, (size_t)file->stride * size, (size_t)file->in * size, (size_t)file->out,
                           cudaMemcpyHostToDevice, stream));
    if (bias != NULL)
        MUST(cudaMemcpyAsync(bias, file->bias, (size_t)file->out * size, cudaMemcpyHostToDevice, stream));
    MUST(cudaStreamSynchronize(stream));
    weight.data = data;
    weight.bias = bias;
    weight.stride = (int32_t)(room.pitch / size);
    *ret_weight = weight;
    return STATUS_OK;
}
