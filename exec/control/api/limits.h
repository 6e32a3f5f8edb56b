/* What a tenant may take in a minute, and how much of its may run at once. A bucket holds a minute's worth and fills evenly; who takes
 * more than is in it waits until it is there. What is given back was taken and not used. Kept in memory alone: a control plane that
 * starts anew starts with full buckets. Any thread. */
#ifndef API_LIMITS_H
#define API_LIMITS_H

#include "base/base.h"

/* Of what the core loop runs at once, half: no tenant can keep the others out. */
#define LIMITS_TENANT_RUNNING_MAX 2048u

enum limits_kind { LIMITS_REQUESTS, LIMITS_TOKENS, LIMITS_KIND_COUNT };

struct limits_state {
    uint64_t limit;     /* a minute's */
    uint64_t remaining;
    uint32_t reset_ms;  /* until the bucket is full */
    uint32_t retry_ms;  /* until there is enough, at least 1; 0: it was taken */
};

struct limits;
struct limits *limits_create(void);
void limits_free(struct limits *limits); /* NULL is fine */

/* False: not enough there now, nothing was taken. What is more than a minute's worth is given to who has a full bucket, which is then
 * in debt. now_ms may not fall by much; it is the wall's clock. */
bool limits_take(struct limits *limits, const char *tenant, enum limits_kind kind, uint64_t per_minute, uint64_t amount, int64_t now_ms,
                 struct limits_state *ret_state);
void limits_give(struct limits *limits, const char *tenant, enum limits_kind kind, uint64_t amount);
/* So many more run; false: more than may. */
bool limits_enter(struct limits *limits, const char *tenant, uint32_t count, int64_t now_ms);
void limits_leave(struct limits *limits, const char *tenant, uint32_t count);

#endif
