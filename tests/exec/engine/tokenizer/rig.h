/* Tiny tokenizers, made as the text of a tokenizer.json. */
#ifndef TESTS_TOKENIZER_RIG_H
#define TESTS_TOKENIZER_RIG_H

#include "engine/tokenizer/tokenizer.h"

struct rig {
    bool byte_level;        /* ids 0 .. 255 are the bytes; else <unk> <s> </s>, <0x00> .. <0xFF>, then the characters */
    bool no_bytes;          /* not byte-level: without <0xNN> */
    const char *characters; /* of a vocabulary that is not byte-level, in UTF-8, one token each */
    const char *merges;     /* "h e|l l|he ll", in the file's spelling; each makes a token, with the next id */
    const char *words;      /* "one|two": more tokens, with the next ids */
    /* As in the file; NULL: null. */
    const char *normalizer;
    const char *pre_tokenizer; /* byte_level and NULL: ByteLevel with GPT-2's pattern */
    const char *post_processor;
    const char *decoder;    /* byte_level and NULL: ByteLevel */
    const char *added;      /* a list; "ID" in it becomes the next id, whichever that is, one after the other */
    const char *model;      /* ", \"ignore_merges\": true": more of the model */
};

char *rig_json(const struct rig *rig); /* to free */
struct tokenizer *rig_open(const struct rig *rig);
/* "1 2 3" */
const char *rig_ids(const struct token_list *list);
/* Encodes, and fails the test if that fails. */
struct token_list rig_encode(const struct tokenizer *tokenizer, const char *text, size_t count, const uint8_t *plain, unsigned flags);
/* The spellings of a text's ids with '|' between. */
const char *rig_pieces(const struct tokenizer *tokenizer, const char *text, unsigned flags);

#endif
