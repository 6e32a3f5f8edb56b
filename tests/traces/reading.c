#include "reading.h"

#include <stdlib.h>

#include "base/hash.h"
#include "support.h"

static void reading_add(struct reading *reading, const struct trace_row *row)
{
    if (reading->info.rows == 0)
        reading->first = *row;
    if (reading->info.rows > 0 && row->at_ns < reading->last.at_ns)
        fail_msg("line %llu: %lld ns after %lld ns", (unsigned long long)row->line, (long long)row->at_ns,
                 (long long)reading->last.at_ns);
    reading->last = *row;
    reading->info.rows++;
    reading->prompt_sum += row->prompt_tokens;
    reading->output_sum += row->output_tokens;
    reading->lora_rows += row->lora_count > 0;
    reading->failed_rows += row->failed;
    reading->digest = hash_fold(reading->digest, (uint64_t)row->at_ns);
    reading->digest = hash_fold(reading->digest, (uint64_t)row->prompt_tokens << 32 | row->output_tokens);
    reading->digest = hash_fold(reading->digest, (uint64_t)row->lora_count << 1 | row->failed);
    reading->digest = hash_bytes(reading->digest, row->tenant, strlen(row->tenant));
    reading->digest = hash_bytes(reading->digest, row->adapter, strlen(row->adapter));
}

static void read_rows(struct trace *trace, struct reading *reading)
{
    struct trace_row row;
    uint64_t rows;

    reading->opened = true;
    while ((reading->status = trace_next(trace, &row)) == STATUS_OK)
        reading_add(reading, &row);
    rows = reading->info.rows;
    reading->info = trace_info(trace);
    assert_int_equal(reading->info.rows, rows);
    memcpy(reading->message, trace_message(trace), TRACE_MESSAGE_MAX);
    assert_int_equal(trace_next(trace, &row), reading->status); /* an end is an end */
    trace_close(trace);
}

struct reading read_file(const char *path, const char *format, const struct trace_options *options)
{
    struct reading reading = {0};
    struct trace *trace;

    reading.status = trace_open(path, format, options, &trace, reading.message);
    if (reading.status == STATUS_OK)
        read_rows(trace, &reading);
    return reading;
}

struct reading read_bytes(const void *bytes, size_t count, const char *format, const struct trace_options *options)
{
    struct reading reading = {0};
    struct trace *trace;

    reading.status = trace_open_bytes(bytes, count, format, options, &trace, reading.message);
    if (reading.status == STATUS_OK)
        read_rows(trace, &reading);
    return reading;
}

struct reading read_text(const char *text, const char *format)
{
    return read_bytes(text, strlen(text), format, NULL);
}

struct reading read_text_leniently(const char *text, const char *format)
{
    const struct trace_options options = {.lenient = true};

    return read_bytes(text, strlen(text), format, &options);
}

char *file_bytes(const char *path, size_t *ret_count)
{
    FILE *file = fopen(path, "rb");
    char *bytes;
    long size;

    if (file == NULL)
        fail_msg("cannot open %s: tests run from the root of the repository", path);
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    check(size >= 0);
    rewind(file);
    bytes = malloc((size_t)size + 1);
    assert_int_equal(fread(bytes, 1, (size_t)size, file), size);
    bytes[size] = 0;
    fclose(file);
    *ret_count = (size_t)size;
    return bytes;
}
