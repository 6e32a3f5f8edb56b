/* A report of a few figures over one text, for commands that have no variants: index.html with everything inside, each figure as
 * <name>.png and <name>.svg, data/ to draw again (`gnuplot data/plot.gp`). Files come to their names when all are whole. Without
 * gnuplot the page has the text only, and that is said; it is no failure. */
#ifndef REPORT_GALLERY_H
#define REPORT_GALLERY_H

#include <stdio.h>

#include "base/base.h"

#define GALLERY_FIGURES_MAX 8

struct gallery_figure {
    const char *name;     /* plots/<name>.gp draws it; style.gp is loaded before */
    const char *question; /* its title */
    const char *subtitle;
    const char *reading;  /* how to read it, below it on the page */
    const char *const *series; /* what label(v) and colour(v) of style.gp are about, from 1 */
    uint32_t series_count;     /* at most FIGURE_VARIANTS_MAX */
};

struct gallery;

/* Creates the folder, and its parent, where missing. What goes wrong is said on `errors`, here and below. */
enum status gallery_open(const char *directory, FILE *errors, struct gallery **ret_gallery);
/* data/<name>.dat, to be filled and closed with file_close() of files.h; NULL on failure. */
FILE *gallery_data(struct gallery *gallery, const char *name);
/* The script that draws all, for variables of the figure that comes next. */
FILE *gallery_script(struct gallery *gallery);
/* Texts of the figure must live until gallery_close(). */
void gallery_figure(struct gallery *gallery, const struct gallery_figure *figure);
/* Draws, writes the page (title, a sentence, `text` as it would stand on a terminal, the figures), moves all into place, frees. */
enum status gallery_close(struct gallery *gallery, const char *title, const char *lead, const char *text);
/* Frees and leaves the folder as it was; accepts NULL. */
void gallery_abandon(struct gallery *gallery);

#endif
