#include "engine/files/refusal.h"

#include <stdarg.h>
#include <stdio.h>

#include "host/words.h"

/* Makes a line harmless where it stands. */
static void tame(char *line)
{
    size_t length = strlen(line);

    for (size_t at = 0; at < length;) {
        size_t bytes = character_bytes(line + at, length - at);

        if (bytes == 0 || (bytes == 1 && (unsigned char)line[at] < ' ')) {
            line[at++] = '?';
            continue;
        }
        at += bytes;
    }
}

/* Cuts between characters. */
static void end_in_dots(char *text, size_t room)
{
    size_t end = room - 4;

    while (end > 0 && !begins_character(text[end]))
        end--;
    strcpy(text + end, "...");
}

static void add_line(struct refusal *refusal, const char *format, va_list arguments)
{
    size_t used = strlen(refusal->text);
    size_t start = used;
    size_t room;
    int wanted;

    if (used + 8 >= REFUSAL_MAX) {
        end_in_dots(refusal->text, REFUSAL_MAX);
        return;
    }
    if (used > 0)
        refusal->text[start++] = '\n';
    room = REFUSAL_MAX - start;
    wanted = vsnprintf(refusal->text + start, room, format, arguments);
    check(wanted >= 0);
    if ((size_t)wanted >= room)
        end_in_dots(refusal->text + start, room);
    tame(refusal->text + start);
}

enum status refuse(struct refusal *refusal, enum status status, const char *format, ...)
{
    va_list arguments;

    refusal->text[0] = '\0';
    va_start(arguments, format);
    add_line(refusal, format, arguments);
    va_end(arguments);
    return status;
}

enum status refuse_also(struct refusal *refusal, enum status status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add_line(refusal, format, arguments);
    va_end(arguments);
    return status;
}
