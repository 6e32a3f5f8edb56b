/* Reads a trace to its end and remembers what a test wants to ask about. */
#ifndef TESTS_TRACES_READING_H
#define TESTS_TRACES_READING_H

#include "reader.h"

struct reading {
    enum status status; /* of the open that failed, or of the last trace_next() */
    bool opened;
    char message[TRACE_MESSAGE_MAX];
    struct trace_info info; /* zeros when it did not open */
    struct trace_row first;
    struct trace_row last;
    uint64_t prompt_sum;
    uint64_t output_sum;
    uint64_t lora_rows;
    uint64_t failed_rows;
    uint64_t digest; /* of every field of every row but the line */
};

struct reading read_file(const char *path, const char *format, const struct trace_options *options);
struct reading read_bytes(const void *bytes, size_t count, const char *format, const struct trace_options *options);
struct reading read_text(const char *text, const char *format);
struct reading read_text_leniently(const char *text, const char *format);

/* The whole file; *ret_count bytes, one more for a NUL; the caller frees it. Fails the test when it is not there. */
char *file_bytes(const char *path, size_t *ret_count);

#endif
