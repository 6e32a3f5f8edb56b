#include "workload/catalog_facts.h"

#include <math.h>

#include "model/footprint.h"
#include "scenario/memory.h"

static enum status read_ranks(struct catalog *catalog, const struct keys_adapters *keys, FILE *errors,
                              struct rank_shares *ret_shares)
{
    const struct key_list *weights = &keys->rank_weights;
    double sum = 0;

    *ret_shares = (struct rank_shares){.count = keys->ranks.count};
    if (keys->ranks.count == 0) {
        fprintf(errors, "workload.adapters.ranks: is empty; name at least one rank\n");
        return STATUS_INVALID;
    }
    if (weights->count != 0 && weights->count != keys->ranks.count) {
        fprintf(errors, "workload.adapters.rank_weights: %u weights for %u ranks; give each rank one, or none at all\n",
                weights->count, keys->ranks.count);
        return STATUS_INVALID;
    }
    for (uint32_t i = 0; i < keys->ranks.count; i++) {
        double rank = keys->ranks.values[i];

        if (rank < 1 || rank > 4096 || floor(rank) < rank) {
            fprintf(errors, "workload.adapters.ranks: %g is not a whole number from 1 to 4096\n", rank);
            return STATUS_INVALID;
        }
        catalog->ranks[i] = (uint16_t)rank;
        ret_shares->of[i] = weights->count > 0 ? weights->values[i] : 1;
        sum += ret_shares->of[i];
    }
    if (!(sum > 0)) {
        fprintf(errors, "workload.adapters.rank_weights: their sum must be above 0\n");
        return STATUS_INVALID;
    }
    for (uint32_t i = 0; i < ret_shares->count; i++)
        ret_shares->of[i] /= sum;
    catalog->ranks_count = keys->ranks.count;
    return STATUS_OK;
}

/* Adapters that trainings publish have the rank and the modules of their kind of job, behind the workload's own choices. */
static void read_kinds(struct catalog *catalog, const struct scenario *scenario)
{
    for (uint32_t i = 0; publications_max(scenario) > 0 && i < scenario->job_kinds_count; i++) {
        const struct scenario_job_kind *kind = &scenario->job_kinds[i];
        uint32_t choice = catalog->ranks_count + i;

        catalog->ranks[choice] = (uint16_t)kind->keys.rank;
        for (uint32_t p = 0; p < scenario->pools_count; p++)
            catalog->bytes[scenario->pools[p].base_index][choice] =
                footprint_adapter_bytes(&scenario->pools[p].shape, job_kind_modules(kind), (uint32_t)kind->keys.rank);
    }
}

/* A base's share is the sum over its pools. */
static enum status read_bases(struct catalog *catalog, const struct scenario *scenario, FILE *errors)
{
    uint32_t modules = scenario->workload.adapters.modules == KEY_MODULES_ATTENTION ? LORA_ATTENTION : LORA_ALL_LINEAR;
    double sum = 0;

    check(scenario->bases_count >= 1);
    check(scenario->bases_count <= POOLS_MAX);
    catalog->bases_count = scenario->bases_count;
    for (uint32_t i = 0; i < scenario->pools_count; i++) {
        const struct scenario_pool *pool = &scenario->pools[i];

        check(pool->base_index < scenario->bases_count);
        /* The share is the base's: pools of one base state it alike. */
        if (catalog->base_shares[pool->base_index] != 0)
            continue;
        catalog->base_shares[pool->base_index] = pool->keys.traffic_share;
        sum += pool->keys.traffic_share;
        for (uint32_t choice = 0; choice < scenario->workload.adapters.ranks.count; choice++)
            catalog->bytes[pool->base_index][choice] =
                footprint_adapter_bytes(&pool->shape, modules, catalog->ranks[choice]);
    }
    if (!(sum > 0)) {
        fprintf(errors, "pools: every traffic_share is 0; at least one base must get requests\n");
        return STATUS_INVALID;
    }
    for (uint32_t base = 0; base < catalog->bases_count; base++)
        catalog->base_shares[base] /= sum;
    return STATUS_OK;
}

/* The class that is furthest behind its share of `total`; the lowest of equals. */
static uint32_t most_behind(const double *shares, const double *given, uint32_t count, double total)
{
    uint32_t best = NONE_INDEX;
    double best_behind = 0;

    for (uint32_t i = 0; i < count; i++) {
        double behind = shares[i] * total - given[i];

        if (shares[i] > 0 && (best == NONE_INDEX || behind > best_behind)) {
            best = i;
            best_behind = behind;
        }
    }
    return best;
}

/* Walks down the popularity. A base takes the next adapter when its requests are furthest behind its share; its
 * adapters take the ranks in turn. Turns are counted per base, or an even number of bases would sort ranks by base. */
static void assign_bases_and_ranks(struct catalog *catalog, const struct rank_shares *ranks)
{
    double base_given[POOLS_MAX] = {0};
    double rank_given[POOLS_MAX][KEY_LIST_MAX] = {{0}};
    double base_adapters[POOLS_MAX] = {0};
    double requests = 0;

    for (uint32_t place = 0; place < catalog->count; place++) {
        struct catalog_adapter *adapter = &catalog->adapters[catalog->order[place]];
        double share = popularity_share(&catalog->popularity, place);
        uint32_t base = most_behind(catalog->base_shares, base_given, catalog->bases_count, requests + share);
        uint32_t choice = most_behind(ranks->of, rank_given[base], ranks->count, base_adapters[base] + 1);

        requests += share;
        base_given[base] += share;
        base_adapters[base] += 1;
        rank_given[base][choice] += 1;
        adapter->base = (uint8_t)base;
        adapter->rank_choice = (uint8_t)choice;
    }
}

/* Multiples of the golden ratio fill the unit interval evenly at every length, and are in step with no cycle of ranks. */
static void assign_tenants(struct catalog *catalog)
{
    for (uint32_t i = 0; i < catalog->count; i++) {
        double turns = (i + 0.5) * 0.61803398874989484820;

        catalog->adapters[i].tenant = popularity_rank(&catalog->tenants, turns - floor(turns), i);
    }
}

enum status catalog_facts_read(struct catalog *catalog, const struct scenario *scenario, FILE *errors,
                               struct rank_shares *ret_shares)
{
    enum status status = read_ranks(catalog, &scenario->workload.adapters, errors, ret_shares);

    read_kinds(catalog, scenario);
    return status == STATUS_OK ? read_bases(catalog, scenario, errors) : status;
}

void catalog_facts_assign(struct catalog *catalog, const struct rank_shares *ranks)
{
    assign_bases_and_ranks(catalog, ranks);
    assign_tenants(catalog);
}
