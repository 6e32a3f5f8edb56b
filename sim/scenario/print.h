/* What a scenario came to once completed: variants, pools, and where their memory goes. */
#ifndef SCENARIO_PRINT_H
#define SCENARIO_PRINT_H

#include "scenario/scenario.h"

void scenario_set_print(FILE *out, const char *path, const struct scenario_set *set);
/* One object. messages: what scenario_read() wrote; set NULL: it was refused. */
void scenario_set_print_json(FILE *out, const char *path, const struct scenario_set *set, const char *messages);

#endif
