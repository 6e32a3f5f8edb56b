/* One object trace written in another format. The output comes into being whole or not at all. */
#ifndef CONVERT_CONVERT_H
#define CONVERT_CONVERT_H

#include <signal.h>
#include <stdio.h>

#include "convert/writer.h"

struct convert_config {
    const char *input;
    const char *output;
    const char *input_format;  /* NULL: the file tells */
    const char *output_format; /* NULL: the name tells */
    const struct object_options *options;
    bool size_given;           /* options->size_bytes is the caller's, so it means something */
    const volatile sig_atomic_t *stop; /* not 0: leave off */
    FILE *progress;                    /* a terminal for the progress line; NULL: none */
};

struct convert_result {
    struct object_trace_info info; /* of the input, whole */
    const char *format;            /* of the output */
    bool packed;
    bool found_next;               /* next accesses were found here, since the input has none */
    bool kept_next;
    bool needs_all;                /* the output has a size and a time of each request */
    struct writer_losses losses;
    uint64_t names;                /* ids that are texts */
    uint64_t bytes;                /* of the output */
};

/* On failure the message says why; STATUS_INVALID: what was asked for cannot be; STATUS_CONFLICT: stopped. */
enum status convert(const struct convert_config *config, struct convert_result *ret_result, char ret_message[TRACE_MESSAGE_MAX]);

#endif
