/* A model's tokenizer: text to ids and back, as its tokenizer.json says. Byte-level BPE (GPT-2, Llama 3, Qwen3) and the
 * SentencePiece kind of BPE (Llama 2, Mistral); what a file asks for and nothing here knows is refused by name when it is opened.
 * The definition is the Rust library `tokenizers`: the same ids, the same text. One exception, asked for by flag: text that a
 * stranger wrote may spell a special token and stays text.
 *
 * An open tokenizer never changes, so any number of threads may use one. */
#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H

#include "base/base.h"

struct tokenizer;

#define TOKENIZER_FILE_BYTES_MAX (128u << 20) /* of tokenizer.json, unpacked */
#define TOKENIZER_TEXT_BYTES_MAX (16u << 20)  /* of one text to encode */
#define TOKENIZER_IDS_MAX (1 << 22)           /* ids are below this */
#define TOKENIZER_NO_ID (-1)

/* One line, without a newline, cut at its end when it is longer. */
#define TOKENIZER_ERROR_MAX 320

/* `directory` holds tokenizer.json or tokenizer.json.gz, and tokenizer_config.json if the model has one (special tokens by role and
 * the chat template; without it there are none), or the template in a file of its own, chat_template.jinja, which goes before.
 * NOT_FOUND: no tokenizer.json; IO; CORRUPT: not JSON, or it contradicts itself; INVALID: it asks for something unknown. ret_error
 * names the file. */
enum status tokenizer_open(const char *directory, struct tokenizer **ret_tokenizer, char ret_error[TOKENIZER_ERROR_MAX]);
/* The same from the texts of the two files; config may be NULL. */
enum status tokenizer_open_texts(const char *json, size_t json_count, const char *config, size_t config_count,
                                 struct tokenizer **ret_tokenizer, char ret_error[TOKENIZER_ERROR_MAX]);
void tokenizer_close(struct tokenizer *tokenizer); /* NULL is fine */

/* --- lists that grow; all zero is an empty one, and encode and decode append --- */

struct token_list {
    int32_t *ids;
    size_t count;
    size_t capacity;
};
void token_list_add(struct token_list *list, int32_t id);
void token_list_free(struct token_list *list);

struct token_text {
    char *bytes; /* no zero at the end; NULL while nothing was ever added */
    size_t count;
    size_t capacity;
};
void token_text_add(struct token_text *text, const char *bytes, size_t count);
void token_text_free(struct token_text *text);

/* --- encoding --- */

enum {
    /* Put the model's own tokens around the text (a Llama 2 begins with <s>), as for a prompt that is a whole document. */
    TOKENIZER_ADD_SPECIAL = 1,
    /* Nowhere may the text become a control token (token_is_control) by spelling it. */
    TOKENIZER_PLAIN = 2,
};

/* Appends the ids of text[0 .. count). `plain` is NULL, or has `count` bytes: a control token that is spelled by even one byte
 * whose `plain` is not 0 stays text; so a chat's own marks are tokens while its messages are not. INVALID: not UTF-8, or longer than
 * TOKENIZER_TEXT_BYTES_MAX, or it runs the model's pattern out of its bounds; `list` is as it was then. */
enum status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t count, const uint8_t *plain, unsigned flags,
                             struct token_list *list, char ret_error[TOKENIZER_ERROR_MAX]);

/* --- decoding --- */

/* Appends the text of ids: valid UTF-8 always, with U+FFFD for bytes that are none. Ids that the tokenizer does not have say
 * nothing. skip_special leaves out special tokens (token_is_special). */
void tokenizer_decode(const struct tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip_special, struct token_text *text);

/* The same text piece by piece: after every id as much as is certain, never a part of a character. What comes out of pushes and the
 * finish, one after the other, is tokenizer_decode()'s text. A model whose rare characters are tokens of one byte each shows a run of
 * those when the run ends; one longer than the state holds comes in parts, and only then may text that is not UTF-8 differ.
 * Copy the struct to go back to where it was. */
#define TOKEN_STREAM_HELD_MAX 256
struct token_stream {
    const struct tokenizer *tokenizer;
    bool skip_special;
    bool begun;     /* a token has been decoded */
    bool run_is_bad; /* this run of byte tokens is no text: each is a U+FFFD, and out already */
    uint32_t strip; /* characters that may still be stripped from the start */
    uint32_t held_count;
    char held[TOKEN_STREAM_HELD_MAX];
};
void token_stream_begin(struct token_stream *stream, const struct tokenizer *tokenizer, bool skip_special);
void token_stream_push(struct token_stream *stream, int32_t id, struct token_text *text);
void token_stream_finish(struct token_stream *stream, struct token_text *text);

/* --- what is in it --- */

/* One more than the greatest id; ids between may be missing. A model's table may have more rows: those are padding. */
int32_t tokenizer_ids_count(const struct tokenizer *tokenizer);
/* The token spelled so in tokenizer.json (a byte-level space is "\u0120"); TOKENIZER_NO_ID: none. */
int32_t tokenizer_id_of(const struct tokenizer *tokenizer, const char *spelling, size_t count);
/* The spelling; NULL: no such id. It lives as long as the tokenizer, and no zero ends it. */
const char *token_spelling(const struct tokenizer *tokenizer, int32_t id, size_t *ret_count);
/* The bytes that a token adds to a text, apart from stripping and byte runs: "\xe2\x96\x81the" is " the". NULL: no such id. */
const char *token_bytes(const struct tokenizer *tokenizer, int32_t id, size_t *ret_count);
bool token_is_special(const struct tokenizer *tokenizer, int32_t id);
/* Special, or added to the vocabulary in angle brackets, as <think> and <tool_call> are. */
bool token_is_control(const struct tokenizer *tokenizer, int32_t id);

/* Roles in tokenizer_config.json; TOKENIZER_NO_ID where it names none. */
#define TOKENIZER_ROLES(X) X(BOS, "bos_token") X(EOS, "eos_token") X(PAD, "pad_token") X(UNK, "unk_token")
enum tokenizer_role {
#define X(name, key) TOKENIZER_##name,
    TOKENIZER_ROLES(X)
#undef X
    TOKENIZER_ROLE_COUNT
};
int32_t tokenizer_special(const struct tokenizer *tokenizer, enum tokenizer_role role);
/* The chat template's text, NULL if there is none. Of several the one called "default". */
const char *tokenizer_chat_template(const struct tokenizer *tokenizer, size_t *ret_count);

#endif
