/* The verb from arguments to exit code, in this process: its file is part of the program, not of a library. */
#include "cmd_objects.c"
#include "cmd_trace_stat.c"

#include <jansson.h>
#include <math.h>

#include "host/gnuplot.h"
#include "report/files.h"
#include "report/gallery.h"
#include "sim/speak.h"

static char folder[] = "/tmp/berth-trace-stat-XXXXXX";

#define SPEAK(...) speak(trace_stat_command, (const char *const[]){"stat", __VA_ARGS__, NULL})

/* The path of a new file with that text. */
static const char *file_of(const char *name, const char *text)
{
    static char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

/* 40 objects by Zipf's law with exponent 1, sizes of 1 to 40 KiB, ten requests a second, in an order that is chance. */
static const char *csv_of_forty(void)
{
    enum { REQUESTS = 4000 };
    static char path[256];
    uint64_t seed = 5;
    double sum = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/forty.csv", folder);
    file = fopen(path, "w");
    fputs("time,id,size\n", file);
    for (int i = 1; i <= 40; i++)
        sum += 1.0 / i;
    for (int i = 0; i < REQUESTS; i++) {
        double at = draw_unit(&seed) * sum;
        int rank = 1;

        while (rank < 40 && at > 1.0 / rank)
            at -= 1.0 / rank++;
        fprintf(file, "%d,object-%d,%d\n", i / 10, rank, rank * 1024);
    }
    fclose(file);
    return path;
}

static void stat_tells_what_is_in_a_trace(void **state)
{
    (void)state;
    const struct spoken *spoken = SPEAK(csv_of_forty());

    assert_string_equal(spoken->errors, "");
    assert_int_equal(spoken->code, EXIT_OK);
    assert_has(spoken->output, "\nformat       csv\nrequests     4,000 in 6.65 min, 10.0 a second\nobjects      40, of which 0 (0.0%) were asked for once\n");
    assert_has(spoken->output, "\nbytes        820 KiB in distinct objects, ");
    assert_has(spoken->output, "\n             Zipf's alpha 1.0");
    assert_has(spoken->output, "\nobject's size        20.5 KiB ");
    assert_has(spoken->output, "\n        100%              40      0.0100      0.0100         824 KiB      0.0100      0.0100\n");
    assert_has(spoken->output, "\nSHARDS       40 objects, rate 1; miss ratios by objects off by 0.0000 on average, 0.0000 at most\n");
    assert_has(spoken->output, "\n             by bytes exact from the largest object, 40 KiB, on\n");
    assert_has(spoken->output, "   of 62 windows of 64 requests\n");
    for (const char *line = spoken->output; *line != '\0'; line += strcspn(line, "\n") + 1)
        if (strcspn(line, "\n") > 100)
            fail_msg("a line of %zu columns: %s", strcspn(line, "\n"), line);
}

static void json_has_a_record_of_the_trace_and_its_curves(void **state)
{
    (void)state;
    const struct spoken *spoken = SPEAK(csv_of_forty(), "--json", "--shards=1");
    uint32_t counts[5] = {0};
    double ratio = 2;
    const char *at = spoken->output;

    assert_int_equal(spoken->code, EXIT_OK);
    while (*at != '\0') {
        json_t *line = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        const char *record = json_string_value(json_object_get(line, "record"));

        assert_non_null(record);
        if (strcmp(record, "trace") == 0) {
            json_t *zipf = json_object_get(line, "zipf");

            counts[0]++;
            assert_int_equal(json_integer_value(json_object_get(line, "requests")), 4000);
            assert_int_equal(json_integer_value(json_object_get(line, "objects_bytes")), 820 * 1024);
            assert_true(json_number_value(json_object_get(line, "duration_s")) == 399);
            assert_true(fabs(json_number_value(json_object_get(zipf, "alpha")) - 1) <
                        4 * json_number_value(json_object_get(zipf, "standard_error")));
            assert_int_equal(json_integer_value(json_object_get(json_object_get(line, "shards"), "requests")), 4000);
        } else if (strcmp(record, "lru_objects") == 0) {
            counts[1]++;
            assert_true(json_number_value(json_object_get(line, "miss_ratio")) <= ratio);
            ratio = json_number_value(json_object_get(line, "miss_ratio"));
        } else {
            counts[2] += strcmp(record, "lru_bytes") == 0;
            counts[3] += strcmp(record, "popularity") == 0;
            counts[4] += strcmp(record, "window") == 0;
        }
        json_decref(line);
        at += strcspn(at, "\n") + 1;
    }
    assert_true(counts[0] == 1 && counts[1] > 20 && counts[2] > 20 && counts[3] == counts[1] && counts[4] == 63);
    assert_true(ratio == 0.01);
}

/* Sizes up to the largest object's are where the curve by bytes may differ; here objects of 1 to 40 KiB, caches from 8.25 KiB on. */
static void curves_stand_beside_simulated_caches(void **state)
{
    (void)state;
    const struct spoken *spoken = SPEAK(csv_of_forty(), "--json", "--simulate");
    uint32_t by_objects = 0;
    uint32_t by_bytes = 0;

    assert_int_equal(spoken->code, EXIT_OK);
    for (const char *at = spoken->output; (at = strstr(at, "{\"record\": \"lru_simulated\"")) != NULL; at++) {
        json_t *line = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
        const double away = json_number_value(json_object_get(line, "curve_less_simulated"));
        const json_int_t bytes = json_integer_value(json_object_get(line, "size_bytes"));

        by_objects += bytes == 0;
        by_bytes += bytes > 0;
        assert_true(bytes > 0 && bytes < 40 * 1024 ? away >= 0 && away < 0.3 : away == 0);
        json_decref(line);
    }
    assert_true(by_objects == 5 && by_bytes == 5);
    assert_has(SPEAK(csv_of_forty(), "--simulate")->output,
               "\nsimulated    LRU caches of these sizes: the exact curve is off by 0.0000 at most by objects, 0.");
}

static void a_trace_of_keys_has_no_bytes_and_no_times(void **state)
{
    (void)state;
    const char *path = file_of("keys.txt", "a\nb\na\n");
    const struct spoken *spoken = SPEAK(path, "--format", "txt");

    assert_int_equal(spoken->code, EXIT_OK);
    assert_has(spoken->output, "\nrequests     3; the format has no times\n");
    assert_has(spoken->output, "\nbytes        the format has no sizes");
    assert_has(spoken->output, "\n             no Zipf fit: ");
    assert_has(spoken->output, "\n        100%               2      0.6667");
    assert_null(strstr(spoken->output, "KiB"));
    assert_has(SPEAK(path, "--format", "txt", "--size-bytes", "1024")->output, "\nbytes        2 KiB in distinct objects, 3 KiB requested\n");
    spoken = SPEAK(path, "--format", "txt", "--json");
    assert_has(spoken->output, "\"duration_s\": null");
    assert_has(spoken->output, "\"zipf\": null");
    assert_null(strstr(spoken->output, "lru_bytes"));
}

static void columns_may_be_named(void **state)
{
    (void)state;
    const char *path = file_of("named.csv", "when;what;large\n1.5;a;10\n2.5;b;20\n4;a;10\n");
    const struct spoken *spoken = SPEAK(path, "--format", "csv", "--id-column", "what", "--size-column", "large", "--time-column=when", "--separator",
                                        ";");

    assert_string_equal(spoken->errors, "");
    assert_int_equal(spoken->code, EXIT_OK);
    assert_has(spoken->output, "\nrequests     3 in 2.5 s, 1.20 a second\n");
    assert_has(spoken->output, "\nbytes        30 bytes in distinct objects, 40 bytes requested\n");
    assert_int_equal(SPEAK(path, "--size-bytes", "0")->code, EXIT_USAGE);
}

static void sizes_that_no_curve_can_have_are_told(void **state)
{
    (void)state;
    const struct spoken *spoken = SPEAK(file_of("large.csv", "time,id,size\n1,1,9223372036854775807\n2,2,9223372036854775807\n1,1,9223372036854775807\n"));

    assert_int_equal(spoken->code, EXIT_OK);
    assert_has(spoken->output, "bytes        16 EiB in distinct objects, 24 EiB requested\n");
    assert_has(spoken->output, "no curve by bytes: all objects together have 2^63 bytes or more\n");
    assert_has(spoken->output, "1 times before the row above");
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    const struct spoken *spoken = SPEAK("/nowhere/to/be/found.csv");

    assert_int_equal(spoken->code, EXIT_FAILED);
    assert_has(spoken->errors, "/nowhere/to/be/found.csv");
    spoken = SPEAK(file_of("bad.csv", "time,id,size\n1,a,10\n2,b,-5\n"));
    assert_int_equal(spoken->code, EXIT_FAILED);
    assert_has(spoken->errors, "bad.csv:3:");
    assert_string_equal(spoken->output, "");
    spoken = SPEAK(file_of("empty.csv", ""));
    assert_int_equal(spoken->code, EXIT_FAILED);
    assert_int_equal(SPEAK("--json")->code, EXIT_USAGE);
    assert_int_equal(SPEAK("a.csv", "b.csv")->code, EXIT_USAGE);
    assert_has(SPEAK("a.csv", "--shards", "1.5")->errors, "--shards 1.5: a part of the objects");
    assert_int_equal(SPEAK("a.csv", "--shards", "0")->code, EXIT_USAGE);
    assert_int_equal(SPEAK("a.csv", "--shards-objects", "0")->code, EXIT_USAGE);
    assert_int_equal(SPEAK("--help")->code, EXIT_OK);
}

static void a_report_has_its_figures_on_one_page(void **state)
{
    (void)state;
    static const char *const figures[] = {"popularity", "lru-objects", "lru-bytes", "working-set"};
    char plots[PLOTS_PATH_MAX];
    char report[300];
    const struct spoken *spoken;
    char *page;

    snprintf(report, sizeof(report), "%s/a report's", folder);
    spoken = SPEAK(csv_of_forty(), "--simulate", "--report", report);
    assert_int_equal(spoken->code, EXIT_OK);
    page = file_read("%s/index.html", report);
    assert_non_null(page);
    assert_has(page, "<h1>forty.csv</h1>");
    assert_has(page, "Zipf&#39;s alpha 1.0");
    assert_has(page, "simulated LRU caches");
    assert_has(page, "How many bytes must an LRU cache hold?");
    assert_null(strstr(page, folder)); /* mailed pages tell no folders */
    for (size_t i = 0; i < ARRAY_COUNT(figures); i++)
        assert_true(file_bytes("%s/data/%s.dat", report, figures[i]) > 0);
    if (plots_find(plots) == STATUS_OK && spoken->errors[0] == '\0') {
        for (size_t i = 0; i < ARRAY_COUNT(figures); i++)
            assert_true(file_bytes("%s/%s.png", report, figures[i]) > 1000);
        assert_null(strstr(page, "Not drawn"));
        assert_int_equal(file_bytes("%s/data/gnuplot.log", report), 0); /* not even a warning */
    }
    free(page);
    /* Where a file is in the way there is no folder. */
    assert_int_equal(SPEAK(csv_of_forty(), "--report", file_of("in-the-way", ""))->code, EXIT_FAILED);
}

/* Without the scripts the page has the text, and why is said. */
static void without_gnuplots_scripts_a_report_is_a_page_without_figures(void **state)
{
    (void)state;
    char report[300];
    const struct spoken *spoken;
    char *page;

    snprintf(report, sizeof(report), "%s/plain", folder);
    assert_int_equal(setenv("BERTH_PLOTS", folder, 1), 0);
    spoken = SPEAK(csv_of_forty(), "--report", report);
    assert_int_equal(unsetenv("BERTH_PLOTS"), 0);
    assert_int_equal(spoken->code, EXIT_OK);
    assert_has(spoken->errors, "the page has tables only");
    page = file_read("%s/index.html", report);
    assert_has(page, "Not drawn: gnuplot could not be run");
    assert_has(page, "Zipf&#39;s alpha 1.0");
    free(page);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[300];

    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_tells_what_is_in_a_trace),
        cmocka_unit_test(json_has_a_record_of_the_trace_and_its_curves),
        cmocka_unit_test(curves_stand_beside_simulated_caches),
        cmocka_unit_test(a_trace_of_keys_has_no_bytes_and_no_times),
        cmocka_unit_test(columns_may_be_named),
        cmocka_unit_test(sizes_that_no_curve_can_have_are_told),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(a_report_has_its_figures_on_one_page),
        cmocka_unit_test(without_gnuplots_scripts_a_report_is_a_page_without_figures),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
