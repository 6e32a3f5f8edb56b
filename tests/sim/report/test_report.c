#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report/figures.h"
#include "report/files.h"
#include "report/report.h"
#include "report/svg.h"
#include "report/text.h"
#include "sim/report/synthetic.h"
#include "support.h"

#define SCENARIO "name: conversations\nworkload:\n  tenants: 50\n"

static const struct synthetic_variant three[] = {
    {"affinity", 0.90, 0.80, 6000}, {"sticky", 0.82, 0.93, 6000}, {"round-robin", 0.35, 1.04, 6000}};

/* A folder of its own for each test, with what shells and gnuplot trip over in its name. */
struct rig {
    char folder[512];
    char results[600];
    char report[600];
    char *errors;
    size_t errors_bytes;
    FILE *errors_out;
    struct summary *summaries;
};

static bool gnuplot_is_here(void)
{
    const char *path = getenv("PATH");

    for (const char *folder = path; folder != NULL && *folder != '\0';) {
        size_t length = strcspn(folder, ":");
        char program[600];

        snprintf(program, sizeof(program), "%.*s/gnuplot", (int)length, folder);
        if (access(program, X_OK) == 0)
            return true;
        folder += length + (folder[length] == ':');
    }
    return false;
}

static void rig_init(struct rig *rig)
{
    const char *temporary = getenv("TMPDIR");
    char template[256];

    snprintf(template, sizeof(template), "%s/berth-report-XXXXXX", temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(template));
    snprintf(rig->folder, sizeof(rig->folder), "%s", template);
    snprintf(rig->results, sizeof(rig->results), "%s/it's \"r\".h5", rig->folder);
    snprintf(rig->report, sizeof(rig->report), "%s/a $(b)/it's \"the\" `report`", rig->folder);
    rig->errors = NULL;
    rig->errors_out = open_memstream(&rig->errors, &rig->errors_bytes);
    assert_non_null(rig->errors_out);
    rig->summaries = calloc(64, sizeof(*rig->summaries));
    assert_non_null(rig->summaries);
}

static void remove_tree(const char *path)
{
    pid_t child = fork();

    if (child == 0) {
        execlp("rm", "rm", "-rf", "--", path, (char *)NULL);
        _exit(127);
    }
    waitpid(child, NULL, 0);
}

static void rig_free(struct rig *rig)
{
    fclose(rig->errors_out);
    free(rig->errors);
    free(rig->summaries);
    remove_tree(rig->folder);
}

static const char *said(struct rig *rig)
{
    fflush(rig->errors_out);
    return rig->errors;
}

static enum status report(struct rig *rig, uint32_t count, const char *scenario_text)
{
    return report_write(rig->report, rig->results, rig->summaries, count, scenario_text, rig->errors_out);
}

static char *page_of(const struct rig *rig)
{
    char *page = file_read("%s/index.html", rig->report);

    assert_non_null(page);
    return page;
}

static bool contains(const char *text, const char *part) { return strstr(text, part) != NULL; }

static void must_be_png(const char *report, const char *name)
{
    static const unsigned char signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    unsigned char head[24] = {0};
    char path[700];

    snprintf(path, sizeof(path), "%s/%s.png", report, name);
    FILE *file = fopen(path, "rb");

    if (file == NULL)
        fail_msg("%s is not there", path);
    assert_int_equal(fread(head, 1, sizeof(head), file), sizeof(head));
    fclose(file);
    assert_memory_equal(head, signature, sizeof(signature));
    assert_int_equal(head[18] << 8 | head[19], 1200); /* width and height, big-endian, of the first chunk */
    assert_int_equal(head[22] << 8 | head[23], 750);
    assert_true(file_bytes("%s", path) > 8000);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Every id of the page, sorted; how many in ret_count. */
static char **ids_of(const char *page, size_t *ret_count)
{
    char **ids = NULL;
    size_t count = 0;

    for (const char *c = strstr(page, " id="); c != NULL; c = strstr(c + 1, " id=")) {
        size_t length = strcspn(c + 5, "'\"");

        ids = realloc(ids, (count + 1) * sizeof(*ids));
        assert_non_null(ids);
        ids[count] = malloc(length + 1);
        memcpy(ids[count], c + 5, length);
        ids[count++][length] = '\0';
    }
    if (count > 0)
        qsort(ids, count, sizeof(*ids), by_text);
    *ret_count = count;
    return ids;
}

static void ids_must_be_unique_and_references_known(const char *page)
{
    static const char *const references[] = {"href='#", "url(#"};
    size_t count;
    char **ids = ids_of(page, &count);

    for (size_t i = 1; i < count; i++)
        if (strcmp(ids[i - 1], ids[i]) == 0)
            fail_msg("id %s is there twice", ids[i]);
    for (size_t r = 0; r < ARRAY_COUNT(references); r++)
        for (const char *c = strstr(page, references[r]); c != NULL; c = strstr(c + 1, references[r])) {
            const char *name = c + strlen(references[r]);
            char wanted[64];
            char *key = wanted;

            snprintf(wanted, sizeof(wanted), "%.*s", (int)strcspn(name, "')"), name);
            if (bsearch(&key, ids, count, sizeof(*ids), by_text) == NULL)
                fail_msg("%s is referred to but not there", wanted);
        }
    for (size_t i = 0; i < count; i++)
        free(ids[i]);
    free(ids);
}

static void report_is_whole(void **state)
{
    (void)state;
    struct rig rig;
    char before[600], after[600];

    if (!gnuplot_is_here()) {
        print_message("skipped: gnuplot is not installed\n");
        skip();
    }
    rig_init(&rig);
    assert_non_null(getcwd(before, sizeof(before)));
    synthetic_write(rig.results, SCENARIO, 7, three, 3, rig.summaries);
    assert_int_equal(report(&rig, 3, SCENARIO), STATUS_OK);
    assert_string_equal(said(&rig), "");
    assert_non_null(getcwd(after, sizeof(after)));
    assert_string_equal(before, after);
    for (uint32_t i = 0; i < FIGURE_GANTT; i++) {
        must_be_png(rig.report, figure_file((enum figure)i));
        assert_true(file_bytes("%s/%s.svg", rig.report, figure_file((enum figure)i)) > 5000);
    }
    assert_int_equal(file_bytes("%s/data/gnuplot.log", rig.report), 0); /* not even a warning */

    char *page = page_of(&rig);
    char *kept = file_read("%s/data/scenario.yaml", rig.report);

    assert_string_equal(kept, SCENARIO);
    ids_must_be_unique_and_references_known(page);
    assert_false(contains(page, "http://"));
    assert_false(contains(page, "https://"));
    assert_false(contains(page, "<script"));
    assert_false(contains(page, "<img"));
    assert_false(contains(page, "<?xml"));
    assert_false(contains(page, "gnuplot_plot_1</title>"));
    assert_false(contains(page, rig.folder)); /* where it was made is nobody's business */
    for (uint32_t i = 0; i < FIGURE_GANTT; i++)
        assert_true(contains(page, figure_question((enum figure)i)));
    assert_false(contains(page, "Not drawn"));
    assert_true(contains(page, "0.1.0-synthetic"));
    assert_true(contains(page, "Unstable: round-robin"));
    assert_true(contains(page, "So far, not a steady state"));
    free(kept);
    free(page);
    rig_free(&rig);
}

static void report_can_be_written_twice_and_leaves_no_work_behind(void **state)
{
    (void)state;
    static const struct synthetic_variant base_only[] = {{"affinity", 0.9, 0.8, 0}};
    struct rig rig;

    rig_init(&rig);
    synthetic_write(rig.results, SCENARIO, 7, three, 2, rig.summaries);
    assert_int_equal(report(&rig, 2, SCENARIO), STATUS_OK);
    if (gnuplot_is_here())
        must_be_png(rig.report, "queue");
    /* Nothing happened in this run: no picture of the former may stay beside its page. */
    synthetic_write(rig.results, SCENARIO, 7, base_only, 1, rig.summaries);
    assert_int_equal(report(&rig, 1, SCENARIO), STATUS_OK);
    for (uint32_t i = 0; i < FIGURE_GANTT; i++)
        assert_int_equal(file_bytes("%s/%s.png", rig.report, figure_file((enum figure)i)), 0);

    DIR *folder = opendir(rig.report);

    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (strncmp(entry->d_name, ".partial", strlen(".partial")) == 0)
            fail_msg("%s was left behind", entry->d_name);
    closedir(folder);
    rig_free(&rig);
}

static void report_of_an_empty_run_says_why_it_has_no_figures(void **state)
{
    (void)state;
    static const struct synthetic_variant empty[] = {{"affinity", 0.9, 0.8, 0}};
    struct rig rig;

    rig_init(&rig);
    synthetic_write(rig.results, SCENARIO, 7, empty, 1, rig.summaries);
    assert_int_equal(report(&rig, 1, SCENARIO), STATUS_OK);

    char *page = page_of(&rig);

    assert_true(contains(page, "Not drawn: no request was finished after the warm-up"));
    assert_true(contains(page, "Not drawn: the results file has no samples of the replicas"));
    assert_true(contains(page, "Not drawn: no tenant had a request finished"));
    assert_false(contains(page, "<svg"));
    assert_false(contains(page, ">nan") || contains(page, ">-nan"));
    free(page);
    rig_free(&rig);
}

static void figures_with_data_are_drawn_beside_empty_ones(void **state)
{
    (void)state;
    static const struct synthetic_variant mixed[] = {{"empty", 0.9, 0.8, 0}, {"full", 0.9, 0.8, 2000}};
    struct rig rig;

    if (!gnuplot_is_here()) {
        print_message("skipped: gnuplot is not installed\n");
        skip();
    }
    rig_init(&rig);
    synthetic_write(rig.results, SCENARIO, 7, mixed, 2, rig.summaries);
    assert_int_equal(report(&rig, 2, SCENARIO), STATUS_OK);
    assert_string_equal(said(&rig), "");
    assert_int_equal(file_bytes("%s/data/gnuplot.log", rig.report), 0);
    for (uint32_t i = 0; i < FIGURE_GANTT; i++)
        must_be_png(rig.report, figure_file((enum figure)i));
    rig_free(&rig);
}

static void hostile_text_stays_text(void **state)
{
    (void)state;
    static const char hostile[] = "name: <script>alert('1')</script> & \"x\" \x01\xff </pre></details>\n";
    static const char *const names[] = {"<b>`touch owned`", "it's $(touch owned)", "a_b^{c} \\n \"q\" %s %d"};
    struct synthetic_variant variants[3];
    struct rig rig;

    rig_init(&rig);
    for (uint32_t v = 0; v < 3; v++)
        variants[v] = (struct synthetic_variant){names[v], 0.9, 0.8, 1500};
    synthetic_write(rig.results, "hostile", 7, variants, 3, rig.summaries);
    for (uint32_t v = 0; v < 3; v++) {
        snprintf(rig.summaries[v].name, sizeof(rig.summaries[v].name), "<img src=x onerror=alert(1)>");
        snprintf(rig.summaries[v].notes, sizeof(rig.summaries[v].notes), "<script>note</script>\n%%n%%n");
    }
    assert_int_equal(report(&rig, 3, hostile), STATUS_OK);

    char *page = page_of(&rig);

    assert_false(contains(page, "<script"));
    assert_false(contains(page, "<img"));
    assert_false(contains(page, "<b>"));
    assert_false(contains(page, "\x01"));
    assert_false(contains(page, "\xff"));
    assert_true(contains(page, "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;x&quot; &#xFFFD;&#xFFFD; &lt;/pre&gt;"));
    assert_int_equal(access("owned", F_OK), -1);
    assert_int_equal(file_bytes("%s/owned", rig.report), 0);
    if (gnuplot_is_here()) {
        assert_string_equal(said(&rig), "");
        must_be_png(rig.report, "ttft-cdf");
        ids_must_be_unique_and_references_known(page);
    }
    free(page);
    rig_free(&rig);
}

static void unstable_variant_has_no_percentile_anywhere(void **state)
{
    (void)state;
    static const struct synthetic_variant unstable[] = {{"round-robin", 0.35, 1.2, 3000}};
    struct rig rig;
    char text[NUMBER_TEXT_MAX];

    rig_init(&rig);
    synthetic_write(rig.results, SCENARIO, 7, unstable, 1, rig.summaries);
    /* Numbers that nothing else in the page can be. */
    for (uint32_t class = 0; class < CLASS_COUNT; class++) {
        rig.summaries[0].latency[class][METRIC_TTFT].p50_ns = 731 * NS_PER_MS;
        rig.summaries[0].latency[class][METRIC_TTFT].p90_ns = 739 * NS_PER_MS;
        rig.summaries[0].latency[class][METRIC_TTFT].p99_ns = 743 * NS_PER_MS;
    }
    rig.summaries[0].blame[3].mean_ns[BLAME_QUEUE] = 757e9;
    assert_int_equal(report_write(rig.report, NULL, rig.summaries, 1, SCENARIO, rig.errors_out), STATUS_OK);

    char *page = page_of(&rig);
    static const int never[] = {731, 739, 743, 757};

    assert_true(contains(page, "<td class=\"unstable\">unstable</td>"));
    for (size_t i = 0; i < ARRAY_COUNT(never); i++) {
        snprintf(text, sizeof(text), ">%d", never[i]);
        assert_false(contains(page, text));
        snprintf(text, sizeof(text), "%d ms", never[i]);
        assert_false(contains(page, text));
    }
    free(page);
    rig_free(&rig);
}

static void more_variants_than_colours_are_in_the_tables(void **state)
{
    (void)state;
    static struct synthetic_variant variants[FIGURE_VARIANTS_MAX + 2];
    static char names[FIGURE_VARIANTS_MAX + 2][16];
    struct rig rig;

    rig_init(&rig);
    for (uint32_t v = 0; v < ARRAY_COUNT(variants); v++) {
        snprintf(names[v], sizeof(names[v]), "sweep-%u", v + 1);
        variants[v] = (struct synthetic_variant){names[v], 0.9, 0.8, 500};
    }
    synthetic_write(rig.results, SCENARIO, 7, variants, ARRAY_COUNT(variants), rig.summaries);
    assert_int_equal(report(&rig, ARRAY_COUNT(variants), SCENARIO), STATUS_OK);
    assert_string_equal(said(&rig), "");

    char *page = page_of(&rig);

    assert_true(contains(page, "The figures show the first 8 of 10 variants"));
    assert_true(contains(page, "sweep-10"));
    free(page);
    rig_free(&rig);
}

static void command_repeats_what_the_command_line_set(void **state)
{
    (void)state;
    static const char text[] = "# --set a=comment\nname: x\n# --set pool.gpu=it's\n# --set seed=9\n";
    struct rig rig;

    rig_init(&rig);
    synthetic_write(rig.results, text, 9, three, 1, rig.summaries);
    assert_int_equal(report(&rig, 1, text), STATUS_OK);

    char *page = page_of(&rig);

    assert_true(contains(page, "<pre>berth-sim run scenario.yaml --set &#39;pool.gpu=it&#39;\\&#39;&#39;s&#39; --set &#39;seed=9&#39; "
                               "--out &#39;it&#39;\\&#39;&#39;s &quot;r&quot;.h5&#39; --report report/</pre>"));
    free(page);
    assert_int_equal(report(&rig, 1, SCENARIO), STATUS_OK);
    page = page_of(&rig);
    assert_true(contains(page, "<pre>berth-sim run scenario.yaml --set seed=9 --out"));
    free(page);
    rig_free(&rig);
}

static void report_without_gnuplot_has_tables_and_says_so(void **state)
{
    (void)state;
    struct rig rig;
    char *path = strdup(getenv("PATH"));

    rig_init(&rig);
    synthetic_write(rig.results, SCENARIO, 7, three, 3, rig.summaries);
    setenv("PATH", rig.folder, 1);

    enum status status = report(&rig, 3, SCENARIO);

    setenv("PATH", path, 1);
    free(path);
    assert_int_equal(status, STATUS_OK);
    assert_true(contains(said(&rig), "gnuplot is not installed"));

    char *page = page_of(&rig);

    assert_true(contains(page, "time to first token, p99"));
    assert_true(contains(page, "Not drawn: gnuplot could not be run"));
    assert_false(contains(page, "<svg"));
    free(page);
    rig_free(&rig);
}

static void failing_gnuplot_leaves_no_half_pictures(void **state)
{
    (void)state;
    struct rig rig;
    char program[600];
    char *path = strdup(getenv("PATH"));

    rig_init(&rig);
    synthetic_write(rig.results, SCENARIO, 7, three, 1, rig.summaries);
    snprintf(program, sizeof(program), "%s/gnuplot", rig.folder);

    FILE *fake = fopen(program, "w");

    assert_non_null(fake);
    fputs("#!/bin/sh\necho half > queue.png; echo half > queue.svg; echo 'disk on fire' >&2; exit 1\n", fake);
    fclose(fake);
    assert_int_equal(chmod(program, 0755), 0);
    setenv("PATH", rig.folder, 1);

    enum status status = report(&rig, 1, SCENARIO);

    setenv("PATH", path, 1);
    free(path);
    assert_int_equal(status, STATUS_OK);
    assert_true(contains(said(&rig), "gnuplot failed"));
    assert_true(contains(said(&rig), "disk on fire"));
    assert_int_equal(file_bytes("%s/queue.png", rig.report), 0);
    assert_int_equal(file_bytes("%s/queue.svg", rig.report), 0);
    rig_free(&rig);
}

static void report_refuses_what_it_cannot_do(void **state)
{
    (void)state;
    struct rig rig;
    char missing[700];

    rig_init(&rig);
    synthetic_write(rig.results, SCENARIO, 7, three, 1, rig.summaries);
    assert_int_equal(report(&rig, 0, SCENARIO), STATUS_INVALID);
    assert_true(contains(said(&rig), "no variant"));

    snprintf(missing, sizeof(missing), "%s/missing.h5", rig.folder);
    assert_int_equal(report_write(rig.report, missing, rig.summaries, 1, SCENARIO, rig.errors_out), STATUS_IO);
    assert_true(contains(said(&rig), "missing.h5: cannot be read"));
    assert_int_equal(access(rig.report, F_OK), -1); /* refused before anything was written */

    /* A file stands where the folder should be. */
    assert_int_equal(report_write(rig.results, rig.results, rig.summaries, 1, SCENARIO, rig.errors_out), STATUS_IO);
    rig_free(&rig);
}

static void report_without_rows_has_the_figures_of_the_summary(void **state)
{
    (void)state;
    struct rig rig;

    rig_init(&rig);
    synthetic_write(rig.results, SCENARIO, 7, three, 2, rig.summaries);
    assert_int_equal(report_write(rig.report, NULL, rig.summaries, 2, SCENARIO, rig.errors_out), STATUS_OK);
    assert_string_equal(said(&rig), "");
    if (gnuplot_is_here()) {
        must_be_png(rig.report, "blame");
        must_be_png(rig.report, "ttft-class");
    }
    assert_int_equal(file_bytes("%s/queue.png", rig.report), 0);
    rig_free(&rig);
}

static void variant_that_is_not_in_the_file_is_named(void **state)
{
    (void)state;
    struct rig rig;

    rig_init(&rig);
    synthetic_write(rig.results, SCENARIO, 7, three, 1, rig.summaries);
    snprintf(rig.summaries[0].variant, sizeof(rig.summaries[0].variant), "somebody else");
    assert_int_equal(report(&rig, 1, SCENARIO), STATUS_OK);
    assert_true(contains(said(&rig), "variant somebody else is not in the results file"));
    rig_free(&rig);
}

static void rows_beyond_one_slab_are_all_read(void **state)
{
    (void)state;
    static const struct synthetic_variant large[] = {{"large", 0.9, 0.8, 70000}};
    static struct extracted extracted;
    struct extract *extract;
    struct rig rig;

    rig_init(&rig);
    synthetic_write(rig.results, SCENARIO, 7, large, 1, rig.summaries);
    assert_int_equal(extract_open(rig.results, rig.errors_out, &extract), STATUS_OK);
    extract_variant(extract, &rig.summaries[0], rig.errors_out, &extracted);
    extract_close(extract);
    /* The summary was made from the same rows, without the file between. */
    assert_int_equal(extracted.ttft.count, rig.summaries[0].latency[CLASS_ALL][METRIC_TTFT].count);
    assert_int_equal(histogram_quantile(&extracted.ttft, 0.99), rig.summaries[0].latency[CLASS_ALL][METRIC_TTFT].p99_ns);
    assert_int_equal(histogram_quantile(&extracted.e2e, 0.5), rig.summaries[0].latency[CLASS_ALL][METRIC_E2E].p50_ns);
    assert_int_equal(extracted.replicas, 4);
    assert_int_equal(extracted.tenants_count, 50);
    assert_float_equal(extracted.sample_s, 2, 1e-9);
    assert_float_equal(extracted.objective_ttft_s, 1, 1e-9);

    uint64_t samples = 0;

    for (uint32_t i = 0; i < extracted.bins_count; i++) {
        samples += extracted.bins[i].samples;
        /* Whole intervals: every bin but the last has the same number. */
        if (i + 1 < extracted.bins_count)
            assert_int_equal(extracted.bins[i].samples, extracted.bins[0].samples);
    }
    assert_int_equal(samples, (1200 / 2 + 20) * 4);
    rig_free(&rig);
}

static void numbers_read_as_a_person_writes_them(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } numbers[] = {{0, "0"}, {0.0123, "0.0123"}, {0.8, "0.800"}, {1.234, "1.23"}, {12.34, "12.3"}, {99.96, "100"},
                   {123.4, "123"}, {999.6, "1,000"}, {1234567, "1,234,567"}, {-5.5, "-5.50"}, {NAN, "–"}};
    static const struct {
        double value_ns;
        const char *text;
    } durations[] = {{0, "0 ns"}, {450, "450 ns"}, {45.2e3, "45.2 µs"}, {999.4e6, "999 ms"}, {999.6e6, "1 s"},
                     {60e9, "60 s"}, {120e9, "2 min"}, {7200e9, "2 h"}, {NAN, "–"}};
    char text[NUMBER_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        text_number(numbers[i].value, text);
        assert_string_equal(text, numbers[i].text);
    }
    for (size_t i = 0; i < ARRAY_COUNT(durations); i++) {
        text_duration(durations[i].value_ns, text);
        assert_string_equal(text, durations[i].text);
    }
    static const struct {
        double bytes;
        const char *text;
    } sizes[] = {{0, "0 bytes"}, {1, "1 byte"}, {1000, "1,000 bytes"}, {1024, "1 KiB"}, {1536, "1.5 KiB"}, {1023.6 * 1024, "1 MiB"},
                 {8.0 * (1 << 30), "8 GiB"}, {0x1p70, "1,024 EiB"}};

    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        text_bytes(sizes[i].bytes, text);
        assert_string_equal(text, sizes[i].text);
    }
    count_text(UINT64_MAX, text);
    assert_string_equal(text, "18,446,744,073,709,551,615");
}

static void svg_is_put_in_with_its_own_ids(void **state)
{
    (void)state;
    static const char svg[] = "<?xml version=\"1.0\"?>\n<!DOCTYPE svg>\n<svg viewBox=\"0 0 3 4\" xmlns=\"http://x\">\n"
                              "<title>t</title><desc>d</desc><g id=\"a\"><use href='#b'/></g><path id='b' fill='url(#c)'/>"
                              "<g fill=\"none\">\n</g></svg>\n";
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    assert_true(svg_inline(out, svg, "f1-", "a < b"));
    fclose(out);
    assert_string_equal(text, "<svg viewBox=\"0 0 3 4\" role=\"img\" aria-label=\"a &lt; b\">\n\n"
                              "<g id=\"f1-a\"><use href='#f1-b'/></g><path id='f1-b' fill='url(#f1-c)'/></svg>\n");
    free(text);
    out = open_memstream(&text, &bytes);
    assert_false(svg_inline(out, "<svg viewBox=\"0 0 3 4\"", "f1-", "cut short"));
    assert_false(svg_inline(out, "", "f1-", "empty"));
    fclose(out);
    assert_int_equal(bytes, 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_is_whole),
        cmocka_unit_test(report_can_be_written_twice_and_leaves_no_work_behind),
        cmocka_unit_test(report_of_an_empty_run_says_why_it_has_no_figures),
        cmocka_unit_test(figures_with_data_are_drawn_beside_empty_ones),
        cmocka_unit_test(hostile_text_stays_text),
        cmocka_unit_test(unstable_variant_has_no_percentile_anywhere),
        cmocka_unit_test(more_variants_than_colours_are_in_the_tables),
        cmocka_unit_test(command_repeats_what_the_command_line_set),
        cmocka_unit_test(report_without_gnuplot_has_tables_and_says_so),
        cmocka_unit_test(failing_gnuplot_leaves_no_half_pictures),
        cmocka_unit_test(report_refuses_what_it_cannot_do),
        cmocka_unit_test(report_without_rows_has_the_figures_of_the_summary),
        cmocka_unit_test(variant_that_is_not_in_the_file_is_named),
        cmocka_unit_test(rows_beyond_one_slab_are_all_read),
        cmocka_unit_test(numbers_read_as_a_person_writes_them),
        cmocka_unit_test(svg_is_put_in_with_its_own_ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
