/* What the results refuse: places that cannot be written, disks that fill up, rows that contradict themselves. */
#include "sim/results/rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char said[4096];

static FILE *errors_open(void)
{
    memset(said, 0, sizeof(said));
    return fmemopen(said, sizeof(said) - 1, "w");
}

static enum status create_at(const char *at)
{
    struct results_file *file = NULL;
    FILE *errors = errors_open();
    enum status status = results_file_create(at, "", 1, errors, &file);

    fclose(errors);
    assert_null(file);
    return status;
}

static void file_refuses_a_directory_that_is_not_there(void **state)
{
    (void)state;
    char absent[160];

    snprintf(absent, sizeof(absent), "%s/absent/run.h5", results_directory);
    assert_int_equal(create_at(absent), STATUS_IO);
    assert_non_null(strstr(said, absent));
    assert_non_null(strstr(said, "No such file or directory"));
    assert_int_equal(results_files_count(), 0);
}

static void file_refuses_the_name_of_a_directory_before_the_run(void **state)
{
    (void)state;
    assert_int_equal(create_at(results_directory), STATUS_IO);
    assert_non_null(strstr(said, "it is a directory"));
}

static void file_refuses_a_directory_without_permission(void **state)
{
    (void)state;
    const bool super_user = geteuid() == 0; /* may write everywhere, so it is nobody for a moment */

    assert_int_equal(chmod(results_directory, 0555), 0);
    if (super_user)
        assert_int_equal(seteuid(65534), 0);
    assert_int_equal(create_at(results_path), STATUS_IO);
    if (super_user)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(results_directory, 0777), 0);
    assert_non_null(strstr(said, "Permission denied"));
    assert_int_equal(results_files_count(), 0);
}

static void variant_of_a_name_already_there_is_refused(void **state)
{
    (void)state;
    static struct summary summary;
    struct scenario *scenario = calloc(1, sizeof(*scenario));
    struct results_file *file;
    struct results *first;
    struct results *second = NULL;
    FILE *errors = errors_open();

    strcpy(scenario->variant, "twin");
    scenario->duration_s = 1;
    assert_int_equal(results_file_create(results_path, "", 1, errors, &file), STATUS_OK);
    assert_int_equal(results_open(file, scenario, 4, 7, &first), STATUS_OK);
    assert_int_equal(results_open(file, scenario, 4, 7, &second), STATUS_IO);
    assert_null(second);
    assert_int_equal(results_close(first, &results_facts, &summary, errors), STATUS_IO);
    assert_int_equal(results_file_close(file, false, errors), STATUS_IO);
    fclose(errors);
    free(scenario);
    assert_non_null(strstr(said, results_path));
    assert_int_equal(results_files_count(), 0);
}

/* A limit on file sizes stands in for a full disk: the same refusal of write(). Rows that deflate cannot shrink. */
static void run_on_a_full_disk(uint64_t room_bytes, uint64_t rows, const char *expected)
{
    static struct summary summary;
    struct rlimit limit;
    struct rlimit small;
    struct results_file *file;
    struct results *results;
    FILE *errors = errors_open();
    FILE *older = fopen(results_path, "w");
    uint64_t random = 5;
    char *first;
    long bytes;

    fputs("older", older);
    fclose(older);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = limit;
    small.rlim_cur = room_bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(results_file_create(results_path, "", 1, errors, &file), STATUS_OK);
    results = results_variant_open(file, "full");
    for (uint64_t i = 0; i < rows; i++) {
        struct request_row row = results_row(i % ROWS);

        row.ordinal = draw(&random);
        row.at_ns = (int64_t)draw_below(&random, 3000 * NS_PER_S);
        row.status = REQUEST_UNFINISHED;
        row.done_ns = -1;
        row.admitted_ns = (int64_t)(draw(&random) >> 1);
        results_request(results, &row);
    }
    (void)results_close(results, &results_facts, &summary, errors); /* the refusal may come with the last bytes only */
    assert_int_equal(results_file_close(file, false, errors), STATUS_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    fclose(errors);

    assert_int_equal(summary.unfinished, rows); /* the numbers are not lost with the file */
    first = strstr(said, expected);
    if (first == NULL)
        fail_msg("expected \"%s\", said \"%s\"", expected, said);
    assert_null(strstr(first + 1, "cannot"));
    assert_non_null(strstr(said, results_path));
    assert_int_equal(results_files_count(), 1);
    results_file_digest(results_path, &bytes);
    assert_int_equal(bytes, 5);
}

static void full_disk_is_said_once_and_leaves_the_older_file(void **state)
{
    (void)state;
    run_on_a_full_disk(1000000, 40000, "cannot write requests: File too large");
}

static void disk_that_fills_with_the_last_bytes_is_said_too(void **state)
{
    (void)state;
    run_on_a_full_disk(2000, 0, "cannot write what was gathered: File too large");
}

struct attempt {
    struct results *results;
    struct request_row row;
};

static void attempt_request(void *context)
{
    struct attempt *attempt = context;

    results_request(attempt->results, &attempt->row);
}

static void blame_that_does_not_add_up_is_a_mistake_of_ours(void **state)
{
    (void)state;
    static struct summary summary;
    struct attempt attempt = {results_variant_open(NULL, "none"), results_row(2)};

    assert_false(check_stops(attempt_request, &attempt));
    attempt.row.blame_ns[BLAME_DECODE] += 1;
    assert_true(check_stops(attempt_request, &attempt));
    attempt.row.blame_ns[BLAME_PREFILL] -= 1; /* the sum is right again */
    assert_false(check_stops(attempt_request, &attempt));
    attempt.row = results_row(2);
    attempt.row.blame_ns[BLAME_DECODE] += attempt.row.blame_ns[BLAME_QUEUE] + 1;
    attempt.row.blame_ns[BLAME_QUEUE] = -1; /* the sum is right, but no time is negative */
    assert_true(check_stops(attempt_request, &attempt));
    attempt.row = results_row(2);
    attempt.row.tenant = 7;
    assert_true(check_stops(attempt_request, &attempt));
    assert_int_equal(results_close(attempt.results, &results_facts, &summary, stderr), STATUS_OK);
    assert_int_equal(summary.completed, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, results_directory_empty)
    const struct CMUnitTest tests[] = {
        TEST(file_refuses_a_directory_that_is_not_there),
        TEST(file_refuses_the_name_of_a_directory_before_the_run),
        TEST(file_refuses_a_directory_without_permission),
        TEST(variant_of_a_name_already_there_is_refused),
        TEST(full_disk_is_said_once_and_leaves_the_older_file),
        TEST(disk_that_fills_with_the_last_bytes_is_said_too),
        TEST(blame_that_does_not_add_up_is_a_mistake_of_ours),
    };

    return cmocka_run_group_tests(tests, results_directory_make, results_directory_remove);
}
