/* The report of a file, or of two, as one object; and which method a file is for, where nobody has said it. */
#include <string.h>

#include "validate/validate.h"

static json_t *dry_run_json(const struct validate_report *report, const struct validate_dry_run *plan)
{
    json_t *all = json_pack("{s:I, s:I, s:I, s:I, s:I, s:i}", "epochs", (json_int_t)plan->epochs, "batch_size", (json_int_t)plan->batch, "steps",
                            (json_int_t)plan->steps, "tokens", (json_int_t)plan->tokens, "trained_tokens", (json_int_t)plan->trained_tokens, "context",
                            (int)report->context);

    if (report->price > 0)
        json_object_update_new(all, json_pack("{s:f, s:f}", "price_per_million_tokens", report->price, "price",
                                              report->price * (double)plan->tokens / 1e6));
    if (report->tokens_per_s > 0)
        json_object_update_new(all, json_pack("{s:f, s:f}", "tokens_per_s", report->tokens_per_s, "seconds",
                                              (double)plan->tokens / report->tokens_per_s));
    json_object_set_new(all, "assumes", json_string("every token of a sample as it is cut counts, once an epoch; validation, checkpoints and "
                                                    "waiting are not counted"));
    return all;
}

bool validate_report_accepts(const struct validate_report *report)
{
    return validator_accepts(report->training) && (report->validation == NULL || validator_accepts(report->validation));
}

json_t *validate_report_json(const struct validate_report *report)
{
    json_t *issues = json_array();
    json_t *all = json_pack("{s:b, s:s, s:o}", "accept", (int)validate_report_accepts(report), "method", report->preferences ? "dpo" : "supervised",
                            "issues", issues);
    struct validate_dry_run plan;

    validate_issues_json(report->training, "training", issues);
    json_object_set_new(all, "counts", validate_counts_json(report->training));
    json_object_set_new(all, "statistics", validate_statistics_json(report->training));
    if (report->validation != NULL) {
        validate_issues_json(report->validation, "validation", issues);
        json_object_set_new(all, "validation_counts", validate_counts_json(report->validation));
        json_object_set_new(all, "validation_statistics", validate_statistics_json(report->validation));
    }
    if (report->context > 0 && validate_plan(report->training, report->epochs, report->batch, &plan))
        json_object_set_new(all, "dry_run", dry_run_json(report, &plan));
    return all;
}

bool validate_looks_preferred(const char *bytes, size_t count)
{
    static const char *const keys[] = {"preferred_output", "non_preferred_output", "chosen", "rejected"};
    bool found = false;
    size_t at = 0;
    const char *end;
    json_t *line;

    while (at < count && strchr(" \t\r\n", bytes[at]) != NULL && bytes[at] != '\0')
        at++;
    end = memchr(bytes + at, '\n', count - at);
    line = json_loadb(bytes + at, end != NULL ? (size_t)(end - bytes) - at : count - at, 0, NULL);
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++)
        found |= json_object_get(line, keys[i]) != NULL;
    json_decref(line);
    return found;
}
