/* Names of a trace's adapters or tenants, numbered from 0 in order of appearance. Holds at most NAMES_MAX. */
#ifndef WORKLOAD_NAMES_H
#define WORKLOAD_NAMES_H

#include "base/table.h"
#include "trace.h"

#define NAMES_MAX 1048576u

struct names {
    char (*texts)[TRACE_ID_MAX]; /* [count] */
    uint32_t count;
    uint32_t room;
    struct table table;          /* a name's hash -> its number */
    void *table_memory;
};

/* Finds the name or gives it the next number. STATUS_FULL: NAMES_MAX names, or no memory. */
enum status names_number(struct names *names, const char *name, uint32_t *ret_number);
void names_close(struct names *names); /* {0} is an empty table, and accepted here */

#endif
