/* Keys of KV blocks: nobody's key is another's, however names and tokens are chosen. */
#include "engine/serve/kv_key.h"
#include "support.h"

static const uint8_t one[32] = {1};
static const uint8_t two[32] = {2};

static void the_first_link_is_what_it_says(void **context)
{
    /* printf 'berth kv 1\n\0\0\0\0\7\0\0\0\0\0\0\0' | sha256sum */
    static const uint8_t want[KV_KEY_BYTES] = {
        0xa4, 0x60, 0x8c, 0x24, 0x93, 0x6d, 0x5b, 0x4a, 0x89, 0x26, 0x7f, 0x3c, 0x0b, 0xa6, 0x75, 0x26, 
        0xfe, 0x27, 0xe1, 0xf4, 0x02, 0xdb, 0x8c, 0x82, 0x19, 0x52, 0xd6, 0xb4, 0x6c, 0x3b, 0x49, 0x95};
    struct kv_key key = kv_key_begin(7, NULL);

    (void)context;
    assert_memory_equal(key.bytes, want, sizeof(want));
}

static void tenant_adapter_and_tokens_all_count(void **context)
{
    const int32_t tokens[] = {5, 6, 7, 8};
    const int32_t other[] = {5, 6, 7, 9};
    struct kv_key keys[8];
    uint32_t count = 0;
    struct kv_key begin = kv_key_begin(1, one);
    struct kv_key first;

    (void)context;
    keys[count++] = begin;
    keys[count++] = kv_key_begin(2, one);
    keys[count++] = kv_key_begin(1, two);
    keys[count++] = kv_key_begin(1, NULL);
    first = kv_key_next(&begin, tokens, 2);
    keys[count++] = kv_key_next(&begin, tokens, 4);
    keys[count++] = kv_key_next(&first, tokens + 2, 2); /* the same tokens in other blocks are other keys */
    keys[count++] = kv_key_next(&begin, other, 4);
    keys[count++] = first;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_memory_not_equal(keys[i].bytes, keys[j].bytes, KV_KEY_BYTES);
    begin = kv_key_begin(1, one);
    assert_memory_equal(begin.bytes, keys[0].bytes, KV_KEY_BYTES);
    first = kv_key_next(&begin, tokens, 4);
    assert_memory_equal(first.bytes, keys[4].bytes, KV_KEY_BYTES);
}

/* A digest of zeros is not "no adapter", and a digest that spells a tenant's bytes is not that tenant. */
static void crafted_parts_do_not_collide(void **context)
{
    static const uint8_t zeros[32];
    uint8_t spelled[32] = {0, 0, 0, 0, 7};
    struct kv_key a = kv_key_begin(0, zeros);
    struct kv_key b = kv_key_begin(0, NULL);
    struct kv_key c = kv_key_begin(7, zeros);
    struct kv_key d = kv_key_begin(0, spelled);

    (void)context;
    assert_memory_not_equal(a.bytes, b.bytes, KV_KEY_BYTES);
    assert_memory_not_equal(c.bytes, d.bytes, KV_KEY_BYTES);
    assert_memory_not_equal(a.bytes, c.bytes, KV_KEY_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_link_is_what_it_says),
        cmocka_unit_test(tenant_adapter_and_tokens_all_count),
        cmocka_unit_test(crafted_parts_do_not_collide),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
