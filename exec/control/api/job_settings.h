/* What a job is to do, as its row holds it: JSON that the API checked and the driver reads. 0 (or "") is for the rules: whoever reads the
 * data chooses, and the numbers stand here once they are known. */
#ifndef API_JOB_SETTINGS_H
#define API_JOB_SETTINGS_H

#include <jansson.h>

#include "engine/files/refusal.h"

#define JOB_SUFFIX_BYTES 40

/* Kind, name, JSON's, about. */
#define JOB_SETTINGS(X)                                             \
    X(INT, epochs, "0: auto")                                       \
    X(INT, batch, "examples a step; 0: auto")                       \
    X(REAL, rate, "learning rate; 0: auto")                         \
    X(REAL, rate_multiplier, "of the rate; 0: auto, which is 1")    \
    X(INT, rank, "0: auto")                                         \
    X(REAL, alpha, "0: auto")                                       \
    X(REAL, beta, "of dpo; 0: auto")                                \
    X(INT, seed, "of order and first matrices")                     \
    X(INT, patience, "epochs without a better loss; 0: auto")       \
    X(REAL, min_delta, "what a better loss is better by")           \
    X(INT, context, "tokens of an example at most; 0: auto")        \
    X(INT, dry_run, "1: the files are read and what it takes is reckoned, and that is all")

#define JOB_SETTING_INT int64_t
#define JOB_SETTING_REAL double
struct job_settings {
    bool preferences;              /* method dpo; else supervised */
    char schedule[16];             /* "": auto */
    char suffix[JOB_SUFFIX_BYTES]; /* "" */
#define X(kind, name, about) JOB_SETTING_##kind name;
    JOB_SETTINGS(X)
#undef X
};

const char *job_method(const struct job_settings *settings);
/* json_decref() it. */
json_t *job_settings_json(const struct job_settings *settings);
/* STATUS_CORRUPT: not what job_settings_json() says. */
enum status job_settings_read(const char *text, struct job_settings *ret_settings, struct refusal *refusal);

#endif
