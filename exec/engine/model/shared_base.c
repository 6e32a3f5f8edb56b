#include "engine/model/shared_base.h"

#include <stdlib.h>
#include <unistd.h>

#include "engine/model/place.h"

void shared_base_free(struct shared_base *base)
{
    free(base->weight);
    if (base->memory.file >= 0)
        close(base->memory.file);
    base->weight = NULL;
    base->memory.file = -1;
}

/* --- holding ---------------------------------------------------------------------------------------------------------------- */

static int64_t offset_of(const struct held_base *held, const char *start, const void *data)
{
    const int64_t at = (const char *)data - start;

    if (data == NULL)
        return -1;
    check(at >= 0 && at < held->base.memory.bytes);
    return at;
}

static enum status no_memory(struct refusal *refusal)
{
    return refuse(refusal, STATUS_FULL, "no memory for the table of a base");
}

static enum status fill_table(struct held_base *held, const char *start, struct weight *const *placed, uint32_t count, struct refusal *refusal)
{
    held->base.weight = calloc(count, sizeof(held->base.weight[0]));
    if (held->base.weight == NULL)
        return no_memory(refusal);
    for (uint32_t i = 0; i < count; i++)
        held->base.weight[i] = (struct base_weight){.data = offset_of(held, start, placed[i]->data),
                                                    .bias = offset_of(held, start, placed[i]->bias),
                                                    .out = placed[i]->out,
                                                    .in = placed[i]->in,
                                                    .stride = placed[i]->stride,
                                                    .dtype = (uint32_t)placed[i]->dtype};
    held->base.count = count;
    return STATUS_OK;
}

static enum status fill(struct held_base *held, const struct model_weights *weights, int32_t layers, struct refusal *refusal)
{
    struct weight **list = calloc(WEIGHTS_LISTED_MAX(layers), sizeof(list[0]));
    struct model_weights listed = *weights;
    struct model_weights placed = {.layer = NULL};
    const char *start = NULL;
    char why[256] = "";
    enum status status;
    uint32_t count;

    if (list == NULL)
        return no_memory(refusal);
    count = weights_list(&listed, layers, weights_tied(weights), list);
    if (count > BASE_WEIGHTS_MAX)
        status = refuse(refusal, STATUS_INVALID, "a base of %u weights has too many to be shared; %d are the most", count, BASE_WEIGHTS_MAX);
    else if ((status = held->device->share->create(held->dev, (const struct weight *const *)list, count, &held->base.memory, &start, why,
                                                   sizeof(why))) != STATUS_OK)
        status = refuse(refusal, status, "the device %s cannot hold the base for others: %s", held->device->name, why);
    else if ((status = weights_place(held->device, held->dev, weights, layers, &placed)) != STATUS_OK)
        status = refuse(refusal, status, "the base cannot be put on the device %s", held->device->name);
    if (status == STATUS_OK) {
        weights_list(&placed, layers, weights_tied(weights), list);
        status = fill_table(held, start, list, count, refusal);
    }
    free(placed.layer);
    free(list);
    return status;
}

enum status held_base_open(const struct device *device, const struct model_weights *weights, const struct dims *dims,
                           const uint8_t digest[DIGEST_BYTES], struct held_base *ret_held, struct refusal *refusal)
{
    const struct dev_config config = {.dims = *dims, .mode = MODE_EXACT, .threads = 1, .deterministic = true, .rows_max = 1, .outputs_max = 1,
                                      .positions_max = 1, .ranks_count = 1};
    struct held_base held = {.device = device, .base.memory.file = -1};
    char why[256] = "";
    enum status status;

    if (device->share == NULL)
        return refuse(refusal, STATUS_INVALID, "the device %s needs no holder: its processes share the mapped weights file", device->name);
    held.dev = device->open(&config, why, sizeof(why));
    if (held.dev == NULL)
        return refuse(refusal, STATUS_INVALID, "the device %s cannot be opened: %s", device->name, why);
    memcpy(held.base.digest, digest, DIGEST_BYTES);
    status = fill(&held, weights, dims->layers, refusal);
    if (status != STATUS_OK) {
        held_base_close(&held);
        return status;
    }
    *ret_held = held;
    return STATUS_OK;
}

void held_base_close(struct held_base *held)
{
    if (held->dev == NULL)
        return;
    shared_base_free(&held->base);
    held->device->close(held->dev);
    held->dev = NULL;
}

/* --- borrowing -------------------------------------------------------------------------------------------------------------- */

static bool lies_within(const struct shared_base *base, int64_t at, int64_t bytes)
{
    return at >= 0 && at % 16 == 0 && bytes <= base->memory.bytes && at <= base->memory.bytes - bytes;
}

static bool fits(const struct shared_base *base, const struct base_weight *entry, const struct weight *host)
{
    const int64_t size = (int64_t)dtype_bytes(host->dtype);

    if (host->data == NULL)
        return entry->data == -1;
    if (entry->out != host->out || entry->in != host->in || entry->dtype != (uint32_t)host->dtype || entry->stride < entry->in)
        return false;
    if ((host->bias != NULL) != (entry->bias != -1))
        return false;
    return lies_within(base, entry->data, (int64_t)entry->out * entry->stride * size) &&
           (entry->bias == -1 || lies_within(base, entry->bias, entry->out * size));
}

/* As device.weight() would. */
static bool mode_takes(enum mode mode, const struct weight *host)
{
    return host->data == NULL || mode == MODE_EXACT || host->out == 1 || host->in == 1 || host->dtype == DTYPE_BF16;
}

static enum status check_table(const struct shared_base *base, enum mode mode, struct weight *const *host, uint32_t count, struct refusal *refusal)
{
    if (base->count != count)
        return refuse(refusal, STATUS_INVALID, "the shared base has %u weights, the model %u", base->count, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!fits(base, &base->weight[i], host[i]))
            return refuse(refusal, STATUS_INVALID, "weight %u of the shared base is not the model's", i);
        if (!mode_takes(mode, host[i]))
            return refuse(refusal, STATUS_INVALID, "fast mode wants every matrix in BF16; use exact mode");
    }
    return STATUS_OK;
}

enum status shared_base_place(const struct shared_base *base, const struct device *device, struct dev *dev, enum mode mode,
                              const struct model_weights *host, int32_t layers, struct model_weights *ret_placed, struct refusal *refusal)
{
    struct weight **from = calloc(2 * WEIGHTS_LISTED_MAX(layers), sizeof(from[0]));
    struct weight **to = from + WEIGHTS_LISTED_MAX(layers);
    struct model_weights listed = *host;
    const char *start = NULL;
    char why[256] = "";
    enum status status = STATUS_OK;
    uint32_t count;

    ret_placed->layer = calloc((size_t)layers, sizeof(ret_placed->layer[0]));
    if (from == NULL || ret_placed->layer == NULL) {
        free(from);
        return no_memory(refusal);
    }
    count = weights_list(&listed, layers, weights_tied(host), from);
    weights_list(ret_placed, layers, weights_tied(host), to);
    status = check_table(base, mode, from, count, refusal);
    if (status == STATUS_OK && device->share->map(dev, &base->memory, &start, why, sizeof(why)) != STATUS_OK)
        status = refuse(refusal, STATUS_INVALID, "the shared base cannot be mapped: %s", why);
    for (uint32_t i = 0; i < count && status == STATUS_OK; i++) {
        const struct base_weight *entry = &base->weight[i];

        if (from[i]->data == NULL)
            continue;
        *to[i] = *from[i];
        to[i]->data = start + entry->data;
        to[i]->bias = entry->bias >= 0 ? start + entry->bias : NULL;
        to[i]->stride = entry->stride;
    }
    if (weights_tied(host))
        ret_placed->head = ret_placed->embed;
    free(from);
    return status;
}
