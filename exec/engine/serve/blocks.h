/* Which KV block is whose. The replica core counts blocks and never runs out; here they get names. A block belongs to one sequence; block
 * 0 is nobody's. */
#ifndef SERVE_BLOCKS_H
#define SERVE_BLOCKS_H

#include "base/base.h"

struct blocks {
    int32_t *free;    /* a stack of ids */
    uint32_t count;   /* on it */
    uint32_t all;
};

/* Ids 1 .. all. STATUS_FULL: no memory. */
enum status blocks_create(struct blocks *blocks, uint32_t all);
void blocks_free(struct blocks *blocks);
/* There must be one: the core counts them. */
int32_t blocks_take(struct blocks *blocks);
void blocks_give(struct blocks *blocks, int32_t id);

#endif
