/* Names and versions of adapters. A name is what clients say; a version is weights, known to the cores by an id that no other weights ever
 * get. A version goes when it has no name, no request and no load; its place is free for another then. */
#include <stdlib.h>

#include "worker/internal.h"

bool worker_name_fine(const char *name)
{
    size_t length = strlen(name);

    if (length == 0 || length > WORKER_NAME_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!letter && (i == 0 || (c != '.' && c != '_' && c != '-')))
            return false;
    }
    return true;
}

struct worker_version *version_of(struct worker *worker, adapter_id id)
{
    struct worker_version *version = &worker->versions[id.index - 1];

    check(id.index >= 1 && id.index <= worker->versions_max && version->used && adapter_id_equal(version->id, id));
    return version;
}

struct worker_version *version_named(struct worker *worker, const char *name)
{
    for (uint32_t i = 0; i < worker->versions_max; i++)
        if (worker->versions[i].used && worker->versions[i].named && strcmp(worker->versions[i].name, name) == 0)
            return &worker->versions[i];
    return NULL;
}

/* --- going ------------------------------------------------------------------------------------------------------------------ */

/* The node forgets it only when no request is left that could still ask for it. */
void version_settle(struct worker *worker, struct worker_version *version)
{
    struct node_event event;

    if (version->named || version->requests > 0 || version->loading > 0 || version->slot >= 0)
        return;
    if (!version->node_told) {
        version->node_told = true;
        memset(&event, 0, sizeof(event));
        event.kind = NODE_EVENT_RETIRED;
        event.retired.adapter = version->id;
        worker_tell_node(worker, &event);
    }
    if (version->blob != NULL || !version->used) /* its DROP is said a little later; or it was, in the call above */
        return;
    free(version->directory);
    free(version->failure);
    *version = (struct worker_version){.slot = -1};
}

static void retire(struct worker *worker, struct worker_version *version)
{
    struct replica_event event;

    version->named = false;
    if (version->known) {
        memset(&event, 0, sizeof(event));
        event.kind = REPLICA_EVENT_ADAPTER_RETIRED;
        event.adapter_retired.adapter = version->id;
        worker_tell_replica(worker, &event);
    }
    version_settle(worker, version);
}

enum status worker_adapter_remove(struct worker *worker, const char *name)
{
    struct worker_version *version = version_named(worker, name);

    if (version == NULL)
        return STATUS_NOT_FOUND;
    retire(worker, version);
    return STATUS_OK;
}

/* --- coming ----------------------------------------------------------------------------------------------------------------- */

static uint32_t named_count(const struct worker *worker)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < worker->versions_max; i++)
        count += worker->versions[i].used && worker->versions[i].named;
    return count;
}

static enum status take(struct worker *worker, const char *name, const char *directory, const struct peft *peft,
                        struct refusal *refusal)
{
    const struct dims *dims = forward_dims(worker->forward);
    struct worker_version *old = version_named(worker, name);
    struct worker_version *version = NULL;
    int32_t rank = lora_rank_padded(peft->source.rank);
    int64_t bytes = pool_aligned(lora_packed_bytes(dims, worker_mode(worker), rank, peft->source.modules));

    if (old != NULL && memcmp(old->digest, peft->digest, DIGEST_BYTES) == 0)
        return STATUS_OK;
    if ((uint64_t)bytes > worker->config.pool_bytes)
        return refuse(refusal, STATUS_INVALID, "adapter %s: takes %lld bytes on the device, the pool has %llu", name, (long long)bytes,
                      (unsigned long long)worker->config.pool_bytes);
    for (uint32_t i = 0; i < worker->versions_max && version == NULL; i++)
        if (!worker->versions[i].used)
            version = &worker->versions[i];
    if (version == NULL || (old == NULL && named_count(worker) >= worker->config.adapters_max))
        return refuse(refusal, STATUS_FULL, "adapter %s: %u adapters are registered, as many as this server takes at once", name,
                      worker->config.adapters_max);
    if (old != NULL)
        retire(worker, old);
    *version = (struct worker_version){.id = {(uint32_t)(version - worker->versions) + 1, ++worker->version_last},
                                       .rank = rank,
                                       .modules = peft->source.modules,
                                       .packed_bytes = bytes,
                                       .directory = strdup(directory),
                                       .used = true,
                                       .named = true,
                                       .slot = -1};
    strcpy(version->name, name);
    memcpy(version->digest, peft->digest, DIGEST_BYTES);
    return version->directory == NULL ? refuse(refusal, STATUS_FULL, "no memory") : STATUS_OK;
}

enum status worker_adapter_add(struct worker *worker, const char *name, const char *directory, struct refusal *refusal)
{
    struct peft *peft;
    enum status status;

    if (!worker_name_fine(name))
        return refuse(refusal, STATUS_INVALID, "an adapter's name has letters, digits, '.', '_' and '-', begins with a letter or digit, "
                                               "and has at most %d of them",
                      WORKER_NAME_MAX);
    status = peft_open(directory, &worker->model->config, (int32_t)worker->config.rank_max, &peft, refusal);
    if (status != STATUS_OK)
        return status;
    status = take(worker, name, directory, peft, refusal);
    peft_close(peft);
    return status;
}

static const struct worker_version *next_by_name(const struct worker *worker, const char *after)
{
    const struct worker_version *best = NULL;

    for (uint32_t i = 0; i < worker->versions_max; i++) {
        const struct worker_version *version = &worker->versions[i];

        if (version->used && version->named && (after == NULL || strcmp(version->name, after) > 0) &&
            (best == NULL || strcmp(version->name, best->name) < 0))
            best = version;
    }
    return best;
}

bool worker_adapter_at(const struct worker *worker, uint32_t index, struct worker_adapter *ret_adapter)
{
    const struct worker_version *version = next_by_name(worker, NULL);

    while (index-- > 0 && version != NULL)
        version = next_by_name(worker, version->name);
    if (version == NULL)
        return false;
    *ret_adapter = (struct worker_adapter){
        .name = version->name,
        .digest = version->digest,
        .rank = version->rank,
        .packed_bytes = version->packed_bytes,
        .tier = version->slot >= 0 ? TIER_GPU : version->blob != NULL ? TIER_HOST : TIER_STORE,
    };
    return true;
}
