#include "tally.h"

#include <math.h>
#include <stdlib.h>

#include "base/hash.h"

void tally_gap(struct tally_gaps *gaps, int64_t gap_ns)
{
    double gap_s = (double)gap_ns / (double)NS_PER_S;
    double before = gap_s - gaps->mean_s;

    gaps->count++;
    gaps->mean_s += before / (double)gaps->count;
    gaps->squares += before * (gap_s - gaps->mean_s);
}

double tally_rate_per_s(const struct tally_gaps *gaps)
{
    return 1 / gaps->mean_s;
}

double tally_gap_cv(const struct tally_gaps *gaps)
{
    return sqrt(gaps->squares / (double)gaps->count) / gaps->mean_s;
}

bool tally_names_init(struct tally_names *names)
{
    names->memory = malloc(table_bytes(SURVEY_NAMES_MAX));
    names->counts = calloc(SURVEY_NAMES_MAX, sizeof(*names->counts));
    if (names->memory == NULL || names->counts == NULL)
        return false;
    table_init(&names->table, names->memory, SURVEY_NAMES_MAX);
    return true;
}

void tally_names_free(struct tally_names *names)
{
    free(names->memory);
    free(names->counts);
}

void tally_name(struct tally_names *names, const char *name)
{
    uint64_t key;
    uint32_t index;

    if (names->memory == NULL || name[0] == 0)
        return;
    names->rows++;
    key = hash_bytes(0, name, strlen(name));
    index = table_find(&names->table, key);
    if (index == NONE_INDEX && names->table.count == SURVEY_NAMES_MAX) {
        names->bounded = true;
        return;
    }
    if (index == NONE_INDEX) {
        index = names->table.count;
        table_insert(&names->table, key, index);
    }
    names->counts[index]++;
}

static int greatest_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x > y ? -1 : x < y;
}

/* Takes the greatest ten in one pass, kept sorted: the names are many, the ten are few. */
struct survey_names tally_names_result(const struct tally_names *names, uint64_t rows)
{
    struct survey_names result = {0};
    uint64_t top[11] = {0};
    uint64_t top_10 = 0;

    if (names->rows == 0)
        return result;
    for (uint32_t i = 0; i < names->table.count; i++) {
        if (names->counts[i] <= top[9])
            continue;
        top[10] = names->counts[i];
        qsort(top, ARRAY_COUNT(top), sizeof(top[0]), greatest_first);
    }
    for (size_t i = 0; i < 10; i++)
        top_10 += top[i];
    result.distinct = names->table.count;
    result.bounded = names->bounded;
    result.top_1_share = (double)top[0] / (double)names->rows;
    result.top_10_share = (double)top_10 / (double)names->rows;
    result.named_share = (double)names->rows / (double)rows;
    return result;
}
