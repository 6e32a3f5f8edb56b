/* Gathering and printing of messages, in one look. */
#include "scenario/messages.h"

#include <stdarg.h>

#include "host/words.h"

static bool location_equal(struct location a, struct location b)
{
    return a.text == b.text && a.at == b.at && a.count == b.count;
}

void messages_add(struct messages *messages, enum severity severity, struct location location, const char *format, ...)
{
    struct message message = {.severity = severity, .location = location, .variants = 1};
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message.text, sizeof(message.text), format, arguments);
    va_end(arguments);
    if (messages->variant != NULL)
        snprintf(message.variant, sizeof(message.variant), "%s", messages->variant);
    for (uint32_t i = 0; i < messages->count; i++) {
        struct message *other = &messages->items[i];

        if (location_equal(other->location, location) && strcmp(other->text, message.text) == 0) {
            if (strcmp(other->variant, message.variant) != 0)
                other->variants++;
            return;
        }
    }
    messages->errors += severity == SEVERITY_ERROR;
    if (messages->count == MESSAGES_MAX) {
        messages->dropped++;
        return;
    }
    messages->items[messages->count++] = message;
}

/* Where a location stands: line and column from 1, columns counted in characters of UTF-8. */
struct position {
    size_t line;
    size_t column;
    size_t line_at;    /* first byte of the line */
    size_t line_count; /* its bytes without the line's end */
};

static struct position position_of(struct location location)
{
    const struct text *text = location.text;
    struct position position = {.line = 1, .column = 1};

    for (size_t i = 0; i < location.at && i < text->count; i++) {
        if (text->bytes[i] == '\n') {
            position.line++;
            position.line_at = i + 1;
        }
    }
    for (size_t i = position.line_at; i < location.at && i < text->count; i++)
        position.column += begins_character(text->bytes[i]);
    while (position.line_at + position.line_count < text->count &&
           text->bytes[position.line_at + position.line_count] != '\n' &&
           text->bytes[position.line_at + position.line_count] != '\r')
        position.line_count++;
    return position;
}

/* Long lines are shown in part, so that the caret stays in sight. */
#define LINE_SHOWN_MAX 110

static void print_line_with_caret(struct location location, struct position position, FILE *out)
{
    const char *line = location.text->bytes + position.line_at;
    size_t at = location.at - position.line_at;
    size_t from = at > LINE_SHOWN_MAX * 2 / 3 ? at - LINE_SHOWN_MAX / 2 : 0;
    size_t until = from + LINE_SHOWN_MAX < position.line_count ? from + LINE_SHOWN_MAX : position.line_count;

    while (from > 0 && !begins_character(line[from]))
        from--;
    while (until < position.line_count && !begins_character(line[until]))
        until--;
    fprintf(out, "%5zu | %s", position.line, from > 0 ? "..." : "");
    for (size_t i = from, bytes; i < until; i += bytes) {
        bytes = character_bytes(line + i, until - i);
        if (bytes == 0 || (bytes == 1 && line[i] < ' '))
            fputc(bytes == 0 ? '?' : ' ', out);
        else
            fwrite(line + i, 1, bytes, out);
        bytes = bytes == 0 ? 1 : bytes;
    }
    fprintf(out, "%s\n      | %s", until < position.line_count ? "..." : "", from > 0 ? "   " : "");
    for (size_t i = from; i < at; i++) {
        if (i >= position.line_count || begins_character(line[i]))
            fputc(' ', out);
    }
    fputc('^', out);
    for (size_t i = at + 1; i < at + location.count && i < until; i++) {
        if (begins_character(line[i]))
            fputc('~', out);
    }
    fputc('\n', out);
}

static void message_print(const struct message *message, uint32_t variants_count, FILE *out)
{
    const struct text *text = message->location.text;
    struct position position = {0};

    if (text != NULL && text->bytes != NULL) {
        position = position_of(message->location);
        fprintf(out, "%s:%zu:%zu: ", text->label, position.line, position.column);
    } else if (text != NULL) {
        fprintf(out, "%s: ", text->label);
    }
    fprintf(out, "%s: %s", message->severity == SEVERITY_ERROR ? "error" : "warning", message->text);
    if (message->variant[0] != '\0' && message->variants < variants_count) {
        fprintf(out, " (in variant %s", message->variant);
        if (message->variants > 1)
            fprintf(out, " and %u more", message->variants - 1);
        fputc(')', out);
    }
    fputc('\n', out);
    if (text != NULL && text->bytes != NULL && message->location.count > 0)
        print_line_with_caret(message->location, position, out);
}

void messages_print(const struct messages *messages, uint32_t variants_count, FILE *out)
{
    for (uint32_t i = 0; i < messages->count; i++)
        message_print(&messages->items[i], variants_count, out);
    if (messages->dropped > 0)
        fprintf(out, "and %u more; mend these first\n", messages->dropped);
}
