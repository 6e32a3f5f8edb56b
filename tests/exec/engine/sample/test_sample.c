#include <math.h>
#include <stdlib.h>

#include "engine/sample/sample.h"
#include "support.h"

enum { V = 700 };

struct row {
    float whole[V];
    float logits[PICK_MAX];
    int32_t ids[PICK_MAX];
    float lse;
};

/* The device's part, the plain way. */
static void pick(struct row *row)
{
    double best = -INFINITY;
    double sum = 0;
    bool taken[V] = {false};

    for (int i = 0; i < V; i++)
        best = fmax(best, (double)row->whole[i]);
    for (int i = 0; i < V; i++)
        sum += exp((double)row->whole[i] - best);
    row->lse = (float)(best + log(sum));
    for (int n = 0; n < PICK_MAX; n++) {
        int at = -1;

        for (int i = 0; i < V; i++)
            if (!taken[i] && (at < 0 || row->whole[i] > row->whole[at]))
                at = i;
        taken[at] = true;
        row->ids[n] = at;
        row->logits[n] = row->whole[at];
    }
}

static void random_row(struct row *row, uint64_t *state, double spread)
{
    for (int i = 0; i < V; i++)
        row->whole[i] = (float)(((double)(draw(state) >> 11) * 0x1p-53 - 0.5) * spread);
    pick(row);
}

static struct sample_row as_best(const struct row *row)
{
    return (struct sample_row){.lse = row->lse, .logits = row->logits, .ids = row->ids, .count = PICK_MAX, .vocabulary = V};
}

static struct sample_row as_whole(const struct row *row)
{
    struct sample_row whole = as_best(row);

    whole.whole = row->whole;
    return whole;
}

static struct sample_params some_params(uint64_t *state)
{
    struct sample_params params;

    sample_params_init(&params);
    params.seed = draw(state);
    params.temperature = draw(state) % 3 == 0 ? 1 : (float)(draw(state) % 20) / 10;
    params.top_k = draw(state) % 2 == 0 ? 0 : (int32_t)(draw(state) % 300);
    params.top_p = draw(state) % 2 == 0 ? 1 : (float)(1 + draw(state) % 99) / 100;
    params.min_p = draw(state) % 2 == 0 ? 0 : (float)(draw(state) % 99) / 100;
    if (draw(state) % 2 == 0) {
        params.repetition = (float)(5 + draw(state) % 10) / 10;
        params.presence = (float)(draw(state) % 40) / 10 - 2;
        params.frequency = (float)(draw(state) % 40) / 10 - 2;
    }
    if (draw(state) % 3 == 0) {
        params.biases_count = 2;
        params.biases[0] = (struct sample_bias){.id = (int32_t)(draw(state) % V), .add = -50};
        params.biases[1] = (struct sample_bias){.id = (int32_t)(draw(state) % V), .add = (float)(draw(state) % 40) - 20};
    }
    return params;
}

/* Sorts, filters and draws with nothing saved. */
static int32_t naive(const struct sample_params *params, const int32_t *answers, const bool *in_prompt, const struct row *row,
                     double *ret_share)
{
    static double logits[V];
    static int order[V];
    int kept = V;
    double total = 0;
    double sum = 0;

    for (int i = 0; i < V; i++) {
        float l = row->whole[i];

        if (answers[i] > 0 || in_prompt[i])
            l = l > 0 ? l / params->repetition : l * params->repetition;
        if (answers[i] > 0)
            l -= params->presence + params->frequency * (float)answers[i];
        for (uint32_t b = 0; b < params->biases_count; b++)
            if (params->biases[b].id == i)
                l += params->biases[b].add;
        logits[i] = (double)l;
        order[i] = i;
    }
    for (int i = 1; i < V; i++)
        for (int j = i; j > 0 && logits[order[j]] > logits[order[j - 1]]; j--) {
            int swap = order[j];

            order[j] = order[j - 1];
            order[j - 1] = swap;
        }
    if (params->temperature < 1e-9f)
        return order[0];
    if (params->top_k > 0 && params->top_k < kept)
        kept = params->top_k;
    for (int i = 0; i < kept; i++)
        total += exp((logits[order[i]] - logits[order[0]]) / (double)params->temperature);
    if (params->top_p < 1) {
        int n = 0;

        while (n < kept && sum < (double)params->top_p * total)
            sum += exp((logits[order[n++]] - logits[order[0]]) / (double)params->temperature);
        kept = n;
    }
    if (params->min_p > 0)
        while (kept > 1 && exp((logits[order[kept - 1]] - logits[order[0]]) / (double)params->temperature) < (double)params->min_p)
            kept--;
    total = 0;
    for (int i = 0; i < kept; i++)
        total += exp((logits[order[i]] - logits[order[0]]) / (double)params->temperature);
    /* Which share of the kept mass lies up to each id: the caller compares. */
    for (int i = 0; i < V; i++)
        ret_share[i] = 0;
    for (int i = 0; i < kept; i++)
        ret_share[order[i]] = exp((logits[order[i]] - logits[order[0]]) / (double)params->temperature) / total;
    return -1;
}

static void best_ones_and_whole_rows_choose_alike(void **context)
{
    struct sample_scratch *scratch = sample_scratch_create(V);
    static struct row row;
    static double share[V];
    uint64_t state = 7;
    int decided = 0;

    (void)context;
    for (int round = 0; round < 1500; round++) {
        struct sample_params params = some_params(&state);
        struct sample_counts *counts = sample_counts_create(64);
        int32_t answers[V] = {0};
        bool in_prompt[V] = {false};
        struct sample_row best;
        struct sample_row whole;
        struct sample_choice a;
        struct sample_choice b;
        int32_t want;

        random_row(&row, &state, round % 2 == 0 ? 30 : 6);
        for (int i = 0; i < 30; i++) {
            int32_t id = row.ids[draw(&state) % PICK_MAX];

            if (i < 10) {
                in_prompt[id] = true;
                sample_counts_prompt(counts, id);
            } else {
                answers[id]++;
                sample_counts_answer(counts, id);
            }
        }
        best = as_best(&row);
        whole = as_whole(&row);
        assert_int_equal(sample_token(&params, counts, &whole, round, scratch, &b), STATUS_OK);
        want = naive(&params, answers, in_prompt, &row, share);
        if (want >= 0)
            assert_int_equal(b.id, want);
        else
            assert_true(share[b.id] > 0);
        if (sample_token(&params, counts, &best, round, scratch, &a) == STATUS_OK) {
            decided++;
            assert_int_equal(a.id, b.id);
            assert_true(a.logprob <= b.logprob && a.logprob >= b.logprob);
        }
        sample_counts_free(counts);
    }
    /* Most rows need not be fetched whole. */
    assert_true(decided > 400);
    sample_scratch_free(scratch);
}

static void draws_follow_the_probabilities(void **context)
{
    struct sample_scratch *scratch = sample_scratch_create(V);
    struct sample_params params;
    static struct row row;
    static double share[V];
    static int32_t seen[V];
    static const int32_t none[V];
    static const bool never[V];
    uint64_t state = 3;
    double chi = 0;
    int cells = 0;
    enum { DRAWS = 40000 };

    (void)context;
    sample_params_init(&params);
    params.top_k = 40;
    params.temperature = 1.5f;
    random_row(&row, &state, 8);
    (void)naive(&params, none, never, &row, share);
    for (int i = 0; i < DRAWS; i++) {
        struct sample_row best = as_best(&row);
        struct sample_choice choice;

        assert_int_equal(sample_token(&params, NULL, &best, i, scratch, &choice), STATUS_OK);
        seen[choice.id]++;
    }
    for (int i = 0; i < V; i++) {
        double want = share[i] * DRAWS;

        if (share[i] <= 0)
            assert_int_equal(seen[i], 0);
        else
            chi += (seen[i] - want) * (seen[i] - want) / want, cells++;
    }
    assert_int_equal(cells, 40);
    /* 39 degrees of freedom: 72.1 is passed once in a thousand; the draws are fixed. */
    assert_true(chi < 72.1);
    sample_scratch_free(scratch);
}

static void seed_and_position_decide_the_draw(void **context)
{
    struct sample_scratch *scratch = sample_scratch_create(V);
    struct sample_params params;
    static struct row row;
    uint64_t state = 5;
    int differ_by_seed = 0;
    int differ_by_position = 0;

    (void)context;
    sample_params_init(&params);
    random_row(&row, &state, 2);
    for (int i = 0; i < 50; i++) {
        struct sample_row whole = as_whole(&row);
        struct sample_choice a, b, c, d;

        params.seed = 11;
        sample_token(&params, NULL, &whole, i, scratch, &a);
        sample_token(&params, NULL, &whole, i, scratch, &b);
        sample_token(&params, NULL, &whole, i + 1, scratch, &c);
        params.seed = 12;
        sample_token(&params, NULL, &whole, i, scratch, &d);
        assert_int_equal(a.id, b.id);
        differ_by_position += a.id != c.id;
        differ_by_seed += a.id != d.id;
    }
    assert_true(differ_by_position > 40 && differ_by_seed > 40);
    sample_scratch_free(scratch);
}

static void greedy_takes_the_lowest_id_on_ties(void **context)
{
    struct sample_scratch *scratch = sample_scratch_create(V);
    struct sample_params params;
    static struct row row;
    struct sample_row best;
    struct sample_choice choice;

    (void)context;
    sample_params_init(&params);
    params.temperature = 0;
    for (int i = 0; i < V; i++)
        row.whole[i] = i == 300 || i == 120 ? 4 : 0;
    pick(&row);
    best = as_best(&row);
    assert_int_equal(sample_token(&params, NULL, &best, 0, scratch, &choice), STATUS_OK);
    assert_int_equal(choice.id, 120);
    assert_float_equal(choice.logprob, (float)(4 - log(2 * exp(4) + V - 2)), 1e-5f);
    /* A bias that lifts what was not seen needs the whole row; with it, it wins. */
    params.biases_count = 1;
    params.biases[0] = (struct sample_bias){.id = 699, .add = 90};
    assert_int_equal(sample_token(&params, NULL, &best, 0, scratch, &choice), STATUS_NOT_FOUND);
    best.whole = row.whole;
    assert_int_equal(sample_token(&params, NULL, &best, 0, scratch, &choice), STATUS_OK);
    assert_int_equal(choice.id, 699);
    /* What is reported is the model's own, without the bias. */
    assert_float_equal(choice.logprob, (float)(0 - log(2 * exp(4) + V - 2)), 1e-5f);
    sample_scratch_free(scratch);
}

static void parameters_out_of_range_are_named(void **context)
{
    const char *field = NULL;
    const char *why = NULL;
    struct sample_params params;

    (void)context;
#define REFUSED(member, value, name)                                                                  \
    sample_params_init(&params);                                                                      \
    assert_int_equal(sample_params_check(&params, V, &field, &why), STATUS_OK);                       \
    params.member = value;                                                                            \
    assert_int_equal(sample_params_check(&params, V, &field, &why), STATUS_INVALID);                  \
    assert_string_equal(field, name)
    REFUSED(temperature, -0.1f, "temperature");
    REFUSED(temperature, NAN, "temperature");
    REFUSED(top_k, -1, "top_k");
    REFUSED(top_p, 0, "top_p");
    REFUSED(top_p, NAN, "top_p");
    REFUSED(min_p, 1, "min_p");
    REFUSED(repetition, 0, "repetition_penalty");
    REFUSED(presence, 3, "presence_penalty");
    REFUSED(frequency, -3, "frequency_penalty");
    REFUSED(logprobs, 21, "logprobs");
    REFUSED(biases_count, 301, "logit_bias");
#undef REFUSED
    sample_params_init(&params);
    params.biases_count = 1;
    params.biases[0] = (struct sample_bias){.id = V, .add = 1};
    assert_int_equal(sample_params_check(&params, V, &field, &why), STATUS_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_ones_and_whole_rows_choose_alike),
        cmocka_unit_test(draws_follow_the_probabilities),
        cmocka_unit_test(seed_and_position_decide_the_draw),
        cmocka_unit_test(greedy_takes_the_lowest_id_on_ties),
        cmocka_unit_test(parameters_out_of_range_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
