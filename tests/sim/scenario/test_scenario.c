/* What a good file comes to: defaults, layers, pools, variants, settings, and the text that is kept. */
#include <stdlib.h>
#include <unistd.h>

#include "fleet/event.h"
#include "job_trace.h"
#include "model/footprint.h"
#include "scenario/memory.h"
#include "scenario/table.h"
#include "sim/scenario/rig.h"
#include "support.h"

/* Field by field, since structs have holes. */
static void assert_is_default(enum section_id id, const struct key *key, const void *field)
{
    union {
        char text[KEY_TEXT_MAX];
        uint64_t whole;
        double real;
        bool flag;
        uint32_t choice;
        struct key_list list;
    } wanted = {.list = {0}};
    const char *text = key_default(id, key);
    const struct key_list *list = field;
    char why[WHY_MAX];

    assert_true(key_set(key, &wanted, text, strlen(text), why));
    switch (key->kind) {
    case KEY_COUNT: assert_true(*(const uint64_t *)field == wanted.whole); break;
    case KEY_REAL: assert_true(*(const double *)field == wanted.real); break;
    case KEY_FLAG: assert_true(*(const bool *)field == wanted.flag); break;
    case KEY_CHOICE: assert_int_equal(*(const uint32_t *)field, wanted.choice); break;
    case KEY_LIST:
        assert_int_equal(list->count, wanted.list.count);
        for (uint32_t i = 0; i < list->count; i++)
            assert_true(list->values[i] == wanted.list.values[i]);
        break;
    default: assert_string_equal((const char *)field, wanted.text);
    }
}

static void assert_section_is_default(enum section_id id, const void *section)
{
    for (uint32_t i = 0; i < section_at(id)->keys_count; i++) {
        const struct key *key = &section_at(id)->keys[i];

        assert_is_default(id, key, (const char *)section + key->offset);
    }
}

static void an_empty_mapping_is_the_table_of_defaults(void **state)
{
    (void)state;
    struct scenario_set set = rig_read_well("{}", NULL);
    const struct scenario *scenario = &set.items[0];
    struct keys_run run = {0};
    struct keys_pool pool = scenario->pools[0].keys;

    assert_int_equal(set.count, 1);
    assert_string_equal(scenario->variant, "default");
    assert_int_equal(scenario->pools_count, 1);
    assert_int_equal(scenario->bases_count, 1);
    assert_string_equal(pool.name, "llama-8b/h100"); /* completed; empty in the table */
    pool.name[0] = '\0';
#define X(kind, field, default_text, min, max, choices, about) memcpy(&run.field, &scenario->field, sizeof(run.field));
    RUN_KEYS(X)
#undef X
    assert_section_is_default(SECTION_RUN, &run);
    assert_section_is_default(SECTION_SLO, &scenario->slo);
    assert_section_is_default(SECTION_FLEET, &scenario->fleet);
    assert_section_is_default(SECTION_POOL, &pool);
    assert_section_is_default(SECTION_STEP, &pool.step);
    assert_section_is_default(SECTION_WORKLOAD, &scenario->workload);
    assert_section_is_default(SECTION_TRACE, &scenario->workload.trace);
    assert_section_is_default(SECTION_ARRIVALS, &scenario->workload.arrivals);
    assert_section_is_default(SECTION_PROMPT, &scenario->workload.prompt);
    assert_section_is_default(SECTION_OUTPUT, &scenario->workload.output);
    assert_section_is_default(SECTION_ADAPTERS, &scenario->workload.adapters);
    assert_section_is_default(SECTION_SESSIONS, &scenario->workload.sessions);
    assert_section_is_default(SECTION_JOBS, &scenario->jobs);
    assert_section_is_default(SECTION_JOB_KIND, &scenario->jobs.kind);
    assert_section_is_default(SECTION_UPGRADE, &scenario->upgrade.keys);
    scenario_set_free(&set);
}

static void answers_have_defaults_of_their_own(void **state)
{
    (void)state;
    struct scenario_set set = rig_read_well("{}", NULL);
    const struct keys_length *prompt = &set.items[0].workload.prompt;
    const struct keys_length *output = &set.items[0].workload.output;

    assert_true(prompt->mean_tokens == 512 && prompt->sigma == 1 && prompt->max_tokens == 8000);
    assert_true(output->mean_tokens == 200 && output->sigma == 0.8 && output->max_tokens == 2000);
    scenario_set_free(&set);
}

static void every_key_has_a_default_within_its_range(void **state)
{
    (void)state;
    uint32_t keys = 0;
    char why[WHY_MAX];

    for (uint32_t id = 0; id < SECTION_COUNT; id++) {
        for (uint32_t i = 0; i < section_at((enum section_id)id)->keys_count; i++) {
            const struct key *key = &section_at((enum section_id)id)->keys[i];
            const char *text = key_default((enum section_id)id, key);
            struct keys_pool room; /* as large as any field */

            if (!key_set(key, &room, text, strlen(text), why))
                fail_msg("%s.%s: default %s %s", section_at((enum section_id)id)->path, key->name, text, why);
            keys++;
        }
    }
    assert_int_equal(keys, FIXED_ORIGINS);
}

static void nested_and_dotted_keys_are_the_same(void **state)
{
    (void)state;
    struct scenario_set nested = rig_read_well("pool: {step: {fixed_us: 7}}\nworkload: {arrivals: {rate_per_s: 3}}\n", NULL);
    struct scenario_set dotted = rig_read_well("pool.step.fixed_us: 7\nworkload: {arrivals.rate_per_s: 3}\n", NULL);

    assert_true(nested.items[0].pools[0].keys.step.fixed_us == 7);
    assert_true(dotted.items[0].pools[0].keys.step.fixed_us == 7);
    assert_true(nested.items[0].workload.arrivals.rate_per_s == 3);
    assert_true(dotted.items[0].workload.arrivals.rate_per_s == 3);
    scenario_set_free(&nested);
    scenario_set_free(&dotted);
}

static void sections_without_keys_are_empty(void **state)
{
    (void)state;
    struct scenario_set set = rig_read_well("slo:\npool:\n  # replicas: 4\nfleet:\nworkload: {trace: }\n", NULL);

    assert_int_equal(set.items[0].pools[0].keys.replicas, 1);
    scenario_set_free(&set);
}

static void settings_win_over_variants_which_win_over_the_file(void **state)
{
    (void)state;
    static const char text[] = "seed: 1\npool: {replicas: 2, tp: 2}\nfleet: {route: random}\n"
                               "variants:\n  a: {seed: 10}\n  b: {fleet.route: sticky, pool: {replicas: 5}}\n";
    static const char *const settings[] = {"seed=7", "pool.tp=4", "pool.tp=1", NULL};
    struct scenario_set plain = rig_read_well(text, NULL);
    struct scenario_set set = rig_read_well(text, settings);

    assert_int_equal(plain.count, 2);
    assert_string_equal(plain.items[0].variant, "a");
    assert_string_equal(plain.items[1].variant, "b");
    assert_int_equal(plain.items[0].seed, 10);
    assert_int_equal(plain.items[1].seed, 1);
    assert_string_equal(plain.items[0].fleet.route, "random");
    assert_string_equal(plain.items[1].fleet.route, "sticky");
    assert_int_equal(plain.items[0].pools[0].keys.replicas, 2);
    assert_int_equal(plain.items[1].pools[0].keys.replicas, 5);
    assert_int_equal(plain.items[1].pools[0].keys.tp, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(set.items[i].seed, 7);
        assert_int_equal(set.items[i].pools[0].keys.tp, 1); /* the last of two settings */
    }
    assert_int_equal(set.items[1].pools[0].keys.replicas, 5);
    scenario_set_free(&plain);
    scenario_set_free(&set);
}

static void entries_of_pools_start_from_pool(void **state)
{
    (void)state;
    static const char text[] = "pool: {rows_max: 64, step: {row_us: 5}}\n"
                               "pools:\n  - {name: small, replicas: 3}\n"
                               "  - {base: mistral-24b, gpu: h200, tp: 2, rows_max: 32}\n  - {step: {row_us: 9}}\n"
                               "variants:\n  a: {}\n  b: {pool.rows_max: 128, pools.0.replicas: 4}\n"
                               "  c: {pools: [{replicas: 9}]}\n  d: {pools: {1: {replicas: 6}}}\n";
    static const char *const settings[] = {"pools.0.gpu=h200", "pool.block_tokens=32", NULL};
    struct scenario_set set = rig_read_well(text, settings);
    const struct scenario *a = &set.items[0];
    const struct scenario *b = &set.items[1];
    const struct scenario *c = &set.items[2];
    const struct scenario *d = &set.items[3];

    assert_int_equal(a->pools_count, 3);
    assert_string_equal(a->pools[0].keys.name, "small");
    assert_string_equal(a->pools[1].keys.name, "mistral-24b/h200");
    assert_int_equal(a->pools[0].keys.rows_max, 64);
    assert_int_equal(a->pools[1].keys.rows_max, 32);
    assert_true(a->pools[0].keys.step.row_us == 5 && a->pools[2].keys.step.row_us == 9);
    assert_int_equal(a->bases_count, 2);
    assert_int_equal(a->pools[0].base_index, 0);
    assert_int_equal(a->pools[1].base_index, 1);
    assert_int_equal(a->pools[2].base_index, 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(a->pools[i].keys.block_tokens, 32);
    assert_string_equal(a->pools[0].profile.name, "h200");
    assert_string_equal(a->pools[2].profile.name, "h100");
    assert_int_equal(b->pools[0].keys.rows_max, 128);
    assert_int_equal(b->pools[1].keys.rows_max, 32);
    assert_int_equal(b->pools[0].keys.replicas, 4);
    assert_int_equal(c->pools_count, 1);
    assert_int_equal(c->pools[0].keys.replicas, 9);
    assert_int_equal(d->pools[0].keys.replicas, 3);
    assert_int_equal(d->pools[1].keys.replicas, 6);
    scenario_set_free(&set);
}

static void kinds_of_jobs_start_from_kind(void **state)
{
    (void)state;
    static const char text[] = "jobs:\n  source: generated\n  kind: {rank: 64, gpus: 2}\n"
                               "  kinds: [{name: a}, {base: mistral-24b, gpus: 8}, {base: mistral-24b, stage: interactive}]\n"
                               "variants:\n  a: {}\n  b: {jobs.kind.rank: 8, jobs.kinds.1.rank: 4, jobs: {kinds: {0: {epochs: 9}}}}\n"
                               "  c: {jobs: {kinds: [{share: 2}]}}\n  d: {jobs.source: none}\n";
    static const char *const settings[] = {"jobs.kind.priority=7", "jobs.kinds.0.isolation=time-slice", "jobs.kinds.0.gpus=1", NULL};
    struct scenario_set set = rig_read_well(text, settings);
    const struct scenario *a = &set.items[0];
    const struct scenario *b = &set.items[1];
    const struct scenario *c = &set.items[2];

    assert_int_equal(a->job_kinds_count, 3);
    assert_string_equal(a->job_kinds[0].keys.name, "a");
    assert_string_equal(a->job_kinds[1].keys.name, "kind-1");
    assert_int_equal(a->job_kinds[0].keys.gpus, 1);
    assert_int_equal(a->job_kinds[1].keys.gpus, 8);
    assert_int_equal(a->job_kinds[2].keys.gpus, 2);
    assert_int_equal(a->job_kinds[2].keys.stage, STAGE_INTERACTIVE);
    assert_int_equal(a->job_kinds[0].keys.isolation, ISOLATION_TIME_SLICE);
    assert_string_equal(a->job_kinds[1].shape.name, "mistral-24b");
    assert_int_equal(a->job_kinds[0].base_index, 0); /* the pool's */
    assert_int_equal(a->job_kinds[1].base_index, 1);
    assert_int_equal(a->job_kinds[2].base_index, 1);
    assert_int_equal(a->bases_count, 1);
    assert_int_equal(a->bases_and_jobs_count, 2);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(a->job_kinds[i].keys.rank, 64);
        assert_int_equal(a->job_kinds[i].keys.priority, 7);
        assert_int_equal(b->job_kinds[i].keys.rank, i == 1 ? 4 : 8);
    }
    assert_int_equal(b->job_kinds[0].keys.epochs, 9);
    assert_int_equal(c->job_kinds_count, 1);
    assert_int_equal(set.items[3].job_kinds_count, 0);
    assert_int_equal(set.items[3].bases_and_jobs_count, 1);
    scenario_set_free(&set);
}

static void assert_words(const char *key_name, const char *const *words, uint32_t count)
{
    const struct key *key = section_key(SECTION_JOB_KIND, key_name, strlen(key_name));
    const char *name;
    size_t length;

    for (uint32_t i = 0; i < count; i++) {
        assert_true(choice_at(key->choices, i, &name, &length));
        assert_int_equal(length, strlen(words[i]));
        assert_memory_equal(name, words[i], length);
    }
    assert_false(choice_at(key->choices, count, &name, &length));
}

static void stages_and_isolations_are_those_of_the_fleet_in_its_order(void **state)
{
    (void)state;
#define X(name, text) text,
    static const char *const stages[] = {JOB_STAGES(X)};
    static const char *const isolations[] = {JOB_ISOLATIONS(X)};
#undef X

    assert_words("stage", stages, STAGE_COUNT);
    assert_words("isolation", isolations, ISOLATION_COUNT);
}

static void formats_of_job_traces_are_those_of_the_readers_in_their_order(void **state)
{
    (void)state;
    const struct key *key = section_key(SECTION_JOBS, "trace_format", strlen("trace_format"));
    const char *name;
    const char *about;
    const char *word;
    size_t length;
    uint32_t count = 0;

    for (; job_trace_format_at(count, &name, &about); count++) {
        assert_true(choice_at(key->choices, count, &word, &length));
        assert_int_equal(length, strlen(name));
        assert_memory_equal(name, word, length);
    }
    assert_false(choice_at(key->choices, count, &word, &length));
}

static void the_step_overrides_the_profile(void **state)
{
    (void)state;
    struct scenario_set set = rig_read_well("pool: {gpu: ideal, step: {fixed_us: 250, launch_us: 0}}\n", NULL);
    const struct gpu_profile *profile = &set.items[0].pools[0].profile;

    assert_true(profile->fixed_us == 250);
    assert_true(profile->row_us == 0); /* -1: the profile's */
    assert_true(profile->launch_us == 0);
    scenario_set_free(&set);
}

static void values_are_read_in_all_their_forms(void **state)
{
    (void)state;
    static const char text[] = "name: 'two words'\nabout: \"a: b\"\nseed: 12e9\nduration_s: 1.5e3\nsingle_step: true\n"
                               "pool: {batching: prefill-first, evict: gdsf, queue: vtc}\n"
                               "workload: {adapters: {ranks: [8, 16, 64], rank_weights: [1, 2, 0.5]}}\n";
    static const char *const settings[] = {"workload.adapters.ranks=[4,  8,16 ]", "about=x=y, [z]", NULL};
    struct scenario_set set = rig_read_well(text, NULL);
    struct scenario_set other = rig_read_well(text, settings);
    const struct scenario *scenario = &set.items[0];

    assert_string_equal(scenario->name, "two words");
    assert_string_equal(scenario->about, "a: b");
    assert_true(scenario->seed == UINT64_C(12000000000));
    assert_true(scenario->duration_s == 1500);
    assert_true(scenario->single_step);
    assert_int_equal(scenario->pools[0].keys.batching, KEY_BATCHING_PREFILL_FIRST);
    assert_string_equal(scenario->pools[0].keys.evict, "gdsf");
    assert_int_equal(scenario->workload.adapters.ranks.count, 3);
    assert_true(scenario->workload.adapters.ranks.values[2] == 64);
    assert_int_equal(other.items[0].workload.adapters.ranks.count, 3);
    assert_true(other.items[0].workload.adapters.ranks.values[0] == 4);
    assert_string_equal(other.items[0].about, "x=y, [z]");
    scenario_set_free(&set);
    scenario_set_free(&other);
}

static void aliases_stand_for_what_they_name(void **state)
{
    (void)state;
    struct scenario_set set = rig_read_well("seed: &n 12\nsample_rows_max: *n\n"
                                            "variants: {a: &p {pool: {replicas: 3}}, b: *p}\n",
                                            NULL);

    assert_int_equal(set.items[0].sample_rows_max, 12);
    assert_int_equal(set.items[1].pools[0].keys.replicas, 3);
    scenario_set_free(&set);
}

static void the_text_is_kept_with_its_settings(void **state)
{
    (void)state;
    static const char *const settings[] = {"seed=7", "name=a\nb", NULL};
    struct scenario_set set = rig_read_well("seed: 3 # why", settings);

    assert_string_equal(set.text, "seed: 3 # why\n# --set seed=7\n# --set name=a b\n");
    scenario_set_free(&set);
}

static void paths_start_at_the_scenario(void **state)
{
    (void)state;
    struct scenario scenario = {.directory = "a/b"};
    char path[KEY_TEXT_MAX * 2];

    scenario_path(&scenario, "../x.csv", path);
    assert_string_equal(path, "a/b/../x.csv");
    scenario_path(&scenario, "/x.csv", path);
    assert_string_equal(path, "/x.csv");
    strcpy(scenario.directory, ".");
    scenario_path(&scenario, "x.csv", path);
    assert_string_equal(path, "x.csv");
}

static void memory_adds_up(void **state)
{
    (void)state;
    struct scenario_set set = rig_read_well("pool: {gpu: h200, tp: 2, base: mistral-24b, slots_bytes: 10e9, reserve_bytes: 1e9}\n",
                                            NULL);
    const struct scenario_pool *pool = &set.items[0].pools[0];
    uint64_t adapter_bytes = adapter_bytes_max(&set.items[0], pool);
    struct pool_memory memory = pool_memory(pool, adapter_bytes);

    assert_int_equal(adapter_bytes, footprint_adapter_bytes(&pool->shape, LORA_ALL_LINEAR, 16));
    assert_true(memory.usable_bytes == 141e9 * 0.9);
    assert_true(memory.weights_bytes == (double)footprint_weights_bytes(&pool->shape) / 2);
    assert_true(memory.slots_bytes == 5e9);
    /* 2,048 tokens: four widths of hidden whole on each GPU, three of the FFN cut in two, 2 bytes each. */
    assert_true(memory.activations_bytes == 2048 * (4 * 5120 + 3 * 32768 / 2) * 2.0);
    assert_true(memory.kv_bytes == memory.usable_bytes - memory.weights_bytes - memory.slots_bytes -
                                       memory.activations_bytes - 1e9);
    /* 4 of 8 KV heads a GPU, 40 layers, 128 wide, keys and values of 2 bytes: 81,920 bytes a token and GPU. */
    assert_int_equal(memory.kv_tokens, (uint64_t)(memory.kv_bytes / (81920.0 * 16)) * 16);
    scenario_set_free(&set);
}

static void a_base_may_be_a_config_json_beside_the_scenario(void **state)
{
    (void)state;
    static const char config[] = "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 64,"
                                 "\"num_attention_heads\": 4, \"intermediate_size\": 128, \"vocab_size\": 1000}";
    struct scenario_set set;

    rig_file("tiny.json", config, strlen(config));
    set = rig_read_well("pool: {base: tiny.json}\n", NULL);
    assert_int_equal(set.items[0].pools[0].shape.layers, 2);
    assert_int_equal(set.items[0].pools[0].shape.kv_heads, 4);
    assert_string_equal(set.items[0].pools[0].keys.name, "llama/h100");
    scenario_set_free(&set);
}

static int end(void **state)
{
    (void)state;
    rig_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_mapping_is_the_table_of_defaults),
        cmocka_unit_test(answers_have_defaults_of_their_own),
        cmocka_unit_test(every_key_has_a_default_within_its_range),
        cmocka_unit_test(nested_and_dotted_keys_are_the_same),
        cmocka_unit_test(sections_without_keys_are_empty),
        cmocka_unit_test(settings_win_over_variants_which_win_over_the_file),
        cmocka_unit_test(entries_of_pools_start_from_pool),
        cmocka_unit_test(kinds_of_jobs_start_from_kind),
        cmocka_unit_test(stages_and_isolations_are_those_of_the_fleet_in_its_order),
        cmocka_unit_test(formats_of_job_traces_are_those_of_the_readers_in_their_order),
        cmocka_unit_test(the_step_overrides_the_profile),
        cmocka_unit_test(values_are_read_in_all_their_forms),
        cmocka_unit_test(aliases_stand_for_what_they_name),
        cmocka_unit_test(the_text_is_kept_with_its_settings),
        cmocka_unit_test(paths_start_at_the_scenario),
        cmocka_unit_test(memory_adds_up),
        cmocka_unit_test(a_base_may_be_a_config_json_beside_the_scenario),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
