#include "spot.h"

#include <stdarg.h>
#include <stdlib.h>

#include "reader.h"

enum { METADATA, DATA, KEYS };
static const char *const keys[KEYS] = {[METADATA] = "metadata", [DATA] = "data"};
static const char *const gap_key[] = {"gap_seconds"};

struct spot_trace {
    struct spot_info info;
    struct spot_step *steps;
    size_t count;
    size_t room;
    size_t next;
};

/* The text of the file while it is read, and the place for messages. */
struct spot_text {
    const char *path;
    char *bytes;
    size_t count;
    size_t room;
    char *message;
};

/* The place is that of a byte of the text; NULL: the file as a whole. */
__attribute__((format(printf, 3, 4)))
static enum status refuse(struct spot_text *text, const char *at, const char *what, ...)
{
    size_t line = 1;
    const char *begin = text->bytes;
    struct quoted path = quote(text->path, strlen(text->path));
    va_list arguments;
    int used;

    for (const char *c = text->bytes; c < at; c++) {
        if (*c != '\n')
            continue;
        line++;
        begin = c + 1;
    }
    used = at == NULL ? snprintf(text->message, TRACE_MESSAGE_MAX, "%s: ", path.text)
                      : snprintf(text->message, TRACE_MESSAGE_MAX, "%s:%zu:%td: ", path.text, line, at - begin + 1);
    va_start(arguments, what);
    vsnprintf(text->message + used, TRACE_MESSAGE_MAX - (size_t)used, what, arguments);
    va_end(arguments);
    return STATUS_CORRUPT;
}

static enum status text_add(struct spot_text *text, const struct line *line)
{
    size_t wanted = text->count + line->length + 1;

    if (line->too_long || wanted > SPOT_BYTES_MAX)
        return refuse(text, NULL, "a line is longer than 1 MiB, or the file than 64 MiB; is it a spot trace?");
    if (wanted > text->room) {
        size_t room = wanted * 2;
        char *larger = realloc(text->bytes, room);

        if (larger == NULL) {
            refuse(text, NULL, "no memory for the file");
            return STATUS_IO;
        }
        text->bytes = larger;
        text->room = room;
    }
    memcpy(text->bytes + text->count, line->text, line->length);
    text->bytes[wanted - 1] = '\n';
    text->count = wanted;
    return STATUS_OK;
}

static enum status text_read(struct spot_text *text, struct input *input)
{
    struct line line;
    enum status status;

    while ((status = input_next(input, &line)) == STATUS_OK) {
        status = text_add(text, &line);
        if (status != STATUS_OK)
            return status;
    }
    if (status != STATUS_END) {
        refuse(text, NULL, "%s", input_problem(input));
        return status;
    }
    return text->count > 0 ? STATUS_OK
                           : refuse(text, NULL, "the file is empty; a spot trace is a JSON object with \"data\"");
}

static enum status read_gap(struct spot_text *text, const struct json_value *metadata, int64_t *ret_gap_ns)
{
    struct json_value gap;
    const char *problem;
    size_t offset;

    if (!json_find(metadata->text, metadata->length, gap_key, 1, &gap, &problem, &offset))
        return refuse(text, metadata->text + offset, "%s; \"metadata\" is an object with \"gap_seconds\"", problem);
    if (gap.text == NULL || gap.kind != 'n')
        return refuse(text, gap.text != NULL ? gap.text : metadata->text,
                      "no number \"gap_seconds\" in \"metadata\"; it says how far apart the counts are");
    problem = value_decimal_ns(gap.text, gap.length, 9, ret_gap_ns);
    if (problem == NULL && *ret_gap_ns == 0)
        problem = "is no gap";
    return problem == NULL ? STATUS_OK
                           : refuse(text, gap.text, "\"gap_seconds\" %s %s; give seconds above 0",
                                    quote(gap.text, gap.length).text, problem);
}

static bool step_add(struct spot_trace *trace, int64_t at_ns, uint32_t available)
{
    if (trace->count > 0 && trace->steps[trace->count - 1].available == available)
        return true;
    if (trace->count == trace->room) {
        size_t room = trace->room == 0 ? 64 : trace->room * 2;
        struct spot_step *larger = realloc(trace->steps, room * sizeof(*larger));

        if (larger == NULL)
            return false;
        trace->steps = larger;
        trace->room = room;
    }
    trace->steps[trace->count++] = (struct spot_step){at_ns, available};
    return true;
}

static enum status count_add(struct spot_text *text, struct spot_trace *trace, const char *at, size_t length)
{
    struct spot_info *info = &trace->info;
    uint32_t available = 0;
    const char *problem = value_count(at, length, SPOT_COUNT_MAX, &available);

    if (problem != NULL)
        return refuse(text, at, "the count '%s' %s; counts are whole numbers of machines", quote(at, length).text,
                      problem);
    if (info->ticks >= (uint64_t)(TIME_MAX_NS / info->gap_ns))
        return refuse(text, at, "the counts go on for more than 230 years; correct \"gap_seconds\"");
    if (!step_add(trace, (int64_t)info->ticks * info->gap_ns, available)) {
        refuse(text, NULL, "no memory for the steps");
        return STATUS_IO;
    }
    info->ticks++;
    info->available_max = max_u32(info->available_max, available);
    info->available_ticks += available > 0;
    return STATUS_OK;
}

static bool is_between(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',';
}

/* The array's syntax was checked with the object; here only its values are. */
static enum status read_counts(struct spot_text *text, struct spot_trace *trace, const struct json_value *data)
{
    const char *at = data->text + 1;
    const char *end = data->text + data->length - 1;

    for (;;) {
        const char *begin;
        enum status status;

        while (at < end && is_between(*at))
            at++;
        if (at == end)
            break;
        for (begin = at; at < end && !is_between(*at); at++)
            ;
        status = count_add(text, trace, begin, (size_t)(at - begin));
        if (status != STATUS_OK)
            return status;
    }
    if (trace->info.ticks == 0)
        return refuse(text, data->text, "\"data\" is empty; a spot trace has counts");
    trace->info.duration_ns = (int64_t)trace->info.ticks * trace->info.gap_ns;
    return STATUS_OK;
}

static enum status read_object(struct spot_text *text, struct spot_trace *trace)
{
    struct json_value values[KEYS];
    const char *problem;
    size_t offset;
    enum status status;

    if (!json_find(text->bytes, text->count, keys, KEYS, values, &problem, &offset))
        return refuse(text, text->bytes + offset, "%s; a spot trace is one JSON object", problem);
    for (size_t i = 0; i < KEYS; i++)
        if (values[i].text == NULL || values[i].kind != (i == DATA ? 'a' : 'o'))
            return refuse(text, values[i].text != NULL ? values[i].text : text->bytes,
                          "no %s \"%s\"; a spot trace is {\"metadata\": {\"gap_seconds\": 300}, \"data\": [1, 0]}",
                          i == DATA ? "array" : "object", keys[i]);
    status = read_gap(text, &values[METADATA], &trace->info.gap_ns);
    return status == STATUS_OK ? read_counts(text, trace, &values[DATA]) : status;
}

/* Counts of machines taken become counts of machines left; changes stay where they are. */
static void turn_over(struct spot_trace *trace)
{
    struct spot_info *info = &trace->info;
    uint64_t full_ticks = 0;
    uint32_t left_max = 0;

    for (size_t i = 0; i < trace->count; i++) {
        struct spot_step *step = &trace->steps[i];
        int64_t until_ns = i + 1 < trace->count ? trace->steps[i + 1].at_ns : info->duration_ns;

        full_ticks += step->available == info->available_max ? (uint64_t)((until_ns - step->at_ns) / info->gap_ns) : 0;
        step->available = info->available_max - step->available;
        left_max = max_u32(left_max, step->available);
    }
    info->available_max = left_max;
    info->available_ticks = info->ticks - full_ticks;
}

static enum status spot_read(const char *path, enum spot_polarity polarity, struct input *input,
                             struct spot_trace **ret_trace, char *ret_message)
{
    struct spot_text text = {.path = path, .message = ret_message};
    struct spot_trace *trace = calloc(1, sizeof(*trace));
    enum status status = STATUS_IO;

    if (trace == NULL)
        refuse(&text, NULL, "no memory for a spot trace");
    else
        status = text_read(&text, input);
    if (status == STATUS_OK)
        status = read_object(&text, trace);
    if (status == STATUS_OK && polarity == SPOT_TAKEN)
        turn_over(trace);
    free(text.bytes);
    input_close(input);
    if (status == STATUS_OK)
        *ret_trace = trace;
    else
        spot_close(trace);
    return status;
}

enum status spot_open(const char *path, enum spot_polarity polarity, struct spot_trace **ret_trace, char *ret_message)
{
    struct spot_text text = {.path = path, .message = ret_message};
    char problem[INPUT_PROBLEM_MAX];
    struct input *input;
    enum status status = input_open(path, &input, problem);

    if (status == STATUS_OK)
        return spot_read(path, polarity, input, ret_trace, ret_message);
    refuse(&text, NULL, "%s", problem);
    return status;
}

enum status spot_open_bytes(const void *bytes, size_t count, enum spot_polarity polarity,
                            struct spot_trace **ret_trace, char *ret_message)
{
    struct input *input = input_of_bytes(bytes, count);

    if (input != NULL)
        return spot_read("bytes", polarity, input, ret_trace, ret_message);
    snprintf(ret_message, TRACE_MESSAGE_MAX, "no memory to read a spot trace");
    return STATUS_IO;
}

enum status spot_next(struct spot_trace *trace, struct spot_step *ret_step)
{
    if (trace->next == trace->count)
        return STATUS_END;
    *ret_step = trace->steps[trace->next++];
    return STATUS_OK;
}

void spot_rewind(struct spot_trace *trace)
{
    trace->next = 0;
}

struct spot_info spot_info(const struct spot_trace *trace)
{
    return trace->info;
}

void spot_close(struct spot_trace *trace)
{
    if (trace == NULL)
        return;
    free(trace->steps);
    free(trace);
}
