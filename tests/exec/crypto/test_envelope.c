/* Objects at rest: what was sealed opens, anywhere; what was touched doesn't, with one error; and OpenSSL, from the format's
 * description alone, opens them too. */
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FUZZ_ENVELOPE
#include "fuzz/fuzz_envelope.c"
#include "rig.h"

#define CHUNK ENVELOPE_CHUNK_BYTES
#define SEALED_CHUNK (CHUNK + ENVELOPE_TAG_BYTES)

static const uint8_t key_a[KEY_BYTES] = {1, 2, 3};
static const uint8_t key_b[KEY_BYTES] = {1, 2, 4};

static void what_was_sealed_opens(void **state)
{
    static const size_t sizes[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1, 5 * CHUNK + 777};
    uint8_t *plain = random_bytes(6 * CHUNK, 1);
    uint8_t *opened = malloc(6 * CHUNK);

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct object object = object_seal(&label_a, "key-1", key_a, plain, sizes[i], i);
        uint64_t bytes = 0;

        assert_int_equal(object.count, envelope_sealed_bytes(sizes[i]));
        assert_int_equal(envelope_plain_bytes(object.count, &bytes), STATUS_OK);
        assert_int_equal(bytes, sizes[i]);
        assert_int_equal(object_open(&object, &label_a, key_a, opened), STATUS_OK);
        assert_memory_equal(opened, plain, sizes[i]);
        object_free(&object);
    }
    free(opened);
    free(plain);
}

static void any_range_opens(void **state)
{
    const size_t bytes = 5 * CHUNK + 777;
    uint8_t *plain = random_bytes(bytes, 2);
    uint8_t *opened = malloc(bytes);
    struct object object = object_seal(&label_a, "key-1", key_a, plain, bytes, 2);
    uint64_t seed = test_seed(3);
    struct opener *opener = NULL;

    (void)state;
    assert_int_equal(opener_open(&label_a, key_a, object.count, object_give, &object, &opener), STATUS_OK);
    assert_int_equal(opener_bytes(opener), bytes);
    for (int i = 0; i < 200; i++) {
        size_t from = draw_below(&seed, bytes + 1);
        size_t count = draw_below(&seed, bytes - from + 1) >> draw_below(&seed, 18);

        assert_int_equal(opener_read(opener, from, opened, count), STATUS_OK);
        assert_memory_equal(opened, plain + from, count);
    }
    opener_close(opener);
    object_free(&object);
    free(opened);
    free(plain);
}

/* What the format's description says, with another library's BLAKE2b and ChaCha20-Poly1305. */
static void openssl_derive(const uint8_t *header, const uint8_t *key, uint8_t ret_derived[64])
{
    static const uint8_t binding[] = "\6object\4acme\6file-1\11fine-tune\10\7\0\0\0\0\0\0"; /* and the '\0' of the text */
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "BLAKE2BMAC", NULL);
    EVP_MAC_CTX *context = EVP_MAC_CTX_new(mac);
    size_t size = 64;
    OSSL_PARAM params[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size), OSSL_PARAM_construct_end()};

    assert_int_equal(EVP_MAC_init(context, key, KEY_BYTES, params), 1);
    assert_int_equal(EVP_MAC_update(context, header, ENVELOPE_HEADER_BYTES - 32), 1);
    assert_int_equal(EVP_MAC_update(context, binding, sizeof(binding)), 1);
    assert_int_equal(EVP_MAC_final(context, ret_derived, &size, 64), 1);
    EVP_MAC_CTX_free(context);
    EVP_MAC_free(mac);
}

static void openssl_open_chunk(const uint8_t *key, uint8_t index, uint8_t is_last, uint8_t *sealed, int bytes, uint8_t *ret_plain)
{
    const uint8_t nonce[12] = {index, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, is_last};
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int count = 0;

    assert_int_equal(EVP_DecryptInit_ex(context, EVP_chacha20_poly1305(), NULL, key, nonce), 1);
    assert_int_equal(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, ENVELOPE_TAG_BYTES, sealed + bytes), 1);
    assert_int_equal(EVP_DecryptUpdate(context, ret_plain, &count, sealed, bytes), 1);
    assert_int_equal(count, bytes);
    assert_int_equal(EVP_DecryptFinal_ex(context, ret_plain + count, &count), 1);
    EVP_CIPHER_CTX_free(context);
}

static void openssl_opens_it(void **state)
{
    const size_t bytes = 2 * CHUNK + 100;
    uint8_t *plain = random_bytes(bytes, 4);
    uint8_t *opened = malloc(bytes + 16);
    struct object object = object_seal(&label_a, "key-1", key_a, plain, bytes, 4);
    uint8_t derived[64];

    (void)state;
    assert_memory_equal(object.bytes, "BERTHOBJ\1\0\0\0\0\0\1\0key-1\0", 22);
    openssl_derive(object.bytes, key_a, derived);
    assert_memory_equal(object.bytes + ENVELOPE_HEADER_BYTES - 32, derived + 32, 32);
    for (uint8_t i = 0; i < 3; i++)
        openssl_open_chunk(derived, i, i == 2, object.bytes + ENVELOPE_HEADER_BYTES + i * SEALED_CHUNK, i == 2 ? 100 : CHUNK,
                           opened + i * CHUNK);
    assert_memory_equal(opened, plain, bytes);
    object_free(&object);
    free(opened);
    free(plain);
}

static void a_flipped_bit_anywhere_is_refused(void **state)
{
    uint8_t plain[100] = "a small object";
    uint8_t opened[256];
    struct object object = object_seal(&label_a, "key-1", key_a, plain, sizeof(plain), 5);

    (void)state;
    for (size_t bit = 0; bit < 8 * object.count; bit++) {
        object.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (object_open(&object, &label_a, key_a, opened) != STATUS_CORRUPT)
            fail_msg("bit %zu of %zu is not noticed", bit, 8 * object.count);
        object.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(object_open(&object, &label_a, key_a, opened), STATUS_OK);
    object_free(&object);
}

/* One bit in each chunk of a large one: found when that chunk is read, and the rest can be read. */
static void a_bad_chunk_gives_nothing(void **state)
{
    const size_t bytes = 4 * CHUNK;
    uint8_t *plain = random_bytes(bytes, 6);
    struct object object = object_seal(&label_a, "key-1", key_a, plain, bytes, 6);
    uint8_t opened[64] = {0};
    const uint8_t zeros[64] = {0};

    (void)state;
    for (size_t chunk = 0; chunk + 1 < 4; chunk++) {
        uint8_t *bad = object.bytes + ENVELOPE_HEADER_BYTES + chunk * SEALED_CHUNK + SEALED_CHUNK - 1;
        struct opener *opener = NULL;

        *bad ^= 1;
        assert_int_equal(opener_open(&label_a, key_a, object.count, object_give, &object, &opener), STATUS_OK);
        memset(opened, 0, sizeof(opened));
        assert_int_equal(opener_read(opener, chunk * CHUNK + 5, opened, 50), STATUS_CORRUPT);
        assert_memory_equal(opened, zeros, sizeof(zeros));
        assert_int_equal(opener_read(opener, (chunk + 1) * CHUNK, opened, 50), STATUS_OK);
        assert_memory_equal(opened, plain + (chunk + 1) * CHUNK, 50);
        opener_close(opener);
        *bad ^= 1;
    }
    object_free(&object);
    free(plain);
}

/* At every chunk, around it, and at every byte of the first and last hundred; longer ones too. */
static void a_cut_object_is_refused(void **state)
{
    const size_t bytes = 4 * CHUNK + 10;
    uint8_t *plain = random_bytes(bytes, 7);
    uint8_t *opened = malloc(bytes + CHUNK);
    struct object object = object_seal(&label_a, "key-1", key_a, plain, bytes, 7);
    const size_t whole = object.count;

    (void)state;
    for (size_t count = 0; count < whole; count++) {
        size_t within = count < ENVELOPE_HEADER_BYTES ? 0 : (count - ENVELOPE_HEADER_BYTES) % SEALED_CHUNK;

        if (within > 40 && within < SEALED_CHUNK - 40 && count < whole - 100)
            continue;
        object.count = count;
        if (object_open(&object, &label_a, key_a, opened) != STATUS_CORRUPT)
            fail_msg("a cut after %zu of %zu bytes is not noticed", count, whole);
    }
    object.count = whole;
    for (size_t more = 1; more < 40; more++) {
        object_append(&object, "x", 1);
        assert_int_equal(object_open(&object, &label_a, key_a, opened), STATUS_CORRUPT);
    }
    object_free(&object);
    free(opened);
    free(plain);
}

static void swap_chunks(struct object *a, size_t i, struct object *b, size_t j)
{
    static uint8_t held[SEALED_CHUNK];
    uint8_t *at_a = a->bytes + ENVELOPE_HEADER_BYTES + i * SEALED_CHUNK;
    uint8_t *at_b = b->bytes + ENVELOPE_HEADER_BYTES + j * SEALED_CHUNK;

    memcpy(held, at_a, SEALED_CHUNK);
    memcpy(at_a, at_b, SEALED_CHUNK);
    memcpy(at_b, held, SEALED_CHUNK);
}

static void moved_chunks_are_refused(void **state)
{
    const size_t bytes = 4 * CHUNK;
    uint8_t *plain = random_bytes(bytes, 8);
    uint8_t *opened = malloc(bytes);
    struct object object = object_seal(&label_a, "key-1", key_a, plain, bytes, 8);
    /* The same bytes under the same key and label: only the salt differs. */
    struct object again = object_seal(&label_a, "key-1", key_a, plain, bytes, 9);

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < 4; j++) {
            if (i != j) {
                swap_chunks(&object, i, &object, j);
                assert_int_equal(object_open(&object, &label_a, key_a, opened), STATUS_CORRUPT);
                swap_chunks(&object, i, &object, j);
            }
            swap_chunks(&object, i, &again, j);
            assert_int_equal(object_open(&object, &label_a, key_a, opened), STATUS_CORRUPT);
            swap_chunks(&object, i, &again, j);
        }
    }
    assert_int_equal(object_open(&object, &label_a, key_a, opened), STATUS_OK);
    object_free(&again);
    object_free(&object);
    free(opened);
    free(plain);
}

static void another_objects_tenants_purposes_or_versions_bytes_are_refused(void **state)
{
    static const struct envelope_label others[] = {
        {"acme", "file-2", "fine-tune", 7},  {"acmf", "file-1", "fine-tune", 7}, {"acme", "file-1", "adapter", 7},
        {"acme", "file-1", "fine-tune", 6},  {"acme", "file-1", "fine-tune", 8}, {"file-1", "acme", "fine-tune", 7},
        {"acmef", "ile-1", "fine-tune", 7}};
    uint8_t plain[100] = "one of many";
    uint8_t opened[256];
    struct object object = object_seal(&label_a, "key-1", key_a, plain, sizeof(plain), 10);

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        struct object other = object_seal(&others[i], "key-1", key_a, plain, sizeof(plain), 11);

        assert_int_equal(object_open(&object, &others[i], key_a, opened), STATUS_CORRUPT);
        assert_int_equal(object_open(&other, &label_a, key_a, opened), STATUS_CORRUPT);
        assert_int_equal(object_open(&other, &others[i], key_a, opened), STATUS_OK);
        object_free(&other);
    }
    assert_int_equal(object_open(&object, &label_a, key_b, opened), STATUS_CORRUPT);
    object_free(&object);
}

static void a_header_names_its_key_and_does_not_hold_it(void **state)
{
    uint8_t plain[100] = "one of many";
    struct object object = object_seal(&label_a, "key-1", key_a, plain, sizeof(plain), 10);
    struct envelope_header header;

    (void)state;
    assert_int_equal(envelope_header_read(object.bytes, object.count, &header), STATUS_OK);
    assert_string_equal(header.key_name, "key-1");
    for (size_t i = 0; i + KEY_BYTES <= object.count; i++)
        assert_memory_not_equal(object.bytes + i, key_a, KEY_BYTES);
    for (size_t count = 0; count < ENVELOPE_HEADER_BYTES; count++)
        assert_int_equal(envelope_header_read(object.bytes, count, &header), STATUS_CORRUPT);
    object.bytes[16] = '/';
    assert_int_equal(envelope_header_read(object.bytes, object.count, &header), STATUS_CORRUPT);
    object_free(&object);
}

/* The fuzzer's own checks on objects that are nearly right. */
static void changed_bytes_never_open(void **state)
{
    uint64_t seed = test_seed(13);
    uint8_t plain[300] = "one of many";

    (void)state;
    for (int i = 0; i < 3000; i++) {
        struct object object = object_seal(&label_a, "key-1", key_a, plain, draw_below(&seed, sizeof(plain)), seed);

        for (uint64_t changes = draw_below(&seed, 4); changes > 0; changes--)
            object.bytes[draw_below(&seed, object.count)] ^= (uint8_t)(1u << draw_below(&seed, 8));
        object.count -= min_u64(object.count, draw_below(&seed, 4) == 0 ? draw_below(&seed, 400) : 0);
        LLVMFuzzerTestOneInput(object.bytes, object.count);
        object_free(&object);
    }
}

/* What a worker does with the descriptors that it is given. */
static void files_are_sealed_and_opened(void **state)
{
    const size_t bytes = 2 * CHUNK + 5;
    uint8_t *plain = random_bytes(bytes, 14);
    uint8_t *opened = malloc(bytes);
    FILE *file = tmpfile();
    int descriptor = fileno(file);
    int none = -1;
    struct sealer *sealer = NULL;
    struct opener *opener = NULL;

    (void)state;
    assert_int_equal(sealer_open(&label_a, "key-1", key_a, envelope_to_file, &descriptor, &sealer), STATUS_OK);
    assert_int_equal(sealer_put(sealer, plain, bytes), STATUS_OK);
    assert_int_equal(sealer_finish(sealer), STATUS_OK);
    sealer_close(sealer);
    assert_int_equal(lseek(descriptor, 0, SEEK_END), envelope_sealed_bytes(bytes));
    assert_int_equal(opener_open(&label_a, key_a, envelope_sealed_bytes(bytes), envelope_from_file, &descriptor, &opener), STATUS_OK);
    assert_int_equal(opener_read(opener, 0, opened, bytes), STATUS_OK);
    assert_memory_equal(opened, plain, bytes);
    assert_int_equal(ftruncate(descriptor, ENVELOPE_HEADER_BYTES + 100), 0);
    assert_int_equal(opener_read(opener, 0, opened, bytes), STATUS_CORRUPT);
    opener_close(opener);
    assert_int_equal(sealer_open(&label_a, "key-1", key_a, envelope_to_file, &none, &sealer), STATUS_IO);
    assert_int_equal(opener_open(&label_a, key_a, envelope_sealed_bytes(bytes), envelope_from_file, &none, &opener), STATUS_IO);
    fclose(file);
    free(opened);
    free(plain);
}

static enum status refuse_after(void *context, const void *bytes, size_t count)
{
    (void)bytes;
    (void)count;
    return (*(int *)context)-- > 0 ? STATUS_OK : STATUS_IO;
}

static void what_a_sink_refuses_ends_the_sealing(void **state)
{
    uint8_t *plain = random_bytes(3 * CHUNK, 12);
    struct sealer *sealer = NULL;
    int calls = 0;

    (void)state;
    assert_int_equal(sealer_open(&label_a, "key-1", key_a, refuse_after, &calls, &sealer), STATUS_IO);
    calls = 2;
    assert_int_equal(sealer_open(&label_a, "key-1", key_a, refuse_after, &calls, &sealer), STATUS_OK);
    assert_int_equal(sealer_put(sealer, plain, 3 * CHUNK), STATUS_IO);
    sealer_close(sealer);
    free(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sealed_opens),
        cmocka_unit_test(any_range_opens),
        cmocka_unit_test(openssl_opens_it),
        cmocka_unit_test(a_flipped_bit_anywhere_is_refused),
        cmocka_unit_test(a_bad_chunk_gives_nothing),
        cmocka_unit_test(a_cut_object_is_refused),
        cmocka_unit_test(moved_chunks_are_refused),
        cmocka_unit_test(another_objects_tenants_purposes_or_versions_bytes_are_refused),
        cmocka_unit_test(a_header_names_its_key_and_does_not_hold_it),
        cmocka_unit_test(files_are_sealed_and_opened),
        cmocka_unit_test(changed_bytes_never_open),
        cmocka_unit_test(what_a_sink_refuses_ends_the_sealing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
