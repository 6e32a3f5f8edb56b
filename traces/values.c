/* Texts to integers, strictly: what is not wholly a number, a date or a name is refused with words that say why. Time
 * never passes through a double, so equal texts give equal nanoseconds everywhere. */
#include "reader.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

const char *value_count(const char *text, size_t length, uint32_t max, uint32_t *ret_count)
{
    const char *at = text;
    const char *end = text + length;
    uint64_t count = 0;

    if (length == 0)
        return "is empty";
    if (*at == '-')
        return "is negative";
    for (; at < end && is_digit(*at); at++)
        count = min_u64(count * 10 + (uint64_t)(*at - '0'), UINT64_C(1) << 40);
    if (at == text)
        return "is not a number";
    if (at + 1 < end && *at == '.' && is_digit(at[1])) { /* as pandas writes a column that once had holes */
        do
            at++;
        while (at < end && *at == '0');
        if (at < end && is_digit(*at))
            return "is not a whole number";
    }
    if (at != end)
        return "is not a number";
    if (count > max)
        return "is absurdly large";
    *ret_count = (uint32_t)count;
    return NULL;
}

/* digits x 10^exponent. Digits past the 30th significant one cannot change what is rounded half up, unless they stand
 * before the point: then the number is far out of range, which the exponent keeps. */
struct decimal {
    uint128 digits;
    int64_t exponent;
};

enum { DECIMAL_DIGITS_MAX = 30, EXPONENT_MAX = 1000000 };

/* Returns where it stopped. */
static const char *decimal_digits(const char *at, const char *end, bool fraction, uint32_t *count,
                                  struct decimal *decimal)
{
    for (; at < end && is_digit(*at); at++) {
        if (*count < DECIMAL_DIGITS_MAX) {
            decimal->digits = decimal->digits * 10 + (uint128)(unsigned)(*at - '0');
            *count += decimal->digits != 0;
            decimal->exponent -= fraction;
        } else {
            decimal->exponent += !fraction;
        }
    }
    return at;
}

static const char *decimal_exponent(const char *at, const char *end, struct decimal *decimal)
{
    int64_t exponent = 0;
    bool negative = at < end && *at == '-';
    const char *digits = at += at < end && (*at == '-' || *at == '+');

    for (; at < end && is_digit(*at); at++)
        exponent = min_i64(exponent * 10 + (*at - '0'), 2 * EXPONENT_MAX);
    decimal->exponent += negative ? -exponent : exponent;
    return at == digits ? NULL : at;
}

/* false: above TIME_MAX_NS. */
static bool decimal_round(struct decimal decimal, int64_t *ret_ns)
{
    uint128 value = decimal.digits;
    int64_t exponent = decimal.exponent;

    if (value == 0)
        exponent = 0;
    for (; exponent > 0; exponent--) {
        if (value > (uint128)TIME_MAX_NS)
            return false;
        value *= 10;
    }
    if (exponent < -DECIMAL_DIGITS_MAX - 1)
        value = 0;
    for (; exponent < -1 && value != 0; exponent++)
        value /= 10;
    if (exponent < 0)
        value = (value + 5) / 10;
    if (value > (uint128)TIME_MAX_NS)
        return false;
    *ret_ns = (int64_t)value;
    return true;
}

const char *value_decimal_ns(const char *text, size_t length, int unit_digits, int64_t *ret_ns)
{
    const char *at = text;
    const char *end = text + length;
    struct decimal decimal = {0, unit_digits};
    uint32_t count = 0;

    if (length == 0)
        return "is empty";
    if (*at == '-')
        return "is negative";
    at = decimal_digits(at, end, false, &count, &decimal);
    if (at == text)
        return "is not a number";
    if (at + 1 < end && *at == '.' && is_digit(at[1]))
        at = decimal_digits(at + 1, end, true, &count, &decimal);
    if (at < end && (*at == 'e' || *at == 'E'))
        at = decimal_exponent(at + 1, end, &decimal);
    if (at != end)
        return "is not a number";
    return decimal_round(decimal, ret_ns) ? NULL : "is beyond the year 2200, or 230 years from the start";
}

/* Days since 1970-01-01: years begin in March, so that the leap day is the last one (Hinnant, chrono-compatible
 * low-level date algorithms). */
static int64_t days_from_civil(int64_t year, int64_t month, int64_t day)
{
    int64_t from_march = month > 2 ? month - 3 : month + 9;
    int64_t y = month > 2 ? year : year - 1;

    return y * 365 + y / 4 - y / 100 + y / 400 + (from_march * 153 + 2) / 5 + day - 1 - 719468;
}

static int64_t days_of_month(int64_t year, int64_t month)
{
    static const int64_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return days[month - 1] + (month == 2 && leap);
}

static int64_t two_digits(const char *at)
{
    return (at[0] - '0') * 10 + (at[1] - '0');
}

/* `shape`: 'd' stands for a digit, '_' for a blank or 'T', anything else for itself. */
static bool has_shape(const char *text, size_t length, const char *shape)
{
    for (size_t i = 0; shape[i] != 0; i++) {
        bool fits = i < length && (shape[i] == 'd' ? is_digit(text[i])
                                 : shape[i] == '_' ? text[i] == ' ' || text[i] == 'T'
                                                   : text[i] == shape[i]);

        if (!fits)
            return false;
    }
    return true;
}

/* What may stand behind the seconds: a fraction, and a sign that it is UTC. */
static const char *datetime_rest(const char *at, const char *end, int64_t *ret_fraction_ns)
{
    int64_t fraction_ns = 0;
    int64_t scale_ns = NS_PER_S / 10;

    if (at + 1 < end && *at == '.' && is_digit(at[1])) {
        for (at++; at < end && is_digit(*at); at++, scale_ns /= 10) {
            if (scale_ns == 0)
                return "has more than 9 digits of fraction";
            fraction_ns += (*at - '0') * scale_ns;
        }
    }
    if (at < end && *at == 'Z')
        at++;
    else if (end - at == 6 && (memcmp(at, "+00:00", 6) == 0))
        at = end;
    else if (end - at == 6 && has_shape(at + 1, 5, "dd:dd") && (*at == '+' || *at == '-'))
        return "is not in UTC";
    if (at != end)
        return "has something behind the seconds";
    *ret_fraction_ns = fraction_ns;
    return NULL;
}

const char *value_datetime_ns(const char *text, size_t length, int64_t *ret_ns)
{
    int64_t year;
    int64_t month;
    int64_t day;
    int64_t seconds;
    int64_t fraction_ns;
    const char *problem;

    if (length == 0)
        return "is empty";
    if (!has_shape(text, length, "dddd-dd-dd_dd:dd:dd"))
        return "is not a YYYY-MM-DD HH:MM:SS";
    year = two_digits(text) * 100 + two_digits(text + 2);
    month = two_digits(text + 5);
    day = two_digits(text + 8);
    if (year < 1970 || year >= 2200)
        return "is outside the years 1970 to 2199";
    if (month < 1 || month > 12 || day < 1 || day > days_of_month(year, month))
        return "is a day that does not exist";
    if (two_digits(text + 11) > 23 || two_digits(text + 14) > 59 || two_digits(text + 17) > 59)
        return "is a time of day that does not exist";
    problem = datetime_rest(text + 19, text + length, &fraction_ns);
    if (problem != NULL)
        return problem;
    seconds = two_digits(text + 11) * 3600 + two_digits(text + 14) * 60 + two_digits(text + 17);
    *ret_ns = (days_from_civil(year, month, day) * 86400 + seconds) * NS_PER_S + fraction_ns;
    return NULL;
}

size_t utf8_bytes(const char *at, const char *end)
{
    const unsigned char *byte = (const unsigned char *)at;
    size_t left = (size_t)(end - at);
    size_t count = byte[0] < 0x80 ? 1 : byte[0] < 0xc2 ? 0 : byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3
                 : byte[0] < 0xf5 ? 4 : 0;

    if (count > left)
        return 0;
    for (size_t i = 1; i < count; i++)
        if ((byte[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong forms, surrogates, and above U+10FFFF: the second byte tells. */
    if ((byte[0] == 0xe0 && byte[1] < 0xa0) || (byte[0] == 0xed && byte[1] > 0x9f) ||
        (byte[0] == 0xf0 && byte[1] < 0x90) || (byte[0] == 0xf4 && byte[1] > 0x8f))
        return 0;
    return count;
}

const char *value_name(const char *text, size_t length, char ret_name[TRACE_ID_MAX])
{
    const char *end = text + length;
    size_t bytes;

    if (length >= TRACE_ID_MAX)
        return "is longer than 63 bytes"; /* cut ones could become equal */
    for (const char *at = text; at < end; at += bytes) {
        bytes = utf8_bytes(at, end);
        if (bytes == 0)
            return "is not UTF-8";
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            return "has control characters";
    }
    memcpy(ret_name, text, length);
    ret_name[length] = 0;
    return NULL;
}
