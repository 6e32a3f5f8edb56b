/* A summary as one JSON object on one line, for machines: names carry units, what is not known is null, and of an
 * unstable run no percentile is given, only what its completed requests came to so far. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include <jansson.h>

#include "replica/command.h"
#include "results/numbers.h"
#include "results/words.h"

/* More digits than any of these numbers means, and few enough that 0.1 stays 0.1. */
#define REAL_DIGITS 12

static void set(json_t *object, const char *name, json_t *value)
{
    check(value != NULL);
    check(json_object_set_new(object, name, value) == 0);
}

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *count(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* Text from traces and scenario files may not be UTF-8, which JSON must be: such bytes become '?'. */
static json_t *text(const char *bytes)
{
    json_t *value = json_string(bytes);
    char *plain;

    if (value != NULL)
        return value;
    plain = malloc(strlen(bytes) + 1);
    check(plain != NULL);
    for (size_t i = 0; i <= strlen(bytes); i++)
        plain[i] = (unsigned char)bytes[i] < 0x80 ? bytes[i] : '?';
    value = json_string(plain);
    free(plain);
    return value;
}

static json_t *latency_json(const struct latency *latency, bool saturated)
{
    const bool known = latency->count > 0 && !saturated;
    json_t *object = json_object();
    json_t *so_far;

    set(object, "count", count(latency->count));
    set(object, "mean_ms", real(known ? ms_of(latency->mean_ns) : NAN));
#define X(name, field) set(object, name "_ms", real(known ? ms_of((double)latency->field) : NAN));
    QUANTILE_LIST(X)
#undef X
    set(object, "max_ms", real(known ? ms_of((double)latency->max_ns) : NAN));
    if (saturated && latency->count > 0) {
        so_far = json_object();
        set(so_far, "mean_ms", real(ms_of(latency->mean_ns)));
        set(so_far, "max_ms", real(ms_of((double)latency->max_ns)));
        set(object, "so_far", so_far);
    }
    return object;
}

static json_t *metric_json(const struct summary *summary, enum metric metric)
{
    json_t *object = json_object();

#define X(name, word) set(object, word, latency_json(&summary->latency[CLASS_##name][metric], summary->saturated));
    CLASS_LIST(X)
#undef X
    return object;
}

static json_t *ratios_json(const double *ratios)
{
    json_t *object = json_object();

#define X(name, word) set(object, word, real(ratios[CLASS_##name]));
    CLASS_LIST(X)
#undef X
    return object;
}

static json_t *blame_json(const struct summary *summary)
{
    json_t *bands = json_object();

    for (uint32_t i = 0; i < BLAME_BANDS; i++) {
        const struct blame_band *band = &summary->blame[i];
        /* Only the first band, all requests, is not about a percentile. */
        const bool known = band->count > 0 && (i == 0 || !summary->saturated);
        json_t *object = json_object();

        set(object, "count", count(band->count));
#define X(name, word, about) set(object, word "_ms", real(known ? ms_of(band->mean_ns[BLAME_##name]) : NAN));
        BLAME_LIST(X)
#undef X
        set(bands, band->label, object);
    }
    return bands;
}

static json_t *tiers_json(const struct summary *summary)
{
    json_t *object = json_object();

#define X(name, word) set(object, word, count(summary->tier_count[TIER_##name]));
    TIER_LIST(X)
#undef X
    return object;
}

static json_t *reasons_json(const struct summary *summary)
{
    json_t *object = json_object();

    for (uint32_t i = 0; i < REFUSE_COUNT; i++)
        if (summary->by_reason[i] > 0)
            set(object, refuse_word(i), count(summary->by_reason[i]));
    return object;
}

/* What the one that needed most came to; null where numbers say nothing. */
static json_t *refusals_json(const struct summary *summary)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < REFUSE_COUNT; i++) {
        const struct refusal *worst = &summary->refusal_worst[i];
        char sentence[REFUSE_SENTENCE_MAX];
        json_t *object;

        if (summary->by_reason[i] == 0)
            continue;
        refuse_sentence(i, worst->need, worst->have, sentence);
        object = json_object();
        set(object, "reason", json_string(refuse_word(i)));
        set(object, "count", count(summary->by_reason[i]));
        set(object, "need_max", worst->need > 0 ? count(worst->need) : json_null());
        set(object, "have", worst->need > 0 ? count(worst->have) : json_null());
        set(object, "sentence", json_string(sentence));
        check(json_array_append_new(array, object) == 0);
    }
    return array;
}

static json_t *notes_json(const char *notes)
{
    json_t *array = json_array();

    while (*notes != '\0') {
        char line[sizeof(((struct summary *)0)->notes)];
        const size_t length = strcspn(notes, "\n");

        memcpy(line, notes, length);
        line[length] = '\0';
        if (length > 0)
            check(json_array_append_new(array, text(line)) == 0);
        notes += length + (notes[length] == '\n');
    }
    return array;
}

static void facts_set(json_t *object, const struct run_facts *facts)
{
    char digest[DIGEST_TEXT_BYTES];

    snprintf(digest, sizeof(digest), "%016" PRIx64, facts->digest);
    set(object, "digest", json_string(digest));
    set(object, "partial", json_boolean(facts->partial));
    set(object, "warmup_until_s", real(seconds_of(facts->warmup_until_ns)));
    set(object, "arrivals_end_s", real(seconds_of(facts->arrivals_end_ns)));
    set(object, "end_s", real(seconds_of(facts->end_ns)));
    set(object, "wall_s", real(facts->wall_s));
    set(object, "little_area_s", real((double)facts->little_area_ns / 1e9));
    set(object, "little_sum_s", real((double)facts->little_sum_ns / 1e9));
#define X(field) set(object, #field, count(facts->field));
    FACT_NUMBERS(X)
#undef X
}

void summary_json(FILE *out, const struct summary *summary)
{
    json_t *object = json_object();

    set(object, "name", text(summary->name));
    set(object, "variant", text(summary->variant));
    set(object, "seed", count(summary->seed));
    set(object, "saturated", json_boolean(summary->saturated));
    set(object, "measured_s", real(summary->measured_s));
#define X(kind, field) set(object, #field, SET_##kind(summary->field));
#define SET_COUNT count
#define SET_REAL real
    SUMMARY_NUMBERS(X)
#undef SET_REAL
#undef SET_COUNT
#undef X
#define X(name, word) set(object, word, metric_json(summary, METRIC_##name));
    METRIC_LIST(X)
#undef X
    set(object, "e2e_over_base", ratios_json(summary->e2e_over_base));
    set(object, "ttft_over_base", ratios_json(summary->ttft_over_base));
    set(object, "blame", blame_json(summary));
    set(object, "tiers", tiers_json(summary));
    set(object, "refused_by_reason", reasons_json(summary));
    set(object, "refusals", refusals_json(summary));
    facts_set(object, &summary->facts);
    set(object, "notes", notes_json(summary->notes));

    check(json_dumpf(object, out, JSON_REAL_PRECISION(REAL_DIGITS)) == 0);
    fputc('\n', out);
    json_decref(object);
}
