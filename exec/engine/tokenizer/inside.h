/* The parts of an open tokenizer. Texts lie in one blob; everything is made once, by open, and only read after. */
#ifndef TOKENIZER_INSIDE_H
#define TOKENIZER_INSIDE_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <jansson.h>
#include <pcre2.h>

#include "engine/tokenizer/tokenizer.h"

struct span {
    uint32_t at; /* in the blob */
    uint32_t count;
};

enum {
    PIECE_EXISTS = 1,
    PIECE_ADDED = 2,
    PIECE_SPECIAL = 4,
    PIECE_CONTROL = 8,
    PIECE_BYTE = 16, /* <0xNN>, which stands for a byte */
};

struct piece {
    struct span spelling;
    struct span key;   /* what merging calls it: bytes in a byte-level vocabulary, else the spelling */
    struct span bytes; /* what it adds to a text */
    uint8_t flags;
    uint8_t byte; /* of PIECE_BYTE */
};

struct merge {
    uint32_t left; /* NONE_INDEX: empty */
    uint32_t right;
    uint32_t rank; /* the lowest first */
    uint32_t id;
};

struct added {
    struct span content;
    struct span match; /* what is looked for: the content, normalised where the file asks for that */
    int32_t id;
    bool lstrip, rstrip, single_word, normalized, control;
};

/* Added tokens in the order of what is looked for, so that a range of them narrows byte by byte. */
struct added_set {
    struct added *tokens;
    uint32_t count;
    uint32_t first[257]; /* those that begin with byte b: first[b] .. first[b + 1] */
};

enum normalize_kind { NORMALIZE_PREPEND, NORMALIZE_REPLACE, NORMALIZE_NFC, NORMALIZE_NFD, NORMALIZE_NFKC, NORMALIZE_NFKD };
struct normalize_step {
    enum normalize_kind kind;
    struct span pattern; /* of REPLACE; never empty */
    struct span content; /* of PREPEND and REPLACE */
};

/* What becomes of a match and what lies between matches. */
#define SPLIT_BEHAVIORS(X) X(Removed) X(Isolated) X(MergedWithPrevious) X(MergedWithNext) X(Contiguous)
enum split_behavior {
#define X(name) SPLIT_##name,
    SPLIT_BEHAVIORS(X)
#undef X
};

enum split_kind { SPLIT_PATTERN, SPLIT_METASPACE, SPLIT_PREFIX_SPACE };
enum prepend { PREPEND_never, PREPEND_first, PREPEND_always };
struct split_step {
    enum split_kind kind;
    pcre2_code *regex; /* NULL: `text` is the pattern */
    struct span text;  /* METASPACE: what stands for a space */
    enum split_behavior behavior;
    bool invert;
    bool splits;       /* METASPACE: cuts before every such mark */
    enum prepend prepend;
};

enum decode_kind {
    DECODE_JOIN,       /* no decoder: tokens with a space between them */
    DECODE_BYTE_LEVEL, /* bytes of all tokens, then lossily to text */
    DECODE_PIECES,     /* texts one after the other */
};

enum { STEPS_MAX = 8, TEMPLATE_IDS_MAX = 16 };

struct tokenizer {
    struct token_text blob;
    struct piece *pieces;
    int32_t pieces_count;

    /* vocabulary: ids by key, open addressing, a power of two of slots, NONE_INDEX: empty */
    uint32_t *slots;
    uint32_t slots_count;
    struct merge *merges;
    uint32_t merges_slots;
    uint32_t byte_ids[256]; /* byte-level: of one byte; else of <0xNN>; NONE_INDEX: none */
    bool byte_level;
    bool byte_fallback;
    bool fuse_unk;
    bool ignore_merges;
    uint32_t unk_id; /* NONE_INDEX: none; characters without a token vanish */

    struct added_set raw;        /* looked for in the text as it is */
    struct added_set normalized; /* and in the normalised one */
    struct normalize_step normalize[STEPS_MAX];
    uint32_t normalize_count;
    struct split_step split[STEPS_MAX];
    uint32_t split_count;
    uint32_t template_before[TEMPLATE_IDS_MAX];
    uint32_t template_before_count;
    uint32_t template_after[TEMPLATE_IDS_MAX];
    uint32_t template_after_count;

    enum decode_kind decode_kind;
    struct normalize_step decode_replace[STEPS_MAX]; /* applied to every token when it is opened */
    uint32_t decode_replace_count;
    bool decode_bytes;         /* <0xNN> are bytes */
    struct span decode_strip;  /* a character to strip from the start, `decode_strip_max` of them at most */
    uint32_t decode_strip_max;
    bool decode_metaspace;     /* the first token loses what stands for a space */
    struct span metaspace;

    int32_t roles[TOKENIZER_ROLE_COUNT];
    struct span chat_template; /* count 0 and at 0: none */
    bool has_chat_template;
};

/* Opening: what goes wrong is said in `error`, and `status` tells the kind. */
struct opening {
    struct tokenizer *tokenizer;
    enum status status;
    char *error; /* TOKENIZER_ERROR_MAX */
};
/* Always false. A name or text of the file is quoted with opening_name(). */
__attribute__((format(printf, 3, 4)))
bool opening_refuse(struct opening *opening, enum status status, const char *what, ...);

const char *span_text(const struct tokenizer *tokenizer, struct span span);
struct span span_add(struct tokenizer *tokenizer, const char *text, size_t count);

/* pieces.c */
bool pieces_open(struct opening *opening, const json_t *model, const json_t *added_tokens);
/* NONE_INDEX: none */
uint32_t piece_find(const struct tokenizer *tokenizer, const char *key, size_t count);
/* A spelling as bytes, when every character of it stands for one; ret_bytes has room for `count`. */
bool bytes_of_spelling(const char *spelling, size_t count, char *ret_bytes, size_t *ret_count);

/* merges.c */
bool merges_open(struct opening *opening, const json_t *model);
/* NULL: these two do not merge. */
const struct merge *merge_find(const struct tokenizer *tokenizer, uint32_t left, uint32_t right);

/* added.c */
bool added_open(struct opening *opening, const json_t *added_tokens);
struct added_match {
    const struct added *token; /* NULL: before the first */
    size_t from;  /* where the text before it begins */
    size_t start; /* with the spaces that it takes */
    size_t stop;
    size_t end;   /* without: from here the next is looked for, so it may begin with a space that was taken */
};
/* From one to the next, from all zero on; plain: as in tokenizer_encode(). False: the rest begins at match->stop. */
bool added_next(const struct tokenizer *tokenizer, const struct added_set *set, const char *text, size_t count, const uint8_t *plain,
                bool all_plain, struct added_match *match);

/* normalize.c */
bool normalize_open(struct opening *opening, const json_t *normalizer);
struct marked_text {
    struct token_text text;
    uint8_t *plain; /* NULL, or as many as text.capacity */
    size_t plain_capacity;
};
/* Replaces `text` by the normalised one; `other` is room to work in. False: it has become too long. */
#define NORMALIZED_BYTES_MAX (4 * (size_t)TOKENIZER_TEXT_BYTES_MAX)
bool normalize_text(const struct tokenizer *tokenizer, struct marked_text *text, struct marked_text *other);
void marked_text_free(struct marked_text *text);
/* Appends `text` with every `pattern` in it replaced. */
void replace_all(const char *text, size_t count, const char *pattern, size_t pattern_count, const char *content, size_t content_count,
                 struct token_text *ret_text);
/* Where it is in text[from .. count), SIZE_MAX: nowhere. */
size_t text_find(const char *text, size_t count, size_t from, const char *pattern, size_t pattern_count);

/* split.c */
bool split_open(struct opening *opening, const json_t *pre_tokenizer);
/* Cuts a text into words and calls take() with each; false: the pattern ran out of its bounds. */
typedef void word_take(void *context, const char *word, size_t count);
bool split_text(const struct tokenizer *tokenizer, pcre2_match_data *found, pcre2_match_context *bounds, const char *text,
                size_t count, bool at_start, word_take *take, void *context);

/* What both the pre-tokenizer and the decoder of this name say. */
bool metaspace_read(struct opening *opening, const json_t *from, struct span *ret_mark, enum prepend *ret_prepend);

/* pattern.c: a pattern as tokenizer.json has it (Oniguruma's syntax); NULL has been refused. */
pcre2_code *pattern_compile(struct opening *opening, const char *pattern, size_t count);

/* decode.c */
bool decode_open(struct opening *opening, const json_t *decoder);
/* Fills in piece.bytes; after everything else. */
void decode_prepare(struct tokenizer *tokenizer);

/* config.c */
bool config_open(struct opening *opening, const char *config, size_t count);

/* What a description in tokenizer.json calls itself; "" when it says nothing. */
const char *type_of(const json_t *description);
const char *opening_name(const json_t *string, char ret_excerpt[]);

/* bpe.c: one word after the other, with its working memory. */
struct bpe {
    const struct tokenizer *tokenizer;
    bool text_stays; /* control tokens do not come out of merging */
    struct bpe_symbol *symbols;
    size_t symbols_capacity;
    uint64_t *heap; /* rank << 32 | symbol */
    size_t heap_count;
    size_t heap_capacity;
};
void bpe_word(struct bpe *bpe, const char *word, size_t count, struct token_list *list);
void bpe_free(struct bpe *bpe);

#endif
