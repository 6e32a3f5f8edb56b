#include "node/pack.h"

#include "cache/pack.h"

/* Every plain field, in order: the one list that packing and unpacking follow. */
#define NODE_FIELDS(X) \
    X(wants_max, uint32_t) X(fetches_max, uint32_t)

void node_config_pack(struct journal_words *words, const struct node_config *config)
{
#define X(field, type) journal_put(words, (uint64_t)config->field);
    NODE_FIELDS(X)
#undef X
    cache_config_pack(words, &config->host);
}

enum status node_config_unpack(struct journal_words *words, struct node_config *ret_config)
{
    struct node_config config = {0};

#define X(field, type) config.field = (type)journal_take(words);
    NODE_FIELDS(X)
#undef X
    if (cache_config_unpack(words, &config.host) != STATUS_OK)
        return STATUS_NOT_FOUND;
    *ret_config = config;
    return STATUS_OK;
}
