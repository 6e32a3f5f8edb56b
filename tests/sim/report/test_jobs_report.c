/* The page and the figures of jobs, from a results file that was written as a run writes it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report/extract.h"
#include "report/figures.h"
#include "report/files.h"
#include "report/report.h"
#include "sim/report/jobs_synthetic.h"
#include "support.h"

#define SCENARIO "name: tuning\n"

static const struct synthetic_jobs two[] = {
    {.name = "residency-first", .jobs_per_day = 220, .nodes = 3, .days = 2, .residency = true, .burst = true},
    {.name = "naive", .jobs_per_day = 220, .nodes = 3, .days = 2, .burst = true}};

struct rig {
    char folder[256];
    char results[300];
    char report[300];
    char *errors;
    size_t errors_bytes;
    FILE *errors_out;
    struct summary summaries[10];
    uint32_t count;
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

static struct rig *rig_make(const struct synthetic_jobs *variants, uint32_t count)
{
    const char *temporary = getenv("TMPDIR");
    struct rig *rig = calloc(1, sizeof(*rig));

    assert_non_null(rig);
    snprintf(rig->folder, sizeof(rig->folder), "%s/berth-jobs-XXXXXX", temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(rig->folder));
    snprintf(rig->results, sizeof(rig->results), "%s/run.h5", rig->folder);
    snprintf(rig->report, sizeof(rig->report), "%s/report", rig->folder);
    rig->errors_out = open_memstream(&rig->errors, &rig->errors_bytes);
    assert_non_null(rig->errors_out);
    rig->count = count;
    synthetic_jobs_write(rig->results, variants, count, rig->summaries);
    return rig;
}

static void rig_free(struct rig *rig)
{
    pid_t child = fork();

    if (child == 0) {
        execlp("rm", "rm", "-rf", "--", rig->folder, (char *)NULL);
        _exit(127);
    }
    waitpid(child, NULL, 0);
    for (uint32_t i = 0; i < rig->count; i++)
        summary_free(&rig->summaries[i]);
    fclose(rig->errors_out);
    free(rig->errors);
    free(rig);
}

/* The page; to be freed. Nothing may have been said. */
static char *report(struct rig *rig)
{
    char *page;

    assert_int_equal(report_write(rig->report, rig->results, rig->summaries, rig->count, SCENARIO, rig->errors_out), STATUS_OK);
    fflush(rig->errors_out);
    assert_string_equal(rig->errors, "");
    page = file_read("%s/index.html", rig->report);
    assert_non_null(page);
    return page;
}

static bool contains(const char *text, const char *part) { return strstr(text, part) != NULL; }

static bool drawn(const struct rig *rig, enum figure figure)
{
    return file_bytes("%s/%s.png", rig->report, figure_file(figure)) > 8000 &&
           file_bytes("%s/%s.svg", rig->report, figure_file(figure)) > 5000;
}

static void all_figures_of_jobs_are_drawn_and_none_of_requests(const struct rig *rig, const char *page)
{
    for (uint32_t i = 0; i < FIGURE_COUNT; i++) {
        if (drawn(rig, (enum figure)i) != figure_of_jobs((enum figure)i))
            fail_msg("%s is%s drawn", figure_file((enum figure)i), figure_of_jobs((enum figure)i) ? " not" : "");
        assert_int_equal(contains(page, figure_question((enum figure)i)), figure_of_jobs((enum figure)i));
    }
    assert_int_equal(file_bytes("%s/data/gnuplot.log", rig->report), 0); /* not even a warning */
    assert_false(contains(page, "Not drawn"));
}

static void page_tells_jobs_in_figures_and_in_the_numbers_of_the_summary(void **state)
{
    (void)state;
    struct rig *rig = rig_make(two, 2);
    char *page = report(rig);
    char cell[64];

    assert_false(contains(page, "first token"));
    assert_false(contains(page, "multi-LoRA serving"));
    assert_true(contains(page, "2 variants on the same jobs"));
    assert_true(contains(page, "jobs done"));
    snprintf(cell, sizeof(cell), "%.1f %%", rig->summaries[0].jobs.within_2h * 100);
    assert_true(contains(page, cell));
    assert_true(contains(page, "wait of the others than the burst&#39;s tenant, p90"));
    assert_true(contains(page, "<dt>gang</dt><dd>1: needs 16 GPUs of one node, the largest node has 8</dd>"));
    assert_true(contains(page, "unused reservation"));
    assert_true(contains(page, ">platform</th>"));
    assert_true(contains(page, "other tenants"));
    assert_true(contains(page, "Jobs that came in the first 2 h (warm-up)"));
    assert_false(contains(page, ">nan") || contains(page, ">-nan") || contains(page, "inf<"));
    if (gnuplot_is_here())
        all_figures_of_jobs_are_drawn_and_none_of_requests(rig, page);
    free(page);
    rig_free(rig);
    if (!gnuplot_is_here()) {
        print_message("skipped: the figures, as gnuplot is not installed\n");
        skip();
    }
}

static void run_of_requests_and_jobs_has_both(void **state)
{
    (void)state;
    static const struct synthetic_jobs both[] = {
        {.name = "both", .jobs_per_day = 300, .nodes = 10, .days = 1, .residency = true, .requests = true}};
    struct rig *rig = rig_make(both, 1);
    char *page = report(rig);

    assert_true(contains(page, "What-if run of multi-LoRA serving and fine-tuning"));
    assert_true(contains(page, "time to first token, p99"));
    assert_true(contains(page, "completion, p99"));
    if (gnuplot_is_here()) {
        assert_true(drawn(rig, FIGURE_TTFT_CDF));
        assert_true(drawn(rig, FIGURE_GANTT));
        assert_int_equal(file_bytes("%s/data/gnuplot.log", rig->report), 0);
    }
    free(page);
    rig_free(rig);
}

/* Stops, publications, deadlines and what serving costs have rows where there are any, and none elsewhere. */
static void what_happened_has_its_rows_and_what_did_not_has_none(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "evaluations of trained adapters, done", "adapters that passed the gate", "that did not", "that joined the serving catalogue",
        "that replaced an earlier version", "that moved to a new base", "that found no room in the catalogue",
        "upgrade: adapters that were on the old base", "upgrade: retrainings", "jobs with a deadline", "not done by their deadline",
        "of that, serving", "of that, the rest"};
    static const char *const always[] = {"stopped: on notice", "stopped: for serving", "lost with their GPUs"};
    static const struct synthetic_jobs plain[] = {{.name = "plain", .jobs_per_day = 20, .nodes = 1, .days = 1}};
    struct rig *rig = rig_make(plain, 1);
    struct jobs_summary *jobs = &rig->summaries[0].jobs;
    char *page = report(rig);

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        if (contains(page, rows[i]))
            fail_msg("%s has a row", rows[i]);
    for (size_t i = 0; i < ARRAY_COUNT(always); i++)
        assert_true(contains(page, always[i]));
    free(page);
    jobs->serving_stops = 77001;
    jobs->published = 77002;
    jobs->publish_blocked = 77003;
    jobs->deadlines = 77004;
    jobs->deadlines_missed = 77005;
    jobs->upgrade_adapters = 77006;
    jobs->cost_serving_nano = 1;
    page = report(rig);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
        if (!contains(page, rows[i]))
            fail_msg("%s has no row", rows[i]);
    for (uint32_t i = 77001; i <= 77006; i++) {
        char cell[64];

        snprintf(cell, sizeof(cell), ">77,00%u<", i - 77000);
        if (!contains(page, cell))
            fail_msg("no cell %s", cell);
    }
    free(page);
    rig_free(rig);
}

static void run_without_a_job_says_why_it_has_no_figures(void **state)
{
    (void)state;
    static const struct synthetic_jobs empty[] = {{.name = "empty", .nodes = 1, .days = 1}};
    struct rig *rig = rig_make(empty, 1);
    char *page = report(rig);

    assert_true(contains(page, "Not drawn: no job that was submitted after the warm-up computed"));
    assert_true(contains(page, "Not drawn: the results file has no placements of jobs"));
    assert_true(contains(page, "Not drawn: the results file has no samples of the pool"));
    assert_true(contains(page, "Not drawn: no job of known size was done"));
    assert_false(contains(page, ">nan") || contains(page, ">-nan"));
    free(page);
    rig_free(rig);
}

static void empty_variant_beside_a_full_one_is_no_hindrance(void **state)
{
    (void)state;
    static const struct synthetic_jobs mixed[] = {{.name = "empty", .nodes = 1, .days = 1},
                                                  {.name = "full", .jobs_per_day = 100, .nodes = 2, .days = 1}};
    struct rig *rig;
    char *page;

    if (!gnuplot_is_here()) {
        print_message("skipped: gnuplot is not installed\n");
        skip();
    }
    rig = rig_make(mixed, 2);
    page = report(rig);
    for (uint32_t i = FIGURE_GANTT; i < FIGURE_COUNT; i++)
        if (!drawn(rig, (enum figure)i))
            fail_msg("%s is not drawn", figure_file((enum figure)i));
    assert_int_equal(file_bytes("%s/data/gnuplot.log", rig->report), 0);
    free(page);
    rig_free(rig);
}

static void hostile_names_stay_text(void **state)
{
    (void)state;
    static const struct synthetic_jobs hostile[] = {
        {.name = "a/b `touch owned`", .jobs_per_day = 100, .nodes = 2, .days = 1, .tenant_name = "<script>alert(1)</script>"},
        {.name = "it's $(touch owned)", .jobs_per_day = 100, .nodes = 2, .days = 1, .tenant_name = "' . system('touch owned') . '"}};
    struct rig *rig = rig_make(hostile, 2);
    char *page;

    snprintf(rig->summaries[0].jobs.kinds[0].name, 64, "<img src=x>'\n`touch owned`");
    snprintf(rig->summaries[0].jobs.kinds[1].name, 64, "' . system('touch owned') . '");
    snprintf(rig->summaries[0].jobs.base_names[0], 64, "%s", "it's \\n @base ^{x} \"q\" %s\x01");
    page = report(rig);
    assert_false(contains(page, "<script"));
    assert_false(contains(page, "<img"));
    assert_true(contains(page, "&lt;img src=x&gt;"));
    assert_int_equal(access("owned", F_OK), -1);
    assert_int_equal(file_bytes("%s/owned", rig->report), 0);
    if (gnuplot_is_here()) {
        for (uint32_t i = FIGURE_GANTT; i < FIGURE_COUNT; i++)
            if (!drawn(rig, (enum figure)i))
                fail_msg("%s is not drawn", figure_file((enum figure)i));
        assert_int_equal(file_bytes("%s/data/gnuplot.log", rig->report), 0);
    }
    free(page);
    rig_free(rig);
}

static void near(double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance))
        fail_msg("got %.9g, expected %.9g within %.3g", got, expected, tolerance);
}

static struct extracted *extract_one(struct rig *rig, uint32_t variant)
{
    struct extracted *extracted = calloc(1, sizeof(*extracted));
    struct extract *extract;

    assert_non_null(extracted);
    assert_int_equal(extract_open(rig->results, rig->errors_out, &extract), STATUS_OK);
    extract_variant(extract, &rig->summaries[variant], rig->errors_out, extracted);
    extract_close(extract);
    return extracted;
}

static void figures_show_what_the_summary_says(void **state)
{
    (void)state;
    struct rig *rig = rig_make(two, 2);
    struct extracted *extracted = extract_one(rig, 0);
    const struct extracted_jobs *jobs = &extracted->jobs;
    const struct jobs_summary *summary = &rig->summaries[0].jobs;
    double gpu_s = 0, claimed_gpu_s = 0;

    assert_int_equal(jobs->wait_all.count, summary->wait.count);
    assert_int_equal(jobs->completion.count, summary->done);
    near((double)histogram_quantile(&jobs->wait_all, 0.9) / 1e9, summary->wait.p90_s, 1e-6);
    near((double)histogram_quantile(&jobs->completion, 0.99) / 1e9, summary->completion.p99_s, 1e-6);
    for (uint32_t k = 0; k < summary->kinds_count; k++)
        assert_int_equal(jobs->wait[k].count, summary->kinds[k].wait.count);
    /* The pool's samples add up to the GPU time of the claims, but for what is behind the last whole sample. */
    for (uint32_t i = 0; i < jobs->bins_count; i++) {
        gpu_s += jobs->bins[i].gpu_s;
        claimed_gpu_s += jobs->bins[i].claimed_gpu_s;
    }
    near(claimed_gpu_s / gpu_s, summary->allocated_share, 0.01);
    near(gpu_s, 24 * (double)rig->summaries[0].facts.end_ns / 1e9, 24 * 900);
    free(extracted);
    rig_free(rig);
}

static void bars_of_a_gpu_lie_in_the_window_and_claims_on_their_base(void **state)
{
    (void)state;
    static const struct synthetic_jobs large[] = {{.name = "large", .jobs_per_day = 3000, .nodes = 20, .days = 2}};
    struct rig *rig = rig_make(large, 1);
    struct extracted *extracted = extract_one(rig, 0);
    const struct extracted_jobs *jobs = &extracted->jobs;
    uint32_t claims = 0;

    assert_true(jobs->gpus_seen > GANTT_GPUS_MAX);
    assert_int_equal(jobs->rows_count, GANTT_GPUS_MAX);
    near(jobs->window_from_s, SYNTHETIC_WARMUP_H * 3600, 1e-9);
    assert_true(jobs->window_until_s > jobs->window_from_s);
    assert_int_equal(jobs->bars_left_out, 0);
    for (uint32_t i = 0; i < jobs->bars_count; i++) {
        const struct gantt_bar *bar = &jobs->bars[i];
        bool on_its_base = false;

        assert_true(bar->row < jobs->rows_count);
        assert_true(bar->from_s < jobs->window_until_s && bar->until_s > jobs->window_from_s && bar->from_s < bar->until_s);
        if (bar->kind != GANTT_CLAIM)
            continue;
        claims++;
        for (uint32_t other = 0; other < jobs->bars_count; other++)
            on_its_base |= jobs->bars[other].kind == GANTT_RESIDENT && jobs->bars[other].row == bar->row &&
                           jobs->bars[other].base == bar->base && jobs->bars[other].from_s < bar->until_s &&
                           jobs->bars[other].until_s > bar->from_s;
        if (!on_its_base)
            fail_msg("bar %u: a claim of base %u on row %u without its base", i, bar->base, bar->row);
    }
    assert_true(claims > 300);
    free(extracted);
    rig_free(rig);
}

static void more_variants_than_colours_are_in_the_tables(void **state)
{
    (void)state;
    static struct synthetic_jobs many[10];
    static char names[10][16];
    struct rig *rig;
    char *page;

    for (uint32_t v = 0; v < 10; v++) {
        snprintf(names[v], sizeof(names[v]), "pool-%u", v + 1);
        many[v] = (struct synthetic_jobs){.name = names[v], .jobs_per_day = 60, .nodes = 1 + v % 3, .days = 0.5};
    }
    rig = rig_make(many, 10);
    page = report(rig);
    assert_true(contains(page, "The figures show the first 8 of 10 variants"));
    assert_true(contains(page, "pool-10"));
    if (gnuplot_is_here())
        assert_int_equal(file_bytes("%s/data/gnuplot.log", rig->report), 0);
    free(page);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_tells_jobs_in_figures_and_in_the_numbers_of_the_summary),
        cmocka_unit_test(run_of_requests_and_jobs_has_both),
        cmocka_unit_test(what_happened_has_its_rows_and_what_did_not_has_none),
        cmocka_unit_test(run_without_a_job_says_why_it_has_no_figures),
        cmocka_unit_test(empty_variant_beside_a_full_one_is_no_hindrance),
        cmocka_unit_test(hostile_names_stay_text),
        cmocka_unit_test(figures_show_what_the_summary_says),
        cmocka_unit_test(bars_of_a_gpu_lie_in_the_window_and_claims_on_their_base),
        cmocka_unit_test(more_variants_than_colours_are_in_the_tables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
