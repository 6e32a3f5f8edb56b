#include "report/lines.h"

#include <unistd.h>

void line_emphasize(FILE *out, const char *text)
{
    const bool terminal = isatty(fileno(out)) == 1;

    fprintf(out, "%s%s%s", terminal ? "\033[1m" : "", text, terminal ? "\033[0m" : "");
}

void line_cell(FILE *out, int width, struct cell cell)
{
    fprintf(out, "%*s", width, cell.text);
}

void line_note(FILE *out, const char *label, const char *note, size_t length)
{
    const size_t room = TABLE_COLUMNS - LABEL_COLUMNS;

    while (length > 0 && note[length - 1] == ' ')
        length--;
    while (length > 0) {
        size_t take = length;

        if (length > room) {
            take = room;
            while (take > 0 && note[take] != ' ')
                take--;
            if (take == 0)
                take = room;
        }
        fprintf(out, LABEL "%.*s\n", label, (int)take, note);
        label = "";
        note += take;
        length -= take;
        while (length > 0 && *note == ' ') {
            note++;
            length--;
        }
    }
}

void line_variant(FILE *out, const char *variant)
{
    fprintf(out, strlen(variant) < 16 ? "%-16s" : "%s\n                ", variant);
}
