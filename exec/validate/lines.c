/* A stream into lines, and lines into examples or into what is wrong with them as lines: encoding, length, blank ones, and files that are no
 * JSON lines at all, whose lines are not each called wrong for it. */
#include <stdlib.h>

#include "engine/tokenizer/utf8.h"
#include "host/words.h"
#include "validate/internal.h"

#define CARRY_FIRST (64 << 10)
#define SHOWN_BYTES 16

/* --- the file's beginning --------------------------------------------------------------------------------------------------- */

static void give_up(struct validator *validator)
{
    validator->stage = STAGE_OVER;
    validator->confused = true;
}

static bool has_prefix(const char *text, size_t count, const char *prefix, size_t bytes)
{
    return count >= bytes && memcmp(text, prefix, bytes) == 0;
}

/* UTF-16 and UTF-32, with a mark or by the zeros of a first { or [. False: they are neither. */
static bool is_wide(struct validator *validator, const char *text, size_t count)
{
    static const struct {
        const char *bytes;
        size_t count;
        const char *what;
    } marks[] = {{"\xff\xfe\0\0", 4, "UTF-32 (byte order mark FF FE 00 00)"}, {"\0\0\xfe\xff", 4, "UTF-32 (byte order mark 00 00 FE FF)"},
                 {"\xff\xfe", 2, "UTF-16 (byte order mark FF FE)"}, {"\xfe\xff", 2, "UTF-16 (byte order mark FE FF)"},
                 {"{\0\0\0", 4, "UTF-32"}, {"\0\0\0{", 4, "UTF-32"}, {"{\0", 2, "UTF-16"}, {"\0{", 2, "UTF-16"}, {"[\0", 2, "UTF-16"}, {"\0[", 2, "UTF-16"}};

    for (size_t i = 0; i < ARRAY_COUNT(marks); i++)
        if (has_prefix(text, count, marks[i].bytes, marks[i].count)) {
            issue_line(validator, VALIDATE_NOT_UTF8, 1, "File is %s. Re-save it as UTF-8.", marks[i].what);
            return true;
        }
    return false;
}

static bool is_other(struct validator *validator, const char *text, size_t count)
{
    static const struct {
        const char *bytes;
        size_t count;
        const char *what;
    } kinds[] = {{"\x1f\x8b", 2, "compressed by gzip"}, {"\x28\xb5\x2f\xfd", 4, "compressed by zstd"}, {"PK\3\4", 4, "a zip archive"},
                 {"PAR1", 4, "a Parquet file"}, {"BZh", 3, "compressed by bzip2"}, {"\xfd" "7zXZ", 5, "compressed by xz"}, {"%PDF-", 5, "a PDF"}};

    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++)
        if (has_prefix(text, count, kinds[i].bytes, kinds[i].count)) {
            issue_line(validator, VALIDATE_NOT_JSONL, 1, "File is %s, not JSON lines.", kinds[i].what);
            return true;
        }
    return false;
}

/* Takes a mark away. False: the file is not looked at further. */
static bool begin_file(struct validator *validator)
{
    if (is_wide(validator, validator->text, validator->text_bytes) || is_other(validator, validator->text, validator->text_bytes)) {
        give_up(validator);
        return false;
    }
    if (has_prefix(validator->text, validator->text_bytes, "\xef\xbb\xbf", 3)) {
        issue_line(validator, VALIDATE_UTF8_BOM, 1, "UTF-8 byte order mark at start of file was skipped.");
        validator->text += 3;
        validator->text_bytes -= 3;
    }
    return true;
}

/* --- blank lines ------------------------------------------------------------------------------------------------------------ */

static size_t space_count(const char *text, size_t count)
{
    size_t at = 0;

    while (at < count && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r'))
        at++;
    return at;
}

/* Its first byte that is no space; '\0': there is none. */
static char first_byte(const struct validator *validator)
{
    const size_t at = space_count(validator->text, validator->text_bytes);

    return at < validator->text_bytes ? validator->text[at] : '\0';
}

static void note_blank(struct validator *validator)
{
    validator->statistics.blank_lines++;
    if (validator->blank_from == 0)
        validator->blank_from = validator->line;
    validator->blank_until = validator->line;
}

/* A run of them is one issue. */
static void tell_blank(struct validator *validator)
{
    const int32_t from = validator->blank_from;

    if (from == 0)
        return;
    if (from == validator->blank_until)
        issue_line(validator, VALIDATE_BLANK_LINE, from, "Blank line ignored.");
    else
        issue_line(validator, VALIDATE_BLANK_LINE, from, "Blank line ignored (lines %d-%d).", from, validator->blank_until);
    validator->blank_from = 0;
}

/* --- a line ----------------------------------------------------------------------------------------------------------------- */

/* Most text is ASCII, eight bytes at a time. */
static size_t ascii_count(const char *text, size_t count)
{
    size_t at = 0;
    uint64_t word = 0;

    for (; at + 8 <= count; at += 8) {
        memcpy(&word, text + at, 8);
        if (word & UINT64_C(0x8080808080808080))
            break;
    }
    while (at < count && (unsigned char)text[at] < 0x80)
        at++;
    return at;
}

static void check_utf8(struct validator *validator)
{
    const size_t ascii = ascii_count(validator->text, validator->text_bytes);
    const size_t valid = ascii + utf8_valid(validator->text + ascii, validator->text_bytes - ascii);

    if (valid < validator->text_bytes)
        issue_at(validator, VALIDATE_INVALID_UTF8, valid, NONE_INDEX, "Byte 0x%02X at column %zu is not valid UTF-8.",
                 (unsigned char)validator->text[valid], valid + 1);
}

/* The first line is no JSON, and does not begin like any. */
static void foreign_fault(struct validator *validator)
{
    const size_t most = validator->text_bytes < SHOWN_BYTES ? validator->text_bytes : SHOWN_BYTES;
    const bool commas = memchr(validator->text, ',', validator->text_bytes) != NULL || memchr(validator->text, '\t', validator->text_bytes) != NULL ||
                        memchr(validator->text, ';', validator->text_bytes) != NULL;
    int shown = 0;

    while (shown < (int)most) {
        const size_t bytes = character_bytes(validator->text + shown, validator->text_bytes - (size_t)shown);

        if (shown + (int)(bytes > 0 ? bytes : 1) > (int)most)
            break;
        shown += bytes > 0 ? (int)bytes : 1;
    }
    issue_line(validator, VALIDATE_NOT_JSONL, validator->line, "Line %d is not a JSON object (starts with: %.*s).%s", validator->line, shown,
               validator->text, validator->text[0] == '<' ? " The file looks like HTML or XML." : commas ? " The file looks like CSV." : "");
    validator->line_errors++;
    validator->stage = STAGE_FOREIGN;
    validator->confused = true;
}

static void array_fault(struct validator *validator, int32_t line)
{
    issue_line(validator, VALIDATE_FILE_IS_JSON_ARRAY, line,
               "File is one JSON array, not JSONL. Write one object per line, without [ ] and trailing commas.");
    give_up(validator);
}

static void not_object(struct validator *validator, int32_t line, const char *what)
{
    issue_line(validator, VALIDATE_NOT_AN_OBJECT, line, "Line is JSON%s %s, expected an object.", strcmp(what, "null") == 0 ? "" : " of the kind", what);
    validator->line_errors++;
}

/* JSON of the first line or of one behind it. */
static void take_json(struct validator *validator, bool first, char begins)
{
    const enum tree_fault fault = tree_scan(&validator->tree, validator->text, validator->text_bytes);
    const enum tree_kind kind = fault == TREE_GOOD ? validator->tree.nodes[0].kind : TREE_NULL;

    if (fault != TREE_GOOD && first && begins == '[')
        array_fault(validator, validator->line);
    else if (fault != TREE_GOOD && first && begins != '{')
        foreign_fault(validator);
    else if (fault != TREE_GOOD)
        syntax_fault(validator, fault);
    else if (kind == TREE_OBJECT)
        example_check(validator);
    else if (first && kind == TREE_ARRAY)
        validator->array_line = validator->line; /* if nothing follows, it is the file */
    else
        not_object(validator, validator->line, kind_name(kind));
}

static void take_text(struct validator *validator)
{
    const char begins = first_byte(validator);
    const bool first = validator->first_line == 0;

    if (first)
        validator->first_line = validator->line;
    if (validator->array_line != 0)
        not_object(validator, validator->array_line, kind_name(TREE_ARRAY));
    validator->array_line = 0;
    if (validator->stage == STAGE_FRAGMENTS && validator->text[0] != '{') {
        syntax_fragment(validator);
        return;
    }
    if (validator->stage == STAGE_FOREIGN) {
        if (begins != '{')
            return;
        validator->confused = false;
    }
    validator->stage = STAGE_LINES;
    validator->cut_line = 0;
    validator->statistics.examples++;
    take_json(validator, first, begins);
}

/* The line is whole. */
static void take_line(struct validator *validator, const char *text, size_t count)
{
    validator->line++;
    validator->statistics.lines++;
    validator->text = text;
    validator->text_bytes = count;
    validator->line_errors = 0;
    if (validator->stage == STAGE_OVER || (validator->line == 1 && !begin_file(validator)))
        return;
    if (validator->text_bytes > 0 && validator->text[validator->text_bytes - 1] == '\r')
        validator->text_bytes--;
    if (space_count(validator->text, validator->text_bytes) == validator->text_bytes) {
        note_blank(validator);
        return;
    }
    tell_blank(validator);
    check_utf8(validator);
    take_text(validator);
}

/* All that is kept of it is how it begins. */
static void take_long_line(struct validator *validator, const char *text, size_t count)
{
    const size_t bytes = (size_t)validator->line_bytes;
    const bool first = validator->first_line == 0;
    size_t issue;

    validator->line++;
    validator->statistics.lines++;
    validator->text = text;
    validator->text_bytes = count;
    if (validator->stage == STAGE_OVER || (validator->line == 1 && !begin_file(validator)))
        return;
    tell_blank(validator);
    if (first)
        validator->first_line = validator->line;
    if (first && first_byte(validator) == '[') {
        array_fault(validator, validator->line);
        return;
    }
    validator->statistics.examples++;
    issue = issue_line(validator, VALIDATE_LINE_TOO_LONG, validator->line, "Line is %zu bytes; the limit is %lld.", bytes,
                       (long long)validator->config.line_bytes_max);
    if (memchr(validator->text, '\r', validator->text_bytes) != NULL) {
        issue_rewrite(validator, issue, "In a shell: tr '\\r' '\\n' < FILE > FILE.jsonl",
                      "Line is %zu bytes; the limit is %lld. The file may use CR-only line endings; JSONL needs LF.", bytes,
                      (long long)validator->config.line_bytes_max);
        validator->confused = true;
    }
}

/* --- the stream ------------------------------------------------------------------------------------------------------------- */

/* What is beyond the bound is counted and dropped. */
static void carry_add(struct validator *validator, const char *bytes, size_t count)
{
    const size_t most = (size_t)validator->config.line_bytes_max + 1; /* and a CR */
    size_t capacity = validator->carry_capacity == 0 ? CARRY_FIRST : validator->carry_capacity;

    validator->line_bytes += (int64_t)count;
    if (count > most - validator->carry_count)
        count = most - validator->carry_count;
    while (capacity < validator->carry_count + count)
        capacity *= 2;
    if (capacity != validator->carry_capacity) {
        validator->carry = realloc(validator->carry, capacity);
        check(validator->carry != NULL);
        validator->carry_capacity = capacity;
    }
    memcpy(validator->carry + validator->carry_count, bytes, count);
    validator->carry_count += count;
}

static void end_line(struct validator *validator, const char *text, size_t count)
{
    const bool cr = count > 0 && text[count - 1] == '\r';

    if (validator->line_bytes - cr > validator->config.line_bytes_max)
        take_long_line(validator, text, count);
    else
        take_line(validator, text, count);
    validator->carry_count = 0;
    validator->line_bytes = 0;
}

bool validator_put(struct validator *validator, const void *bytes, size_t count)
{
    const char *data = bytes;

    if (validator->statistics.bytes + (int64_t)count > VALIDATE_FILE_BYTES_MAX && validator->counts[VALIDATE_FILE_TOO_LARGE] == 0) {
        issue_line(validator, VALIDATE_FILE_TOO_LARGE, 0, "File has more than %d bytes, which is the limit.", VALIDATE_FILE_BYTES_MAX);
        give_up(validator);
    }
    validator->statistics.bytes += (int64_t)count;
    while (count > 0 && validator->stage != STAGE_OVER) {
        const char *end = memchr(data, '\n', count);
        const size_t piece = end != NULL ? (size_t)(end - data) : count;

        if (validator->line_bytes > 0 || end == NULL)
            carry_add(validator, data, piece);
        else
            validator->line_bytes = (int64_t)piece;
        if (end == NULL)
            break;
        if (validator->carry_count > 0)
            end_line(validator, validator->carry, validator->carry_count);
        else
            end_line(validator, data, piece);
        data += piece + 1;
        count -= piece + 1;
    }
    return validator->stage != STAGE_OVER;
}

static void tell_whole(struct validator *validator)
{
    if (validator->array_line != 0)
        array_fault(validator, validator->array_line);
    syntax_end(validator);
    if (validator->first_line > 0)
        tell_blank(validator);
    else if (validator->stage != STAGE_OVER)
        issue_line(validator, VALIDATE_FILE_EMPTY, 0, "%s: no examples were found.",
                   validator->statistics.lines == 0 ? "File is empty" : "File contains only blank lines");
}

void validator_end(struct validator *validator)
{
    if (validator->line_bytes > 0 && validator->stage != STAGE_OVER)
        end_line(validator, validator->carry, validator->carry_count);
    tell_whole(validator);
    example_end(validator);
    if (validator->config.source != NULL)
        tokens_flush(validator);
    set_end(validator);
    issues_sort(validator);
}
