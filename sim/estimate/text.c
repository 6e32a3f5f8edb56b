/* Numbers for people. */
#include <math.h>
#include <stdio.h>

#include "estimate/estimate.h"
#include "host/words.h"

const char *estimate_count_text(char text[ESTIMATE_TEXT_MAX], uint64_t count)
{
    _Static_assert(ESTIMATE_TEXT_MAX >= NUMBER_TEXT_MAX, "a count fits");
    return count_text(count, text);
}

/* 4.68, 46.8, 117.6, then whole with commas. Rounding carries into the next form, so 999.96 is 1,000. */
static void few_digits(char text[ESTIMATE_TEXT_MAX], double value)
{
    if (value >= 999.95 && value < 1e18)
        estimate_count_text(text, (uint64_t)(value + 0.5));
    else
        snprintf(text, ESTIMATE_TEXT_MAX, "%.*f", value >= 9.995 ? 1 : 2, value);
}

struct scale {
    double from;
    double unit;
    const char *name;
};

static const struct scale bytes_scales[] = {
    {1e15, 1e15, "PB"}, {1e12, 1e12, "TB"}, {1e9, 1e9, "GB"}, {1e6, 1e6, "MB"}, {1e3, 1e3, "kB"}, {0, 1, "bytes"},
};
static const struct scale flops_scales[] = {
    {1e21, 1e21, "ZFLOP"}, {1e18, 1e18, "EFLOP"}, {1e15, 1e15, "PFLOP"}, {1e12, 1e12, "TFLOP"}, {0, 1, "FLOP"},
};
static const struct scale seconds_scales[] = {
    {1, 1, "s"}, {1e-3, 1e-3, "ms"}, {1e-6, 1e-6, "us"}, {0, 1e-9, "ns"},
};

static const char *scaled(char text[ESTIMATE_TEXT_MAX], const struct scale *scale, double value)
{
    char number[ESTIMATE_TEXT_MAX];

    while (value < scale->from)
        scale++;
    few_digits(number, value / scale->unit);
    snprintf(text, ESTIMATE_TEXT_MAX, "%.30s %s", number, scale->name);
    return text;
}

/* 2,427 s (40.4 min): whoever waits thinks in minutes, whoever checks in seconds. */
static const char *seconds_text(char text[ESTIMATE_TEXT_MAX], double seconds)
{
    char plain[ESTIMATE_TEXT_MAX];
    char longer[ESTIMATE_TEXT_MAX];

    scaled(plain, seconds_scales, seconds);
    if (seconds < 120)
        snprintf(text, ESTIMATE_TEXT_MAX, "%s", plain);
    else {
        few_digits(longer, seconds < 7200 ? seconds / 60 : seconds / 3600);
        snprintf(text, ESTIMATE_TEXT_MAX, "%.20s (%.16s %s)", plain, longer, seconds < 7200 ? "min" : "h");
    }
    return text;
}

const char *estimate_text(char text[ESTIMATE_TEXT_MAX], enum estimate_unit unit, double value)
{
    char number[ESTIMATE_TEXT_MAX];

    few_digits(number, value);
    switch (unit) {
    case ESTIMATE_COUNT:
        return estimate_count_text(text, (uint64_t)(value + 0.5));
    case ESTIMATE_BYTES:
        return scaled(text, bytes_scales, value);
    case ESTIMATE_SECONDS:
        return seconds_text(text, value);
    case ESTIMATE_FLOPS:
        return scaled(text, flops_scales, value);
    case ESTIMATE_GPU_HOURS:
        snprintf(text, ESTIMATE_TEXT_MAX, "%.30s GPU-h", number);
        return text;
    case ESTIMATE_GPUS:
        snprintf(text, ESTIMATE_TEXT_MAX, "%.30s GPUs", number);
        return text;
    case ESTIMATE_PERCENT:
        snprintf(text, ESTIMATE_TEXT_MAX, "%.30s%%", number);
        return text;
    }
    return text;
}
