/* The FOCUS export, read back by a plain CSV reader: columns, amounts to the last digit, ratios that add up,
 * refusals. */
#include "sim/results/rig.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "results/focus.h"

#define HOUR_NS (3600 * NS_PER_S)
enum { ROWS_MOST = 2000, COLUMNS_MOST = 20, BYTES_MOST = 1 << 20 };

static char text[BYTES_MOST];
static char *cells[ROWS_MOST][COLUMNS_MOST]; /* the head is row 0 */
static uint32_t rows, columns;

/* RFC 4180: takes the quotes off in place. Every row must have as many cells as the head. */
static void csv_read(void)
{
    FILE *file = fopen(results_path, "r");
    size_t bytes = fread(text, 1, sizeof(text) - 1, file);
    char *at = text;
    uint32_t column = 0;

    fclose(file);
    text[bytes] = '\0';
    rows = columns = 0;
    while (*at != '\0') {
        char *to = at;
        bool quoted = *at == '"';
        char end;

        cells[rows][column++] = to;
        for (at += quoted; quoted ? !(at[0] == '"' && at[1] != '"') : *at != ',' && *at != '\n'; at++) {
            assert_true(*at != '\0');
            at += quoted && *at == '"';
            *to++ = *at;
        }
        at += quoted;
        end = *at++;
        *to = '\0';
        if (end == ',')
            continue;
        assert_int_equal(end, '\n');
        if (rows == 0)
            columns = column;
        assert_int_equal(column, columns);
        column = 0;
        rows++;
    }
}

static const char *cell(uint32_t row, const char *name)
{
    for (uint32_t i = 0; i < columns; i++)
        if (strcmp(cells[0][i], name) == 0)
            return cells[row][i];
    fail_msg("no column %s", name);
    return NULL;
}

/* Exactly nine digits behind the point. */
static int64_t nano(const char *decimal)
{
    const char *point = strchr(decimal, '.');
    char digits[32] = "";

    if (point == NULL || strlen(point + 1) != 9)
        fail_msg("\"%s\" is not a decimal of nine places", decimal);
    strncat(digits, decimal, (size_t)(point - decimal));
    strcat(digits, point + 1);
    return (int64_t)strtoll(digits, NULL, 10);
}

static int64_t ratio(uint32_t row)
{
    const char *details = cell(row, "AllocatedMethodDetails");
    json_t *object = json_loads(details, 0, NULL);
    json_t *element;
    const char *at;

    assert_non_null(object);
    element = json_array_get(json_object_get(object, "Elements"), 0);
    assert_true(json_is_number(json_object_get(element, "AllocatedRatio")));
    json_decref(object);
    at = strstr(details, "\"AllocatedRatio\":") + strlen("\"AllocatedRatio\":");
    return nano((char[]){at[0], '.', at[2], at[3], at[4], at[5], at[6], at[7], at[8], at[9], at[10], '\0'});
}

static struct focus_line line_make(const char *account, enum charge_component component, int64_t amount_nano)
{
    return (struct focus_line){.account = account, .resource = "h100", .component = component, .from_ns = 0,
                               .until_ns = HOUR_NS, .amount_nano = amount_nano};
}

static void written(const struct focus_line *lines, uint32_t count)
{
    assert_int_equal(focus_write(results_path, lines, count, stderr), STATUS_OK);
    assert_int_equal(results_files_count(), 1);
    csv_read();
    assert_int_equal(rows, count + 1);
}

static void a_line_has_its_value_in_every_column(void **state)
{
    (void)state;
    struct focus_line line = line_make("acme", CHARGE_COMPUTE, 1234567890123);

    line.from_ns = INT64_C(1785542400) * NS_PER_S + 1;
    line.until_ns = line.from_ns + HOUR_NS;
    line.consumed_nano = 1500000000;
    line.consumed_unit = "GPU-Hours";
    written(&line, 1);
    assert_string_equal(cell(1, "BilledCost"), "1234.567890123");
    assert_string_equal(cell(1, "EffectiveCost"), "1234.567890123");
    assert_string_equal(cell(1, "ListCost"), "1234.567890123");
    assert_string_equal(cell(1, "ContractedCost"), "1234.567890123");
    assert_string_equal(cell(1, "ChargeCategory"), "Usage");
    assert_string_equal(cell(1, "ChargeDescription"), "compute");
    assert_string_equal(cell(1, "ChargePeriodStart"), "2026-08-01T00:00:00Z");
    assert_string_equal(cell(1, "ChargePeriodEnd"), "2026-08-01T01:00:01Z");
    assert_string_equal(cell(1, "ConsumedQuantity"), "1.500000000");
    assert_string_equal(cell(1, "ConsumedUnit"), "GPU-Hours");
    assert_string_equal(cell(1, "ResourceId"), "h100");
    assert_string_equal(cell(1, "SubAccountId"), "acme");
    assert_string_equal(cell(1, "AllocatedMethodId"), "compute-used");
    assert_string_equal(cell(1, "AllocatedResourceId"), "acme");
    assert_string_equal(cell(1, "AllocatedMethodDetails"),
                        "{\"Elements\":[{\"AllocatedRatio\":1.000000000,"
                        "\"UsageUnit\":\"GPU-Hours\",\"UsageQuantity\":1.500000000}]}");
    assert_int_equal(ratio(1), 1000000000);
}

static void a_discount_is_a_credit_and_an_adjustment_and_no_part_of_the_split(void **state)
{
    (void)state;
    const struct focus_line lines[] = {line_make("acme", CHARGE_COMPUTE, 1000000000),
                                       line_make("acme", CHARGE_DISCOUNT, -700000001),
                                       line_make("platform", CHARGE_DISCOUNT, 700000001)};

    written(lines, 3);
    assert_string_equal(cell(2, "ChargeCategory"), "Credit");
    assert_string_equal(cell(2, "BilledCost"), "-0.700000001");
    assert_string_equal(cell(2, "ListCost"), "0.000000000");
    assert_string_equal(cell(2, "AllocatedMethodId"), "");
    assert_string_equal(cell(2, "AllocatedMethodDetails"), "");
    assert_string_equal(cell(2, "AllocatedResourceId"), "");
    assert_string_equal(cell(2, "ConsumedQuantity"), "");
    assert_string_equal(cell(3, "ChargeCategory"), "Adjustment");
    assert_string_equal(cell(3, "BilledCost"), "0.700000001");
    assert_int_equal(ratio(1), 1000000000);
}

static void every_component_has_a_description(void **state)
{
    (void)state;
    struct focus_line lines[CHARGE_COUNT];

    for (uint32_t i = 0; i < CHARGE_COUNT; i++)
        lines[i] = line_make("acme", (enum charge_component)i, 1);
    written(lines, CHARGE_COUNT);
    for (uint32_t i = 1; i <= CHARGE_COUNT; i++) {
        assert_true(strlen(cell(i, "ChargeDescription")) > 0);
        assert_int_equal(strlen(cell(i, "AllocatedMethodId")) > 0, i - 1 != CHARGE_DISCOUNT);
    }
}

static void names_with_commas_quotes_and_line_ends_come_back(void **state)
{
    (void)state;
    struct focus_line lines[] = {line_make("a,\"b\"\nc", CHARGE_IDLE, 1), line_make("", CHARGE_IDLE, 1),
                                 line_make("\"", CHARGE_IDLE, 1)};

    lines[1].resource = "x,y";
    written(lines, 3);
    assert_string_equal(cell(1, "SubAccountId"), "a,\"b\"\nc");
    assert_string_equal(cell(2, "SubAccountId"), "");
    assert_string_equal(cell(2, "ResourceId"), "x,y");
    assert_string_equal(cell(3, "SubAccountId"), "\"");
}

static void the_largest_and_smallest_amounts_are_whole(void **state)
{
    (void)state;
    const struct focus_line lines[] = {line_make("acme", CHARGE_COMPUTE, INT64_MAX),
                                       line_make("acme", CHARGE_DISCOUNT, INT64_MIN),
                                       line_make("acme", CHARGE_COMPUTE, 0)};

    written(lines, 3);
    assert_string_equal(cell(1, "BilledCost"), "9223372036.854775807");
    assert_string_equal(cell(2, "BilledCost"), "-9223372036.854775808");
    assert_string_equal(cell(3, "BilledCost"), "0.000000000");
}

static void no_lines_are_a_head(void **state)
{
    (void)state;
    written(NULL, 0);
    assert_string_equal(cells[0][0], "BilledCost");
}

static void ratios_of_an_origin_add_up_to_one_and_costs_to_the_bill(void **state)
{
    (void)state;
    enum { LINES = 1200, ORIGINS = 6 };
    static const char *const resources[] = {"h100", "h100-spot", "store"};
    static struct focus_line lines[LINES];
    uint64_t seed = test_seed(3);
    uint64_t random = seed;
    int64_t ratios[ORIGINS] = {0};
    int64_t exact[ORIGINS] = {0};
    int64_t billed = 0;
    int64_t listed = 0;
    int64_t bill = 0;

    for (uint32_t i = 0; i < LINES; i++) {
        uint32_t origin = (uint32_t)draw_below(&random, ORIGINS);
        int64_t amount = (int64_t)(draw(&random) >> (20 + draw_below(&random, 40)));

        lines[i] = line_make("t", (enum charge_component)draw_below(&random, CHARGE_DISCOUNT),
                             origin == 5 ? 0 : amount);
        lines[i].resource = resources[origin % 3];
        lines[i].from_ns = origin / 3 * HOUR_NS;
        lines[i].until_ns = lines[i].from_ns + HOUR_NS;
        bill += lines[i].amount_nano;
        exact[origin] += lines[i].amount_nano;
    }
    written(lines, LINES);
    for (uint32_t i = 0; i < LINES; i++) {
        uint32_t origin = (uint32_t)(lines[i].from_ns / HOUR_NS) * 3;
        int64_t part = ratio(i + 1);

        while (strcmp(resources[origin % 3], lines[i].resource) != 0)
            origin++;
        ratios[origin] += part;
        billed += nano(cell(i + 1, "BilledCost"));
        listed += nano(cell(i + 1, "ListCost"));
        if (exact[origin] > 0 &&
            llabs(part - (int64_t)((uint128)(uint64_t)lines[i].amount_nano * 1000000000 / (uint64_t)exact[origin])) > 1)
            fail_msg("seed %llu line %u: ratio %lld of %lld in %lld", (unsigned long long)seed, i, (long long)part,
                     (long long)lines[i].amount_nano, (long long)exact[origin]);
    }
    assert_int_equal(billed, bill);
    assert_int_equal(listed, bill);
    for (uint32_t origin = 0; origin < ORIGINS; origin++)
        if (ratios[origin] != 1000000000)
            fail_msg("seed %llu origin %u: ratios add up to %lld", (unsigned long long)seed, origin,
                     (long long)ratios[origin]);
}

static char said[512];

static enum status write_at(const char *path, const struct focus_line *lines, uint32_t count)
{
    FILE *errors;
    enum status status;

    memset(said, 0, sizeof(said));
    errors = fmemopen(said, sizeof(said) - 1, "w");
    status = focus_write(path, lines, count, errors);
    fclose(errors);
    return status;
}

static void a_directory_that_is_not_there_is_refused(void **state)
{
    (void)state;
    char absent[160];

    snprintf(absent, sizeof(absent), "%s/absent/ledger.csv", results_directory);
    assert_int_equal(write_at(absent, NULL, 0), STATUS_IO);
    assert_non_null(strstr(said, absent));
    assert_non_null(strstr(said, "No such file or directory"));
    assert_int_equal(results_files_count(), 0);
}

static void the_name_of_a_directory_is_refused_and_nothing_stays(void **state)
{
    (void)state;
    char beside[200];

    assert_int_equal(write_at(results_directory, NULL, 0), STATUS_IO);
    assert_non_null(strstr(said, "cannot be put in place"));
    snprintf(beside, sizeof(beside), "%s.part%ld", results_directory, (long)getpid());
    assert_int_equal(access(beside, F_OK), -1);
}

static void full_disk_leaves_the_older_file(void **state)
{
    (void)state;
    static struct focus_line lines[1000];
    const struct focus_line older = line_make("older", CHARGE_IDLE, 1);
    struct rlimit limit;
    struct rlimit small;

    for (uint32_t i = 0; i < ARRAY_COUNT(lines); i++)
        lines[i] = line_make("acme", CHARGE_COMPUTE, i);
    written(&older, 1);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    for (small.rlim_cur = 0; small.rlim_cur < 100000; small.rlim_cur += 33333) {
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        assert_int_equal(write_at(results_path, lines, ARRAY_COUNT(lines)), STATUS_IO);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_non_null(strstr(said, "cannot write the ledger: File too large"));
        assert_int_equal(results_files_count(), 1);
        csv_read();
        assert_int_equal(rows, 2);
        assert_string_equal(cell(1, "SubAccountId"), "older");
    }
    written(lines, ARRAY_COUNT(lines));
}

static void act_write(void *line)
{
    (void)focus_write(results_path, line, 1, stderr);
}

static void lines_that_cannot_be_are_mistakes(void **state)
{
    (void)state;
    struct focus_line lines[5];

    for (size_t i = 0; i < ARRAY_COUNT(lines); i++)
        lines[i] = line_make("acme", CHARGE_COMPUTE, 1);
    lines[0].account = NULL;
    lines[1].component = CHARGE_COUNT;
    lines[2].until_ns = -1;
    lines[3].consumed_nano = -1;
    lines[4].consumed_unit = "GPU\"Hours";
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++)
        if (!check_stops(act_write, &lines[i]))
            fail_msg("line %zu was accepted", i);
}

int main(void)
{
#define FOCUS_TEST(name) cmocka_unit_test_teardown(name, results_directory_empty)
    const struct CMUnitTest tests[] = {
        FOCUS_TEST(a_line_has_its_value_in_every_column),
        FOCUS_TEST(a_discount_is_a_credit_and_an_adjustment_and_no_part_of_the_split),
        FOCUS_TEST(every_component_has_a_description),
        FOCUS_TEST(names_with_commas_quotes_and_line_ends_come_back),
        FOCUS_TEST(the_largest_and_smallest_amounts_are_whole),
        FOCUS_TEST(no_lines_are_a_head),
        FOCUS_TEST(ratios_of_an_origin_add_up_to_one_and_costs_to_the_bill),
        FOCUS_TEST(a_directory_that_is_not_there_is_refused),
        FOCUS_TEST(the_name_of_a_directory_is_refused_and_nothing_stays),
        FOCUS_TEST(full_disk_leaves_the_older_file),
        FOCUS_TEST(lines_that_cannot_be_are_mistakes),
    };

    return cmocka_run_group_tests(tests, results_directory_make, results_directory_remove);
}
