/* Puts one of gnuplot's SVG files into a page. */
#ifndef REPORT_SVG_H
#define REPORT_SVG_H

#include <stdio.h>

#include "base/base.h"

/* Without XML prolog, DOCTYPE, namespaces and titles; every id and reference to one begins with `prefix`, as gnuplot gives
 * the same ids in every file and a page may have each once. `label` is read aloud in place of the picture. False when
 * `svg` holds no svg element: nothing was written. */
bool svg_inline(FILE *out, const char *svg, const char *prefix, const char *label);

#endif
