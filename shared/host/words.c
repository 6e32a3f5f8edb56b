/* Excerpts, numbers and near names. The nearness is the optimal string alignment distance: a letter put in, left out,
 * changed, or two neighbours swapped cost one each (Damerau 1964). */
#include "host/words.h"

#include <stdio.h>

size_t character_bytes(const char *text, size_t count)
{
    unsigned char first = (unsigned char)text[0];
    size_t bytes = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;

    if (bytes == 0 || bytes > count)
        return 0;
    if (bytes == 1)
        return (first < ' ' || first == 0x7f) && first != '\n' && first != '\r' && first != '\t' ? 0 : 1;
    for (size_t i = 1; i < bytes; i++) {
        if (begins_character(text[i]))
            return 0;
    }
    return bytes;
}

const char *excerpt(const char *text, size_t count, char *ret_excerpt)
{
    const size_t shown_max = EXCERPT_MAX - 8;
    size_t shown = count < shown_max ? count : shown_max;

    while (shown < count && shown > 0 && !begins_character(text[shown]))
        shown--;
    for (size_t i = 0; i < shown; i++)
        ret_excerpt[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? ' ' : text[i];
    ret_excerpt[shown] = '\0';
    if (shown < count)
        strcpy(ret_excerpt + shown, "...");
    return ret_excerpt;
}

const char *number_text(double value, char *ret_text)
{
    char plain[NUMBER_TEXT_MAX];
    char *write = ret_text;

    snprintf(plain, sizeof(plain), value >= 1e7 || value <= -1e7 ? "%.6g" : "%.10g", value);
    for (const char *read = plain; *read != '\0'; read++) {
        *write++ = *read;
        if (*read != 'e')
            continue;
        /* printf's exponents have a sign and two digits at least: e+09 is written e9. */
        read++;
        if (*read == '-')
            *write++ = '-';
        while (read[1] == '0' && read[2] != '\0')
            read++;
    }
    *write = '\0';
    return ret_text;
}

const char *count_text(uint64_t value, char *ret_text)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
    char *at = ret_text;

    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *at++ = ',';
        *at++ = digits[i];
    }
    *at = '\0';
    return ret_text;
}

#define NAME_MAX_COMPARED 63

static uint32_t distance_of(const char *a, size_t a_count, const char *b, size_t b_count)
{
    uint32_t rows[3][NAME_MAX_COMPARED + 1];

    for (size_t j = 0; j <= b_count; j++)
        rows[0][j] = (uint32_t)j;
    for (size_t i = 1; i <= a_count; i++) {
        uint32_t *row = rows[i % 3];
        const uint32_t *above = rows[(i + 2) % 3];
        const uint32_t *above_that = rows[(i + 1) % 3];

        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= b_count; j++) {
            uint32_t best = above[j - 1] + (a[i - 1] != b[j - 1]);

            best = min_u32(best, min_u32(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = min_u32(best, above_that[j - 2] + 1);
            row[j] = best;
        }
    }
    return rows[a_count % 3][b_count];
}

void suggestion_begin(struct suggestion *suggestion, const char *wanted, size_t count)
{
    memset(suggestion, 0, sizeof(*suggestion));
    suggestion->distance = UINT32_MAX;
    if (count <= NAME_MAX_COMPARED)
        memcpy(suggestion->wanted, wanted, count);
}

void suggest(struct suggestion *suggestion, const char *name, size_t count)
{
    size_t wanted_count = strlen(suggestion->wanted);
    uint32_t distance;

    if (wanted_count == 0 || count > NAME_MAX_COMPARED)
        return;
    distance = distance_of(suggestion->wanted, wanted_count, name, count);
    /* duration for duration_s: the unit was forgotten. */
    if (count > wanted_count && name[wanted_count] == '_' && memcmp(name, suggestion->wanted, wanted_count) == 0)
        distance = 1;
    if (distance > max_u64(1, wanted_count / 3) || distance >= suggestion->distance)
        return;
    suggestion->distance = distance;
    excerpt(name, count, suggestion->name);
}

const char *suggestion_answer(const struct suggestion *suggestion)
{
    return suggestion->distance == UINT32_MAX ? NULL : suggestion->name;
}
