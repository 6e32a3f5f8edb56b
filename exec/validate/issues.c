/* Issues: up to VALIDATE_ISSUES_MAX of a code, and how many there were. */
#include <stdarg.h>
#include <stdlib.h>

#include "engine/tokenizer/utf8.h"
#include "host/words.h"
#include "validate/internal.h"

enum severity { WARNING, ERROR };
static const struct {
    const char *name;
    enum severity severity;
    const char *hint;
} codes[] = {
#define X(name, code, severity, hint) {code, severity, hint},
    VALIDATE_CODES(X)
#undef X
};

const char *validate_code_name(enum validate_code code)
{
    return codes[code].name;
}

bool validate_code_rejects(enum validate_code code)
{
    return codes[code].severity == ERROR;
}

/* A line of a file may hold anything; what is shown of it is text. What was cut ends between characters, in dots. */
static void tame(char *text, bool cut)
{
    size_t length = strlen(text);

    if (cut) {
        size_t end = length - 3;

        while (end > 0 && !begins_character(text[end]))
            end--;
        strcpy(text + end, "...");
        length = end + 3;
    }
    for (size_t at = 0; at < length;) {
        const struct utf8 here = utf8_at(text + at, length - at);

        if (!here.good || here.code < ' ' || here.code == 0x7f)
            memset(text + at, '?', here.bytes);
        at += here.bytes;
    }
}

static void write_message(struct validate_issue *issue, const char *format, va_list list)
{
    const int wanted = vsnprintf(issue->message, sizeof(issue->message), format, list);

    tame(issue->message, wanted >= (int)sizeof(issue->message));
}

/* NULL: there are enough of these. */
static struct validate_issue *add(struct validator *validator, enum validate_code code)
{
    struct validate_issue *issue;

    if (validator->counts[code]++ >= VALIDATE_ISSUES_MAX)
        return NULL;
    if (validator->issues_count == validator->issues_capacity) {
        validator->issues_capacity = 2 * validator->issues_capacity + 16;
        validator->issues = realloc(validator->issues, validator->issues_capacity * sizeof(*validator->issues));
        check(validator->issues != NULL);
    }
    issue = &validator->issues[validator->issues_count];
    *issue = (struct validate_issue){.code = code, .order = (uint32_t)validator->issues_count, .hint = codes[code].hint};
    validator->issues_count++;
    return issue;
}

bool issue_beyond(struct validator *validator, enum validate_code code)
{
    if (validator->counts[code] < VALIDATE_ISSUES_MAX)
        return false;
    validator->counts[code]++;
    validator->line_errors += validate_code_rejects(code);
    return true;
}

size_t issue_at(struct validator *validator, enum validate_code code, size_t at, uint32_t node, const char *format, ...)
{
    struct validate_issue *issue = add(validator, code);
    va_list list;

    validator->line_errors += validate_code_rejects(code);
    if (issue == NULL)
        return SIZE_MAX;
    issue->line = validator->line;
    issue->column = at == NO_COLUMN ? 0 : (int32_t)at + 1;
    if (node != NONE_INDEX) {
        tree_path(&validator->tree, node, issue->path, sizeof(issue->path));
        tame(issue->path, false);
    }
    va_start(list, format);
    write_message(issue, format, list);
    va_end(list);
    return validator->issues_count - 1;
}

size_t issue_line(struct validator *validator, enum validate_code code, int32_t line, const char *format, ...)
{
    struct validate_issue *issue = add(validator, code);
    va_list list;

    if (issue == NULL)
        return SIZE_MAX;
    issue->line = line;
    va_start(list, format);
    write_message(issue, format, list);
    va_end(list);
    return validator->issues_count - 1;
}

void issue_rewrite(struct validator *validator, size_t index, const char *hint, const char *format, ...)
{
    va_list list;

    if (index == SIZE_MAX)
        return;
    if (hint != NULL)
        validator->issues[index].hint = hint;
    va_start(list, format);
    write_message(&validator->issues[index], format, list);
    va_end(list);
}

/* What is of the whole file stands behind. */
static int by_place(const void *a, const void *b)
{
    const struct validate_issue *left = a;
    const struct validate_issue *right = b;

    if (left->line != right->line)
        return (uint32_t)left->line - 1 < (uint32_t)right->line - 1 ? -1 : 1;
    if (left->column != right->column)
        return left->column < right->column ? -1 : 1;
    return left->order < right->order ? -1 : left->order > right->order;
}

void issues_sort(struct validator *validator)
{
    if (validator->issues_count > 0)
        qsort(validator->issues, validator->issues_count, sizeof(*validator->issues), by_place);
}

bool validator_accepts(const struct validator *validator)
{
    for (enum validate_code code = 0; code < VALIDATE_CODE_COUNT; code++)
        if (validator->counts[code] > 0 && validate_code_rejects(code))
            return false;
    return true;
}

const struct validate_issue *validator_issues(const struct validator *validator, size_t *ret_count)
{
    *ret_count = validator->issues_count;
    return validator->issues;
}

int64_t validator_count(const struct validator *validator, enum validate_code code)
{
    return validator->counts[code];
}

const struct validate_statistics *validator_statistics(const struct validator *validator)
{
    return &validator->statistics;
}
