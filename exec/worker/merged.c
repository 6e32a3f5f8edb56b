#include "worker/merged.h"

#include <fcntl.h>
#include <stdio.h>

#include "engine/files/file.h"

enum status merged_write(const char *directory, const uint8_t digest[DIGEST_BYTES], struct refusal *refusal)
{
    char path[4096 + 32];
    char text[DIGEST_TEXT_MAX];
    char json[128];
    int bytes = snprintf(json, sizeof(json), "{\"adapter_digest\": \"%s\"}\n", digest_text(digest, text));

    snprintf(path, sizeof(path), "%s/%s", directory, MERGED_FILE);
    return file_write(path, json, (size_t)bytes, refusal);
}

static int nibble(char digit)
{
    return digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static bool take_digest(const json_t *value, uint8_t ret_digest[DIGEST_BYTES])
{
    const char *text = json_string_value(value);

    if (text == NULL || json_string_length(value) != 2 * DIGEST_BYTES)
        return false;
    for (int i = 0; i < DIGEST_BYTES; i++) {
        int high = nibble(text[2 * i]);
        int low = nibble(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        ret_digest[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

enum status merged_read(const char *directory, uint8_t ret_digest[DIGEST_BYTES], struct refusal *refusal)
{
    char path[4096 + 32];
    json_t *object = NULL;
    enum status status;
    bool fine;

    snprintf(path, sizeof(path), "%s/%s", directory, MERGED_FILE);
    status = file_read_json(AT_FDCWD, path, path, 4096, &object, refusal);
    if (status != STATUS_OK)
        return status;
    fine = take_digest(json_object_get(object, "adapter_digest"), ret_digest);
    json_decref(object);
    return fine ? STATUS_OK : refuse(refusal, STATUS_INVALID, "%s: adapter_digest: 64 hexadecimal digits", path);
}
