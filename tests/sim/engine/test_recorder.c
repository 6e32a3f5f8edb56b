/* Journals on disk: never over another one, and a disk that is full is told, not survived in silence. */
#define _DEFAULT_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/recorder.h"
#include "sim/engine/rig.h"
#include "support.h"

#define EVENT_BYTES 64

static char *messages;
static size_t messages_bytes;

static enum status open_in(const char *directory, struct recorder **ret_recorder)
{
    struct journal_header header;
    FILE *errors = open_memstream(&messages, &messages_bytes);
    enum status status;

    journal_header_init(&header, JOURNAL_NODE, 7, EVENT_BYTES);
    status = recorder_open(directory, "node", &header, errors, ret_recorder);
    fclose(errors);
    return status;
}

static enum status close_it(struct recorder *recorder)
{
    FILE *errors = open_memstream(&messages, &messages_bytes);
    enum status status = recorder_close(recorder, errors);

    fclose(errors);
    return status;
}

static void expect_message(const char *part)
{
    if (part == NULL && messages[0] != '\0')
        fail_msg("unexpected: %s", messages);
    if (part != NULL && strstr(messages, part) == NULL)
        fail_msg("no \"%s\" in: %s", part, messages);
    free(messages);
}

static void a_journal_is_its_header_and_records_of_one_size(void **state)
{
    (void)state;
    struct recorder *recorder;
    unsigned char event[EVENT_BYTES] = {1, 2, 3};
    char path[256];
    struct stat about;
    struct journal_header header;
    FILE *file;

    assert_int_equal(open_in(rig_folder(), &recorder), STATUS_OK);
    expect_message(NULL);
    for (int i = 0; i < 3; i++)
        recorder_write(recorder, event, 11, "commands", 8);
    assert_int_equal(close_it(recorder), STATUS_OK);
    expect_message(NULL);
    snprintf(path, sizeof(path), "%s/node-0007.journal", rig_folder());
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_size, sizeof(header) + 3 * (EVENT_BYTES + sizeof(struct journal_tail)));
    file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(&header, sizeof(header), 1, file), 1);
    fclose(file);
    assert_true(journal_header_check(&header));
}

static void an_existing_journal_is_not_written_over(void **state)
{
    (void)state;
    struct recorder *recorder = NULL;
    char path[256];

    snprintf(path, sizeof(path), "%s/taken", rig_folder());
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(open_in(path, &recorder), STATUS_OK);
    expect_message(NULL);
    assert_int_equal(close_it(recorder), STATUS_OK);
    expect_message(NULL);
    recorder = NULL;
    assert_int_equal(open_in(path, &recorder), STATUS_IO);
    expect_message("name a new folder, or remove the old one");
    assert_null(recorder);
}

static void a_folder_that_is_not_there_is_named(void **state)
{
    (void)state;
    struct recorder *recorder = NULL;

    assert_int_equal(open_in("/proc/nowhere", &recorder), STATUS_IO);
    expect_message("/proc/nowhere/node-0007.journal");
    assert_null(recorder);
}

/* A limit on the size of files stands for a full disk. */
static void a_full_disk_is_told(void **state)
{
    (void)state;
    struct rlimit before;
    struct rlimit small;
    struct recorder *recorder;
    unsigned char event[EVENT_BYTES] = {0};
    char path[256];

    snprintf(path, sizeof(path), "%s/full", rig_folder());
    assert_int_equal(mkdir(path, 0777), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 20000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(open_in(path, &recorder), STATUS_OK);
    free(messages);
    for (int i = 0; i < 1000; i++)
        recorder_write(recorder, event, 1, event, sizeof(event));
    assert_int_equal(close_it(recorder), STATUS_IO);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    expect_message("could not be written whole");
}

static void nothing_to_close_is_fine(void **state)
{
    (void)state;
    assert_int_equal(close_it(NULL), STATUS_OK);
    expect_message(NULL);
}

static int end(void **state)
{
    (void)state;
    rig_end();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_journal_is_its_header_and_records_of_one_size),
        cmocka_unit_test(an_existing_journal_is_not_written_over),
        cmocka_unit_test(a_folder_that_is_not_there_is_named),
        cmocka_unit_test(a_full_disk_is_told),
        cmocka_unit_test(nothing_to_close_is_fine),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
