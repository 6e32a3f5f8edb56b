/* What the verbs under `berth-exec model` share. argv[0] is the verb: "inspect". */
#ifndef EXEC_CMD_MODEL_H
#define EXEC_CMD_MODEL_H

#include <signal.h>
#include <stdio.h>

#include "engine/files/file.h"
#include "host/options.h"
#include "host/verbs.h"

int cmd_model_inspect(int argc, char **argv);
int cmd_model_random(int argc, char **argv);
int cmd_model_create_tiny(int argc, char **argv);
int cmd_model_merge(int argc, char **argv);
int cmd_model_list(int argc, char **argv);
int cmd_model_alias(int argc, char **argv);
int cmd_model_judge(int argc, char **argv);

/* Not 0 after Ctrl-C or a polite kill: whoever writes stops, and cleans up. */
extern volatile sig_atomic_t model_stop;
void model_catch_stop(void);

/* A line on stderr that says how far a file is, a few times a second, where stderr is a terminal. A file_progress;
 * context: the path. It says stop after Ctrl-C. */
bool model_progress(void *context, int64_t done_bytes, int64_t total_bytes);

/* What create-tiny teaches: so many chats, JSON lines, drawn by the seed. free() it; NULL: no memory. */
char *tiny_text(uint64_t seed, int32_t chats);

/* Says why on stderr, each line after "berth-exec model VERB: ". Returns the exit code. */
int model_refused(const char *verb, const struct refusal *refusal);

#endif
