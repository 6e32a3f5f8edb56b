/* A summary as one JSON object on one line, for machines: names carry units, what is not known is null, and of an
 * unstable run no percentile is given, only what its completed requests came to so far. */
#include <inttypes.h>
#include <math.h>

#include "replica/command.h"
#include "results/json_values.h"
#include "results/numbers.h"
#include "results/words.h"

/* More digits than any of these numbers means, and few enough that 0.1 stays 0.1. */
#define REAL_DIGITS 12

static json_t *latency_json(const struct latency *latency, bool saturated)
{
    const bool known = latency->count > 0 && !saturated;
    json_t *object = json_object();
    json_t *so_far;

    json_put(object, "count", json_count(latency->count));
    json_put(object, "mean_ms", json_number(known ? ms_of(latency->mean_ns) : NAN));
#define X(name, field) json_put(object, name "_ms", json_number(known ? ms_of((double)latency->field) : NAN));
    QUANTILE_LIST(X)
#undef X
    json_put(object, "max_ms", json_number(known ? ms_of((double)latency->max_ns) : NAN));
    if (saturated && latency->count > 0) {
        so_far = json_object();
        json_put(so_far, "mean_ms", json_number(ms_of(latency->mean_ns)));
        json_put(so_far, "max_ms", json_number(ms_of((double)latency->max_ns)));
        json_put(object, "so_far", so_far);
    }
    return object;
}

static json_t *metric_json(const struct summary *summary, enum metric metric)
{
    json_t *object = json_object();

#define X(name, word) json_put(object, word, latency_json(&summary->latency[CLASS_##name][metric], summary->saturated));
    CLASS_LIST(X)
#undef X
    return object;
}

static json_t *ratios_json(const double *ratios)
{
    json_t *object = json_object();

#define X(name, word) json_put(object, word, json_number(ratios[CLASS_##name]));
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

        json_put(object, "count", json_count(band->count));
#define X(name, word, about) json_put(object, word "_ms", json_number(known ? ms_of(band->mean_ns[BLAME_##name]) : NAN));
        BLAME_LIST(X)
#undef X
        json_put(bands, band->label, object);
    }
    return bands;
}

static json_t *tiers_json(const struct summary *summary)
{
    json_t *object = json_object();

#define X(name, word) json_put(object, word, json_count(summary->tier_count[TIER_##name]));
    TIER_LIST(X)
#undef X
    return object;
}

static json_t *reasons_json(const struct summary *summary)
{
    json_t *object = json_object();

    for (uint32_t i = 0; i < REFUSE_COUNT; i++)
        if (summary->by_reason[i] > 0)
            json_put(object, refuse_word(i), json_count(summary->by_reason[i]));
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
        json_put(object, "reason", json_string(refuse_word(i)));
        json_put(object, "count", json_count(summary->by_reason[i]));
        json_put(object, "need_max", worst->need > 0 ? json_count(worst->need) : json_null());
        json_put(object, "have", worst->need > 0 ? json_count(worst->have) : json_null());
        json_put(object, "sentence", json_string(sentence));
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
            check(json_array_append_new(array, json_text(line)) == 0);
        notes += length + (notes[length] == '\n');
    }
    return array;
}

static void facts_set(json_t *object, const struct run_facts *facts)
{
    char digest[DIGEST_TEXT_BYTES];

    snprintf(digest, sizeof(digest), "%016" PRIx64, facts->digest);
    json_put(object, "digest", json_string(digest));
    json_put(object, "partial", json_boolean(facts->partial));
    json_put(object, "warmup_until_s", json_number(seconds_of(facts->warmup_until_ns)));
    json_put(object, "arrivals_end_s", json_number(seconds_of(facts->arrivals_end_ns)));
    json_put(object, "end_s", json_number(seconds_of(facts->end_ns)));
    json_put(object, "wall_s", json_number(facts->wall_s));
    json_put(object, "little_area_s", json_number((double)facts->little_area_ns / 1e9));
    json_put(object, "little_sum_s", json_number((double)facts->little_sum_ns / 1e9));
#define X(field) json_put(object, #field, json_count(facts->field));
    FACT_NUMBERS(X)
#undef X
}

static void requests_set(json_t *object, const struct summary *summary)
{
#define X(kind, field) json_put(object, #field, SET_##kind(summary->field));
#define SET_COUNT json_count
#define SET_REAL json_number
    SUMMARY_NUMBERS(X)
#undef SET_REAL
#undef SET_COUNT
#undef X
#define X(name, word) json_put(object, word, metric_json(summary, METRIC_##name));
    METRIC_LIST(X)
#undef X
    json_put(object, "e2e_over_base", ratios_json(summary->e2e_over_base));
    json_put(object, "ttft_over_base", ratios_json(summary->ttft_over_base));
    json_put(object, "blame", blame_json(summary));
    json_put(object, "tiers", tiers_json(summary));
    json_put(object, "refused_by_reason", reasons_json(summary));
    json_put(object, "refusals", refusals_json(summary));
}

void summary_json(FILE *out, const struct summary *summary)
{
    json_t *object = json_object();

    json_put(object, "name", json_text(summary->name));
    json_put(object, "variant", json_text(summary->variant));
    json_put(object, "seed", json_count(summary->seed));
    json_put(object, "saturated", json_boolean(summary->saturated));
    json_put(object, "measured_s", json_number(summary->measured_s));
    if (!summary->without_requests) {
        requests_set(object, summary);
        serving_json(object, &summary->facts.serving);
    }
    if (summary->jobs.present)
        jobs_json(object, &summary->jobs);
    facts_set(object, &summary->facts);
    json_put(object, "notes", notes_json(summary->notes));

    check(json_dumpf(object, out, JSON_REAL_PRECISION(REAL_DIGITS)) == 0);
    fputc('\n', out);
    json_decref(object);
}
