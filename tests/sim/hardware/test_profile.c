/* Profiles: the ones we ship, where they are found, and what a profile must have. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hardware/profile.h"
#include "model/footprint.h"
#include "sim/scenario/rig.h"
#include "support.h"

static enum status read_profile(const char *name, const char *directory, struct gpu_profile *ret_profile, char **ret_messages)
{
    size_t count;
    FILE *errors = open_memstream(ret_messages, &count);
    enum status status = profile_read(name, directory, errors, ret_profile);

    fclose(errors);
    rig_strip(*ret_messages);
    return status;
}

static struct gpu_profile read_well(const char *name)
{
    struct gpu_profile profile;
    char *messages;

    if (read_profile(name, "scenarios", &profile, &messages) != STATUS_OK || messages[0] != '\0')
        fail_msg("%s: %s", name, messages);
    free(messages);
    return profile;
}

static void every_profile_that_we_ship_is_read_without_a_word(void **state)
{
    (void)state;
    static const char *const names[] = {"a10g", "l40s", "a100-80", "h100", "h200", "ideal"};

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct gpu_profile profile = read_well(names[i]);

        assert_string_equal(profile.name, names[i]);
        assert_true(profile.title[0] != '\0');
        assert_true(profile.memory_bytes > 0);
    }
}

/* t0 + W / (BW e_w) + rows c_row, for the 8B model at short contexts. */
static double decode_ms(const struct gpu_profile *profile, double bandwidth, double rows)
{
    const struct shape *shape = shape_find("llama-8b");
    double weights_us = (double)footprint_step_weights_bytes(shape) / (bandwidth * profile->weights_efficiency) * 1e6;

    return (profile->fixed_us + weights_us + rows * profile->row_us) / 1e3;
}

static void assert_within(double value, double wanted, double share)
{
    if (value < wanted * (1 - share) || value > wanted * (1 + share))
        fail_msg("%g is not within %g%% of %g", value, share * 100, wanted);
}

static void decode_steps_land_near_the_measured_ones(void **state)
{
    (void)state;
    struct gpu_profile h100 = read_well("h100");
    struct gpu_profile h200 = read_well("h200");
    struct gpu_profile a100 = read_well("a100-80");

    assert_within(decode_ms(&h100, h100.memory_bytes_per_s, 1), 7.2, 0.03);
    assert_within(decode_ms(&h100, h100.memory_bytes_per_s, 10), 7.4, 0.03);
    assert_within(decode_ms(&h200, h200.memory_bytes_per_s, 8), 6.3, 0.05);
    assert_within(decode_ms(&a100, 1.555e12, 1), 13.3, 0.02); /* measured on the 40 GB card */
}

static void prefill_lands_in_the_reported_range(void **state)
{
    (void)state;
    struct gpu_profile h100 = read_well("h100");
    double flops = 2.0 * (double)footprint_step_parameters(shape_find("llama-8b"));
    double tokens_per_s = h100.flops_per_s * h100.flops_efficiency / flops;

    if (tokens_per_s < 32e3 || tokens_per_s > 38e3)
        fail_msg("%g tokens/s is outside 32,000 to 38,000", tokens_per_s);
}

/* A good profile as text, without the line of `left_out`. */
static void write_profile(const char *name, const char *left_out, const char *added)
{
    char text[8192] = "title: Test GPU\n";

#define X(field, min, max, about)                                                                         \
    if (strcmp(#field, left_out) != 0)                                                                    \
        sprintf(text + strlen(text), #field ": {value: %g, source: test}\n", (min) > 0.5 ? 1e12 : (max) < 1e5 ? 1.0 : 5.0);
    PROFILE_KEYS(X)
#undef X
    strcat(text, added);
    rig_file(name, text, strlen(text));
}

static void assert_profile_told(const char *left_out, const char *added, enum status wanted_status, const char *wanted)
{
    struct gpu_profile profile = {.row_us = 77};
    char path[200];
    char *messages;
    enum status status;

    write_profile("gpu.yaml", left_out, added);
    snprintf(path, sizeof(path), "%s", rig_file("other", "", 0));
    strcpy(strrchr(path, '/') + 1, "gpu.yaml");
    status = read_profile(path, "scenarios", &profile, &messages);
    assert_string_equal(messages, wanted);
    assert_int_equal(status, wanted_status);
    if (status != STATUS_OK)
        assert_true(profile.row_us == 77);
    else
        assert_string_equal(profile.name, "gpu");
    free(messages);
}

static void a_profile_has_every_number_with_its_source(void **state)
{
    (void)state;
    assert_profile_told("", "", STATUS_OK, "");
    assert_profile_told("row_us", "", STATUS_INVALID, "gpu.yaml:1:1: error: a profile needs every number; missing: row_us\n");
    assert_profile_told("row_us", "row_us: {value: 3}\n", STATUS_INVALID,
                        "gpu.yaml:24:1: error: row_us has no source; an assumption is one: say so\n"
                        "   24 | row_us: {value: 3}\n"
                        "      | ^~~~~~\n");
    assert_profile_told("row_us", "row_us: {source: me}\n", STATUS_INVALID,
                        "gpu.yaml:24:1: error: row_us has no value\n"
                        "   24 | row_us: {source: me}\n"
                        "      | ^~~~~~\n");
    assert_profile_told("row_us", "row_us: 3\n", STATUS_INVALID,
                        "gpu.yaml:24:1: error: row_us must be {value: a number, source: \"where it comes from\"}\n"
                        "   24 | row_us: 3\n"
                        "      | ^~~~~~\n");
}

static void values_keep_their_ranges_and_names(void **state)
{
    (void)state;
    assert_profile_told("kv_efficiency", "kv_efficiency: {value: 1.5, source: me}\n", STATUS_INVALID,
                        "gpu.yaml:24:24: error: kv_efficiency.value must be from 1e-6 to 1, not 1.5\n"
                        "   24 | kv_efficiency: {value: 1.5, source: me}\n"
                        "      |                        ^~~\n");
    assert_profile_told("kv_efficiency", "kv_efficiency: {value: high, source: me}\n", STATUS_INVALID,
                        "gpu.yaml:24:24: error: kv_efficiency.value must be a number, not `high`\n"
                        "   24 | kv_efficiency: {value: high, source: me}\n"
                        "      |                        ^~~~\n");
    assert_profile_told("", "row_use: {value: 3, source: me}\n", STATUS_INVALID,
                        "gpu.yaml:25:1: error: unknown key `row_use`; did you mean `row_us`?\n"
                        "   25 | row_use: {value: 3, source: me}\n"
                        "      | ^~~~~~~\n");
    assert_profile_told("", "row_us: {value: 3, source: me}\ntitle: again\n", STATUS_INVALID,
                        "gpu.yaml:25:1: error: row_us is given twice\n"
                        "   25 | row_us: {value: 3, source: me}\n"
                        "      | ^~~~~~\n"
                        "gpu.yaml:26:1: error: title is given twice\n"
                        "   26 | title: again\n"
                        "      | ^~~~~\n");
    assert_profile_told("row_us", "row_us: {value: 3, source: me, by: me}\n", STATUS_INVALID,
                        "gpu.yaml:24:32: error: `by` is unknown or given twice in row_us: it has value and source\n"
                        "   24 | row_us: {value: 3, source: me, by: me}\n"
                        "      |                                ^~\n");
}

static void profiles_are_found_from_the_programs_own_tree(void **state)
{
    (void)state;
    struct gpu_profile profile;
    int here = open(".", O_RDONLY);
    char *messages;
    enum status status;

    /* No directory below the root has profiles; the tree that the test program was built in has. */
    assert_true(here >= 0);
    assert_int_equal(chdir("/"), 0);
    status = read_profile("h100", "nowhere", &profile, &messages);
    assert_int_equal(fchdir(here), 0);
    close(here);
    assert_int_equal(status, STATUS_OK);
    assert_string_equal(profile.name, "h100");
    free(messages);
}

static void a_profile_that_is_nowhere_is_told(void **state)
{
    (void)state;
    struct gpu_profile profile;
    char *messages;

    assert_int_equal(read_profile("h1000", "scenarios", &profile, &messages), STATUS_NOT_FOUND);
    assert_non_null(strstr(messages, "no GPU profile is called `h1000` in scenarios/hardware"));
    assert_non_null(strstr(messages, "; there are a100-80, a10g, h100"));
    free(messages);
    assert_int_equal(read_profile("none.yaml", "scenarios", &profile, &messages), STATUS_NOT_FOUND);
    assert_string_equal(messages, "none.yaml: error: no such file (relative paths start at scenarios)\n");
    free(messages);
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
        cmocka_unit_test(every_profile_that_we_ship_is_read_without_a_word),
        cmocka_unit_test(decode_steps_land_near_the_measured_ones),
        cmocka_unit_test(prefill_lands_in_the_reported_range),
        cmocka_unit_test(a_profile_has_every_number_with_its_source),
        cmocka_unit_test(values_keep_their_ranges_and_names),
        cmocka_unit_test(profiles_are_found_from_the_programs_own_tree),
        cmocka_unit_test(a_profile_that_is_nowhere_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
