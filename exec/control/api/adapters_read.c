/* What is asked for, key by key, and the two files of an adapter. Both are strangers' bytes: here they are opened, measured and copied, and not
 * looked at. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "control/api/adapters.h"
#include "engine/files/file.h"
#include "link/bundle.h"

#define CONFIG_NAME "adapter_config.json"
#define TENSORS_NAME "adapter_model.safetensors"
/* Of one run on the pool, so that loads of many bytes hold none of its threads. */
#define COPY_BYTES_AT_ONCE (INT64_C(4) << 20)
#define PIECE_BYTES (128 << 10)

/* --- what is asked for ---------------------------------------------------------------------------------------------------------- */

/* A text, or none where it is null or missing. False: `fault`. */
static bool take_text(const json_t *body, const char *key, size_t bytes_max, const char **ret_text, struct fault *fault)
{
    const json_t *value = json_object_get(body, key);

    *ret_text = json_string_value(value);
    if (value == NULL || json_is_null(value) || (*ret_text != NULL && (*ret_text)[0] != '\0' && strlen(*ret_text) < bytes_max))
        return true;
    fault_set(fault, 400, NULL, key, "%s must be a text of 1 to %zu bytes", key, bytes_max - 1);
    return false;
}

static bool know_keys(const json_t *body, const char *const *known, size_t count, const char *names, struct fault *fault)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)body, key, value) {
        bool is_known = false;

        for (size_t i = 0; i < count; i++)
            is_known |= strcmp(known[i], key) == 0;
        if (!is_known) {
            fault_set(fault, 400, "unknown_parameter", NULL, "the request has a key that is not known here; known are %s", names);
            return false;
        }
    }
    return true;
}

static bool choose_base(struct load *load, const char *name, struct fault *fault)
{
    const struct api_config *config = &load->api->config;
    const char *only = config->bases_count == 1 ? config->bases[0].name : NULL;

    for (uint32_t i = 0; name != NULL && i < config->bases_count; i++)
        if (strcmp(config->bases[i].name, name) == 0)
            only = name;
    if (name != NULL && (only == NULL || strcmp(only, name) != 0)) {
        fault_set(fault, 400, "model_not_found", "base_model", "there is no such base here; GET /v1/models lists them");
    } else if (only == NULL) {
        fault_set(fault, 400, "missing_parameter", "base_model", "there are %u bases here: base_model must say which one the adapter was made for",
                  (unsigned)config->bases_count);
    } else {
        snprintf(load->asked.base, sizeof(load->asked.base), "%s", only);
    }
    return fault->status == 0;
}

static bool is_false(const json_t *value)
{
    return value == NULL || json_is_null(value) || json_is_false(value);
}

bool load_read(const json_t *body, struct load *load, struct fault *fault)
{
    static const char *const known[] = {"lora_name", "lora_path", "base_model", "load_inplace"};
    const char *name;
    const char *path;
    const char *base;

    if (!know_keys(body, known, ARRAY_COUNT(known), "lora_name, lora_path, base_model and load_inplace", fault) ||
        !take_text(body, "lora_name", NAME_BYTES, &name, fault) ||
        !take_text(body, "lora_path", sizeof(load->path), &path, fault) || !take_text(body, "base_model", NAME_BYTES, &base, fault))
        return false;
    if (name == NULL || path == NULL)
        fault_set(fault, 400, "missing_parameter", name == NULL ? "lora_name" : "lora_path", "Both 'lora_name' and 'lora_path' must be provided.");
    else if (!meta_name_is_plain(name))
        fault_set(fault, 400, NULL, "lora_name", "a name is 1 to 63 letters, digits, '-', '_', '.' and '/'");
    else if (!is_false(json_object_get(body, "load_inplace")))
        fault_set(fault, 400, "unsupported_parameter", "load_inplace", "an adapter is not replaced under its name; unload it first");
    else
        (void)choose_base(load, base, fault);
    if (fault->status != 0)
        return false;
    snprintf(load->asked.name, sizeof(load->asked.name), "%s", name);
    snprintf(load->path, sizeof(load->path), "%s", path);
    return true;
}

bool unload_read(const json_t *body, const char **ret_name, struct fault *fault)
{
    static const char *const known[] = {"lora_name", "lora_int_id"}; /* the latter is vLLM's, and has no meaning here */

    if (!know_keys(body, known, ARRAY_COUNT(known), "lora_name and lora_int_id", fault) ||
        !take_text(body, "lora_name", META_MODEL_NAME_BYTES, ret_name, fault))
        return false;
    if (*ret_name == NULL)
        fault_set(fault, 400, "missing_parameter", "lora_name", "'lora_name' must be provided.");
    return fault->status == 0;
}

/* --- the folder ----------------------------------------------------------------------------------------------------------------- */

static bool open_folder(const struct load *load, int *ret_folder, struct fault *fault)
{
    struct refusal refusal = {{0}};
    int own = -1;
    enum status status = folder_open_below(load->api->config.adapters_folder, load->slug, &own, &refusal);

    if (status == STATUS_OK) {
        status = folder_open_below(own, load->path, ret_folder, &refusal);
        close(own);
    }
    if (status == STATUS_INVALID)
        fault_set(fault, 400, "invalid_path", "lora_path", "lora_path is a folder's below your organization's: plain names between single slashes, "
                                                           "relative, and none of them . or ..");
    else if (status != STATUS_OK)
        fault_set(fault, 404, "adapter_not_found", "lora_path", "your organization's folder has no such folder; links are not followed");
    return status == STATUS_OK;
}

static bool open_file(int folder, const char *name, int64_t bytes_max, struct load_file *file, struct fault *fault)
{
    struct refusal unheard = {{0}};
    const enum status status = file_open(folder, name, name, &file->file, &file->left_bytes, &unheard);

    if (status != STATUS_OK)
        fault_set(fault, 404, "adapter_not_found", "lora_path", "the folder has no %s that is a regular file; links are not followed", name);
    else if (file->left_bytes > bytes_max)
        fault_set(fault, 400, "invalid_adapter", "lora_path", "%s has %lld bytes; at most %lld are taken", name, (long long)file->left_bytes,
                  (long long)bytes_max);
    return fault->status == 0;
}

static bool begin_bundle(struct load *load, struct metadata *metadata, struct fault *fault)
{
    uint8_t head[BUNDLE_HEAD_BYTES];
    struct refusal refusal = {{0}};
    enum status status = object_begin(&load->api->home, metadata, load->caller.tenant, BUNDLE_PURPOSE, &load->bundle, &refusal);

    bundle_head_write((uint64_t)load->config.left_bytes, head);
    if (status == STATUS_OK)
        status = object_write(&load->bundle, head, sizeof(head), &refusal);
    if (status != STATUS_OK)
        fault_from(load->api, fault, status, &refusal);
    return status == STATUS_OK;
}

bool load_open(struct load *load, struct metadata *metadata, struct fault *fault)
{
    int folder = -1;
    bool good = open_folder(load, &folder, fault);

    if (!good)
        return false;
    good = open_file(folder, CONFIG_NAME, BUNDLE_CONFIG_BYTES_MAX, &load->config, fault) &&
           open_file(folder, TENSORS_NAME, BUNDLE_TENSORS_BYTES_MAX, &load->tensors, fault);
    close(folder);
    return good && begin_bundle(load, metadata, fault);
}

/* --- the copy ------------------------------------------------------------------------------------------------------------------- */

static bool copy_piece(struct load *load, struct load_file *file, uint8_t *piece, struct fault *fault)
{
    const ssize_t got = read(file->file, piece, (size_t)min_i64(PIECE_BYTES, file->left_bytes));
    struct refusal refusal = {{0}};
    enum status status;

    if (got < 0 && errno == EINTR)
        return true;
    if (got <= 0) {
        fault_set(fault, 400, "invalid_adapter", "lora_path", "a file of the folder was cut while it was read, or cannot be read");
        return false;
    }
    file->left_bytes -= got;
    status = object_write(&load->bundle, piece, (size_t)got, &refusal);
    if (status != STATUS_OK)
        fault_from(load->api, fault, status, &refusal);
    return status == STATUS_OK;
}

bool load_copy(struct load *load, struct fault *fault)
{
    uint8_t piece[PIECE_BYTES];
    struct refusal refusal = {{0}};
    enum status status;

    for (int64_t pieces = COPY_BYTES_AT_ONCE / PIECE_BYTES; pieces > 0; pieces--) {
        struct load_file *file = load->config.left_bytes > 0 ? &load->config : &load->tensors;

        if (file->left_bytes == 0)
            break;
        if (!copy_piece(load, file, piece, fault))
            return false;
    }
    if (load->config.left_bytes > 0 || load->tensors.left_bytes > 0)
        return true;
    status = object_finish(&load->bundle, &refusal);
    object_close(&load->bundle);
    if (status != STATUS_OK)
        fault_from(load->api, fault, status, &refusal);
    load->is_copied = status == STATUS_OK;
    return load->is_copied;
}

void load_close(struct load *load)
{
    struct refusal unheard = {{0}};

    if (load->config.file >= 0)
        close(load->config.file);
    if (load->tensors.file >= 0)
        close(load->tensors.file);
    object_close(&load->bundle);
    if (load->bundle.has_row) /* refused, it is the next start's to destroy */
        (void)object_undo(&load->api->home, load->caller.tenant, load->bundle.id, &unheard);
}
