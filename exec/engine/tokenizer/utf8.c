/* Characters of UTF-8 (Unicode 15, table 3-7: the second byte decides what is a long form, a surrogate or too great). */
#include "engine/tokenizer/utf8.h"

#include <utf8proc.h>

struct utf8 utf8_at(const char *text, size_t count)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned first = bytes[0];
    unsigned need = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    unsigned low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    struct utf8 at = {.code = first, .bytes = 1, .good = need == 1};

    if (need <= 1)
        return at;
    at.code = first & (0x7fu >> need);
    for (; at.bytes < need; at.bytes++) {
        unsigned next;

        if (at.bytes >= count) {
            at.cut = true;
            return at;
        }
        next = bytes[at.bytes];
        if (next < low || next > high)
            return at;
        at.code = at.code << 6 | (next & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    at.good = true;
    return at;
}

struct utf8 utf8_before(const char *text, size_t count)
{
    size_t at = count - 1;

    while (at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
        at--;
    return utf8_at(text + at, count - at);
}

uint32_t utf8_write(uint32_t code, char *ret_text)
{
    uint32_t bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned firsts[] = {0, 0, 0xc0, 0xe0, 0xf0};

    for (uint32_t i = bytes - 1; i > 0; i--) {
        ret_text[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    ret_text[0] = (char)(firsts[bytes] | code);
    return bytes;
}

size_t utf8_valid(const char *text, size_t count)
{
    size_t at = 0;

    while (at < count) {
        struct utf8 here;

        if ((unsigned char)text[at] < 0x80) {
            at++;
            continue;
        }
        here = utf8_at(text + at, count - at);
        if (!here.good)
            break;
        at += here.bytes;
    }
    return at;
}

bool code_is_space(uint32_t code)
{
    return (code >= 9 && code <= 13) || code == ' ' || code == 0x85 || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f ||
           code == 0x3000;
}

bool code_is_word(uint32_t code)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);

    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) || category == UTF8PROC_CATEGORY_PC ||
           code == 0x200c || code == 0x200d;
}
