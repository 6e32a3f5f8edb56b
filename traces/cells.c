/* Cells of one line, split in place. Quotes as in RFC 4180, except that a quoted cell must close on its own line:
 * no trace has line breaks in its cells, and a lost quote must not swallow the file. */
#include "reader.h"

/* The cell whose opening quote is at `at`: quotes go in place; NULL when it does not close, else what follows. */
static char *unquote(char *at, const char *end, struct cell *ret_cell)
{
    char *write = at + 1;

    ret_cell->text = write;
    for (at++; at < end; at++) {
        if (*at == '"') {
            at++;
            if (at == end || *at != '"') {
                ret_cell->length = (uint32_t)(write - ret_cell->text);
                return at;
            }
        }
        *write++ = *at;
    }
    return NULL;
}

bool cells_split_at(char separator, const struct line *line, struct cell *cells, uint32_t *ret_count,
                    const char **ret_problem, size_t *ret_column)
{
    char *at = line->text;
    char *end = line->text + line->length;
    bool runs = separator == ' ';
    uint32_t count = 0;

    for (;; at++) {
        char *begin;

        while (runs && at < end && (*at == ' ' || *at == '\t'))
            at++;
        if (runs && at == end)
            break;
        begin = at;
        while (at < end && *at != separator && !(runs && *at == '\t'))
            at++;
        if (count == CELLS_MAX) {
            *ret_column = (size_t)(begin - line->text) + 1;
            *ret_problem = "more than 256 columns";
            return false;
        }
        cells[count++] = (struct cell){begin, (uint32_t)(at - begin), (uint32_t)(begin - line->text) + 1};
        if (at == end)
            break;
    }
    *ret_count = count;
    return true;
}

bool cells_split(const struct line *line, struct cell *cells, uint32_t *ret_count, const char **ret_problem,
                 size_t *ret_column)
{
    char *at = line->text;
    char *end = line->text + line->length;
    uint32_t count = 0;

    for (;; at++) {
        struct cell *cell = &cells[count];
        char *begin = at;

        *ret_column = (size_t)(begin - line->text) + 1;
        if (count == CELLS_MAX) {
            *ret_problem = "more than 256 columns";
            return false;
        }
        count++;
        cell->column = (uint32_t)*ret_column;
        if (at < end && *at == '"') {
            at = unquote(at, end, cell);
            if (at == NULL) {
                *ret_problem = "a quote that does not close on its line";
                return false;
            }
            if (at < end && *at != ',') {
                *ret_column = (size_t)(at - line->text) + 1;
                *ret_problem = "text behind a closing quote";
                return false;
            }
        } else {
            while (at < end && *at != ',' && *at != '"')
                at++;
            if (at < end && *at == '"') {
                *ret_column = (size_t)(at - line->text) + 1;
                *ret_problem = "a quote inside a cell that does not begin with one";
                return false;
            }
            cell->text = begin;
            cell->length = (uint32_t)(at - begin);
        }
        if (at == end)
            break;
    }
    *ret_count = count;
    return true;
}
