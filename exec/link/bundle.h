/* The folder of an adapter that was made elsewhere, as one sealed object: the length of adapter_config.json as eight bytes, little-endian, its
 * text, then adapter_model.safetensors. The control plane copies both unread; a worker in its sandbox is the first to look into them. Nothing
 * else of the folder is ever opened, so that no chat template or tokenizer comes with an adapter. */
#ifndef LINK_BUNDLE_H
#define LINK_BUNDLE_H

#include "base/base.h"

#define BUNDLE_PURPOSE "bundle" /* the object's kind too */
#define BUNDLE_HEAD_BYTES 8
#define BUNDLE_CONFIG_BYTES_MAX (INT64_C(256) << 10)
#define BUNDLE_TENSORS_BYTES_MAX (INT64_C(2) << 30)

static inline void bundle_head_write(uint64_t config_bytes, uint8_t ret_head[BUNDLE_HEAD_BYTES])
{
    for (int i = 0; i < BUNDLE_HEAD_BYTES; i++)
        ret_head[i] = (uint8_t)(config_bytes >> (8 * i));
}

static inline uint64_t bundle_head_read(const uint8_t head[BUNDLE_HEAD_BYTES])
{
    uint64_t config_bytes = 0;

    for (int i = 0; i < BUNDLE_HEAD_BYTES; i++)
        config_bytes |= (uint64_t)head[i] << (8 * i);
    return config_bytes;
}

#endif
