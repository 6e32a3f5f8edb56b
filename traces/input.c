/* Lines of a file that may be plain, gzip or zstd: the first bytes say which, the name says nothing. Memory is one line
 * and one block, however large the file or however well it is packed. A stream that ends early is told apart from one
 * that ends. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>

#include "reader.h"

enum packing { PACKING_PLAIN, PACKING_GZIP, PACKING_ZSTD };

enum { RAW_BYTES = 1 << 16, TEXT_BYTES = 1 << 16 };

struct input {
    int fd; /* -1: bytes */
    const unsigned char *bytes;
    size_t bytes_left;
    size_t bytes_given;
    enum packing packing;
    bool between; /* frames of a packed file: here it may end */
    bool cut;
    bool text_ended;
    bool raw_ended;
    bool dropping; /* the rest of a line that is too long */
    z_stream inflate;
    bool inflate_made;
    ZSTD_DStream *zstd;
    uint64_t lines;
    char *text; /* [start, end) is not given yet */
    size_t text_bytes;
    size_t start;
    size_t end;
    size_t raw_start;
    size_t raw_end;
    unsigned char raw[RAW_BYTES];
    char problem[INPUT_PROBLEM_MAX];
};

/* As many bytes as there is room for, so that a pipe cannot hide the magic number; fewer only at the end. */
static enum status read_block(struct input *input, void *target, size_t room, size_t *ret_count)
{
    size_t count = 0;

    if (input->fd < 0) {
        count = min_u64(input->bytes_left, room);
        if (count > 0)
            memcpy(target, input->bytes, count);
        input->bytes += count;
        input->bytes_left -= count;
        input->bytes_given += count;
    }
    while (input->fd >= 0 && count < room) {
        ssize_t got = read(input->fd, (char *)target + count, room - count);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            snprintf(input->problem, sizeof(input->problem), "cannot read: %s", strerror(errno));
            return STATUS_IO;
        }
        if (got == 0)
            break;
        count += (size_t)got;
    }
    *ret_count = count;
    return STATUS_OK;
}

static enum status raw_fill(struct input *input)
{
    enum status status;

    if (input->raw_ended || input->raw_start < input->raw_end)
        return STATUS_OK;
    input->raw_start = 0;
    input->raw_end = 0;
    status = read_block(input, input->raw, RAW_BYTES, &input->raw_end);
    input->raw_ended = status == STATUS_OK && input->raw_end == 0;
    return status;
}

static enum status stream_damaged(struct input *input, const char *kind, const char *why)
{
    snprintf(input->problem, sizeof(input->problem), "the %s stream is damaged (%s); fetch or pack the file again",
             kind, why != NULL ? why : "no reason given");
    return STATUS_CORRUPT;
}

static enum status stream_cut(struct input *input, const char *kind)
{
    input->cut = true;
    snprintf(input->problem, sizeof(input->problem),
             "the %s stream ends early, the file was cut; fetch it again, or be lenient to use what is there", kind);
    return STATUS_CORRUPT;
}

static enum status unpack_plain(struct input *input, char *target, size_t room, size_t *ret_count)
{
    size_t count = min_u64(room, input->raw_end - input->raw_start);

    memcpy(target, input->raw + input->raw_start, count);
    input->raw_start += count;
    input->text_ended = input->raw_ended;
    *ret_count = count;
    return STATUS_OK;
}

static enum status unpack_gzip(struct input *input, char *target, size_t room, size_t *ret_count)
{
    z_stream *stream = &input->inflate;
    size_t available = input->raw_end - input->raw_start;
    int result;

    *ret_count = 0;
    if (input->between && available == 0) {
        input->text_ended = input->raw_ended;
        return STATUS_OK;
    }
    if (input->between && inflateReset(stream) != Z_OK)
        return stream_damaged(input, "gzip", stream->msg);
    input->between = false;
    stream->next_in = input->raw + input->raw_start;
    stream->avail_in = (uInt)available;
    stream->next_out = (unsigned char *)target;
    stream->avail_out = (uInt)room;
    result = inflate(stream, Z_NO_FLUSH);
    input->raw_start = input->raw_end - stream->avail_in;
    *ret_count = room - stream->avail_out;
    if (result == Z_STREAM_END)
        input->between = true;
    else if (result != Z_OK && result != Z_BUF_ERROR)
        return stream_damaged(input, "gzip", stream->msg);
    else if (input->raw_ended && *ret_count == 0)
        return stream_cut(input, "gzip");
    return STATUS_OK;
}

static enum status unpack_zstd(struct input *input, char *target, size_t room, size_t *ret_count)
{
    ZSTD_inBuffer in = {input->raw, input->raw_end, input->raw_start};
    ZSTD_outBuffer out = {target, room, 0};
    size_t result;

    *ret_count = 0;
    if (input->between && in.pos == in.size) {
        input->text_ended = input->raw_ended;
        return STATUS_OK;
    }
    result = ZSTD_decompressStream(input->zstd, &out, &in);
    input->raw_start = in.pos;
    *ret_count = out.pos;
    if (ZSTD_isError(result))
        return stream_damaged(input, "zstd", ZSTD_getErrorName(result));
    input->between = result == 0;
    if (!input->between && input->raw_ended && out.pos == 0)
        return stream_cut(input, "zstd");
    return STATUS_OK;
}

/* Room for more behind the text not given yet; a line may grow to LINE_BYTES_MAX and a little. */
static enum status make_room(struct input *input)
{
    size_t kept = input->end - input->start;
    char *larger;

    memmove(input->text, input->text + input->start, kept);
    input->start = 0;
    input->end = kept;
    if (input->text_bytes - kept >= TEXT_BYTES / 2)
        return STATUS_OK;
    larger = realloc(input->text, input->text_bytes * 2);
    if (larger == NULL) {
        snprintf(input->problem, sizeof(input->problem), "no memory for a line");
        return STATUS_IO;
    }
    input->text = larger;
    input->text_bytes *= 2;
    return STATUS_OK;
}

/* At least one more byte of text, or text_ended. */
static enum status unpack(struct input *input, char *target, size_t room, size_t *ret_count)
{
    enum status status = STATUS_OK;

    *ret_count = 0;
    while (status == STATUS_OK && *ret_count == 0 && !input->text_ended) {
        status = raw_fill(input);
        if (status != STATUS_OK)
            break;
        switch (input->packing) {
        case PACKING_PLAIN: status = unpack_plain(input, target, room, ret_count); break;
        case PACKING_GZIP: status = unpack_gzip(input, target, room, ret_count); break;
        case PACKING_ZSTD: status = unpack_zstd(input, target, room, ret_count); break;
        }
    }
    return status;
}

static enum status text_fill(struct input *input)
{
    enum status status = make_room(input);
    size_t count = 0;

    if (status == STATUS_OK)
        status = unpack(input, input->text + input->end, input->text_bytes - input->end, &count);
    input->end += count;
    return status;
}

static bool is_zstd(const unsigned char *head)
{
    /* A frame, or one of the 16 skippable ones that pzstd and seekable files begin with. */
    return memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0 ||
           ((head[0] & 0xf0) == 0x50 && memcmp(head + 1, "\x2a\x4d\x18", 3) == 0);
}

static enum status input_start(struct input *input)
{
    enum status status = raw_fill(input);
    size_t count = input->raw_end;

    if (status != STATUS_OK)
        return status;
    input->between = true;
    if (count >= 2 && input->raw[0] == 0x1f && input->raw[1] == 0x8b) {
        input->packing = PACKING_GZIP;
        input->inflate_made = inflateInit2(&input->inflate, 15 + 16) == Z_OK;
        if (input->inflate_made)
            return STATUS_OK;
    } else if (count >= 4 && is_zstd(input->raw)) {
        input->packing = PACKING_ZSTD;
        input->zstd = ZSTD_createDStream();
        if (input->zstd != NULL)
            return STATUS_OK;
    } else {
        return STATUS_OK;
    }
    snprintf(input->problem, sizeof(input->problem), "no memory to unpack the file");
    return STATUS_IO;
}

static struct input *input_create(void)
{
    struct input *input = malloc(sizeof(*input));

    if (input == NULL)
        return NULL;
    memset(input, 0, offsetof(struct input, raw));
    input->problem[0] = 0;
    input->fd = -1;
    input->text_bytes = TEXT_BYTES;
    input->text = malloc(TEXT_BYTES);
    if (input->text != NULL)
        return input;
    free(input);
    return NULL;
}

enum status input_open(const char *path, struct input **ret_input, char *ret_problem)
{
    struct input *input = input_create();
    enum status status = STATUS_IO;

    if (input == NULL) {
        snprintf(ret_problem, INPUT_PROBLEM_MAX, "no memory to read the file");
        return STATUS_IO;
    }
    input->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (input->fd < 0) {
        snprintf(input->problem, sizeof(input->problem), "cannot open: %s; check the path", strerror(errno));
        goto close_input;
    }
    status = input_start(input);
    if (status != STATUS_OK)
        goto close_input;
    *ret_input = input;
    return STATUS_OK;

close_input:
    memcpy(ret_problem, input->problem, INPUT_PROBLEM_MAX);
    input_close(input);
    return status;
}

struct input *input_of_bytes(const void *bytes, size_t count)
{
    struct input *input = input_create();

    if (input == NULL)
        return NULL;
    input->bytes = bytes;
    input->bytes_left = count;
    if (input_start(input) == STATUS_OK)
        return input;
    input_close(input);
    return NULL;
}

void input_close(struct input *input)
{
    if (input == NULL)
        return;
    if (input->fd >= 0)
        close(input->fd);
    if (input->inflate_made)
        inflateEnd(&input->inflate);
    ZSTD_freeDStream(input->zstd);
    free(input->text);
    free(input);
}

enum status input_read(struct input *input, void *target, size_t room, size_t *ret_count)
{
    enum status status;

    check(input->start == input->end);
    *ret_count = 0;
    if (input->text_ended)
        return STATUS_END;
    /* Without packing there is no need of a stop on the way. */
    if (input->packing == PACKING_PLAIN && input->raw_start == input->raw_end) {
        status = read_block(input, target, room, ret_count);
        input->text_ended = status == STATUS_OK && *ret_count == 0;
    } else {
        status = unpack(input, target, room, ret_count);
    }
    return status == STATUS_OK && *ret_count == 0 ? STATUS_END : status;
}

uint32_t input_millionths(const struct input *input)
{
    struct stat facts;
    off_t at;

    if (input->fd < 0 || fstat(input->fd, &facts) != 0 || facts.st_size <= 0)
        return 0;
    at = lseek(input->fd, 0, SEEK_CUR);
    return at <= 0 ? 0 : (uint32_t)((double)min_i64(at, facts.st_size) / (double)facts.st_size * 1e6);
}

enum status input_rewind(struct input *input)
{
    if (input->fd >= 0 && lseek(input->fd, 0, SEEK_SET) < 0) {
        snprintf(input->problem, sizeof(input->problem), "cannot be read twice: %s; give a file, no pipe", strerror(errno));
        return STATUS_IO;
    }
    input->bytes -= input->bytes_given;
    input->bytes_left += input->bytes_given;
    input->bytes_given = 0;
    if (input->inflate_made)
        inflateEnd(&input->inflate);
    input->inflate_made = false;
    ZSTD_freeDStream(input->zstd);
    input->zstd = NULL;
    input->packing = PACKING_PLAIN;
    input->cut = false;
    input->text_ended = false;
    input->raw_ended = false;
    input->dropping = false;
    input->lines = 0;
    input->start = 0;
    input->end = 0;
    input->raw_start = 0;
    input->raw_end = 0;
    return input_start(input);
}

static void give_line(struct input *input, size_t length, bool terminated, struct line *ret_line)
{
    char *text = input->text + input->start;

    input->start += length + terminated;
    if (length > 0 && length <= LINE_BYTES_MAX + 1 && text[length - 1] == '\r')
        length--;
    *ret_line = (struct line){text, length, ++input->lines, terminated, length > LINE_BYTES_MAX};
    if (ret_line->too_long)
        ret_line->length = 0;
}

enum status input_next(struct input *input, struct line *ret_line)
{
    size_t searched = 0;

    for (;;) {
        char *text = input->text + input->start;
        size_t length = input->end - input->start;
        char *newline = memchr(text + searched, '\n', length - searched);
        enum status status;

        if (input->dropping) {
            input->start = newline != NULL ? input->start + (size_t)(newline - text) + 1 : input->end;
            input->dropping = newline == NULL;
            length = 0;
            if (newline != NULL)
                continue;
        } else if (newline != NULL) {
            give_line(input, (size_t)(newline - text), true, ret_line);
            return STATUS_OK;
        } else if (length > LINE_BYTES_MAX + 1) {
            input->dropping = true;
            input->start = input->end;
            *ret_line = (struct line){text, 0, ++input->lines, true, true};
            return STATUS_OK;
        }
        searched = length;
        if (input->text_ended)
            break;
        status = text_fill(input);
        if (status != STATUS_OK)
            return status;
    }
    if (searched == 0)
        return STATUS_END;
    give_line(input, searched, false, ret_line);
    return STATUS_OK;
}

const char *input_problem(const struct input *input)
{
    return input->problem;
}

bool input_was_cut(const struct input *input)
{
    return input->cut;
}
