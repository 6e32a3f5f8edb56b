/* A verb's command line against its table of options: `--name value` and `--name=value`, names with hyphens outside and
 * underscores in C, `-h` for `--help`, everything after `--` an operand. Options come back one by one, in order; what is wrong
 * has been said on `errors` by then. */
#ifndef HOST_OPTIONS_H
#define HOST_OPTIONS_H

#include <stdio.h>

#include "base/base.h"

struct option {
    const char *name;
    const char *argument; /* "FILE"; NULL: takes no value */
    const char *about;
};

struct options {
    const char *command; /* "berth-sim trace info", for messages */
    const struct option *table;
    uint32_t count;
    FILE *errors;
    int argc;
    char **argv;
    int at; /* next to read: 1 at first, for argv[0] is the verb */
    bool only_operands;
};

/* An index into the table, or one of these. */
enum { OPTION_END = -1, OPTION_OPERAND = -2, OPTION_WRONG = -3 };
/* ret_value: the option's value, NULL of a flag; or the operand. */
int options_next(struct options *options, const char **ret_value);

/* "berth-sim VERB: --name VALUE: why", as the command is called. */
void options_complain(const struct options *options, uint32_t option, const char *value, const char *why);
/* A number that the value is, from `least` to `most`; false: options_complain() has said what it should be. */
bool options_whole(const struct options *options, uint32_t option, const char *value, int64_t least, int64_t most, int64_t *ret);
/* Likewise: above 0, or 0 where it may be; finite. */
bool options_real(const struct options *options, uint32_t option, const char *value, bool may_be_zero, double *ret);
/* The table for a person, a line an option. */
void options_print(FILE *out, const struct option *table, uint32_t count);

#endif
