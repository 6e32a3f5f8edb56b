#include "results/jobs_ledger.h"

#include <stdio.h>
#include <stdlib.h>

#include "results/focus.h"
#include "results/jobs_words.h"

#define RESOURCE_TEXT_MAX (sizeof(((struct summary *)0)->variant) + 16)
#define MONDAY_NS (INT64_C(4) * 86400 * NS_PER_S)

/* Lines hold pointers, so every name has a place that stays. */
struct ledger_lines {
    struct focus_line *items;
    char (*accounts)[TENANT_TEXT_MAX]; /* [lines] */
    char (*resources)[RESOURCE_TEXT_MAX]; /* of serving, by variant */
    uint32_t count;
};

static uint64_t lines_max(const struct summary *summaries, uint32_t count)
{
    uint64_t lines = 0;

    for (uint32_t v = 0; v < count; v++) {
        lines += CHARGE_COUNT;
        if (summaries[v].jobs.cost_nano != NULL)
            lines += ((uint64_t)summaries[v].jobs.tenants_count + 1) * CHARGE_COUNT;
    }
    return lines;
}

static void line_add(struct ledger_lines *lines, const struct summary *summary, const char *resource, uint32_t account,
                     uint32_t component, int64_t amount_nano)
{
    const struct jobs_summary *jobs = &summary->jobs;

    if (amount_nano == 0)
        return;
    lines->items[lines->count] = (struct focus_line){
        .account = tenant_text(jobs->tenant_names, jobs->tenants_count, account, lines->accounts[lines->count]),
        .resource = resource,
        .component = (enum charge_component)component,
        .from_ns = MONDAY_NS,
        .until_ns = MONDAY_NS + summary->facts.end_ns,
        .amount_nano = amount_nano,
    };
    lines->count++;
}

/* What serving costs is a charge by itself, so that the rest of two variants can be compared. */
static void variant_add(struct ledger_lines *lines, const struct summary *summary, char *resource)
{
    const struct jobs_summary *jobs = &summary->jobs;
    const int64_t *serving_nano = summary->facts.serving.cost_nano;

    for (uint32_t account = 0; jobs->cost_nano != NULL && account <= jobs->tenants_count; account++)
        for (uint32_t component = 0; component < CHARGE_COUNT; component++)
            line_add(lines, summary, summary->variant, account, component,
                     jobs->cost_nano[(size_t)account * CHARGE_COUNT + component] -
                         (account == jobs->tenants_count ? serving_nano[component] : 0));
    snprintf(resource, RESOURCE_TEXT_MAX, "%s/serving", summary->variant);
    for (uint32_t component = 0; component < CHARGE_COUNT; component++)
        line_add(lines, summary, resource, jobs->tenants_count, component, serving_nano[component]);
}

enum status jobs_ledger_write(const char *path, const struct summary *summaries, uint32_t count, FILE *errors)
{
    const uint64_t room = lines_max(summaries, count) + 1;
    struct ledger_lines lines = {.count = 0};
    enum status status;

    check(room < UINT32_MAX);
    lines.items = malloc(room * sizeof(*lines.items));
    lines.accounts = malloc(room * sizeof(*lines.accounts));
    lines.resources = malloc((count + 1) * sizeof(*lines.resources));
    check(lines.items != NULL && lines.accounts != NULL && lines.resources != NULL);
    for (uint32_t v = 0; v < count; v++)
        variant_add(&lines, &summaries[v], lines.resources[v]);
    status = focus_write(path, lines.items, lines.count, errors);
    free(lines.resources);
    free(lines.accounts);
    free(lines.items);
    return status;
}
