/* KV blocks, counted only: which block is whose is the engine's business. Admission takes the blocks of the whole
 * prefill and one token more, and leaves the watermark free unless nothing runs, so that the first steps of decoding
 * do not preempt at once. When a decoding row lacks a block the newest rows give theirs up and prefill again later
 * (recompute); a row alone always fits, because longer requests were refused. */
#include "replica/internal.h"

bool kv_admits(const struct replica *replica, const struct request *request)
{
    uint64_t need = blocks_for(replica, (uint64_t)request->prompt_tokens + request->generated_tokens + 1);

    if (replica->rows_count > 0)
        need += replica->kv_watermark;
    return replica->kv_used + need <= replica->config.kv_blocks;
}

static uint32_t blocks_wanted(const struct replica *replica, const struct row *row)
{
    return (uint32_t)blocks_for(replica, (uint64_t)max_u32(row->context, row->target) + 1);
}

/* Its adapter is unpinned and it goes back to its place; what it generated is kept, and prefilled with the prompt. */
static void preempt_newest(struct replica *replica, struct replica_commands *out)
{
    const struct row *row = &replica->rows[replica->rows_count - 1];
    struct request *request = &replica->requests[row->request];

    row_release(replica, row);
    request->lost_tokens = max_u32(request->lost_tokens, row->context);
    request_account(request, replica_say(replica, out, REPLICA_COMMAND_PREEMPT, 0));
    queue_insert(replica, row->request);
    replica->rows_count--;
    replica->preemptions++;
    note_change(replica);
}

bool kv_grow(struct replica *replica, struct replica_commands *out)
{
    uint64_t more = 0;

    for (uint32_t i = 0; i < replica->rows_count; i++)
        more += blocks_wanted(replica, &replica->rows[i]) - replica->rows[i].blocks;
    while (replica->kv_used + more > replica->config.kv_blocks) {
        const struct row *newest = &replica->rows[replica->rows_count - 1];

        check(replica->rows_count > 1);
        if (!say_room(out, 1))
            return false;
        more -= blocks_wanted(replica, newest) - newest->blocks;
        preempt_newest(replica, out);
    }
    if (more == 0)
        return true;
    for (uint32_t i = 0; i < replica->rows_count; i++)
        replica->rows[i].blocks = blocks_wanted(replica, &replica->rows[i]);
    replica->kv_used += more;
    return true;
}

/* Step 1 has its blocks. A row with context c takes one more at step j > 1 when c + j - 1 is a multiple of
 * block_tokens, so one block a row in each cycle of block_tokens steps: whole cycles by division, the last one by
 * residue. */
uint32_t kv_steps(const struct replica *replica, uint32_t most)
{
    uint32_t block_tokens = replica->config.block_tokens;
    uint64_t free = replica->config.kv_blocks - replica->kv_used;
    uint64_t rows = replica->rows_count;
    uint64_t steps;
    uint32_t takers[256];

    if (rows * (((uint64_t)most >> replica->block_shift) + 1) <= free)
        return most;
    memset(takers, 0, block_tokens * sizeof(takers[0]));
    for (uint32_t i = 0; i < rows; i++)
        takers[block_tokens - 1 - (replica->rows[i].context & (block_tokens - 1))]++;
    steps = 1 + free / rows * block_tokens;
    free %= rows;
    for (uint32_t i = 0; i < block_tokens && takers[i] <= free && steps < most; i++, steps++)
        free -= takers[i];
    return (uint32_t)min_u64(steps, most);
}
