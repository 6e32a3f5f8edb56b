/* The readers of object traces behind one interface: opens, finds the format, gives batches, counts what they hold. What the
 * bytes mean is the format's own file. */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>

#include "object_reader.h"

static const struct object_format *const formats[] = {
#define X(word) &object_format_##word,
    OBJECT_FORMATS(X)
#undef X
};

bool object_format_at(size_t index, const char **ret_name, const char **ret_about)
{
    if (index >= ARRAY_COUNT(formats))
        return false;
    *ret_name = formats[index]->name;
    *ret_about = formats[index]->about;
    return true;
}

/* --- what is said --- */

__attribute__((format(printf, 3, 0)))
static void say(struct object_trace *trace, const char *place, const char *what, va_list arguments)
{
    size_t used;

    snprintf(trace->message, sizeof(trace->message), "%s: %s", trace->path, place);
    used = strlen(trace->message);
    vsnprintf(trace->message + used, sizeof(trace->message) - used, what, arguments);
}

enum status object_say(struct object_trace *trace, enum status status, const char *what, ...)
{
    va_list arguments;

    va_start(arguments, what);
    say(trace, "", what, arguments);
    va_end(arguments);
    return trace->end = status;
}

enum status object_refuse_record(struct object_trace *trace, uint64_t row, uint64_t byte, const char *what, ...)
{
    char place[96];
    va_list arguments;

    snprintf(place, sizeof(place), "record %llu at byte %llu: ", (unsigned long long)row, (unsigned long long)byte);
    va_start(arguments, what);
    say(trace, place, what, arguments);
    va_end(arguments);
    return trace->end = STATUS_CORRUPT;
}

/* --- bytes --- */

bool object_more(struct object_trace *trace, size_t wanted)
{
    check(wanted <= OBJECT_CHUNK_BYTES);
    memmove(trace->chunk, trace->chunk + trace->start, object_left(trace));
    trace->end_of_chunk -= trace->start;
    trace->start = 0;
    while (trace->end_of_chunk < wanted && !trace->input_ended) {
        size_t count;
        enum status status = input_read(trace->input, trace->chunk + trace->end_of_chunk,
                                        OBJECT_CHUNK_BYTES - trace->end_of_chunk, &count);

        trace->end_of_chunk += count;
        memset(trace->chunk + trace->end_of_chunk, 0, OBJECT_CHUNK_MARGIN);
        if (status == STATUS_END)
            trace->input_ended = true;
        else if (status != STATUS_OK)
            return object_say(trace, status, "%s", input_problem(trace->input)) == STATUS_OK;
    }
    return true;
}

/* --- which format --- */

static bool name_has(const char *path, const char *part)
{
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    size_t length = strlen(part);

    for (; strlen(name) >= length; name++) {
        size_t i = 0;

        while (i < length && tolower((unsigned char)name[i]) == part[i])
            i++;
        if (i == length)
            return true;
    }
    return false;
}

static const struct object_format *guess(const struct object_trace *trace, const char *path)
{
    for (size_t i = 0; i < ARRAY_COUNT(formats); i++)
        if (formats[i]->recognise != NULL && formats[i]->recognise(trace))
            return formats[i];
    for (size_t i = 0; i < ARRAY_COUNT(formats); i++)
        if (formats[i]->file_part != NULL && name_has(path, formats[i]->file_part))
            return formats[i];
    return NULL;
}

static enum status find_format(struct object_trace *trace, const char *name, const char *path)
{
    char list[256] = "";

    if (name == NULL)
        trace->format = guess(trace, path);
    for (size_t i = 0; i < ARRAY_COUNT(formats); i++) {
        size_t used = strlen(list);

        if (name != NULL && strcmp(formats[i]->name, name) == 0)
            trace->format = formats[i];
        snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? ", " : "", formats[i]->name);
    }
    if (trace->format != NULL)
        return STATUS_OK;
    if (name != NULL)
        return object_say(trace, STATUS_NOT_FOUND, "no format '%s' of object traces; there are %s",
                          quote(name, strlen(name)).text, list);
    return object_say(trace, STATUS_INVALID, "neither bytes nor name tell the format; name one of %s", list);
}

/* --- opening --- */

static enum status start(struct object_trace *trace)
{
    trace->info = (struct object_trace_info){.format = trace->format->name,
                                             .has_next = trace->format->has_next && !trace->options.ignore_next,
                                             .has_size = trace->format->has_size,
                                             .has_time = trace->format->has_time};
    if (trace->format->start != NULL && trace->format->start(trace) != STATUS_OK)
        return trace->end;
    if (trace->size_given && trace->info.has_size)
        return object_say(trace, STATUS_INVALID, "it has sizes of its own; leave the given one out");
    return STATUS_OK;
}

/* `trace` is closed on failure. */
static enum status begin(struct object_trace *trace, const char *format, const char *path, struct object_trace **ret_trace,
                         char *ret_message)
{
    enum status status;

    status = object_more(trace, OBJECT_CHUNK_BYTES) ? STATUS_OK : trace->end;
    if (status == STATUS_OK && object_left(trace) == 0)
        status = object_say(trace, STATUS_CORRUPT, "the file is empty; a trace has at least one request");
    if (status == STATUS_OK)
        status = find_format(trace, format, path);
    if (status == STATUS_OK && !trace->format->has_columns && object_columns_named(&trace->columns))
        status = object_say(trace, STATUS_INVALID, "columns are named for csv only, and this is %s; leave them out",
                            trace->format->name);
    if (status == STATUS_OK)
        status = start(trace);
    if (status == STATUS_OK) {
        *ret_trace = trace;
        return STATUS_OK;
    }
    memcpy(ret_message, trace->message, TRACE_MESSAGE_MAX);
    object_trace_close(trace);
    return status;
}

static struct object_trace *create(const char *path, const struct object_options *options)
{
    struct object_trace *trace = malloc(sizeof(*trace));

    if (trace == NULL)
        return NULL;
    memset(trace, 0, offsetof(struct object_trace, chunk));
    if (options != NULL)
        trace->options = *options;
    if (trace->options.columns != NULL)
        trace->columns = *trace->options.columns;
    trace->options.columns = NULL;
    trace->size_given = trace->options.size_bytes != 0;
    if (!trace->size_given)
        trace->options.size_bytes = 1;
    path_show(path, trace->path, sizeof(trace->path));
    return trace;
}

static enum status no_memory(char *ret_message)
{
    snprintf(ret_message, TRACE_MESSAGE_MAX, "no memory to read a trace");
    return STATUS_IO;
}

enum status object_trace_open(const char *path, const char *format, const struct object_options *options,
                              struct object_trace **ret_trace, char *ret_message)
{
    struct object_trace *trace = create(path, options);
    char problem[INPUT_PROBLEM_MAX];
    enum status status;

    if (trace == NULL)
        return no_memory(ret_message);
    trace->file = malloc(strlen(path) + 1);
    if (trace->file == NULL) {
        object_trace_close(trace);
        return no_memory(ret_message);
    }
    memcpy(trace->file, path, strlen(path) + 1);
    status = input_open(path, &trace->input, problem);
    if (status == STATUS_OK)
        return begin(trace, format, path, ret_trace, ret_message);
    object_say(trace, status, "%s", problem);
    memcpy(ret_message, trace->message, TRACE_MESSAGE_MAX);
    object_trace_close(trace);
    return status;
}

enum status object_trace_open_bytes(const void *bytes, size_t count, const char *format, const struct object_options *options,
                                    struct object_trace **ret_trace, char *ret_message)
{
    struct object_trace *trace = create("bytes", options);

    if (trace == NULL)
        return no_memory(ret_message);
    trace->bytes = bytes;
    trace->bytes_count = count;
    trace->input = input_of_bytes(bytes, count);
    if (trace->input != NULL)
        return begin(trace, format, "bytes", ret_trace, ret_message);
    object_trace_close(trace);
    return no_memory(ret_message);
}

enum status object_trace_rewind(struct object_trace *trace)
{
    enum status status = input_rewind(trace->input);

    if (status != STATUS_OK)
        return object_say(trace, status, "%s", input_problem(trace->input));
    trace->input_ended = false;
    trace->chunk_at = 0;
    trace->start = 0;
    trace->end_of_chunk = 0;
    trace->row = 0;
    trace->last_ns = 0;
    trace->end = STATUS_OK;
    trace->message[0] = 0;
    return start(trace);
}

void object_trace_close(struct object_trace *trace)
{
    if (trace == NULL)
        return;
    if (trace->format != NULL && trace->format->stop != NULL)
        trace->format->stop(trace);
    input_close(trace->input);
    free(trace->file);
    object_names_free(&trace->text.names);
    free(trace);
}

/* --- requests --- */

#define ROWS_MAX 256

static void count(struct object_trace *trace, const struct object_request *rows, uint32_t rows_count)
{
    int64_t last_ns = trace->last_ns;
    uint64_t backward = 0;
    uint64_t zero_sizes = 0;

    for (uint32_t i = 0; i < rows_count; i++) {
        backward += rows[i].at_ns < last_ns;
        zero_sizes += rows[i].size_bytes == 0;
        last_ns = rows[i].at_ns;
    }
    trace->last_ns = last_ns;
    trace->info.backward += backward;
    trace->info.zero_sizes += zero_sizes;
}

/* After a read of so many. */
static enum status read_end(struct object_trace *trace, uint32_t rows_count)
{
    trace->row += rows_count;
    trace->info.requests += rows_count;
    if (trace->end == STATUS_END && trace->row == 0)
        object_say(trace, STATUS_CORRUPT, "there is no request in it; a trace has at least one");
    return rows_count > 0 ? STATUS_OK : trace->end;
}

enum status object_trace_read(struct object_trace *trace, struct object_request *rows, uint32_t max, uint32_t *ret_count)
{
    check(max > 0);
    *ret_count = 0;
    if (trace->end != STATUS_OK)
        return trace->end;
    *ret_count = trace->format->fill(trace, rows, max);
    count(trace, rows, *ret_count);
    return read_end(trace, *ret_count);
}

static uint32_t fill_by_rows(struct object_trace *trace, struct object_columns_read *to, uint32_t max)
{
    struct object_request rows[ROWS_MAX];
    const uint32_t rows_count = trace->format->fill(trace, rows, min_u32(max, ROWS_MAX));

    count(trace, rows, rows_count);
    to->bytes = 0;
    for (uint32_t i = 0; i < rows_count; i++) {
        to->ids[i] = rows[i].id;
        to->sizes_bytes[i] = rows[i].size_bytes;
        to->bytes += rows[i].size_bytes;
        if (to->next != NULL)
            to->next[i] = rows[i].next;
    }
    return rows_count;
}

enum status object_trace_read_columns(struct object_trace *trace, struct object_columns_read *to, uint32_t max, uint32_t *ret_count)
{
    check(max > 0);
    *ret_count = 0;
    if (trace->end != STATUS_OK)
        return trace->end;
    *ret_count = trace->format->fill_columns != NULL ? trace->format->fill_columns(trace, to, max) : fill_by_rows(trace, to, max);
    return read_end(trace, *ret_count);
}

uint64_t object_trace_expected(const struct object_trace *trace)
{
    const uint32_t millionths = trace->input != NULL ? input_millionths(trace->input) : 0;

    return millionths == 0 ? 0 : (uint64_t)((double)trace->info.requests / millionths * 1e6);
}

const char *object_trace_message(const struct object_trace *trace)
{
    return trace->message;
}

struct object_trace_info object_trace_info(const struct object_trace *trace)
{
    return trace->info;
}
