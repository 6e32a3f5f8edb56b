/* Requests by the scenario's laws. */
#include <stdlib.h>

#include "workload/arrivals.h"
#include "workload/kind.h"

struct generated {
    struct arrivals arrivals;
    int64_t next_at_ns;
};

static enum status generated_open(struct source *source, FILE *errors)
{
    struct generated *generated = calloc(1, sizeof(*generated));

    source->state = generated;
    if (generated == NULL) {
        fprintf(errors, "workload: not enough memory\n");
        return STATUS_FULL;
    }
    arrivals_init(&generated->arrivals, &source->scenario->workload.arrivals, &source->streams);
    generated->next_at_ns = arrivals_next_ns(&generated->arrivals);
    return catalog_open(&source->catalog, source->scenario, &source->streams, NULL, 0, errors);
}

static void generated_close(struct source *source)
{
    free(source->state);
}

static int64_t generated_next_at_ns(struct source *source)
{
    const struct generated *generated = source->state;

    return generated->next_at_ns;
}

static enum status generated_take(struct source *source, struct arrival *ret_arrival)
{
    struct generated *generated = source->state;
    struct luck luck = source_luck(source);

    if (source_wants_base(source, &luck))
        source_ask_base(source, &luck, ret_arrival);
    else
        source_ask_by_law(source, &luck, source->adapters_drawn++, ret_arrival);
    ret_arrival->prompt_tokens = lengths_at(&source->prompt, luck.prompt);
    ret_arrival->output_tokens = lengths_at(&source->output, luck.output);
    generated->next_at_ns = arrivals_next_ns(&generated->arrivals);
    return STATUS_OK;
}

static void say_process(const struct keys_arrivals *keys, struct notes *notes)
{
    char rate[NUMBER_TEXT_MAX];
    char cv[NUMBER_TEXT_MAX];
    char ratio[NUMBER_TEXT_MAX];

    notes_real(keys->rate_per_s, rate);
    switch ((enum key_process)keys->process) {
    case KEY_PROCESS_POISSON:
        notes_say(notes, "Arrivals are generated: a Poisson process of %s a second on average.", rate);
        break;
    case KEY_PROCESS_GAMMA:
        notes_say(notes, "Arrivals are generated: a renewal process of %s a second on average, with Gamma gaps whose "
                         "coefficient of variation is %s.", rate, notes_real(keys->cv, cv));
        break;
    case KEY_PROCESS_MMPP:
        notes_say(notes, "Arrivals are generated: a Poisson process of %s a second on average that comes in bursts of "
                         "%s times the rate outside.", rate, notes_real(keys->burst_ratio, ratio));
        break;
    case KEY_PROCESS_EVEN:
        notes_say(notes, "Arrivals are generated: evenly spaced, %s a second on average.", rate);
        break;
    }
    if (keys->diurnal_amplitude > 0 || keys->weekend_ratio < 1 || keys->weekend_ratio > 1)
        notes_say(notes, "The rate follows the hours of a week that starts on a Monday; its average is over that "
                         "week.");
}

static void generated_say(const struct source *source, struct notes *notes)
{
    say_process(&source->scenario->workload.arrivals, notes);
    source_say_law(source, notes, "");
    source_say_base_share(source, notes);
    source_say_lengths(source, notes, true, true);
}

const struct source_kind source_generated = {
    .open = generated_open,
    .close = generated_close,
    .next_at_ns = generated_next_at_ns,
    .take = generated_take,
    .say = generated_say,
};
