/* The reader against files made here by hand: each rule of the format is broken once. */
#define FUZZ_SAFETENSORS
#include "fuzz/fuzz_safetensors.c"

#include "support.h"

#include <fcntl.h>
#include <unistd.h>

#include "exec/scratch.h"

struct made {
    unsigned char bytes[4096];
    size_t count;
};

/* Length, header, `data_bytes` of 0, 1, 2 ... */
static struct made make(const char *header, size_t data_bytes)
{
    struct made made;
    size_t length = strlen(header);

    memset(&made, 0, sizeof(made));
    check(8 + length + data_bytes <= sizeof(made.bytes));
    for (size_t i = 0; i < 8; i++)
        made.bytes[i] = (unsigned char)(length >> (8 * i));
    memcpy(made.bytes + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++)
        made.bytes[8 + length + i] = (unsigned char)i;
    made.count = 8 + length + data_bytes;
    return made;
}

static void expect_refused(const struct made *made, const struct safetensors_limits *limits, const char *why)
{
    struct refusal refusal = {""};
    struct safetensors *file = NULL;

    assert_int_equal(safetensors_parse(made->bytes, (int64_t)made->count, "f.safetensors", limits, &file, &refusal),
                     STATUS_INVALID);
    assert_null(file);
    if (strstr(refusal.text, why) == NULL)
        fail_msg("expected \"%s\" in: %s", why, refusal.text);
    assert_non_null(strstr(refusal.text, "f.safetensors"));
}

static struct safetensors *expect_taken(const struct made *made, const struct safetensors_limits *limits)
{
    struct refusal refusal = {""};
    struct safetensors *file = NULL;

    if (safetensors_parse(made->bytes, (int64_t)made->count, "f.safetensors", limits, &file, &refusal) != STATUS_OK)
        fail_msg("refused: %s", refusal.text);
    return file;
}

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"

static void a_file_in_any_order_of_keys_at_any_alignment_is_read(void **state)
{
    struct made made =
        make("{\"z.w\":{\"shape\":[2],\"data_offsets\":[1,9],\"dtype\":\"F32\"},\"__metadata__\":{\"format\":\"pt\"},"
             "\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
             "\"empty\":{\"dtype\":\"I64\",\"shape\":[0,5],\"data_offsets\":[9,9]}} \n ",
             9);
    struct safetensors *file = expect_taken(&made, &safetensors_limits_base);
    const struct tensor *tensor = safetensors_find(file, "z.w");
    char text[TENSOR_SHAPE_TEXT_MAX];

    (void)state;
    assert_int_equal(safetensors_count(file), 3);
    assert_string_equal(safetensors_at(file, 0)->name, "b");
    assert_string_equal(safetensors_at(file, 2)->name, "z.w");
    assert_int_equal(((const unsigned char *)tensor->data)[0], 1);
    assert_int_equal(tensor->count, 2);
    assert_int_equal(safetensors_find(file, "b")->dims, 0);
    assert_int_equal(safetensors_find(file, "b")->bytes, 1);
    assert_int_equal(safetensors_find(file, "empty")->bytes, 0);
    assert_string_equal(tensor_shape_text(safetensors_find(file, "empty"), text), "[0, 5]");
    assert_null(safetensors_find(file, "nothing"));
    assert_string_equal(safetensors_metadata(file, "format"), "pt");
    assert_null(safetensors_metadata(file, "nothing"));
    safetensors_close(file);
}

static void every_rule_that_is_broken_is_named(void **state)
{
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *why;
    } cases[] = {
        {"", 0, "does not begin with '{'"},
        {" {" A "}", 24, "does not begin with '{'"},
        {"[]", 0, "does not begin with '{'"},
        {"{" A, 24, "not JSON"},
        {"{" A "}x", 24, "not JSON"},
        {"{" A "," A "}", 24, "duplicate"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24, "duplicate"},
        {"{\"\xff\":{}}", 0, "not JSON"},
        {"{\"a\":1}", 0, "must hold dtype, shape and data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "must hold dtype, shape and data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4, "nothing else"},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype F31"},
        {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype is missing or not a string"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4, "not an array"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "whole number"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "whole number"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "9 dimensions"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
         "larger than any memory"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
         "larger than any memory"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,0]}}", 0, "not JSON"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "not two whole numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4, "not two whole numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[\"0\",4]}}", 4, "not two whole numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "do not lie in"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "do not lie in"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, "cut or broken"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "needs 8 bytes"},
        {"{" A "}", 25, "1 bytes follow"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "leave a hole"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]}}",
         5, "hole"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, "overlap"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
         2, "overlap"},
        {"{\"../a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "parts between dots"},
        {"{\"a..b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "parts between dots"},
        {"{\"a\\u001b[1m\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "parts between dots"},
        {"{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "parts between dots"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__ holds something that is not a string"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct made made = make(cases[i].header, cases[i].data_bytes);

        expect_refused(&made, &safetensors_limits_base, cases[i].why);
    }
}

static void lengths_that_lie_are_refused(void **state)
{
    struct made made = make("{" A "}", 24);

    (void)state;
    for (size_t count = 0; count < made.count; count++) {
        struct made cut = made;
        const char *why = count < 8 ? "too few" : "f.safetensors";

        cut.count = count;
        expect_refused(&cut, &safetensors_limits_base, why);
    }
    memset(made.bytes, 0xff, 8);
    expect_refused(&made, &safetensors_limits_base, "at most 100000000");
    memset(made.bytes + 3, 0, 5);
    expect_refused(&made, &safetensors_limits_base, "does not fit");
}

static void what_a_tenant_sends_is_held_to_less(void **state)
{
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *why;
    } cases[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "not that of a matrix"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[0,0]}}", 0, "not that of a matrix"},
        {"{\"a\":{\"dtype\":\"I32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}", 4, "dtype is I32"},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[1,1],\"data_offsets\":[0,8]}}", 8, "dtype is F64"},
    };
    struct safetensors_limits few = safetensors_limits_adapter;
    struct made made = make("{" A "}", 24);

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct made bad = make(cases[i].header, cases[i].data_bytes);

        expect_refused(&bad, &safetensors_limits_adapter, cases[i].why);
        safetensors_close(expect_taken(&bad, &safetensors_limits_base));
    }
    safetensors_close(expect_taken(&made, &safetensors_limits_adapter));
    few.file_bytes_max = (int64_t)made.count - 1;
    expect_refused(&made, &few, "at most");
    few = safetensors_limits_adapter;
    few.tensors_max = 0;
    expect_refused(&made, &few, "holds 1 tensors; at most 0");
    few = safetensors_limits_adapter;
    few.name_bytes_max = 0;
    expect_refused(&made, &few, "at most 0 bytes");
    made.bytes[2] = 0x11;
    expect_refused(&made, &safetensors_limits_adapter, "at most 1048576");
}

static void only_regular_files_are_opened(void **state)
{
    struct scratch scratch;
    struct refusal refusal;
    struct safetensors *file = NULL;
    struct made made = make("{" A "}", 24);

    (void)state;
    scratch_begin(&scratch);
    scratch_write(&scratch, "a", made.bytes, made.count);
    scratch_write(&scratch, "empty", "", 0);
    assert_int_equal(symlink("a", scratch_at(&scratch, "link")), 0);
    assert_int_equal(mkfifo(scratch_at(&scratch, "pipe"), 0600), 0);
    assert_int_equal(safetensors_map(scratch_at(&scratch, "link"), &safetensors_limits_base, &file, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "symbolic link"));
    assert_int_equal(safetensors_map(scratch_at(&scratch, "pipe"), &safetensors_limits_base, &file, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "not a regular file"));
    assert_int_equal(safetensors_map(scratch.path, &safetensors_limits_base, &file, &refusal), STATUS_INVALID);
    assert_int_equal(safetensors_map(scratch_at(&scratch, "empty"), &safetensors_limits_base, &file, &refusal), STATUS_INVALID);
    assert_int_equal(safetensors_map(scratch_at(&scratch, "no"), &safetensors_limits_base, &file, &refusal), STATUS_NOT_FOUND);
    assert_int_equal(safetensors_map(scratch_at(&scratch, "a"), &safetensors_limits_base, &file, &refusal), STATUS_OK);
    assert_int_equal(safetensors_file_bytes(file), made.count);
    safetensors_close(file);
    scratch_end(&scratch);
}

static void a_private_copy_outlives_its_file(void **state)
{
    struct scratch scratch;
    struct refusal refusal;
    struct safetensors *file = NULL;
    struct made made = make("{" A "}", 24);
    int directory;

    (void)state;
    scratch_begin(&scratch);
    scratch_write(&scratch, "a", made.bytes, made.count);
    directory = open(scratch.path, O_RDONLY);
    assert_true(directory >= 0);
    assert_int_equal(safetensors_copy(directory, "a", "shown", &safetensors_limits_adapter, &file, &refusal), STATUS_OK);
    assert_int_equal(truncate(scratch_at(&scratch, "a"), 0), 0);
    assert_memory_equal(safetensors_find(file, "a")->data, made.bytes + made.count - 24, 24);
    assert_string_equal(safetensors_path(file, 0), "shown");
    safetensors_close(file);
    close(directory);
    scratch_end(&scratch);
}

static void a_digest_is_what_sha256sum_says(void **state)
{
    struct scratch scratch;
    struct refusal refusal;
    struct safetensors *file = NULL;
    uint8_t digest[DIGEST_BYTES];
    char text[DIGEST_TEXT_MAX];
    volatile sig_atomic_t stop = 1;

    (void)state;
    scratch_begin(&scratch);
    scratch_write(&scratch, "a", "\2\0\0\0\0\0\0\0{}", 10);
    assert_int_equal(safetensors_map(scratch_at(&scratch, "a"), &safetensors_limits_base, &file, &refusal), STATUS_OK);
    assert_int_equal(safetensors_digest(file, NULL, digest), STATUS_OK);
    assert_string_equal(digest_text(digest, text), "411a485216e432ece6b9af94fa32154cf79a2a56d4f81266baa50063f45092bd");
    assert_int_equal(safetensors_digest(file, &stop, digest), STATUS_END);
    safetensors_close(file);
    scratch_end(&scratch);
}

/* The fuzzer's promise for files that are right, cut, and changed in one byte or several. */
static void mutated_files_are_refused_or_whole(void **state)
{
    static const char *const headers[] = {
        "{" A "}", "{}", "{\"__metadata__\":{\"format\":\"pt\"}," A "}",
        "{\"a.b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},\"a.c\":{\"dtype\":\"F16\",\"shape\":[3,2],\"data_offsets\":[12,24]}}"};
    uint64_t seed = test_seed(0x5afe);
    uint64_t chance = seed;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (size_t i = 0; i < ARRAY_COUNT(headers); i++) {
        struct made made = make(headers[i], strcmp(headers[i], "{}") == 0 ? 0 : 24);

        LLVMFuzzerTestOneInput(made.bytes, made.count);
        for (size_t count = 0; count < made.count; count++)
            LLVMFuzzerTestOneInput(made.bytes, count);
        for (int k = 0; k < 20000; k++) {
            struct made changed = made;

            for (uint64_t n = 1 + draw_below(&chance, 3); n > 0; n--)
                changed.bytes[draw_below(&chance, made.count)] = (unsigned char)(draw_below(&chance, 2) == 0 ? draw(&chance)
                                                                 : (unsigned char)"0123456789{}[]\",:"[draw_below(&chance, 17)]);
            LLVMFuzzerTestOneInput(changed.bytes, changed.count);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_in_any_order_of_keys_at_any_alignment_is_read),
        cmocka_unit_test(every_rule_that_is_broken_is_named),
        cmocka_unit_test(lengths_that_lie_are_refused),
        cmocka_unit_test(what_a_tenant_sends_is_held_to_less),
        cmocka_unit_test(only_regular_files_are_opened),
        cmocka_unit_test(a_private_copy_outlives_its_file),
        cmocka_unit_test(a_digest_is_what_sha256sum_says),
        cmocka_unit_test(mutated_files_are_refused_or_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
