/* The page's numbers of jobs: variants side by side, then each by itself with its bill. */
#include <math.h>
#include <stdlib.h>

#include "report/page.h"
#include "report/page_rows.h"
#include "report/text.h"
#include "results/jobs_words.h"

/* More tenants than this are told together. */
#define TENANTS_NAMED 10

/* X(name, kind, better, label, value of `j`); spans in nanoseconds. */
#define JOB_ROW_LIST(X)                                                                                                \
    X(SUBMITTED, COUNT, NEITHER, "jobs submitted", j->submitted)                                                       \
    X(DONE, COUNT, MORE, "jobs done", j->done)                                                                         \
    X(FAILED, COUNT, LESS, "failed by themselves, cancelled", j->failed + j->cancelled)                                \
    X(REFUSED, COUNT, LESS, "refused, turned away", j->refused + j->overload)                                          \
    X(UNFINISHED, COUNT, LESS, "not finished", j->unfinished)                                                          \
    X(ASKED, NUMBER, NEITHER, "GPU-hours a day, sizes of jobs done", j->gpu_hours_per_day)                             \
    X(HELD, NUMBER, LESS, "GPU-hours a day held", j->held_gpu_hours_per_day)                                           \
    X(WAIT_P50, DURATION, LESS, "wait, median", j->wait.p50_s * 1e9)                                                   \
    X(WAIT_P90, DURATION, LESS, "wait, p90", j->wait.p90_s * 1e9)                                                      \
    X(WAIT_P99, DURATION, LESS, "wait, p99", j->wait.p99_s * 1e9)                                                      \
    X(DONE_P50, DURATION, LESS, "completion, median", j->completion.p50_s * 1e9)                                       \
    X(DONE_P90, DURATION, LESS, "completion, p90", j->completion.p90_s * 1e9)                                          \
    X(DONE_P99, DURATION, LESS, "completion, p99", j->completion.p99_s * 1e9)                                          \
    X(WITHIN, PERCENT, MORE, "done within 2 h", j->within_2h)                                                          \
    X(DEADLINES, COUNT, NEITHER, "jobs with a deadline", j->deadlines)                                                 \
    X(MISSED, COUNT, LESS, "not done by their deadline", j->deadlines_missed)                                          \
    X(RHO_P50, NUMBER, LESS, "completion over size (finish-time rho), median", j->rho.p50_s)                           \
    X(RHO_P99, NUMBER, LESS, "completion over size, p99", j->rho.p99_s)                                                \
    X(UNFAIR, PERCENT, LESS, "jobs above double the tenants' mean rho", j->unfair_share)                               \
    X(JAIN, NUMBER, MORE, "fairness between tenants (Jain of mean rho, 1 is equal)", j->jain)                          \
    X(OTHERS_P90, DURATION, LESS, "wait of the others than the burst's tenant, p90", j->others_wait.p90_s * 1e9)       \
    X(BURST_P90, DURATION, NEITHER, "wait of the burst's tenant, p90", j->burst_wait.p90_s * 1e9)                      \
    X(ALLOCATED, PERCENT, NEITHER, "GPU time held", j->allocated_share)                                                \
    X(USED, PERCENT, NEITHER, "GPU time used", j->used_share)                                                          \
    X(LOST, NUMBER, LESS, "GPU-hours of work done again", j->lost_gpu_hours)                                           \
    X(CHECKPOINTS, NUMBER, LESS, "GPU-hours writing checkpoints", j->checkpoint_gpu_hours)                             \
    X(LOADING, NUMBER, LESS, "GPU-hours waiting for a base", j->load_gpu_hours)                                        \
    X(RECLAIMS, COUNT, NEITHER, "stopped: reclaimed by the quota's owner", j->reclaims)                                \
    X(PREEMPTS, COUNT, NEITHER, "stopped: for a higher priority", j->preempts)                                         \
    X(NOTICES, COUNT, NEITHER, "stopped: on notice", j->notices)                                                       \
    X(SERVING_STOPS, COUNT, NEITHER, "stopped: for serving", j->serving_stops)                                         \
    X(LOSSES, COUNT, LESS, "lost with their GPUs", j->losses)                                                          \
    X(LOADS, COUNT, LESS, "bases loaded", j->base_loads)                                                               \
    X(HITS, COUNT, MORE, "placements that found their base", j->base_hits)                                             \
    X(EVALUATIONS, COUNT, NEITHER, "evaluations of trained adapters, done", j->evaluations.done)                       \
    X(PUBLISHED, COUNT, NEITHER, "adapters that passed the gate", j->published)                                        \
    X(BLOCKED, COUNT, NEITHER, "that did not", j->publish_blocked)                                                     \
    X(JOINED, COUNT, NEITHER, "that joined the serving catalogue", j->joined)                                          \
    X(REPUBLISHED, COUNT, NEITHER, "that replaced an earlier version", j->republished)                                 \
    X(UPGRADED, COUNT, NEITHER, "that moved to a new base", j->upgraded)                                               \
    X(NO_ROOM, COUNT, LESS, "that found no room in the catalogue", j->publish_refused)                                 \
    X(UPGRADE_ADAPTERS, COUNT, NEITHER, "upgrade: adapters that were on the old base", j->upgrade_adapters)            \
    X(UPGRADE_JOBS, COUNT, NEITHER, "upgrade: retrainings", j->upgrade_jobs)                                           \
    X(COST, NUMBER, LESS, "cost, currency units", (double)j->cost_total_nano / 1e9)                                    \
    X(COST_SERVING, NUMBER, LESS, "of that, serving", (double)j->cost_serving_nano / 1e9)                              \
    X(COST_REST, NUMBER, LESS, "of that, the rest", (double)jobs_without_serving_nano(j) / 1e9)                        \
    X(PRICE, NUMBER, LESS, "cost of a million trained tokens", j->cost_per_million_tokens)                             \
    X(IDLE_ADAPTER, NUMBER, NEITHER, "cost of an adapter nobody uses, a month", j->idle_adapter_per_month)

enum job_row_number {
#define X(name, kind, better, label, value) JOB_ROW_##name,
    JOB_ROW_LIST(X)
#undef X
    JOB_ROW_COUNT
};

static const struct page_row rows[JOB_ROW_COUNT] = {
#define X(name, kind, better, label, value) {kind, better, false, label},
    JOB_ROW_LIST(X)
#undef X
};

static double row_value(uint32_t row, const struct summary *summary)
{
    const struct jobs_summary *j = &summary->jobs;

    if (!j->present)
        return NAN;
    switch ((enum job_row_number)row) {
#define X(name, kind, better, label, value) \
    case JOB_ROW_##name:                    \
        return (double)(value);
        JOB_ROW_LIST(X)
#undef X
    case JOB_ROW_COUNT:
        break;
    }
    return NAN;
}

static bool any(const struct summary *summaries, uint32_t count)
{
    bool found = false;

    for (uint32_t v = 0; v < count; v++)
        found |= summaries[v].jobs.present;
    return found;
}

/* A burst's rows are for scenarios that describe one; those of serving, publishing, an upgrade and deadlines for those that
 * have any. */
static bool row_is_of(enum job_row_number row, const struct jobs_summary *jobs)
{
    if (row == JOB_ROW_OTHERS_P90 || row == JOB_ROW_BURST_P90)
        return jobs->burst_described;
    if (row == JOB_ROW_COST_SERVING || row == JOB_ROW_COST_REST)
        return jobs->cost_serving_nano != 0;
    if (row == JOB_ROW_DEADLINES || row == JOB_ROW_MISSED)
        return jobs->deadlines > 0;
    if (row == JOB_ROW_UPGRADE_ADAPTERS || row == JOB_ROW_UPGRADE_JOBS)
        return jobs->upgrade_adapters > 0;
    if (row >= JOB_ROW_EVALUATIONS && row <= JOB_ROW_NO_ROOM)
        return jobs->evaluations.submitted + jobs->published + jobs->publish_blocked > 0;
    return true;
}

static bool row_applies(enum job_row_number row, const struct summary *summaries, uint32_t count)
{
    bool found = false;

    for (uint32_t v = 0; v < count; v++)
        found |= summaries[v].jobs.present && row_is_of(row, &summaries[v].jobs);
    return found;
}

void page_jobs_comparison(FILE *out, const struct summary *summaries, uint32_t count)
{
    if (!any(summaries, count))
        return;
    page_variants_head(out, summaries, count, 0);
    for (uint32_t row = 0; row < JOB_ROW_COUNT; row++)
        if (row_applies((enum job_row_number)row, summaries, count))
            page_rows_row(out, rows, row, row_value, summaries, count);
    page_rows_end(out);
    if (count > 1)
        fputs("<p class=\"note\">★ marks the best of a row. Waits and completions are of jobs that were submitted after the "
              "warm-up; costs, stops and loads of the whole run.</p>\n", out);
}

static const struct summary *best(const struct summary *summaries, uint32_t count, uint32_t row)
{
    const struct summary *found = NULL;

    for (uint32_t v = 0; v < count; v++) {
        const double value = row_value(row, &summaries[v]);

        if (isfinite(value) && summaries[v].jobs.done > 0 &&
            (found == NULL || (rows[row].better == MORE ? value > row_value(row, found) : value < row_value(row, found))))
            found = &summaries[v];
    }
    return found;
}

/* Named only when another does worse. */
static void named(FILE *out, const char *what, const struct summary *summary, uint32_t row, const struct summary *summaries,
                  uint32_t count)
{
    bool differ = false;

    for (uint32_t v = 0; v < count; v++)
        differ |= row_value(row, &summaries[v]) != row_value(row, summary);
    fputs("<li>", out);
    if (!differ)
        return;
    fprintf(out, "%s: <strong>", what);
    text_html(out, summary->variant);
    fputs("</strong>. ", out);
}

void page_jobs_in_short(FILE *out, const struct summary *summaries, uint32_t count)
{
    const struct summary *soonest = best(summaries, count, JOB_ROW_WITHIN);
    const struct summary *cheapest = best(summaries, count, JOB_ROW_COST);
    char text[NUMBER_TEXT_MAX];

    if (soonest != NULL) {
        named(out, "Most jobs done within two hours", soonest, JOB_ROW_WITHIN, summaries, count);
        text_duration(soonest->jobs.wait.p90_s * 1e9, text);
        fprintf(out, "%.1f %% of the jobs done were done within two hours of being submitted; nine of ten waited at most %s.</li>\n",
                soonest->jobs.within_2h * 100, text);
    }
    if (cheapest != NULL) {
        named(out, "Least cost", cheapest, JOB_ROW_COST, summaries, count);
        text_number((double)cheapest->jobs.cost_total_nano / 1e9, text);
        fprintf(out, "%s currency units, with GPUs held %.0f %% and used %.0f %% of the time.</li>\n", text,
                cheapest->jobs.allocated_share * 100, cheapest->jobs.used_share * 100);
    }
}

static void span_cells(FILE *out, const struct span *span, double unit_ns)
{
    const double values_s[] = {span->p50_s, span->p90_s, span->p99_s, span->max_s};

    for (size_t i = 0; i < ARRAY_COUNT(values_s); i++) {
        char text[NUMBER_TEXT_MAX];

        text_number(span->count > 0 ? values_s[i] * 1e9 / unit_ns : NAN, text);
        fprintf(out, "<td%s>%s</td>", i == 0 ? " class=\"edge\"" : "", text);
    }
}

static void class_row(FILE *out, const struct job_kind_summary *class, double wait_unit_ns, double completion_unit_ns)
{
    char submitted[NUMBER_TEXT_MAX], done[NUMBER_TEXT_MAX], hours[NUMBER_TEXT_MAX];

    if (class->submitted == 0)
        return;
    count_text(class->submitted, submitted);
    count_text(class->done, done);
    text_number(class->gpu_hours, hours);
    fputs("<tr><th scope=\"row\">", out);
    text_html(out, class->name);
    fprintf(out, "</th><td>%s</td><td>%s</td><td>%s</td>", submitted, done, hours);
    span_cells(out, &class->wait, wait_unit_ns);
    span_cells(out, &class->completion, completion_unit_ns);
    fputs("</tr>\n", out);
}

static void classes_table(FILE *out, const struct jobs_summary *jobs)
{
    double wait_unit_ns, completion_unit_ns;
    const char *wait_unit = page_duration_unit(jobs->wait.count > 0 ? jobs->wait.p90_s * 1e9 : 0, &wait_unit_ns);
    const char *completion_unit = page_duration_unit(jobs->completion.count > 0 ? jobs->completion.p90_s * 1e9 : 0,
                                                     &completion_unit_ns);

    fprintf(out, "<h4>Jobs by kind and by size</h4>\n<div class=\"scroll\"><table>\n<thead><tr><td rowspan=\"2\"></td>"
                 "<th rowspan=\"2\">jobs</th><th rowspan=\"2\">done</th><th rowspan=\"2\">GPU-h held</th>"
                 "<th colspan=\"4\" class=\"edge group\">wait <small>%s</small></th>"
                 "<th colspan=\"4\" class=\"edge group\">completion <small>%s</small></th></tr>\n<tr>", wait_unit, completion_unit);
    for (uint32_t i = 0; i < 2; i++)
        fputs("<th class=\"edge\">p50</th><th>p90</th><th>p99</th><th>max</th>", out);
    fputs("</tr></thead>\n<tbody>\n", out);
    for (uint32_t i = 0; i < jobs->kinds_count; i++)
        class_row(out, &jobs->kinds[i], wait_unit_ns, completion_unit_ns);
    class_row(out, &jobs->evaluations, wait_unit_ns, completion_unit_ns);
    for (uint32_t i = 0; i < JOBS_SUMMARY_SIZES; i++)
        class_row(out, &jobs->sizes[i], wait_unit_ns, completion_unit_ns);
    fputs("</tbody></table></div>\n", out);
}

static void money_row(FILE *out, const char *name, int64_t nano, int64_t total_nano, bool total)
{
    char text[NUMBER_TEXT_MAX];

    text_number((double)nano / 1e9, text);
    fprintf(out, "<tr%s><th scope=\"row\">", total ? " class=\"total\"" : "");
    text_html(out, name);
    fprintf(out, "</th><td>%s%s</td><td>%.1f %%</td></tr>\n", nano < 0 && text[0] != '-' ? "-" : "", text,
            total_nano > 0 ? 100.0 * (double)nano / (double)total_nano : 0);
}

struct account {
    int64_t nano;
    uint32_t tenant;
};

static int most_first(const void *a, const void *b)
{
    const struct account *one = a;
    const struct account *other = b;
    const int order = (one->nano < other->nano) - (one->nano > other->nano);

    return order != 0 ? order : (one->tenant > other->tenant) - (one->tenant < other->tenant);
}

static void accounts_rows(FILE *out, const struct jobs_summary *jobs)
{
    struct account *accounts = calloc((size_t)jobs->tenants_count + 1, sizeof(*accounts));
    int64_t others_nano = 0;
    char name[TENANT_TEXT_MAX];

    check(accounts != NULL);
    for (uint32_t i = 0; i < jobs->tenants_count; i++)
        accounts[i] = (struct account){jobs_account_nano(jobs, i), i};
    qsort(accounts, jobs->tenants_count, sizeof(*accounts), most_first);
    for (uint32_t i = 0; i < jobs->tenants_count; i++)
        if (i >= TENANTS_NAMED)
            others_nano += accounts[i].nano;
        else if (accounts[i].nano != 0)
            money_row(out, tenant_text(jobs->tenant_names, jobs->tenants_count, accounts[i].tenant, name), accounts[i].nano,
                      jobs->cost_total_nano, false);
    if (others_nano != 0)
        money_row(out, "other tenants", others_nano, jobs->cost_total_nano, false);
    if (jobs->cost_serving_nano != 0)
        money_row(out, "platform, serving", jobs->cost_serving_nano, jobs->cost_total_nano, false);
    money_row(out, jobs->cost_serving_nano != 0 ? "platform, the rest" : "platform",
              jobs_account_nano(jobs, jobs->tenants_count) - jobs->cost_serving_nano, jobs->cost_total_nano, false);
    free(accounts);
}

static void money_table_begin(FILE *out, const char *title)
{
    fprintf(out, "<h4>%s</h4>\n<div class=\"scroll\"><table>\n<thead><tr><td></td><th>currency units</th><th>part</th></tr></thead>\n"
                 "<tbody>\n", title);
}

static void money_table_end(FILE *out, const struct jobs_summary *jobs)
{
    money_row(out, "together", jobs->cost_total_nano, jobs->cost_total_nano, true);
    fputs("</tbody></table></div>\n", out);
}

static void money_tables(FILE *out, const struct jobs_summary *jobs)
{
    if (jobs->cost_nano == NULL)
        return;
    money_table_begin(out, "What was paid for");
    for (uint32_t component = 0; component < CHARGE_COUNT; component++) {
        const int64_t nano = jobs_component_nano(jobs, component);

        if (nano != 0)
            money_row(out, charge_text(component), nano, jobs->cost_total_nano, false);
    }
    money_table_end(out, jobs);
    money_table_begin(out, "Who paid");
    accounts_rows(out, jobs);
    money_table_end(out, jobs);
}

static void refusals_list(FILE *out, const struct jobs_summary *jobs)
{
    if (jobs->refused == 0)
        return;
    fputs("<h4>Refused jobs</h4>\n<dl>\n", out);
    for (uint32_t i = 0; i < JOB_REFUSE_COUNT; i++) {
        char sentence[JOB_REFUSE_SENTENCE_MAX], text[NUMBER_TEXT_MAX];

        if (jobs->refused_by_reason[i] == 0)
            continue;
        count_text(jobs->refused_by_reason[i], text);
        job_refuse_sentence(i, jobs->refused_worst[i].need, jobs->refused_worst[i].have, sentence);
        fprintf(out, "<dt>%s</dt><dd>%s: ", job_refuse_word(i), text);
        text_html(out, sentence);
        fputs(jobs->refused_by_reason[i] > 1 ? "; none needs more</dd>\n" : "</dd>\n", out);
    }
    fputs("</dl>\n", out);
}

void page_jobs_variant(FILE *out, const struct jobs_summary *jobs)
{
    classes_table(out, jobs);
    refusals_list(out, jobs);
    money_tables(out, jobs);
}
