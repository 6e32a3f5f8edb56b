#include "control/core/gpus.h"

#include <string.h>

enum status core_gpus_read(const char *list, struct core_gpus *ret_gpus, struct refusal *refusal)
{
    struct core_gpus gpus = {.bytes = ret_gpus->bytes};

    for (const char *at = list; at != NULL && gpus.count < CORE_DEVICES_MAX;) {
        const size_t length = strcspn(at, ",");

        if (length == 0 || length >= GPU_NAME_BYTES)
            return refuse(refusal, STATUS_INVALID, "%s is no list of GPUs, as CUDA_VISIBLE_DEVICES has them", list);
        memcpy(gpus.names[gpus.count++], at, length);
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    *ret_gpus = gpus;
    return STATUS_OK;
}

void core_gpus_text(const struct core_gpus *gpus, char ret_list[GPUS_TEXT_BYTES])
{
    ret_list[0] = '\0';
    for (uint32_t i = 0; i < gpus->count; i++) {
        strcat(ret_list, i > 0 ? "," : "");
        strcat(ret_list, gpus->names[i]);
    }
}

void core_gpus_say(const struct core_gpus *gpus, uint16_t gpu_mask, json_t *settings)
{
    const uint32_t count = gpus != NULL ? gpus->count : 0;

    check(gpu_mask != 0);
    check(json_object_set_new(settings, "device", json_string(count > 0 ? "cuda" : "cpu")) == 0);
    if (count > 0)
        check(json_object_set_new(settings, "gpu", json_string(gpus->names[(uint32_t)__builtin_ctz(gpu_mask) % count])) == 0);
}
