/* Who writes an object trace: one constant table a format. What a format cannot hold and what would change a cache's numbers
 * is refused; what would not is written as it can be, and counted. */
#ifndef CONVERT_WRITER_H
#define CONVERT_WRITER_H

#include "convert/sink.h"
#include "object_trace.h"

/* What the output lacks and the input had. */
struct writer_losses {
    uint64_t fractions; /* times that had a part of a second */
    bool names;         /* ids that were texts are numbers of 2^63 and above */
    bool sizes;
    bool times;
};

struct writer {
    const struct writer_format *format;
    const struct object_trace *trace; /* knows the names */
    bool has_size;                    /* the requests have sizes that mean something */
    bool has_time;
    struct sink sink;
    void *state;                      /* the format's */
    uint64_t requests;                /* written so far */
    struct writer_losses losses;
    char problem[320];                /* "what; remedy", after a failure */
};

struct writer_format {
    const char *name;
    const char *suffix;    /* of names of such files, before .zst */
    bool wants_next;
    bool packs;            /* may be written through zstd */
    bool keeps_names;      /* texts stay texts */
    bool needs_all;        /* a size and a time of each request */
    bool (*begin)(struct writer *writer); /* the sink is open */
    bool (*write)(struct writer *writer, const struct object_request *rows, uint32_t count);
    bool (*end)(struct writer *writer); /* also after a failure, to free what begin() took; must keep the first problem */
};

#define WRITER_FORMATS(X) X(oracle_general) X(lcs) X(hdf5) X(csv) X(txt)
#define X(word) extern const struct writer_format writer_format_##word;
WRITER_FORMATS(X)
#undef X

/* By name, or by the suffix of a path when `name` is NULL; NULL: there is none. */
const struct writer_format *writer_format_find(const char *name, const char *path);
/* The names in order; NULL past the end. */
const char *writer_format_at(size_t index);

/* Says why and returns false, for the formats to return. */
__attribute__((format(printf, 2, 3)))
bool writer_fail(struct writer *writer, const char *what, ...);
/* The same when the sink has failed; true otherwise. */
bool writer_sink_good(struct writer *writer);
/* Whole seconds of a request's time, when they fit into 32 bits. Row counts from 0. */
bool writer_seconds(struct writer *writer, const struct object_request *request, uint64_t row, uint32_t *ret_s);

#endif
