/* What a run leaves, byte by byte as other people's loaders read it, against a header that PEFT 0.19 wrote: names, order, shapes, dtypes, and
 * the fields of adapter_config.json. */
#include <fcntl.h>
#include <jansson.h>

#include "rig.h"

static json_t *record_or_skip(void)
{
    const char *path = test_shared_path("models/adapters/third_party/peft-0.19-header.json");
    struct refusal refusal;
    json_t *record;

    if (path == NULL) {
        printf("skipped: ../shared/models/adapters/third_party/peft-0.19-header.json is missing\n");
        skip();
    }
    assert_int_equal(file_read_json(AT_FDCWD, path, path, 1 << 20, &record, &refusal), STATUS_OK);
    return record;
}

/* The header, read by hand. */
static json_t *header_of(struct world *world, int64_t *ret_data_bytes)
{
    int64_t bytes;
    char *file = bytes_of(world, "plain", "adapter_model.safetensors", &bytes);
    uint64_t length;
    json_t *header;

    memcpy(&length, file, sizeof(length));
    assert_int_equal(length % 8, 0);
    assert_true((int64_t)length + 8 < bytes);
    header = json_loadb(file + 8, (size_t)length, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(header);
    *ret_data_bytes = bytes - 8 - (int64_t)length;
    free(file);
    return header;
}

static json_int_t number_at(const json_t *tensor, const char *list, size_t index)
{
    return json_integer_value(json_array_get(json_object_get(tensor, list), index));
}

/* Jansson keeps the order of the file. */
static void tensors_lie_one_behind_the_other_in_order_of_names(void **state)
{
    json_t *record = record_or_skip();
    struct world *world = world_new();
    const char *name;
    const char *before = "";
    int64_t data_bytes;
    json_int_t at = 0;
    json_t *header;
    json_t *tensor;

    (void)state;
    plain_run(world);
    header = header_of(world, &data_bytes);
    assert_true(json_equal(json_object_get(header, "__metadata__"), json_object_get(record, "metadata")));
    json_object_del(header, "__metadata__");
    assert_int_equal(json_object_size(header), 3 * LORA_MODULE_COUNT * 2);
    json_object_foreach(header, name, tensor) {
        if (strcmp(before, name) >= 0)
            fail_msg("%s comes behind %s", name, before);
        before = name;
        assert_int_equal(number_at(tensor, "data_offsets", 0), at);
        at = number_at(tensor, "data_offsets", 1);
        assert_int_equal(at - number_at(tensor, "data_offsets", 0), 4 * number_at(tensor, "shape", 0) * number_at(tensor, "shape", 1));
    }
    assert_int_equal(at, data_bytes);
    json_decref(header);
    json_decref(record);
    world_free(world);
}

/* Each of the record's names is ours too, of the same dtype, with the rank where its rank stands. */
static void names_dtypes_and_shapes_are_those_of_peft(void **state)
{
    json_t *record = record_or_skip();
    struct world *world = world_new();
    const struct dims *dims = &world->model->config.dims;
    const json_int_t record_rank = json_integer_value(json_object_get(json_object_get(record, "adapter_config_keys_and_values"), "r"));
    const json_int_t rank = world->run.settings.rank;
    int64_t data_bytes;
    const char *name;
    json_t *header;
    json_t *wanted;
    int seen = 0;

    (void)state;
    plain_run(world);
    header = header_of(world, &data_bytes);
    json_object_foreach(json_object_get(record, "layer0"), name, wanted) {
        const json_t *found = json_object_get(header, name);
        const size_t inner = number_at(wanted, "shape", 0) == record_rank ? 0 : 1;
        const bool is_o = strstr(name, "o_proj") != NULL;
        const bool is_kv = strstr(name, "k_proj") != NULL || strstr(name, "v_proj") != NULL;
        const json_int_t width = dims->head_dim * (is_kv ? dims->kv_heads : dims->heads);

        if (found == NULL)
            fail_msg("%s is missing", name);
        assert_string_equal(json_string_value(json_object_get(found, "dtype")), json_string_value(json_object_get(wanted, "dtype")));
        assert_int_equal(json_array_size(json_object_get(found, "shape")), json_array_size(json_object_get(wanted, "shape")));
        assert_int_equal(number_at(found, "shape", inner), rank);
        assert_int_equal(number_at(found, "shape", 1 - inner), (inner == 0) == is_o ? width : dims->hidden);
        seen++;
    }
    assert_int_equal(seen, 8);
    json_decref(header);
    json_decref(record);
    world_free(world);
}

static bool is_a_choice(const char *key)
{
    static const char *const keys[] = {"base_model_name_or_path", "lora_alpha", "lora_dropout", "r", "target_modules"};

    for (size_t i = 0; i < ARRAY_COUNT(keys); i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

/* No field that PEFT 0.19 does not write; those that are no choice of a run's have its values, the others its types; and what a loader
 * cannot do without is there. */
static void the_config_s_fields_are_those_of_peft(void **state)
{
    static const char *const needed[] = {"peft_type", "task_type", "base_model_name_or_path", "r", "lora_alpha", "lora_dropout", "target_modules",
                                         "bias", "fan_in_fan_out", "inference_mode", "init_lora_weights", "modules_to_save", "rank_pattern",
                                         "alpha_pattern", "use_dora", "use_rslora"};
    json_t *record = record_or_skip();
    const json_t *fields = json_object_get(record, "adapter_config_keys_and_values");
    struct world *world = world_new();
    struct refusal refusal;
    char path[640];
    json_t *config;
    const char *key;
    json_t *value;

    (void)state;
    plain_run(world);
    snprintf(path, sizeof(path), "%s/adapter_config.json", world->out);
    assert_int_equal(file_read_json(AT_FDCWD, path, path, 1 << 20, &config, &refusal), STATUS_OK);
    json_object_foreach(config, key, value) {
        const json_t *theirs = json_object_get(fields, key);

        if (theirs == NULL)
            fail_msg("PEFT 0.19 writes no field %s", key);
        if (is_a_choice(key) ? json_typeof(value) != json_typeof(theirs) : !json_equal(value, (json_t *)(uintptr_t)theirs))
            fail_msg("the field %s is not as PEFT writes it", key);
    }
    for (size_t i = 0; i < ARRAY_COUNT(needed); i++)
        if (json_object_get(config, needed[i]) == NULL)
            fail_msg("the field %s is missing", needed[i]);
    assert_int_equal(json_integer_value(json_object_get(config, "r")), world->run.settings.rank);
    assert_int_equal(json_array_size(json_object_get(config, "target_modules")), LORA_MODULE_COUNT);
    json_decref(config);
    json_decref(record);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_lie_one_behind_the_other_in_order_of_names),
        cmocka_unit_test(names_dtypes_and_shapes_are_those_of_peft),
        cmocka_unit_test(the_config_s_fields_are_those_of_peft),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
