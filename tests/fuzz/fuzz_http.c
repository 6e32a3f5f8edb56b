/* Any bytes as a request's target, or as a multipart body: what comes out keeps the promises of the headers, and a body reads the same
 * whole and in pieces. The first byte chooses. Built for libFuzzer with FUZZ_HTTP defined; everywhere else this file is empty. */
#ifdef FUZZ_HTTP

#include <stdlib.h>

#include "base/hash.h"
#include "control/http/multipart.h"
#include "control/http/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool in(const struct http_target *target, const char *text)
{
    return text >= target->bytes && text + strlen(text) <= target->bytes + TARGET_BYTES_MAX && http_text_is_clean(text);
}

static void fuzz_target(const char *raw, size_t bytes)
{
    static struct http_target target;
    const char *ids[HTTP_CAPTURES_MAX];
    uint32_t count;

    if (http_target_parse(&target, raw, bytes) != NULL)
        return;
    check(bytes <= TARGET_BYTES_MAX && raw[0] == '/' && target.segments_count >= 1);
    for (uint32_t i = 0; i < target.segments_count; i++) {
        check(in(&target, target.segments[i]));
        if (http_id_is_sound(target.segments[i]))
            check(strstr(target.segments[i], "..") != target.segments[i] || target.segments[i][2] != '\0');
    }
    for (uint32_t i = 0; i < target.pairs_count; i++)
        check(in(&target, target.pairs[i].name) && in(&target, target.pairs[i].value));
    if (http_target_matches(&target, "/v1/a/{id}/b", ids, &count))
        check(count == 1 && ids[0] == target.segments[2]);
}

struct heard {
    uint64_t hash;
    int open; /* 1 within a part */
};

static bool begin(void *context, const struct http_part *part)
{
    struct heard *heard = context;

    check(heard->open == 0 && part->name[0] != '\0' && strlen(part->name) <= HTTP_PART_NAME_MAX && http_text_is_clean(part->name));
    check(part->filename == NULL || (strlen(part->filename) <= HTTP_FILENAME_MAX && http_text_is_clean(part->filename)));
    heard->hash = hash_bytes(hash_fold(heard->hash, 1), part->name, strlen(part->name));
    heard->open = 1;
    return true;
}

static bool hear(void *context, const void *data, size_t bytes)
{
    struct heard *heard = context;

    check(heard->open == 1 && bytes > 0);
    for (size_t i = 0; i < bytes; i++)
        heard->hash = hash_fold(heard->hash, ((const unsigned char *)data)[i]);
    return true;
}

static bool end(void *context)
{
    struct heard *heard = context;

    check(heard->open == 1);
    heard->open = 0;
    heard->hash = hash_fold(heard->hash, 2);
    return true;
}

static void fuzz_multipart(const char *body, size_t bytes)
{
    static const struct http_multipart_events events = {begin, hear, end};
    static struct http_multipart whole, pieces;
    struct heard whole_heard = {0}, pieces_heard = {0};

    check(http_multipart_begin(&whole, "multipart/form-data; boundary=b", &events, &whole_heard));
    check(http_multipart_begin(&pieces, "multipart/form-data; boundary=b", &events, &pieces_heard));
    (void)http_multipart_feed(&whole, body, bytes);
    for (size_t at = 0; at < bytes; at++)
        if (!http_multipart_feed(&pieces, body + at, 1))
            break;
    check(http_multipart_finish(&whole) == http_multipart_finish(&pieces));
    check(whole.wrong == pieces.wrong && whole_heard.hash == pieces_heard.hash);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy;

    if (size == 0)
        return 0;
    copy = malloc(size); /* of exactly this size, so that a step too far is seen */
    check(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    if (data[0] % 2 == 0)
        fuzz_target(copy, size - 1);
    else
        fuzz_multipart(copy, size - 1);
    free(copy);
    return 0;
}

#endif
