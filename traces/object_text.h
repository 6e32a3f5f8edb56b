/* What object traces of lines share: whole lines in the chunk, ids that are numbers or texts, and their refusals. */
#ifndef TRACES_OBJECT_TEXT_H
#define TRACES_OBJECT_TEXT_H

#include "object_reader.h"

/* At least one whole line at chunk[start], and text->whole behind the last whole one; false: trace->end says why. The last
 * line is given a newline when it has none. */
bool object_lines(struct object_trace *trace);

/* A line of the request `row`, as messages count them; column from 1; "what; remedy" or "what": then the remedy is the
 * common one. STATUS_CORRUPT. */
__attribute__((format(printf, 4, 5)))
enum status object_refuse_line(struct object_trace *trace, uint64_t row, size_t column, const char *what, ...);
/* At the file's begin: no byte order mark, no other encoding. */
enum status object_text_start(struct object_trace *trace);

/* NULL when good, else the problem as words that follow the quoted text. */
const char *object_id_of(struct object_trace *trace, const char *text, size_t length, uint64_t *ret_id);
const char *object_size_of(const char *text, size_t length, uint64_t *ret_size_bytes);

/* Up to eight digits at once (after Mula and Lemire): ret_count of them, which may be followed by anything; reads 8 bytes. */
static inline uint64_t eight_digits(const char *at, uint32_t *ret_count)
{
    uint64_t word;
    uint64_t other;
    uint32_t count;

    memcpy(&word, at, sizeof(word));
    word ^= UINT64_C(0x3030303030303030);
    /* The high bit of each byte that is no digit; a carry spoils bytes behind the first such one only. */
    other = ((word + UINT64_C(0x7676767676767676)) | word) & UINT64_C(0x8080808080808080);
    count = other == 0 ? 8 : (uint32_t)__builtin_ctzll(other) / 8;
    *ret_count = count;
    if (count == 0)
        return 0;
    word <<= 64 - 8 * count; /* leading zeros */
    word = word * 10 + (word >> 8);
    return ((word & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064) +
            ((word >> 16) & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001)) >> 32;
}

/* A run of digits: behind it, and how many there were, 21 for more than 20 or 2^64 and above. Reads 24 bytes at most. */
const char *object_long_digits(const char *at, uint64_t *ret_value, uint32_t *ret_count);
static inline const char *object_digits(const char *at, uint64_t *ret_value, uint32_t *ret_count)
{
    *ret_value = eight_digits(at, ret_count);
    return *ret_count < 8 ? at + *ret_count : object_long_digits(at, ret_value, ret_count);
}

/* An id at `at` up to the byte `separator` or the line's end. Returns where it ends; NULL: not plainly good, so that
 * object_id_of() shall say, once the texts are settled. `quote` begins no plain id. A text is noted and gets its number
 * when texts are settled: until then its bytes and ret_id must stay. */
bool object_texts_settle(struct object_trace *trace); /* false: no memory; trace->end says so */
const char *object_plain_id(struct object_trace *trace, const char *at, char separator, char quote, uint64_t *ret_id);

#endif
