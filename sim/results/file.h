/* What the writers of one results file share. The first failure is kept, with the system's words; after it nothing more
 * is written, and closing reports it. */
#ifndef RESULTS_FILE_H
#define RESULTS_FILE_H

#include <hdf5.h>

#include "results/results.h"

struct results_file {
    char *path;
    char *temporary_path;
    hid_t file;
    hid_t variants;       /* the group */
    uint32_t open_count;  /* of struct results */
    bool failed;
    bool reported;
    char message[512];    /* of the failure */
};

/* As results_file_create(), for what are no rows of requests; `variants` is the group for it. */
enum status results_file_create_as(const char *format, const char *path, const char *scenario_text, uint64_t seed, FILE *errors,
                                   struct results_file **ret_file);
/* Instead of closing: nothing of it stays. Accepts NULL. */
void results_file_abandon(struct results_file *file);
/* Keeps what HDF5 has just refused, unless something failed before. `what` completes "cannot write ...". */
void results_file_fail(struct results_file *file, const char *what);
/* Says the failure once. */
void results_file_report(struct results_file *file, FILE *errors);
/* A group with no time of creation; negative on failure. */
hid_t results_group_create(hid_t parent, const char *name);
/* A variant's group in /variants. A name is a path to HDF5: a slash would open another level, and "." is no name. */
void results_group_name(const char *variant, char *ret_name, size_t bytes);

#endif
