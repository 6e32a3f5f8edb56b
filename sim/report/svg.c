/* A copy with a few edits: gnuplot's files are well-formed and ours, so searching for the six patterns below is enough, and
 * no XML parser is needed. */
#include "report/svg.h"

#include "report/text.h"

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* Past the end of the next `end`, or the end of all. */
static const char *past(const char *text, const char *end)
{
    const char *found = strstr(text, end);

    return found != NULL ? found + strlen(end) : text + strlen(text);
}

/* Where the names of ids follow: written as they are, then the prefix. */
static const char *id_opening(const char *text)
{
    static const char *const openings[] = {" id='", " id=\"", "href='#", "href=\"#", "url(#", "url('#"};

    for (size_t i = 0; i < ARRAY_COUNT(openings); i++)
        if (begins(text, openings[i]))
            return openings[i];
    return NULL;
}

/* An opened group with nothing in it: gnuplot writes hundreds. NULL: the text begins something else. */
static const char *past_empty_group(const char *text)
{
    if (!begins(text, "<g "))
        return NULL;
    const char *end = past(text, ">");

    end += strspn(end, " \t\n");
    return begins(end, "</g>") ? end + 4 : NULL;
}

bool svg_inline(FILE *out, const char *svg, const char *prefix, const char *label)
{
    const char *c = strstr(svg, "<svg");
    const char *body = c != NULL ? past(c, ">") : NULL;
    const char *box = c != NULL ? strstr(c, "viewBox=\"") : NULL;

    if (body == NULL || box == NULL || box >= body || strstr(body, "</svg>") == NULL)
        return false;
    box += strlen("viewBox=\"");
    fprintf(out, "<svg viewBox=\"%.*s\" role=\"img\" aria-label=\"", (int)strcspn(box, "\""), box);
    text_html(out, label);
    fputs("\">\n", out);
    for (c = body; *c != '\0';) {
        const char *opening = id_opening(c);
        const char *group_end = past_empty_group(c);

        if (opening != NULL) {
            fprintf(out, "%s%s", opening, prefix);
            c += strlen(opening);
        } else if (group_end != NULL) {
            c = group_end;
        } else if (begins(c, "<title>")) {
            c = past(c, "</title>"); /* a tooltip that says gnuplot_plot_1 */
        } else if (begins(c, "<desc>")) {
            c = past(c, "</desc>");
        } else if (*c == '\n' && (c[1] == '\n' || c[1] == '\0')) {
            c++;
        } else {
            fputc(*c++, out);
        }
    }
    fputc('\n', out);
    return true;
}
