/* One step's arrays in host memory, in the form that ops want: rows sorted by (slot, order), base rows last, so that a segment is a run
 * of consecutive rows and nothing is permuted on the device. */
#ifndef MODEL_BATCH_H
#define MODEL_BATCH_H

#include "engine/model/forward.h"

struct batch_arrays {
    struct counts max;
    int32_t blocks_max;
    struct counts now;
    int32_t *token, *position, *out_row, *block_table;
    struct sequence *sequence;
    struct segment *segment;
    struct tile *tile;
    int32_t *output_of; /* [outputs]: which output of the caller's order stands at out_row[i] */
    int32_t *order;     /* [sequences]: of parts */
};

/* Sizes of the arrays from the maxima; false: no memory. */
bool batch_arrays_create(struct batch_arrays *arrays, const struct counts *max, int32_t blocks_max);
void batch_arrays_free(struct batch_arrays *arrays);
/* Tiles that a step may need: each segment may end in one that is not full. */
int32_t batch_tiles_max(int32_t rows_max, int32_t segments_max);
void batch_fill(struct batch_arrays *arrays, const struct forward_part *parts, int32_t count);

#endif
