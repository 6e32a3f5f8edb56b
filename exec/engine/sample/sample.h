/* Which token comes next. The device hands over the log of the sum of exp of a row's logits and its best ones; whole rows are asked for
 * only when those cannot decide. Both ways give the same token, and the same one whatever else is in the batch: the draw is
 * hash(seed, position), and sums run in falling order of logits.
 *
 * Order: penalties and bias, temperature, top_k, top_p, min_p; each keeps at least one token, and what is kept is normalised again.
 * repetition: logits of ids in prompt or answer are divided by it when positive, multiplied when negative (Keskar et al. 2019).
 * presence, frequency: subtracted once, or once for each time, for ids in the answer (as OpenAI's API defines them).
 * Log-probabilities that are reported are the model's own: temperature 1, nothing subtracted. */
#ifndef SAMPLE_SAMPLE_H
#define SAMPLE_SAMPLE_H

#include "engine/ops/ops.h"

#define SAMPLE_BIASES_MAX 300
#define SAMPLE_LOGPROBS_MAX 20

struct sample_bias {
    int32_t id;
    float add;
};

struct sample_params {
    float temperature;   /* 0: greedy, the lowest id on ties */
    int32_t top_k;       /* 0: all */
    float top_p;         /* 1: all */
    float min_p;         /* of the best one's probability; 0: all */
    float repetition;    /* 1: none */
    float presence;
    float frequency;
    uint64_t seed;
    uint32_t logprobs;   /* how many of the best to report beside the chosen one */
    uint32_t biases_count;
    struct sample_bias biases[SAMPLE_BIASES_MAX];
};

void sample_params_init(struct sample_params *params);
/* STATUS_INVALID with the field's name and what it may be. */
enum status sample_params_check(const struct sample_params *params, int32_t vocabulary, const char **ret_field, const char **ret_why);

/* How often each id stood in a sequence, kept only where penalties need it. */
struct sample_counts;
/* NULL: no memory. tokens_max: of prompt and answer together. */
struct sample_counts *sample_counts_create(uint32_t tokens_max);
void sample_counts_free(struct sample_counts *counts);
void sample_counts_prompt(struct sample_counts *counts, int32_t id);
void sample_counts_answer(struct sample_counts *counts, int32_t id);
bool sample_needs_counts(const struct sample_params *params);

/* What the device says of one row: the best `count` in falling order, ids rising on ties. */
struct sample_row {
    float lse;
    const float *logits;
    const int32_t *ids;
    int32_t count;
    int32_t vocabulary;
    const float *whole;  /* [vocabulary]; NULL: not fetched */
};

struct sample_choice {
    int32_t id;
    float logprob;       /* the model's own */
};

/* Memory for sorting a whole row. */
struct sample_scratch {
    struct sample_entry *entries; /* [vocabulary] */
};
struct sample_scratch *sample_scratch_create(int32_t vocabulary);
void sample_scratch_free(struct sample_scratch *scratch);

/* `position`: of the token chosen, in its sequence, from 0. STATUS_NOT_FOUND: the whole row is needed. `counts` may be NULL when
 * sample_needs_counts() is false. */
enum status sample_token(const struct sample_params *params, const struct sample_counts *counts, const struct sample_row *row,
                         int64_t position, struct sample_scratch *scratch, struct sample_choice *ret_choice);

#endif
