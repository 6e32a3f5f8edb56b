/* A tokenizer.json for models that were never trained on text: byte-level BPE whose tokens are <unk>, <s>, </s>, the
 * 256 bytes, and pairs of bytes up to the vocabulary's size, frequent letters first. Any text goes in and comes out
 * again. */
#ifndef MODEL_BYTE_TOKENIZER_H
#define MODEL_BYTE_TOKENIZER_H

#include "base/base.h"

#define BYTE_TOKENIZER_IDS_MIN 259
#define BYTE_TOKENIZER_IDS_MAX (BYTE_TOKENIZER_IDS_MIN + 65536)

/* Of min(vocabulary, BYTE_TOKENIZER_IDS_MAX) ids, vocabulary >= BYTE_TOKENIZER_IDS_MIN; free() it. */
char *byte_tokenizer_text(int32_t vocabulary);

#endif
