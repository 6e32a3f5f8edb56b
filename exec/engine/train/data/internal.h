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
enum data_kind { DATA_UNKNOWN, DATA_CHAT, DATA_PAIR };

/* Notes "train.jsonl:3: field: what"; returns INVALID. */
enum status data_fault(struct data_reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a sample: ids[0 .. count), of which [from, until) of each span are learned. */
struct data_span {
    size_t from;
    size_t until;
};
enum status data_add(struct data_reader *reader, const struct token_list *ids, const struct data_span *spans, size_t spans_count);
/* How many ids both begin with. */
size_t data_common(const struct token_list *a, const struct token_list *b);

enum status data_chat(struct data_reader *reader, json_t *example);

#endif
