/* From a draft, whose values are each in their range, to a scenario: names looked up, and keys checked against each
 * other. */
#ifndef SCENARIO_RESOLVE_H
#define SCENARIO_RESOLVE_H

#include "scenario/scenario.h"
#include "scenario/table.h"

/* What is wrong goes to messages; ret_scenario is usable only if there was no error. `top` is where messages point that
 * concern no key in particular. ret_scenario->directory is set before. */
void scenario_resolve(const struct draft *draft, struct location top, struct messages *messages,
                      struct scenario *ret_scenario);

/* The checks, once the names are resolved. */
void scenario_cross_check(const struct draft *draft, struct location top, const struct scenario *scenario,
                          struct messages *messages);

/* Where the latest given of some fields of draft->values was given. */
#define GIVEN_AT(draft, top, ...)                                            \
    draft_where((draft), (top), (const void *const[]){__VA_ARGS__},          \
                (uint32_t)ARRAY_COUNT(((const void *const[]){__VA_ARGS__})))

#endif
