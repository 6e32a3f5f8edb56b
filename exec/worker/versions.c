/* Names and versions of adapters. A name is what clients say; a version is weights, known to the cores by an id that no other weights ever
 * get. A version goes when it has no name, no request and no load; its place is free for another then. */
#include <sodium.h>
#include <stdlib.h>
#include <unistd.h>

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

/* Where in by_name the name stands, or would. */
static uint32_t place_of(const struct worker *worker, const char *name)
{
    uint32_t from = 0;
    uint32_t until = worker->named_count;

    while (from < until) {
        uint32_t middle = (from + until) / 2;

        if (strcmp(worker->versions[worker->by_name[middle]].name, name) < 0)
            from = middle + 1;
        else
            until = middle;
    }
    return from;
}

struct worker_version *version_named(struct worker *worker, const char *name)
{
    uint32_t place = place_of(worker, name);
    struct worker_version *version = place < worker->named_count ? &worker->versions[worker->by_name[place]] : NULL;

    return version != NULL && strcmp(version->name, name) == 0 ? version : NULL;
}

static void take_name(struct worker *worker, struct worker_version *version, const char *name)
{
    uint32_t place = place_of(worker, name);

    check(worker->named_count < worker->config.adapters_max);
    memmove(&worker->by_name[place + 1], &worker->by_name[place], (worker->named_count - place) * sizeof(worker->by_name[0]));
    worker->by_name[place] = (uint32_t)(version - worker->versions);
    worker->named_count++;
    strcpy(version->name, name);
    version->named = true;
}

static void lose_name(struct worker *worker, struct worker_version *version)
{
    uint32_t place = place_of(worker, version->name);

    check(&worker->versions[worker->by_name[place]] == version);
    worker->named_count--;
    memmove(&worker->by_name[place], &worker->by_name[place + 1], (worker->named_count - place) * sizeof(worker->by_name[0]));
    version->named = false;
}

static void describe(const struct worker_version *version, struct worker_adapter *ret_adapter)
{
    *ret_adapter = (struct worker_adapter){
        .name = version->name,
        .digest = version->digest,
        .rank = version->rank,
        .packed_bytes = version->packed_bytes,
        .tier = version->slot >= 0 ? TIER_GPU : version->blob != NULL ? TIER_HOST : TIER_STORE,
        .fetched = version->fetched,
    };
}

void version_moved(const struct worker *worker, const struct worker_version *version)
{
    struct worker_adapter adapter;

    if (worker->config.moved == NULL || !version->named)
        return;
    describe(version, &adapter);
    worker->config.moved(worker->config.watcher, &adapter);
}

/* --- going ------------------------------------------------------------------------------------------------------------------ */

static uint8_t *secret_of(const struct worker *worker, const struct worker_version *version)
{
    return worker->secrets + (size_t)(version - worker->versions) * KEY_BYTES;
}

static void release(struct worker *worker, struct worker_version *version)
{
    if (version->source.file >= 0) {
        close(version->source.file);
        sodium_memzero(secret_of(worker, version), KEY_BYTES);
    }
    free(version->source.directory);
    free(version->failure);
    *version = VERSION_NONE;
}

/* The node forgets it only when no request is left that could still ask for it. */
void version_settle(struct worker *worker, struct worker_version *version)
{
    struct node_event event;

    if (!version->used || version->named || version->requests > 0 || version->loading > 0 || version->slot >= 0)
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
    release(worker, version);
}

static void retire(struct worker *worker, struct worker_version *version)
{
    struct replica_event event;

    lose_name(worker, version);
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

static struct worker_version *find_free(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->versions_max; i++)
        if (!worker->versions[i].used)
            return &worker->versions[i];
    return NULL;
}

/* The same weights, perhaps in another folder: it is where they will be read from. */
static enum status take_again(struct worker_version *version, const char *directory, struct refusal *refusal)
{
    char *copy;

    if (strcmp(version->source.directory, directory) == 0)
        return STATUS_OK;
    copy = strdup(directory);
    if (copy == NULL)
        return refuse(refusal, STATUS_FULL, "no memory");
    free(version->source.directory);
    version->source.directory = copy;
    return STATUS_OK;
}

static enum status check_room(const struct worker *worker, const char *name, int64_t bytes, bool is_new, struct refusal *refusal)
{
    if ((uint64_t)bytes > worker->config.pool_bytes)
        return refuse(refusal, STATUS_INVALID, "adapter %s: takes %lld bytes on the device, the pool has %llu", name, (long long)bytes,
                      (unsigned long long)worker->config.pool_bytes);
    if (is_new && worker->named_count >= worker->config.adapters_max)
        return refuse(refusal, STATUS_FULL, "adapter %s: %u adapters are registered, as many as this server takes at once", name,
                      worker->config.adapters_max);
    return STATUS_OK;
}

static int64_t packed_bytes(const struct worker *worker, int32_t rank, uint32_t modules)
{
    return pool_aligned(lora_packed_bytes(forward_dims(worker->forward), worker_mode(worker), rank, modules));
}

/* Its place is free: versions_max is what can be needed at most. */
static struct worker_version *add_version(struct worker *worker, const char *name, const uint8_t digest[DIGEST_BYTES], int32_t rank,
                                          int64_t bytes)
{
    struct worker_version *version = find_free(worker);

    check(version != NULL);
    *version = VERSION_NONE;
    version->id = (adapter_id){(uint32_t)(version - worker->versions) + 1, ++worker->version_last};
    version->rank = rank;
    version->packed_bytes = bytes;
    version->used = true;
    memcpy(version->digest, digest, DIGEST_BYTES);
    take_name(worker, version, name);
    return version;
}

static enum status take(struct worker *worker, const char *name, const char *directory, const struct peft *peft,
                        struct refusal *refusal)
{
    struct worker_version *old = version_named(worker, name);
    const int32_t rank = lora_rank_padded(peft->source.rank);
    const int64_t bytes = packed_bytes(worker, rank, peft->source.modules);
    enum status status;
    char *copy;

    if (old != NULL && memcmp(old->digest, peft->digest, DIGEST_BYTES) == 0)
        return take_again(old, directory, refusal);
    status = check_room(worker, name, bytes, old == NULL, refusal);
    if (status != STATUS_OK)
        return status;
    copy = strdup(directory);
    if (copy == NULL)
        return refuse(refusal, STATUS_FULL, "no memory");
    if (old != NULL)
        retire(worker, old);
    add_version(worker, name, peft->digest, rank, bytes)->source.directory = copy;
    return STATUS_OK;
}

static enum status check_merged(const struct worker *worker, const char *name, struct refusal *refusal)
{
    return worker->merged ? refuse(refusal, STATUS_INVALID, "adapter %s: this server's weights have an adapter in them already", name)
                          : STATUS_OK;
}

enum status worker_adapter_add(struct worker *worker, const char *name, const char *directory, struct refusal *refusal)
{
    struct peft *peft;
    enum status status = check_merged(worker, name, refusal);

    if (status != STATUS_OK)
        return status;
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

/* Which modules it has shows when it is read: until then it counts as if it had all. */
static enum status take_object(struct worker *worker, const char *name, const struct worker_object *object, struct refusal *refusal)
{
    const int32_t rank = lora_rank_padded((int32_t)min_u32(object->rank, LORA_RANK_MAX));
    const int64_t bytes = packed_bytes(worker, rank, (1u << LORA_MODULE_COUNT) - 1);
    struct worker_version *version;
    enum status status;

    if (object->rank == 0 || object->rank > worker->config.rank_max)
        return refuse(refusal, STATUS_INVALID, "adapter %s: rank %u; this server takes 1 to %u", name, object->rank,
                      worker->config.rank_max);
    status = check_room(worker, name, bytes, true, refusal);
    if (status == STATUS_OK && worker->secrets == NULL && (worker->secrets = secret_alloc((size_t)worker->versions_max * KEY_BYTES)) == NULL)
        status = refuse(refusal, STATUS_FULL, "no memory for keys");
    if (status != STATUS_OK)
        return status;
    version = add_version(worker, name, object->key, rank, bytes);
    version->source.file = object->file;
    version->source.secret = memcpy(secret_of(worker, version), object->secret, KEY_BYTES);
    memcpy(version->source.tenant, object->tenant, NAME_BYTES);
    memcpy(version->source.id, object->id, NAME_BYTES);
    return STATUS_OK;
}

enum status worker_object_add(struct worker *worker, const struct worker_object *object, struct refusal *refusal)
{
    char name[DIGEST_TEXT_MAX];
    enum status status = check_merged(worker, digest_text(object->key, name), refusal);

    if (status == STATUS_OK && version_named(worker, name) == NULL) {
        status = take_object(worker, name, object, refusal);
        if (status == STATUS_OK)
            return STATUS_OK;
    }
    close(object->file);
    return status;
}

bool worker_adapter_at(const struct worker *worker, uint32_t index, struct worker_adapter *ret_adapter)
{
    const struct worker_version *version;

    if (worker->merged && index == 0) {
        *ret_adapter = (struct worker_adapter){.name = worker->config.merged_as, .digest = worker->merged_digest, .tier = TIER_BASE};
        return true;
    }
    if (index >= worker->named_count)
        return false;
    version = &worker->versions[worker->by_name[index]];
    describe(version, ret_adapter);
    return true;
}
