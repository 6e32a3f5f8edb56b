/* An interruption waits until the report is whole or gone: nothing half-made is left behind. */
#include "report/gallery.h"

#include <signal.h>
#include <stdlib.h>

#include "report/draft.h"
#include "report/draw.h"
#include "report/files.h"
#include "report/page.h"
#include "report/text.h"

struct gallery {
    char work[FILES_PATH_MAX];
    char *directory;
    FILE *errors;
    FILE *script;
    struct gallery_figure figures[GALLERY_FIGURES_MAX];
    bool made[GALLERY_FIGURES_MAX];
    uint32_t count;
    sigset_t heard; /* the mask of before */
};

enum status gallery_open(const char *directory, FILE *errors, struct gallery **ret_gallery)
{
    struct gallery *gallery = calloc(1, sizeof(*gallery));
    enum status status = STATUS_FULL;
    sigset_t interruptions;

    if (gallery == NULL) {
        fprintf(errors, "report: no memory\n");
        return STATUS_FULL;
    }
    sigemptyset(&interruptions);
    sigaddset(&interruptions, SIGINT);
    sigaddset(&interruptions, SIGTERM);
    sigprocmask(SIG_BLOCK, &interruptions, &gallery->heard);
    if ((gallery->directory = malloc(strlen(directory) + 1)) == NULL) {
        fprintf(errors, "report: no memory\n");
        goto abandon;
    }
    memcpy(gallery->directory, directory, strlen(directory) + 1);
    gallery->errors = errors;
    status = work_create(errors, directory, gallery->work);
    if (status != STATUS_OK) {
        gallery->work[0] = '\0';
        goto abandon;
    }
    gallery->script = file_create(errors, "%s/data/plot.gp", gallery->work);
    if (gallery->script == NULL) {
        status = STATUS_IO;
        goto abandon;
    }
    fputs("# Draws all figures of the report again: run `gnuplot data/plot.gp` in the report's folder.\n"
          "variant_colours = '" VARIANT_COLOURS "'\n\n", gallery->script);
    *ret_gallery = gallery;
    return STATUS_OK;
abandon:
    gallery_abandon(gallery);
    return status;
}

void gallery_abandon(struct gallery *gallery)
{
    if (gallery == NULL)
        return;
    if (gallery->script != NULL)
        fclose(gallery->script);
    if (gallery->work[0] != '\0')
        work_remove(gallery->work);
    sigprocmask(SIG_SETMASK, &gallery->heard, NULL);
    free(gallery->directory);
    free(gallery);
}

FILE *gallery_data(struct gallery *gallery, const char *name)
{
    return file_create(gallery->errors, "%s/data/%s.dat", gallery->work, name);
}

FILE *gallery_script(struct gallery *gallery)
{
    return gallery->script;
}

void gallery_figure(struct gallery *gallery, const struct gallery_figure *figure)
{
    FILE *script = gallery->script;

    check(gallery->count < GALLERY_FIGURES_MAX);
    check(figure->series_count >= 1);
    check(figure->series_count <= FIGURE_VARIANTS_MAX);
    gallery->figures[gallery->count++] = *figure;
    fprintf(script, "variants = %u\narray name[variants]\narray unstable[variants]\n", figure->series_count);
    for (uint32_t i = 0; i < figure->series_count; i++) {
        fprintf(script, "name[%u] = ", i + 1);
        draft_quoted(script, figure->series[i], 44);
        fprintf(script, "\nunstable[%u] = 0\n", i + 1);
    }
    fprintf(script, "figure = '%s'\nquestion = ", figure->name);
    draft_quoted(script, figure->question, 200);
    fputs("\nsubtitle = ", script);
    draft_quoted(script, figure->subtitle, 200);
    fputs("\nload 'data/draw.gp'\n\n", script);
}

/* Without gnuplot the text is still worth having, and the reason has been said. */
static void draw(struct gallery *gallery)
{
    const char *names[2 + GALLERY_FIGURES_MAX] = {"draw", "style"};

    for (uint32_t i = 0; i < gallery->count; i++)
        names[2 + i] = gallery->figures[i].name;
    if (draw_scripts(gallery->work, names, 2 + gallery->count, gallery->errors) != STATUS_OK ||
        draw_all(gallery->work, gallery->errors) != STATUS_OK)
        return;
    for (uint32_t i = 0; i < gallery->count; i++)
        gallery->made[i] = draw_made(gallery->work, gallery->figures[i].name);
}

static enum status page_keep(struct gallery *gallery, const char *title, const char *lead, const char *text)
{
    FILE *out = file_create(gallery->errors, "%s/index.html", gallery->work);

    if (out == NULL)
        return STATUS_IO;
    page_begin(out, title);
    fputs("<p class=\"lead\">", out);
    text_html(out, lead);
    fputs("</p>\n<pre>", out);
    text_html(out, text);
    fputs("</pre>\n<h2>Figures</h2>\n", out);
    for (uint32_t i = 0; i < gallery->count; i++)
        page_figure(out, &(struct page_figure){.work = gallery->work, .name = gallery->figures[i].name, .number = i + 1,
                                               .question = gallery->figures[i].question, .reading = gallery->figures[i].reading,
                                               .made = gallery->made[i], .why_not = ""});
    page_end(out);
    return file_close(out, gallery->errors) ? STATUS_OK : STATUS_IO;
}

/* The page last: who sees it sees its figures too. */
static enum status publish(struct gallery *gallery)
{
    static const char *const kinds[] = {"png", "svg"};
    enum status status = work_publish_data(gallery->errors, gallery->work, gallery->directory);

    for (uint32_t i = 0; status == STATUS_OK && i < gallery->count; i++)
        for (size_t kind = 0; status == STATUS_OK && kind < ARRAY_COUNT(kinds); kind++) {
            char name[64];

            snprintf(name, sizeof(name), "%s.%s", gallery->figures[i].name, kinds[kind]);
            if (!gallery->made[i])
                work_discard(gallery->work, name);
            status = work_publish(gallery->errors, gallery->work, gallery->directory, name);
        }
    return status == STATUS_OK ? work_publish(gallery->errors, gallery->work, gallery->directory, "index.html") : status;
}

enum status gallery_close(struct gallery *gallery, const char *title, const char *lead, const char *text)
{
    enum status status = file_close(gallery->script, gallery->errors) ? STATUS_OK : STATUS_IO;

    gallery->script = NULL;
    if (status == STATUS_OK)
        draw(gallery);
    if (status == STATUS_OK)
        status = page_keep(gallery, title, lead, text);
    if (status == STATUS_OK)
        status = publish(gallery);
    gallery_abandon(gallery);
    return status;
}
