#include "worker/source.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "control/core/core.h"
#include "crypto/envelope.h"

#define ADAPTER_PURPOSE "adapter"

static enum status read_folder(const struct adapter_source *source, const uint8_t digest[DIGEST_BYTES], const struct model_config *config,
                               int32_t rank_max, struct adapter_read *read, struct refusal *refusal)
{
    const enum status status = peft_open(source->directory, config, rank_max, &read->peft, refusal);

    if (status == STATUS_OK && memcmp(read->peft->digest, digest, DIGEST_BYTES) != 0)
        return refuse(refusal, STATUS_CORRUPT, "the adapter's files were changed after it was registered; register it again");
    return status;
}

/* What is in the object tells where it was made, so no refusal of the envelope's says more than that it does not open. */
static enum status open_sealed(const struct adapter_source *source, void **ret_bytes, uint64_t *ret_count, struct refusal *refusal)
{
    const struct envelope_label label = {.tenant = source->tenant, .object = source->id, .purpose = ADAPTER_PURPOSE};
    int file = source->file;
    struct opener *opener = NULL;
    struct stat about;
    void *bytes = NULL;
    uint64_t count = 0;
    enum status status = STATUS_IO;

    if (fstat(file, &about) == 0)
        status = opener_open(&label, source->secret, (uint64_t)about.st_size, envelope_from_file, &file, &opener);
    if (status == STATUS_OK) {
        count = opener_bytes(opener);
        if (count > (uint64_t)safetensors_limits_adapter.file_bytes_max)
            status = STATUS_INVALID;
        else if ((bytes = malloc(count + 1)) == NULL)
            status = STATUS_FULL;
    }
    if (status == STATUS_OK)
        status = opener_read(opener, 0, bytes, count);
    opener_close(opener);
    if (status != STATUS_OK) {
        free(bytes);
        return refuse(refusal, status, "the adapter's object %s cannot be opened: %s", source->id, status_text(status));
    }
    *ret_bytes = bytes;
    *ret_count = count;
    return STATUS_OK;
}

static enum status read_object(const struct adapter_source *source, const uint8_t key[DIGEST_BYTES], const struct model_config *config,
                               int32_t rank_max, struct adapter_read *read, struct refusal *refusal)
{
    uint8_t found[DIGEST_BYTES];
    char text[DIGEST_TEXT_MAX];
    uint64_t count = 0;
    enum status status = open_sealed(source, &read->bytes, &count, refusal);

    if (status == STATUS_OK)
        status = peft_open_bytes(read->bytes, (int64_t)count, "the adapter", config, rank_max, &read->peft, refusal);
    if (status != STATUS_OK)
        return status;
    core_adapter_key(source->tenant, digest_text(read->peft->digest, text), found);
    if (memcmp(found, key, DIGEST_BYTES) == 0)
        return STATUS_OK;
    return refuse(refusal, STATUS_CORRUPT, "the adapter's object %s holds another adapter", source->id);
}

enum status source_read(const struct adapter_source *source, const uint8_t digest[DIGEST_BYTES], const struct model_config *config,
                        int32_t rank_max, struct adapter_read *ret_read, struct refusal *refusal)
{
    struct adapter_read read = {NULL, NULL};
    enum status status;

    if (source->directory != NULL)
        status = read_folder(source, digest, config, rank_max, &read, refusal);
    else
        status = read_object(source, digest, config, rank_max, &read, refusal);
    if (status == STATUS_OK)
        *ret_read = read;
    else
        source_read_close(&read);
    return status;
}

void source_read_close(struct adapter_read *read)
{
    peft_close(read->peft);
    free(read->bytes);
    *read = (struct adapter_read){NULL, NULL};
}
