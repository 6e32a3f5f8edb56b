/* A file of examples as samples to train on: JSON lines, either chats ({"messages": [...]}, where the assistant's turns are learned) or
 * pairs ({"prompt": TEXT, "completion": TEXT}, where the completion is); or, to learn preferences, OpenAI's {"input": {"messages": [...]},
 * "preferred_output": [ANSWER], "non_preferred_output": [ANSWER]} or {"prompt", "chosen", "rejected"}, of texts or of messages. It is a stranger's file: lines, sizes and depth are bounded,
 * and what is wrong is refused with line and field, up to ten faults at once. Chats go through the template and the tokenizer that
 * serving uses, so what a model learns is what it will see. */
#ifndef TRAIN_DATA_DATA_H
#define TRAIN_DATA_DATA_H

#include "engine/files/refusal.h"
#include "engine/safetensors/safetensors.h"
#include "engine/tokenizer/tokenizer.h"

#define DATA_FILE_BYTES_MAX (512 << 20)
#define DATA_LINE_BYTES_MAX (16 << 20)
#define DATA_SAMPLES_MAX (8 << 20)
#define DATA_FAULTS_MAX 10     /* named; the rest is counted */

struct data_sample {
    int64_t at;                /* of its first token */
    int32_t tokens;            /* 2 .. tokens_max */
    int32_t targets;           /* >= 1 */
    int32_t line;              /* counted from 1 */
};

struct data_set {
    struct data_sample *sample;
    int32_t count;             /* samples; an example whose template rewrites earlier turns makes one for each of them; of preferences two,
                                  the preferred answer first */
    int32_t examples;          /* lines that hold one */
    int32_t cut;               /* samples longer than tokens_max, whose end is lost */
    int32_t equal;             /* pairs left out, for their answers are equal as far as they fit */
    int32_t *tokens;
    uint8_t *is_target;
    int64_t tokens_count;
    int64_t targets_count;
    uint8_t digest[DIGEST_BYTES]; /* of tokens, targets and cuts: what training depends on */
};

struct data_source {
    const struct tokenizer *tokenizer;
    int32_t eos;               /* ends a completion, and a last turn that the template leaves open */
    int32_t vocabulary;        /* of the model: ids must be below it */
    int32_t tokens_max;        /* of a sample; more is cut at the end */
    bool preferences;          /* those are wanted, and nothing else */
    bool equal_too;            /* pairs of equal answers stay: not to be learned from, but to be counted */
};

/* INVALID: something is wrong with the file. `path` is opened as file_open() does. data_close() it. */
enum status data_open(const char *path, const struct data_source *source, struct data_set **ret_set, struct refusal *refusal);
/* The same from text; `shown` is the file's name in messages. */
enum status data_open_text(const char *text, int64_t bytes, const char *shown, const struct data_source *source, struct data_set **ret_set,
                           struct refusal *refusal);
void data_close(struct data_set *set); /* NULL is fine */

/* Moves about `percent` (1 .. 50) of the examples to another set, by a hash of seed and line; samples of one line stay together. INVALID:
 * one of the two would be empty; `set` is then as it was. */
enum status data_split(struct data_set *set, int32_t percent, uint64_t seed, struct data_set **ret_part, struct refusal *refusal);

/* The samples' order in one epoch: a permutation of 0 .. count - 1 that depends on the seed, the epoch and the count alone. */
void data_order(uint64_t seed, int32_t epoch, int32_t count, int32_t *ret_order);
/* As many epochs as make sense of so few or many examples: 3, more if that is below 100 in all, fewer above 25,000; 1 .. 25. */
int32_t data_epochs(int32_t examples);
/* Samples a step: a sixteenth of them, 1 .. 16. */
int32_t data_batch(int32_t samples);

#endif
