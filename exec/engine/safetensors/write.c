/* Writing: the header is reckoned first, then the data stream past in pieces, so that a model of any size needs a mebibyte. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/files/file.h"
#include "engine/safetensors/internal.h"

#define PIECE_BYTES (1 << 20)
#define HEADER_ENTRY_BYTES_MAX (256 + TENSOR_SHAPE_TEXT_MAX + 128)

/* Each name is fine and stands once; each shape gives its count and bytes. */
static enum status complete(struct tensor *tensor, uint32_t count, const char *path, struct refusal *refusal)
{
    for (uint32_t i = 0; i < count; i++) {
        check(tensor[i].type < TENSOR_TYPE_COUNT && tensor[i].dims >= 0 && tensor[i].dims <= TENSOR_DIMS_MAX);
        if (!tensor_name_is_fine(tensor[i].name, 256))
            return refuse(refusal, STATUS_INVALID, "%s: a tensor cannot be called %s", path, tensor[i].name);
        if (i > 0 && strcmp(tensor[i - 1].name, tensor[i].name) == 0)
            return refuse(refusal, STATUS_INVALID, "%s: two tensors are called %s", path, tensor[i].name);
        tensor[i].count = 1;
        for (int32_t k = 0; k < tensor[i].dims; k++)
            check(tensor[i].shape[k] >= 0 && !__builtin_mul_overflow(tensor[i].count, tensor[i].shape[k], &tensor[i].count));
        tensor[i].bytes = tensor[i].count * (int64_t)tensor_type_bytes(tensor[i].type);
    }
    return STATUS_OK;
}

/* Length and JSON, padded with spaces to a multiple of 8; free() it. */
static char *make_header(const struct tensor *tensor, uint32_t count, size_t *ret_bytes)
{
    size_t room = 64 + (size_t)count * HEADER_ENTRY_BYTES_MAX;
    char *header = malloc(room);
    char shape[TENSOR_SHAPE_TEXT_MAX];
    size_t used = 8;
    int64_t at = 0;

    if (header == NULL)
        return NULL;
    /* transformers refuses a file that does not say for which framework it is. */
    used += (size_t)snprintf(header + used, room - used, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (uint32_t i = 0; i < count; i++) {
        used += (size_t)snprintf(header + used, room - used,
                                 ",\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%lld,%lld]}", tensor[i].name,
                                 tensor_type_name(tensor[i].type), tensor_shape_text(&tensor[i], shape), (long long)at,
                                 (long long)(at + tensor[i].bytes));
        at += tensor[i].bytes;
    }
    header[used++] = '}';
    while (used % 8 != 0)
        header[used++] = ' ';
    check(used <= room);
    for (size_t i = 0; i < 8; i++)
        header[i] = (char)((used - 8) >> (8 * i) & 0xff);
    *ret_bytes = used;
    return header;
}

static enum status put_tensor(struct new_file *file, const struct tensor *tensor, safetensors_fill *fill, void *context,
                              char *piece, struct refusal *refusal)
{
    enum status status = STATUS_OK;

    if (tensor->data != NULL)
        return file_put(file, tensor->data, (size_t)tensor->bytes, refusal);
    check(fill != NULL || tensor->bytes == 0);
    for (int64_t at = 0; at < tensor->bytes && status == STATUS_OK; at += PIECE_BYTES) {
        size_t bytes = (size_t)min_i64(tensor->bytes - at, PIECE_BYTES);

        if (!fill(context, tensor, at, piece, bytes))
            return refuse(refusal, STATUS_END, "%s: was not finished", file->path);
        status = file_put(file, piece, bytes, refusal);
    }
    return status;
}

enum status safetensors_write(const char *path, const struct tensor *tensors, uint32_t count, safetensors_fill *fill, void *context,
                              struct refusal *refusal)
{
    struct tensor *sorted = malloc((count + 1) * sizeof(*sorted));
    char *piece = malloc(PIECE_BYTES);
    char *header = NULL;
    size_t header_bytes = 0;
    struct new_file file = {.file = -1};
    enum status status;

    if (sorted == NULL || piece == NULL) {
        status = safetensors_no_memory(path, refusal);
        goto free_all;
    }
    memcpy(sorted, tensors, count * sizeof(*sorted));
    tensors_sort(sorted, count);
    status = complete(sorted, count, path, refusal);
    if (status != STATUS_OK)
        goto free_all;
    header = make_header(sorted, count, &header_bytes);
    if (header == NULL) {
        status = safetensors_no_memory(path, refusal);
        goto free_all;
    }
    status = file_begin(&file, path, refusal);
    if (status == STATUS_OK)
        status = file_put(&file, header, header_bytes, refusal);
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++)
        status = put_tensor(&file, &sorted[i], fill, context, piece, refusal);
    if (status == STATUS_OK)
        status = file_commit(&file, refusal);
free_all:
    file_abandon(&file);
    free(header);
    free(piece);
    free(sorted);
    return status;
}
