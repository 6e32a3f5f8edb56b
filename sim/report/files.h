/* Files of a report: made in a hidden work folder inside the report's own, and moved to their names when all are whole,
 * so that no reader sees half of one. Every failure is said on `errors` with the path and the reason. */
#ifndef REPORT_FILES_H
#define REPORT_FILES_H

#include <stdio.h>

#include "base/base.h"

#define FILES_PATH_MAX 4096

/* The path is format's. NULL on failure. */
__attribute__((format(printf, 2, 3))) FILE *file_create(FILE *errors, const char *format, ...);
/* False, and said, when anything written before did not reach the file. */
bool file_close(FILE *file, FILE *errors);
/* Plain files only; 0: there is none. */
__attribute__((format(printf, 1, 2))) uint64_t file_bytes(const char *format, ...);
/* The whole file with a zero behind it, to be freed; NULL when it cannot be read. */
__attribute__((format(printf, 1, 2))) char *file_read(const char *format, ...);
/* Its text, indented. */
__attribute__((format(printf, 2, 3))) void file_quote(FILE *errors, const char *format, ...);

/* <plots>/<name>.gp to <work>/data/<name>.gp. */
enum status script_copy(FILE *errors, const char *plots, const char *work, const char *name);

/* Creates `directory` and its parent where missing, and a new work folder in it with data/ inside. */
enum status work_create(FILE *errors, const char *directory, char ret_work[FILES_PATH_MAX]);
/* Removes <work>/<name>, a file that may be half-written. */
void work_discard(const char *work, const char *name);
/* Moves <work>/<name> to <directory>/<name>; without one, an older <directory>/<name> is removed: it is of another run. */
enum status work_publish(FILE *errors, const char *work, const char *directory, const char *name);
/* The same for everything in <work>/data. */
enum status work_publish_data(FILE *errors, const char *work, const char *directory);
/* Removes the work folder and what is left in it. */
void work_remove(const char *work);

#endif
