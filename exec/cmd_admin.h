/* What the verbs that administer share: they speak to the control plane's socket. Keys are printed, never given as arguments. */
#ifndef EXEC_CMD_ADMIN_H
#define EXEC_CMD_ADMIN_H

#include <jansson.h>

#include "base/base.h"

/* $BERTH_STATE, or berth-state. */
const char *admin_state_folder(void);

/* Takes the request. NULL: it has been said on stderr why. */
json_t *admin_ask(const char *verb, const char *state, json_t *request);
/* The same again and again, from where the last answer ended: all rows of the list `name`. Takes the request. */
json_t *admin_ask_all(const char *verb, const char *state, json_t *request, const char *name);
/* One line, as JSON; takes the value and returns the exit code. */
int admin_print_json(json_t *value);
/* "2026-11-30 21:44", or `otherwise` where there is none. Room for 32. */
const char *admin_time_text(const json_t *ms, const char *otherwise, char *ret_text);

#endif
