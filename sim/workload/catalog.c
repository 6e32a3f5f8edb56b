#include "workload/catalog.h"

#include <math.h>
#include <stdlib.h>

#include "scenario/memory.h"
#include "workload/catalog_facts.h"

struct weighed {
    double weight;
    uint32_t adapter;
};

static int by_weight(const void *a, const void *b)
{
    const struct weighed *x = a;
    const struct weighed *y = b;

    if (x->weight > y->weight || x->weight < y->weight)
        return x->weight > y->weight ? -1 : 1;
    return (x->adapter > y->adapter) - (x->adapter < y->adapter);
}

static enum status order_by_weights(struct catalog *catalog, const double *weights)
{
    struct weighed *sorted = malloc(catalog->count * sizeof(*sorted));
    double *falling = malloc(catalog->count * sizeof(*falling));
    enum status status = STATUS_FULL;

    if (sorted == NULL || falling == NULL)
        goto free_both;
    for (uint32_t i = 0; i < catalog->count; i++)
        sorted[i] = (struct weighed){.weight = weights[i], .adapter = i};
    qsort(sorted, catalog->count, sizeof(*sorted), by_weight);
    for (uint32_t i = 0; i < catalog->count; i++) {
        falling[i] = sorted[i].weight;
        catalog->order[i] = sorted[i].adapter;
    }
    status = popularity_open_weights(&catalog->popularity, falling, catalog->count);
free_both:
    free(sorted);
    free(falling);
    return status;
}

static enum status order_by_law(struct catalog *catalog, const struct keys_adapters *keys)
{
    for (uint32_t i = 0; i < catalog->count; i++)
        catalog->order[i] = i;
    return popularity_open(&catalog->popularity, keys->law, keys->alpha, catalog->count);
}

static void change_plan(struct catalog_change *change)
{
    double at_ns;

    change->at_s += -log(rng_unit(change->stream)) / change->per_s;
    at_ns = change->at_s * (double)NS_PER_S;
    change->next_ns = at_ns < 9e18 ? (int64_t)at_ns : NEVER_NS;
}

static struct catalog_change change_start(const struct rng *stream, double per_s)
{
    struct catalog_change change = {.stream = stream, .per_s = per_s, .next_ns = NEVER_NS};

    if (per_s > 0)
        change_plan(&change);
    return change;
}

static enum status start_changes(struct catalog *catalog, const struct keys_adapters *keys,
                                 const struct rng_streams *streams, FILE *errors)
{
    double per_s = catalog->count / 3600.0;
    double sum_per_s = (keys->drift_per_h + keys->churn_per_h + keys->update_per_h) * per_s;

    if (sum_per_s > CATALOG_CHANGES_PER_S_MAX) {
        fprintf(errors, "workload.adapters: drift_per_h, churn_per_h and update_per_h make %.3g changes a second over "
                        "%u adapters; at most %.0e\n", sum_per_s, catalog->count, CATALOG_CHANGES_PER_S_MAX);
        return STATUS_INVALID;
    }
    catalog->drift = change_start(&streams->of[RNG_DRIFT], keys->drift_per_h * per_s);
    catalog->churn = change_start(&streams->of[RNG_CHURN], keys->churn_per_h * per_s);
    catalog->update = change_start(&streams->of[RNG_UPDATES], keys->update_per_h * per_s);
    return STATUS_OK;
}

static uint32_t any_adapter(const struct catalog *catalog, const struct rng *stream)
{
    return (uint32_t)(rng_unit(stream) * catalog->count);
}

static void swap_places(struct catalog *catalog, const struct rng *stream)
{
    uint32_t a = any_adapter(catalog, stream);
    uint32_t b = any_adapter(catalog, stream);
    uint32_t kept = catalog->order[a];

    catalog->order[a] = catalog->order[b];
    catalog->order[b] = kept;
}

/* The version is retired; its index joins the queue of those with something to tell, once. */
static void retire(struct catalog *catalog, uint32_t i)
{
    struct catalog_adapter *adapter = &catalog->adapters[i];

    if (adapter->told == adapter->version) {
        adapter->next_retired = NONE_INDEX;
        if (catalog->retired_first == NONE_INDEX)
            catalog->retired_first = i;
        else
            catalog->adapters[catalog->retired_last].next_retired = i;
        catalog->retired_last = i;
    }
    adapter->version++;
}

/* The three kinds touch different things (places, versions), or the same one alike, so each may run on its own. */
void catalog_advance(struct catalog *catalog, int64_t at_ns)
{
    for (; catalog->drift.next_ns <= at_ns; change_plan(&catalog->drift))
        swap_places(catalog, catalog->drift.stream);
    for (; catalog->churn.next_ns <= at_ns; change_plan(&catalog->churn))
        retire(catalog, any_adapter(catalog, catalog->churn.stream));
    for (; catalog->update.next_ns <= at_ns; change_plan(&catalog->update))
        retire(catalog, any_adapter(catalog, catalog->update.stream));
}

bool catalog_retired(struct catalog *catalog, adapter_id *ret_adapter)
{
    uint32_t i = catalog->retired_first;
    struct catalog_adapter *adapter;

    if (i == NONE_INDEX)
        return false;
    adapter = &catalog->adapters[i];
    *ret_adapter = (adapter_id){.index = i + 1, .version = adapter->told};
    adapter->told++;
    if (adapter->told == adapter->version)
        catalog->retired_first = adapter->next_retired;
    return true;
}

/* By the scenario's weights file, its law, or the weights given. */
static enum status open_order(struct catalog *catalog, const struct scenario *scenario, const double *weights,
                              FILE *errors)
{
    const struct keys_adapters *keys = &scenario->workload.adapters;
    char path[KEY_TEXT_MAX * 2];
    double *read = NULL;
    enum status status;

    if (weights != NULL)
        return order_by_weights(catalog, weights);
    if (keys->law != KEY_ADAPTER_EMPIRICAL)
        return order_by_law(catalog, keys);
    if (keys->counts_path[0] == '\0') {
        fprintf(errors, "workload.adapters.counts_path: is empty; the empirical law needs a file with one weight a "
                        "line\n");
        return STATUS_INVALID;
    }
    scenario_path(scenario, keys->counts_path, path);
    status = popularity_read_weights(path, catalog->count, errors, &read);
    if (status == STATUS_OK)
        status = order_by_weights(catalog, read);
    free(read);
    return status;
}

/* One array is enough where `order` never changes. */
static enum status allocate(struct catalog *catalog, bool changes)
{
    size_t count = max_u32(catalog->count, 1);

    catalog->adapters = malloc(catalog->adapters_max * sizeof(*catalog->adapters));
    catalog->order = malloc(count * sizeof(*catalog->order));
    catalog->start_order = changes ? malloc(count * sizeof(*catalog->start_order)) : catalog->order;
    if (catalog->adapters == NULL || catalog->order == NULL || catalog->start_order == NULL)
        return STATUS_FULL;
    for (uint32_t i = 0; i < catalog->adapters_max; i++)
        catalog->adapters[i] = (struct catalog_adapter){.version = 1, .told = 1, .next_retired = NONE_INDEX};
    return STATUS_OK;
}

static enum status open_adapters(struct catalog *catalog, const struct scenario *scenario, const double *weights,
                                 const struct rank_shares *ranks, FILE *errors)
{
    bool changes = scenario->workload.adapters.drift_per_h > 0 || catalog->adapters_max > catalog->count;
    enum status status;

    if (catalog->adapters_max == 0)
        return STATUS_OK;
    status = allocate(catalog, changes);
    if (catalog->count == 0)
        return status;
    if (status == STATUS_OK)
        status = open_order(catalog, scenario, weights, errors);
    if (status != STATUS_OK)
        return status;
    if (catalog->start_order != catalog->order)
        memcpy(catalog->start_order, catalog->order, catalog->count * sizeof(*catalog->order));
    catalog_facts_assign(catalog, ranks);
    return STATUS_OK;
}

enum status catalog_open(struct catalog *catalog, const struct scenario *scenario, const struct rng_streams *streams,
                         const double *weights, uint32_t count, FILE *errors)
{
    const struct keys_workload *keys = &scenario->workload;
    struct rank_shares ranks;
    enum status status;

    *catalog = (struct catalog){
        .count = weights != NULL ? count : (uint32_t)keys->adapters.count,
        .publish_rank = keys->adapters.publish_rank,
        .publications = &streams->of[RNG_PUBLICATIONS],
        .retired_first = NONE_INDEX,
        .retired_last = NONE_INDEX,
    };
    catalog->adapters_count = catalog->count;
    catalog->adapters_max = catalog->count + publications_max(scenario);
    status = catalog_facts_read(catalog, scenario, errors, &ranks);
    if (status == STATUS_OK)
        status = popularity_open(&catalog->tenants, KEY_ADAPTER_ZIPF, keys->tenant_alpha, (uint32_t)keys->tenants);
    if (status == STATUS_OK)
        status = start_changes(catalog, &keys->adapters, streams, errors);
    if (status == STATUS_OK)
        status = open_adapters(catalog, scenario, weights, &ranks, errors);
    if (status == STATUS_FULL)
        fprintf(errors, "workload.adapters: not enough memory for %u adapters of %llu tenants\n", catalog->adapters_max,
                (unsigned long long)keys->tenants);
    if (status != STATUS_OK)
        catalog_close(catalog);
    return status;
}

void catalog_close(struct catalog *catalog)
{
    if (catalog->start_order != catalog->order)
        free(catalog->start_order);
    free(catalog->order);
    free(catalog->adapters);
    popularity_close(&catalog->popularity);
    popularity_close(&catalog->tenants);
    *catalog = (struct catalog){0};
}

adapter_id catalog_current(const struct catalog *catalog, uint32_t index)
{
    check(index >= 1);
    check(index <= catalog->adapters_count);
    return (adapter_id){.index = index, .version = catalog->adapters[index - 1].version};
}

adapter_id catalog_draw(const struct catalog *catalog, double unit, uint64_t ordinal)
{
    return catalog_current(catalog, catalog->order[popularity_rank(&catalog->popularity, unit, ordinal)] + 1);
}

base_id catalog_draw_base(const struct catalog *catalog, double unit)
{
    uint32_t last = 0;

    for (uint32_t base = 0; base < catalog->bases_count; base++) {
        if (!(catalog->base_shares[base] > 0))
            continue;
        last = base;
        unit -= catalog->base_shares[base];
        if (unit < 0)
            break;
    }
    return (base_id){(uint16_t)last};
}

tenant_id catalog_draw_tenant(const struct catalog *catalog, double unit)
{
    return (tenant_id){popularity_rank(&catalog->tenants, unit, 0)};
}

void catalog_own(struct catalog *catalog, uint32_t index, uint32_t tenant)
{
    check(index >= 1);
    check(index <= catalog->count);
    catalog->adapters[index - 1].tenant = tenant;
}

struct adapter_fact catalog_fact(const struct catalog *catalog, uint32_t index)
{
    const struct catalog_adapter *adapter;

    check(index >= 1);
    check(index <= catalog->adapters_count);
    adapter = &catalog->adapters[index - 1];
    return (struct adapter_fact){
        .bytes = catalog->bytes[adapter->base][adapter->rank_choice],
        .tenant = {adapter->tenant},
        .base = {adapter->base},
        .rank = catalog->ranks[adapter->rank_choice],
    };
}

/* The next place from the drawn one on, around the end, whose adapter is of this base; the drawn one where none is. */
static uint32_t place_of_base(const struct catalog *catalog, uint32_t drawn, uint32_t base)
{
    for (uint32_t i = 0; i < catalog->count; i++) {
        uint32_t place = (drawn + i) % catalog->count;

        if (catalog->adapters[catalog->order[place]].base == base)
            return place;
    }
    return drawn;
}

static void take_place(struct catalog *catalog, uint32_t i)
{
    uint32_t tenth = (uint32_t)div_up_u64(catalog->count, 10);
    uint32_t from = catalog->publish_rank == KEY_PUBLISH_TAIL ? catalog->count - tenth : 0;
    uint32_t places = catalog->publish_rank == KEY_PUBLISH_RANDOM ? catalog->count : tenth;
    uint32_t drawn = from + (uint32_t)(rng_unit_at(catalog->publications, catalog->placed++) * places);

    catalog->order[place_of_base(catalog, drawn, catalog->adapters[i].base)] = i;
}

uint32_t catalog_publish(struct catalog *catalog, uint32_t base, uint32_t kind, uint32_t tenant)
{
    uint32_t i = catalog->adapters_count;

    check(base < catalog->bases_count);
    check(kind < JOB_KINDS_MAX);
    if (i == catalog->adapters_max)
        return 0;
    catalog->adapters_count++;
    catalog->adapters[i].tenant = tenant;
    catalog->adapters[i].base = (uint8_t)base;
    catalog->adapters[i].rank_choice = (uint8_t)(catalog->ranks_count + kind);
    if (catalog->count > 0)
        take_place(catalog, i);
    return i + 1;
}

void catalog_republish(struct catalog *catalog, uint32_t index, uint32_t base)
{
    check(index >= 1);
    check(index <= catalog->adapters_count);
    check(base < catalog->bases_count);
    retire(catalog, index - 1);
    catalog->adapters[index - 1].base = (uint8_t)base;
}

bool catalog_popular(const struct catalog *catalog, uint32_t place, adapter_id *ret_adapter)
{
    if (place >= catalog->count)
        return false;
    *ret_adapter = (adapter_id){.index = catalog->start_order[place] + 1, .version = 1};
    return true;
}
