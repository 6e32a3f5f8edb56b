#include "base/base.h"

const char *status_text(enum status status)
{
    static const char *const texts[] = {
#define X(name, text) text,
        STATUS_LIST(X)
#undef X
    };
    check((size_t)status < ARRAY_COUNT(texts));
    return texts[status];
}
