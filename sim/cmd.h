/* The verbs of berth-sim. argv[0] is the verb. */
#ifndef SIM_CMD_H
#define SIM_CMD_H

#include "host/verbs.h"

#define VERBS(X)                                                                                     \
    X(run, "run a scenario: table, HDF5, report, journal")                                           \
    X(scenario, "check a scenario file; list every key")                                             \
    X(estimate, "bytes, FLOPs and times of a model, its adapters and its training")                  \
    X(policies, "the policies built in, by question")                                                \
    X(trace, "what is in a trace file")                                                              \
    X(cache, "every eviction policy over a trace of objects: miss ratios")                           \
    X(replay, "step the cores again through a journal and compare")                                  \
    X(validate, "predictions against published measurements")

#define X(name, about) int cmd_##name(int argc, char **argv);
VERBS(X)
#undef X

#endif
