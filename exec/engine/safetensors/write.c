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

/* Length and JSON, padded with spaces to a multiple of 8; free() it. `more`: further members of the metadata, with a comma before. */
static char *make_header(const struct tensor *tensor, uint32_t count, const char *more, size_t *ret_bytes)
{
    size_t room = 64 + strlen(more) + (size_t)count * HEADER_ENTRY_BYTES_MAX;
    char *header = malloc(room);
    char shape[TENSOR_SHAPE_TEXT_MAX];
    size_t used = 8;
    int64_t at = 0;

    if (header == NULL)
        return NULL;
    /* transformers refuses a file that does not say for which framework it is. */
    used += (size_t)snprintf(header + used, room - used, "{\"__metadata__\":{\"format\":\"pt\"%s}", more);
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

/* Sorted and complete, with the header before them; the caller frees both, also when it is refused. */
static enum status prepare(const struct tensor *tensors, uint32_t count, const char *more, const char *shown, struct tensor **ret_sorted,
                           char **ret_header, size_t *ret_header_bytes, struct refusal *refusal)
{
    struct tensor *sorted = malloc((count + 1) * sizeof(*sorted));
    enum status status;

    *ret_sorted = sorted;
    if (sorted == NULL)
        return safetensors_no_memory(shown, refusal);
    memcpy(sorted, tensors, count * sizeof(*sorted));
    tensors_sort(sorted, count);
    status = complete(sorted, count, shown, refusal);
    if (status != STATUS_OK)
        return status;
    *ret_header = make_header(sorted, count, more, ret_header_bytes);
    return *ret_header != NULL ? STATUS_OK : safetensors_no_memory(shown, refusal);
}

enum status safetensors_write(const char *path, const struct tensor *tensors, uint32_t count, safetensors_fill *fill, void *context,
                              struct refusal *refusal)
{
    struct tensor *sorted = NULL;
    char *piece = malloc(PIECE_BYTES);
    char *header = NULL;
    size_t header_bytes = 0;
    struct new_file file = {.file = -1};
    enum status status = piece != NULL ? prepare(tensors, count, "", path, &sorted, &header, &header_bytes, refusal)
                                       : safetensors_no_memory(path, refusal);

    if (status == STATUS_OK)
        status = file_begin(&file, path, refusal);
    if (status == STATUS_OK)
        status = file_put(&file, header, header_bytes, refusal);
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++)
        status = put_tensor(&file, &sorted[i], fill, context, piece, refusal);
    if (status == STATUS_OK)
        status = file_commit(&file, refusal);
    file_abandon(&file);
    free(header);
    free(piece);
    free(sorted);
    return status;
}

/* ,"KEY":"TEXT" as JSON writes them; free() it. */
static char *make_member(const char *key, const char *text)
{
    json_t *both = key != NULL ? json_pack("{s:s}", key, text) : NULL;
    char *member = both != NULL ? json_dumps(both, JSON_COMPACT) : NULL;

    json_decref(both);
    if (key == NULL)
        return calloc(1, 1);
    if (member == NULL)
        return NULL;
    member[0] = ',';
    member[strlen(member) - 1] = '\0';
    return member;
}

static char *join(const char *header, size_t header_bytes, const struct tensor *tensor, uint32_t count, size_t *ret_bytes)
{
    size_t bytes = header_bytes;
    char *data;
    char *at;

    for (uint32_t i = 0; i < count; i++)
        bytes += (size_t)tensor[i].bytes;
    data = malloc(bytes);
    if (data == NULL)
        return NULL;
    memcpy(data, header, header_bytes);
    at = data + header_bytes;
    for (uint32_t i = 0; i < count; i++) {
        check(tensor[i].data != NULL || tensor[i].bytes == 0);
        memcpy(at, tensor[i].data, (size_t)tensor[i].bytes);
        at += tensor[i].bytes;
    }
    *ret_bytes = bytes;
    return data;
}

enum status safetensors_make(const struct tensor *tensors, uint32_t count, const char *key, const char *text, const char *shown,
                             void **ret_data, size_t *ret_bytes, struct refusal *refusal)
{
    struct tensor *sorted = NULL;
    char *more = make_member(key, text);
    char *header = NULL;
    size_t header_bytes = 0;
    void *data;
    enum status status = more != NULL ? prepare(tensors, count, more, shown, &sorted, &header, &header_bytes, refusal)
                                      : safetensors_no_memory(shown, refusal);

    if (status == STATUS_OK) {
        data = join(header, header_bytes, sorted, count, ret_bytes);
        if (data != NULL)
            *ret_data = data;
        else
            status = safetensors_no_memory(shown, refusal);
    }
    free(header);
    free(more);
    free(sorted);
    return status;
}
