#include "results/words.h"

#include <stdio.h>

#include "replica/command.h"
#include "results/results.h"

const char *refuse_word(uint32_t reason)
{
    static const char *const words[REFUSE_COUNT] = {
        [REFUSE_NONE] = "none",
        [REFUSE_TOO_LONG] = "too_long",
        [REFUSE_ADAPTER_TOO_LARGE] = "adapter_too_large",
        [REFUSE_ADAPTER_UNKNOWN] = "adapter_unknown",
        [REFUSE_ADAPTER_LOST] = "adapter_lost",
        [REFUSE_ADAPTERS_FULL] = "adapters_full",
        [REFUSE_TENANTS_FULL] = "tenants_full",
        [REFUSE_DRAINING] = "draining",
    };

    _Static_assert(REFUSE_COUNT == 8, "a reason was added: give it a word");
    return reason < REFUSE_COUNT ? words[reason] : "unknown";
}

void refuse_sentence(uint32_t reason, uint64_t need, uint64_t have, char ret_text[REFUSE_SENTENCE_MAX])
{
    static const char *const sentences[REFUSE_COUNT] = {
        [REFUSE_NONE] = "no reason is known",
#define X(name, text) [REFUSE_##name] = text,
        REFUSE_REASONS(X)
#undef X
    };

    snprintf(ret_text, REFUSE_SENTENCE_MAX, reason < REFUSE_COUNT ? sentences[reason] : sentences[REFUSE_NONE],
             (unsigned long long)need, (unsigned long long)have);
}

const char *request_status_word(uint32_t status)
{
    static const char *const words[] = {
        [REQUEST_DONE] = "done",
        [REQUEST_REFUSED] = "refused",
        [REQUEST_OVERLOAD] = "overload",
        [REQUEST_TIMEOUT] = "timeout",
        [REQUEST_UNFINISHED] = "unfinished",
    };

    check(status < ARRAY_COUNT(words));
    return words[status];
}
