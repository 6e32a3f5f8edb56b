#include "report/cost_table.h"

#include <math.h>

#include "report/cells.h"
#include "report/lines.h"
#include "results/jobs_words.h"

#define NAME_COLUMNS 20

static bool serves(const struct summary *summary)
{
    return !summary->without_requests && summary->facts.serving.known;
}

static void money_or_nothing(FILE *out, int width, bool known, int64_t nano)
{
    line_cell(out, width, known ? cell_money(nano) : cell_price(NAN));
}

void cost_table(FILE *out, const struct summary *summaries, uint32_t count)
{
    bool any = false;

    for (uint32_t i = 0; i < count; i++)
        any |= serves(&summaries[i]);
    if (!any)
        return;
    fprintf(out, "\n%-16s%42s%28s\n", "", "cost", "per 1M tokens");
    fprintf(out, "%-16s%14s%14s%14s%14s%14s\n", "variant", "serving", "the rest", "together", "served", "trained");
    for (uint32_t i = 0; i < count; i++) {
        const struct summary *summary = &summaries[i];
        const struct jobs_summary *jobs = &summary->jobs;
        const bool serving = serves(summary);
        const int64_t serving_nano = summary->facts.serving.total_nano;

        line_variant(out, summary->variant);
        money_or_nothing(out, 14, serving, serving_nano);
        money_or_nothing(out, 14, jobs->present, jobs_without_serving_nano(jobs));
        money_or_nothing(out, 14, serving, jobs->present ? jobs->cost_total_nano : serving_nano);
        line_cell(out, 14, cell_price(serving ? summary->serving_cost_per_million_tokens : NAN));
        line_cell(out, 14, cell_price(jobs->present ? jobs->cost_per_million_tokens : NAN));
        fprintf(out, "\n");
    }
}

void cost_details(FILE *out, const struct summary *summary)
{
    const struct serving_bill *bill = &summary->facts.serving;
    const bool own_bill = !summary->jobs.present;
    char line[256];

    if (summary->without_requests)
        return;
    if (!bill->known && !own_bill)
        snprintf(line, sizeof(line), "the GPUs of serving have no price (pool.price_per_h): they are in none of these costs");
    else if (bill->known && bill->total_nano > 0)
        snprintf(line, sizeof(line), "%s, the platform's: %s per 1M tokens served, prompts included (%s in the whole run)",
                 cell_money(bill->total_nano).text, cell_price(summary->serving_cost_per_million_tokens).text,
                 cell_quantity((double)summary->tokens_served).text);
    else
        return;
    line_note(out, "serving", line, strlen(line));
    if (!own_bill)
        return;
    fprintf(out, "\n  %-*s%16s%9s\n", NAME_COLUMNS, "cost of", "amount", "part");
    for (uint32_t component = 0; component < CHARGE_COUNT; component++) {
        const int64_t nano = bill->cost_nano[component];

        if (nano == 0)
            continue;
        fprintf(out, "  %-*s", NAME_COLUMNS, charge_text(component));
        line_cell(out, 16, cell_money(nano));
        line_cell(out, 9, cell_percent((double)nano / (double)bill->total_nano));
        fprintf(out, "\n");
    }
    fprintf(out, "\n");
}
