/* Where an adapter's bytes are read from, again whenever host memory has let them go: a PEFT folder, or a sealed object. */
#ifndef WORKER_SOURCE_H
#define WORKER_SOURCE_H

#include "crypto/names.h"
#include "engine/lora/peft.h"

struct adapter_source {
    char *directory;         /* malloc'd; NULL: an object */
    int file;                /* sealed; -1: none */
    const uint8_t *secret;   /* its data key, in locked memory that outlives the reading */
    char tenant[NAME_BYTES];
    char id[NAME_BYTES];
};

/* An adapter in memory. */
struct adapter_read {
    struct peft *peft;
    void *bytes;             /* of an object, which the adapter points into; NULL: a folder's */
};
/* Whose content is `digest`'s; an object's is its key. */
enum status source_read(const struct adapter_source *source, const uint8_t digest[DIGEST_BYTES], const struct model_config *config,
                        int32_t rank_max, struct adapter_read *ret_read, struct refusal *refusal);
void source_read_close(struct adapter_read *read);

#endif
