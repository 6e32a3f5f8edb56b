#include "engine/model/batch.h"

#include <stdlib.h>

int32_t batch_tiles_max(int32_t rows_max, int32_t segments_max)
{
    return rows_max / TILE_ROWS_DECODE + segments_max + 1;
}

bool batch_arrays_create(struct batch_arrays *arrays, const struct counts *max, int32_t blocks_max)
{
    *arrays = (struct batch_arrays){.max = *max, .blocks_max = blocks_max};
    arrays->token = calloc((size_t)max->rows, sizeof(int32_t));
    arrays->position = calloc((size_t)max->rows, sizeof(int32_t));
    arrays->out_row = calloc((size_t)max->outputs, sizeof(int32_t));
    arrays->output_of = calloc((size_t)max->outputs, sizeof(int32_t));
    arrays->order = calloc((size_t)max->sequences, sizeof(int32_t));
    arrays->block_table = calloc((size_t)max->sequences * (size_t)blocks_max, sizeof(int32_t));
    arrays->sequence = calloc((size_t)max->sequences, sizeof(struct sequence));
    arrays->segment = calloc((size_t)max->segments + 1, sizeof(struct segment));
    arrays->tile = calloc((size_t)max->tiles, sizeof(struct tile));
    return arrays->token != NULL && arrays->position != NULL && arrays->out_row != NULL && arrays->output_of != NULL &&
           arrays->order != NULL && arrays->block_table != NULL && arrays->sequence != NULL && arrays->segment != NULL &&
           arrays->tile != NULL;
}

void batch_arrays_free(struct batch_arrays *arrays)
{
    free(arrays->token);
    free(arrays->position);
    free(arrays->out_row);
    free(arrays->output_of);
    free(arrays->order);
    free(arrays->block_table);
    free(arrays->sequence);
    free(arrays->segment);
    free(arrays->tile);
    *arrays = (struct batch_arrays){0};
}

/* By slot, the base last; parts of one slot keep their order. Few of them, mostly sorted: insertion. */
static void sort(const struct forward_part *parts, int32_t count, int32_t *order)
{
    for (int32_t i = 0; i < count; i++) {
        uint32_t key = (uint32_t)parts[i].slot; /* SEGMENT_NONE is the largest */
        int32_t at = i;

        while (at > 0 && (uint32_t)parts[order[at - 1]].slot > key) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
}

static void add_rows(struct batch_arrays *arrays, const struct forward_part *part)
{
    struct counts *now = &arrays->now;
    int32_t blocks = (part->before + part->rows + KV_BLOCK_TOKENS - 1) / KV_BLOCK_TOKENS;
    int32_t *table = arrays->block_table + (size_t)now->sequences * (size_t)arrays->blocks_max;

    check(part->rows >= 1 && part->before >= 0 && blocks <= arrays->blocks_max);
    check(now->rows + part->rows <= arrays->max.rows && now->sequences < arrays->max.sequences);
    if (part->follows == 0)
        memcpy(arrays->token + now->rows, part->tokens, (size_t)part->rows * sizeof(int32_t));
    for (int32_t i = 0; i < part->rows; i++)
        arrays->position[now->rows + i] = part->before + i;
    memcpy(table, part->blocks, (size_t)blocks * sizeof(int32_t));
    arrays->sequence[now->sequences] =
        (struct sequence){.row = now->rows, .rows = part->rows, .before = part->before, .table = now->sequences};
    now->sequences++;
    now->rows += part->rows;
}

static void add_segment_rows(struct batch_arrays *arrays, const struct forward_part *part)
{
    struct counts *now = &arrays->now;
    struct segment *last = now->segments > 0 ? &arrays->segment[now->segments - 1] : NULL;

    if (part->slot == SEGMENT_NONE)
        return;
    if (last != NULL && last->slot == part->slot) {
        last->rows += part->rows;
        return;
    }
    check(now->segments < arrays->max.segments);
    arrays->segment[now->segments++] = (struct segment){.row = now->rows, .rows = part->rows, .slot = part->slot};
}

static void cut_tiles(struct batch_arrays *arrays)
{
    struct counts *now = &arrays->now;
    int32_t rows = now->rows > 256 ? TILE_ROWS_PREFILL : TILE_ROWS_DECODE;

    for (int32_t i = 0; i < now->segments; i++) {
        const struct segment *segment = &arrays->segment[i];

        for (int32_t at = 0; at < segment->rows; at += rows) {
            check(now->tiles < arrays->max.tiles);
            arrays->tile[now->tiles++] = (struct tile){
                .segment = i, .row = segment->row + at, .rows = segment->rows - at < rows ? segment->rows - at : rows};
        }
    }
}

static int32_t outputs_before(const struct forward_part *parts, int32_t part)
{
    int32_t outputs = 0;

    for (int32_t i = 0; i < part; i++)
        outputs += parts[i].wants_output;
    return outputs;
}

void batch_fill(struct batch_arrays *arrays, const struct forward_part *parts, int32_t count)
{
    struct counts *now = &arrays->now;

    check(count >= 1 && count <= arrays->max.sequences);
    *now = (struct counts){0};
    sort(parts, count, arrays->order);
    for (int32_t i = 0; i < count; i++) {
        const struct forward_part *part = &parts[arrays->order[i]];

        add_segment_rows(arrays, part);
        add_rows(arrays, part);
        if (!part->wants_output)
            continue;
        check(now->outputs < arrays->max.outputs);
        arrays->output_of[now->outputs] = outputs_before(parts, arrays->order[i]);
        arrays->out_row[now->outputs++] = now->rows - 1;
    }
    cut_tiles(arrays);
}
