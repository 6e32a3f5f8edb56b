/* The sentences of a source that its kinds have in common. */
#include "workload/kind.h"

/* How the law is called in a sentence that goes on "adapters are assigned ...". */
static void law_text(const struct keys_adapters *keys, char *text, size_t room)
{
    char alpha[NUMBER_TEXT_MAX];

    notes_real(keys->alpha, alpha);
    switch ((enum key_adapter_law)keys->law) {
    case KEY_ADAPTER_ZIPF:
        snprintf(text, room, "by a Zipf law with exponent %s", alpha);
        break;
    case KEY_ADAPTER_POWER:
        snprintf(text, room, "by the power law of S-LoRA's generator with exponent %s (1 is uniform, less is more "
                             "skewed)", alpha);
        break;
    case KEY_ADAPTER_UNIFORM:
        snprintf(text, room, "uniformly");
        break;
    case KEY_ADAPTER_DISTINCT:
        snprintf(text, room, "in turn, each time the next one");
        break;
    case KEY_ADAPTER_EMPIRICAL:
        snprintf(text, room, "by the weights in %s", keys->counts_path);
        break;
    }
}

static void say_change(struct notes *notes, double per_h, const char *what)
{
    char number[NUMBER_TEXT_MAX];

    if (per_h > 0)
        notes_say(notes, what, notes_real(per_h, number));
}

void source_say_law(const struct source *source, struct notes *notes, const char *before)
{
    const struct keys_adapters *keys = &source->scenario->workload.adapters;
    char law[KEY_TEXT_MAX + 64];
    char count[NUMBER_TEXT_MAX];

    if (source->catalog.count == 0) {
        notes_say(notes, "%s%s are no adapters: every request asks the base.", before, before[0] == '\0' ? "There" : "there");
        return;
    }
    law_text(keys, law, sizeof(law));
    notes_say(notes, "%s%s adapters are assigned %s.", before, count_text(source->catalog.count, count), law);
    say_change(notes, keys->drift_per_h, "Popularity drifts: each hour %s times the number of adapters change places.");
}

void source_say_base_share(const struct source *source, struct notes *notes)
{
    double share = source->scenario->workload.adapters.base_share;
    char percent[NUMBER_TEXT_MAX];

    if (share > 0 && source->catalog.count > 0)
        notes_say(notes, "%s%% of the requests name no adapter.", notes_real(share * 100, percent));
}

void source_say_lengths(const struct source *source, struct notes *notes, bool prompt, bool output)
{
    const struct keys_workload *keys = &source->scenario->workload;
    const struct {
        bool wanted;
        const char *what;
        const struct lengths *lengths;
        const char *path;
    } parts[] = {
        {prompt, "Prompt", &source->prompt, keys->prompt.trace_path},
        {output, "Output", &source->output, keys->output.trace_path},
    };
    char rows[NUMBER_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        if (!parts[i].wanted || parts[i].lengths->law != KEY_LENGTH_EMPIRICAL)
            continue;
        notes_say(notes, "%s lengths are drawn from the %s%s rows of %s that have any, each on its own.", parts[i].what,
                  parts[i].lengths->values_cut ? "first " : "",
                  count_text(parts[i].lengths->values_count, rows), parts[i].path);
    }
}

/* Churn and updates happen whoever assigns the adapters. */
static void say_versions(const struct source *source, struct notes *notes)
{
    const struct keys_adapters *keys = &source->scenario->workload.adapters;

    if (source->catalog.count == 0)
        return;
    say_change(notes, keys->churn_per_h, "Each hour %s times the number of adapters are replaced by new ones.");
    say_change(notes, keys->update_per_h, "Each adapter gets %s new versions an hour.");
}

static void say_retries(const struct source *source, struct notes *notes)
{
    char lost[NUMBER_TEXT_MAX];
    char bound[NUMBER_TEXT_MAX];

    if (source->retries_lost > 0)
        notes_say(notes, "%s clients did not try again, because %s (requests_max) others already waited to.",
                  count_text(source->retries_lost, lost), count_text(source->retries.room, bound));
}

/* Composed when asked, since the counts grow with the run. */
static void say_publications(const struct source *source, struct notes *notes)
{
    const struct catalog *catalog = &source->catalog;
    char count[NUMBER_TEXT_MAX];

    if (catalog->adapters_max > catalog->count && catalog->count > 0)
        notes_say(notes, "Trained adapters join, at most %s of them: each takes over the popularity of one of its base, which "
                         "idles from then on.", count_text(catalog->adapters_max - catalog->count, count));
}

const char *source_notes(const struct source *source)
{
    struct notes *notes = source->notes;

    notes_clear(notes);
    source->kind->say(source, notes);
    say_versions(source, notes);
    say_publications(source, notes);
    say_retries(source, notes);
    return notes->text;
}
