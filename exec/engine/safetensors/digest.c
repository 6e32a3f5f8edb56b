#include <openssl/evp.h>
#include <stdio.h>

#include "engine/safetensors/internal.h"

#define DIGEST_STEP (8 << 20)

const char *digest_text(const uint8_t digest[DIGEST_BYTES], char ret_text[DIGEST_TEXT_MAX])
{
    for (size_t i = 0; i < DIGEST_BYTES; i++)
        snprintf(ret_text + 2 * i, 3, "%02x", digest[i]);
    return ret_text;
}

/* Files stand in rising order of their names already. */
enum status safetensors_digest(const struct safetensors *file, const volatile sig_atomic_t *stop, uint8_t ret_digest[DIGEST_BYTES])
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    uint8_t digest[EVP_MAX_MD_SIZE];
    enum status status = STATUS_OK;

    check(context != NULL);
    check(EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1);
    for (uint32_t i = 0; i < file->files && status == STATUS_OK; i++) {
        const struct held *held = &file->file[i];

        for (int64_t at = 0; at < held->bytes && status == STATUS_OK; at += DIGEST_STEP) {
            if (stop != NULL && *stop)
                status = STATUS_END;
            check(EVP_DigestUpdate(context, (const char *)held->data + at, (size_t)min_i64(held->bytes - at, DIGEST_STEP)) == 1);
        }
    }
    check(EVP_DigestFinal_ex(context, digest, NULL) == 1);
    EVP_MD_CTX_free(context);
    if (status == STATUS_OK)
        memcpy(ret_digest, digest, DIGEST_BYTES);
    return status;
}
