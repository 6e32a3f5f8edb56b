/* What is written is read again; what is not finished leaves nothing; shards and their index agree or are refused. */
#include "support.h"

#include <dirent.h>
#include <unistd.h>

#include "engine/safetensors/safetensors.h"
#include "exec/scratch.h"

static int entries_of(const char *path)
{
    DIR *directory = opendir(path);
    int count = -2;

    assert_non_null(directory);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static bool fill_with_places(void *context, const struct tensor *tensor, int64_t offset, void *ret_data, size_t bytes)
{
    int *calls_left = context;
    unsigned char *data = ret_data;

    if (--*calls_left < 0)
        return false;
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)((uint64_t)offset + i + strlen(tensor->name));
    return true;
}

static void what_is_written_is_read_again(void **state)
{
    static const float numbers[] = {1, 2, 3};
    const struct tensor tensors[] = {
        {.name = "z.big", .type = TENSOR_BF16, .dims = 2, .shape = {1000, 1537}},
        {.name = "a.odd", .type = TENSOR_U8, .dims = 1, .shape = {3}},
        {.name = "m", .data = numbers, .type = TENSOR_F32, .dims = 2, .shape = {3, 1}},
        {.name = "scalar", .data = numbers, .type = TENSOR_F32},
    };
    struct scratch scratch;
    struct refusal refusal = {""};
    struct safetensors *file = NULL;
    const struct tensor *big;
    int calls = 100;
    bool equal = true;

    (void)state;
    scratch_begin(&scratch);
    scratch_text(&scratch, "w.safetensors", "what was there before");
    assert_int_equal(
        safetensors_write(scratch_at(&scratch, "w.safetensors"), tensors, 4, fill_with_places, &calls, &refusal),
        STATUS_OK);
    assert_int_equal(entries_of(scratch.path), 1);
    assert_int_equal(safetensors_map(scratch_at(&scratch, "w.safetensors"), &safetensors_limits_base, &file, &refusal), STATUS_OK);
    assert_int_equal(safetensors_count(file), 4);
    assert_memory_equal(safetensors_find(file, "m")->data, numbers, sizeof(numbers));
    assert_int_equal(safetensors_find(file, "scalar")->dims, 0);
    assert_memory_equal(safetensors_find(file, "a.odd")->data, "\5\6\7", 3);
    assert_string_equal(safetensors_metadata(file, "format"), "pt");
    big = safetensors_find(file, "z.big");
    assert_int_equal(big->bytes, 1000 * 1537 * 2);
    for (int64_t i = 0; i < big->bytes; i++)
        equal &= ((const unsigned char *)big->data)[i] == (unsigned char)(i + 5);
    assert_true(equal);
    /* The data begin at a multiple of 8. */
    assert_int_equal((uintptr_t)safetensors_at(file, 0)->data % 8, 0);
    safetensors_close(file);
    scratch_end(&scratch);
}

static void what_is_not_finished_leaves_nothing(void **state)
{
    const struct tensor tensor = {.name = "big", .type = TENSOR_F32, .dims = 1, .shape = {1 << 20}};
    const struct tensor twice[] = {tensor, tensor};
    const struct tensor bad = {.name = "a/b", .type = TENSOR_F32, .dims = 0};
    struct scratch scratch;
    struct refusal refusal = {""};
    int calls = 2;

    (void)state;
    scratch_begin(&scratch);
    assert_int_equal(safetensors_write(scratch_at(&scratch, "w"), &tensor, 1, fill_with_places, &calls, &refusal), STATUS_END);
    assert_int_equal(safetensors_write(scratch_at(&scratch, "w"), twice, 2, fill_with_places, &calls, &refusal), STATUS_INVALID);
    assert_int_equal(safetensors_write(scratch_at(&scratch, "w"), &bad, 1, fill_with_places, &calls, &refusal), STATUS_INVALID);
    assert_int_equal(safetensors_write(scratch_at(&scratch, "no/w"), &tensor, 1, fill_with_places, &calls, &refusal), STATUS_IO);
    assert_int_equal(entries_of(scratch.path), 0);
    scratch_end(&scratch);
}

static void a_folder_is_there_whole_or_not(void **state)
{
    struct scratch scratch;
    struct refusal refusal;
    struct folder folder;

    (void)state;
    scratch_begin(&scratch);
    assert_int_equal(folder_begin(&folder, scratch_at(&scratch, "new/"), &refusal), STATUS_OK);
    assert_int_equal(access(scratch_at(&scratch, "new"), F_OK), -1);
    folder_abandon(&folder);
    assert_int_equal(entries_of(scratch.path), 0);
    assert_int_equal(folder_begin(&folder, scratch_at(&scratch, "new"), &refusal), STATUS_OK);
    assert_int_equal(mkdir(strcat(strcpy(scratch.at[0], folder.temporary), "/inner"), 0755), 0);
    assert_int_equal(folder_commit(&folder, &refusal), STATUS_OK);
    folder_abandon(&folder);
    assert_int_equal(access(scratch_at(&scratch, "new/inner"), F_OK), 0);
    assert_int_equal(folder_begin(&folder, scratch_at(&scratch, "new"), &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "not overwritten"));
    assert_int_equal(folder_begin(&folder, scratch_at(&scratch, "new/inner"), &refusal), STATUS_OK);
    assert_int_equal(folder_commit(&folder, &refusal), STATUS_OK);
    assert_int_equal(folder_begin(&folder, scratch_at(&scratch, "no/such/parent"), &refusal), STATUS_IO);
    scratch_text(&scratch, "file", "x");
    assert_int_equal(folder_begin(&folder, scratch_at(&scratch, "file"), &refusal), STATUS_INVALID);
    assert_int_equal(folder_begin(&folder, "", &refusal), STATUS_INVALID);
    scratch_end(&scratch);
}

/* --- shards --- */

static void write_shard(struct scratch *scratch, const char *name, const char *first, const char *second)
{
    static const float numbers[] = {1, 2, 3, 4};
    const struct tensor tensors[] = {{.name = first, .data = numbers, .type = TENSOR_F32, .dims = 1, .shape = {4}},
                                     {.name = second, .data = numbers, .type = TENSOR_F32, .dims = 1, .shape = {2}}};
    struct refusal refusal;

    assert_int_equal(safetensors_write(scratch_at(scratch, name), tensors, 2, NULL, NULL, &refusal), STATUS_OK);
}

static void shards_are_one_model(void **state)
{
    struct scratch scratch;
    struct refusal refusal = {""};
    struct safetensors *file = NULL;

    (void)state;
    scratch_begin(&scratch);
    write_shard(&scratch, "s-2.safetensors", "a", "d");
    write_shard(&scratch, "s-1.safetensors", "b", "c");
    scratch_text(&scratch, "model.safetensors.index.json",
                 "{\"metadata\": {\"total_size\": 48}, \"weight_map\": {\"a\": \"s-2.safetensors\", \"b\": \"s-1.safetensors\","
                 "\"c\": \"s-1.safetensors\", \"d\": \"s-2.safetensors\"}}");
    if (safetensors_map_model(scratch.path, &file, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    assert_int_equal(safetensors_count(file), 4);
    assert_int_equal(safetensors_files(file), 2);
    assert_string_equal(safetensors_at(file, 0)->name, "a");
    assert_non_null(strstr(safetensors_path(file, safetensors_find(file, "a")->file), "s-2"));
    assert_non_null(strstr(safetensors_path(file, safetensors_find(file, "b")->file), "s-1"));
    assert_memory_equal(safetensors_find(file, "d")->data, "\0\0\x80\x3f", 4);
    safetensors_close(file);
    scratch_end(&scratch);
}

static void an_index_that_lies_is_refused(void **state)
{
    static const struct {
        const char *index;
        const char *why;
    } cases[] = {
        {"{", "not JSON"},
        {"[]", "not a JSON object"},
        {"{\"weight_map\": {}}", "has no weight_map"},
        {"{\"weight_map\": 1}", "has no weight_map"},
        {"{\"weight_map\": {\"a\": \"s-1.safetensors\", \"a\": \"s-2.safetensors\"}}", "duplicate"},
        {"{\"weight_map\": {\"a\": \"../s-1.safetensors\"}}", "not the name of a .safetensors file in this folder"},
        {"{\"weight_map\": {\"a\": \"/etc/s.safetensors\"}}", "not the name of"},
        {"{\"weight_map\": {\"a\": \"s.bin\"}}", "not the name of"},
        {"{\"weight_map\": {\"a\": \".safetensors\"}}", "not the name of"},
        {"{\"weight_map\": {\"a\": 4}}", "not the name of"},
        {"{\"weight_map\": {\"a\": \"s-3.safetensors\"}}", "no such file"},
        {"{\"weight_map\": {\"a\": \"s-1.safetensors\"}}", "holds tensor b, which"},
        {"{\"weight_map\": {\"a\": \"s-1.safetensors\", \"b\": \"s-2.safetensors\", \"c\": \"s-2.safetensors\"}}",
         "places in s-2"},
        {"{\"weight_map\": {\"a\": \"s-1.safetensors\", \"b\": \"s-1.safetensors\", \"c\": \"s-2.safetensors\", \"d\": \"s-2.safetensors\", "
         "\"e\": \"s-2.safetensors\"}}",
         "places tensor e in s-2.safetensors, which does not hold it"},
        {"{\"metadata\": {\"total_size\": 47}, \"weight_map\": {\"a\": \"s-1.safetensors\", \"b\": \"s-1.safetensors\", "
         "\"c\": \"s-2.safetensors\", \"d\": \"s-2.safetensors\"}}",
         "total_size is not the 48 bytes"},
    };
    struct scratch scratch;

    (void)state;
    scratch_begin(&scratch);
    write_shard(&scratch, "s-1.safetensors", "a", "b");
    write_shard(&scratch, "s-2.safetensors", "c", "d");
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct refusal refusal = {""};
        struct safetensors *file = NULL;

        scratch_text(&scratch, "model.safetensors.index.json", cases[i].index);
        assert_int_not_equal(safetensors_map_model(scratch.path, &file, &refusal), STATUS_OK);
        assert_null(file);
        if (strstr(refusal.text, cases[i].why) == NULL)
            fail_msg("expected \"%s\" in: %s", cases[i].why, refusal.text);
    }
    /* One tensor in two shards. */
    write_shard(&scratch, "s-2.safetensors", "b", "c");
    scratch_text(&scratch, "model.safetensors.index.json",
                 "{\"weight_map\": {\"a\": \"s-1.safetensors\", \"b\": \"s-1.safetensors\", \"c\": \"s-2.safetensors\"}}");
    {
        struct refusal refusal = {""};
        struct safetensors *file = NULL;

        assert_int_equal(safetensors_map_model(scratch.path, &file, &refusal), STATUS_INVALID);
        assert_non_null(strstr(refusal.text, "s-2.safetensors: holds tensor b"));
    }
    scratch_end(&scratch);
}

static void a_folder_without_weights_says_what_lies_there(void **state)
{
    struct scratch scratch;
    struct refusal refusal = {""};
    struct safetensors *file = NULL;

    (void)state;
    scratch_begin(&scratch);
    assert_int_equal(safetensors_map_model(scratch.path, &file, &refusal), STATUS_NOT_FOUND);
    assert_non_null(strstr(refusal.text, "neither model.safetensors nor"));
    scratch_text(&scratch, "pytorch_model.bin", "x");
    assert_int_equal(safetensors_map_model(scratch.path, &file, &refusal), STATUS_INVALID);
    assert_non_null(strstr(refusal.text, "pickle"));
    scratch_end(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(what_is_not_finished_leaves_nothing),
        cmocka_unit_test(a_folder_is_there_whole_or_not),
        cmocka_unit_test(shards_are_one_model),
        cmocka_unit_test(an_index_that_lies_is_refused),
        cmocka_unit_test(a_folder_without_weights_says_what_lies_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
