#include "sim/scenario/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support.h"

#define FILES_MAX 16

static char directory[64];
static char names[FILES_MAX][64];
static uint32_t names_count;

static void remember(const char *name)
{
    for (uint32_t i = 0; i < names_count; i++) {
        if (strcmp(names[i], name) == 0)
            return;
    }
    assert_true(names_count < FILES_MAX);
    snprintf(names[names_count++], sizeof(names[0]), "%s", name);
}

const char *rig_file(const char *name, const void *bytes, size_t count)
{
    static char path[160];
    FILE *file;

    if (directory[0] == '\0') {
        snprintf(directory, sizeof(directory), "/tmp/berth-scenario-XXXXXX");
        assert_non_null(mkdtemp(directory));
    }
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
    remember(name);
    return path;
}

void rig_end(void)
{
    char path[160];

    for (uint32_t i = 0; i < names_count; i++) {
        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        unlink(path);
    }
    if (directory[0] != '\0')
        rmdir(directory);
    directory[0] = '\0';
    names_count = 0;
}

void rig_strip(char *text)
{
    size_t count = strlen(directory);
    char *found;

    while (count > 0 && (found = strstr(text, directory)) != NULL) {
        size_t more = found[count] == '/';

        memmove(found, found + count + more, strlen(found + count + more) + 1);
    }
}

enum status rig_read(const char *text, const char *const *settings, uint32_t settings_count, struct scenario_set *ret_set,
                     char **ret_messages)
{
    const char *path = rig_file("x.yaml", text, strlen(text));
    size_t count;
    FILE *errors = open_memstream(ret_messages, &count);
    enum status status;

    assert_non_null(errors);
    status = scenario_read(path, settings, settings_count, errors, ret_set);
    fclose(errors);
    rig_strip(*ret_messages);
    return status;
}

struct scenario_set rig_read_well(const char *text, const char *const *settings)
{
    struct scenario_set set = {0};
    uint32_t count = 0;
    char *messages;
    enum status status;

    while (settings != NULL && settings[count] != NULL)
        count++;
    status = rig_read(text, settings, count, &set, &messages);
    if (status != STATUS_OK || messages[0] != '\0')
        fail_msg("%s\n%s\n%s", text, status_text(status), messages);
    free(messages);
    return set;
}
