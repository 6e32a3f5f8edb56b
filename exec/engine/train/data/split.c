/* Which samples are for validation, in which order the others come, how often, how many at a time. */
#include <stdlib.h>

#include "base/hash.h"
#include "engine/train/data/internal.h"

/* --- splitting -------------------------------------------------------------------------------------------------------------- */

static bool is_chosen(const struct data_sample *sample, int32_t percent, uint64_t seed)
{
    return hash_mix(hash_mix(seed ^ UINT64_C(0x73706C6974)) ^ (uint64_t)sample->line) % 100 < (uint64_t)percent; /* "split" */
}

/* To the end of `to`, which may be `from` itself when the sample lies at its end or behind. */
static void move_sample(const struct data_set *from, struct data_sample sample, struct data_set *to)
{
    memmove(to->tokens + to->tokens_count, from->tokens + sample.at, (size_t)sample.tokens * sizeof(to->tokens[0]));
    memmove(to->is_target + to->tokens_count, from->is_target + sample.at, (size_t)sample.tokens);
    sample.at = to->tokens_count;
    to->examples += to->count == 0 || to->sample[to->count - 1].line != sample.line;
    to->sample[to->count++] = sample;
    to->tokens_count += sample.tokens;
    to->targets_count += sample.targets;
}

enum status data_split(struct data_set *set, int32_t percent, uint64_t seed, struct data_set **ret_part, struct refusal *refusal)
{
    struct data_set *part = calloc(1, sizeof(*part));
    const int32_t count = set->count;
    int32_t chosen = 0;

    check(percent >= 1 && percent <= 50);
    for (int32_t i = 0; i < count; i++)
        chosen += is_chosen(&set->sample[i], percent, seed);
    if (chosen == 0 || chosen == count) {
        free(part);
        return refuse(refusal, STATUS_INVALID, "%d samples are too few to split %d %% of them off for validation", count, percent);
    }
    if (part != NULL) {
        part->sample = calloc((size_t)chosen, sizeof(*part->sample));
        part->tokens = calloc((size_t)set->tokens_count, sizeof(*part->tokens));
        part->is_target = calloc((size_t)set->tokens_count, 1);
    }
    if (part == NULL || part->sample == NULL || part->tokens == NULL || part->is_target == NULL) {
        data_close(part);
        return refuse(refusal, STATUS_FULL, "no memory");
    }
    set->count = 0;
    set->examples = 0;
    set->tokens_count = 0;
    set->targets_count = 0;
    for (int32_t i = 0; i < count; i++)
        move_sample(set, set->sample[i], is_chosen(&set->sample[i], percent, seed) ? part : set);
    data_digest(set);
    data_digest(part);
    *ret_part = part;
    return STATUS_OK;
}

/* --- order ------------------------------------------------------------------------------------------------------------------ */

/* Fisher and Yates from the end; the bias is below count / 2^64. */
void data_order(uint64_t seed, int32_t epoch, int32_t count, int32_t *ret_order)
{
    const uint64_t stream = hash_mix(hash_mix(seed ^ UINT64_C(0x6F72646572)) ^ (uint64_t)epoch); /* "order" */

    for (int32_t i = 0; i < count; i++)
        ret_order[i] = i;
    for (int32_t i = count - 1; i > 0; i--) {
        const int32_t j = (int32_t)(hash_mix(stream ^ (uint64_t)i) % (uint64_t)(i + 1));
        const int32_t kept = ret_order[i];

        ret_order[i] = ret_order[j];
        ret_order[j] = kept;
    }
}

int32_t data_epochs(int32_t examples)
{
    int32_t epochs = 3;

    check(examples >= 1);
    if (epochs * (int64_t)examples < 100)
        epochs = (100 + examples - 1) / examples;
    else if (epochs * (int64_t)examples > 25000)
        epochs = 25000 / examples;
    return epochs < 1 ? 1 : epochs > 25 ? 25 : epochs;
}

int32_t data_batch(int32_t samples)
{
    return samples < 16 ? 1 : samples > 256 ? 16 : samples / 16;
}
