/* A report as JSON and for a person. */
#include "host/words.h"
#include "validate/internal.h"

static const char *severity_of(enum validate_code code)
{
    return validate_code_rejects(code) ? "error" : "warning";
}

static void set_text(json_t *object, const char *key, const char *text)
{
    check(json_object_set_new(object, key, json_string(text)) == 0);
}

static void set_number(json_t *object, const char *key, int64_t value)
{
    check(json_object_set_new(object, key, json_integer(value)) == 0);
}

static void set_place(json_t *object, const char *key, int64_t value)
{
    check(json_object_set_new(object, key, value > 0 ? json_integer(value) : json_null()) == 0);
}

void validate_issues_json(const struct validator *validator, const char *file, json_t *list)
{
    for (size_t i = 0; i < validator->issues_count; i++) {
        const struct validate_issue *issue = &validator->issues[i];
        json_t *each = json_object();

        set_text(each, "file", file);
        set_place(each, "line", issue->line);
        set_place(each, "column", issue->column);
        set_text(each, "severity", severity_of(issue->code));
        set_text(each, "code", validate_code_name(issue->code));
        set_text(each, "message", issue->message);
        set_text(each, "hint", issue->hint);
        if (issue->path[0] != '\0')
            set_text(each, "path", issue->path);
        check(json_array_append_new(list, each) == 0);
    }
}

json_t *validate_counts_json(const struct validator *validator)
{
    json_t *counts = json_object();

    for (enum validate_code code = 0; code < VALIDATE_CODE_COUNT; code++) {
        const int64_t count = validator->counts[code];

        if (count > 0)
            check(json_object_set_new(counts, validate_code_name(code),
                                      json_pack("{s:s, s:I, s:I}", "severity", severity_of(code), "count", (json_int_t)count, "shown",
                                                (json_int_t)min_i64(count, VALIDATE_ISSUES_MAX))) == 0);
    }
    return counts;
}

static json_t *tokens_json(const struct validate_statistics *statistics)
{
    const struct histogram *each = &statistics->example_tokens;
    json_t *tokens = json_object();

    set_number(tokens, "min", each->count > 0 ? (int64_t)each->min : 0);
    set_number(tokens, "p50", histogram_quantile(each, 0.5));
    set_number(tokens, "p95", histogram_quantile(each, 0.95));
    set_number(tokens, "max", (int64_t)each->max);
    set_number(tokens, "total", statistics->tokens);
    set_number(tokens, "trained", statistics->trained_tokens);
    check(json_object_set_new(tokens, "masked_share",
                              json_real(statistics->tokens > 0 ? 1 - (double)statistics->trained_tokens / (double)statistics->tokens : 0)) == 0);
    set_number(tokens, "samples", statistics->samples);
    set_number(tokens, "examples_cut", statistics->examples_cut);
    set_number(tokens, "cut", statistics->tokens_cut);
    return tokens;
}

json_t *validate_statistics_json(const struct validator *validator)
{
    const struct validate_statistics *statistics = &validator->statistics;
    json_t *all = json_object();

    set_number(all, "bytes", statistics->bytes);
    set_number(all, "lines", statistics->lines);
    set_number(all, "blank_lines", statistics->blank_lines);
    set_number(all, "examples", statistics->examples);
    set_number(all, "examples_without_errors", statistics->good);
    set_number(all, "messages", statistics->messages);
    set_number(all, "assistant_messages", statistics->assistant_messages);
    set_number(all, "duplicates", statistics->duplicates);
    set_number(all, "duplicates_exact", statistics->duplicates_exact);
    set_number(all, "conflicting_answers", statistics->conflicts);
    set_number(all, "validation_leaks", statistics->leaks);
    set_number(all, "validation_prompt_leaks", statistics->prompt_leaks);
    if (statistics->not_compared > 0)
        set_number(all, "not_compared", statistics->not_compared);
    if (validator->config.source != NULL)
        check(json_object_set_new(all, "tokens", tokens_json(statistics)) == 0);
    return all;
}

/* --- for a person ----------------------------------------------------------------------------------------------------------- */

static void print_issue(const struct validate_issue *issue, const char *file, FILE *out)
{
    fprintf(out, "%s:", file);
    if (issue->line > 0)
        fprintf(out, "%d:", issue->line);
    if (issue->column > 0)
        fprintf(out, "%d:", issue->column);
    fprintf(out, " %s: %s [%s", severity_of(issue->code), issue->message, validate_code_name(issue->code));
    fprintf(out, issue->path[0] != '\0' ? ", %s]\n" : "]\n", issue->path);
}

/* The first of a code brings its hint, so that a hundred equal faults do not say it a hundred times. */
static bool is_first(const struct validator *validator, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (validator->issues[i].hint == validator->issues[index].hint)
            return false;
    return true;
}

static void print_numbers(const struct validator *validator, const char *file, FILE *out)
{
    const struct validate_statistics *statistics = &validator->statistics;
    const struct histogram *each = &statistics->example_tokens;
    char text[3][NUMBER_TEXT_MAX];

    fprintf(out, "%s: %s examples, %s without errors, %s duplicates", file, count_text((uint64_t)statistics->examples, text[0]),
            count_text((uint64_t)statistics->good, text[1]), count_text((uint64_t)statistics->duplicates, text[2]));
    if (statistics->leaks + statistics->prompt_leaks > 0)
        fprintf(out, ", %s also in the validation file", count_text((uint64_t)(statistics->leaks + statistics->prompt_leaks), text[0]));
    fputc('\n', out);
    if (statistics->not_compared > 0)
        fprintf(out, "%s: %s examples were not looked for twice: there are too many\n", file, count_text((uint64_t)statistics->not_compared, text[0]));
    if (validator->config.source == NULL || each->count == 0)
        return;
    fprintf(out, "%s: tokens an example: %llu to %llu, half of them at most %lld, 95%% at most %lld\n", file, (unsigned long long)each->min,
            (unsigned long long)each->max, (long long)histogram_quantile(each, 0.5), (long long)histogram_quantile(each, 0.95));
    fprintf(out, "%s: %s tokens in all, %s of them learned; %s are cut off by the context\n", file, count_text((uint64_t)statistics->tokens, text[0]),
            count_text((uint64_t)statistics->trained_tokens, text[1]), count_text((uint64_t)statistics->tokens_cut, text[2]));
}

void validate_print(const struct validator *validator, const char *file, FILE *out)
{
    for (size_t i = 0; i < validator->issues_count; i++) {
        print_issue(&validator->issues[i], file, out);
        if (is_first(validator, i))
            fprintf(out, "    %s\n", validator->issues[i].hint);
    }
    for (enum validate_code code = 0; code < VALIDATE_CODE_COUNT; code++)
        if (validator->counts[code] > VALIDATE_ISSUES_MAX)
            fprintf(out, "%s: and %lld more of %s\n", file, (long long)(validator->counts[code] - VALIDATE_ISSUES_MAX), validate_code_name(code));
    print_numbers(validator, file, out);
}
