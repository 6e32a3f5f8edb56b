/* The header: JSON first, then each entry by itself, then all of them together, which must cover the rest of the file
 * without a hole or an overlap. Nothing is believed before it is checked: this is the first thing of ours that bytes of
 * strangers meet. */
#include <stdlib.h>

#include "engine/safetensors/internal.h"
#include "host/words.h"

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
#define X(name, text, bytes) {text, bytes},
    TENSOR_TYPES(X)
#undef X
};

const char *tensor_type_name(enum tensor_type type)
{
    check(type < TENSOR_TYPE_COUNT);
    return types[type].name;
}

size_t tensor_type_bytes(enum tensor_type type)
{
    check(type < TENSOR_TYPE_COUNT);
    return types[type].bytes;
}

bool tensor_dtype(const struct tensor *tensor, enum dtype *ret_dtype)
{
    switch (tensor->type) {
    case TENSOR_F32: *ret_dtype = DTYPE_F32; return true;
    case TENSOR_F16: *ret_dtype = DTYPE_F16; return true;
    case TENSOR_BF16: *ret_dtype = DTYPE_BF16; return true;
    default: return false;
    }
}

bool tensor_name_is_fine(const char *name, size_t bytes_max)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    size_t length = strlen(name);

    if (length == 0 || length > bytes_max)
        return false;
    for (const char *at = name;; at++) {
        size_t part = strspn(at, letters);

        at += part;
        if (part == 0 || (*at != '.' && *at != '\0'))
            return false;
        if (*at == '\0')
            return true;
    }
}

struct header {
    const char *path;
    const struct safetensors_limits *limits;
    int64_t buffer_bytes; /* behind the header */
    const char *buffer;
    struct refusal *refusal;
};

#define refuse_tensor(header, name, format, ...) \
    refuse((header)->refusal, STATUS_INVALID, "%s: tensor %s: " format, (header)->path, name, __VA_ARGS__)

static enum status read_type(const struct header *header, const char *name, const json_t *value, struct tensor *tensor)
{
    const char *text = json_string_value(value);
    char shown[EXCERPT_MAX];

    if (text == NULL)
        return refuse_tensor(header, name, "%s", "its dtype is missing or not a string");
    for (size_t type = 0; type < TENSOR_TYPE_COUNT; type++) {
        if (strcmp(types[type].name, text) == 0) {
            tensor->type = (enum tensor_type)type;
            return STATUS_OK;
        }
    }
    return refuse_tensor(header, name, "its dtype %s is not one that is read", excerpt(text, strlen(text), shown));
}

static enum status read_shape(const struct header *header, const char *name, const json_t *value, struct tensor *tensor)
{
    int64_t count = 1;

    if (!json_is_array(value))
        return refuse_tensor(header, name, "%s", "its shape is missing or not an array");
    if (json_array_size(value) > TENSOR_DIMS_MAX)
        return refuse_tensor(header, name, "it has %zu dimensions; at most %d are read", json_array_size(value), TENSOR_DIMS_MAX);
    tensor->dims = (int32_t)json_array_size(value);
    for (int32_t i = 0; i < tensor->dims; i++) {
        const json_t *size = json_array_get(value, (size_t)i);

        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return refuse_tensor(header, name, "%s", "a size in its shape is not a whole number >= 0");
        tensor->shape[i] = json_integer_value(size);
        if (__builtin_mul_overflow(count, tensor->shape[i], &count))
            return refuse_tensor(header, name, "%s", "its shape is larger than any memory");
    }
    if (__builtin_mul_overflow(count, (int64_t)types[tensor->type].bytes, &tensor->bytes))
        return refuse_tensor(header, name, "%s", "its shape is larger than any memory");
    tensor->count = count;
    return STATUS_OK;
}

static enum status read_offsets(const struct header *header, const char *name, const json_t *value, struct tensor *tensor)
{
    const json_t *first = json_array_get(value, 0);
    const json_t *last = json_array_get(value, 1);
    int64_t begin = json_integer_value(first);
    int64_t end = json_integer_value(last);

    if (json_array_size(value) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return refuse_tensor(header, name, "%s", "its data_offsets are not two whole numbers");
    if (begin < 0 || end < begin || end > header->buffer_bytes)
        return refuse_tensor(
            header, name,
            "its data_offsets [%lld, %lld] do not lie in the file's %lld bytes of data; the file is cut or broken",
            (long long)begin, (long long)end, (long long)header->buffer_bytes);
    if (end - begin != tensor->bytes)
        return refuse_tensor(header, name, "its shape needs %lld bytes and its data_offsets give %lld", (long long)tensor->bytes,
                             (long long)(end - begin));
    tensor->data = header->buffer + begin;
    return STATUS_OK;
}

static enum status check_matrix(const struct header *header, const struct tensor *tensor)
{
    enum dtype dtype;
    char shape[TENSOR_SHAPE_TEXT_MAX];

    if (tensor->dims != 2 || tensor->shape[0] < 1 || tensor->shape[1] < 1)
        return refuse_tensor(header, tensor->name, "its shape is %s, not that of a matrix", tensor_shape_text(tensor, shape));
    if (!tensor_dtype(tensor, &dtype))
        return refuse_tensor(header, tensor->name, "its dtype is %s; F32, F16 and BF16 are read", types[tensor->type].name);
    return STATUS_OK;
}

static enum status read_entry(const struct header *header, const char *name, const json_t *entry, struct tensor *tensor)
{
    enum status status = STATUS_OK;

    tensor->name = name;
    if (!json_is_object(entry) || json_object_size(entry) != 3)
        return refuse_tensor(header, name, "%s", "its entry must hold dtype, shape and data_offsets, and nothing else");
    status = read_type(header, name, json_object_get(entry, "dtype"), tensor);
    if (status == STATUS_OK)
        status = read_shape(header, name, json_object_get(entry, "shape"), tensor);
    if (status == STATUS_OK)
        status = read_offsets(header, name, json_object_get(entry, "data_offsets"), tensor);
    if (status == STATUS_OK && header->limits->matrices_only)
        status = check_matrix(header, tensor);
    return status;
}

static enum status read_metadata(const struct header *header, json_t *metadata)
{
    const char *key;
    json_t *value;

    if (!json_is_object(metadata))
        return refuse(header->refusal, STATUS_INVALID, "%s: __metadata__ is not an object", header->path);
    json_object_foreach(metadata, key, value)
        if (!json_is_string(value))
            return refuse(header->refusal, STATUS_INVALID, "%s: __metadata__ holds something that is not a string", header->path);
    return STATUS_OK;
}

static int by_place(const void *left, const void *right)
{
    const struct tensor *a = left;
    const struct tensor *b = right;
    uintptr_t a_at = (uintptr_t)a->data;
    uintptr_t b_at = (uintptr_t)b->data;

    /* Empty tensors stand before what begins where they lie. */
    if (a_at != b_at)
        return a_at < b_at ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

/* From the first byte of data to the last, each in one tensor. */
static enum status check_cover(const struct header *header, struct tensor *tensor, uint32_t count)
{
    int64_t at = 0;

    qsort(tensor, count, sizeof(*tensor), by_place);
    for (uint32_t i = 0; i < count; i++) {
        int64_t begin = (const char *)tensor[i].data - header->buffer;

        if (begin != at)
            return refuse_tensor(header, tensor[i].name, "its data begin at byte %lld, where %lld was expected: tensors %s",
                                 (long long)begin, (long long)at, begin < at ? "overlap" : "leave a hole");
        at += tensor[i].bytes;
    }
    if (at != header->buffer_bytes)
        return refuse(header->refusal, STATUS_INVALID, "%s: %lld bytes follow the last tensor", header->path,
                      (long long)(header->buffer_bytes - at));
    return STATUS_OK;
}

/* Names are copied, so that the JSON can go. */
static enum status read_entries(const struct header *header, json_t *root, struct safetensors *file)
{
    size_t names_bytes = 0;
    const char *key;
    json_t *value;
    char *write;
    enum status status;

    json_object_foreach(root, key, value) {
        char shown[EXCERPT_MAX];

        if (strcmp(key, "__metadata__") != 0 && !tensor_name_is_fine(key, header->limits->name_bytes_max))
            return refuse(header->refusal, STATUS_INVALID,
                          "%s: a tensor's name is not letters, digits, _ and - in parts between dots, of at most %u bytes: %s",
                          header->path, header->limits->name_bytes_max, excerpt(key, strlen(key), shown));
        names_bytes += strlen(key) + 1;
    }
    file->tensor = calloc(json_object_size(root) + 1, sizeof(*file->tensor));
    file->names = malloc(names_bytes + 1);
    if (file->tensor == NULL || file->names == NULL)
        return safetensors_no_memory(header->path, header->refusal);
    write = file->names;
    json_object_foreach(root, key, value) {
        if (strcmp(key, "__metadata__") == 0) {
            status = read_metadata(header, value);
            file->metadata = json_incref(value);
        } else {
            strcpy(write, key);
            status = read_entry(header, write, value, &file->tensor[file->count++]);
            write += strlen(key) + 1;
        }
        if (status != STATUS_OK)
            return status;
    }
    return check_cover(header, file->tensor, file->count);
}

static uint64_t little_endian(const unsigned char *bytes)
{
    uint64_t value = 0;

    for (int i = 7; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

enum status safetensors_read_header(struct safetensors *file, const struct safetensors_limits *limits, struct refusal *refusal)
{
    const struct held *held = &file->file[0];
    struct header header = {.path = held->path, .limits = limits, .refusal = refusal};
    json_error_t error;
    uint64_t length;
    json_t *root;
    enum status status;

    if (held->bytes > limits->file_bytes_max)
        return refuse(refusal, STATUS_INVALID, "%s: has %lld bytes; at most %lld are taken", held->path, (long long)held->bytes,
                      (long long)limits->file_bytes_max);
    if (held->bytes < 8)
        return refuse(refusal, STATUS_INVALID, "%s: has %lld bytes, too few for a safetensors file", held->path,
                      (long long)held->bytes);
    length = little_endian(held->data);
    if (length > (uint64_t)limits->header_bytes_max)
        return refuse(refusal, STATUS_INVALID,
                      "%s: its header would have %llu bytes, at most %lld are taken; is this a safetensors file?",
                      held->path, (unsigned long long)length, (long long)limits->header_bytes_max);
    if (length > (uint64_t)held->bytes - 8)
        return refuse(refusal, STATUS_INVALID,
                      "%s: its header of %llu bytes does not fit in the file's %lld; the file is cut or is none",
                      held->path, (unsigned long long)length, (long long)held->bytes);
    header.buffer = (const char *)held->data + 8 + length;
    header.buffer_bytes = held->bytes - 8 - (int64_t)length;
    if (length == 0 || ((const char *)held->data)[8] != '{')
        return refuse(refusal, STATUS_INVALID, "%s: its header does not begin with '{'; is this a safetensors file?", held->path);
    root = json_loadb((const char *)held->data + 8, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        return refuse(refusal, STATUS_INVALID, "%s: its header is not JSON: %s, at byte %d", held->path, error.text,
                      8 + error.position);
    if (json_object_size(root) > limits->tensors_max)
        status = refuse(refusal, STATUS_INVALID, "%s: holds %zu tensors; at most %u are taken", held->path, json_object_size(root),
                        limits->tensors_max);
    else
        status = read_entries(&header, root, file);
    json_decref(root);
    if (status == STATUS_OK)
        tensors_sort(file->tensor, file->count);
    return status;
}
