#include "journal/journal.h"

#include "base/hash.h"

static const char magic[8] = {'B', 'E', 'R', 'T', 'H', 'J', 'N', 'L'};

void journal_header_init(struct journal_header *header, enum journal_core core, uint32_t core_index, uint32_t event_bytes)
{
    check(event_bytes <= JOURNAL_EVENT_BYTES_MAX);
    memset(header, 0, sizeof(*header));
    memcpy(header->magic, magic, sizeof(magic));
    header->version = JOURNAL_VERSION;
    header->core = core;
    header->core_index = core_index;
    header->event_bytes = event_bytes;
}

static uint64_t header_checksum(const struct journal_header *header)
{
    return hash_bytes(0, header, offsetof(struct journal_header, checksum));
}

void journal_header_seal(struct journal_header *header)
{
    header->checksum = header_checksum(header);
}

bool journal_header_check(const struct journal_header *header)
{
    return memcmp(header->magic, magic, sizeof(magic)) == 0 && header->version == JOURNAL_VERSION &&
           header->event_bytes <= JOURNAL_EVENT_BYTES_MAX && header->checksum == header_checksum(header);
}

static uint64_t link_checksum(uint64_t chain, const void *event, size_t event_bytes, uint64_t digest, uint64_t commands_digest)
{
    return hash_fold(hash_fold(hash_bytes(chain, event, event_bytes), digest), commands_digest);
}

void journal_seal(uint64_t *chain, const void *event, size_t event_bytes, uint64_t digest, uint64_t commands_digest,
                  struct journal_tail *ret_tail)
{
    *chain = link_checksum(*chain, event, event_bytes, digest, commands_digest);
    *ret_tail = (struct journal_tail){digest, commands_digest, *chain};
}

bool journal_check(uint64_t *chain, const void *event, size_t event_bytes, const struct journal_tail *tail)
{
    *chain = link_checksum(*chain, event, event_bytes, tail->digest, tail->commands_digest);
    return *chain == tail->checksum;
}

void journal_put(struct journal_words *words, uint64_t value)
{
    check(words->count < JOURNAL_WORDS_MAX);
    words->words[words->count++] = value;
}

uint64_t journal_take(struct journal_words *words)
{
    check(words->count < JOURNAL_WORDS_MAX);
    return words->words[words->count++];
}

void journal_put_name(struct journal_words *words, const char *name)
{
    char padded[JOURNAL_NAME_BYTES] = {0};
    uint64_t word;

    check(strlen(name) < sizeof(padded));
    memcpy(padded, name, strlen(name));
    for (size_t i = 0; i < sizeof(padded); i += sizeof(word)) {
        memcpy(&word, padded + i, sizeof(word));
        journal_put(words, word);
    }
}

void journal_take_name(struct journal_words *words, char ret_name[JOURNAL_NAME_BYTES])
{
    uint64_t word;

    for (size_t i = 0; i < JOURNAL_NAME_BYTES; i += sizeof(word)) {
        word = journal_take(words);
        memcpy(ret_name + i, &word, sizeof(word));
    }
    ret_name[JOURNAL_NAME_BYTES - 1] = 0;
}
