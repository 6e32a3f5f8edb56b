/* What the sources that read traces, of requests and of jobs, have in common. */
#ifndef WORKLOAD_TRACE_FILES_H
#define WORKLOAD_TRACE_FILES_H

#include "scenario/scenario.h"
#include "trace.h"
#include "workload/notes.h"

/* A scenario's keys `<section>.<prefix>path` and `..path_fallback`. */
struct trace_file {
    const char *section;
    const char *prefix;
    const char *path;
    const char *fallback; /* empty: none */
};

/* The path to read, of KEY_TEXT_MAX * 2 bytes: the first that exists. STATUS_INVALID or STATUS_NOT_FOUND with a message. */
enum status trace_file_choose(const struct trace_file *file, const struct scenario *scenario, FILE *errors, char *ret_path,
                              bool *ret_fell_back);
/* at_ns x scale; as it is when the scale is 1, for a double would round what is far from the start. */
int64_t trace_scaled_ns(double scale, int64_t at_ns);
void trace_say_skips(const struct trace_info *info, struct notes *notes);

#endif
