/* Conversions between the formats: there and back gives equal bytes, next accesses are those of a naive search, what would be
 * lost is refused or told, and an output is there whole or not at all. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/convert.h"
#include "convert/spool.h"
#include "support.h"

static char folder[] = "/tmp/berth-convert-XXXXXX";
static char message[TRACE_MESSAGE_MAX];
static struct convert_result result;

static const char *in_folder(const char *name)
{
    static char paths[4][320];
    static unsigned turn;
    char *path = paths[turn++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const void *bytes, size_t count)
{
    FILE *file = fopen(in_folder(name), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

/* The whole file; the caller frees. */
static char *get(const char *name, size_t *ret_count)
{
    FILE *file = fopen(in_folder(name), "rb");
    char *bytes;

    if (file == NULL)
        fail_msg("there is no %s", name);
    fseek(file, 0, SEEK_END);
    *ret_count = (size_t)ftell(file);
    rewind(file);
    bytes = calloc(1, *ret_count + 1);
    assert_int_equal(fread(bytes, 1, *ret_count, file), *ret_count);
    fclose(file);
    return bytes;
}

static void assert_same(const char *a, const char *b)
{
    size_t a_count;
    size_t b_count;
    char *a_bytes = get(a, &a_count);
    char *b_bytes = get(b, &b_count);

    if (a_count != b_count || memcmp(a_bytes, b_bytes, a_count) != 0)
        fail_msg("%s and %s differ: %zu and %zu bytes", a, b, a_count, b_count);
    free(a_bytes);
    free(b_bytes);
}

static void assert_is(const char *name, const char *text)
{
    size_t count;
    char *bytes = get(name, &count);

    assert_string_equal(bytes, text);
    free(bytes);
}

/* Nothing but these may be there. */
static unsigned files_count(void)
{
    DIR *directory = opendir(folder);
    struct dirent *entry;
    unsigned count = 0;

    while ((entry = readdir(directory)) != NULL)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count;
}

static enum status run(const char *input, const char *output, const char *to, uint64_t size_bytes)
{
    const struct object_options options = {.size_bytes = size_bytes};
    char input_path[128];
    char output_path[128];
    const struct convert_config config = {.input = input_path, .output = output_path, .output_format = to, .options = &options,
                                          .size_given = size_bytes != 0};

    snprintf(input_path, sizeof(input_path), "%s/%s", folder, input);
    snprintf(output_path, sizeof(output_path), "%s/%s", folder, output);
    message[0] = 0;
    return convert(&config, &result, message);
}

static void go(const char *input, const char *output)
{
    if (run(input, output, NULL, 0) != STATUS_OK)
        fail_msg("%s to %s: %s", input, output, message);
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/berth-convert-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    DIR *directory = opendir(folder);
    struct dirent *entry;

    while ((entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            unlink(in_folder(entry->d_name));
    closedir(directory);
    return rmdir(folder);
}

/* --- there and back --- */

enum { MANY = 70000 }; /* more than two blocks of a spool */

/* A trace whose next accesses come from the naive search that a reader would believe. */
static void put_oracle(const char *name, uint32_t requests, uint32_t objects, uint64_t seed)
{
    char *bytes = calloc(requests, 24);
    int64_t *next = malloc(objects * sizeof(*next));
    uint64_t random = test_seed(seed);

    for (uint32_t i = 0; i < objects; i++)
        next[i] = -1;
    for (uint32_t i = 0; i < requests; i++) {
        uint64_t id = min_u64(draw_below(&random, objects), draw_below(&random, objects));

        memcpy(bytes + (size_t)i * 24 + 4, &id, 8);
    }
    for (uint32_t i = requests; i-- > 0;) {
        char *record = bytes + (size_t)i * 24;
        uint32_t time_s = i / 10 + (uint32_t)draw_below(&random, 3);
        uint32_t size_bytes;
        uint64_t id;

        memcpy(&id, record + 4, 8);
        size_bytes = (uint32_t)(id % 7 == 0 ? 0 : id * 1000003);
        memcpy(record, &time_s, 4);
        memcpy(record + 12, &size_bytes, 4);
        memcpy(record + 16, &next[id], 8);
        next[id] = i + 1;
        id = id * UINT64_C(0x9E3779B97F4A7C15); /* as hashes are: of all 64 bits */
        memcpy(record + 4, &id, 8);
    }
    put(name, bytes, (size_t)requests * 24);
    free(next);
    free(bytes);
}

static void every_format_gives_the_same_bytes_back(void **state)
{
    (void)state;
    static const char *const there[] = {"b.csv", "b.csv.zst", "b.lcs", "b.h5", "b.oracleGeneral.zst", "b.oracleGeneral"};

    put_oracle("a.oracleGeneral", MANY, 5000, 40);
    for (size_t i = 0; i < ARRAY_COUNT(there); i++) {
        go("a.oracleGeneral", there[i]);
        assert_int_equal(result.info.requests, MANY);
        go(there[i], "c.oracleGeneral");
        assert_same("a.oracleGeneral", "c.oracleGeneral");
        assert_int_equal(result.found_next, i < 2);
    }
}

static void every_pair_of_formats_agrees(void **state)
{
    (void)state;
    static const char *const names[] = {"p.csv", "p.lcs", "p.h5", "p.oracleGeneral", "p.oracleGeneral.zst"};

    put_oracle("a.oracleGeneral", 3000, 100, 41);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        go("a.oracleGeneral", names[i]);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        for (size_t j = 0; j < ARRAY_COUNT(names); j++) {
            char name[64];

            snprintf(name, sizeof(name), "q%s", names[j] + 1);
            go(names[i], name);
            assert_same(name, names[j]);
        }
    }
}

static void texts_times_and_large_sizes_survive_where_they_can(void **state)
{
    (void)state;
    const char *text = "time,id,size\n0.5,alpha,9223372036854775807\n0.25,\"a,b\",0\n3,\"say \"\"no\"\"\",1\n4.000000001,007,2\n5,7,3\n6,alpha,4\n";

    put_text("a.csv", text);
    go("a.csv", "b.h5");
    assert_int_equal(result.names, 4);
    assert_int_equal(result.info.backward, 1);
    assert_int_equal(result.info.zero_sizes, 1);
    assert_true(result.found_next && !result.losses.names);
    go("b.h5", "c.csv");
    assert_is("c.csv", text);
    go("c.csv", "d.csv.zst");
    go("d.csv.zst", "e.csv");
    assert_is("e.csv", text);
    go("a.csv", "f.txt");
    assert_is("f.txt", "alpha\na,b\nsay \"no\"\n007\n7\nalpha\n");
    assert_true(result.losses.sizes && result.losses.times && !result.losses.names);
    go("a.csv", "g.lcs");
    assert_true(result.losses.names);
    assert_int_equal(result.losses.fractions, 3);
    go("g.lcs", "h.csv");
    assert_is("h.csv", "time,id,size\n0,9223372036854775808,9223372036854775807\n0,9223372036854775809,0\n"
                       "3,9223372036854775810,1\n4,9223372036854775811,2\n5,7,3\n6,9223372036854775808,4\n");
}

static void columns_that_the_input_lacks_are_not_made_up(void **state)
{
    (void)state;
    put_text("a.txt", "7\nx\n7\n");
    go("a.txt", "b.h5");
    go("b.h5", "c.txt");
    assert_is("c.txt", "7\nx\n7\n");
    assert_false(result.info.has_size || result.info.has_time);
    assert_false(result.losses.sizes || result.losses.times);
    go("b.h5", "d.csv");
    assert_is("d.csv", "id\n7\nx\n7\n");
    assert_int_equal(run("a.txt", "e.csv", NULL, 64), STATUS_OK);
    assert_is("e.csv", "id,size\n7,64\nx,64\n7,64\n");
    assert_int_equal(run("a.txt", "f.oracleGeneral", NULL, 64), STATUS_OK);
    assert_true(result.needs_all);
    go("f.oracleGeneral", "g.csv");
    assert_is("g.csv", "time,id,size\n0,7,64\n0,9223372036854775808,64\n0,7,64\n");
}

static void next_accesses_beyond_the_end_stay(void **state)
{
    (void)state;
    const char record[24] = {0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0};

    put("a.oracleGeneral", record, sizeof(record));
    go("a.oracleGeneral", "b.h5");
    go("b.h5", "c.oracleGeneral");
    assert_same("a.oracleGeneral", "c.oracleGeneral");
}

/* --- what is refused --- */

static void assert_refuses(const char *input, const char *output, const char *to, enum status status, const char *says)
{
    unsigned before = files_count();

    assert_int_equal(run(input, output, to, 0), status);
    if (strstr(message, says) == NULL)
        fail_msg("said  \"%s\"\nwanted \"%s\"", message, says);
    assert_non_null(strchr(message, ';'));
    assert_int_equal(files_count(), before);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    put_text("a.csv", "time,id,size\n1,7,1\n2,8,4294967296\n");
    put_text("b.csv", "time,id,size\n4294967296,7,1\n");
    put_text("c.csv", "time,id,size\n1,7,-5\n");
    assert_refuses("a.csv", "x.oracleGeneral", NULL, STATUS_IO,
                   "x.oracleGeneral: the size 4294967296 of request 1 does not fit into the 32 bits of oracleGeneral; convert to lcs");
    assert_refuses("b.csv", "x.oracleGeneral", NULL, STATUS_IO, "request 0 comes at 4294967296 s, and oracleGeneral has 32 bits");
    assert_refuses("b.csv", "x.lcs", NULL, STATUS_IO, "request 0 comes at 4294967296 s, and lcs has 32 bits for it; convert to csv");
    assert_refuses("c.csv", "x.h5", NULL, STATUS_CORRUPT, "c.csv:2:5: size '-5' is negative;");
    assert_refuses("c.csv", "x.csv", NULL, STATUS_CORRUPT, "c.csv:2:5: size '-5' is negative;");
    assert_refuses("a.csv", "x.what", NULL, STATUS_INVALID, "x.what: the name does not tell its format; name one of oracleGeneral, lcs");
    assert_refuses("a.csv", "x.csv", "hdf", STATUS_INVALID, "x.csv: no such format is written; name one of");
    assert_refuses("a.csv", "x.lcs.zst", NULL, STATUS_INVALID, "this format is not written through zstd; leave .zst out");
    assert_int_equal(run("a.csv", "x.txt", NULL, 5), STATUS_INVALID);
    assert_non_null(strstr(message, "a.csv: it has sizes of its own; leave the given one out"));
    assert_int_equal(files_count(), 3);
}

static void a_failure_leaves_the_output_as_it_was(void **state)
{
    (void)state;
    put_text("a.csv", "id\n1\n2,3\n");
    put_text("b.txt", "kept\n");
    put_text("b.h5", "kept\n");
    assert_int_equal(run("a.csv", "b.txt", NULL, 0), STATUS_CORRUPT);
    assert_int_equal(run("a.csv", "b.h5", NULL, 0), STATUS_CORRUPT);
    assert_is("b.txt", "kept\n");
    assert_is("b.h5", "kept\n");
    assert_int_equal(files_count(), 3);
    assert_int_equal(run("a.csv", "none/b.txt", NULL, 0), STATUS_IO);
    assert_non_null(strstr(message, "none/b.txt: cannot create it: No such file or directory"));
}

static void a_full_disk_leaves_nothing(void **state)
{
    (void)state;
    static const char *const names[] = {"b.oracleGeneral", "b.csv", "b.h5", "b.lcs", "b.oracleGeneral.zst"};
    struct rlimit before;
    struct rlimit small;

    put_oracle("a.oracleGeneral", MANY, MANY, 42);
    put_oracle("small.oracleGeneral", 100, 10, 43);
    go("a.oracleGeneral", "a.csv");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 20000; /* too little for each of them, and for what is set aside */
    setrlimit(RLIMIT_FSIZE, &small);
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        assert_int_equal(run("a.oracleGeneral", names[i], NULL, 0), STATUS_IO);
        assert_non_null(strstr(message, "cannot write it: File too large"));
        assert_int_equal(run("a.csv", names[i], NULL, 0), STATUS_IO);
        assert_non_null(strstr(message, "File too large"));
    }
    assert_int_equal(files_count(), 3);
    setrlimit(RLIMIT_FSIZE, &before);
    go("small.oracleGeneral", "b.h5"); /* and the next one is good */
}

static void a_word_to_stop_leaves_nothing(void **state)
{
    (void)state;
    const volatile sig_atomic_t stop = 1;
    const struct convert_config config = {.input = in_folder("a.csv"), .output = in_folder("b.h5"), .stop = &stop};

    put_text("a.csv", "id\n1\n2\n");
    assert_int_equal(convert(&config, &result, message), STATUS_CONFLICT);
    assert_int_equal(files_count(), 1);
}

static void a_trace_may_replace_itself(void **state)
{
    (void)state;
    put_text("a.csv", "obj_id,colour\n5,red\n");
    go("a.csv", "a.csv");
    assert_is("a.csv", "id\n5\n");
}

/* --- the spool --- */

static void next_accesses_are_those_of_a_naive_search(void **state)
{
    (void)state;
    enum { REQUESTS = 2000 };
    static struct object_request rows[REQUESTS];
    const struct object_request *found;
    struct spool spool;
    uint32_t count;
    uint64_t random = test_seed(44);

    for (uint32_t i = 0; i < REQUESTS; i++)
        rows[i] = (struct object_request){.id = draw_below(&random, 300), .next = OBJECT_NEXT_UNKNOWN};
    assert_int_equal(spool_open(&spool, in_folder("x")), STATUS_OK);
    assert_int_equal(spool_add(&spool, rows, REQUESTS), STATUS_OK);
    assert_int_equal(spool_find_next(&spool), STATUS_OK);
    assert_int_equal(spool_read(&spool, 0, &found, &count), STATUS_OK);
    assert_int_equal(count, REQUESTS);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        int64_t next = OBJECT_NEXT_NEVER;

        for (uint32_t j = REQUESTS; j-- > i + 1;)
            if (rows[j].id == rows[i].id)
                next = j;
        if (found[i].next != next)
            fail_msg("seed %llu, request %u: %lld, not %lld", (unsigned long long)random, i, (long long)found[i].next, (long long)next);
    }
    spool_close(&spool);
    assert_int_equal(files_count(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
        T(every_format_gives_the_same_bytes_back),
        T(every_pair_of_formats_agrees),
        T(texts_times_and_large_sizes_survive_where_they_can),
        T(columns_that_the_input_lacks_are_not_made_up),
        T(next_accesses_beyond_the_end_stay),
        T(what_does_not_fit_is_refused),
        T(a_failure_leaves_the_output_as_it_was),
        T(a_full_disk_leaves_nothing),
        T(a_word_to_stop_leaves_nothing),
        T(a_trace_may_replace_itself),
        T(next_accesses_are_those_of_a_naive_search),
#undef T
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
