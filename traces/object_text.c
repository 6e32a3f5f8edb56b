/* Lines and ids of object traces that are texts. */
#include "object_text.h"

#include <stdarg.h>

static const uint64_t powers[] = {1,      10,      100,      1000,      10000,
                                  100000, 1000000, 10000000, 100000000};

/* --- lines --- */

bool object_lines(struct object_trace *trace)
{
    struct object_text *text = &trace->text;

    if (!object_more(trace, OBJECT_CHUNK_BYTES))
        return false;
    if (object_left(trace) == 0) {
        trace->end = STATUS_END;
        return false;
    }
    if (trace->input_ended && trace->chunk[trace->end_of_chunk - 1] != '\n') {
        trace->chunk[trace->end_of_chunk++] = '\n'; /* there is room behind the chunk */
        text->unterminated = true;
    }
    for (text->whole = trace->end_of_chunk; text->whole > 0; text->whole--)
        if (trace->chunk[text->whole - 1] == '\n')
            return true;
    object_refuse_line(trace, trace->row, 1, "the line is longer than %d KiB; is it a trace?", OBJECT_CHUNK_BYTES / 1024);
    return false;
}

enum status object_text_start(struct object_trace *trace)
{
    const char *head = trace->chunk + trace->start;
    size_t left = object_left(trace);

    trace->text.big_numbers = false;
    trace->text.texts = false;
    trace->text.unterminated = false;
    trace->text.whole = 0;
    trace->text.head_lines = 0;
    if (left >= 2 && (memcmp(head, "\xff\xfe", 2) == 0 || memcmp(head, "\xfe\xff", 2) == 0))
        return object_say(trace, STATUS_CORRUPT, "the file is UTF-16; convert it (iconv -f UTF-16 -t UTF-8)");
    if (left >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0)
        return object_say(trace, STATUS_CORRUPT, "a byte order mark begins the file; remove its 3 bytes (tail -c +4)");
    return STATUS_OK;
}

enum status object_refuse_line(struct object_trace *trace, uint64_t row, size_t column, const char *what, ...)
{
    char said[TRACE_MESSAGE_MAX / 2 - 96];
    const char *behind_quotation;
    va_list arguments;

    va_start(arguments, what);
    vsnprintf(said, sizeof(said), what, arguments);
    va_end(arguments);
    behind_quotation = strrchr(said, '\'') != NULL ? strrchr(said, '\'') : said;
    snprintf(trace->message, sizeof(trace->message), "%s:%llu:%zu: %s%s", trace->path,
             (unsigned long long)(row + trace->text.head_lines + 1), column, said,
             strchr(behind_quotation, ';') == NULL ? "; correct the line" : "");
    return trace->end = STATUS_CORRUPT;
}

/* --- values --- */

const char *object_long_digits(const char *at, uint64_t *ret_value, uint32_t *ret_count)
{
    uint64_t value = *ret_value; /* of the first eight */
    uint64_t more;
    uint32_t count = 0;

    at += 8;
    more = eight_digits(at, &count);
    value = value * powers[count] + more;
    at += count;
    *ret_count = 8 + count;
    if (count == 8) {
        more = eight_digits(at, &count);
        at += count;
        *ret_count = 16 + count;
        if (count > 4 || __builtin_mul_overflow(value, powers[count], &value) || __builtin_add_overflow(value, more, &value))
            *ret_count = 21;
    }
    *ret_value = value;
    return at;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* false: too large. Digits up to `end`. */
static bool whole_number(const char *at, const char *end, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (; at < end; at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    *ret_value = value;
    return true;
}

/* A number as we would write it: other forms of it would be lost. */
static bool is_canonical(const char *text, size_t length, uint64_t *ret_value)
{
    for (size_t i = 0; i < length; i++)
        if (!is_digit(text[i]))
            return false;
    return (text[0] != '0' || length == 1) && whole_number(text, text + length, ret_value);
}

static const char mixed[] = "stands in one trace with texts and with numbers of 2^63 and above, which could become equal; "
                            "make all of them texts, or none";

/* NULL, or a problem. */
static const char *number_id(struct object_trace *trace, uint64_t value)
{
    if (value < OBJECT_NAMES_BEGIN)
        return NULL;
    trace->text.big_numbers = true;
    return trace->text.texts ? mixed : NULL;
}

bool object_texts_settle(struct object_trace *trace)
{
    struct object_text *text = &trace->text;
    enum status status = object_names_numbers(&text->names, text->wanted, text->wanted_count, OBJECT_NAMES_BEGIN);

    text->wanted_count = 0;
    if (status == STATUS_OK)
        return true;
    object_say(trace, STATUS_IO, "there is no memory for more texts of ids than %u; give numbers", text->names.count);
    return false;
}

/* NULL, or why a text may not be an id. */
static const char *wrong_text(struct object_trace *trace, size_t length)
{
    if (trace->text.big_numbers)
        return mixed;
    if (length > OBJECT_NAME_MAX)
        return "is longer than 1024 bytes";
    trace->text.texts = true;
    return NULL;
}

static const char *text_id(struct object_trace *trace, const char *text, size_t length, uint64_t *ret_id)
{
    const struct name_wanted wanted = {text, length, ret_id};
    const char *problem = wrong_text(trace, length);

    check(trace->text.wanted_count == 0); /* numbers follow the order in which texts appear */
    if (problem == NULL && object_names_numbers(&trace->text.names, &wanted, 1, OBJECT_NAMES_BEGIN) != STATUS_OK)
        return "is one text more than there is memory for; give numbers";
    return problem;
}

const char *object_id_of(struct object_trace *trace, const char *text, size_t length, uint64_t *ret_id)
{
    if (length == 0)
        return "is empty";
    if (is_canonical(text, length, ret_id))
        return number_id(trace, *ret_id);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return "has control characters";
    return text_id(trace, text, length, ret_id);
}

const char *object_size_of(const char *text, size_t length, uint64_t *ret_size_bytes)
{
    const char *end = text + length;
    const char *digits_end = text;
    uint64_t size_bytes;

    if (length == 0)
        return "is empty";
    if (*text == '-')
        return "is negative";
    while (digits_end < end && is_digit(*digits_end))
        digits_end++;
    if (digits_end == text)
        return "is not a number";
    if (digits_end + 1 < end && *digits_end == '.') { /* as pandas writes a column that once had holes */
        const char *zeros = digits_end + 1;

        while (zeros < end && *zeros == '0')
            zeros++;
        if (zeros < end && is_digit(*zeros))
            return "is not a whole number of bytes";
        if (zeros < end)
            return "is not a number";
    } else if (digits_end < end) {
        return "is not a number";
    }
    if (!whole_number(text, digits_end, &size_bytes) || size_bytes > OBJECT_SIZE_MAX)
        return "is above 2^63 - 1";
    *ret_size_bytes = size_bytes;
    return NULL;
}

/* --- the plain way --- */

static const char *plain_text(struct object_trace *trace, const char *at, char separator, char quote, uint64_t *ret_id)
{
    const char *begin = at;

    if (*at == quote)
        return NULL;
    while (*at != separator && (unsigned char)*at >= 0x20 && *at != 0x7f)
        if (*at++ == quote)
            return NULL;
    if (at == begin || (*at != separator && *at != '\n' && !(at[0] == '\r' && at[1] == '\n')))
        return NULL;
    if (wrong_text(trace, (size_t)(at - begin)) != NULL ||
        (trace->text.wanted_count == NAMES_BATCH_MAX && !object_texts_settle(trace)))
        return NULL;
    trace->text.wanted[trace->text.wanted_count++] = (struct name_wanted){begin, (size_t)(at - begin), ret_id};
    return at;
}

const char *object_plain_id(struct object_trace *trace, const char *at, char separator, char quote, uint64_t *ret_id)
{
    uint64_t value;
    uint32_t count;
    const char *behind = object_digits(at, &value, &count);

    if (count == 0 || count > 20 || (*at == '0' && count > 1) ||
        (*behind != separator && *behind != '\n' && !(behind[0] == '\r' && behind[1] == '\n')))
        return plain_text(trace, at, separator, quote, ret_id);
    if (value >= OBJECT_NAMES_BEGIN && number_id(trace, value) != NULL)
        return NULL;
    *ret_id = value;
    return behind;
}

const char *object_trace_name(const struct object_trace *trace, uint64_t id, size_t *ret_length)
{
    if (id < OBJECT_NAMES_BEGIN || id - OBJECT_NAMES_BEGIN >= trace->text.names.count)
        return NULL;
    return object_names_text(&trace->text.names, (uint32_t)(id - OBJECT_NAMES_BEGIN), ret_length);
}
