/* What a person reads on a terminal, and on the report's page. */
#include <math.h>
#include <stdlib.h>

#include "cachelab/stat_show.h"
#include "report/text.h"

#define LABEL "%-12s "

static void texts_line(FILE *out, const char *label, const char *text)
{
    fprintf(out, LABEL "%s\n", label, text);
}

static void requests_line(FILE *out, const struct stat_about *about, const struct trace_facts *facts)
{
    const double seconds = ((double)facts->until_ns - (double)facts->from_ns) / (double)NS_PER_S;
    char requests[NUMBER_TEXT_MAX];
    char duration[NUMBER_TEXT_MAX];
    char rate[NUMBER_TEXT_MAX];
    char backward[NUMBER_TEXT_MAX];

    fprintf(out, LABEL "%s", "requests", count_text(facts->requests, requests));
    if (about->info.has_time && seconds > 0) {
        text_duration(seconds * 1e9, duration);
        text_number((double)facts->requests / seconds, rate);
        fprintf(out, " in %s, %s a second", duration, rate);
    }
    if (!about->info.has_time)
        fputs("; the format has no times", out);
    if (about->info.passed_over > 0)
        fprintf(out, "; %s for the base left out", count_text(about->info.passed_over, backward));
    if (about->info.backward > 0)
        fprintf(out, "; %s times before the row above", count_text(about->info.backward, backward));
    fputc('\n', out);
}

static void objects_lines(FILE *out, const struct stat_about *about, const struct trace_facts *facts)
{
    char count[NUMBER_TEXT_MAX];
    char bytes[NUMBER_TEXT_MAX];
    char requested[NUMBER_TEXT_MAX];

    fprintf(out, LABEL "%s", "objects", count_text(facts->objects, count));
    fprintf(out, ", of which %s (%.1f%%) were asked for once\n", count_text(facts->one_hit_objects, count),
            100 * (double)facts->one_hit_objects / (double)facts->objects);
    if (!about->info.has_size) {
        texts_line(out, "bytes", "the format has no sizes: every object counts as equally large");
        return;
    }
    text_bytes((double)facts->objects_bytes, bytes);
    text_bytes((double)facts->requested_bytes, requested);
    fprintf(out, LABEL "%s in distinct objects, %s requested", "bytes", bytes, requested);
    if (about->info.zero_sizes > 0)
        fprintf(out, "; %s requests of size 0", count_text(about->info.zero_sizes, count));
    fputc('\n', out);
    if (facts->size_changes > 0)
        fprintf(out, LABEL "%s requests for an object in another size than before\n", "", count_text(facts->size_changes, count));
}

static double head_percent(const struct trace_facts *facts, uint64_t objects)
{
    double requests = 0;

    for (uint64_t i = 0; i < objects && i < facts->objects; i++)
        requests += (double)facts->counts[i];
    return 100 * requests / (double)facts->requests;
}

static void popularity_lines(FILE *out, const struct trace_facts *facts)
{
    char ranks[NUMBER_TEXT_MAX];

    fprintf(out, LABEL "the first object has %.1f%% of the requests, the first ten %.1f%%, the first 1%% %.1f%%\n", "popularity",
            head_percent(facts, 1), head_percent(facts, 10), head_percent(facts, div_up_u64(facts->objects, 100)));
    if (!facts->has_zipf) {
        texts_line(out, "", "no Zipf fit: too few requests, or objects too alike, to tell at least ten ranks apart");
        return;
    }
    fprintf(out, LABEL "Zipf's alpha %.*f +- %.*f, of the first %s ranks (%.1f%% of requests)\n" LABEL
                 "whose cumulated shares are off the law's by %.2f%% at most\n", "",
            stat_zipf_digits(&facts->zipf), facts->zipf.alpha, stat_zipf_digits(&facts->zipf), facts->zipf.error, count_text(facts->zipf.ranks, ranks), 100 * facts->zipf.share, "",
            100 * facts->zipf.misfit);
}

enum unit { UNIT_COUNT, UNIT_BYTES, UNIT_TIME };

static void quantity(FILE *out, enum unit unit, double value)
{
    char text[NUMBER_TEXT_MAX];

    if (unit == UNIT_BYTES)
        text_bytes(value, text);
    else if (unit == UNIT_TIME && value > 0)
        text_duration(value, text);
    else if (unit == UNIT_TIME)
        snprintf(text, sizeof(text), "0 s");
    else if (value == floor(value) && value < 0x1p53)
        count_text((uint64_t)value, text);
    else
        text_number(value, text);
    /* µ is two bytes and one column. */
    fprintf(out, "%*s", 13 + (strchr(text, '\xc2') != NULL), text);
}

static void histogram_line(FILE *out, const char *label, enum unit unit, const struct histogram *histogram)
{
    static const double quantiles[] = {0.1, 0.5, 0.9, 0.99, 1};

    if (histogram->count == 0)
        return;
    fprintf(out, "%-16s", label);
    quantity(out, unit, histogram_mean(histogram));
    for (size_t i = 0; i < ARRAY_COUNT(quantiles); i++)
        quantity(out, unit, (double)histogram_quantile(histogram, quantiles[i]));
    fputc('\n', out);
}

static void distributions(FILE *out, const struct stat_about *about, const struct trace_facts *facts)
{
    const bool bytes = about->info.has_size;

    fprintf(out, "\n%-16s%13s%13s%13s%13s%13s%13s\n", "", "mean", "p10", "p50", "p90", "p99", "most");
    if (bytes) {
        histogram_line(out, "object's size", UNIT_BYTES, &facts->object_sizes);
        histogram_line(out, "request's size", UNIT_BYTES, &facts->request_sizes);
    }
    if (facts->reuse[REUSE_REQUESTS].count == 0)
        fputs("reuse            none: no object was asked for twice\n", out);
    histogram_line(out, "reuse: requests", UNIT_COUNT, &facts->reuse[REUSE_REQUESTS]);
    histogram_line(out, "reuse: objects", UNIT_COUNT, &facts->reuse[REUSE_OBJECTS]);
    if (bytes)
        histogram_line(out, "reuse: bytes", UNIT_BYTES, &facts->reuse[REUSE_BYTES]);
    if (about->info.has_time)
        histogram_line(out, "reuse: time", UNIT_TIME, &facts->reuse[REUSE_TIME]);
}

static void curve_row(FILE *out, uint32_t row, bool bytes, const struct trace_facts *facts)
{
    uint64_t objects;
    uint64_t capacity;
    char text[NUMBER_TEXT_MAX];

    if (!stat_share_sizes(facts, row, &objects, &capacity))
        return;
    fprintf(out, "%11g%%%16s%12.4f%12.4f", 100 * stat_shares[row], count_text(objects, text), stat_ratio_objects(facts, objects),
            facts->shards_ratios[objects]);
    if (bytes) {
        text_bytes((double)capacity, text);
        fprintf(out, "%16s%12.4f%12.4f", text, stat_ratio_bytes(facts, capacity), shards_miss_ratio_bytes(facts->shards, capacity));
    }
    fputc('\n', out);
}

static void sample_line(FILE *out, const struct trace_facts *facts)
{
    char objects[NUMBER_TEXT_MAX];
    char rate[NUMBER_TEXT_MAX];

    snprintf(rate, sizeof(rate), "%.4g", shards_rate(facts->shards));
    fprintf(out, LABEL "%s objects, rate %s; miss ratios by objects off by %.4f on average, %.4f at most\n", "SHARDS",
            count_text(shards_objects(facts->shards), objects), rate, facts->shards_mean_error, facts->shards_most_error);
}

static void simulation_line(FILE *out, const struct stat_simulation *simulation, bool bytes)
{
    fprintf(out, LABEL "LRU caches of these sizes: the exact curve is off by %.4f at most by objects", "simulated",
            stat_simulated_most_away(simulation, LAB_OBJECTS));
    if (bytes)
        fprintf(out, ", %.4f by bytes", stat_simulated_most_away(simulation, LAB_BYTES));
    fputc('\n', out);
}

static void curves(FILE *out, const struct stat_about *about, const struct trace_facts *facts)
{
    const bool bytes = about->info.has_size && facts->bytes_known;
    char text[NUMBER_TEXT_MAX];

    fprintf(out, "\n%-12s%16s%12s%12s", "LRU of", "objects", "miss ratio", "SHARDS");
    fprintf(out, bytes ? "%16s%12s%12s\n" : "\n", "bytes", "miss ratio", "SHARDS");
    for (uint32_t i = 0; i < STAT_SHARES; i++)
        curve_row(out, i, bytes, facts);
    sample_line(out, facts);
    if (about->simulation != NULL)
        simulation_line(out, about->simulation, bytes);
    if (about->info.has_size && !bytes)
        texts_line(out, "", "no curve by bytes: all objects together have 2^63 bytes or more");
    text_bytes((double)facts->largest_bytes, text);
    if (bytes && facts->objects > 1 && facts->object_sizes.min < facts->largest_bytes)
        fprintf(out, LABEL "by bytes exact from the largest object, %s, on%s\n", "", text,
                facts->size_changes > 0 ? ", but for sizes that change: a lower bound" : "");
}

static int by_value(const void *a, const void *b)
{
    const double one = *(const double *)a;
    const double other = *(const double *)b;

    return (one > other) - (one < other);
}

static void window_line(FILE *out, const char *label, enum unit unit, double *values, uint32_t count)
{
    qsort(values, count, sizeof(*values), by_value);
    fprintf(out, "%-16s", label);
    quantity(out, unit, values[0]);
    quantity(out, unit, values[count / 2]);
    quantity(out, unit, values[count - 1]);
    fputc('\n', out);
}

static void working_set_lines(FILE *out, const struct stat_about *about, const struct trace_facts *facts)
{
    /* A short last window would be the least. */
    const bool last_short = facts->windows_count > 1 && facts->windows[facts->windows_count - 1].requests < facts->windows[0].requests;
    const uint32_t count = facts->windows_count - last_short;
    double objects[WORKING_SET_WINDOWS_MAX];
    double fresh[WORKING_SET_WINDOWS_MAX];
    double bytes[WORKING_SET_WINDOWS_MAX];
    char length[NUMBER_TEXT_MAX];

    for (uint32_t i = 0; i < count; i++) {
        objects[i] = (double)facts->windows[i].objects;
        fresh[i] = (double)facts->windows[i].new_objects;
        bytes[i] = (double)facts->windows[i].bytes;
    }
    fprintf(out, "\n%-16s%13s%13s%13s   of %u window%s of %s request%s\n", "working set", "least", "median", "most", count, count > 1 ? "s" : "",
            count_text(facts->windows[0].requests, length), facts->windows[0].requests > 1 ? "s" : "");
    window_line(out, "objects", UNIT_COUNT, objects, count);
    window_line(out, "new objects", UNIT_COUNT, fresh, count);
    if (about->info.has_size)
        window_line(out, "bytes", UNIT_BYTES, bytes, count);
}

void stat_table(FILE *out, const struct stat_about *about, const struct trace_facts *facts)
{
    texts_line(out, "trace", about->path);
    texts_line(out, "format", about->info.format);
    requests_line(out, about, facts);
    objects_lines(out, about, facts);
    popularity_lines(out, facts);
    distributions(out, about, facts);
    curves(out, about, facts);
    working_set_lines(out, about, facts);
}
