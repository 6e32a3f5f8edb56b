#include "engine/device/ranks.h"

#include <stdlib.h>

#include "engine/device/team.h"

struct ranks {
    struct meeting meeting;
    int32_t count;
    uint32_t turn[RANKS_MAX];         /* meetings so far, each rank's own count */
    void *place[2][RANKS_MAX];        /* two, so that a fast rank's next meeting does not touch what a slow one still reads */
};

struct ranks *ranks_open(int32_t count)
{
    struct ranks *ranks = aligned_alloc(64, (sizeof(*ranks) + 63) / 64 * 64);

    check(count >= 1 && count <= RANKS_MAX);
    if (ranks == NULL)
        return NULL;
    memset(ranks, 0, sizeof(*ranks));
    ranks->count = count;
    meeting_init(&ranks->meeting, (uint32_t)count);
    return ranks;
}

void ranks_close(struct ranks *ranks)
{
    free(ranks);
}

int32_t ranks_count(const struct ranks *ranks)
{
    return ranks->count;
}

void *const *ranks_meet(struct ranks *ranks, int32_t rank, void *mine)
{
    void **place = ranks->place[ranks->turn[rank]++ % 2];

    check(rank >= 0 && rank < ranks->count);
    place[rank] = mine;
    meeting_join(&ranks->meeting);
    return place;
}

void ranks_sum(struct ranks *ranks, int32_t rank, float *x, int64_t n)
{
    void *const *place = ranks_meet(ranks, rank, x);
    const int64_t from = n * rank / ranks->count;
    const int64_t until = n * (rank + 1) / ranks->count;

    /* Between the two meetings an element is touched by one rank alone. */
    for (int64_t i = from; i < until; i++) {
        float sum = ((const float *)place[0])[i];

        for (int32_t r = 1; r < ranks->count; r++)
            sum += ((const float *)place[r])[i];
        for (int32_t r = 0; r < ranks->count; r++)
            ((float *)place[r])[i] = sum;
    }
    (void)ranks_meet(ranks, rank, x);
}
