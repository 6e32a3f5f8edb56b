/* Any bytes as a sealed object: its header is refused or is one that we write, and nothing opens without the key. Built for libFuzzer
 * with FUZZ_ENVELOPE defined; the test of objects calls the same function; everywhere else this file is empty. */
#ifdef FUZZ_ENVELOPE

#include "crypto/envelope_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzzed {
    const uint8_t *data;
    size_t size;
};

static enum status fuzzed_give(void *context, uint64_t offset, void *ret_bytes, size_t count)
{
    const struct fuzzed *fuzzed = context;

    check(offset <= fuzzed->size);
    check(count <= fuzzed->size - offset);
    memcpy(ret_bytes, fuzzed->data + offset, count);
    return STATUS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct envelope_label label = {.tenant = "t", .object = "o", .purpose = "p"};
    static const uint8_t key[KEY_BYTES] = {9};
    struct fuzzed fuzzed = {data, size};
    struct envelope_header header;
    uint8_t written[ENVELOPE_HEADER_BYTES];
    struct opener *opener = NULL;
    uint64_t plain_bytes = 0;

    if (envelope_header_read(data, size, &header) == STATUS_OK) {
        check(name_is_valid(header.key_name));
        envelope_header_write(&header, written);
        check(memcmp(written, data, sizeof(written)) == 0);
    }
    if (envelope_plain_bytes(size, &plain_bytes) == STATUS_OK)
        check(envelope_sealed_bytes(plain_bytes) == size);
    check(opener_open(&label, key, size, fuzzed_give, &fuzzed, &opener) == STATUS_CORRUPT);
    check(opener == NULL);
    return 0;
}

#endif
