/* Small texts that messages are made of: excerpts of what a user wrote, numbers as he would write them, near names. */
#ifndef HOST_WORDS_H
#define HOST_WORDS_H

#include "base/base.h"

/* Whether a byte of UTF-8 begins a character, rather than going on with one. */
static inline bool begins_character(char byte)
{
    return ((unsigned char)byte & 0xc0) != 0x80;
}

/* Bytes of the UTF-8 character that begins here; 0 when it is broken or cut, or a control character. */
size_t character_bytes(const char *text, size_t count);

/* Text of a user, short and harmless enough for a message; ret_excerpt has EXCERPT_MAX bytes and is returned. */
#define EXCERPT_MAX 72
const char *excerpt(const char *text, size_t count, char *ret_excerpt);

/* 12e9, 0.25, 1048576: the shortest of our forms; ret_text has NUMBER_TEXT_MAX bytes and is returned. */
#define NUMBER_TEXT_MAX 48
const char *number_text(double value, char *ret_text);
/* 1,234,567 */
const char *count_text(uint64_t value, char *ret_text);

/* The nearest of a list of names, built by calling suggest() once a name. */
struct suggestion {
    char wanted[64];
    char name[EXCERPT_MAX];
    uint32_t distance;
};
void suggestion_begin(struct suggestion *suggestion, const char *wanted, size_t count);
void suggest(struct suggestion *suggestion, const char *name, size_t count);
/* NULL when nothing is near: one slip in three letters is, and a name without its unit. */
const char *suggestion_answer(const struct suggestion *suggestion);

#endif
