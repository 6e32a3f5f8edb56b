/* Examples through the reader that training uses, some at a time: what they come to in tokens, what a context cuts off, what it leaves nothing
 * of. The reader is given a context without end, so that what is cut is known, and lines that are right by themselves, so that what it still
 * refuses is the template's doing. */
#include <stdlib.h>

#include "validate/internal.h"

#define TOKENS_ENDLESS (1 << 30)

/* --- an example's samples --------------------------------------------------------------------------------------------------- */

struct totals {
    int64_t tokens;   /* before cutting */
    int64_t kept;
    int64_t trained;
    bool nothing;     /* a sample has nothing left to learn */
    bool cut;         /* a sample's last token to learn is lost */
};

static int32_t last_target(const struct data_set *set, const struct data_sample *sample)
{
    int32_t last = sample->tokens - 1;

    while (last > 0 && set->is_target[sample->at + last] == 0)
        last--;
    return last;
}

static void add_sample(const struct data_set *set, const struct data_sample *sample, int32_t context, struct totals *totals)
{
    const int32_t kept = sample->tokens < context ? sample->tokens : context;
    int32_t trained = 0;

    for (int32_t t = 0; t < kept; t++)
        trained += set->is_target[sample->at + t];
    totals->tokens += sample->tokens;
    totals->kept += kept;
    totals->trained += trained;
    totals->nothing |= trained == 0;
    totals->cut |= last_target(set, sample) >= kept;
}

/* Two answers that differ only behind what fits are equal to the trainer. */
static bool sides_equal(const struct validator *validator, const struct data_set *set, const struct data_sample *pair, int32_t count)
{
    const int32_t context = validator->config.source->tokens_max;
    const int32_t kept[] = {pair[0].tokens < context ? pair[0].tokens : context, count > 1 && pair[1].tokens < context ? pair[1].tokens : context};

    return validator->config.preferences && count == 2 && kept[0] == kept[1] &&
           memcmp(set->tokens + pair[0].at, set->tokens + pair[1].at, (size_t)kept[0] * sizeof(set->tokens[0])) == 0;
}

/* Samples [0 .. count) are of one line. */
static void take_example(struct validator *validator, const struct data_set *set, const struct data_sample *samples, int32_t count, int32_t line)
{
    struct validate_statistics *statistics = &validator->statistics;
    const int32_t context = validator->config.source->tokens_max;
    struct totals totals = {0};

    for (int32_t i = 0; i < count; i++)
        add_sample(set, &samples[i], context, &totals);
    histogram_add(&statistics->example_tokens, totals.tokens);
    if (totals.nothing) {
        statistics->good--;
        issue_line(validator, VALIDATE_NO_TRAINABLE_TOKENS, line,
                   "The prompt alone exceeds the context window: after truncation no assistant token is left (%lld tokens; the context is %d).",
                   (long long)totals.tokens, context);
        return;
    }
    if (sides_equal(validator, set, samples, count)) {
        validator->identical++;
        issue_line(validator, VALIDATE_IDENTICAL_PREFERENCE, line, "Both outputs are the same, as far as they fit the context of %d tokens.", context);
        return;
    }
    if (totals.cut) {
        statistics->examples_cut++;
        issue_line(validator, VALIDATE_ANSWER_CUT, line, "Example has %lld tokens; the context is %d, so the last %lld are cut, and with them the "
                   "end of an answer.", (long long)totals.tokens, context, (long long)(totals.tokens - totals.kept));
    }
    statistics->samples += count;
    statistics->tokens += totals.kept;
    statistics->trained_tokens += totals.trained;
    statistics->tokens_cut += totals.tokens - totals.kept;
}

/* --- through the reader ----------------------------------------------------------------------------------------------------- */

static void take_set(struct validator *validator, const struct data_set *set, const int32_t *lines)
{
    for (int32_t from = 0, until; from < set->count; from = until) {
        for (until = from; until < set->count && set->sample[until].line == set->sample[from].line;)
            until++;
        take_example(validator, set, &set->sample[from], until - from, lines[set->sample[from].line - 1]);
    }
}

/* What the reader says begins with the name and the line that we gave it. */
static const char *said(const char *text)
{
    const char *what = strstr(text, ": ");

    return what != NULL ? what + 2 : text;
}

static enum status read_lines(struct validator *validator, const char *text, size_t bytes, const int32_t *lines, struct refusal *refusal)
{
    struct data_source source = *validator->config.source;
    struct data_set *set = NULL;
    enum status status;

    source.tokens_max = TOKENS_ENDLESS;
    source.preferences = validator->config.preferences;
    source.equal_too = true;
    status = data_open_text(text, (int64_t)bytes, "example", &source, &set, refusal);
    if (status == STATUS_OK)
        take_set(validator, set, lines);
    data_close(set);
    return status;
}

/* One by one, since one of them is refused. */
static void read_singly(struct validator *validator)
{
    struct batch *batch = &validator->batch;
    const char *at = batch->text;

    for (int32_t i = 0; i < batch->lines_count; i++) {
        const char *end = memchr(at, '\n', batch->count - (size_t)(at - batch->text));
        struct refusal refusal = {{0}};

        check(end != NULL);
        if (read_lines(validator, at, (size_t)(end - at), &batch->lines[i], &refusal) != STATUS_OK) {
            validator->statistics.good--;
            issue_line(validator, VALIDATE_NOT_RENDERABLE, batch->lines[i], "%s", said(refusal.text));
        }
        at = end + 1;
    }
}

void tokens_flush(struct validator *validator)
{
    struct batch *batch = &validator->batch;
    struct refusal refusal = {{0}};

    if (batch->lines_count > 0 && read_lines(validator, batch->text, batch->count, batch->lines, &refusal) != STATUS_OK)
        read_singly(validator);
    batch->lines_count = 0;
    batch->count = 0;
}

void tokens_add(struct validator *validator)
{
    struct batch *batch = &validator->batch;
    const size_t wanted = batch->count + validator->text_bytes + 1;

    if (wanted > batch->capacity) {
        batch->capacity = 2 * wanted;
        batch->text = realloc(batch->text, batch->capacity);
        check(batch->text != NULL);
    }
    memcpy(batch->text + batch->count, validator->text, validator->text_bytes);
    batch->text[wanted - 1] = '\n';
    batch->count = wanted;
    batch->lines[batch->lines_count++] = validator->line;
    if (batch->lines_count == BATCH_LINES_MAX || batch->count >= BATCH_BYTES_MAX)
        tokens_flush(validator);
}
