#include "fleet/pack.h"

/* Every plain field, in order: the one list that packing and unpacking follow. */
#define FLEET_FIELDS(X) \
    X(salt, uint64_t) X(replicas_max, uint32_t) X(nodes_max, uint32_t) X(bases_max, uint32_t) \
    X(adapters_max, uint32_t) X(requests_max, uint32_t) X(bound_milli, uint32_t) X(bound_add, uint32_t) \
    X(hot_share_milli, uint32_t) X(cool_milli, uint32_t) X(rate_half_life_ns, int64_t)

#define JOBS_FIELDS(X) \
    X(tenants_max, uint32_t) X(cohorts_max, uint32_t) X(bases_max, uint32_t) X(nodes_max, uint32_t) \
    X(holdings_max, uint32_t) X(flavors_max, uint32_t) X(spot_flavors, uint32_t) X(sharers_max, uint32_t) \
    X(half_life_ns, int64_t) X(usage_factor_milli, uint32_t) X(payback_milli, uint32_t) \
    X(preempt_delay_ns, int64_t) X(victims_max, uint32_t) X(reservations_max, uint32_t) \
    X(serve_max, uint32_t) X(serve_flavors, uint32_t)

static void jobs_config_pack(struct journal_words *words, const struct jobs_config *config)
{
    journal_put(words, config->jobs_max);
    if (config->jobs_max == 0)
        return;
#define X(field, type) journal_put(words, (uint64_t)config->field);
    JOBS_FIELDS(X)
#undef X
    for (uint32_t i = 0; i <= SHARERS_MAX; i++)
        journal_put(words, config->eta_milli[i]);
    journal_put_name(words, config->order->name);
    journal_put_name(words, config->place->name);
}

static enum status jobs_config_unpack(struct journal_words *words, struct jobs_config *ret_config)
{
    struct jobs_config config = {0};
    char name[JOURNAL_NAME_BYTES];

    config.jobs_max = (uint32_t)journal_take(words);
    if (config.jobs_max > 0) {
#define X(field, type) config.field = (type)journal_take(words);
        JOBS_FIELDS(X)
#undef X
        for (uint32_t i = 0; i <= SHARERS_MAX; i++)
            config.eta_milli[i] = (uint32_t)journal_take(words);
        journal_take_name(words, name);
        config.order = order_policy_find(name);
        journal_take_name(words, name);
        config.place = place_policy_find(name);
        if (config.order == NULL || config.place == NULL)
            return STATUS_NOT_FOUND;
    }
    *ret_config = config;
    return STATUS_OK;
}

void fleet_config_pack(struct journal_words *words, const struct fleet_config *config)
{
#define X(field, type) journal_put(words, (uint64_t)config->field);
    FLEET_FIELDS(X)
#undef X
    journal_put_name(words, config->route->name);
    journal_put_name(words, config->scale != NULL ? config->scale->name : "");
    jobs_config_pack(words, &config->jobs);
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
    journal_take_name(words, name);
    config.scale = name[0] == '\0' ? NULL : scale_policy_find(name);
    if (name[0] != '\0' && config.scale == NULL)
        return STATUS_NOT_FOUND;
    if (config.route == NULL || jobs_config_unpack(words, &config.jobs) != STATUS_OK)
        return STATUS_NOT_FOUND;
    *ret_config = config;
    return STATUS_OK;
}
