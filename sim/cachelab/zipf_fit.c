#include "cachelab/zipf_fit.h"

#include <math.h>
#include <stdlib.h>

#define ALPHA_MAX 32.0
#define STEPS_MAX 100
/* Of the error, that sorting may move alpha by. */
#define BIAS_MAX 0.25

static int more_first(const void *a, const void *b)
{
    const uint64_t one = *(const uint64_t *)a;
    const uint64_t other = *(const uint64_t *)b;

    return one < other ? 1 : one > other ? -1 : 0;
}

void counts_sort(uint64_t *counts, uint64_t objects)
{
    qsort(counts, objects, sizeof(*counts), more_first);
}

struct head {
    const uint64_t *counts;
    double *logs; /* ln(rank), [ranks_max] */
    double requests;
    uint64_t ranks;
};

struct moments {
    double sum; /* of rank^-alpha */
    double mean;
    double variance; /* of ln(rank) */
};

static struct moments moments_of(const struct head *head, double alpha)
{
    struct moments moments = {0, 0, 0};

    for (uint64_t i = 0; i < head->ranks; i++) {
        const double weight = exp(-alpha * head->logs[i]);

        moments.sum += weight;
        moments.mean += weight * head->logs[i];
        moments.variance += weight * head->logs[i] * head->logs[i];
    }
    moments.mean /= moments.sum;
    moments.variance = moments.variance / moments.sum - moments.mean * moments.mean;
    return moments;
}

/* The expected logarithm falls in alpha, with the variance as its slope: Newton's steps, halving where they leave what is known. */
static double solve(const struct head *head, double wanted, struct moments *ret_moments)
{
    double low = 0;
    double high = ALPHA_MAX;
    double alpha = 1;

    for (int step = 0; step < STEPS_MAX; step++) {
        double next;

        *ret_moments = moments_of(head, alpha);
        if (ret_moments->mean > wanted)
            low = alpha;
        else
            high = alpha;
        next = alpha + (ret_moments->mean - wanted) / ret_moments->variance;
        if (!(next > low && next < high))
            next = (low + high) / 2;
        if (fabs(next - alpha) < 1e-12)
            break;
        alpha = next;
    }
    return alpha;
}

/* True where sorting moves alpha little. */
static bool fit_head(struct head *head, uint64_t ranks, struct zipf_fit *ret_fit, struct moments *ret_moments)
{
    double logarithms = 0;

    head->ranks = ranks;
    head->requests = 0;
    for (uint64_t i = 0; i < ranks; i++) {
        head->requests += (double)head->counts[i];
        logarithms += (double)head->counts[i] * head->logs[i];
    }
    ret_fit->ranks = ranks;
    ret_fit->alpha = solve(head, logarithms / head->requests, ret_moments);
    ret_fit->error = 1 / sqrt(head->requests * ret_moments->variance);
    return (double)ranks * ret_fit->error <= BIAS_MAX * ret_fit->alpha;
}

static double misfit_of(const struct head *head, double alpha, double sum)
{
    double largest = 0;
    double law = 0;
    double seen = 0;

    for (uint64_t i = 0; i < head->ranks; i++) {
        law += exp(-alpha * head->logs[i]) / sum;
        seen += (double)head->counts[i] / head->requests;
        largest = fmax(largest, fabs(law - seen));
    }
    return largest;
}

static bool logs_reserve(struct head *head, uint64_t from, uint64_t ranks)
{
    double *logs = realloc(head->logs, ranks * sizeof(*logs));

    if (logs == NULL)
        return false;
    for (uint64_t i = from; i < ranks; i++)
        logs[i] = log((double)(i + 1));
    head->logs = logs;
    return true;
}

/* Twice as many ranks while they are good, then between the last that were and the first that were not. */
static enum status heads_search(struct head *head, uint64_t objects, struct zipf_fit *ret_fit, struct moments *ret_moments)
{
    uint64_t good = 0;
    uint64_t bad = objects + 1;

    for (uint64_t ranks = 3, known = 0; ranks < bad; ranks = good < objects ? min_u64(2 * ranks, objects) : bad) {
        if (!logs_reserve(head, known, ranks))
            return STATUS_FULL;
        known = ranks;
        if (fit_head(head, ranks, ret_fit, ret_moments))
            good = ranks;
        else
            bad = ranks;
    }
    while (good > 0 && bad - good > 1) {
        const uint64_t ranks = good + (bad - good) / 2;

        if (fit_head(head, ranks, ret_fit, ret_moments))
            good = ranks;
        else
            bad = ranks;
    }
    if (good < min_u64(ZIPF_RANKS_MIN, objects))
        return STATUS_INVALID;
    fit_head(head, good, ret_fit, ret_moments);
    return STATUS_OK;
}

enum status zipf_fit(const uint64_t *counts, uint64_t objects, struct zipf_fit *ret_fit)
{
    struct head head = {.counts = counts};
    struct zipf_fit fit = {0};
    struct moments moments;
    double requests = 0;
    enum status status = objects >= 3 ? heads_search(&head, objects, &fit, &moments) : STATUS_INVALID;

    if (status == STATUS_OK) {
        for (uint64_t i = 0; i < objects; i++)
            requests += (double)counts[i];
        fit.share = head.requests / requests;
        fit.misfit = misfit_of(&head, fit.alpha, moments.sum);
        *ret_fit = fit;
    }
    free(head.logs);
    return status;
}
