/* What this node's devices are made of, and how START says so: "device" is "cpu", or "cuda" with "gpu", the one GPU that the worker is to see,
 * by a name that CUDA_VISIBLE_DEVICES takes. Device i of the fleet core's is a share of GPU i modulo their number. */
#ifndef CORE_GPUS_H
#define CORE_GPUS_H

#include <jansson.h>

#include "engine/files/refusal.h"

#define CORE_DEVICES_MAX 16
#define GPU_NAME_BYTES 64
#define GPUS_TEXT_BYTES (CORE_DEVICES_MAX * GPU_NAME_BYTES)

struct core_gpus {
    uint32_t count;              /* 0: the devices are shares of the CPU */
    uint64_t bytes;              /* of the smallest one's memory */
    char names[CORE_DEVICES_MAX][GPU_NAME_BYTES];
};

/* "0,1,GPU-8f...": the names, of as many as fit; `bytes` stays. STATUS_INVALID: no such list. */
enum status core_gpus_read(const char *list, struct core_gpus *ret_gpus, struct refusal *refusal);
/* The same, as a text. */
void core_gpus_text(const struct core_gpus *gpus, char ret_list[GPUS_TEXT_BYTES]);
/* For whoever has these devices, of which the first counts; `gpus` NULL: none. */
void core_gpus_say(const struct core_gpus *gpus, uint16_t gpu_mask, json_t *settings);

#endif
