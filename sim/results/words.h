/* The words that people and files see for enumerations whose lists carry none. */
#ifndef RESULTS_WORDS_H
#define RESULTS_WORDS_H

#include "base/base.h"

/* enum refuse_reason in lower case: "none", "too_long" ...; "unknown" past the list. */
const char *refuse_word(uint32_t reason);
/* "needs 450 KV blocks for its prompt and longest answer, the replica has 143": the reason with its arithmetic. */
#define REFUSE_SENTENCE_MAX 160
void refuse_sentence(uint32_t reason, uint64_t need, uint64_t have, char ret_text[REFUSE_SENTENCE_MAX]);
/* enum request_status: "done", "refused" ... */
const char *request_status_word(uint32_t status);

#endif
