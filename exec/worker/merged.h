/* A base that has an adapter folded in serves as that adapter's version: it answers for the adapter's name, and for nothing else. A request
 * for the base would get the adapter's answers there, and another adapter would come on top of this one. */
#ifndef WORKER_MERGED_H
#define WORKER_MERGED_H

#include "engine/lora/peft.h"
#include "worker/worker.h"

/* The file beside the weights that says whose they are: {"adapter_digest": 64 hexadecimal digits}. */
#define MERGED_FILE "berth_merged.json"

enum status merged_write(const char *directory, const uint8_t digest[DIGEST_BYTES], struct refusal *refusal);
/* STATUS_NOT_FOUND: no such file, so these weights are a base's. */
enum status merged_read(const char *directory, uint8_t ret_digest[DIGEST_BYTES], struct refusal *refusal);

#endif
