#include "workload/notes.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void notes_clear(struct notes *notes)
{
    notes->length = 0;
    notes->text[0] = '\0';
}

void notes_say(struct notes *notes, const char *format, ...)
{
    size_t room = sizeof(notes->text) - notes->length;
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(notes->text + notes->length, room, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length + 1 >= room) {
        notes->text[notes->length] = '\0';
        return;
    }
    notes->length += (size_t)length;
    notes->text[notes->length++] = '\n';
    notes->text[notes->length] = '\0';
}

const char *notes_real(double value, char *text)
{
    snprintf(text, NUMBER_TEXT_MAX, "%.4g", value);
    if (strpbrk(text, ".en") == NULL)
        strcat(text, ".0");
    return text;
}
