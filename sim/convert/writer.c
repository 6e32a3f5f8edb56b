/* The formats in a table, and what their writers share. */
#include "convert/writer.h"

#include <stdarg.h>
#include <stdio.h>

static const struct writer_format *const formats[] = {
#define X(word) &writer_format_##word,
    WRITER_FORMATS(X)
#undef X
};

const char *writer_format_at(size_t index)
{
    return index < ARRAY_COUNT(formats) ? formats[index]->name : NULL;
}

/* Small letters are not told from capitals; `end` is where the name ends. */
static bool name_holds(const char *name, const char *end, const char *suffix)
{
    size_t length = strlen(suffix);

    for (const char *at = name; at + length <= end; at++) {
        size_t i = 0;

        while (i < length && (at[i] | 0x20) == (suffix[i] | 0x20))
            i++;
        if (i == length && (at[i] == '.' || at + length == end))
            return true;
    }
    return false;
}

const struct writer_format *writer_format_find(const char *name, const char *path)
{
    const char *file = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;

    for (size_t i = 0; i < ARRAY_COUNT(formats); i++)
        if (name != NULL ? strcmp(name, formats[i]->name) == 0 : name_holds(file, file + strlen(file), formats[i]->suffix))
            return formats[i];
    return NULL;
}

bool writer_fail(struct writer *writer, const char *what, ...)
{
    va_list arguments;

    if (writer->problem[0] != 0)
        return false;
    va_start(arguments, what);
    vsnprintf(writer->problem, sizeof(writer->problem), what, arguments);
    va_end(arguments);
    return false;
}

bool writer_sink_good(struct writer *writer)
{
    return !writer->sink.failed || writer_fail(writer, "%s", writer->sink.problem);
}

bool writer_seconds(struct writer *writer, const struct object_request *request, uint64_t row, uint32_t *ret_s)
{
    int64_t seconds = request->at_ns / NS_PER_S;

    if (seconds > UINT32_MAX)
        return writer_fail(writer, "request %llu comes at %lld s, and %s has 32 bits for it; convert to csv or berth-hdf5",
                           (unsigned long long)row, (long long)seconds, writer->format->name);
    writer->losses.fractions += request->at_ns % NS_PER_S != 0;
    *ret_s = (uint32_t)seconds;
    return true;
}
