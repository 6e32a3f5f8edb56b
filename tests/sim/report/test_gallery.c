/* A report that is interrupted: it is whole or not there, and the interruption is heard after it. */
#define _DEFAULT_SOURCE /* mkdtemp */
#include "report/gallery.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report/files.h"
#include "support.h"

static uint32_t files_in(const char *path)
{
    DIR *folder = opendir(path);
    uint32_t count = 0;

    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return count;
}

/* In a process of its own, which it ends. */
static void interrupted(const char *directory, int signal_number, bool closes)
{
    FILE *errors = tmpfile();
    struct gallery *gallery;

    if (errors == NULL || gallery_open(directory, errors, &gallery) != STATUS_OK)
        _exit(10);
    raise(signal_number);
    if (files_in(directory) == 0) /* the work goes on */
        _exit(11);
    if (closes)
        (void)gallery_close(gallery, "a title", "A sentence.", "a text");
    else
        gallery_abandon(gallery);
    _exit(12);
}

static void an_interruption_is_heard_when_nothing_is_half_made(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM};
    char directory[] = "/tmp/berth-gallery-XXXXXX";
    char page[64];

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(page, sizeof(page), "%s/index.html", directory);
    for (uint32_t i = 0; i < 4; i++) {
        const bool closes = i >= 2;
        int code;
        const pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0)
            interrupted(directory, signals[i % 2], closes);
        assert_true(waitpid(child, &code, 0) == child);
        assert_true(WIFSIGNALED(code) && WTERMSIG(code) == signals[i % 2]);
        assert_int_equal(access(page, F_OK) == 0, closes);
        if (!closes)
            assert_int_equal(files_in(directory), 0);
    }
    assert_true(unlink(page) == 0);
    work_remove(directory); /* and data/ in it */
    assert_true(access(directory, F_OK) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_interruption_is_heard_when_nothing_is_half_made)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
