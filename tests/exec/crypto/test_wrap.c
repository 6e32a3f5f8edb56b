/* Wrapping: a vector from the draft that defines XChaCha20-Poly1305, and what must not open. */
#include <stdlib.h>

#include "crypto/wrap.h"
#include "support.h"

/* draft-irtf-cfrg-xchacha-03, appendix A.3.1. */
static void the_drafts_vector(void **state)
{
    static const char text[] = "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
                               "sunscreen would be it.";
    static const uint8_t sealed[] = {
        0xbd, 0x6d, 0x17, 0x9d, 0x3e, 0x83, 0xd4, 0x3b, 0x95, 0x76, 0x57, 0x94, 0x93, 0xc0, 0xe9, 0x39, 0x57, 0x2a, 0x17,
        0x00, 0x25, 0x2b, 0xfa, 0xcc, 0xbe, 0xd2, 0x90, 0x2c, 0x21, 0x39, 0x6c, 0xbb, 0x73, 0x1c, 0x7f, 0x1b, 0x0b, 0x4a,
        0xa6, 0x44, 0x0b, 0xf3, 0xa8, 0x2f, 0x4e, 0xda, 0x7e, 0x39, 0xae, 0x64, 0xc6, 0x70, 0x8c, 0x54, 0xc2, 0x16, 0xcb,
        0x96, 0xb7, 0x2e, 0x12, 0x13, 0xb4, 0x52, 0x2f, 0x8c, 0x9b, 0xa4, 0x0d, 0xb5, 0xd9, 0x45, 0xb1, 0x1b, 0x69, 0xb9,
        0x82, 0xc1, 0xbb, 0x9e, 0x3f, 0x3f, 0xac, 0x2b, 0xc3, 0x69, 0x48, 0x8f, 0x76, 0xb2, 0x38, 0x35, 0x65, 0xd3, 0xff,
        0xf9, 0x21, 0xf9, 0x66, 0x4c, 0x97, 0x63, 0x7d, 0xa9, 0x76, 0x88, 0x12, 0xf6, 0x15, 0xc6, 0x8b, 0x13, 0xb5, 0x2e,
        0xc0, 0x87, 0x59, 0x24, 0xc1, 0xc7, 0x98, 0x79, 0x47, 0xde, 0xaf, 0xd8, 0x78, 0x0a, 0xcf, 0x49};
    const struct binding binding = {
        .bytes = {0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7}, .count = 12};
    uint8_t key[KEY_BYTES];
    uint8_t nonce[WRAP_NONCE_BYTES];
    uint8_t wrapped[sizeof(text) - 1 + WRAP_EXTRA_BYTES];
    char opened[sizeof(text)] = "";

    (void)state;
    for (uint8_t i = 0; i < KEY_BYTES; i++)
        key[i] = (uint8_t)(0x80 + i);
    for (uint8_t i = 0; i < WRAP_NONCE_BYTES; i++)
        nonce[i] = (uint8_t)(0x40 + i);
    wrap_with_nonce(key, nonce, &binding, text, sizeof(text) - 1, wrapped);
    assert_memory_equal(wrapped, nonce, WRAP_NONCE_BYTES);
    assert_int_equal(sizeof(sealed), sizeof(wrapped) - WRAP_NONCE_BYTES);
    assert_memory_equal(wrapped + WRAP_NONCE_BYTES, sealed, sizeof(sealed));
    assert_int_equal(unwrap(key, &binding, wrapped, sizeof(wrapped), opened), STATUS_OK);
    assert_string_equal(opened, text);
}

static void a_touched_key_does_not_open(void **state)
{
    const uint8_t key[KEY_BYTES] = {1};
    const uint8_t inner[KEY_BYTES] = {2};
    uint8_t wrapped[WRAPPED_KEY_BYTES];
    uint8_t opened[KEY_BYTES];
    struct binding binding;

    (void)state;
    binding_begin(&binding, "dek");
    binding_add(&binding, "acme");
    wrap(key, &binding, inner, sizeof(inner), wrapped);
    for (size_t bit = 0; bit < 8 * sizeof(wrapped); bit++) {
        wrapped[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(unwrap(key, &binding, wrapped, sizeof(wrapped), opened), STATUS_CORRUPT);
        wrapped[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t count = 0; count < sizeof(wrapped); count++)
        assert_int_equal(unwrap(key, &binding, wrapped, count, opened), STATUS_CORRUPT);
    assert_int_equal(unwrap(key, &binding, wrapped, sizeof(wrapped), opened), STATUS_OK);
    assert_memory_equal(opened, inner, sizeof(inner));
    binding_add(&binding, "x");
    assert_int_equal(unwrap(key, &binding, wrapped, sizeof(wrapped), opened), STATUS_CORRUPT);
}

static void equal_keys_are_wrapped_differently_each_time(void **state)
{
    const uint8_t key[KEY_BYTES] = {1};
    uint8_t once[WRAPPED_KEY_BYTES];
    uint8_t again[WRAPPED_KEY_BYTES];
    struct binding binding;

    (void)state;
    binding_begin(&binding, "dek");
    wrap(key, &binding, key, sizeof(key), once);
    wrap(key, &binding, key, sizeof(key), again);
    assert_memory_not_equal(once, again, WRAP_NONCE_BYTES);
    assert_memory_not_equal(once + WRAP_NONCE_BYTES, again + WRAP_NONCE_BYTES, KEY_BYTES);
}

static void bindings_tell_where_a_name_ends(void **state)
{
    struct binding a;
    struct binding b;

    (void)state;
    binding_begin(&a, "dek");
    binding_add(&a, "ab");
    binding_add(&a, "c");
    binding_begin(&b, "dek");
    binding_add(&b, "a");
    binding_add(&b, "bc");
    assert_int_equal(a.count, b.count);
    assert_memory_not_equal(a.bytes, b.bytes, a.count);
}

static void names_are_no_paths(void **state)
{
    char long_name[NAME_BYTES + 1];

    (void)state;
    assert_true(name_is_valid("file-abc_DEF-019"));
    assert_false(name_is_valid(""));
    assert_false(name_is_valid("."));
    assert_false(name_is_valid(".."));
    assert_false(name_is_valid("a/b"));
    assert_false(name_is_valid("a b"));
    assert_false(name_is_valid("a\n"));
    assert_false(name_is_valid("\xc3\xa9"));
    memset(long_name, 'a', sizeof(long_name));
    long_name[NAME_BYTES] = '\0';
    assert_false(name_is_valid(long_name));
    long_name[NAME_BYTES - 1] = '\0';
    assert_true(name_is_valid(long_name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_drafts_vector),
        cmocka_unit_test(a_touched_key_does_not_open),
        cmocka_unit_test(equal_keys_are_wrapped_differently_each_time),
        cmocka_unit_test(bindings_tell_where_a_name_ends),
        cmocka_unit_test(names_are_no_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
