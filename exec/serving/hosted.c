/* Adapters that the control plane has loaded: what is here, what it is told of them. */
#define _DEFAULT_SOURCE /* explicit_bzero */
#include <stdlib.h>
#include <unistd.h>

#include "crypto/secret.h"
#include "serving/internal.h"

/* In one frame. */
#define RESIDENTS_MAX 1000

static uint64_t hash_of(const uint8_t digest[32])
{
    uint64_t hash;

    memcpy(&hash, digest, sizeof(hash));
    return hash;
}

enum status adapters_open(struct serving *serving, uint32_t adapters_max)
{
    const uint32_t most = adapters_max + GOING_MAX;

    serving->hosted = calloc(most, sizeof(struct hosted));
    serving->due = calloc(most, sizeof(uint32_t));
    serving->table_memory = malloc(table_bytes(most));
    if (serving->hosted == NULL || serving->due == NULL || serving->table_memory == NULL)
        return STATUS_FULL;
    table_init(&serving->hosted_of, serving->table_memory, most);
    for (uint32_t i = 0; i < most; i++)
        serving->hosted[i].next_free = i + 1 < most ? i + 1 : NONE_INDEX;
    serving->hosted_max = most;
    serving->hosted_free = 0;
    serving->inventory_at = most;
    return STATUS_OK;
}

void adapters_close(struct serving *serving)
{
    free(serving->hosted);
    free(serving->due);
    free(serving->table_memory);
}

/* --- who is here ---------------------------------------------------------------------------------------------------------------- */

static void become_due(struct serving *serving, struct hosted *hosted)
{
    if (hosted->due)
        return;
    hosted->due = true;
    serving->due[(serving->due_first + serving->due_count++) % serving->hosted_max] = (uint32_t)(hosted - serving->hosted);
}

static struct hosted *find(struct serving *serving, const uint8_t digest[32])
{
    const uint32_t index = serving->worker != NULL ? table_find(&serving->hosted_of, hash_of(digest)) : NONE_INDEX;

    return index != NONE_INDEX ? &serving->hosted[index] : NULL;
}

struct hosted *hosted_find(struct serving *serving, const uint8_t digest[32], uint64_t generation)
{
    struct hosted *hosted = find(serving, digest);

    if (hosted == NULL || memcmp(hosted->digest, digest, 32) != 0 || hosted->generation != generation || hosted->going ||
        hosted->failed != STATUS_OK)
        return NULL;
    return hosted;
}

static void forget(struct serving *serving, struct hosted *hosted)
{
    for (struct stream *stream = serving->streams; stream != NULL; stream = stream->next)
        if (stream->hosted == hosted)
            stream->hosted = NULL;
    table_remove(&serving->hosted_of, hash_of(hosted->digest));
    *hosted = (struct hosted){.next_free = serving->hosted_free};
    serving->hosted_free = (uint32_t)(hosted - serving->hosted);
}

/* From now on no request finds it. */
static void go(struct serving *serving, struct hosted *hosted, enum status code)
{
    char name[DIGEST_TEXT_MAX];

    (void)worker_adapter_remove(serving->worker, digest_text(hosted->digest, name));
    hosted->going = true;
    hosted->code = code;
    become_due(serving, hosted);
}

static void go_if_failed(struct serving *serving, struct hosted *hosted)
{
    if (hosted->failed != STATUS_OK && hosted->requests == 0 && !hosted->going)
        go(serving, hosted, hosted->failed);
}

void hosted_give(struct serving *serving, struct hosted *hosted)
{
    check(hosted->requests > 0);
    hosted->requests--;
    go_if_failed(serving, hosted);
}

/* Amid the worker's turn: nothing of the worker may change here, so what failed and has no request goes by adapters_say(). */
void hosted_moved(void *context, const struct worker_adapter *adapter)
{
    struct serving *serving = context;
    struct hosted *hosted = find(serving, adapter->digest);

    if (hosted == NULL)
        return;
    hosted->tier = adapter->tier;
    hosted->bytes = (uint64_t)adapter->packed_bytes;
    if (adapter->fetched != STATUS_OK)
        hosted->failed = adapter->fetched;
    become_due(serving, hosted);
}

/* --- what it is told ------------------------------------------------------------------------------------------------------------ */

static struct hosted *take_place(struct serving *serving, const struct wire_load *load)
{
    struct hosted *hosted = &serving->hosted[serving->hosted_free];

    serving->hosted_free = hosted->next_free;
    *hosted = (struct hosted){.generation = load->generation, .tier = TIER_STORE, .used = true};
    memcpy(hosted->digest, load->digest, sizeof(hosted->digest));
    table_insert(&serving->hosted_of, hash_of(load->digest), (uint32_t)(hosted - serving->hosted));
    return hosted;
}

static bool take_text(char ret_name[NAME_BYTES], const uint8_t *bytes, size_t count)
{
    if (count >= NAME_BYTES)
        return false;
    memcpy(ret_name, bytes, count);
    ret_name[count] = '\0';
    return name_is_valid(ret_name);
}

static enum status take_object(struct serving *serving, struct hosted *hosted, const struct wire_load *load, struct wire_inbox *inbox)
{
    struct worker_object object = {.rank = load->rank, .file = inbox->descriptors_count == 1 ? inbox->descriptors[0] : -1};
    struct refusal refusal = {""};
    struct wire_grant grant;
    enum status status;

    if (load->grants_count != 1 || object.file < 0 || !take_text(object.tenant, load->label, load->label_count))
        return STATUS_INVALID;
    wire_grant_read(load->grants, &grant);
    if (!take_text(object.id, grant.id, strnlen((const char *)grant.id, sizeof(grant.id))))
        return STATUS_INVALID;
    memcpy(object.key, load->digest, sizeof(object.key));
    memcpy(hosted->tenant, object.tenant, NAME_BYTES);
    object.secret = grant.key;
    inbox->descriptors_count = 0; /* the worker's now */
    status = worker_object_add(serving->worker, &object, &refusal);
    explicit_bzero(&grant, sizeof(grant));
    if (!serving->warned && !secrets_are_locked()) {
        serving->warned = true;
        serving_log(serving, "act=keys-not-locked why=RLIMIT_MEMLOCK");
    }
    if (status != STATUS_OK)
        serving_log(serving, "act=load-refused object=%s why=%s", object.id, refusal.text);
    return status;
}

void hosted_load(struct serving *serving, const struct wire_load *load, struct wire_inbox *inbox)
{
    struct hosted *hosted = find(serving, load->digest);
    enum status status;

    if (hosted != NULL && memcmp(hosted->digest, load->digest, sizeof(hosted->digest)) == 0) {
        /* What fails, or goes and could not be told yet, is told under the newest generation alone. */
        hosted->generation = load->generation;
        if (hosted->going && hosted->code == STATUS_OK)
            hosted->code = STATUS_FULL;
        become_due(serving, hosted);
        return;
    }
    if (serving->worker == NULL || hosted != NULL || serving->hosted_free == NONE_INDEX) {
        struct wire_unloaded unloaded = {.generation = load->generation, .code = STATUS_FULL};

        memcpy(unloaded.digest, load->digest, sizeof(unloaded.digest));
        (void)link_say(serving->link, WIRE_UNLOADED, &unloaded, 0);
        return;
    }
    hosted = take_place(serving, load);
    status = take_object(serving, hosted, load, inbox);
    if (status != STATUS_OK) {
        hosted->going = true;
        hosted->code = status;
    }
    become_due(serving, hosted);
}

/* Of one that is not here there is nothing to unload, which is what it says. */
void hosted_unload(struct serving *serving, const struct wire_unload *unload)
{
    struct hosted *hosted = find(serving, unload->digest);
    struct wire_unloaded unloaded = {.generation = unload->generation};

    if (hosted != NULL && memcmp(hosted->digest, unload->digest, sizeof(hosted->digest)) == 0 &&
        hosted->generation == unload->generation) {
        if (!hosted->going)
            go(serving, hosted, STATUS_OK);
        return;
    }
    memcpy(unloaded.digest, unload->digest, sizeof(unloaded.digest));
    (void)link_say(serving->link, WIRE_UNLOADED, &unloaded, 0);
}

/* --- what it says --------------------------------------------------------------------------------------------------------------- */

static struct wire_resident resident_of(const struct hosted *hosted)
{
    struct wire_resident resident = {.generation = hosted->generation, .bytes = hosted->bytes, .tier = hosted->tier};

    memcpy(resident.digest, hosted->digest, sizeof(resident.digest));
    return resident;
}

static bool is_told(const struct hosted *hosted)
{
    return hosted->used && !hosted->going;
}

/* A frame of it; false: there is no room for it now. */
static bool say_inventory(struct serving *serving)
{
    static uint8_t residents[RESIDENTS_MAX * WIRE_RESIDENT_BYTES];
    const struct worker_state state = worker_state(serving->worker);
    struct wire_inventory inventory = {.step = state.steps, .memory_bytes = state.pool_used_bytes, .residents = residents};
    uint32_t at = serving->inventory_at;

    for (; at < serving->hosted_max && inventory.residents_count < RESIDENTS_MAX; at++) {
        const struct wire_resident resident = resident_of(&serving->hosted[at]);

        if (is_told(&serving->hosted[at]))
            wire_resident_write(&resident, residents + (size_t)inventory.residents_count++ * WIRE_RESIDENT_BYTES);
    }
    while (at < serving->hosted_max && !is_told(&serving->hosted[at]))
        at++;
    inventory.more = at < serving->hosted_max;
    if (link_say(serving->link, WIRE_INVENTORY, &inventory, 0) != STATUS_OK)
        return false;
    serving->inventory_at = at;
    serving->inventory_due = inventory.more != 0;
    return true;
}

static bool say_one(struct serving *serving, struct hosted *hosted)
{
    struct wire_unloaded unloaded = {.generation = hosted->generation, .code = hosted->code};
    struct wire_resident resident = resident_of(hosted);
    struct wire_residency residency = {.generation = resident.generation, .bytes = resident.bytes, .tier = resident.tier};

    memcpy(unloaded.digest, hosted->digest, sizeof(unloaded.digest));
    memcpy(residency.digest, hosted->digest, sizeof(residency.digest));
    if (!hosted->going)
        return link_say(serving->link, WIRE_RESIDENCY, &residency, hash_of(hosted->digest)) == STATUS_OK;
    /* What must be told overtakes what flows: its requests' DONE goes out before. */
    if (hosted->code != STATUS_OK && !link_flush(serving->link))
        return false;
    if (link_say(serving->link, WIRE_UNLOADED, &unloaded, 0) != STATUS_OK)
        return false;
    forget(serving, hosted);
    return true;
}

void adapters_say(struct serving *serving)
{
    while (serving->inventory_due && say_inventory(serving))
        continue;
    while (!serving->inventory_due && serving->due_count > 0) {
        struct hosted *hosted = &serving->hosted[serving->due[serving->due_first]];

        if (hosted->failed != STATUS_OK && !hosted->going && hosted->requests == 0)
            go(serving, hosted, hosted->failed);
        if (!say_one(serving, hosted))
            return;
        hosted->due = false;
        serving->due_first = (serving->due_first + 1) % serving->hosted_max;
        serving->due_count--;
    }
}
