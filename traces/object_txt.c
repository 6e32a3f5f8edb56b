/* A key per line: nothing but who. */
#include "object_text.h"

/* The key at `at` is not plainly good. */
static void refuse_key(struct object_trace *trace, const char *at, uint64_t row)
{
    const char *end = memchr(at, '\n', trace->text.whole - trace->start);
    size_t length = (size_t)(end - at) - (end > at && end[-1] == '\r');
    uint64_t id;
    const char *problem = object_id_of(trace, at, length, &id);

    check(problem != NULL);
    object_refuse_line(trace, row, 1, "the key '%s' %s", quote(at, length).text, problem);
}

static uint32_t txt_fill(struct object_trace *trace, struct object_request *rows, uint32_t max)
{
    uint32_t count;
    const char *behind = NULL;

    if (trace->start >= trace->text.whole && !object_lines(trace))
        return 0;
    for (count = 0; count < max && trace->start < trace->text.whole; count++) {
        const char *at = trace->chunk + trace->start;

        behind = object_plain_id(trace, at, '\n', '\n', &rows[count].id);
        if (behind == NULL)
            break;
        rows[count].size_bytes = trace->options.size_bytes;
        rows[count].at_ns = 0;
        rows[count].next = OBJECT_NEXT_UNKNOWN;
        object_used(trace, (size_t)(behind - at) + (*behind == '\r') + 1);
    }
    if (trace->end != STATUS_OK || !object_texts_settle(trace))
        return 0;
    if (behind == NULL)
        refuse_key(trace, trace->chunk + trace->start, trace->row + count);
    return count;
}

const struct object_format object_format_txt = {
    .name = "txt",
    .about = "a key per line; no sizes, no times",
    .file_part = ".txt",
    .start = object_text_start,
    .fill = txt_fill,
};
