/* The figures of a trace. */
#include <math.h>
#include <stdlib.h>

#include "cachelab/stat_show.h"
#include "report/files.h"
#include "report/gallery.h"
#include "report/text.h"


static bool popularity_figure(struct gallery *gallery, const struct trace_facts *facts, FILE *errors)
{
    static const char *const series[] = {"requests of each object", "Zipf's law, over the ranks of the fit"};
    static char subtitle[160];
    FILE *out = gallery_data(gallery, "popularity");
    char ranks[NUMBER_TEXT_MAX];
    double law = 0; /* requests of the first rank, by the law */

    if (out == NULL)
        return false;
    if (facts->has_zipf) {
        double sum = 0;

        for (uint64_t rank = 1; rank <= facts->zipf.ranks; rank++)
            sum += pow((double)rank, -facts->zipf.alpha);
        law = facts->zipf.share * (double)facts->requests / sum;
        snprintf(subtitle, sizeof(subtitle), "Zipf's alpha %.*f, standard error %.*f, by maximum likelihood over the first %s ranks.",
                 stat_zipf_digits(&facts->zipf), facts->zipf.alpha, stat_zipf_digits(&facts->zipf), facts->zipf.error,
                 count_text(facts->zipf.ranks, ranks));
    } else {
        snprintf(subtitle, sizeof(subtitle), "No Zipf fit: too few requests, or objects too alike, to tell ranks apart.");
    }
    fputs("# rank requests by_the_law\n", out);
    for (uint64_t rank = 1; rank != 0; rank = stat_size_after(rank, facts->objects)) {
        fprintf(out, "%llu %llu ", (unsigned long long)rank, (unsigned long long)facts->counts[rank - 1]);
        fprintf(out, facts->has_zipf && rank <= facts->zipf.ranks ? "%.6g\n" : "NaN\n", law * pow((double)rank, -facts->zipf.alpha));
    }
    if (!file_close(out, errors))
        return false;
    gallery_figure(gallery, &(struct gallery_figure){
                                .name = "popularity", .question = "How much more are the popular objects asked for?", .subtitle = subtitle,
                                .reading = "Objects in the order of how often they are asked for. Both axes are logarithmic, so Zipf's law is a "
                                           "straight line, and its exponent is how steep it falls. The fit is by maximum likelihood over "
                                           "the first ranks, whose order the counts can tell; the steps at the right are objects with few requests.",
                                .series = series, .series_count = facts->has_zipf ? 2 : 1});
    return true;
}

/* bytes_unit, and its name, for the axis of the bytes. */
static void bytes_axis(FILE *script, const struct trace_facts *facts)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double most = 0;
    double size = 1;
    size_t unit = 0;

    for (uint32_t i = 0; i < facts->windows_count; i++)
        most = fmax(most, (double)facts->windows[i].bytes);
    for (; unit + 1 < ARRAY_COUNT(units) && most / size >= 2048; unit++)
        size *= 1024;
    fprintf(script, "bytes_title = '%s'\nbytes_unit = %.1f\n", units[unit], size);
}

static const char *const curve_series[] = {"exact, by stack distances", "SHARDS, from a sample", "simulated LRU caches"};
#define CURVE_READING                                                                                                      \
    "The part of the requests that an LRU cache of that size has to load, exact from one pass over the trace, and from a " \
    "sample of its objects, which tells little of caches that hold a few objects of the sample only. What is left on the "  \
    "right are first requests, which no cache has."

/* Behind the curve, as a block of their own. Returns how many series there are. */
static uint32_t simulated_points(FILE *out, const struct stat_simulation *simulation, enum lab_unit unit)
{
    if (simulation == NULL)
        return 2;
    fputs("\n\n# size simulated_miss_percent\n", out);
    for (uint32_t i = 0; i < simulation->count; i++)
        if (simulation->points[i].unit == unit)
            fprintf(out, "%llu %.6g\n", (unsigned long long)simulation->points[i].capacity, 100 * simulation->points[i].miss_ratio);
    return 3;
}

static bool objects_figure(struct gallery *gallery, const struct stat_about *about, const struct trace_facts *facts, FILE *errors)
{
    uint32_t series;
    static char subtitle[160];
    char objects[NUMBER_TEXT_MAX];
    FILE *out = gallery_data(gallery, "lru-objects");

    if (out == NULL)
        return false;
    fputs("# objects miss_percent shards_miss_percent\n", out);
    for (uint64_t size = 1; size != 0; size = stat_size_after(size, facts->objects))
        fprintf(out, "%llu %.6g %.6g\n", (unsigned long long)size, 100 * stat_ratio_objects(facts, size), 100 * facts->shards_ratios[size]);
    series = simulated_points(out, about->simulation, LAB_OBJECTS);
    if (!file_close(out, errors))
        return false;
    snprintf(subtitle, sizeof(subtitle), "The sample has %s objects and is off by %.2g%% of the requests on average, %.2g%% at most.",
             count_text(shards_objects(facts->shards), objects), 100 * facts->shards_mean_error, 100 * facts->shards_most_error);
    gallery_figure(gallery, &(struct gallery_figure){.name = "lru-objects", .question = "How many objects must an LRU cache hold?",
                                                     .subtitle = subtitle, .reading = CURVE_READING, .series = curve_series, .series_count = series});
    return true;
}

static bool bytes_figure(struct gallery *gallery, const struct stat_about *about, const struct trace_facts *facts, FILE *errors)
{
    uint32_t series;
    static char subtitle[160];
    const uint64_t whole = stat_exact_bytes(facts->objects_bytes);
    char largest[NUMBER_TEXT_MAX];
    FILE *out = gallery_data(gallery, "lru-bytes");

    if (out == NULL)
        return false;
    fputs("# bytes miss_percent shards_miss_percent\n", out);
    for (uint64_t size = 1; size != 0; size = stat_size_after(size, whole))
        if (size == whole || stat_ratio_bytes(facts, stat_size_after(size, whole)) < 1)
            fprintf(out, "%llu %.6g %.6g\n", (unsigned long long)size, 100 * stat_ratio_bytes(facts, size),
                    100 * shards_miss_ratio_bytes(facts->shards, size));
    series = simulated_points(out, about->simulation, LAB_BYTES);
    if (!file_close(out, errors))
        return false;
    text_bytes((double)facts->largest_bytes, largest);
    snprintf(subtitle, sizeof(subtitle), "Exact from the largest object, %s, on%s.", largest,
             facts->size_changes > 0 ? "; where sizes change, a lower bound" : "");
    gallery_figure(gallery, &(struct gallery_figure){.name = "lru-bytes", .question = "How many bytes must an LRU cache hold?",
                                                     .subtitle = subtitle, .reading = CURVE_READING, .series = curve_series, .series_count = series});
    return true;
}

/* Seconds, or what is nearest to a person. */
static void time_axis(FILE *script, const struct stat_about *about, const struct trace_facts *facts)
{
    static const struct {
        const char *name;
        double seconds;
        double until_s;
    } units[] = {{"s", 1, 300}, {"min", 60, 3 * 3600}, {"h", 3600, 4 * 86400}, {"days", 86400, INFINITY}};
    const double seconds = ((double)facts->until_ns - (double)facts->from_ns) / (double)NS_PER_S;
    size_t unit = 0;

    while (seconds >= units[unit].until_s)
        unit++;
    if (about->info.has_time && seconds > 0)
        fprintf(script, "axis_title = 'time (%s)'\naxis_unit = %.1f\n", units[unit].name, units[unit].seconds);
    else
        fputs("axis_title = 'requests'\naxis_unit = 1.0\n", script);
}

static bool working_set_figure(struct gallery *gallery, const struct stat_about *about, const struct trace_facts *facts, FILE *errors)
{
    static const char *const series[] = {"distinct", "never asked for before"};
    static char subtitle[160];
    const bool timed = about->info.has_time && facts->until_ns > facts->from_ns;
    char length[NUMBER_TEXT_MAX];
    FILE *out = gallery_data(gallery, "working-set");

    if (out == NULL)
        return false;
    fputs("# from objects new_objects bytes\n", out);
    for (uint32_t i = 0; i < facts->windows_count; i++) {
        const struct working_set_window *window = &facts->windows[i];

        /* A short last window would look like a fall. */
        if (i > 0 && window->requests < facts->windows[0].requests)
            continue;
        fprintf(out, "%.9g %llu %llu %.9g\n",
                timed ? ((double)window->from_ns - (double)facts->from_ns) / (double)NS_PER_S : (double)window->from_request,
                (unsigned long long)window->objects, (unsigned long long)window->new_objects, (double)window->bytes);
    }
    if (!file_close(out, errors))
        return false;
    time_axis(gallery_script(gallery), about, facts);
    bytes_axis(gallery_script(gallery), facts);
    fprintf(gallery_script(gallery), "with_bytes = %d\n", about->info.has_size);
    snprintf(subtitle, sizeof(subtitle), "Windows of %s requests.", count_text(facts->windows[0].requests, length));
    gallery_figure(gallery, &(struct gallery_figure){
                                .name = "working-set", .question = "How much is asked for in a while?", .subtitle = subtitle,
                                .reading = "Distinct objects, and their bytes, that a window of the trace asks for. A level line is traffic that stays "
                                           "as it is; new objects that go on coming are traffic that no cache has seen.",
                                .series = series, .series_count = 2});
    return true;
}

static char *table_text(const struct stat_about *about, const struct trace_facts *facts)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL)
        return NULL;
    stat_table(out, about, facts);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static bool figures_write(struct gallery *gallery, const struct stat_about *about, const struct trace_facts *facts, FILE *errors)
{
    return popularity_figure(gallery, facts, errors) && objects_figure(gallery, about, facts, errors) &&
           (!about->info.has_size || !facts->bytes_known || bytes_figure(gallery, about, facts, errors)) &&
           working_set_figure(gallery, about, facts, errors);
}

enum status stat_report(const char *directory, const struct stat_about *about, const struct trace_facts *facts, FILE *errors)
{
    const char *slash = strrchr(about->path, '/');
    struct stat_about named = *about; /* the name, not the path: the page is mailed, and folders are nobody's business */
    struct gallery *gallery = NULL;
    enum status status = gallery_open(directory, errors, &gallery);
    char *text;

    if (status != STATUS_OK)
        return status;
    named.path = slash != NULL ? slash + 1 : about->path;
    text = table_text(&named, facts);
    if (text == NULL || !figures_write(gallery, about, facts, errors)) {
        gallery_abandon(gallery);
        status = STATUS_IO;
    } else {
        status = gallery_close(gallery, named.path, "What is in a trace of requests for objects.", text);
    }
    free(text);
    return status;
}
