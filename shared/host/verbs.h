/* A program of verbs: help, version, dispatch, exit codes. */
#ifndef HOST_VERBS_H
#define HOST_VERBS_H

#include "base/base.h"

#define EXIT_OK 0
#define EXIT_FAILED 1
#define EXIT_USAGE 2
#define EXIT_STOPPED 130

struct verb {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the verb */
    const char *about;
};

struct program {
    const char *name;
    const char *about; /* a sentence */
    const struct verb *verbs;
    size_t verbs_count;
};

/* The body of main(). A full disk shows here, when what was printed is written out. */
int program_run(const struct program *program, int argc, char **argv);

#endif
