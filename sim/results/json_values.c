#include "results/json_values.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void json_put(json_t *object, const char *name, json_t *value)
{
    check(value != NULL);
    check(json_object_set_new(object, name, value) == 0);
}

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *json_count(uint64_t value)
{
    return json_integer((json_int_t)value);
}

json_t *json_digits(int64_t nano)
{
    char digits[24];

    snprintf(digits, sizeof(digits), "%" PRId64, nano);
    return json_string(digits);
}

json_t *json_text(const char *bytes)
{
    json_t *value = json_string(bytes);
    char *plain;

    if (value != NULL)
        return value;
    plain = malloc(strlen(bytes) + 1);
    check(plain != NULL);
    for (size_t i = 0; i <= strlen(bytes); i++)
        plain[i] = (unsigned char)bytes[i] < 0x80 ? bytes[i] : '?';
    value = json_string(plain);
    free(plain);
    return value;
}
