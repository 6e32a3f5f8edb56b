/* The figures of an outcome: miss ratios and seconds against the size, a line a policy and admission; and misses over the trace. */
#include <math.h>
#include <stdlib.h>

#include "cachelab/outcome.h"
#include "cachelab/spec.h"
#include "report/figures.h"
#include "report/files.h"
#include "report/gallery.h"
#include "report/text.h"

#define LINES_MAX FIGURE_VARIANTS_MAX
#define NAME_MAX_BYTES (2 * LAB_TEXT_MAX + 4)

/* Lines are combinations of policy and admission, in the order of the cells; each has the cells of every size. */
struct plot {
    const struct lab_outcome *outcome;
    struct gallery *gallery;
    FILE *errors;
    uint32_t lines_count;                  /* drawn */
    uint32_t lines_all;
    uint32_t sizes_count;                  /* cells of a line */
    char names[LINES_MAX][NAME_MAX_BYTES];
    const char *series[LINES_MAX];
    char subtitle[160];
};

static void lines_find(struct plot *plot)
{
    const struct lab_outcome *outcome = plot->outcome;
    char requests[NUMBER_TEXT_MAX];

    while (plot->sizes_count < outcome->cells_count && outcome->setups[plot->sizes_count].policy == outcome->setups[0].policy &&
           outcome->setups[plot->sizes_count].admission == outcome->setups[0].admission)
        plot->sizes_count++;
    plot->lines_all = outcome->cells_count / plot->sizes_count;
    plot->lines_count = min_u32(plot->lines_all, LINES_MAX);
    for (uint32_t line = 0; line < plot->lines_count; line++) {
        const struct lab_cell_setup *setup = &outcome->setups[line * plot->sizes_count];

        snprintf(plot->names[line], NAME_MAX_BYTES, setup->admission->admit == &admit_always ? "%s" : "%s, %s", setup->policy->text,
                 setup->admission->text);
        plot->series[line] = plot->names[line];
    }
    snprintf(plot->subtitle, sizeof(plot->subtitle), "%s requests%s.", count_text(outcome->results[0].counts.requests, requests),
             plot->lines_all > plot->lines_count ? "; the first eight policies only, the table has all" : "");
}

/* Sizes of a unit, the smaller first: indexes of cells within a line. Returns how many there are. */
static uint32_t sizes_sorted(const struct plot *plot, enum lab_unit unit, uint32_t *ret_sizes)
{
    const struct lab_cell_setup *setups = plot->outcome->setups;
    uint32_t count = 0;

    for (uint32_t i = 0; i < plot->sizes_count; i++) {
        uint32_t at = count;

        if (setups[i].size->unit != unit || setups[i].size->capacity == 0)
            continue;
        for (; at > 0 && setups[ret_sizes[at - 1]].size->capacity > setups[i].size->capacity; at--)
            ret_sizes[at] = ret_sizes[at - 1];
        ret_sizes[at] = i;
        count++;
    }
    return count;
}

/* Names stand apart by this factor at least. */
#define TICK_APART 2.0

/* The axis has the sizes that were named, and ends a little beyond them, so that the last one's name is not cut. */
static void axis_write(const struct plot *plot, const uint32_t *sizes, uint32_t count)
{
    const struct lab_cell_setup *setups = plot->outcome->setups;
    const double high = (double)setups[sizes[count - 1]].size->capacity;
    FILE *script = gallery_script(plot->gallery);
    double last = 0;

    fprintf(script, "size_low = %.9g\nsize_high = %.9g\nsize_ticks = \"(", (double)setups[sizes[0]].size->capacity / 1.3, high * 1.3);
    for (uint32_t i = 0; i < count; i++) {
        const double at = (double)setups[sizes[i]].size->capacity;
        char name[NUMBER_TEXT_MAX];

        if (at < last * TICK_APART)
            continue;
        if (setups[sizes[i]].size->unit == LAB_BYTES)
            text_bytes(at, name);
        else
            count_text(setups[sizes[i]].size->capacity, name);
        fprintf(script, "%s'%s' %.9g", last > 0 ? ", " : "", name, at);
        last = at;
    }
    fputs(")\"\n", script);
}

static double miss_percent(const struct lab_outcome *outcome, const struct lab_counts *counts)
{
    (void)outcome;
    return 100 * lab_miss_ratio(counts);
}

static double byte_miss_percent(const struct lab_outcome *outcome, const struct lab_counts *counts)
{
    (void)outcome;
    return 100 * lab_byte_miss_ratio(counts);
}

/* <name>.dat: a row a size, its column 1, then a column a line. Nothing without sizes of the unit. False: it could not be written. */
static bool curve(struct plot *plot, enum lab_unit unit, double (*value)(const struct lab_outcome *, const struct lab_counts *),
                  const char *name, const char *question, const char *reading)
{
    const struct lab_outcome *outcome = plot->outcome;
    uint32_t sizes[SPEC_LIST_MAX];
    const uint32_t count = sizes_sorted(plot, unit, sizes);
    FILE *out;

    if (count == 0)
        return true;
    out = gallery_data(plot->gallery, name);
    if (out == NULL)
        return false;
    fputs("# size, then a column a policy\n", out);
    for (uint32_t i = 0; i < count; i++) {
        fprintf(out, "%llu", (unsigned long long)outcome->setups[sizes[i]].size->capacity);
        for (uint32_t line = 0; line < plot->lines_count; line++) {
            const double y = value(outcome, &outcome->results[line * plot->sizes_count + sizes[i]].counts);

            if (isnan(y))
                fputs(" NaN", out);
            else
                fprintf(out, " %.9g", y);
        }
        putc('\n', out);
    }
    if (!file_close(out, plot->errors))
        return false;
    axis_write(plot, sizes, count);
    gallery_figure(plot->gallery, &(struct gallery_figure){.name = name, .question = question, .subtitle = plot->subtitle, .reading = reading,
                                                           .series = plot->series, .series_count = plot->lines_count});
    return true;
}

#define CURVE_READING "Each line is a policy; each point is a cache of that size. Lower is better."

static bool curves(struct plot *plot)
{
    return curve(plot, LAB_OBJECTS, miss_percent, "mrc-objects", "How many requests miss, in a cache of so many objects?", CURVE_READING) &&
           curve(plot, LAB_BYTES, miss_percent, "mrc-bytes", "How many requests miss, in a cache of so many bytes?", CURVE_READING) &&
           curve(plot, LAB_BYTES, byte_miss_percent, "mrc-byte-misses", "How many bytes of those asked for miss?",
                 CURVE_READING " A policy that keeps many small objects misses fewer requests and more bytes.") &&
           curve(plot, LAB_BYTES, lab_load_s, "mrc-loads", "How long does loading what is missed take?",
                 CURVE_READING " The sum over all misses of a fixed time and the bytes over the link's rate: what a cache of adapters is for.");
}

/* Misses of each interval in the cache that is in the middle of those named. */
static bool drift(struct plot *plot)
{
    const struct lab_outcome *outcome = plot->outcome;
    const uint32_t size = plot->sizes_count / 2;
    static char subtitle[LAB_TEXT_MAX + 96];
    char length[NUMBER_TEXT_MAX];
    FILE *out;

    if (outcome->interval == 0)
        return true;
    out = gallery_data(plot->gallery, "drift");
    if (out == NULL)
        return false;
    fputs("# requests so far, then a column a policy\n", out);
    for (uint64_t at = outcome->interval; at <= outcome->info.requests; at += outcome->interval) { /* a short last one would look like a change */
        const uint64_t i = at / outcome->interval - 1;

        fprintf(out, "%llu", (unsigned long long)at);
        for (uint32_t line = 0; line < plot->lines_count; line++) {
            const struct lab_series *series = &outcome->series[line * plot->sizes_count + size];

            if (i < series->count)
                fprintf(out, " %.6g", 100 * (double)series->intervals[i].misses / (double)series->intervals[i].requests);
            else
                fputs(" NaN", out); /* pfoo knows the whole trace only */
        }
        putc('\n', out);
    }
    if (!file_close(out, plot->errors))
        return false;
    snprintf(subtitle, sizeof(subtitle), "Cache of %s; intervals of %s requests, those of the warm-up included.",
             outcome->setups[size].size->text, count_text(outcome->interval, length));
    gallery_figure(plot->gallery, &(struct gallery_figure){
                                      .name = "drift", .question = "Does it stay as it is?", .subtitle = subtitle,
                                      .reading = "The part of each interval's requests that missed. What falls at first is the cache filling; "
                                                 "a step later on is traffic that has changed, and how fast a policy follows it.",
                                      .series = plot->series, .series_count = plot->lines_count});
    return true;
}

static char *table_text(const struct lab_outcome *outcome)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL)
        return NULL;
    lab_print_table(out, outcome);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

enum status lab_report(const char *directory, const struct lab_outcome *outcome, FILE *errors)
{
    const char *slash = strrchr(outcome->trace, '/');
    struct lab_outcome named = *outcome; /* the page is mailed, and folders are nobody's business */
    struct plot plot = {.outcome = &named, .errors = errors};
    enum status status = gallery_open(directory, errors, &plot.gallery);
    char *text;

    if (status != STATUS_OK)
        return status;
    named.trace = slash != NULL ? slash + 1 : outcome->trace;
    lines_find(&plot);
    text = table_text(&named);
    if (text == NULL || !curves(&plot) || !drift(&plot)) {
        gallery_abandon(plot.gallery);
        status = STATUS_IO;
    } else {
        status = gallery_close(plot.gallery, named.trace, "What caches of every policy and size make of a trace.", text);
    }
    free(text);
    return status;
}
