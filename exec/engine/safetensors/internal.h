/* What the files of this folder share. */
#ifndef SAFETENSORS_INTERNAL_H
#define SAFETENSORS_INTERNAL_H

#include <jansson.h>

#include "engine/safetensors/safetensors.h"

enum holding { HOLDING_NOTHING, HOLDING_MAP, HOLDING_COPY };

struct held {
    char *path;
    void *data;
    int64_t bytes;
    enum holding holding;
};

struct safetensors {
    struct tensor *tensor; /* rising by name */
    uint32_t count;
    char *names;           /* what the tensors' names point into */
    struct held *file;
    uint32_t files;
    json_t *metadata;      /* NULL: none, or several files */
};

#define SHARD_INDEX_BYTES_MAX (64 << 20)
#define SHARDS_MAX 4096

/* [A-Za-z0-9_-] in parts between dots, none of them empty; 1 .. bytes_max bytes. */
bool tensor_name_is_fine(const char *name, size_t bytes_max);
void tensors_sort(struct tensor *tensor, uint32_t count);
/* A result with one file and nothing in it yet; NULL: no memory. */
struct safetensors *safetensors_new(uint32_t files);
enum status safetensors_no_memory(const char *shown, struct refusal *refusal);
/* Fills `file` from the one held file that it has. */
enum status safetensors_read_header(struct safetensors *file, const struct safetensors_limits *limits, struct refusal *refusal);

#endif
