/* Requests that make something and come twice: a client that heard no answer tries again. By its Idempotency-Key, or by the body's hash
 * where the client says that it tries again, the second one gets what the first made. */
#ifndef API_REPEAT_H
#define API_REPEAT_H

#include "control/api/internal.h"
#include "control/metadata/once.h"

struct repeat {
    struct http_retry retry;
    uint8_t body[META_DIGEST_BYTES]; /* a keyed hash of all that makes two requests the same */
    char once[NAME_BYTES];
};
/* After retry and body. */
void repeat_identify(const struct api *api, struct repeat *repeat);
/* The same of a request whose whole body was kept, on this path; after retry. */
void repeat_identify_body(const struct api *api, const struct http_request *request, const char *path, struct repeat *repeat);
/* Inside the transaction that makes `id`, before it: whether it was made before, and then `ret_before`. */
enum status repeat_look(struct metadata *metadata, const struct repeat *repeat, const char *tenant, const char *id, int64_t now_ms, bool *ret_again,
                        char ret_before[NAME_BYTES], struct refusal *refusal);

#endif
