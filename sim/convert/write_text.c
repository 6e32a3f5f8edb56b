/* csv with the columns time, id and size, those that mean something, and keys per line. */
#include "convert/writer.h"

enum { NUMBER_BYTES = 24 };

/* Returns behind the digits. */
static char *put_number(char *at, uint64_t number)
{
    char digits[NUMBER_BYTES];
    size_t count = 0;

    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

/* Seconds, with as much of a fraction as there is. */
static char *put_time(char *at, int64_t at_ns)
{
    uint64_t fraction_ns = (uint64_t)(at_ns % NS_PER_S);
    uint64_t unit_ns = (uint64_t)NS_PER_S / 10;

    at = put_number(at, (uint64_t)(at_ns / NS_PER_S));
    if (fraction_ns == 0)
        return at;
    *at++ = '.';
    for (; fraction_ns > 0; fraction_ns %= unit_ns, unit_ns /= 10)
        *at++ = (char)('0' + fraction_ns / unit_ns);
    return at;
}

/* As RFC 4180 has it: in quotes where one byte would be taken for something else. */
static void write_name(struct sink *sink, const char *name, size_t length, bool quotes)
{
    if (!quotes || (memchr(name, ',', length) == NULL && memchr(name, '"', length) == NULL)) {
        sink_write(sink, name, length);
        return;
    }
    sink_write(sink, "\"", 1);
    for (size_t i = 0; i < length; i++)
        sink_write(sink, name[i] == '"' ? "\"\"" : &name[i], name[i] == '"' ? 2 : 1);
    sink_write(sink, "\"", 1);
}

static void write_id(struct writer *writer, uint64_t id, bool quotes)
{
    char text[NUMBER_BYTES];
    size_t length;
    const char *name = object_trace_name(writer->trace, id, &length);

    if (name != NULL)
        write_name(&writer->sink, name, length, quotes);
    else
        sink_write(&writer->sink, text, (size_t)(put_number(text, id) - text));
}

static bool csv_begin(struct writer *writer)
{
    const char *head = writer->has_time ? writer->has_size ? "time,id,size\n" : "time,id\n" : writer->has_size ? "id,size\n" : "id\n";

    sink_write(&writer->sink, head, strlen(head));
    return writer_sink_good(writer);
}

static bool csv_write(struct writer *writer, const struct object_request *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char text[2 * NUMBER_BYTES];
        char *end = text;

        if (writer->has_time) {
            end = put_time(end, rows[i].at_ns);
            *end++ = ',';
            sink_write(&writer->sink, text, (size_t)(end - text));
        }
        write_id(writer, rows[i].id, true);
        end = text;
        if (writer->has_size) {
            *end++ = ',';
            end = put_number(end, rows[i].size_bytes);
        }
        *end++ = '\n';
        sink_write(&writer->sink, text, (size_t)(end - text));
    }
    return writer_sink_good(writer);
}

static bool txt_begin(struct writer *writer)
{
    writer->losses.sizes = writer->has_size;
    writer->losses.times = writer->has_time;
    return true;
}

static bool txt_write(struct writer *writer, const struct object_request *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        write_id(writer, rows[i].id, false);
        sink_write(&writer->sink, "\n", 1);
    }
    return writer_sink_good(writer);
}

static bool text_end(struct writer *writer)
{
    return writer_sink_good(writer);
}

const struct writer_format writer_format_csv = {
    .name = "csv",
    .suffix = ".csv",
    .packs = true,
    .keeps_names = true,
    .begin = csv_begin,
    .write = csv_write,
    .end = text_end,
};

const struct writer_format writer_format_txt = {
    .name = "txt",
    .suffix = ".txt",
    .packs = true,
    .keeps_names = true,
    .begin = txt_begin,
    .write = txt_write,
    .end = text_end,
};
