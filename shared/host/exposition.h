/* Metrics as Prometheus reads them (text format 0.0.4): a family's HELP and TYPE once, then its samples. One writer for every part of a
 * host; values and labels are its caller's, and no label may come from a tenant. */
#ifndef HOST_EXPOSITION_H
#define HOST_EXPOSITION_H

#include "base/base.h"

#define EXPOSITION_BYTES_MAX (UINT64_C(16) << 20)

/* Zero it, and exposition_free() it. */
struct exposition {
    char *text; /* ends in a newline and a 0; NULL while empty */
    size_t count;
    size_t size;
    bool failed; /* no memory, or more than the bound: the text is not whole */
};
void exposition_free(struct exposition *exposition);

/* One label, or the end of a list: {NULL, NULL}. Values are escaped. */
struct exposition_label {
    const char *name;
    const char *value;
};

/* `type`: counter, gauge, histogram. */
void exposition_family(struct exposition *exposition, const char *name, const char *type, const char *help);
/* `labels` may be NULL. `suffix`: "", or "_bucket", "_sum", "_count" of a histogram. */
void exposition_sample(struct exposition *exposition, const char *name, const char *suffix, const struct exposition_label *labels,
                       double value);
/* A histogram: counts[i] values were at most bounds[i] and above the bound before; counts[bounds_count] were above all. At most 6
 * labels. */
void exposition_histogram(struct exposition *exposition, const char *name, const struct exposition_label *labels,
                          const double *bounds, const uint64_t *counts, size_t bounds_count, double sum);

#endif
