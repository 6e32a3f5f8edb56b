#include "report/page.h"

#include <math.h>
#include <stdlib.h>

#include "report/files.h"
#include "report/svg.h"
#include "report/text.h"

/* More variants than this, and their details are folded. */
#define VARIANTS_OPEN 1
/* How the scenario's text tells what the command line changed. */
#define SETTING_PREFIX "# --set "

void page_name(FILE *out, const char *name, uint32_t variant)
{
    if (variant < FIGURE_VARIANTS_MAX)
        fprintf(out, "<span class=\"swatch\" style=\"background:%.7s\"></span>", &VARIANT_COLOURS[variant * 8]);
    text_html(out, name);
}

static void unstable_banner(FILE *out, const struct summary *summary)
{
    char rho[NUMBER_TEXT_MAX], slope[NUMBER_TEXT_MAX];

    fputs("<div class=\"banner\" role=\"note\"><strong>Unstable: ", out);
    text_html(out, summary->variant);
    fputs(".</strong> Requests arrive faster than this fleet serves them", out);
    text_number(summary->rho, rho);
    text_number(summary->backlog_slope_per_s, slope);
    if (isfinite(summary->rho) && summary->rho > 1)
        fprintf(out, ": the work offered is %s times the work done", rho);
    if (summary->backlog_slope_per_s > 0)
        fprintf(out, "; %s more requests are in the system every second", slope);
    fputs(". How long they wait depends on how long the run lasts, so this variant has no percentiles.</div>\n", out);
}

static void requests_in_short(FILE *out, const struct summary *summaries, uint32_t count)
{
    const struct summary *first = NULL;
    const struct summary *good = NULL;
    char text[NUMBER_TEXT_MAX];

    for (uint32_t v = 0; v < count; v++) {
        const struct summary *summary = &summaries[v];

        if (summary->saturated || summary->completed == 0 || summary->without_requests)
            continue;
        if (first == NULL || summary->latency[CLASS_ALL][METRIC_TTFT].p99_ns < first->latency[CLASS_ALL][METRIC_TTFT].p99_ns)
            first = summary;
        if (good == NULL || summary->goodput_per_s > good->goodput_per_s)
            good = summary;
    }
    if (first == NULL)
        return;
    fputs("<li>", out);
    if (count > 1) {
        fputs("Shortest wait for the first token: <strong>", out);
        text_html(out, first->variant);
        fputs("</strong>. ", out);
    }
    text_duration((double)first->latency[CLASS_ALL][METRIC_TTFT].p50_ns, text);
    fprintf(out, "Half of the requests have it within %s, ", text);
    text_duration((double)first->latency[CLASS_ALL][METRIC_TTFT].p99_ns, text);
    fprintf(out, "99 of 100 within %s.</li>\n<li>", text);
    if (count > 1) {
        fputs("Most requests within the objective: <strong>", out);
        text_html(out, good->variant);
        fputs("</strong>, ", out);
    } else {
        fputs("Within the objective: ", out);
    }
    text_number(good->goodput_per_s, text);
    fprintf(out, "%s a second, %.1f %% of those that arrived.</li>\n", text,
            good->arrived > 0 ? 100.0 * (double)good->good / (double)good->arrived : 0);
}

static bool any_requests(const struct summary *summaries, uint32_t count)
{
    bool any = false;

    for (uint32_t v = 0; v < count; v++)
        any |= !summaries[v].without_requests;
    return any;
}

static bool any_jobs(const struct summary *summaries, uint32_t count)
{
    bool any = false;

    for (uint32_t v = 0; v < count; v++)
        any |= summaries[v].jobs.present;
    return any;
}

/* One sentence a question, for the reader who stops here. */
static void in_short(FILE *out, const struct summary *summaries, uint32_t count)
{
    bool some = false;

    for (uint32_t v = 0; v < count; v++)
        some |= (!summaries[v].without_requests && !summaries[v].saturated && summaries[v].completed > 0) ||
                (summaries[v].jobs.present && summaries[v].jobs.done > 0);
    if (!some)
        return;
    fputs("<ul class=\"short\">\n", out);
    page_jobs_in_short(out, summaries, count);
    requests_in_short(out, summaries, count);
    fputs("</ul>\n", out);
}

/* What the variants have in common. */
static const char *common_text(const struct summary *summaries, uint32_t count)
{
    const bool requests = any_requests(summaries, count);
    const bool jobs = any_jobs(summaries, count);

    return requests && jobs ? "s on the same requests and jobs" : jobs ? "s on the same jobs" : "s on the same requests";
}

void page_begin(FILE *out, const char *title)
{
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
          /* Nothing may be fetched or run, whatever got into the page. */
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';style-src 'unsafe-inline'\">\n<title>", out);
    text_html(out, title);
    fputs(" – Berth report</title>\n<style>\n", out);
    fputs(page_style, out);
    fputs("</style>\n</head>\n<body>\n<main>\n<h1>", out);
    text_html(out, title);
    fputs("</h1>\n", out);
}

void page_end(FILE *out)
{
    fputs("</main>\n</body>\n</html>\n", out);
}

static void head(FILE *out, const struct page *page)
{
    const struct summary *first = &page->summaries[0];
    char measured[NUMBER_TEXT_MAX];
    bool partial = false;

    page_begin(out, first->name);
    text_duration(first->measured_s * 1e9, measured);
    fprintf(out, "<p class=\"lead\">What-if run of %s: %u variant%s, %s measured, seed %llu, berth ",
            !any_jobs(page->summaries, page->count)       ? "multi-LoRA serving"
            : any_requests(page->summaries, page->count) ? "multi-LoRA serving and fine-tuning"
                                                         : "LoRA fine-tuning",
            page->count, page->count > 1 ? common_text(page->summaries, page->count) : "", measured,
            (unsigned long long)first->seed);
    text_html(out, page->version[0] != '\0' ? page->version : "of unknown version");
    fputs(".</p>\n", out);
    for (uint32_t v = 0; v < page->count; v++)
        partial |= page->summaries[v].facts.partial;
    if (partial)
        fputs("<div class=\"banner\" role=\"note\"><strong>Stopped early.</strong> The run was interrupted: the numbers are of "
              "what had happened until then.</div>\n", out);
    for (uint32_t v = 0; v < page->count; v++)
        if (page->summaries[v].saturated)
            unstable_banner(out, &page->summaries[v]);
    in_short(out, page->summaries, page->count);
}

void page_figure(FILE *out, const struct page_figure *figure)
{
    char *svg = figure->made ? file_read("%s/%s.svg", figure->work, figure->name) : NULL;
    char prefix[16];

    snprintf(prefix, sizeof(prefix), "f%u-", figure->number);
    fputs("<figure><div class=\"scroll\">", out);
    if (svg == NULL || !svg_inline(out, svg, prefix, figure->question)) {
        fputs("<p><strong>", out);
        text_html(out, figure->question);
        fputs("</strong></p><p class=\"note\">Not drawn: ", out);
        text_html(out, figure->why_not[0] != '\0' ? figure->why_not : "gnuplot could not be run");
        fputs(".</p>", out);
        fputs("</div></figure>\n", out);
    } else {
        fputs("</div><figcaption>", out);
        text_html(out, figure->reading);
        fputs("</figcaption></figure>\n", out);
    }
    free(svg);
}

static void figures(FILE *out, const struct page *page)
{
    const struct figures *figures = page->figures;

    fputs("<h2>Figures</h2>\n", out);
    if (page->count > figures->variants)
        fprintf(out, "<p class=\"note\">The figures show the first %u of %u variants; the tables have all.</p>\n",
                figures->variants, page->count);
    for (uint32_t i = 0; i < FIGURE_COUNT; i++) {
        const struct figure_state *state = &figures->items[i];
        const struct page_figure figure = {.work = page->work, .name = figure_file((enum figure)i), .number = i + 1,
                                           .question = figure_question((enum figure)i), .reading = figure_reading((enum figure)i),
                                           .made = state->made, .why_not = state->why_not};

        if (state->applies)
            page_figure(out, &figure);
    }
}

static void variants(FILE *out, const struct page *page)
{
    fputs("<h2>Each variant by itself</h2>\n", out);
    for (uint32_t v = 0; v < page->count; v++) {
        fprintf(out, "<details class=\"variant\"%s><summary>", page->count <= VARIANTS_OPEN ? " open" : "");
        page_name(out, page->summaries[v].variant, v);
        fputs(page->summaries[v].saturated ? " (unstable)</summary>\n" : "</summary>\n", out);
        page_variant(out, &page->summaries[v], v);
        fputs("</details>\n", out);
    }
}

/* As a word of a POSIX shell, whatever it holds. */
static void shell_word(FILE *out, const char *word)
{
    char piece[2] = {0};

    fputs("&#39;", out);
    for (const char *c = word; *c != '\0'; c++) {
        piece[0] = *c;
        if (*c == '\'')
            fputs("&#39;\\&#39;&#39;", out);
        else if ((unsigned char)*c >= 0x80)
            fputc(*c, out);
        else
            text_html(out, piece);
    }
    fputs("&#39;", out);
}

static const char *path_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* Where the lines "# --set key=value" begin that the scenario's reader put at the end; the end of the text without any. */
static const char *settings_begin(const char *text)
{
    const char *begin = text + strlen(text);

    while (begin > text) {
        const char *line = begin - 1;

        while (line > text && line[-1] != '\n')
            line--;
        if (strncmp(line, SETTING_PREFIX, strlen(SETTING_PREFIX)) != 0)
            break;
        begin = line;
    }
    return begin;
}

static void command(FILE *out, const struct page *page)
{
    bool seed_set = false;
    char setting[1024];

    fputs("<pre>berth-sim run scenario.yaml", out);
    for (const char *line = settings_begin(page->scenario_text); *line != '\0';) {
        size_t length = strcspn(line, "\n");
        size_t prefix = strlen(SETTING_PREFIX);

        snprintf(setting, sizeof(setting), "%.*s", (int)(length - prefix), line + prefix);
        seed_set |= strncmp(setting, "seed=", strlen("seed=")) == 0;
        fputs(" --set ", out);
        shell_word(out, setting);
        line += length + (line[length] == '\n');
    }
    if (!seed_set)
        fprintf(out, " --set seed=%llu", (unsigned long long)page->summaries[0].seed);
    fputs(" --out ", out);
    /* The name, not the path: the page is mailed, and folders are nobody's business. */
    shell_word(out, page->results_path != NULL ? path_name(page->results_path) : "results.h5");
    fputs(" --report report/</pre>\n", out);
}

static void again(FILE *out, const struct page *page)
{
    const struct summary *first = &page->summaries[0];

    fputs("<h2>How this was made</h2>\n<p>The scenario below is the whole input. It is also in <code>data/scenario.yaml</code> "
          "beside this page; paths in it are relative to the folder it came from. The same scenario and seed give the same "
          "digest and the same numbers:</p>\n", out);
    command(out, page);
    fputs("<dl>\n<dt>seed</dt><dd>", out);
    fprintf(out, "%llu</dd>\n<dt>berth</dt><dd>", (unsigned long long)first->seed);
    text_html(out, page->version[0] != '\0' ? page->version : "unknown version");
    fputs("</dd>\n", out);
    for (uint32_t v = 0; v < page->count; v++) {
        fprintf(out, "<dt>digest</dt><dd><code>%016llx</code> ", (unsigned long long)page->summaries[v].facts.digest);
        text_html(out, page->summaries[v].variant);
        fputs("</dd>\n", out);
    }
    fputs("</dl>\n<details><summary>The scenario</summary>\n<pre>", out);
    text_html(out, page->scenario_text);
    fputs("</pre></details>\n", out);
}

/* What a reader must know before quoting a number. Variants mostly share them: each line is printed once. */
static void notes(FILE *out, const struct page *page)
{
    const bool requests = any_requests(page->summaries, page->count);
    const bool jobs = any_jobs(page->summaries, page->count);
    const char *what = !jobs ? "Requests" : requests ? "Requests and jobs" : "Jobs";
    char warmup[NUMBER_TEXT_MAX];

    fputs("<h2>Read this before quoting a number</h2>\n<ul>\n", out);
    text_duration((double)page->summaries[0].facts.warmup_until_ns, warmup);
    if (page->summaries[0].facts.warmup_until_ns > 0)
        fprintf(out, "<li>%s that came in the first %s (warm-up) are in no number and no figure of theirs.</li>\n", what, warmup);
    else
        fprintf(out, "<li>There was no warm-up: the run begins with empty GPUs, and its first %s are counted.</li>\n",
                !jobs ? "requests" : requests ? "requests and jobs" : "jobs");
    if (jobs)
        fputs("<li>Costs, stops, loads and shares of GPU time are of the whole run, warm-up and drain included.</li>\n", out);
    fputs("<li>Percentiles are of log-linear histograms: at most 0.8 % off.</li>\n", out);
    for (uint32_t v = 0; v < page->count; v++)
        for (const char *line = page->summaries[v].notes; *line != '\0';) {
            size_t length = strcspn(line, "\n");
            char text[sizeof(page->summaries[v].notes)];
            bool known = length == 0;

            snprintf(text, sizeof(text), "%.*s", (int)length, line);
            for (uint32_t earlier = 0; earlier < v; earlier++)
                known |= strstr(page->summaries[earlier].notes, text) != NULL;
            if (!known) {
                fputs("<li>", out);
                text_html(out, text);
                fputs("</li>\n", out);
            }
            line += length + (line[length] == '\n');
        }
    fputs("</ul>\n", out);
}

void page_write(FILE *out, const struct page *page)
{
    head(out, page);
    fputs(page->count > 1 ? "<h2>Side by side</h2>\n" : "<h2>In numbers</h2>\n", out);
    page_jobs_comparison(out, page->summaries, page->count);
    if (any_requests(page->summaries, page->count)) {
        page_comparison(out, page->summaries, page->count);
        fputs("<h3>What a fine-tuned request costs over a base one</h3>\n", out);
        page_goals(out, page->summaries, page->count, 0);
    }
    notes(out, page);
    figures(out, page);
    variants(out, page);
    again(out, page);
    page_end(out);
}
