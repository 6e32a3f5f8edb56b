/* Opening, closing, finding. */
#include "engine/safetensors/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/files/file.h"
#include "engine/safetensors/internal.h"

const struct safetensors_limits safetensors_limits_base = {
    .header_bytes_max = 100000000, .file_bytes_max = INT64_MAX, .tensors_max = 1u << 20, .name_bytes_max = 256};
const struct safetensors_limits safetensors_limits_adapter = {.header_bytes_max = 1 << 20,
                                                              .file_bytes_max = INT64_C(2) << 30,
                                                              .tensors_max = 8192,
                                                              .name_bytes_max = 256,
                                                              .matrices_only = true};

const char *tensor_shape_text(const struct tensor *tensor, char *ret_text)
{
    int used = snprintf(ret_text, TENSOR_SHAPE_TEXT_MAX, "[");

    for (int32_t i = 0; i < tensor->dims && used < TENSOR_SHAPE_TEXT_MAX - 32; i++)
        used += snprintf(ret_text + used, (size_t)(TENSOR_SHAPE_TEXT_MAX - used), "%s%lld", i > 0 ? ", " : "",
                         (long long)tensor->shape[i]);
    snprintf(ret_text + used, (size_t)(TENSOR_SHAPE_TEXT_MAX - used), "]");
    return ret_text;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(((const struct tensor *)left)->name, ((const struct tensor *)right)->name);
}

void tensors_sort(struct tensor *tensor, uint32_t count)
{
    qsort(tensor, count, sizeof(*tensor), by_name);
}

struct safetensors *safetensors_new(uint32_t files)
{
    struct safetensors *file = calloc(1, sizeof(*file));

    if (file == NULL)
        return NULL;
    file->file = calloc(files, sizeof(*file->file));
    file->files = files;
    if (file->file != NULL)
        return file;
    free(file);
    return NULL;
}

enum status safetensors_no_memory(const char *shown, struct refusal *refusal)
{
    return refuse(refusal, STATUS_IO, "%s: no memory for its list of tensors", shown);
}

void safetensors_close(struct safetensors *file)
{
    if (file == NULL)
        return;
    for (uint32_t i = 0; i < file->files; i++) {
        if (file->file[i].holding == HOLDING_MAP)
            munmap(file->file[i].data, (size_t)file->file[i].bytes);
        if (file->file[i].holding == HOLDING_COPY)
            free(file->file[i].data);
        free(file->file[i].path);
    }
    json_decref(file->metadata);
    free(file->file);
    free(file->tensor);
    free(file->names);
    free(file);
}

/* Takes what is held over, also when it refuses. */
static enum status finish(struct held held, const char *shown, const struct safetensors_limits *limits, struct safetensors **ret,
                          struct refusal *refusal)
{
    struct safetensors *file = safetensors_new(1);
    enum status status = STATUS_IO;

    held.path = malloc(strlen(shown) + 1);
    if (file == NULL || held.path == NULL) {
        if (held.holding == HOLDING_MAP)
            munmap(held.data, (size_t)held.bytes);
        if (held.holding == HOLDING_COPY)
            free(held.data);
        free(held.path);
        safetensors_close(file);
        return safetensors_no_memory(shown, refusal);
    }
    strcpy(held.path, shown);
    file->file[0] = held;
    status = safetensors_read_header(file, limits, refusal);
    if (status == STATUS_OK)
        *ret = file;
    else
        safetensors_close(file);
    return status;
}

enum status safetensors_map(const char *path, const struct safetensors_limits *limits, struct safetensors **ret,
                            struct refusal *refusal)
{
    struct held held = {.holding = HOLDING_MAP};
    int file = -1;
    enum status status = file_open(AT_FDCWD, path, path, &file, &held.bytes, refusal);
    int code;

    if (status != STATUS_OK)
        return status;
    if (held.bytes == 0) {
        close(file);
        return refuse(refusal, STATUS_INVALID, "%s: is empty", path);
    }
    held.data = mmap(NULL, (size_t)held.bytes, PROT_READ, MAP_SHARED, file, 0);
    code = errno;
    close(file);
    if (held.data == MAP_FAILED)
        return refuse(refusal, STATUS_IO, "%s: cannot be mapped: %s", path, strerror(code));
    return finish(held, path, limits, ret, refusal);
}

enum status safetensors_copy(int directory, const char *name, const char *shown, const struct safetensors_limits *limits,
                             struct safetensors **ret, struct refusal *refusal)
{
    struct held held = {.holding = HOLDING_COPY};
    enum status status = file_read(directory, name, shown, limits->file_bytes_max, &held.data, &held.bytes, refusal);

    return status == STATUS_OK ? finish(held, shown, limits, ret, refusal) : status;
}

enum status safetensors_parse(const void *data, int64_t bytes, const char *shown, const struct safetensors_limits *limits,
                              struct safetensors **ret, struct refusal *refusal)
{
    struct held held = {.bytes = bytes};

    /* Held, not owned: nothing writes there. */
    memcpy(&held.data, &data, sizeof(data));
    return finish(held, shown, limits, ret, refusal);
}

uint32_t safetensors_count(const struct safetensors *file)
{
    return file->count;
}

const struct tensor *safetensors_at(const struct safetensors *file, uint32_t index)
{
    check(index < file->count);
    return &file->tensor[index];
}

const struct tensor *safetensors_find(const struct safetensors *file, const char *name)
{
    const struct tensor wanted = {.name = name};

    return file->count == 0 ? NULL : bsearch(&wanted, file->tensor, file->count, sizeof(wanted), by_name);
}

uint32_t safetensors_files(const struct safetensors *file)
{
    return file->files;
}

const char *safetensors_path(const struct safetensors *file, uint32_t index)
{
    check(index < file->files);
    return file->file[index].path;
}

int64_t safetensors_file_bytes(const struct safetensors *file)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < file->files; i++)
        sum += file->file[i].bytes;
    return sum;
}

const char *safetensors_metadata(const struct safetensors *file, const char *key)
{
    return json_string_value(json_object_get(file->metadata, key));
}
