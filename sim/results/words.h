/* The words that people and files see for enumerations whose lists carry none. */
#ifndef RESULTS_WORDS_H
#define RESULTS_WORDS_H

#include "base/base.h"

/* enum refuse_reason in lower case: "none", "too_long" ...; "unknown" past the list. */
const char *refuse_word(uint32_t reason);
/* enum request_status: "done", "refused" ... */
const char *request_status_word(uint32_t status);

#endif
