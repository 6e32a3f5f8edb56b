/* A model's folder: one file, or shards that an index names. The index is a stranger's word like any other: names stay
 * in the folder, and what it says and what lies there must agree both ways. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/files/file.h"
#include "engine/safetensors/internal.h"
#include "host/words.h"

#define PATH_BYTES_MAX 4096

struct shards {
    const char *directory;
    char index_path[PATH_BYTES_MAX];
    const json_t *map;           /* tensor -> shard */
    const char **name;           /* [count], rising, each once */
    uint32_t count;
    struct safetensors **file;   /* [count] */
    struct refusal *refusal;
};

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static bool shard_name_is_fine(const char *name)
{
    static const char ending[] = ".safetensors";
    size_t length = strlen(name);

    return tensor_name_is_fine(name, 255) && length > strlen(ending) && strcmp(name + length - strlen(ending), ending) == 0;
}

/* The shards that the index names, each once. */
static enum status list_shards(struct shards *shards)
{
    const char *tensor;
    json_t *value;
    uint32_t count = 0;

    shards->name = calloc(json_object_size(shards->map), sizeof(*shards->name));
    if (shards->name == NULL)
        return safetensors_no_memory(shards->index_path, shards->refusal);
    json_object_foreach((json_t *)(uintptr_t)shards->map, tensor, value) {
        char shown[EXCERPT_MAX];
        const char *name = json_string_value(value);

        if (name == NULL || !shard_name_is_fine(name))
            return refuse(shards->refusal, STATUS_INVALID,
                          "%s: weight_map: the shard of tensor %s is not the name of a .safetensors file in this folder",
                          shards->index_path, excerpt(tensor, strlen(tensor), shown));
        shards->name[count++] = name;
    }
    qsort(shards->name, count, sizeof(*shards->name), by_text);
    for (uint32_t i = 0; i < count; i++)
        if (i == 0 || strcmp(shards->name[i], shards->name[shards->count - 1]) != 0)
            shards->name[shards->count++] = shards->name[i];
    if (shards->count > SHARDS_MAX)
        return refuse(shards->refusal, STATUS_INVALID, "%s: names %u shards; at most %d are read", shards->index_path,
                      shards->count, SHARDS_MAX);
    return STATUS_OK;
}

/* Each tensor of this shard is in the index as this shard's. */
static enum status check_shard(const struct shards *shards, uint32_t index)
{
    const struct safetensors *file = shards->file[index];

    for (uint32_t i = 0; i < file->count; i++) {
        const char *said = json_string_value(json_object_get(shards->map, file->tensor[i].name));

        if (said == NULL)
            return refuse(shards->refusal, STATUS_INVALID, "%s: holds tensor %s, which %s does not name", safetensors_path(file, 0),
                          file->tensor[i].name, shards->index_path);
        if (strcmp(said, shards->name[index]) != 0)
            return refuse(shards->refusal, STATUS_INVALID, "%s: holds tensor %s, which %s places in %s", safetensors_path(file, 0),
                          file->tensor[i].name, shards->index_path, said);
    }
    return STATUS_OK;
}

static enum status open_shards(struct shards *shards)
{
    shards->file = calloc(shards->count, sizeof(struct safetensors *));
    if (shards->file == NULL)
        return safetensors_no_memory(shards->index_path, shards->refusal);
    for (uint32_t i = 0; i < shards->count; i++) {
        char path[PATH_BYTES_MAX + 300];
        enum status status;

        snprintf(path, sizeof(path), "%s/%s", shards->directory, shards->name[i]);
        status = safetensors_map(path, &safetensors_limits_base, &shards->file[i], shards->refusal);
        if (status == STATUS_OK)
            status = check_shard(shards, i);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* What the index names is there. */
static enum status check_map(const struct shards *shards)
{
    const char *tensor;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)shards->map, tensor, value) {
        const char *name = json_string_value(value);
        const char *const *found = bsearch(&name, shards->name, shards->count, sizeof(*shards->name), by_text);
        char shown[EXCERPT_MAX];

        check(found != NULL);
        if (safetensors_find(shards->file[found - shards->name], tensor) == NULL)
            return refuse(shards->refusal, STATUS_INVALID, "%s: weight_map places tensor %s in %s, which does not hold it",
                          shards->index_path, excerpt(tensor, strlen(tensor), shown), name);
    }
    return STATUS_OK;
}

/* One result of all of them; what the shards held is its own afterwards. */
static enum status join_shards(struct shards *shards, struct safetensors **ret)
{
    struct safetensors *joined = safetensors_new(shards->count);
    size_t names_bytes = 1;
    uint32_t count = 0;
    char *write;

    for (uint32_t i = 0; i < shards->count; i++)
        for (uint32_t j = 0; j < shards->file[i]->count; j++, count++)
            names_bytes += strlen(shards->file[i]->tensor[j].name) + 1;
    if (joined != NULL) {
        joined->tensor = calloc((size_t)count + 1, sizeof(*joined->tensor));
        joined->names = malloc(names_bytes);
    }
    if (joined == NULL || joined->tensor == NULL || joined->names == NULL) {
        safetensors_close(joined);
        return safetensors_no_memory(shards->index_path, shards->refusal);
    }
    write = joined->names;
    for (uint32_t i = 0; i < shards->count; i++) {
        struct safetensors *file = shards->file[i];

        for (uint32_t j = 0; j < file->count; j++) {
            struct tensor *tensor = &joined->tensor[joined->count++];

            *tensor = file->tensor[j];
            tensor->file = i;
            tensor->name = strcpy(write, file->tensor[j].name);
            write += strlen(write) + 1;
        }
        joined->file[i] = file->file[0];
        memset(&file->file[0], 0, sizeof(file->file[0]));
    }
    tensors_sort(joined->tensor, joined->count);
    *ret = joined;
    return STATUS_OK;
}

static enum status check_total(const struct shards *shards, const json_t *index, const struct safetensors *file)
{
    const json_t *total = json_object_get(json_object_get(index, "metadata"), "total_size");
    int64_t bytes = 0;

    for (uint32_t i = 0; i < file->count; i++)
        bytes += file->tensor[i].bytes;
    if (total == NULL || (json_is_number(total) && json_number_value(total) == (double)bytes))
        return STATUS_OK;
    return refuse(shards->refusal, STATUS_INVALID,
                  "%s: metadata.total_size is not the %lld bytes that the tensors have; fetch the folder again, or mend the number",
                  shards->index_path, (long long)bytes);
}

static enum status map_shards(struct shards *shards, const json_t *index, struct safetensors **ret)
{
    struct safetensors *joined = NULL;
    enum status status = STATUS_OK;

    shards->map = json_object_get(index, "weight_map");
    if (!json_is_object(shards->map) || json_object_size(shards->map) == 0)
        return refuse(shards->refusal, STATUS_INVALID, "%s: has no weight_map", shards->index_path);
    status = list_shards(shards);
    if (status == STATUS_OK)
        status = open_shards(shards);
    if (status == STATUS_OK)
        status = check_map(shards);
    if (status == STATUS_OK)
        status = join_shards(shards, &joined);
    if (status == STATUS_OK)
        status = check_total(shards, index, joined);
    if (status == STATUS_OK)
        *ret = joined;
    else
        safetensors_close(joined);
    return status;
}

/* No index: one file, or a hint at what lies there instead. */
static enum status map_single(const char *directory, struct safetensors **ret, struct refusal *refusal)
{
    char path[PATH_BYTES_MAX + 64];
    enum status status;

    snprintf(path, sizeof(path), "%s/model.safetensors", directory);
    status = safetensors_map(path, &safetensors_limits_base, ret, refusal);
    if (status != STATUS_NOT_FOUND)
        return status;
    snprintf(path, sizeof(path), "%s/pytorch_model.bin", directory);
    if (access(path, F_OK) == 0)
        return refuse(refusal, STATUS_INVALID,
                      "%s: is a pickle, which can run code and is not read; save the model as safetensors", path);
    return refuse(refusal, STATUS_NOT_FOUND, "%s: holds neither model.safetensors nor model.safetensors.index.json", directory);
}

enum status safetensors_map_model(const char *directory, struct safetensors **ret, struct refusal *refusal)
{
    struct shards shards = {.directory = directory, .refusal = refusal};
    json_t *index = NULL;
    enum status status;

    if (strlen(directory) > PATH_BYTES_MAX - 64)
        return refuse(refusal, STATUS_INVALID, "the name of the model's folder is too long");
    snprintf(shards.index_path, sizeof(shards.index_path), "%s/model.safetensors.index.json", directory);
    status = file_read_json(AT_FDCWD, shards.index_path, shards.index_path, SHARD_INDEX_BYTES_MAX, &index, refusal);
    if (status == STATUS_NOT_FOUND)
        return map_single(directory, ret, refusal);
    if (status != STATUS_OK)
        return status;
    status = map_shards(&shards, index, ret);
    for (uint32_t i = 0; shards.file != NULL && i < shards.count; i++)
        safetensors_close(shards.file[i]);
    free(shards.file);
    free(shards.name);
    json_decref(index);
    return status;
}
