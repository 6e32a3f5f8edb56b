/* What can only be said of many examples: twins, contradictions, what validation has too, answers that are all the same. */
#include "base/hash.h"
#include "validate/internal.h"

#define PIECE_BYTES 512

/* --- hashes ----------------------------------------------------------------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Runs of whitespace count as one space, and those at the ends as none. */
static uint64_t loose_text_hash(uint64_t digest, const char *text, size_t count)
{
    char piece[PIECE_BYTES];
    size_t used = 0;
    size_t at = 0;

    while (count > 0 && is_space(text[count - 1]))
        count--;
    while (at < count && is_space(text[at]))
        at++;
    while (at < count) {
        piece[used++] = is_space(text[at]) ? ' ' : text[at];
        for (at++; at < count && is_space(text[at]) && piece[used - 1] == ' ';)
            at++;
        if (used == PIECE_BYTES) {
            digest = hash_bytes(digest, piece, used);
            used = 0;
        }
    }
    return hash_bytes(digest, piece, used);
}

/* Keys may come in any order. */
uint64_t value_hash(const struct tree *tree, uint32_t index, bool loosely)
{
    const struct tree_node *node = &tree->nodes[index];
    uint64_t digest = hash_mix((uint64_t)node->kind);
    uint64_t sum = 0;

    switch (node->kind) {
    case TREE_STRING:
        return loosely ? loose_text_hash(digest, node->text, node->text_bytes) : hash_bytes(digest, node->text, node->text_bytes);
    case TREE_OBJECT:
        for (uint32_t i = node->first; i != NONE_INDEX; i = tree->nodes[i].next)
            sum += hash_mix(hash_fold(hash_bytes(digest, tree->nodes[i].key, tree->nodes[i].key_bytes), value_hash(tree, i, loosely)));
        return hash_fold(digest, sum);
    case TREE_ARRAY:
        for (uint32_t i = node->first; i != NONE_INDEX; i = tree->nodes[i].next)
            digest = hash_fold(digest, value_hash(tree, i, loosely));
        return hash_fold(digest, node->count);
    default: return hash_bytes(digest, tree->line + node->at, node->end - node->at);
    }
}

/* An example as what is asked and what is answered; of a preference there are two answers. */
struct hashes {
    uint64_t prompt;
    uint64_t answers[2];
    uint64_t swapped;  /* the example with its answers the other way round */
    uint64_t whole;
};

static uint64_t key_hash(const struct tree *tree, uint32_t root, const char *key)
{
    const uint32_t node = tree_find(tree, root, key);

    return node != NONE_INDEX ? value_hash(tree, node, true) : 0;
}

static struct hashes chat_hashes(const struct tree *tree, uint32_t root)
{
    const uint32_t messages = tree_find(tree, root, "messages");
    struct hashes hashes = {.prompt = key_hash(tree, root, "tools")};

    for (uint32_t i = tree->nodes[messages].first; i != tree->nodes[messages].last; i = tree->nodes[i].next)
        hashes.prompt = hash_fold(hashes.prompt, value_hash(tree, i, true));
    hashes.answers[0] = value_hash(tree, tree->nodes[messages].last, true);
    return hashes;
}

static struct hashes hashes_of(const struct tree *tree, uint32_t root, enum format format)
{
    static const struct {
        const char *prompt, *answers[2];
    } names[] = {[FORMAT_PAIR] = {"prompt", {"completion", NULL}}, [FORMAT_PREFERENCE] = {"input", {"preferred_output", "non_preferred_output"}},
                 [FORMAT_CHOICE] = {"prompt", {"chosen", "rejected"}}};
    struct hashes hashes;

    if (format == FORMAT_CHAT) {
        hashes = chat_hashes(tree, root);
    } else {
        hashes = (struct hashes){.prompt = hash_fold(key_hash(tree, root, names[format].prompt), key_hash(tree, root, "tools"))};
        for (int i = 0; i < 2 && names[format].answers[i] != NULL; i++)
            hashes.answers[i] = key_hash(tree, root, names[format].answers[i]);
    }
    hashes.whole = hash_fold(hash_fold(hashes.prompt, hashes.answers[0]), hashes.answers[1]);
    hashes.swapped = hash_fold(hash_fold(hashes.prompt, hashes.answers[1]), hashes.answers[0]);
    return hashes;
}

/* --- one more --------------------------------------------------------------------------------------------------------------- */

static void find_leak(struct validator *validator, const struct hashes *hashes)
{
    const struct validator *validation = validator->validation;
    const struct twin *whole = validation != NULL ? twins_find(&validation->examples, hashes->whole) : NULL;
    const struct twin *prompt = validation != NULL ? twins_find(&validation->prompts, hashes->prompt) : NULL;

    if (whole != NULL) {
        validator->statistics.leaks++;
        issue_at(validator, VALIDATE_VALIDATION_LEAK, NO_COLUMN, NONE_INDEX, "Example also appears in the validation file (line %d).", whole->line);
    } else if (prompt != NULL) {
        validator->statistics.prompt_leaks++;
        issue_at(validator, VALIDATE_VALIDATION_PROMPT_LEAK, NO_COLUMN, NONE_INDEX,
                 "Prompt also appears in the validation file (line %d) with another answer.", prompt->line);
    }
}

static void find_conflict(struct validator *validator, const struct hashes *hashes)
{
    const struct twin *twin = validator->config.preferences ? twins_find(&validator->examples, hashes->swapped)
                                                            : twins_find(&validator->prompts, hashes->prompt);

    if (twin == NULL)
        return;
    validator->statistics.conflicts++;
    if (validator->config.preferences)
        issue_at(validator, VALIDATE_CONFLICTING_ANSWERS, NO_COLUMN, NONE_INDEX, "Line %d prefers the other of the same two answers.", twin->line);
    else
        issue_at(validator, VALIDATE_CONFLICTING_ANSWERS, NO_COLUMN, NONE_INDEX, "Same prompt as line %d with another answer.", twin->line);
}

static void find_twin(struct validator *validator, const struct hashes *hashes, bool same_answers)
{
    const uint32_t exact = (uint32_t)hash_bytes(0, validator->text, validator->text_bytes);
    const struct twin *twin = twins_find(&validator->examples, hashes->whole);

    if (twin != NULL) {
        validator->statistics.duplicates++;
        validator->statistics.duplicates_exact += twin->other == exact;
        issue_at(validator, VALIDATE_DUPLICATE_EXAMPLE, NO_COLUMN, NONE_INDEX, "Same example as line %d%s.", twin->line,
                 twin->other == exact ? "" : " (differs only in whitespace, or in how the JSON is written)");
        return;
    }
    if (!same_answers)
        find_conflict(validator, hashes);
    if (!twins_add(&validator->examples, hashes->whole, exact, validator->line)) {
        validator->statistics.not_compared++;
        return;
    }
    if (twins_find(&validator->prompts, hashes->prompt) == NULL)
        twins_add(&validator->prompts, hashes->prompt, 0, validator->line);
}

static void note_answer(struct validator *validator, uint64_t answer)
{
    if (validator->answer == 0)
        validator->answer = answer;
    validator->answers_differ |= validator->answer != answer;
}

static void count_messages(struct validator *validator, uint32_t root)
{
    const struct tree *tree = &validator->tree;
    const uint32_t list = tree_find(tree, root, "messages");

    validator->statistics.messages += tree->nodes[list].count;
    for (uint32_t i = tree->nodes[list].first; i != NONE_INDEX; i = tree->nodes[i].next) {
        if (!tree_is_text(tree, tree_find(tree, i, "role"), "assistant"))
            continue;
        validator->statistics.assistant_messages++;
        note_answer(validator, hash_fold(key_hash(tree, i, "content"), key_hash(tree, i, "tool_calls")));
    }
}

void set_add(struct validator *validator, uint32_t root, enum format format)
{
    const struct hashes hashes = hashes_of(&validator->tree, root, format);
    bool same_answers = false;

    validator->statistics.good++;
    if (format == FORMAT_CHAT)
        count_messages(validator, root);
    else
        note_answer(validator, hashes.answers[0]);
    if (validator->config.preferences) {
        const char *const names[] = {format == FORMAT_PREFERENCE ? "preferred_output" : "chosen",
                                     format == FORMAT_PREFERENCE ? "non_preferred_output" : "rejected"};

        same_answers = value_hash(&validator->tree, tree_find(&validator->tree, root, names[0]), false) ==
                       value_hash(&validator->tree, tree_find(&validator->tree, root, names[1]), false);
        if (same_answers) {
            validator->identical++;
            issue_at(validator, VALIDATE_IDENTICAL_PREFERENCE, NO_COLUMN, NONE_INDEX, "%s and %s are the same.", names[0], names[1]);
        }
    }
    find_twin(validator, &hashes, same_answers);
    find_leak(validator, &hashes);
    if (validator->config.source != NULL && !same_answers)
        tokens_add(validator);
}

/* --- the end ---------------------------------------------------------------------------------------------------------------- */

void set_end(struct validator *validator)
{
    const struct validate_statistics *statistics = &validator->statistics;

    if (statistics->examples > 0 && statistics->examples < validator->config.examples_min && !validator->confused)
        issue_line(validator, VALIDATE_TOO_FEW_EXAMPLES, 0, "File has %lld examples; at least %lld are needed.", (long long)statistics->examples,
                   (long long)validator->config.examples_min);
    if (statistics->examples > DATA_SAMPLES_MAX || statistics->samples > DATA_SAMPLES_MAX)
        issue_line(validator, VALIDATE_TOO_MANY_EXAMPLES, 0, "File has %lld examples; at most %d are taken.",
                   (long long)max_i64(statistics->examples, statistics->samples), DATA_SAMPLES_MAX);
    if (validator->identical > 0 && validator->identical == statistics->good)
        issue_line(validator, VALIDATE_NOTHING_TO_PREFER, 0, "The two answers are the same in all %lld examples.", (long long)validator->identical);
    if (validator->examples.count > 1 && !validator->answers_differ && statistics->good >= validator->config.examples_min)
        issue_line(validator, VALIDATE_IDENTICAL_ANSWERS, 0, "The answers of all %lld examples are the same text.", (long long)statistics->good);
}
