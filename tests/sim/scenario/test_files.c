/* The scenarios that we ship are read without a word; and whatever becomes of a file's bytes, reading it ends in an
 * answer. */
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "scenario/print.h"
#include "sim/scenario/rig.h"
#include "support.h"

static int is_yaml(const struct dirent *entry)
{
    size_t count = strlen(entry->d_name);

    return count > 5 && strcmp(entry->d_name + count - 5, ".yaml") == 0;
}

static char *file_bytes(const char *path, size_t *ret_count)
{
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(1u << 16);

    assert_non_null(file);
    *ret_count = fread(bytes, 1, (1u << 16) - 1, file);
    bytes[*ret_count] = '\0';
    fclose(file);
    return bytes;
}

/* A trace, or the sample in its place, may be missing where only a part of the tree is checked out. */
static bool misses_only_its_trace(const char *messages)
{
    return strstr(messages, "neither workload.trace.path") != NULL && strstr(strstr(messages, "error: ") + 1, "error: ") == NULL;
}

static void every_scenario_that_we_ship_is_read_without_a_word(void **state)
{
    (void)state;
    struct dirent **entries;
    int count = scandir("scenarios", &entries, is_yaml, alphasort);
    uint32_t skipped = 0;

    assert_true(count >= 12);
    for (int i = 0; i < count; i++) {
        struct scenario_set set = {0};
        char path[300];
        char *messages;
        size_t messages_count;
        FILE *errors = open_memstream(&messages, &messages_count);
        enum status status;

        snprintf(path, sizeof(path), "scenarios/%s", entries[i]->d_name);
        status = scenario_read(path, NULL, 0, errors, &set);
        fclose(errors);
        if (status != STATUS_OK && misses_only_its_trace(messages)) {
            printf("skipped: %s has no trace here\n", path);
            skipped++;
        } else if (status != STATUS_OK || messages[0] != '\0') {
            fail_msg("%s: %s\n%s", path, status_text(status), messages);
        } else {
            size_t name_count = strlen(entries[i]->d_name) - 5;

            /* A scenario is called as its file. */
            assert_int_equal(strlen(set.items[0].name), name_count);
            assert_memory_equal(set.items[0].name, entries[i]->d_name, name_count);
            assert_true(set.items[0].about[0] != '\0');
        }
        scenario_set_free(&set);
        free(messages);
        free(entries[i]);
    }
    free(entries);
    if (skipped > 0)
        skip();
}

/* Two changes of bytes, of pieces, or of words that mean something here. */
static size_t mutate(char *text, size_t count, size_t count_max, uint64_t *random)
{
    static const char *const words[] = {"pools:", "{", "}", "[", "]", "*a", "&a ", "<<: ", "---\n", "\n", ": ", "- ", "\t", "\"",
                                        "'", "|", ">", "#", "~", "nan", "1e999", "-1", "0", "99999999999999999999", "variants:",
                                        "pool.", "pools.0.", "!!int ", "? ", "%YAML 1.1\n", "\xff", "\xc3", "\xef\xbb\xbf", "\r"};

    for (uint32_t i = 0; i < 2; i++) {
        size_t at = draw_below(random, count + 1);
        size_t piece = min_u64(draw_below(random, 40), count - at);
        const char *word = words[draw_below(random, ARRAY_COUNT(words))];
        size_t word_count = strlen(word);

        switch (draw_below(random, 4)) {
        case 0:
            if (at < count)
                text[at] = (char)draw(random);
            break;
        case 1:
            memmove(text + at, text + at + piece, count - at - piece);
            count -= piece;
            break;
        case 2:
            if (count + word_count < count_max) {
                memmove(text + at + word_count, text + at, count - at);
                memcpy(text + at, word, word_count);
                count += word_count;
            }
            break;
        default:
            if (count + piece < count_max) {
                memmove(text + at + piece, text + at, count - at);
                count += piece;
            }
        }
    }
    return count;
}

static void whatever_the_bytes_reading_ends_in_an_answer(void **state)
{
    (void)state;
    static const char *const files[] = {"scenarios/two-bases.yaml", "scenarios/ps.yaml", "scenarios/route-300.yaml"};
    const uint64_t seed = test_seed(1);
    uint64_t random = seed;
    uint32_t answered[2] = {0};

    for (uint32_t turn = 0; turn < 600; turn++) {
        const char *file = files[draw_below(&random, ARRAY_COUNT(files))];
        struct scenario_set set = {0};
        size_t count;
        char *bytes = file_bytes(file, &count);
        char *messages;
        size_t messages_count;
        FILE *errors = open_memstream(&messages, &messages_count);
        enum status status;

        count = mutate(bytes, count, 1u << 16, &random);
        status = scenario_read(rig_file("x.yaml", bytes, count), NULL, 0, errors, &set);
        fclose(errors);
        if (status == STATUS_OK ? set.count == 0 : strstr(messages, "error: ") == NULL || set.items != NULL)
            fail_msg("seed %llu, turn %u, %s: status %d, messages: %s", (unsigned long long)seed, turn, file, (int)status,
                     messages);
        answered[status != STATUS_OK]++;
        scenario_set_free(&set);
        free(messages);
        free(bytes);
    }
    /* Both kinds must occur, or the mutations are no test. */
    assert_true(answered[0] > 0 && answered[1] > 0);
}

static json_t *printed_json(void (*print)(FILE *out, void *context), void *context)
{
    char *text;
    size_t count;
    FILE *out = open_memstream(&text, &count);
    json_error_t error;
    json_t *json;

    print(out, context);
    fclose(out);
    json = json_loads(text, 0, &error);
    if (json == NULL)
        fail_msg("%s: %s", error.text, text);
    free(text);
    return json;
}

static void print_keys(FILE *out, void *context)
{
    (void)context;
    scenario_keys_print(out, true);
}

static const json_t *key_of(const json_t *keys, const char *path)
{
    size_t index;
    const json_t *key;

    json_array_foreach(keys, index, key) {
        if (strcmp(json_string_value(json_object_get(key, "path")), path) == 0)
            return key;
    }
    fail_msg("no key %s", path);
    return NULL;
}

static void the_keys_are_printed_for_machines(void **state)
{
    (void)state;
    json_t *keys = printed_json(print_keys, NULL);

    assert_true(json_number_value(json_object_get(key_of(keys, "workload.output.mean_tokens"), "default")) == 200);
    assert_true(json_number_value(json_object_get(key_of(keys, "workload.prompt.mean_tokens"), "default")) == 512);
    assert_true(json_integer_value(json_object_get(key_of(keys, "pool.replicas"), "max")) == 1024 ||
                json_real_value(json_object_get(key_of(keys, "pool.replicas"), "max")) == 1024);
    assert_int_equal(json_array_size(json_object_get(key_of(keys, "pool.batching"), "choices")), 2);
    assert_int_equal(json_array_size(json_object_get(key_of(keys, "workload.adapters.ranks"), "default")), 1);
    json_decref(keys);
}

static void print_set(FILE *out, void *context)
{
    scenario_set_print_json(out, "x.yaml", context, "");
}

static void a_checked_scenario_is_printed_for_machines(void **state)
{
    (void)state;
    struct scenario_set set = rig_read_well("name: n\npool: {replicas: 3}\nvariants: {a: {}, b: {seed: 2}}\n", NULL);
    json_t *json = printed_json(print_set, &set);
    const json_t *variant = json_array_get(json_object_get(json, "variants"), 1);
    const json_t *pool = json_array_get(json_object_get(variant, "pools"), 0);

    assert_true(json_is_true(json_object_get(json, "valid")));
    assert_string_equal(json_string_value(json_object_get(variant, "variant")), "b");
    assert_int_equal(json_integer_value(json_object_get(variant, "seed")), 2);
    assert_int_equal(json_integer_value(json_object_get(pool, "replicas")), 3);
    json_decref(json);
    json = printed_json(print_set, NULL);
    assert_true(json_is_false(json_object_get(json, "valid")));
    json_decref(json);
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
        cmocka_unit_test(every_scenario_that_we_ship_is_read_without_a_word),
        cmocka_unit_test(whatever_the_bytes_reading_ends_in_an_answer),
        cmocka_unit_test(the_keys_are_printed_for_machines),
        cmocka_unit_test(a_checked_scenario_is_printed_for_machines),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
