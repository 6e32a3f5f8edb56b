#include "engine/model/generation.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

static enum status take(const json_t *value, const char *path, const struct model_config *config, int32_t *ret_ids, int32_t *ret_count,
                        struct refusal *refusal)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) >= config->dims.vocabulary)
        return refuse(refusal, STATUS_INVALID, "%s: eos_token_id: ids of the vocabulary, 0 to %d", path, config->dims.vocabulary - 1);
    if (*ret_count == MODEL_EOS_MAX)
        return refuse(refusal, STATUS_INVALID, "%s: eos_token_id: more than %d ids", path, MODEL_EOS_MAX);
    ret_ids[(*ret_count)++] = (int32_t)json_integer_value(value);
    return STATUS_OK;
}

static enum status take_all(const json_t *value, const char *path, const struct model_config *config, int32_t *ret_ids,
                            int32_t *ret_count, struct refusal *refusal)
{
    enum status status = STATUS_OK;

    if (!json_is_array(value))
        return take(value, path, config, ret_ids, ret_count, refusal);
    for (size_t i = 0; i < json_array_size(value) && status == STATUS_OK; i++)
        status = take(json_array_get(value, i), path, config, ret_ids, ret_count, refusal);
    return status;
}

enum status generation_ends(const char *directory, const struct model_config *config, int32_t *ret_ids, int32_t *ret_count,
                            struct refusal *refusal)
{
    char path[PATH_MAX];
    json_error_t error;
    struct stat facts;
    const json_t *value;
    enum status status;
    json_t *root;

    memcpy(ret_ids, config->eos, sizeof(config->eos));
    *ret_count = config->eos_count;
    if (snprintf(path, sizeof(path), "%s/generation_config.json", directory) >= (int)sizeof(path))
        return refuse(refusal, STATUS_INVALID, "%s: the path is too long", directory);
    if (stat(path, &facts) != 0)
        return errno == ENOENT ? STATUS_OK : refuse(refusal, STATUS_IO, "%s: %s", path, strerror(errno));
    if (facts.st_size > CONFIG_BYTES_MAX)
        return refuse(refusal, STATUS_INVALID, "%s: larger than %d bytes", path, CONFIG_BYTES_MAX);
    root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL || !json_is_object(root)) {
        json_decref(root);
        return refuse(refusal, STATUS_INVALID, "%s: line %d: %s", path, error.line, root == NULL ? error.text : "no object");
    }
    value = json_object_get(root, "eos_token_id");
    status = STATUS_OK;
    if (value != NULL && !json_is_null(value)) {
        *ret_count = 0;
        status = take_all(value, path, config, ret_ids, ret_count, refusal);
    }
    json_decref(root);
    return status;
}
