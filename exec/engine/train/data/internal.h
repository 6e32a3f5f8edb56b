/* The inside of data/, for its own files only. */
#ifndef TRAIN_DATA_INTERNAL_H
#define TRAIN_DATA_INTERNAL_H

#include <jansson.h>

#include "engine/chat/chat.h"
#include "engine/train/data/data.h"

struct data_reader {
    const struct data_source *source;
    struct chat_template *template; /* NULL: the model has none */
    char template_error[CHAT_ERROR_MAX];
    struct data_set *set;
    int64_t tokens_capacity;
    int32_t samples_capacity;
    int32_t line;
    int32_t faults;
    int kind;                       /* enum data_kind of the lines before */
    const char *shown;
    struct refusal *refusal;
};
/* The last two are preferences. */
#define DATA_KINDS(X) X(CHAT, "messages") X(PAIR, "prompt and completion") X(PREFERENCE, "input, preferred_output and non_preferred_output") \
    X(CHOICE, "prompt, chosen and rejected")
enum data_kind {
    DATA_UNKNOWN,
#define X(name, text) DATA_##name,
    DATA_KINDS(X)
#undef X
};

/* Notes "train.jsonl:3: field: what"; returns INVALID. */
enum status data_fault(struct data_reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a sample: ids[0 .. count), of which [from, until) of each span are learned. */
struct data_span {
    size_t from;
    size_t until;
};
enum status data_add(struct data_reader *reader, const struct token_list *ids, const struct data_span *spans, size_t spans_count);
/* Of the set's tokens, targets and cuts. */
void data_digest(struct data_set *set);
/* How many ids both begin with. */
size_t data_common(const struct token_list *a, const struct token_list *b);

enum status data_chat(struct data_reader *reader, json_t *example);
enum status data_preference(struct data_reader *reader, const json_t *example);

/* A sample of two texts; `field` is the second's name. */
enum status data_texts(struct data_reader *reader, const json_t *prompt, const json_t *completion, const char *field);
/* A message of the list `field`. ret_learned: an assistant's whose weight is not 0. Takes the weight away: templates do not see it. */
enum status data_message(struct data_reader *reader, const char *field, json_t *message, size_t index, bool *ret_learned);
/* A sample of {"messages", "tools"}, of which the last message is learned, an assistant's; `field` is what to call it. */
enum status data_answer(struct data_reader *reader, const json_t *chat, const char *field);
enum status data_has_template(struct data_reader *reader, const char *field);
#define DATA_MESSAGES_MAX 1024

#endif
