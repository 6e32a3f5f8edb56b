/* Fixed little-endian records that begin with u32 seconds and u64 id, as oracleGeneral and lcs have them. The machine is
 * taken to be little-endian, as the rest of the project does. */
#ifndef TRACES_OBJECT_RECORD_H
#define TRACES_OBJECT_RECORD_H

#include "object_reader.h"

struct record_layout {
    uint32_t bytes;
    uint32_t size_at;
    bool size_is_64; /* i64 instead of u32 */
    uint32_t next_at; /* i64: counted from 1; -1 or 2^63-1: never */
};

uint32_t record_fill(struct object_trace *trace, const struct record_layout *layout, struct object_request *rows, uint32_t max);
/* Of oracleGeneral's layout: the one that has to be fast. */
uint32_t record_fill_columns(struct object_trace *trace, struct object_columns_read *to, uint32_t max);

#endif
