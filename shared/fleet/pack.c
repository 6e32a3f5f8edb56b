#include "fleet/pack.h"

/* Every plain field, in order: the one list that packing and unpacking follow. */
#define FLEET_FIELDS(X) \
    X(salt, uint64_t) X(replicas_max, uint32_t) X(nodes_max, uint32_t) X(bases_max, uint32_t) \
    X(adapters_max, uint32_t) X(requests_max, uint32_t) X(bound_milli, uint32_t) X(bound_add, uint32_t) \
    X(hot_share_milli, uint32_t) X(cool_milli, uint32_t) X(rate_half_life_ns, int64_t)

void fleet_config_pack(struct journal_words *words, const struct fleet_config *config)
{
#define X(field, type) journal_put(words, (uint64_t)config->field);
    FLEET_FIELDS(X)
#undef X
    journal_put_name(words, config->route->name);
}

enum status fleet_config_unpack(struct journal_words *words, struct fleet_config *ret_config)
{
    struct fleet_config config = {0};
    char name[JOURNAL_NAME_BYTES];

#define X(field, type) config.field = (type)journal_take(words);
    FLEET_FIELDS(X)
#undef X
    journal_take_name(words, name);
    config.route = route_policy_find(name);
    if (config.route == NULL)
        return STATUS_NOT_FOUND;
    *ret_config = config;
    return STATUS_OK;
}
