/* How a command line names an object trace: the options that every verb reading one has, and what they come to. */
#ifndef SIM_CMD_OBJECTS_H
#define SIM_CMD_OBJECTS_H

#include <stdio.h>

#include "host/options.h"
#include "object_trace.h"

/* X(field of struct object_arguments, argument, about) */
#define OBJECT_VALUES(X)                                                                                             \
    X(format, "FORMAT", "one of the formats below; without it the file tells")                                       \
    X(id_column, "COLUMN", "csv: name or number (from 1) of the object's id; the usual names are found by themselves") \
    X(size_column, "COLUMN", "csv: its size in bytes")                                                               \
    X(time_column, "COLUMN", "csv: time of the request")                                                             \
    X(time_unit, "UNIT", "csv: s (default), ms, us, ns or datetime")                                                 \
    X(separator, "C", "csv: between columns; a comma (default), ';', '|', 'tab' or 'space'")                         \
    X(adapter_column, "COLUMN", "csv of requests to models: the adapter is the object; requests for the base are passed over") \
    X(size_bytes, "N", "size of each object where the format has none (1)")
#define OBJECT_FLAGS(X) \
    X(ignore_next, NULL, "next accesses that the trace tells are neither checked nor used")

struct object_arguments {
#define X(field, argument, about) const char *field;
    OBJECT_VALUES(X)
#undef X
#define X(field, argument, about) bool field;
    OBJECT_FLAGS(X)
#undef X
};

/* ret_options points into ret_columns. false: said on `errors` in the name of `command`. */
bool object_arguments_take(const struct object_arguments *arguments, const char *command, struct object_columns *ret_columns,
                           struct object_options *ret_options, FILE *errors);
/* "formats:" and a line each. */
void object_formats_print(FILE *output);

#endif
