/* Words of a command line to the options of an object trace. */
#include "cmd_objects.h"

#include <errno.h>
#include <stdlib.h>

static const char *const unit_names[] = {[TRACE_TIME_S] = "s", [TRACE_TIME_MS] = "ms", [TRACE_TIME_US] = "us",
                                         [TRACE_TIME_NS] = "ns", [TRACE_TIME_DATETIME] = "datetime"};
static const struct {
    const char *word;
    char separator;
} separators[] = {{",", ','}, {";", ';'}, {"|", '|'}, {"tab", '\t'}, {"space", ' '}};

static bool take_column(const char *command, const char *source, char target[TRACE_ID_MAX], FILE *errors)
{
    if (source == NULL)
        return true;
    if (strlen(source) < TRACE_ID_MAX) {
        memcpy(target, source, strlen(source) + 1);
        return true;
    }
    fprintf(errors, "%s: a column's name has at most %d bytes; use its number\n", command, TRACE_ID_MAX - 1);
    return false;
}

static bool take_unit(const char *command, const char *word, enum trace_time_unit *ret_unit, FILE *errors)
{
    if (word == NULL)
        return true;
    for (unsigned i = 0; i < ARRAY_COUNT(unit_names); i++) {
        if (strcmp(word, unit_names[i]) == 0) {
            *ret_unit = (enum trace_time_unit)i;
            return true;
        }
    }
    fprintf(errors, "%s: no time unit '%s': s, ms, us, ns or datetime\n", command, word);
    return false;
}

static bool take_separator(const char *command, const char *word, char *ret_separator, FILE *errors)
{
    if (word == NULL)
        return true;
    for (unsigned i = 0; i < ARRAY_COUNT(separators); i++) {
        if (strcmp(word, separators[i].word) == 0) {
            *ret_separator = separators[i].separator;
            return true;
        }
    }
    fprintf(errors, "%s: no separator '%s': ',', ';', '|', tab or space\n", command, word);
    return false;
}

static bool take_size(const char *command, const char *word, uint64_t *ret_size_bytes, FILE *errors)
{
    char *end;
    unsigned long long number;

    if (word == NULL)
        return true;
    errno = 0;
    number = strtoull(word, &end, 10);
    if (errno == 0 && word[0] >= '0' && word[0] <= '9' && *end == 0 && number > 0 && number <= OBJECT_SIZE_MAX) {
        *ret_size_bytes = number;
        return true;
    }
    fprintf(errors, "%s: --size-bytes %s: a whole number from 1 to 2^63 - 1\n", command, word);
    return false;
}

bool object_arguments_take(const struct object_arguments *arguments, const char *command, struct object_columns *ret_columns,
                           struct object_options *ret_options, FILE *errors)
{
    struct object_columns columns = {0};
    struct object_options options = {.columns = ret_columns, .ignore_next = arguments->ignore_next};

    if (!take_column(command, arguments->id_column, columns.id, errors) || !take_column(command, arguments->size_column, columns.size, errors) ||
        !take_column(command, arguments->time_column, columns.time, errors) ||
        !take_column(command, arguments->adapter_column, columns.adapter, errors) ||
        !take_unit(command, arguments->time_unit, &columns.time_unit, errors) ||
        !take_separator(command, arguments->separator, &columns.separator, errors) ||
        !take_size(command, arguments->size_bytes, &options.size_bytes, errors))
        return false;
    if (arguments->adapter_column != NULL && (arguments->id_column != NULL || arguments->size_column != NULL || arguments->separator != NULL)) {
        fprintf(errors, "%s: with --adapter-column it is a csv of requests, and --id-column, --size-column and --separator do not go with it\n", command);
        return false;
    }
    *ret_columns = columns;
    *ret_options = options;
    return true;
}

void object_formats_print(FILE *output)
{
    const char *name;
    const char *about;

    fprintf(output, "\nformats of object traces:\n");
    for (size_t i = 0; object_format_at(i, &name, &about); i++)
        fprintf(output, "  %-13s %s\n", name, about);
}
