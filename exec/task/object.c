/* Granted objects: opened into memory, sealed into descriptors. */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "task/internal.h"

#define PIECE_BYTES (256 << 10)

void grant_close(struct grant *grant)
{
    if (grant->file >= 0)
        close(grant->file);
    grant->file = -1;
    sodium_memzero(grant->key, sizeof(grant->key));
}

enum status task_grant(const struct task *task, const char *name, struct grant **ret_grant, struct refusal *refusal)
{
    const json_t *object = json_object_get(task->settings, name);
    const int64_t file = whole_of(object, "fd", -1);
    const int64_t grant = whole_of(object, "grant", -1);

    *ret_grant = NULL;
    if (object == NULL || json_is_null(object))
        return STATUS_OK;
    if (grant < 0 || grant >= task->grants->start_count || file < 0 || file >= GRANTS_MAX || task->files[file] < 0)
        return refuse(refusal, STATUS_INVALID, "START's %s names no grant or no descriptor that came with it", name);
    task->grants->start[grant].file = task->files[file];
    *ret_grant = &task->grants->start[grant];
    return STATUS_OK;
}

int task_base(const struct task *task)
{
    const int64_t file = whole_of(json_object_get(task->settings, "base"), "fd", -1);

    return file >= 0 && file < GRANTS_MAX ? task->files[file] : -1;
}

/* --- reading ------------------------------------------------------------------------------------------------------------------ */

static enum status open_object(const struct task *task, const struct grant *grant, const char *purpose, struct opener **ret_opener,
                               struct refusal *refusal)
{
    const struct envelope_label label = {.tenant = task->tenant, .object = grant->object, .purpose = purpose};
    const off_t bytes = lseek(grant->file, 0, SEEK_END);
    const enum status status = bytes < 0 ? STATUS_IO
                                         : opener_open(&label, grant->key, (uint64_t)bytes, envelope_from_file, (void *)(uintptr_t)&grant->file, ret_opener);

    return status == STATUS_OK ? STATUS_OK : refuse(refusal, status, "a sealed %s does not open: it was changed or cut, or its key is another's", purpose);
}

static enum status damaged(const char *purpose, struct refusal *refusal)
{
    return refuse(refusal, STATUS_CORRUPT, "a sealed %s does not open to its end: it was changed or cut", purpose);
}

enum status sealed_read(const struct task *task, const struct grant *grant, const char *purpose, int64_t bytes_max, void **ret_data,
                        int64_t *ret_bytes, struct refusal *refusal)
{
    struct opener *opener = NULL;
    enum status status = open_object(task, grant, purpose, &opener, refusal);
    uint64_t bytes;
    char *data;

    if (status != STATUS_OK)
        return status;
    bytes = opener_bytes(opener);
    data = bytes <= (uint64_t)bytes_max ? malloc(bytes + 1) : NULL;
    if (data == NULL)
        status = refuse(refusal, STATUS_FULL, "no memory for a %s of %llu bytes", purpose, (unsigned long long)bytes);
    else if (opener_read(opener, 0, data, bytes) != STATUS_OK)
        status = damaged(purpose, refusal);
    opener_close(opener);
    if (status != STATUS_OK) {
        free(data);
        return status;
    }
    data[bytes] = '\0';
    *ret_data = data;
    *ret_bytes = (int64_t)bytes;
    return STATUS_OK;
}

enum status sealed_stream(const struct task *task, const struct grant *grant, const char *purpose, sealed_take *take, void *context,
                          struct refusal *refusal)
{
    char *piece = malloc(PIECE_BYTES);
    struct opener *opener = NULL;
    enum status status = piece == NULL ? refuse(refusal, STATUS_FULL, "no memory") : open_object(task, grant, purpose, &opener, refusal);

    for (uint64_t at = 0; status == STATUS_OK && at < opener_bytes(opener);) {
        const size_t count = (size_t)min_i64((int64_t)(opener_bytes(opener) - at), PIECE_BYTES);

        if (opener_read(opener, at, piece, count) != STATUS_OK)
            status = damaged(purpose, refusal);
        else if (!take(context, piece, count))
            break;
        at += count;
    }
    opener_close(opener);
    if (piece != NULL)
        sodium_memzero(piece, PIECE_BYTES);
    free(piece);
    return status;
}

/* --- writing ------------------------------------------------------------------------------------------------------------------ */

static enum status take_sealed(void *context, const void *bytes, size_t count)
{
    struct sealing *writing = context;

    crypto_generichash_update(writing->hash, bytes, count);
    writing->bytes += count;
    return envelope_to_file(&writing->file, bytes, count);
}

static enum status unwritten(struct refusal *refusal)
{
    return refuse(refusal, STATUS_IO, "a granted object cannot be written: %s", strerror(errno));
}

/* What an earlier owner of the descriptor had begun is begun anew. */
enum status sealing_begin(const struct task *task, const struct grant *grant, const char *purpose, struct sealing *writing,
                         struct refusal *refusal)
{
    const struct envelope_label label = {.tenant = task->tenant, .object = grant->object, .purpose = purpose};

    *writing = (struct sealing){.file = grant->file};
    if (lseek(grant->file, 0, SEEK_SET) != 0 || ftruncate(grant->file, 0) != 0)
        return unwritten(refusal);
    writing->hash = malloc(crypto_generichash_statebytes());
    if (writing->hash == NULL)
        return refuse(refusal, STATUS_FULL, "no memory");
    crypto_generichash_init(writing->hash, NULL, 0, DIGEST_SEALED_BYTES);
    return sealer_open(&label, grant->object, grant->key, take_sealed, writing, &writing->sealer) == STATUS_OK ? STATUS_OK : unwritten(refusal);
}

enum status sealing_put(struct sealing *writing, const void *bytes, int64_t count, struct refusal *refusal)
{
    return sealer_put(writing->sealer, bytes, (size_t)count) == STATUS_OK ? STATUS_OK : unwritten(refusal);
}

enum status sealing_end(struct sealing *writing, struct refusal *refusal)
{
    if (sealer_finish(writing->sealer) != STATUS_OK || (fsync(writing->file) != 0 && errno != EINVAL)) /* EINVAL: no disk is behind it */
        return unwritten(refusal);
    crypto_generichash_final(writing->hash, writing->digest, DIGEST_SEALED_BYTES);
    return STATUS_OK;
}

void sealing_close(struct sealing *writing)
{
    sealer_close(writing->sealer);
    free(writing->hash);
    writing->sealer = NULL;
    writing->hash = NULL;
}

enum status seal_whole(const struct task *task, const struct grant *grant, const char *purpose, const void *bytes, int64_t count,
                         struct sealing *ret_written, struct refusal *refusal)
{
    enum status status = sealing_begin(task, grant, purpose, ret_written, refusal);

    if (status == STATUS_OK)
        status = sealing_put(ret_written, bytes, count, refusal);
    if (status == STATUS_OK)
        status = sealing_end(ret_written, refusal);
    sealing_close(ret_written);
    return status;
}
