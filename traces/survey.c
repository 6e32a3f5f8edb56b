#include "survey.h"

#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/table.h"

/* Names are known by a 64-bit hash: among SURVEY_NAMES_MAX of them, two are taken for one with a chance of 2e-9. */
struct names {
    struct table table;
    void *memory;
    uint64_t *counts; /* [SURVEY_NAMES_MAX] */
    uint64_t rows;
    bool bounded;
};

struct survey {
    uint64_t rows;
    uint64_t failed;
    uint64_t with_lora;
    int64_t last_ns;
    double gap_mean_s; /* Welford's recurrence: the sum of squares of nanoseconds would lose the variance */
    double gap_squares;
    int64_t minute;
    uint64_t minute_rows;
    uint64_t busiest_minute_rows;
    struct histogram prompt;
    struct histogram output;
    struct names tenants;
    struct names adapters;
};

static bool names_init(struct names *names)
{
    names->memory = malloc(table_bytes(SURVEY_NAMES_MAX));
    names->counts = calloc(SURVEY_NAMES_MAX, sizeof(*names->counts));
    if (names->memory == NULL || names->counts == NULL)
        return false;
    table_init(&names->table, names->memory, SURVEY_NAMES_MAX);
    return true;
}

static void names_free(struct names *names)
{
    free(names->memory);
    free(names->counts);
}

static void names_add(struct names *names, const char *name)
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
static struct survey_names names_result(const struct names *names, uint64_t rows)
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

struct survey *survey_create(uint32_t has)
{
    struct survey *survey = calloc(1, sizeof(*survey));

    if (survey == NULL)
        return NULL;
    histogram_init(&survey->prompt);
    histogram_init(&survey->output);
    if (((has & TRACE_HAS_TENANT) != 0 && !names_init(&survey->tenants)) ||
        ((has & TRACE_HAS_ADAPTER) != 0 && !names_init(&survey->adapters))) {
        survey_free(survey);
        return NULL;
    }
    return survey;
}

void survey_free(struct survey *survey)
{
    if (survey == NULL)
        return;
    names_free(&survey->tenants);
    names_free(&survey->adapters);
    free(survey);
}

static void gap_add(struct survey *survey, int64_t gap_ns)
{
    double gap_s = (double)gap_ns / (double)NS_PER_S;
    double before = gap_s - survey->gap_mean_s;

    survey->gap_mean_s += before / (double)survey->rows; /* rows so far: the gaps with this one */
    survey->gap_squares += before * (gap_s - survey->gap_mean_s);
}

static void minute_add(struct survey *survey, int64_t at_ns)
{
    int64_t minute = at_ns / (60 * NS_PER_S);

    survey->minute_rows = minute == survey->minute ? survey->minute_rows + 1 : 1;
    survey->minute = minute;
    survey->busiest_minute_rows = max_u64(survey->busiest_minute_rows, survey->minute_rows);
}

void survey_add(struct survey *survey, const struct trace_row *row)
{
    check(row->at_ns >= survey->last_ns);
    if (survey->rows > 0)
        gap_add(survey, row->at_ns - survey->last_ns);
    minute_add(survey, row->at_ns);
    survey->last_ns = row->at_ns;
    survey->rows++;
    survey->failed += row->failed;
    survey->with_lora += row->lora_count > 0 || row->adapter[0] != 0;
    if (row->prompt_tokens > 0)
        histogram_add(&survey->prompt, row->prompt_tokens);
    if (row->output_tokens > 0)
        histogram_add(&survey->output, row->output_tokens);
    names_add(&survey->tenants, row->tenant);
    names_add(&survey->adapters, row->adapter);
}

static struct survey_lengths lengths_result(const struct histogram *histogram)
{
    return (struct survey_lengths){histogram->count, histogram_mean(histogram), histogram_quantile(histogram, 0.5),
                                   histogram_quantile(histogram, 0.9), histogram_quantile(histogram, 0.99),
                                   (int64_t)histogram->max};
}

struct survey_result survey_result(const struct survey *survey)
{
    struct survey_result result = {.rows = survey->rows, .duration_ns = survey->last_ns,
                                   .busiest_minute_rows = survey->busiest_minute_rows};

    result.prompt = lengths_result(&survey->prompt);
    result.output = lengths_result(&survey->output);
    if (survey->rows == 0)
        return result;
    result.failed_share = (double)survey->failed / (double)survey->rows;
    result.lora_share = (double)survey->with_lora / (double)survey->rows;
    result.tenants = names_result(&survey->tenants, survey->rows);
    result.adapters = names_result(&survey->adapters, survey->rows);
    if (survey->last_ns > 0) {
        result.rate_per_s = 1 / survey->gap_mean_s;
        result.gap_cv = sqrt(survey->gap_squares / (double)(survey->rows - 1)) / survey->gap_mean_s;
    }
    return result;
}
