/* Journals: what a core saw, on disk. A file is one header (which core, its configuration as words) and then records of
 * one size: the event, the digest after its step, a digest of all commands of that step (RUN included), a checksum. Each
 * checksum is chained to the one before, so a record removed, reordered or changed is noticed. Everything is plain values
 * of fixed size in the machine's (little-endian) order. This file only makes and checks bytes; the host moves them. */
#ifndef JOURNAL_JOURNAL_H
#define JOURNAL_JOURNAL_H

#include "base/base.h"

#define JOURNAL_VERSION 1u
#define JOURNAL_WORDS_MAX 120
#define JOURNAL_EVENT_BYTES_MAX 96

enum journal_core { JOURNAL_FLEET = 1, JOURNAL_REPLICA = 2, JOURNAL_NODE = 3 };

struct journal_header {
    char magic[8];        /* "BERTHJNL" */
    uint32_t version;
    uint32_t core;        /* enum journal_core */
    uint32_t core_index;
    uint32_t event_bytes;
    uint64_t words[JOURNAL_WORDS_MAX]; /* the core's configuration, see <noun>/pack.h */
    uint64_t checksum;
};
_Static_assert(sizeof(struct journal_header) == 24 + 8 * JOURNAL_WORDS_MAX + 8, "a header has no padding");

/* Follows the event's bytes. */
struct journal_tail {
    uint64_t digest;
    uint64_t commands_digest;
    uint64_t checksum;
};

void journal_header_init(struct journal_header *header, enum journal_core core, uint32_t core_index, uint32_t event_bytes);
/* After the words are filled. */
void journal_header_seal(struct journal_header *header);
/* False: not a journal of this version, or damaged. */
bool journal_header_check(const struct journal_header *header);

/* `chain` begins as the header's checksum. */
void journal_seal(uint64_t *chain, const void *event, size_t event_bytes, uint64_t digest, uint64_t commands_digest,
                  struct journal_tail *ret_tail);
/* False: damaged. */
bool journal_check(uint64_t *chain, const void *event, size_t event_bytes, const struct journal_tail *tail);

/* Words of a configuration, one after the other. */
struct journal_words {
    uint64_t *words;
    uint32_t count;
};
void journal_put(struct journal_words *words, uint64_t value);
uint64_t journal_take(struct journal_words *words);
/* Names of policies: 32 bytes, zero padded, so at most 31 letters. */
#define JOURNAL_NAME_BYTES 32
void journal_put_name(struct journal_words *words, const char *name);
void journal_take_name(struct journal_words *words, char ret_name[JOURNAL_NAME_BYTES]);

#endif
