#include "engine/sample/sample.h"

#include <math.h>
#include <stdlib.h>

#include "base/hash.h"

#define SAMPLE_PURPOSE UINT64_C(0x746f6b656e)

void sample_params_init(struct sample_params *params)
{
    *params = (struct sample_params){.temperature = 1, .top_p = 1, .repetition = 1};
}

enum status sample_params_check(const struct sample_params *params, int32_t vocabulary, const char **ret_field, const char **ret_why)
{
    const struct {
        bool fine;
        const char *field, *why;
    } rules[] = {
        {params->temperature >= 0 && params->temperature <= 2, "temperature", "between 0 and 2"},
        {params->top_k >= 0, "top_k", "0 (all) or more"},
        {params->top_p > 0 && params->top_p <= 1, "top_p", "above 0, at most 1"},
        {params->min_p >= 0 && params->min_p < 1, "min_p", "at least 0, below 1"},
        {params->repetition > 0 && params->repetition <= 10, "repetition_penalty", "above 0, at most 10"},
        {params->presence >= -2 && params->presence <= 2, "presence_penalty", "between -2 and 2"},
        {params->frequency >= -2 && params->frequency <= 2, "frequency_penalty", "between -2 and 2"},
        {params->logprobs <= SAMPLE_LOGPROBS_MAX, "logprobs", "at most 20"},
        {params->biases_count <= SAMPLE_BIASES_MAX, "logit_bias", "at most 300 tokens"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(rules); i++) {
        if (rules[i].fine)
            continue;
        *ret_field = rules[i].field;
        *ret_why = rules[i].why;
        return STATUS_INVALID;
    }
    for (uint32_t i = 0; i < params->biases_count; i++) {
        const struct sample_bias *bias = &params->biases[i];

        if (bias->id >= 0 && bias->id < vocabulary && bias->add >= -100 && bias->add <= 100)
            continue;
        *ret_field = "logit_bias";
        *ret_why = "ids of the vocabulary, values between -100 and 100";
        return STATUS_INVALID;
    }
    return STATUS_OK;
}

/* --- counts ----------------------------------------------------------------------------------------------------------------- */

struct sample_counts {
    uint32_t slots; /* a power of two, at least twice the tokens: never full */
    struct count_entry {
        int32_t id; /* -1: free */
        uint32_t answer;
    } entries[];
};

struct sample_counts *sample_counts_create(uint32_t tokens_max)
{
    uint32_t slots = 16;
    struct sample_counts *counts;

    while (slots < 2 * (uint64_t)tokens_max && slots < 1u << 30)
        slots *= 2;
    counts = malloc(sizeof(*counts) + slots * sizeof(counts->entries[0]));
    if (counts == NULL)
        return NULL;
    counts->slots = slots;
    memset(counts->entries, 0xff, slots * sizeof(counts->entries[0]));
    return counts;
}

void sample_counts_free(struct sample_counts *counts)
{
    free(counts);
}

static struct count_entry *count_at(const struct sample_counts *counts, int32_t id)
{
    uint32_t at = (uint32_t)hash_mix((uint64_t)id) & (counts->slots - 1);

    while (counts->entries[at].id != id && counts->entries[at].id != -1)
        at = (at + 1) & (counts->slots - 1);
    return (struct count_entry *)(uintptr_t)&counts->entries[at];
}

static struct count_entry *count_add(struct sample_counts *counts, int32_t id)
{
    struct count_entry *entry = count_at(counts, id);

    check(id >= 0);
    if (entry->id == -1)
        *entry = (struct count_entry){.id = id};
    return entry;
}

void sample_counts_prompt(struct sample_counts *counts, int32_t id)
{
    (void)count_add(counts, id);
}

void sample_counts_answer(struct sample_counts *counts, int32_t id)
{
    count_add(counts, id)->answer++;
}

static bool equal(float a, float b)
{
    return !(a < b) && !(a > b);
}

bool sample_needs_counts(const struct sample_params *params)
{
    return !equal(params->repetition, 1) || !equal(params->presence, 0) || !equal(params->frequency, 0);
}

/* --- one row ---------------------------------------------------------------------------------------------------------------- */

struct sample_entry {
    float logit; /* after penalties and bias */
    int32_t id;
};

struct sample_scratch *sample_scratch_create(int32_t vocabulary)
{
    struct sample_scratch *scratch = malloc(sizeof(*scratch));

    if (scratch == NULL)
        return NULL;
    scratch->entries = malloc((size_t)vocabulary * sizeof(scratch->entries[0]));
    if (scratch->entries != NULL)
        return scratch;
    free(scratch);
    return NULL;
}

void sample_scratch_free(struct sample_scratch *scratch)
{
    if (scratch != NULL)
        free(scratch->entries);
    free(scratch);
}

static float adjusted(const struct sample_params *params, const struct sample_counts *counts, int32_t id, float logit)
{
    if (counts != NULL) {
        const struct count_entry *entry = count_at(counts, id);

        if (entry->id == id) {
            logit = logit > 0 ? logit / params->repetition : logit * params->repetition;
            if (entry->answer > 0)
                logit -= params->presence + params->frequency * (float)entry->answer;
        }
    }
    for (uint32_t i = 0; i < params->biases_count; i++)
        if (params->biases[i].id == id)
            logit += params->biases[i].add;
    return logit;
}

static int by_logit(const void *a, const void *b)
{
    const struct sample_entry *x = a;
    const struct sample_entry *y = b;

    if (x->logit > y->logit || x->logit < y->logit)
        return x->logit > y->logit ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Whether an adjustment may lift a token above where it stood, so that the best ones may not be the best any more. */
static bool lifts(const struct sample_params *params)
{
    for (uint32_t i = 0; i < params->biases_count; i++)
        if (params->biases[i].add > 0)
            return true;
    return params->repetition < 1 || params->presence < 0 || params->frequency < 0;
}

static bool adjusts(const struct sample_params *params)
{
    return sample_needs_counts(params) || params->biases_count > 0;
}

/* The entries in falling order; returns how many of them are surely the first ones of the whole row's order. */
static int32_t sorted(const struct sample_params *params, const struct sample_counts *counts, const struct sample_row *row,
                      struct sample_entry *entries, int32_t *ret_count)
{
    bool whole = row->whole != NULL;
    int32_t count = whole ? row->vocabulary : row->count;
    int32_t sure = 0;

    for (int32_t i = 0; i < count; i++) {
        int32_t id = whole ? i : row->ids[i];

        entries[i] = (struct sample_entry){.logit = adjusted(params, counts, id, whole ? row->whole[i] : row->logits[i]), .id = id};
    }
    *ret_count = count;
    if (whole || adjusts(params))
        qsort(entries, (size_t)count, sizeof(entries[0]), by_logit);
    if (whole || count == row->vocabulary)
        return count;
    if (lifts(params))
        return 0;
    if (!adjusts(params))
        return count;
    while (sure < count && entries[sure].logit > row->logits[count - 1])
        sure++;
    return sure;
}

/* The sum of exp((logit - best) / temperature) of the first ones, in their order. */
static double mass(const struct sample_entry *entries, int32_t count, double temperature)
{
    double sum = 0;

    for (int32_t i = 0; i < count; i++)
        sum += exp(((double)entries[i].logit - (double)entries[0].logit) / temperature);
    return sum;
}

/* Draws from the first `count`, whose mass is `total`; `sure` of them are there. STATUS_NOT_FOUND: it fell behind them. */
static enum status draw(const struct sample_entry *entries, int32_t sure, int32_t count, double total, double temperature,
                        uint64_t random, int32_t *ret_at)
{
    double target = (double)(random >> 11) * 0x1p-53 * total;
    double sum = 0;

    for (int32_t i = 0; i < sure && i < count; i++) {
        sum += exp(((double)entries[i].logit - (double)entries[0].logit) / temperature);
        *ret_at = i;
        if (target < sum)
            return STATUS_OK;
    }
    /* By rounding, the last one's end may lie below the total. */
    return sure >= count ? STATUS_OK : STATUS_NOT_FOUND;
}

/* How many of the first ones top_p keeps: the fewest that reach that share. */
static enum status keep_top_p(const struct sample_entry *entries, int32_t sure, int32_t count, double total, double top_p,
                              double temperature, int32_t *ret_kept)
{
    double sum = 0;

    for (int32_t i = 0; i < sure && i < count; i++) {
        sum += exp(((double)entries[i].logit - (double)entries[0].logit) / temperature);
        *ret_kept = i + 1;
        if (sum >= top_p * total)
            return STATUS_OK;
    }
    *ret_kept = count;
    return sure >= count ? STATUS_OK : STATUS_NOT_FOUND;
}

static int32_t keep_min_p(const struct sample_entry *entries, int32_t count, double min_p, double temperature)
{
    double line = (double)entries[0].logit + temperature * log(min_p);
    int32_t kept = 1;

    while (kept < count && (double)entries[kept].logit >= line)
        kept++;
    return kept;
}

/* An index into entries. */
static enum status choose(const struct sample_params *params, const struct sample_row *row, const struct sample_entry *entries,
                          int32_t sure, int64_t position, int32_t *ret_at)
{
    double temperature = (double)params->temperature;
    uint64_t random = hash_mix(hash_fold(hash_fold(params->seed, SAMPLE_PURPOSE), (uint64_t)position));
    int32_t count = row->vocabulary;
    double total;

    if (params->top_k > 0)
        count = params->top_k < count ? params->top_k : count;
    /* Without top_p, min_p alone may close the set before the sure ones end. */
    if (params->min_p > 0 && equal(params->top_p, 1)) {
        int32_t kept = keep_min_p(entries, sure < count ? sure : count, (double)params->min_p, temperature);

        if (kept < sure || sure >= count)
            count = kept;
    }
    /* The device's sum, where it is the one that is wanted, on both ways: the same bits. */
    if (count == row->vocabulary && equal(params->temperature, 1) && !adjusts(params))
        total = exp((double)row->lse - (double)entries[0].logit);
    else if (count <= sure)
        total = mass(entries, count, temperature);
    else
        return STATUS_NOT_FOUND;
    if (params->top_p < 1) {
        if (keep_top_p(entries, sure, count, total, (double)params->top_p, temperature, &count) != STATUS_OK)
            return STATUS_NOT_FOUND;
        if (params->min_p > 0)
            count = keep_min_p(entries, count, (double)params->min_p, temperature);
        total = mass(entries, count, temperature);
    }
    return draw(entries, sure, count, total, temperature, random, ret_at);
}

static float logit_of(const struct sample_row *row, int32_t id)
{
    if (row->whole != NULL)
        return row->whole[id];
    for (int32_t i = 0; i < row->count; i++)
        if (row->ids[i] == id)
            return row->logits[i];
    check(false && "a chosen token is among the candidates");
    return 0;
}

enum status sample_token(const struct sample_params *params, const struct sample_counts *counts, const struct sample_row *row,
                         int64_t position, struct sample_scratch *scratch, struct sample_choice *ret_choice)
{
    struct sample_entry *entries = scratch->entries;
    int32_t count;
    int32_t sure;
    int32_t at = 0;
    bool greedy = equal(params->temperature, 0);
    enum status status;

    check(row->count >= 1 || row->whole != NULL);
    check(counts != NULL || !sample_needs_counts(params));
    if (greedy && !adjusts(params) && row->count >= 1) {
        *ret_choice = (struct sample_choice){.id = row->ids[0], .logprob = row->logits[0] - row->lse};
        return STATUS_OK;
    }
    sure = sorted(params, counts, row, entries, &count);
    if (sure == 0)
        return STATUS_NOT_FOUND;
    if (!greedy) {
        status = choose(params, row, entries, sure, position, &at);
        if (status != STATUS_OK)
            return status;
    }
    ret_choice->id = entries[at].id;
    ret_choice->logprob = logit_of(row, entries[at].id) - row->lse;
    return STATUS_OK;
}
