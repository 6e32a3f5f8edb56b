/* Characters of UTF-8, strictly: no surrogates, no long forms, nothing above U+10FFFF. */
#ifndef TOKENIZER_UTF8_H
#define TOKENIZER_UTF8_H

#include "base/base.h"

#define UTF8_REPLACEMENT "\xef\xbf\xbd"
#define UTF8_REPLACEMENT_BYTES 3

struct utf8 {
    uint32_t code;  /* of a good one */
    uint32_t bytes; /* that it takes; of a bad one the longest start of a character (Unicode 15, 3.9, "maximal subpart"), 1 at least */
    bool good;
    bool cut;       /* bad, but more bytes could make it good */
};
/* What begins at text[0]; count > 0. */
struct utf8 utf8_at(const char *text, size_t count);
/* The last character of a text that is valid; count > 0. */
struct utf8 utf8_before(const char *text, size_t count);
/* Bytes of ret_text used, at most 4. */
uint32_t utf8_write(uint32_t code, char *ret_text);
/* How many bytes from the start are valid: `count` when all are. */
size_t utf8_valid(const char *text, size_t count);

/* White_Space, as \s means it. */
bool code_is_space(uint32_t code);
/* What \w means: letters, marks, digits, joiners. */
bool code_is_word(uint32_t code);

#endif
