/* A completed scenario in a few lines, or as JSON. */
#include "scenario/print.h"

#include <jansson.h>
#include <stdlib.h>

#include "scenario/memory.h"

static const char *source_name(const struct scenario *scenario)
{
    static const char *const names[] = {
        [KEY_SOURCE_GENERATED] = "generated", [KEY_SOURCE_TRACE] = "trace", [KEY_SOURCE_SESSIONS] = "sessions",
        [KEY_SOURCE_NONE] = "none"};

    check(scenario->workload.source < ARRAY_COUNT(names));
    return names[scenario->workload.source];
}

static void print_pool(FILE *out, const struct scenario *scenario, const struct scenario_pool *pool)
{
    struct pool_memory memory = pool_memory(pool, adapter_bytes_max(scenario, pool));

    fprintf(out, "  pool %s: %llu x %s on %s, tp %llu\n", pool->keys.name, (unsigned long long)pool->keys.replicas,
            pool->shape.name, pool->profile.title, (unsigned long long)pool->keys.tp);
    fprintf(out, "    a GPU: %.1f GB usable = weights %.1f + slots %.1f + activations %.1f + reserve %.1f + KV %.1f",
            memory.usable_bytes / 1e9, memory.weights_bytes / 1e9, memory.slots_bytes / 1e9,
            memory.activations_bytes / 1e9, memory.reserve_bytes / 1e9, memory.kv_bytes / 1e9);
    if (pool->keys.kv_bytes > 0)
        fprintf(out, " + unused %.1f", (memory.left_bytes - memory.kv_bytes) / 1e9);
    fprintf(out, "\n    KV cache of a replica: %llu tokens\n", (unsigned long long)memory.kv_tokens);
}

static void print_variant(FILE *out, const struct scenario *scenario)
{
    fprintf(out, "variant %s: %s requests, %llu adapters, %llu tenants, %g s of which %g s warm-up, route %s, seed %llu\n",
            scenario->variant, source_name(scenario), (unsigned long long)scenario->workload.adapters.count,
            (unsigned long long)scenario->workload.tenants, scenario->duration_s, scenario->warmup_s, scenario->fleet.route,
            (unsigned long long)scenario->seed);
}

/* The pools as text, which the caller frees: variants often have the same. */
static char *pools_text(const struct scenario *scenario)
{
    char *text;
    size_t count;
    FILE *out = open_memstream(&text, &count);

    check(out != NULL);
    for (uint32_t i = 0; i < scenario->pools_count; i++)
        print_pool(out, scenario, &scenario->pools[i]);
    fclose(out);
    return text;
}

void scenario_set_print(FILE *out, const char *path, const struct scenario_set *set)
{
    char *last = NULL;

    fprintf(out, "%s: %s, %u variant%s, no error\n", path, set->items[0].name, set->count, set->count == 1 ? "" : "s");
    for (uint32_t i = 0; i < set->count; i++) {
        char *pools = pools_text(&set->items[i]);

        print_variant(out, &set->items[i]);
        if (last == NULL || strcmp(last, pools) != 0)
            fputs(pools, out);
        else
            fprintf(out, "  pools as above\n");
        free(last);
        last = pools;
    }
    free(last);
}

static json_t *pool_json(const struct scenario *scenario, const struct scenario_pool *pool)
{
    struct pool_memory memory = pool_memory(pool, adapter_bytes_max(scenario, pool));
    json_t *object = json_object();

    json_object_set_new(object, "name", json_string(pool->keys.name));
    json_object_set_new(object, "base", json_string(pool->shape.name));
    json_object_set_new(object, "gpu", json_string(pool->profile.name));
    json_object_set_new(object, "replicas", json_integer((json_int_t)pool->keys.replicas));
    json_object_set_new(object, "tp", json_integer((json_int_t)pool->keys.tp));
    json_object_set_new(object, "usable_bytes_per_gpu", json_real(memory.usable_bytes));
    json_object_set_new(object, "weights_bytes_per_gpu", json_real(memory.weights_bytes));
    json_object_set_new(object, "slots_bytes_per_gpu", json_real(memory.slots_bytes));
    json_object_set_new(object, "activations_bytes_per_gpu", json_real(memory.activations_bytes));
    json_object_set_new(object, "kv_bytes_per_gpu", json_real(memory.kv_bytes));
    json_object_set_new(object, "kv_tokens", json_integer((json_int_t)memory.kv_tokens));
    return object;
}

static json_t *variant_json(const struct scenario *scenario)
{
    json_t *object = json_object();
    json_t *pools = json_array();

    json_object_set_new(object, "variant", json_string(scenario->variant));
    json_object_set_new(object, "source", json_string(source_name(scenario)));
    json_object_set_new(object, "route", json_string(scenario->fleet.route));
    json_object_set_new(object, "seed", json_integer((json_int_t)scenario->seed));
    json_object_set_new(object, "duration_s", json_real(scenario->duration_s));
    json_object_set_new(object, "warmup_s", json_real(scenario->warmup_s));
    json_object_set_new(object, "adapters", json_integer((json_int_t)scenario->workload.adapters.count));
    json_object_set_new(object, "tenants", json_integer((json_int_t)scenario->workload.tenants));
    for (uint32_t i = 0; i < scenario->pools_count; i++)
        json_array_append_new(pools, pool_json(scenario, &scenario->pools[i]));
    json_object_set_new(object, "pools", pools);
    return object;
}

void scenario_set_print_json(FILE *out, const char *path, const struct scenario_set *set, const char *messages)
{
    json_t *object = json_object();
    json_t *variants = json_array();

    json_object_set_new(object, "file", json_string(path));
    json_object_set_new(object, "valid", json_boolean(set != NULL));
    if (set != NULL)
        json_object_set_new(object, "name", json_string(set->items[0].name));
    for (uint32_t i = 0; set != NULL && i < set->count; i++)
        json_array_append_new(variants, variant_json(&set->items[i]));
    json_object_set_new(object, "variants", variants);
    json_object_set_new(object, "messages", json_string(messages));
    json_dumpf(object, out, JSON_REAL_PRECISION(12));
    fputc('\n', out);
    json_decref(object);
}
