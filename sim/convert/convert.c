/* Requests go from a reader to a writer in batches; by way of a spool where the output tells next accesses and the input does
 * not. */
#include "convert/convert.h"

#include <stdio.h>

#include "cachelab/progress.h"
#include "convert/spool.h"

enum { BATCH_ROWS = 4096 };

struct conversion {
    const struct convert_config *config;
    struct object_trace *trace;
    struct writer writer;
    struct spool spool;
    struct lab_progress progress;
    char *message;
};

static enum status say_file(struct conversion *conversion, const char *path, const char *problem, enum status status)
{
    snprintf(conversion->message, TRACE_MESSAGE_MAX, "%.*s: %s", TRACE_MESSAGE_MAX / 2, path, problem);
    return status;
}

static bool is_packed(const char *path)
{
    size_t length = strlen(path);

    return length > 4 && strcmp(path + length - 4, ".zst") == 0;
}

/* --- what goes from here to there --- */

static enum status stopped_or_ok(struct conversion *conversion, uint64_t requests)
{
    const struct convert_config *config = conversion->config;

    lab_progress_show(&conversion->progress, requests);
    return config->stop != NULL && *config->stop != 0 ? STATUS_CONFLICT : STATUS_OK;
}

static enum status write_rows(struct conversion *conversion, const struct object_request *rows, uint32_t count)
{
    struct writer *writer = &conversion->writer;

    if (!writer->format->write(writer, rows, count))
        return say_file(conversion, conversion->config->output, writer->problem, STATUS_IO);
    writer->requests += count;
    return stopped_or_ok(conversion, writer->requests);
}

static enum status spool_rows(struct conversion *conversion, const struct object_request *rows, uint32_t count)
{
    if (spool_add(&conversion->spool, rows, count) != STATUS_OK)
        return say_file(conversion, conversion->config->output, conversion->spool.problem, STATUS_IO);
    return stopped_or_ok(conversion, conversion->spool.requests);
}

static enum status read_all(struct conversion *conversion,
                            enum status (*take)(struct conversion *, const struct object_request *, uint32_t))
{
    struct object_request rows[BATCH_ROWS];
    uint32_t count;
    enum status status;

    while ((status = object_trace_read(conversion->trace, rows, BATCH_ROWS, &count)) == STATUS_OK) {
        status = take(conversion, rows, count);
        if (status != STATUS_OK)
            return status;
    }
    if (status == STATUS_END)
        return STATUS_OK;
    snprintf(conversion->message, TRACE_MESSAGE_MAX, "%s", object_trace_message(conversion->trace));
    return status;
}

static enum status write_spool(struct conversion *conversion)
{
    struct spool *spool = &conversion->spool;
    enum status status = spool_find_next(spool);

    if (status != STATUS_OK)
        say_file(conversion, conversion->config->output, spool->problem, status);
    lab_progress_end(&conversion->progress);
    lab_progress_begin(&conversion->progress, conversion->config->progress, conversion->config->output, spool->requests);
    while (status == STATUS_OK && conversion->writer.requests < spool->requests) {
        const struct object_request *rows;
        uint32_t count;

        status = spool_read(spool, conversion->writer.requests, &rows, &count);
        status = status == STATUS_OK ? write_rows(conversion, rows, count)
                                     : say_file(conversion, conversion->config->output, spool->problem, status);
    }
    return status;
}

static enum status by_way_of_spool(struct conversion *conversion)
{
    enum status status = spool_open(&conversion->spool, conversion->config->output);

    if (status != STATUS_OK)
        say_file(conversion, conversion->config->output, conversion->spool.problem, status);
    if (status == STATUS_OK)
        status = read_all(conversion, spool_rows);
    if (status == STATUS_OK)
        status = write_spool(conversion);
    spool_close(&conversion->spool);
    return status;
}

/* --- beginning and end --- */

static enum status find_format(struct conversion *conversion)
{
    const struct convert_config *config = conversion->config;
    char names[128] = "";

    conversion->writer.format = writer_format_find(config->output_format, config->output);
    for (size_t i = 0; writer_format_at(i) != NULL; i++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i > 0 ? ", " : "", writer_format_at(i));
    if (conversion->writer.format == NULL) {
        char problem[256];

        snprintf(problem, sizeof(problem), "%s; name one of %s",
                 config->output_format != NULL ? "no such format is written" : "the name does not tell its format", names);
        return say_file(conversion, config->output, problem, STATUS_INVALID);
    }
    if (is_packed(config->output) && !conversion->writer.format->packs)
        return say_file(conversion, config->output, "this format is not written through zstd; leave .zst out, and pack it afterwards",
                        STATUS_INVALID);
    return STATUS_OK;
}

static enum status begin(struct conversion *conversion)
{
    const struct convert_config *config = conversion->config;
    struct writer *writer = &conversion->writer;
    const struct object_trace_info info = object_trace_info(conversion->trace);

    writer->trace = conversion->trace;
    writer->has_size = info.has_size || config->size_given;
    writer->has_time = info.has_time;
    if (sink_open(&writer->sink, config->output, is_packed(config->output)) != STATUS_OK)
        return say_file(conversion, config->output, writer->sink.problem, STATUS_IO);
    return writer->format->begin(writer) ? STATUS_OK : say_file(conversion, config->output, writer->problem, STATUS_IO);
}

/* The writer's end in any case, and the file's only after success. */
static enum status finish(struct conversion *conversion, enum status status)
{
    struct writer *writer = &conversion->writer;

    if (status != STATUS_OK)
        writer_fail(writer, "the conversion broke off");
    if (!writer->format->end(writer) && status == STATUS_OK)
        status = say_file(conversion, conversion->config->output, writer->problem, STATUS_IO);
    if (status != STATUS_OK) {
        sink_abandon(&writer->sink);
        return status;
    }
    return sink_finish(&writer->sink) == STATUS_OK
               ? STATUS_OK
               : say_file(conversion, conversion->config->output, writer->sink.problem, STATUS_IO);
}

static uint64_t names_count(const struct object_trace *trace)
{
    size_t length;
    uint64_t count = 0;

    while (object_trace_name(trace, OBJECT_NAMES_BEGIN + count, &length) != NULL)
        count++;
    return count;
}

static void tell(struct conversion *conversion, struct convert_result *ret_result)
{
    const struct writer *writer = &conversion->writer;
    const struct object_trace_info info = object_trace_info(conversion->trace);
    uint64_t names = names_count(conversion->trace);

    *ret_result = (struct convert_result){.info = info, .format = writer->format->name, .packed = is_packed(conversion->config->output),
                                          .found_next = writer->format->wants_next && !info.has_next,
                                          .kept_next = writer->format->wants_next && info.has_next, .losses = writer->losses,
                                          .needs_all = writer->format->needs_all, .names = names, .bytes = writer->sink.bytes};
    ret_result->losses.names = names > 0 && !writer->format->keeps_names;
}

enum status convert(const struct convert_config *config, struct convert_result *ret_result, char ret_message[TRACE_MESSAGE_MAX])
{
    struct conversion conversion = {.config = config, .message = ret_message, .writer.sink.fd = -1, .spool.fd = -1};
    enum status status = find_format(&conversion);

    if (status == STATUS_OK)
        status = object_trace_open(config->input, config->input_format, config->options, &conversion.trace, ret_message);
    if (status != STATUS_OK)
        return status;
    status = begin(&conversion);
    lab_progress_begin(&conversion.progress, config->progress, config->input, 0);
    if (conversion.writer.sink.path != NULL) {
        if (status == STATUS_OK)
            status = conversion.writer.format->wants_next && !object_trace_info(conversion.trace).has_next
                         ? by_way_of_spool(&conversion)
                         : read_all(&conversion, write_rows);
        status = finish(&conversion, status);
    }
    lab_progress_end(&conversion.progress);
    if (status == STATUS_OK)
        tell(&conversion, ret_result);
    object_trace_close(conversion.trace);
    return status;
}
