/* Scenario texts as files in a directory of their own, and what reading them says. */
#ifndef TESTS_SIM_SCENARIO_RIG_H
#define TESTS_SIM_SCENARIO_RIG_H

#include "scenario/scenario.h"

/* Writes `name` with these bytes into the test's own directory, which rig_end() removes; the path is valid until the
 * next call. */
const char *rig_file(const char *name, const void *bytes, size_t count);
void rig_end(void);

/* Reads x.yaml with this text. ret_messages: what was written to `errors`, the directory's name taken out, so that
 * messages begin with "x.yaml:"; the caller frees it. */
enum status rig_read(const char *text, const char *const *settings, uint32_t settings_count, struct scenario_set *ret_set,
                     char **ret_messages);
/* The same for a text that must be read without any message; settings end with NULL. */
struct scenario_set rig_read_well(const char *text, const char *const *settings);
/* `text` with each "<the test's directory>/" taken out. */
void rig_strip(char *text);

#endif
