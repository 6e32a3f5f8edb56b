#include "results/jobs_ledger.h"

#include <stdlib.h>

#include "results/focus.h"
#include "results/jobs_words.h"

#define MONDAY_NS (INT64_C(4) * 86400 * NS_PER_S)

/* Lines hold pointers, so every name has a place that stays. */
struct ledger_lines {
    struct focus_line *items;
    char (*accounts)[TENANT_TEXT_MAX]; /* [lines] */
    uint32_t count;
};

static uint64_t lines_max(const struct summary *summaries, uint32_t count)
{
    uint64_t lines = 0;

    for (uint32_t v = 0; v < count; v++)
        if (summaries[v].jobs.cost_nano != NULL)
            lines += ((uint64_t)summaries[v].jobs.tenants_count + 1) * CHARGE_COUNT;
    return lines;
}

static void variant_add(struct ledger_lines *lines, const struct summary *summary)
{
    const struct jobs_summary *jobs = &summary->jobs;

    for (uint32_t account = 0; account <= jobs->tenants_count; account++)
        for (uint32_t component = 0; component < CHARGE_COUNT; component++) {
            const int64_t amount_nano = jobs->cost_nano[(size_t)account * CHARGE_COUNT + component];

            if (amount_nano == 0)
                continue;
            lines->items[lines->count] = (struct focus_line){
                .account = tenant_text(jobs->tenant_names, jobs->tenants_count, account, lines->accounts[lines->count]),
                .resource = summary->variant,
                .component = (enum charge_component)component,
                .from_ns = MONDAY_NS,
                .until_ns = MONDAY_NS + summary->facts.end_ns,
                .amount_nano = amount_nano,
            };
            lines->count++;
        }
}

enum status jobs_ledger_write(const char *path, const struct summary *summaries, uint32_t count, FILE *errors)
{
    const uint64_t room = lines_max(summaries, count) + 1;
    struct ledger_lines lines = {.count = 0};
    enum status status;

    check(room < UINT32_MAX);
    lines.items = malloc(room * sizeof(*lines.items));
    lines.accounts = malloc(room * sizeof(*lines.accounts));
    check(lines.items != NULL && lines.accounts != NULL);
    for (uint32_t v = 0; v < count; v++)
        if (summaries[v].jobs.cost_nano != NULL)
            variant_add(&lines, &summaries[v]);
    status = focus_write(path, lines.items, lines.count, errors);
    free(lines.accounts);
    free(lines.items);
    return status;
}
