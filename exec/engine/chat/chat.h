/* Chat templates: the text a model was trained to see for a list of messages. A template is a program in a part of Jinja 2, as
 * transformers runs it (trim_blocks, lstrip_blocks, tojson without sorting, raise_exception, strftime_now); it comes with the model and
 * is trusted with nothing: no files, no network, and bounds on steps, memory and depth, so that it ends.
 *
 * Every byte of a rendered text knows whether it came from the request. tokenizer_encode() takes those marks as `plain`, and then no
 * message can spell a control token. */
#ifndef CHAT_CHAT_H
#define CHAT_CHAT_H

#include <jansson.h>

#include "engine/tokenizer/tokenizer.h"

#define CHAT_TEMPLATE_BYTES_MAX (1u << 20)
#define CHAT_STEPS_MAX 20000000u
#define CHAT_MEMORY_BYTES_MAX (128u << 20) /* of one rendering */
#define CHAT_ERROR_MAX 320

struct chat_template;

/* INVALID: ret_error says "line 3: what". */
enum status chat_template_open(const char *text, size_t count, struct chat_template **ret_template, char ret_error[CHAT_ERROR_MAX]);
void chat_template_close(struct chat_template *template); /* NULL is fine; an open one never changes */

struct chat_request {
    const json_t *messages;  /* a list of objects */
    const json_t *tools;     /* a list; NULL: none */
    const json_t *variables; /* an object of whatever else the template may ask for, as enable_thinking; NULL: none */
    bool add_generation_prompt;
    int64_t now_s;           /* since 1970, UTC: for strftime_now */
};

/* All zero is an empty one. */
struct chat_text {
    struct token_text text;
    uint8_t *plain; /* as many as text.count: 1 where the byte came from the request */
    size_t plain_capacity;
};
void chat_text_free(struct chat_text *text);

/* Appends. bos_token and the like are the tokenizer's; NULL: they are undefined. INVALID: the template refuses the request, does what
 * it may not, or reaches a bound; `text` is as it was. */
enum status chat_render(const struct chat_template *template, const struct tokenizer *tokenizer, const struct chat_request *request,
                        struct chat_text *text, char ret_error[CHAT_ERROR_MAX]);

#endif
