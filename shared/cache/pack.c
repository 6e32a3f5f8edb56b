#include "cache/pack.h"

void cache_config_pack(struct journal_words *words, const struct cache_config *config)
{
    journal_put(words, config->unit);
    journal_put(words, config->capacity);
    journal_put(words, config->entries_max);
    journal_put_name(words, config->evict->name);
    journal_put(words, (uint64_t)config->cost_fixed_ns);
    journal_put(words, (uint64_t)config->cost_ns_per_mib);
    journal_put(words, config->salt);
}

enum status cache_config_unpack(struct journal_words *words, struct cache_config *ret_config)
{
    struct cache_config config = {0};
    char name[JOURNAL_NAME_BYTES];

    config.unit = (enum cache_unit)journal_take(words);
    config.capacity = journal_take(words);
    config.entries_max = (uint32_t)journal_take(words);
    journal_take_name(words, name);
    config.evict = evict_policy_find(name);
    config.cost_fixed_ns = (int64_t)journal_take(words);
    config.cost_ns_per_mib = (int64_t)journal_take(words);
    config.salt = journal_take(words);
    if (config.evict == NULL || config.evict->offline)
        return STATUS_NOT_FOUND;
    *ret_config = config;
    return STATUS_OK;
}
