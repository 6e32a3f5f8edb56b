#include "report/text.h"

#include <math.h>

void text_number(double value, char ret_text[NUMBER_TEXT_MAX])
{
    double size = fabs(value);

    if (!isfinite(value))
        snprintf(ret_text, NUMBER_TEXT_MAX, "–");
    else if (size >= 1e15)
        snprintf(ret_text, NUMBER_TEXT_MAX, "%.2e", value);
    else if (value >= 999.5)
        count_text((uint64_t)(value + 0.5), ret_text);
    else if (size >= 99.95 || size == 0)
        snprintf(ret_text, NUMBER_TEXT_MAX, "%.0f", size == 0 ? 0 : value);
    else if (size >= 9.995)
        snprintf(ret_text, NUMBER_TEXT_MAX, "%.1f", value);
    else if (size >= 0.9995)
        snprintf(ret_text, NUMBER_TEXT_MAX, "%.2f", value);
    else
        snprintf(ret_text, NUMBER_TEXT_MAX, size >= 0.001 ? "%#.3g" : "%.2g", value);
}

/* 60.0 -> 60, 1.50 -> 1.5: in a sentence, where no other number stands below. */
static void zeros_trim(char *text)
{
    char *point = strchr(text, '.');
    size_t length = strlen(text);

    while (point != NULL && text[length - 1] == '0')
        text[--length] = '\0';
    if (point != NULL && text[length - 1] == '.')
        text[length - 1] = '\0';
}

void text_duration(double value_ns, char ret_text[NUMBER_TEXT_MAX])
{
    static const struct {
        double until_ns;
        double unit_ns;
        const char *name;
    } units[] = {{999.5e0, 1, "ns"},        {999.5e3, 1e3, "µs"},       {999.5e6, 1e6, "ms"},
                 {119.5e9, 1e9, "s"},       {119.5 * 60e9, 60e9, "min"}, {INFINITY, 3600e9, "h"}};
    char number[NUMBER_TEXT_MAX];
    size_t unit = 0;

    while (unit + 1 < ARRAY_COUNT(units) && fabs(value_ns) >= units[unit].until_ns)
        unit++;
    text_number(value_ns / units[unit].unit_ns, number);
    zeros_trim(number);
    snprintf(ret_text, NUMBER_TEXT_MAX, isfinite(value_ns) ? "%.36s %s" : "%.36s", number, units[unit].name);
}

void text_bytes(double bytes, char ret_text[NUMBER_TEXT_MAX])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    char number[NUMBER_TEXT_MAX];
    size_t unit = 0;

    /* What would be written as 1,024 of a unit is 1 of the next. */
    while (unit + 1 < ARRAY_COUNT(units) && bytes >= 1023.5) {
        bytes /= 1024;
        unit++;
    }
    text_number(unit == 0 ? round(bytes) : bytes, number);
    zeros_trim(number);
    snprintf(ret_text, NUMBER_TEXT_MAX, "%.36s %s", number, bytes == 1 && unit == 0 ? "byte" : units[unit]);
}

void text_html(FILE *out, const char *text)
{
    for (const char *at = text; *at != '\0';) {
        size_t bytes = character_bytes(at, strnlen(at, 4));

        if (*at == '&')
            fputs("&amp;", out);
        else if (*at == '<')
            fputs("&lt;", out);
        else if (*at == '>')
            fputs("&gt;", out);
        else if (*at == '"')
            fputs("&quot;", out);
        else if (*at == '\'')
            fputs("&#39;", out);
        else if (bytes == 0)
            fputs("&#xFFFD;", out);
        else
            fwrite(at, 1, bytes, out);
        at += bytes > 0 ? bytes : 1;
    }
}
