#include "control/api/repeat.h"

#include <stdio.h>

/* How long a key of a retry is known, and how long a body: the official clients try again within seconds. */
#define KEY_MS (INT64_C(24) * 3600 * 1000)
#define BODY_MS (INT64_C(120) * 1000)

void repeat_identify(const struct api *api, struct repeat *repeat)
{
    const char *key = repeat->retry.key;
    crypto_generichash_state known;
    uint8_t digest[24];
    char text[2 * sizeof(digest) + 1];

    crypto_generichash_init(&known, api->once_key, sizeof(api->once_key), sizeof(digest));
    if (key != NULL)
        crypto_generichash_update(&known, (const uint8_t *)key, strlen(key));
    else
        crypto_generichash_update(&known, repeat->body, sizeof(repeat->body));
    crypto_generichash_final(&known, digest, sizeof(digest));
    sodium_bin2hex(text, sizeof(text), digest, sizeof(digest));
    snprintf(repeat->once, sizeof(repeat->once), "%s-%s", key != NULL ? "key" : "body", text);
}

void repeat_identify_body(const struct api *api, const struct http_request *request, const char *path, struct repeat *repeat)
{
    crypto_generichash_state hash;

    crypto_generichash_init(&hash, api->once_key, sizeof(api->once_key), META_DIGEST_BYTES);
    crypto_generichash_update(&hash, (const uint8_t *)path, strlen(path) + 1);
    crypto_generichash_update(&hash, http_body(request), http_body_bytes(request));
    crypto_generichash_final(&hash, repeat->body, sizeof(repeat->body));
    repeat_identify(api, repeat);
}

/* A body alone is no promise: it counts only when the client says that it tries again. */
enum status repeat_look(struct metadata *metadata, const struct repeat *repeat, const char *tenant, const char *id, int64_t now_ms, bool *ret_again,
                        char ret_before[NAME_BYTES], struct refusal *refusal)
{
    const bool by_key = repeat->retry.key != NULL;
    bool again = false;
    const enum status status = meta_once(metadata, tenant, repeat->once, repeat->body, id, now_ms + (by_key ? KEY_MS : BODY_MS), now_ms, &again,
                                         ret_before, refusal);

    *ret_again = again && (by_key || repeat->retry.count > 0);
    return status;
}
