#include <fcntl.h>
#include <stdio.h>

#include "engine/lora/internal.h"

static int32_t clamp(int64_t size)
{
    return size > INT32_MAX ? INT32_MAX : (int32_t)size;
}

/* in, out and rank of a module, from whichever of its tensors is seen first. */
static void learn(enum lora_module module, bool is_a, const struct tensor *tensor, struct dims *dims)
{
    int32_t size = clamp(tensor->shape[is_a ? 1 : 0]);

    switch (module) {
    case LORA_Q: *(is_a ? &dims->hidden : &dims->heads) = size; break;
    case LORA_K: case LORA_V: *(is_a ? &dims->hidden : &dims->kv_heads) = size; break;
    case LORA_O: *(is_a ? &dims->heads : &dims->hidden) = size; break;
    case LORA_DOWN: *(is_a ? &dims->ffn : &dims->hidden) = size; break;
    default: *(is_a ? &dims->hidden : &dims->ffn) = size; break;
    }
}

static void learn_tensor(const struct tensor *tensor, struct dims *dims)
{
    static const char *const names[] = {
#define X(name, text, group) text,
        LORA_MODULES(X)
#undef X
    };
    char part[16] = "";
    char module[16] = "";
    char which = 0;
    int layer = -1;

    if (sscanf(tensor->name, "base_model.model.model.layers.%5d.%15[a-z_].%15[a-z_].lora_%c.weight", &layer, part,
               module, &which) != 4 ||
        layer < 0)
        return;
    if (layer + 1 > dims->layers && layer < MODEL_LAYERS_MAX)
        dims->layers = layer + 1;
    for (int i = 0; i < LORA_MODULE_COUNT; i++)
        if (strcmp(module, names[i]) == 0)
            learn((enum lora_module)i, which == 'A', tensor, dims);
}

enum status peft_infer_dims(const char *directory, struct dims *ret_dims, struct refusal *refusal)
{
    struct dims dims = {.hidden = 1, .heads = 1, .kv_heads = 1, .head_dim = 1, .ffn = 1, .vocabulary = 1, .layers = 1};
    struct safetensors *file = NULL;
    char path[4096];
    enum status status;

    snprintf(path, sizeof(path), "%.4000s/adapter_model.safetensors", directory);
    status = safetensors_copy(AT_FDCWD, path, path, &safetensors_limits_adapter, &file, refusal);
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < safetensors_count(file); i++)
        learn_tensor(safetensors_at(file, i), &dims);
    safetensors_close(file);
    *ret_dims = dims;
    return STATUS_OK;
}
