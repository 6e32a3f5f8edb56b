/* Cutting a text into words before merging: by a pattern, by digits, before every mark that stands for a space. Each step cuts what
 * the one before it left, word by word, so nothing is kept but the way down. */
#include <stdlib.h>

#include "engine/tokenizer/inside.h"
#include "engine/tokenizer/utf8.h"
#include "host/words.h"

struct splitting {
    const struct tokenizer *tokenizer;
    pcre2_match_data *found;
    pcre2_match_context *bounds;
    word_take *take;
    void *context;
};

static bool split_from(struct splitting *splitting, uint32_t step, const char *text, size_t count, bool at_start);

/* What has been cut and may still grow. */
struct pending {
    size_t start;
    size_t stop;
    bool is_match;
    bool exists;
};

static bool pending_flush(struct splitting *splitting, uint32_t step, const char *text, struct pending *pending, bool at_start)
{
    bool exists = pending->exists && pending->stop > pending->start;

    pending->exists = false;
    return !exists || split_from(splitting, step + 1, text + pending->start, pending->stop - pending->start,
                                 at_start && pending->start == 0);
}

static bool joins(enum split_behavior behavior, bool previous, bool now)
{
    switch (behavior) {
    case SPLIT_MergedWithPrevious: return now && !previous;
    case SPLIT_MergedWithNext: return previous && !now;
    case SPLIT_Contiguous: return previous == now;
    case SPLIT_Removed:
    case SPLIT_Isolated: break;
    }
    return false;
}

static bool stretch(struct splitting *splitting, uint32_t step, const char *text, struct pending *pending, struct pending next,
                    bool at_start)
{
    const struct split_step *how = &splitting->tokenizer->split[step];

    next.is_match ^= how->invert;
    if (pending->exists && joins(how->behavior, pending->is_match, next.is_match)) {
        pending->stop = next.stop;
        pending->is_match = next.is_match;
        return true;
    }
    if (!pending_flush(splitting, step, text, pending, at_start))
        return false;
    if (how->behavior != SPLIT_Removed || !next.is_match)
        *pending = next;
    return true;
}

enum { FOUND, FOUND_NOTHING, FOUND_NO_END };

static int find(struct splitting *splitting, const struct split_step *how, const char *text, size_t count, size_t from, size_t *ret_start,
                size_t *ret_stop)
{
    const PCRE2_SIZE *offsets;
    int result;

    if (how->regex == NULL) {
        *ret_start = text_find(text, count, from, span_text(splitting->tokenizer, how->text), how->text.count);
        *ret_stop = *ret_start + how->text.count;
        return *ret_start != SIZE_MAX ? FOUND : FOUND_NOTHING;
    }
    result = pcre2_match(how->regex, (PCRE2_SPTR)text, count, from, PCRE2_NO_UTF_CHECK, splitting->found, splitting->bounds);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT)
        result = pcre2_match(how->regex, (PCRE2_SPTR)text, count, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, splitting->found,
                             splitting->bounds);
    if (result < 0)
        return result == PCRE2_ERROR_NOMATCH ? FOUND_NOTHING : FOUND_NO_END;
    offsets = pcre2_get_ovector_pointer(splitting->found);
    *ret_start = offsets[0];
    *ret_stop = offsets[1] < offsets[0] ? offsets[0] : offsets[1];
    return FOUND;
}

static bool split_by_pattern(struct splitting *splitting, uint32_t step, const char *text, size_t count, bool at_start)
{
    const struct split_step *how = &splitting->tokenizer->split[step];
    struct pending pending = {0};
    size_t covered = 0;
    size_t start, stop;

    for (size_t from = 0; from < count;) {
        int result = find(splitting, how, text, count, from, &start, &stop);

        if (result == FOUND_NO_END)
            return false;
        if (result == FOUND_NOTHING)
            break;
        if (start > covered && !stretch(splitting, step, text, &pending, (struct pending){covered, start, false, true}, at_start))
            return false;
        if (stop > start && !stretch(splitting, step, text, &pending, (struct pending){start, stop, true, true}, at_start))
            return false;
        covered = stop;
        from = stop > start || stop == count ? stop : stop + utf8_at(text + stop, count - stop).bytes;
    }
    if (covered < count && !stretch(splitting, step, text, &pending, (struct pending){covered, count, false, true}, at_start))
        return false;
    return pending_flush(splitting, step, text, &pending, at_start);
}

static bool split_metaspace(struct splitting *splitting, uint32_t step, const char *text, size_t count, bool at_start)
{
    const struct split_step *how = &splitting->tokenizer->split[step];
    const char *mark = span_text(splitting->tokenizer, how->text);
    size_t mark_count = how->text.count;
    bool has_mark = (count >= mark_count && memcmp(text, mark, mark_count) == 0) || text[0] == ' ';
    struct token_text marked = {0};
    bool good = true;
    size_t at = 0;

    if (!has_mark && (how->prepend == PREPEND_always || (how->prepend == PREPEND_first && at_start)))
        token_text_add(&marked, mark, mark_count);
    replace_all(text, count, " ", 1, mark, mark_count, &marked);
    while (good && at < marked.count) {
        size_t stop = how->splits ? text_find(marked.bytes, marked.count, at + 1, mark, mark_count) : SIZE_MAX;

        stop = stop == SIZE_MAX ? marked.count : stop;
        good = split_from(splitting, step + 1, marked.bytes + at, stop - at, at_start && at == 0);
        at = stop;
    }
    token_text_free(&marked);
    return good;
}

static bool split_prefix_space(struct splitting *splitting, uint32_t step, const char *text, size_t count, bool at_start)
{
    struct token_text spaced = {0};
    bool good;

    if (text[0] == ' ')
        return split_from(splitting, step + 1, text, count, at_start);
    token_text_add(&spaced, " ", 1);
    token_text_add(&spaced, text, count);
    good = split_from(splitting, step + 1, spaced.bytes, spaced.count, at_start);
    token_text_free(&spaced);
    return good;
}

/* Calls itself once a step at most, and steps are few. */
static bool split_from(struct splitting *splitting, uint32_t step, const char *text, size_t count, bool at_start)
{
    if (count == 0)
        return true;
    if (step == splitting->tokenizer->split_count) {
        splitting->take(splitting->context, text, count);
        return true;
    }
    switch (splitting->tokenizer->split[step].kind) {
    case SPLIT_PATTERN: return split_by_pattern(splitting, step, text, count, at_start);
    case SPLIT_METASPACE: return split_metaspace(splitting, step, text, count, at_start);
    case SPLIT_PREFIX_SPACE: return split_prefix_space(splitting, step, text, count, at_start);
    }
    return true;
}

bool split_text(const struct tokenizer *tokenizer, pcre2_match_data *found, pcre2_match_context *bounds, const char *text,
                size_t count, bool at_start, word_take *take, void *context)
{
    struct splitting splitting = {tokenizer, found, bounds, take, context};

    return split_from(&splitting, 0, text, count, at_start);
}

/* --- reading --- */

/* GPT-2's, which ByteLevel uses unless told otherwise. */
static const char byte_level_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static const char *const behaviors[] = {
#define X(name) #name,
    SPLIT_BEHAVIORS(X)
#undef X
};

static bool add_step(struct opening *opening, struct split_step step)
{
    struct tokenizer *tokenizer = opening->tokenizer;

    if (tokenizer->split_count == STEPS_MAX) {
        pcre2_code_free(step.regex);
        return opening_refuse(opening, STATUS_INVALID, "more than %d steps that split", STEPS_MAX);
    }
    tokenizer->split[tokenizer->split_count++] = step;
    return true;
}

static bool add_pattern(struct opening *opening, const char *pattern, size_t count, enum split_behavior behavior, bool invert)
{
    pcre2_code *regex = pattern_compile(opening, pattern, count);

    return regex != NULL && add_step(opening, (struct split_step){.kind = SPLIT_PATTERN, .regex = regex, .behavior = behavior,
                                                                  .invert = invert});
}

static bool open_split(struct opening *opening, const json_t *step)
{
    const json_t *pattern = json_object_get(step, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex");
    const json_t *string = json_object_get(pattern, "String");
    const char *behavior = json_string_value(json_object_get(step, "behavior"));
    bool invert = json_is_true(json_object_get(step, "invert"));
    char shown[EXCERPT_MAX];
    size_t i;

    for (i = 0; i < ARRAY_COUNT(behaviors); i++) {
        if (behavior != NULL && strcmp(behaviors[i], behavior) == 0)
            break;
    }
    if (i == ARRAY_COUNT(behaviors))
        return opening_refuse(opening, STATUS_INVALID, "pre_tokenizer Split: behavior '%s' is unknown here",
                              opening_name(json_object_get(step, "behavior"), shown));
    if (json_is_string(regex))
        return add_pattern(opening, json_string_value(regex), json_string_length(regex), (enum split_behavior)i, invert);
    if (json_string_length(string) == 0)
        return opening_refuse(opening, STATUS_CORRUPT, "pre_tokenizer Split has no pattern");
    return add_step(opening, (struct split_step){
                                 .kind = SPLIT_PATTERN, .behavior = (enum split_behavior)i, .invert = invert,
                                 .text = span_add(opening->tokenizer, json_string_value(string), json_string_length(string))});
}

static bool open_byte_level(struct opening *opening, const json_t *step)
{
    opening->tokenizer->byte_level = true;
    if (json_is_true(json_object_get(step, "add_prefix_space")) && !add_step(opening, (struct split_step){.kind = SPLIT_PREFIX_SPACE}))
        return false;
    if (json_is_false(json_object_get(step, "use_regex")))
        return true;
    return add_pattern(opening, byte_level_pattern, sizeof(byte_level_pattern) - 1, SPLIT_Isolated, false);
}

static bool open_digits(struct opening *opening, const json_t *step)
{
    bool each = json_is_true(json_object_get(step, "individual_digits"));

    return add_pattern(opening, "\\p{N}", 5, each ? SPLIT_Isolated : SPLIT_Contiguous, false);
}

bool metaspace_read(struct opening *opening, const json_t *from, struct span *ret_mark, enum prepend *ret_prepend)
{
    const json_t *mark = json_object_get(from, "replacement");
    const char *scheme = json_string_value(json_object_get(from, "prepend_scheme"));

    if (json_string_length(mark) == 0 || utf8_at(json_string_value(mark), json_string_length(mark)).bytes != json_string_length(mark))
        return opening_refuse(opening, STATUS_CORRUPT, "Metaspace: replacement is no character");
    *ret_mark = span_add(opening->tokenizer, json_string_value(mark), json_string_length(mark));
    if (scheme == NULL)
        scheme = json_is_false(json_object_get(from, "add_prefix_space")) ? "never" : "always";
    if (strcmp(scheme, "always") == 0)
        *ret_prepend = PREPEND_always;
    else if (strcmp(scheme, "first") == 0)
        *ret_prepend = PREPEND_first;
    else if (strcmp(scheme, "never") == 0)
        *ret_prepend = PREPEND_never;
    else
        return opening_refuse(opening, STATUS_INVALID, "Metaspace: this prepend_scheme is unknown here");
    return true;
}

static bool open_metaspace(struct opening *opening, const json_t *step)
{
    struct split_step made = {.kind = SPLIT_METASPACE, .splits = !json_is_false(json_object_get(step, "split"))};

    return metaspace_read(opening, step, &made.text, &made.prepend) && add_step(opening, made);
}

static bool step_open(struct opening *opening, const json_t *step)
{
    static const struct {
        const char *type;
        bool (*open)(struct opening *opening, const json_t *step);
    } kinds[] = {{"Split", open_split}, {"ByteLevel", open_byte_level}, {"Digits", open_digits}, {"Metaspace", open_metaspace}};
    char shown[EXCERPT_MAX];

    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        if (strcmp(kinds[i].type, type_of(step)) == 0)
            return opening->tokenizer->byte_level
                       ? opening_refuse(opening, STATUS_INVALID, "pre_tokenizer %s behind ByteLevel is unknown here", kinds[i].type)
                       : kinds[i].open(opening, step);
    }
    return opening_refuse(opening, STATUS_INVALID, "pre_tokenizer '%s' is unknown here",
                          opening_name(json_object_get(step, "type"), shown));
}

bool split_open(struct opening *opening, const json_t *pre_tokenizer)
{
    const json_t *step;
    size_t i;

    if (pre_tokenizer == NULL || json_is_null(pre_tokenizer))
        return true;
    if (strcmp(type_of(pre_tokenizer), "Sequence") != 0)
        return step_open(opening, pre_tokenizer);
    json_array_foreach(json_object_get(pre_tokenizer, "pretokenizers"), i, step) {
        if (!step_open(opening, step))
            return false;
    }
    return true;
}
