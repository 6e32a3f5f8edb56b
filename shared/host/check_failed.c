/* How a host stops on a mistake of ours: say where, and leave a core for the debugger. */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"

void check_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "berth: %s:%d: check failed: %s\n"
                    "This is a mistake in berth, not in your input: please report it with the command line.\n",
            file, line, condition);
    abort();
}
