#include "engine/lora/merge.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/model/store.h"

struct merger {
    const struct model *model;
    const struct lora_source *source;
    file_progress *progress;
    void *context;
    int64_t done_bytes;
    int64_t total_bytes;
    /* The tensor that is being written. */
    const char *name;
    const struct tensor *base;
    const struct lora_pair *pair; /* NULL: as it is */
    double *a;                    /* [rank][in] of pair */
    double *row;                  /* [in] */
    bool failed;                  /* no memory */
};

/* The pair that changes this tensor. */
static const struct lora_pair *find_pair(const struct merger *merger, const char *name)
{
    char wanted[TENSOR_NAME_MAX];

    for (int32_t layer = 0; layer < merger->source->layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++) {
            const struct lora_pair *pair = lora_source_pair(merger->source, layer, module);

            if (pair->a != NULL && strcmp(model_linear_name(layer, module, ".weight", wanted), name) == 0)
                return pair;
        }
    return NULL;
}

static bool begin_tensor(struct merger *merger, const char *name)
{
    size_t in;

    merger->name = name;
    merger->base = safetensors_find(merger->model->files, name);
    merger->pair = find_pair(merger, name);
    free(merger->a);
    free(merger->row);
    merger->a = NULL;
    merger->row = NULL;
    if (merger->pair == NULL)
        return true;
    in = (size_t)merger->base->shape[1];
    merger->a = malloc((size_t)merger->pair->rank * in * sizeof(double));
    merger->row = malloc(in * sizeof(double));
    if (merger->a == NULL || merger->row == NULL)
        return false;
    for (size_t i = 0; i < (size_t)merger->pair->rank * in; i++)
        merger->a[i] = dtype_load(merger->pair->a_dtype, merger->pair->a, i);
    return true;
}

/* Columns first .. end - 1 of one row of W + scale * B A. */
static void merge_row(struct merger *merger, enum dtype dtype, size_t row, size_t first, size_t end, void *ret_data, size_t at)
{
    const struct lora_pair *pair = merger->pair;
    size_t in = (size_t)merger->base->shape[1];

    for (size_t j = first; j < end; j++)
        merger->row[j] = dtype_load(dtype, merger->base->data, row * in + j);
    for (size_t k = 0; k < (size_t)pair->rank; k++) {
        double b = (double)pair->scale * (double)dtype_load(pair->b_dtype, pair->b, row * (size_t)pair->rank + k);
        const double *a = merger->a + k * in;

        for (size_t j = first; j < end; j++)
            merger->row[j] += b * a[j];
    }
    for (size_t j = first; j < end; j++)
        dtype_store(dtype, merger->row[j], ret_data, at + j - first);
}

static void merge_piece(struct merger *merger, int64_t offset, void *ret_data, size_t bytes)
{
    enum dtype dtype = DTYPE_F32;
    size_t in = (size_t)merger->base->shape[1];
    size_t first;
    size_t count;

    check(tensor_dtype(merger->base, &dtype));
    first = (size_t)offset / dtype_bytes(dtype);
    count = bytes / dtype_bytes(dtype);
    for (size_t at = 0; at < count;) {
        size_t column = (first + at) % in;
        size_t end = in - column < count - at ? in : column + count - at;

        merge_row(merger, dtype, (first + at) / in, column, end, ret_data, at);
        at += end - column;
    }
}

static bool fill(void *context, const struct tensor *tensor, int64_t offset, void *ret_data, size_t bytes)
{
    struct merger *merger = context;

    if (tensor->name != merger->name && !begin_tensor(merger, tensor->name)) {
        merger->failed = true;
        return false;
    }
    if (merger->pair == NULL)
        memcpy(ret_data, (const char *)merger->base->data + offset, bytes);
    else
        merge_piece(merger, offset, ret_data, bytes);
    merger->done_bytes += (int64_t)bytes;
    return merger->progress == NULL || merger->progress(merger->context, merger->done_bytes, merger->total_bytes);
}

enum status lora_merge(const struct model *model, const struct lora_source *source, const char *path,
                       file_progress *progress, void *context, struct refusal *refusal)
{
    struct merger merger = {.model = model, .source = source, .progress = progress, .context = context};
    uint32_t count = safetensors_count(model->files);
    struct tensor *tensors = calloc((size_t)count + 1, sizeof(*tensors));
    enum status status;

    if (tensors == NULL)
        return refuse(refusal, STATUS_IO, "%s: no memory", path);
    for (uint32_t i = 0; i < count; i++) {
        tensors[i] = *safetensors_at(model->files, i);
        tensors[i].data = NULL;
        merger.total_bytes += tensors[i].bytes;
    }
    status = safetensors_write(path, tensors, count, fill, &merger, refusal);
    if (merger.failed)
        status = refuse(refusal, STATUS_IO, "%s: no memory", path);
    free(merger.a);
    free(merger.row);
    free(tensors);
    return status;
}

#define COPY_BYTES_MAX (256 << 20)

enum status lora_merge_copy(const char *from_directory, const char *to_directory, struct refusal *refusal)
{
    static const char *const names[] = {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "merges.txt",
        "chat_template.jinja",
        "chat_template.json",
    };
    enum status status = STATUS_OK;

    for (size_t i = 0; i < ARRAY_COUNT(names) && status == STATUS_OK; i++) {
        char from[4096];
        char to[4096];
        void *data = NULL;
        int64_t bytes = 0;

        snprintf(from, sizeof(from), "%.4000s/%s", from_directory, names[i]);
        snprintf(to, sizeof(to), "%.4000s/%s", to_directory, names[i]);
        status = file_read(AT_FDCWD, from, from, COPY_BYTES_MAX, &data, &bytes, refusal);
        if (status == STATUS_NOT_FOUND) {
            status = STATUS_OK;
            continue;
        }
        if (status == STATUS_OK)
            status = file_write(to, data, (size_t)bytes, refusal);
        free(data);
    }
    return status;
}
