/* Whom a request asks, from its luck. */
#include "workload/kind.h"

struct luck source_luck(const struct source *source)
{
    const struct rng *of = source->streams.of;

    return (struct luck){
        .choice = rng_unit(&of[RNG_CHOICES]),
        .adapter = rng_unit(&of[RNG_ADAPTERS]),
        .base = rng_unit(&of[RNG_BASES]),
        .tenant = rng_unit(&of[RNG_TENANTS]),
        .prompt = rng_unit(&of[RNG_PROMPTS]),
        .output = rng_unit(&of[RNG_OUTPUTS]),
    };
}

bool source_wants_base(const struct source *source, const struct luck *luck)
{
    return source->catalog.count == 0 || luck->choice < source->scenario->workload.adapters.base_share;
}

void source_ask_adapter(const struct source *source, uint32_t index, struct arrival *arrival)
{
    struct adapter_fact fact = catalog_fact(&source->catalog, index);

    arrival->adapter = catalog_current(&source->catalog, index);
    arrival->tenant = fact.tenant;
    arrival->base = fact.base;
}

void source_ask_base(const struct source *source, const struct luck *luck, struct arrival *arrival)
{
    arrival->adapter = (adapter_id){0};
    arrival->tenant = catalog_draw_tenant(&source->catalog, luck->tenant);
    arrival->base = catalog_draw_base(&source->catalog, luck->base);
}

void source_ask_by_law(const struct source *source, const struct luck *luck, uint64_t ordinal, struct arrival *arrival)
{
    source_ask_adapter(source, catalog_draw(&source->catalog, luck->adapter, ordinal).index, arrival);
}
