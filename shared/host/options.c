#include "host/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "host/words.h"

#define SPELLED_MAX 64

/* --name-with-hyphens */
static const char *spell(const struct option *option, char ret_text[SPELLED_MAX])
{
    snprintf(ret_text, SPELLED_MAX, "--%s", option->name);
    for (char *at = ret_text + 2; *at != '\0'; at++)
        if (*at == '_')
            *at = '-';
    return ret_text;
}

void options_print(FILE *out, const struct option *table, uint32_t count)
{
    char spelled[SPELLED_MAX];
    char left[SPELLED_MAX * 2];
    int width = 0;

    for (uint32_t i = 0; i < count; i++) {
        const char *argument = table[i].argument;
        int length = (int)strlen(spell(&table[i], spelled)) + (argument != NULL ? (int)strlen(argument) + 1 : 0);

        width = length > width ? length : width;
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *argument = table[i].argument;

        snprintf(left, sizeof(left), "%s%s%s", spell(&table[i], spelled), argument != NULL ? " " : "",
                 argument != NULL ? argument : "");
        fprintf(out, "  %-*s  %s\n", width, left, table[i].about);
    }
}

void options_complain(const struct options *options, uint32_t option, const char *value, const char *why)
{
    char spelled[SPELLED_MAX];

    check(option < options->count);
    fprintf(options->errors, "%s: %s%s%s: %s\n", options->command, spell(&options->table[option], spelled),
            value != NULL ? " " : "", value != NULL ? value : "", why);
}

bool options_whole(const struct options *options, uint32_t option, const char *value, int64_t least, int64_t most, int64_t *ret)
{
    char why[80];
    char *end;
    long long number;

    errno = 0; /* a number too large comes back as the largest */
    number = strtoll(value, &end, 10);
    if (errno == 0 && value[0] >= '0' && value[0] <= '9' && *end == '\0' && number >= least && number <= most) {
        *ret = number;
        return true;
    }
    snprintf(why, sizeof(why), "a whole number from %lld to %lld", (long long)least, (long long)most);
    options_complain(options, option, value, why);
    return false;
}

bool options_real(const struct options *options, uint32_t option, const char *value, bool may_be_zero, double *ret)
{
    char *end;
    const double number = strtod(value, &end);

    if (value[0] != '\0' && *end == '\0' && isfinite(number) && (number > 0 || (may_be_zero && number >= 0))) {
        *ret = number;
        return true;
    }
    options_complain(options, option, value, may_be_zero ? "a number, 0 or more" : "a number above 0");
    return false;
}

static int unknown(const struct options *options, const char *text, size_t length)
{
    struct suggestion suggestion;
    char spelled[SPELLED_MAX];
    const char *near;

    suggestion_begin(&suggestion, text, length);
    for (uint32_t i = 0; i < options->count; i++) {
        spell(&options->table[i], spelled);
        suggest(&suggestion, spelled, strlen(spelled));
    }
    near = suggestion_answer(&suggestion);
    fprintf(options->errors, "%s: there is no option %s", options->command, text);
    if (near != NULL)
        fprintf(options->errors, "; did you mean %s?\n", near);
    else
        fprintf(options->errors, "; %s --help lists them\n", options->command);
    return OPTION_WRONG;
}

static uint32_t find(const struct options *options, const char *text, size_t length)
{
    char spelled[SPELLED_MAX];

    for (uint32_t i = 0; i < options->count; i++)
        if (strlen(spell(&options->table[i], spelled)) == length && strncmp(spelled, text, length) == 0)
            return i;
    return options->count;
}

int options_next(struct options *options, const char **ret_value)
{
    const char *text;
    const char *equals;
    size_t length;
    uint32_t option;

    if (options->at >= options->argc)
        return OPTION_END;
    text = options->argv[options->at++];
    /* A lone hyphen is nobody's option. */
    if (options->only_operands || text[0] != '-' || text[1] == '\0') {
        *ret_value = text;
        return OPTION_OPERAND;
    }
    if (strcmp(text, "--") == 0) {
        options->only_operands = true;
        return options_next(options, ret_value);
    }
    if (strcmp(text, "-h") == 0)
        text = "--help";
    equals = strchr(text, '=');
    length = equals != NULL ? (size_t)(equals - text) : strlen(text);
    option = find(options, text, length);
    if (option == options->count)
        return unknown(options, text, length);
    *ret_value = equals != NULL ? equals + 1 : NULL;
    if (options->table[option].argument == NULL) {
        if (equals == NULL)
            return (int)option;
        options_complain(options, option, equals + 1, "takes no value");
        return OPTION_WRONG;
    }
    if (equals == NULL && options->at < options->argc)
        *ret_value = options->argv[options->at++];
    if (*ret_value != NULL)
        return (int)option;
    options_complain(options, option, NULL, "needs a value");
    return OPTION_WRONG;
}
