#include "replica/pack.h"

#include "cache/pack.h"

/* Every plain field, in order: the one list that packing and unpacking follow. */
#define REPLICA_FIELDS(X) \
    X(salt, uint64_t) X(requests_max, uint32_t) X(rows_max, uint32_t) X(token_budget, uint32_t) \
    X(block_tokens, uint32_t) X(kv_blocks, uint64_t) X(kv_watermark_permille, uint32_t) \
    X(max_loras, uint32_t) X(passes_max, uint32_t) X(adapters_max, uint32_t) X(tenants_max, uint32_t) \
    X(loads_max, uint32_t) X(prefetch_max, uint32_t) X(prompt_weight, uint32_t) \
    X(output_weight, uint32_t) X(batching, enum batching)

void replica_config_pack(struct journal_words *words, const struct replica_config *config)
{
#define X(field, type) journal_put(words, (uint64_t)config->field);
    REPLICA_FIELDS(X)
#undef X
    journal_put_name(words, config->queue->name);
    cache_config_pack(words, &config->slots);
}

enum status replica_config_unpack(struct journal_words *words, struct replica_config *ret_config)
{
    struct replica_config config = {0};
    char name[JOURNAL_NAME_BYTES];

#define X(field, type) config.field = (type)journal_take(words);
    REPLICA_FIELDS(X)
#undef X
    journal_take_name(words, name);
    config.queue = queue_policy_find(name);
    if (config.queue == NULL)
        return STATUS_NOT_FOUND;
    if (cache_config_unpack(words, &config.slots) != STATUS_OK)
        return STATUS_NOT_FOUND;
    *ret_config = config;
    return STATUS_OK;
}
