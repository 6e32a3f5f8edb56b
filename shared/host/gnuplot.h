/* Runs gnuplot. It is a program beside us, not a library: what pictures show is there without them too, so whoever calls goes on whatever
 * comes back. */
#ifndef HOST_GNUPLOT_H
#define HOST_GNUPLOT_H

#include "base/base.h"

#define PLOTS_PATH_MAX 4096

/* The folder with our scripts, from the root on: $BERTH_PLOTS, or plots/ in a folder above the program, or in the current one. NOT_FOUND: nowhere. */
enum status plots_find(char ret_path[PLOTS_PATH_MAX]);

/* In `folder`, with no shell, nothing to read, and what it says in the file `log` there. `library`: where `load` looks for scripts that are
 * not in that folder, or NULL. `arguments` ends with NULL: ARG1 and so on of the script. NOT_FOUND: gnuplot is not installed. IO: it could
 * not be started. INVALID: it failed, and the log says why. */
enum status gnuplot_run(const char *folder, const char *script, const char *const *arguments, const char *library, const char *log);

#endif
