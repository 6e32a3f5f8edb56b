/* The thread that reads adapters from files, packs them, and copies them to the device, so that no step waits for a disk. Work is done in
 * order; the queue is as long as its caller's table of loads. */
#ifndef WORKER_LOADER_H
#define WORKER_LOADER_H

#include "base/ids.h"
#include "engine/lora/peft.h"
#include "engine/model/forward.h"
#include "worker/source.h"

struct loader;

enum loader_kind { LOADER_FETCH, LOADER_COPY };
struct loader_work {
    enum loader_kind kind;
    adapter_id adapter;
    uint64_t tag;                    /* the caller's, comes back */
    /* FETCH: it must still hold what was registered. */
    struct adapter_source source;    /* its folder's name is the loader's to free; an object's file and key stay the caller's */
    uint8_t digest[DIGEST_BYTES];
    int32_t rank;                    /* padded */
    int64_t packed_bytes;            /* of the blob, padding included: at least what it needs */
    /* COPY */
    const void *blob;
    int64_t offset;
    /* Answers. */
    enum status status;
    void *ret_blob;                  /* FETCH: the caller's from then on */
    uint32_t ret_modules;
    char why[512];
};

/* `model` and `forward` must outlive it. NULL: no thread or memory. */
struct loader *loader_create(const struct model *model, struct forward *forward, int32_t rank_max, uint32_t works_max);
/* Waits for the work in hand; what is queued is dropped, and blobs that nobody took are freed. */
void loader_close(struct loader *loader);
/* There is room: works_max. `blob` must stay until it is done. */
void loader_push(struct loader *loader, const struct loader_work *work);
/* False: nothing has been done. */
bool loader_take(struct loader *loader, struct loader_work *ret_work);
/* An eventfd, readable when something has been done. */
int loader_fd(const struct loader *loader);

#endif
