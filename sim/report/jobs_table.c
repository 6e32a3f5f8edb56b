#include "report/jobs_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "report/cells.h"
#include "report/lines.h"
#include "results/jobs_words.h"
#include "host/words.h"

/* So many tenants that pay most are named. */
#define TENANTS_NAMED 5
#define CLASS_COLUMNS 20

static void span_cells(FILE *out, const struct span *span)
{
    const double known = span->count > 0 ? 1 : NAN;

    line_cell(out, 8, cell_span(known * span->p50_s));
    line_cell(out, 8, cell_span(known * span->p90_s));
    line_cell(out, 8, cell_span(known * span->p99_s));
}

static bool any_jobs(const struct summary *summaries, uint32_t count)
{
    bool any = false;

    for (uint32_t i = 0; i < count; i++)
        any |= summaries[i].jobs.present;
    return any;
}

static void waits_table(FILE *out, const struct summary *summaries, uint32_t count)
{
    fprintf(out, "%-16s%7s%24s%24s%7s%7s%6s%6s\n", "", "jobs", "wait", "completion", "within", "GPU-h", "GPUs", "GPUs");
    fprintf(out, "%-16s%7s%8s%8s%8s%8s%8s%8s%7s%7s%6s%6s\n", "variant", "done", "p50", "p90", "p99", "p50", "p90", "p99", "2h",
            "/day", "held", "used");
    for (uint32_t i = 0; i < count; i++) {
        const struct jobs_summary *jobs = &summaries[i].jobs;

        if (!jobs->present)
            continue;
        line_variant(out, summaries[i].variant);
        fprintf(out, "%7" PRIu64, jobs->done);
        span_cells(out, &jobs->wait);
        span_cells(out, &jobs->completion);
        line_cell(out, 7, cell_percent(jobs->within_2h));
        line_cell(out, 7, cell_quantity(jobs->gpu_hours_per_day));
        line_cell(out, 6, cell_percent(jobs->allocated_share));
        line_cell(out, 6, cell_percent(jobs->used_share));
        fprintf(out, "\n");
    }
}

static void costs_table(FILE *out, const struct summary *summaries, uint32_t count)
{
    fprintf(out, "\n%-16s%7s%38s%14s%14s%11s\n", "", "GPU-h", "stopped by", "base", "cost", "per 1M");
    fprintf(out, "%-16s%7s%8s%8s%7s%8s%7s%7s%7s%14s%11s\n", "variant", "redone", "reclaim", "preempt", "notice", "serving", "loss",
            "loads", "hits", "total", "tokens");
    for (uint32_t i = 0; i < count; i++) {
        const struct jobs_summary *jobs = &summaries[i].jobs;

        if (!jobs->present)
            continue;
        line_variant(out, summaries[i].variant);
        line_cell(out, 7, cell_quantity(jobs->lost_gpu_hours));
        fprintf(out, "%8" PRIu64 "%8" PRIu64 "%7" PRIu64 "%8" PRIu64 "%7" PRIu64 "%7" PRIu64 "%7" PRIu64, jobs->reclaims,
                jobs->preempts, jobs->notices, jobs->serving_stops, jobs->losses, jobs->base_loads, jobs->base_hits);
        line_cell(out, 14, cell_money(jobs->cost_total_nano));
        line_cell(out, 11, cell_price(jobs->cost_per_million_tokens));
        fprintf(out, "\n");
    }
}

/* One customer's flood, and whether the others feel it. */
static void burst_table(FILE *out, const struct summary *summaries, uint32_t count)
{
    bool head = false;

    for (uint32_t i = 0; i < count; i++) {
        const struct jobs_summary *jobs = &summaries[i].jobs;

        if (!jobs->present || !jobs->burst_described)
            continue;
        if (!head)
            fprintf(out, "\n%-16s%8s%26s%26s\n%-16s%8s%10s%8s%8s%10s%8s%8s\n", "", "burst", "wait of the others",
                    "of the burst's tenant", "variant", "jobs", "p50", "p90", "p99", "p50", "p90", "p99");
        head = true;
        line_variant(out, summaries[i].variant);
        fprintf(out, "%8" PRIu64 "  ", jobs->burst_jobs);
        span_cells(out, &jobs->others_wait);
        fprintf(out, "  ");
        span_cells(out, &jobs->burst_wait);
        fprintf(out, "\n");
    }
}

void jobs_table(FILE *out, const struct summary *summaries, uint32_t count)
{
    bool requests = false;

    if (!any_jobs(summaries, count))
        return;
    for (uint32_t i = 0; i < count; i++)
        requests |= !summaries[i].without_requests;
    if (requests)
        fprintf(out, "\n");
    waits_table(out, summaries, count);
    costs_table(out, summaries, count);
    burst_table(out, summaries, count);
}

static void note(FILE *out, const char *label, const char *text)
{
    line_note(out, label, text, strlen(text));
}

static void counts_print(FILE *out, const struct jobs_summary *jobs)
{
    char line[512];

    snprintf(line, sizeof(line),
             "%" PRIu64 " submitted in %s days: %" PRIu64 " done, %" PRIu64 " failed, %" PRIu64 " cancelled, %" PRIu64
             " refused, %" PRIu64 " overload, %" PRIu64 " unfinished; %s GPU-h/day asked by those done, %s held by all",
             jobs->submitted, cell_quantity(jobs->days).text, jobs->done, jobs->failed, jobs->cancelled, jobs->refused,
             jobs->overload, jobs->unfinished, cell_quantity(jobs->gpu_hours_per_day).text,
             cell_quantity(jobs->held_gpu_hours_per_day).text);
    note(out, "jobs", line);
    if (jobs->unfinished > 0) {
        snprintf(line, sizeof(line), "%" PRIu64 " jobs were unfinished when the run ended: they are missing from the "
                                     "completions, which are too low", jobs->unfinished);
        note(out, "", line);
    }
    if (jobs->deadlines > 0) {
        snprintf(line, sizeof(line), "%" PRIu64 " had a deadline, %" PRIu64 " of them were not done by then (%s)", jobs->deadlines,
                 jobs->deadlines_missed, cell_percent((double)jobs->deadlines_missed / (double)jobs->deadlines).text);
        note(out, "", line);
    }
}

static void refusals_print(FILE *out, const struct jobs_summary *jobs)
{
    const char *label = "refused";

    for (uint32_t i = 0; i < JOB_REFUSE_COUNT; i++) {
        char sentence[JOB_REFUSE_SENTENCE_MAX];
        char line[JOB_REFUSE_SENTENCE_MAX + 96];

        if (jobs->refused_by_reason[i] == 0)
            continue;
        job_refuse_sentence(i, jobs->refused_worst[i].need, jobs->refused_worst[i].have, sentence);
        snprintf(line, sizeof(line), "%" PRIu64 " %s: %s%s", jobs->refused_by_reason[i], job_refuse_word(i), sentence,
                 jobs->refused_by_reason[i] > 1 ? "; none needs more" : "");
        note(out, label, line);
        label = "";
    }
}

/* Names are somebody's text: cut to the column, and no control character reaches the terminal. */
static void name_print(FILE *out, const char *name)
{
    char text[EXCERPT_MAX];
    int columns = 0;

    excerpt(name, strlen(name), text);
    for (const char *c = text; *c != '\0'; c++) {
        columns += begins_character(*c);
        if (columns == CLASS_COLUMNS)
            break;
        fputc(*c, out);
    }
    fprintf(out, "%*s", CLASS_COLUMNS - (columns < CLASS_COLUMNS ? columns : CLASS_COLUMNS - 1), "");
}

static void class_print(FILE *out, const struct job_kind_summary *class)
{
    if (class->submitted == 0)
        return;
    fprintf(out, "  ");
    name_print(out, class->name);
    fprintf(out, "%8" PRIu64 "%8" PRIu64 "  ", class->submitted, class->done);
    span_cells(out, &class->wait);
    span_cells(out, &class->completion);
    line_cell(out, 7, cell_quantity(class->gpu_hours));
    fprintf(out, "\n");
}

static void classes_print(FILE *out, const char *title, const struct job_kind_summary *classes, uint32_t count)
{
    fprintf(out, "\n  %-*s%8s%26s%24s%9s\n", CLASS_COLUMNS, "", "", "wait", "completion", "GPU-h");
    fprintf(out, "  %-*s%8s%8s%10s%8s%8s%8s%8s%8s%7s\n", CLASS_COLUMNS, title, "jobs", "done", "p50", "p90", "p99", "p50", "p90",
            "p99", "held");
    for (uint32_t i = 0; i < count; i++)
        class_print(out, &classes[i]);
}

static void money_row(FILE *out, const char *name, int64_t nano, int64_t total_nano)
{
    fprintf(out, "  ");
    name_print(out, name);
    line_cell(out, 16, cell_money(nano));
    line_cell(out, 9, cell_percent(total_nano > 0 ? (double)nano / (double)total_nano : NAN));
    fprintf(out, "\n");
}

static void components_print(FILE *out, const struct jobs_summary *jobs)
{
    fprintf(out, "\n  %-*s%16s%9s\n", CLASS_COLUMNS, "cost of", "amount", "part");
    for (uint32_t component = 0; component < CHARGE_COUNT; component++) {
        const int64_t nano = jobs_component_nano(jobs, component);

        /* A discount is one account's gain and another's loss: together nothing. */
        if (nano != 0)
            money_row(out, charge_text(component), nano, jobs->cost_total_nano);
    }
    money_row(out, "all", jobs->cost_total_nano, jobs->cost_total_nano);
}

/* The next account below `below_nano` (or of the same amount and behind `after`), most first; false: there is none. */
static bool account_next(const struct jobs_summary *jobs, int64_t below_nano, uint32_t after, uint32_t *ret_account)
{
    int64_t best_nano = 0;
    bool found = false;

    for (uint32_t i = 0; i < jobs->tenants_count; i++) {
        const int64_t nano = jobs_account_nano(jobs, i);

        if (nano > best_nano && (nano < below_nano || (nano == below_nano && i > after))) {
            best_nano = nano;
            *ret_account = i;
            found = true;
        }
    }
    return found;
}

static void accounts_print(FILE *out, const struct jobs_summary *jobs)
{
    char name[TENANT_TEXT_MAX];
    int64_t nano = INT64_MAX;
    int64_t named_nano = 0;
    uint32_t account = UINT32_MAX;
    int64_t tenants_nano = 0;

    fprintf(out, "\n  %-*s%16s%9s\n", CLASS_COLUMNS, "paid by", "amount", "part");
    for (uint32_t i = 0; i < jobs->tenants_count; i++)
        tenants_nano += jobs_account_nano(jobs, i);
    for (uint32_t i = 0; i < TENANTS_NAMED && account_next(jobs, nano, account, &account); i++) {
        nano = jobs_account_nano(jobs, account);
        named_nano += nano;
        money_row(out, tenant_text(jobs->tenant_names, jobs->tenants_count, account, name), nano, jobs->cost_total_nano);
    }
    if (tenants_nano != named_nano)
        money_row(out, "other tenants", tenants_nano - named_nano, jobs->cost_total_nano);
    if (jobs->cost_serving_nano != 0)
        money_row(out, "platform, serving", jobs->cost_serving_nano, jobs->cost_total_nano);
    money_row(out, jobs->cost_serving_nano != 0 ? "platform, the rest" : "platform",
              jobs_account_nano(jobs, jobs->tenants_count) - jobs->cost_serving_nano, jobs->cost_total_nano);
}

static void pool_print(FILE *out, const struct jobs_summary *jobs)
{
    char line[512];

    snprintf(line, sizeof(line), "GPUs held %s, used %s of the time; of held GPU time %s h were spent on work done again, %s h on "
                                 "checkpoints, %s h waiting for a base",
             cell_percent(jobs->allocated_share).text, cell_percent(jobs->used_share).text,
             cell_quantity(jobs->lost_gpu_hours).text, cell_quantity(jobs->checkpoint_gpu_hours).text,
             cell_quantity(jobs->load_gpu_hours).text);
    note(out, "pool", line);
    snprintf(line, sizeof(line), "%" PRIu64 " reclaimed by their owner, %" PRIu64 " preempted by priority, %" PRIu64
                                 " on notice, %" PRIu64 " for serving, %" PRIu64 " with their GPUs", jobs->reclaims,
             jobs->preempts, jobs->notices, jobs->serving_stops, jobs->losses);
    note(out, "stops", line);
    snprintf(line, sizeof(line), "%" PRIu64 " loads, %" PRIu64 " placements found theirs, %" PRIu64 " dropped", jobs->base_loads,
             jobs->base_hits, jobs->base_drops);
    note(out, "bases", line);
}

/* What became of the adapters, where they are evaluated. */
static void adapters_print(FILE *out, const struct jobs_summary *jobs)
{
    char line[512];

    if (jobs->published + jobs->publish_blocked > 0) {
        snprintf(line, sizeof(line), "%" PRIu64 " adapters passed the gate, %" PRIu64 " did not; %" PRIu64 " joined the serving "
                                     "catalogue, %" PRIu64 " replaced an earlier version, %" PRIu64 " moved to a new base, %" PRIu64
                                     " found no room", jobs->published, jobs->publish_blocked, jobs->joined, jobs->republished,
                 jobs->upgraded, jobs->publish_refused);
        note(out, "published", line);
    }
    if (jobs->upgrade_adapters > 0) {
        snprintf(line, sizeof(line), "%" PRIu64 " adapters were on the old base, %" PRIu64 " were given a retraining for the new one",
                 jobs->upgrade_adapters, jobs->upgrade_jobs);
        note(out, "upgrade", line);
    }
}

static void fairness_print(FILE *out, const struct jobs_summary *jobs)
{
    char line[512];

    if (jobs->rho.count == 0) {
        note(out, "fairness", "n/a: no job of known size was done");
        return;
    }
    snprintf(line, sizeof(line), "finish-time rho (completion over size) %s p50, %s p90, %s p99, %s at worst; %s of the jobs above "
                                 "double the tenants' mean; Jain %s over tenants' mean rho",
             cell_quantity(jobs->rho.p50_s).text, cell_quantity(jobs->rho.p90_s).text, cell_quantity(jobs->rho.p99_s).text,
             cell_quantity(jobs->rho.max_s).text, cell_percent(jobs->unfair_share).text, cell_ratio(jobs->jain).text);
    note(out, "fairness", line);
    snprintf(line, sizeof(line), "mean wait by tenant: %s p50, %s p90, %s p99, %s at worst, of %" PRIu64 " tenants",
             cell_span(jobs->tenant_wait.p50_s).text, cell_span(jobs->tenant_wait.p90_s).text,
             cell_span(jobs->tenant_wait.p99_s).text, cell_span(jobs->tenant_wait.max_s).text, jobs->tenant_wait.count);
    note(out, "", line);
}

static void prices_print(FILE *out, const struct jobs_summary *jobs)
{
    char line[256];

    snprintf(line, sizeof(line), "%s per 1M trained tokens (%s tokens of jobs done, all costs%s); an adapter nobody uses: %s a month",
             cell_price(jobs->cost_per_million_tokens).text, cell_quantity((double)jobs->tokens_trained).text,
             jobs->cost_serving_nano != 0 ? " but serving's" : "",
             cell_price(jobs->idle_adapter_per_month).text);
    note(out, "prices", line);
}

void jobs_details(FILE *out, const struct jobs_summary *jobs, bool after)
{
    if (after)
        fprintf(out, "\n");
    counts_print(out, jobs);
    refusals_print(out, jobs);
    classes_print(out, "kind", jobs->kinds, jobs->kinds_count);
    class_print(out, &jobs->evaluations);
    classes_print(out, "size", jobs->sizes, JOBS_SUMMARY_SIZES);
    if (jobs->cost_nano != NULL) {
        components_print(out, jobs);
        accounts_print(out, jobs);
    }
    fprintf(out, "\n");
    prices_print(out, jobs);
    pool_print(out, jobs);
    adapters_print(out, jobs);
    fairness_print(out, jobs);
}
