/* What a program reads: JSON lines with units in their keys. */
#include <jansson.h>
#include <stdlib.h>

#include "cachelab/stat_show.h"
#include "host/words.h"

/* Whole as long as JSON's readers keep it whole. */
static json_t *json_whole(uint128 value)
{
    return value <= INT64_MAX ? json_integer((json_int_t)value) : json_real((double)value);
}

static json_t *json_distribution(const struct histogram *histogram, double unit)
{
    static const struct {
        const char *name;
        double share;
    } quantiles[] = {{"p10", 0.1}, {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}};
    json_t *object;

    if (histogram->count == 0)
        return json_null();
    object = json_pack("{s:I, s:f, s:f}", "count", (json_int_t)histogram->count, "mean", histogram_mean(histogram) / unit, "min",
                       (double)histogram->min / unit);
    for (size_t i = 0; i < ARRAY_COUNT(quantiles); i++)
        json_object_set_new(object, quantiles[i].name, json_real((double)histogram_quantile(histogram, quantiles[i].share) / unit));
    json_object_set_new(object, "max", json_real((double)histogram->max / unit));
    return object;
}

static void line(FILE *out, json_t *object)
{
    check(object != NULL);
    json_dumpf(object, out, JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(object);
}

/* A path may hold anything, JSON only UTF-8: what isn't becomes question marks. */
static json_t *json_path(const char *path)
{
    const size_t length = strlen(path);
    json_t *string = NULL;
    char *text = malloc(length + 1);

    check(text != NULL);
    memcpy(text, path, length + 1);
    for (size_t i = 0; i < length;) {
        const size_t bytes = character_bytes(text + i, length - i);

        if (bytes == 0)
            text[i] = '?';
        i += bytes > 0 ? bytes : 1;
    }
    string = json_string(text);
    free(text);
    return string;
}

static json_t *json_zipf(const struct trace_facts *facts)
{
    if (!facts->has_zipf)
        return json_null();
    return json_pack("{s:f, s:f, s:I, s:f, s:f}", "alpha", facts->zipf.alpha, "standard_error", facts->zipf.error, "ranks",
                     (json_int_t)facts->zipf.ranks, "requests_share", facts->zipf.share, "misfit", facts->zipf.misfit);
}

static json_t *json_shards(const struct stat_about *about, const struct trace_facts *facts)
{
    return json_pack("{s:f, s:I, s:I, s:I, s:I, s:f, s:f}", "rate", shards_rate(facts->shards), "objects_max",
                     (json_int_t)about->shards.objects_max, "objects", (json_int_t)shards_objects(facts->shards), "requests",
                     (json_int_t)shards_requests(facts->shards), "seed", (json_int_t)about->shards.seed, "mean_error",
                     facts->shards_mean_error, "max_error", facts->shards_most_error);
}

static void trace_line(FILE *out, const struct stat_about *about, const struct trace_facts *facts)
{
    json_t *object = json_pack("{s:s, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "record", "trace", "path", json_path(about->path), "format",
                               about->info.format, "requests", (json_int_t)facts->requests, "objects", (json_int_t)facts->objects,
                               "one_hit_objects", (json_int_t)facts->one_hit_objects, "size_changes", (json_int_t)facts->size_changes,
                               "zero_sizes", (json_int_t)about->info.zero_sizes, "backward_times", (json_int_t)about->info.backward, "passed_over",
                               (json_int_t)about->info.passed_over);

    json_object_set_new(object, "duration_s", about->info.has_time
                                                  ? json_real(((double)facts->until_ns - (double)facts->from_ns) / (double)NS_PER_S)
                                                  : json_null());
    json_object_set_new(object, "objects_bytes", about->info.has_size ? json_whole(facts->objects_bytes) : json_null());
    json_object_set_new(object, "requested_bytes", about->info.has_size ? json_whole(facts->requested_bytes) : json_null());
    json_object_set_new(object, "object_size_bytes", about->info.has_size ? json_distribution(&facts->object_sizes, 1) : json_null());
    json_object_set_new(object, "request_size_bytes", about->info.has_size ? json_distribution(&facts->request_sizes, 1) : json_null());
    json_object_set_new(object, "zipf", json_zipf(facts));
    json_object_set_new(object, "reuse_requests", json_distribution(&facts->reuse[REUSE_REQUESTS], 1));
    json_object_set_new(object, "reuse_objects", json_distribution(&facts->reuse[REUSE_OBJECTS], 1));
    json_object_set_new(object, "reuse_bytes", about->info.has_size ? json_distribution(&facts->reuse[REUSE_BYTES], 1) : json_null());
    json_object_set_new(object, "reuse_s", about->info.has_time ? json_distribution(&facts->reuse[REUSE_TIME], 1e9) : json_null());
    json_object_set_new(object, "shards", json_shards(about, facts));
    line(out, object);
}

static void curve_lines(FILE *out, const struct trace_facts *facts)
{
    for (uint64_t size = 1; size != 0; size = stat_size_after(size, facts->objects))
        line(out, json_pack("{s:s, s:I, s:f, s:f}", "record", "lru_objects", "size_objects", (json_int_t)size, "miss_ratio",
                            stat_ratio_objects(facts, size), "shards_miss_ratio", facts->shards_ratios[size]));
}

static void bytes_curve_lines(FILE *out, const struct trace_facts *facts)
{
    const uint64_t whole = stat_exact_bytes(facts->objects_bytes);

    for (uint64_t size = 1; size != 0; size = stat_size_after(size, whole))
        if (size == whole || stat_ratio_bytes(facts, stat_size_after(size, whole)) < 1)
            line(out, json_pack("{s:s, s:I, s:f, s:f}", "record", "lru_bytes", "size_bytes", (json_int_t)size, "miss_ratio",
                                stat_ratio_bytes(facts, size), "shards_miss_ratio", shards_miss_ratio_bytes(facts->shards, size)));
}

static void simulated_lines(FILE *out, const struct stat_simulation *simulation)
{
    for (uint32_t i = 0; i < simulation->count; i++) {
        const struct stat_simulated *point = &simulation->points[i];

        line(out, json_pack("{s:s, s:I, s:f, s:f}", "record", "lru_simulated", point->unit == LAB_OBJECTS ? "size_objects" : "size_bytes",
                            (json_int_t)point->capacity, "miss_ratio", point->miss_ratio, "curve_less_simulated", point->away));
    }
}

static void window_line(FILE *out, const struct stat_about *about, const struct working_set_window *window)
{
    json_t *object = json_pack("{s:s, s:I, s:I, s:I, s:I}", "record", "window", "from_request", (json_int_t)window->from_request, "requests",
                               (json_int_t)window->requests, "objects", (json_int_t)window->objects, "new_objects",
                               (json_int_t)window->new_objects);

    json_object_set_new(object, "bytes", about->info.has_size ? json_whole(window->bytes) : json_null());
    json_object_set_new(object, "from_s", about->info.has_time ? json_real((double)window->from_ns / (double)NS_PER_S) : json_null());
    line(out, object);
}

void stat_json(FILE *out, const struct stat_about *about, const struct trace_facts *facts)
{
    trace_line(out, about, facts);
    for (uint64_t rank = 1; rank != 0; rank = stat_size_after(rank, facts->objects))
        line(out, json_pack("{s:s, s:I, s:I}", "record", "popularity", "rank", (json_int_t)rank, "requests",
                            (json_int_t)facts->counts[rank - 1]));
    curve_lines(out, facts);
    if (about->info.has_size && facts->bytes_known)
        bytes_curve_lines(out, facts);
    if (about->simulation != NULL)
        simulated_lines(out, about->simulation);
    for (uint32_t i = 0; i < facts->windows_count; i++)
        window_line(out, about, &facts->windows[i]);
}
