/* The accounts as CSV: what a bill's reader adds up. */
#include "sim/results/jobs_rig.h"
#include "sim/results/rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "results/jobs_ledger.h"

static struct summary summaries[2];
static char text[65536];

static void variants_make(const char *const *names)
{
    static const char *const variants[] = {"spot", "on \"demand\", only"};
    const struct jobs_facts facts = jobs_rig_facts(names);

    for (uint32_t v = 0; v < 2; v++)
        assert_int_equal(jobs_rig_close(jobs_rig_open(NULL, jobs_rig_scenario(variants[v])), &facts, &summaries[v]), STATUS_OK);
}

static void variants_free(void)
{
    summary_free(&summaries[0]);
    summary_free(&summaries[1]);
}

static const char *written(uint32_t count)
{
    FILE *file;
    size_t bytes;

    assert_int_equal(jobs_ledger_write(results_path, summaries, count, stderr), STATUS_OK);
    assert_int_equal(results_files_count(), 1);
    file = fopen(results_path, "r");
    assert_non_null(file);
    bytes = fread(text, 1, sizeof(text) - 1, file);
    text[bytes] = '\0';
    fclose(file);
    return text;
}

/* The first cell of a line, a decimal of nine places. */
static int64_t billed_nano(const char *line)
{
    char digits[32] = "";
    const char *point = strchr(line, '.');

    assert_non_null(point);
    strncat(digits, line, (size_t)(point - line));
    strncat(digits, point + 1, 9);
    return (int64_t)strtoll(digits, NULL, 10);
}

static void lines_of_each_variant_add_up_to_its_bill(void **state)
{
    (void)state;
    int64_t sum_nano[2] = {0};
    uint32_t lines = 0;

    variants_make(NULL);
    for (const char *line = strchr(written(2), '\n') + 1; *line != '\0'; line = strchr(line, '\n') + 1) {
        const bool other = strstr(line, "on \"\"demand\"\"") != NULL && strstr(line, "on \"\"demand\"\"") < strchr(line, '\n');

        sum_nano[other] += billed_nano(line);
        lines++;
    }
    assert_int_equal(sum_nano[0], summaries[0].jobs.cost_total_nano);
    assert_int_equal(sum_nano[1], summaries[1].jobs.cost_total_nano);
    assert_int_equal(lines, 2 * 7); /* what is zero has no line */
    variants_free();
}

/* Of the platform's account, as a charge by itself; the variant's lines and these are still the bill. */
static void serving_is_a_charge_of_its_own(void **state)
{
    (void)state;
    struct serving_bill *serving = &summaries[0].facts.serving;
    const struct jobs_summary *jobs = &summaries[0].jobs;
    int64_t sum_nano = 0;
    int64_t serving_nano = 0;

    variants_make(NULL);
    serving->known = true;
    serving->total_nano = serving->cost_nano[CHARGE_IDLE] =
        jobs->cost_nano[(size_t)jobs->tenants_count * CHARGE_COUNT + CHARGE_IDLE] / 3;
    assert_true(serving->total_nano > 0);
    for (const char *line = strchr(written(1), '\n') + 1; *line != '\0'; line = strchr(line, '\n') + 1) {
        const char *found = strstr(line, ",spot/serving,");

        sum_nano += billed_nano(line);
        serving_nano += found != NULL && found < strchr(line, '\n') ? billed_nano(line) : 0;
    }
    assert_int_equal(serving_nano, serving->total_nano);
    assert_int_equal(sum_nano, jobs->cost_total_nano);
    variants_free();
}

/* Serving alone: its lines are all there are. */
static void serving_without_jobs_is_written_too(void **state)
{
    (void)state;
    memset(summaries, 0, sizeof(summaries));
    strcpy(summaries[0].variant, "chat");
    summaries[0].facts.serving = (struct serving_bill){.known = true, .total_nano = 5000000007,
                                                       .cost_nano = {[CHARGE_COMPUTE] = 5000000007}};
    written(2);
    assert_non_null(strstr(text, "\n5.000000007,"));
    assert_non_null(strstr(text, ",chat/serving,"));
    assert_non_null(strstr(text, ",platform,"));
}

static void accounts_have_names_and_hostile_ones_stay_in_their_cell(void **state)
{
    (void)state;
    static const char *const names[JOBS_RIG_TENANTS] = {"a,\"b\"\nc", NULL, NULL};

    variants_make(names);
    written(1);
    assert_non_null(strstr(text, ",\"a,\"\"b\"\"\nc\","));
    assert_non_null(strstr(text, ",tenant-1,"));
    assert_non_null(strstr(text, ",platform,"));
    assert_non_null(strstr(text, "123456.789012345,"));
    assert_non_null(strstr(text, "-0.500000003,"));
    assert_non_null(strstr(text, ",Credit,borrowing discount,1970-01-05T00:00:00Z,1970-01-07T00:00:00Z,"));
    variants_free();
}

static void variant_without_jobs_has_no_lines(void **state)
{
    (void)state;
    memset(summaries, 0, sizeof(summaries));
    assert_string_equal(strchr(written(2), '\n'), "\n");
}

static void ledger_that_cannot_be_written_is_told(void **state)
{
    (void)state;
    char *said = NULL;
    size_t bytes;
    FILE *errors = open_memstream(&said, &bytes);

    variants_make(NULL);
    assert_int_equal(jobs_ledger_write("build/no/such/folder/x.csv", summaries, 2, errors), STATUS_IO);
    fclose(errors);
    assert_non_null(strstr(said, "build/no/such/folder/x.csv"));
    free(said);
    variants_free();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, results_directory_empty)
    const struct CMUnitTest tests[] = {
        TEST(lines_of_each_variant_add_up_to_its_bill),
        TEST(serving_is_a_charge_of_its_own),
        TEST(serving_without_jobs_is_written_too),
        TEST(accounts_have_names_and_hostile_ones_stay_in_their_cell),
        TEST(variant_without_jobs_has_no_lines),
        TEST(ledger_that_cannot_be_written_is_told),
    };

    return cmocka_run_group_tests(tests, results_directory_make, results_directory_remove);
}
