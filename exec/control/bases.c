#define _XOPEN_SOURCE 700 /* realpath */
#include "control/bases.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/metadata/model.h"
#include "engine/model/weights.h"

struct registration {
    char name[NAME_BYTES];
    char *folder;
    char digest[DIGEST_TEXT_MAX];
    int64_t now_ms;
};

static enum status add_or_compare(struct metadata *metadata, void *context, struct refusal *refusal)
{
    const struct registration *base = context;
    struct meta_results results = {0};
    struct refusal unheard;
    struct meta_base known;
    enum status status = meta_base_get(metadata, base->name, &results, &known, &unheard);

    if (status == STATUS_NOT_FOUND)
        status = meta_base_add(metadata, base->name, base->digest, base->folder, base->now_ms, refusal);
    else if (status != STATUS_OK)
        *refusal = unheard;
    else if (strcmp(known.digest, base->digest) != 0)
        status = refuse(refusal, STATUS_CONFLICT, "base %s has other weights than when it was made known; give these another name", base->name);
    else if (strcmp(known.folder, base->folder) != 0)
        status = refuse(refusal, STATUS_CONFLICT, "base %s lies in %s; put it back there, or give this one another name", base->name,
                        known.folder);
    meta_results_free(&results);
    return status;
}

/* What the disk gives a second, when it is not in memory. */
#define READ_BYTES_PER_S (1 << 30)

static enum status read_model(struct registration *base, struct core_base *ret_base, struct refusal *refusal)
{
    struct model *model = NULL;
    enum status status = model_open(base->folder, &model, refusal);

    if (status != STATUS_OK)
        return status;
    ret_base->bytes = (uint64_t)model->weights_bytes;
    ret_base->load_ns = 10 * NS_PER_MS + (int64_t)((double)model->weights_bytes / READ_BYTES_PER_S * NS_PER_S);
    ret_base->positions_max = (uint32_t)model->config.positions_max;
    status = safetensors_digest(model->files, NULL, ret_base->digest);
    if (status == STATUS_OK)
        digest_text(ret_base->digest, base->digest);
    else
        (void)refuse(refusal, status, "%s: its weights cannot be read", base->folder);
    model_close(model);
    return status;
}

enum status base_open(struct meta_writer *writer, const char *what, int64_t now_ms, struct core_base *ret_base, struct refusal *refusal)
{
    struct core_base found = {.folder = -1, .replicas_floor = 1, .replicas_ceiling = 1};
    struct registration base = {.now_ms = now_ms};
    const char *equals = strchr(what, '=');
    enum status status;

    if (equals == NULL || equals == what || (size_t)(equals - what) >= sizeof(base.name))
        return refuse(refusal, STATUS_INVALID, "--base %s: it is NAME=FOLDER, a name of at most %d bytes", what, NAME_BYTES - 1);
    snprintf(base.name, sizeof(base.name), "%.*s", (int)(equals - what), what);
    base.folder = realpath(equals + 1, NULL);
    if (base.folder == NULL)
        return refuse(refusal, STATUS_NOT_FOUND, "--base %s: there is no such folder", what);
    memcpy(found.name, base.name, sizeof(found.name));
    status = read_model(&base, &found, refusal);
    if (status == STATUS_OK)
        status = meta_writer_call(writer, add_or_compare, &base, refusal);
    if (status == STATUS_OK) {
        found.folder = open(base.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (found.folder < 0)
            status = refuse(refusal, STATUS_IO, "%s: %s", base.folder, strerror(errno));
    }
    if (status == STATUS_OK)
        *ret_base = found;
    free(base.folder);
    return status;
}
