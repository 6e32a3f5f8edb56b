#include "base/hash.h"

uint64_t hash_bytes(uint64_t digest, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    uint64_t word;

    digest = hash_fold(digest, count);
    for (size_t left = count; left > 0;) {
        size_t take = left < sizeof(word) ? left : sizeof(word);

        word = 0;
        memcpy(&word, at, take);
        digest = hash_fold(digest, word);
        at += take;
        left -= take;
    }
    return hash_mix(digest);
}
