#include "workload/popularity.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* cumulative[] holds plain weights; makes it a distribution and builds the guide. */
static void build(struct popularity *popularity)
{
    uint32_t count = popularity->count;
    double sum = 0;
    uint32_t rank = 0;

    for (uint32_t i = 0; i < count; i++) {
        sum += popularity->cumulative[i];
        popularity->cumulative[i] = sum;
    }
    for (uint32_t i = 0; i < count; i++)
        popularity->cumulative[i] /= sum;
    popularity->cumulative[count - 1] = 1;
    for (uint32_t i = 0; i < count; i++) {
        while (popularity->cumulative[rank] <= (double)i / count)
            rank++;
        popularity->guide[i] = rank;
    }
}

static enum status open_table(struct popularity *popularity)
{
    popularity->cumulative = malloc(popularity->count * sizeof(*popularity->cumulative));
    popularity->guide = malloc(popularity->count * sizeof(*popularity->guide));
    if (popularity->cumulative != NULL && popularity->guide != NULL)
        return STATUS_OK;
    popularity_close(popularity);
    return STATUS_FULL;
}

enum status popularity_open(struct popularity *popularity, uint32_t law, double alpha, uint32_t count)
{
    check(law != KEY_ADAPTER_EMPIRICAL);
    *popularity = (struct popularity){.law = law, .count = count, .alpha = alpha};
    if (law == KEY_ADAPTER_ZIPF && alpha <= 0)
        popularity->law = KEY_ADAPTER_UNIFORM;
    if (popularity->law != KEY_ADAPTER_ZIPF || count == 0)
        return STATUS_OK;
    if (open_table(popularity) != STATUS_OK)
        return STATUS_FULL;
    for (uint32_t i = 0; i < count; i++)
        popularity->cumulative[i] = pow(i + 1.0, -alpha);
    build(popularity);
    return STATUS_OK;
}

enum status popularity_open_weights(struct popularity *popularity, const double *weights, uint32_t count)
{
    check(count > 0);
    check(weights[0] > 0);
    *popularity = (struct popularity){.law = KEY_ADAPTER_EMPIRICAL, .count = count};
    if (open_table(popularity) != STATUS_OK)
        return STATUS_FULL;
    memcpy(popularity->cumulative, weights, count * sizeof(*weights));
    build(popularity);
    return STATUS_OK;
}

void popularity_close(struct popularity *popularity)
{
    free(popularity->cumulative);
    free(popularity->guide);
    *popularity = (struct popularity){0};
}

static uint32_t table_rank(const struct popularity *popularity, double unit)
{
    uint32_t rank = popularity->guide[(uint32_t)(unit * popularity->count)];

    while (popularity->cumulative[rank] <= unit)
        rank++;
    return rank;
}

/* floor(U^(1/alpha) n), which is numpy.random.power(alpha) * n: P(index < i) = (i / n)^alpha. Below alpha 1 the low
 * indexes are the popular ones, above it the high ones, which we count from the top. */
static uint32_t power_rank(const struct popularity *popularity, double unit)
{
    double place = popularity->alpha <= 1 ? pow(unit, 1 / popularity->alpha) : 1 - pow(1 - unit, 1 / popularity->alpha);

    return min_u32((uint32_t)(place * popularity->count), popularity->count - 1);
}

static double power_share(const struct popularity *popularity, uint32_t rank)
{
    double from = (double)rank / popularity->count;
    double to = (rank + 1.0) / popularity->count;

    if (popularity->alpha <= 1)
        return pow(to, popularity->alpha) - pow(from, popularity->alpha);
    return pow(1 - from, popularity->alpha) - pow(1 - to, popularity->alpha);
}

uint32_t popularity_rank(const struct popularity *popularity, double unit, uint64_t ordinal)
{
    check(popularity->count > 0);
    switch ((enum key_adapter_law)popularity->law) {
    case KEY_ADAPTER_ZIPF:
    case KEY_ADAPTER_EMPIRICAL:
        return table_rank(popularity, unit);
    case KEY_ADAPTER_POWER:
        return power_rank(popularity, unit);
    case KEY_ADAPTER_UNIFORM:
        return (uint32_t)(unit * popularity->count);
    case KEY_ADAPTER_DISTINCT:
        break;
    }
    return (uint32_t)(ordinal % popularity->count);
}

double popularity_share(const struct popularity *popularity, uint32_t rank)
{
    check(rank < popularity->count);
    if (popularity->cumulative != NULL)
        return popularity->cumulative[rank] - (rank > 0 ? popularity->cumulative[rank - 1] : 0);
    if (popularity->law == KEY_ADAPTER_POWER)
        return power_share(popularity, rank);
    return 1.0 / popularity->count;
}

static enum status read_lines(FILE *file, const char *path, uint32_t count, FILE *errors, double *weights)
{
    char line[128];
    uint32_t number = 0;
    uint32_t found = 0;
    double sum = 0;

    while (fgets(line, sizeof(line), file) != NULL) {
        char *end;
        double weight = strtod(line, &end);

        number++;
        if (line[strspn(line, " \t\r\n")] == '\0')
            continue;
        if (end == line || end[strspn(end, " \t\r\n")] != '\0' || !isfinite(weight) || weight < 0) {
            fprintf(errors, "%s:%u: not a weight; one number >= 0 a line\n", path, number);
            return STATUS_INVALID;
        }
        if (found != number - 1) {
            fprintf(errors, "%s:%u: blank line; line n is the weight of adapter n\n", path, found + 1);
            return STATUS_INVALID;
        }
        if (found < count)
            weights[found] = weight;
        found++;
        sum += weight;
    }
    if (ferror(file)) {
        fprintf(errors, "%s: cannot be read: %s\n", path, strerror(errno));
        return STATUS_IO;
    }
    if (found != count) {
        fprintf(errors, "%s: holds %u weights, but workload.adapters.count is %u; make them equal\n", path, found,
                count);
        return STATUS_INVALID;
    }
    if (!(sum > 0) || !isfinite(sum)) {
        fprintf(errors, "%s: the weights' sum must be above 0 and finite\n", path);
        return STATUS_INVALID;
    }
    return STATUS_OK;
}

enum status popularity_read_weights(const char *path, uint32_t count, FILE *errors, double **ret_weights)
{
    FILE *file = fopen(path, "r");
    double *weights;
    enum status status;

    if (file == NULL) {
        fprintf(errors, "%s: cannot be opened (workload.adapters.counts_path): %s\n", path, strerror(errno));
        return errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO;
    }
    weights = calloc(max_u32(count, 1), sizeof(*weights));
    status = weights != NULL ? read_lines(file, path, count, errors, weights) : STATUS_FULL;
    fclose(file);
    if (status != STATUS_OK)
        free(weights);
    else
        *ret_weights = weights;
    return status;
}
