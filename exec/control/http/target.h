/* What a request line names: path segments and query pairs, decoded once and held to what our ids and parameters may be. Pure: bytes of
 * strangers in, views out. */
#ifndef CONTROL_HTTP_TARGET_H
#define CONTROL_HTTP_TARGET_H

#include "control/http/http.h"

#define TARGET_BYTES_MAX 4096
#define TARGET_SEGMENTS_MAX 12
#define TARGET_PAIRS_MAX 32

struct http_pair {
    const char *name;
    const char *value;
};

struct http_target {
    char bytes[TARGET_BYTES_MAX + 1]; /* all below point in here */
    uint32_t segments_count;
    const char *segments[TARGET_SEGMENTS_MAX]; /* decoded */
    uint32_t pairs_count;
    struct http_pair pairs[TARGET_PAIRS_MAX];
};

/* "/a/b%2Fc?d=e": what stands after the method. NULL: all is well; else what is wrong with it, for the client; it quotes nothing. */
const char *http_target_parse(struct http_target *target, const char *raw, size_t bytes);

/* Whether the target's path is the pattern's; ret_ids[i] are its captures. */
bool http_target_matches(const struct http_target *target, const char *pattern, const char *ret_ids[HTTP_CAPTURES_MAX],
                         uint32_t *ret_count);

/* http_id()'s promise. */
bool http_id_is_sound(const char *id);

/* UTF-8 without control characters. */
bool http_text_is_clean(const char *text);

/* Percent-decoding in place; `plus`: '+' is a space. False: a broken escape, a control character, or no UTF-8. */
bool http_decode(char *text, bool plus);

#endif
