#define _DEFAULT_SOURCE /* mkdtemp, nftw */
#define _XOPEN_SOURCE 700
#include "sim/engine/rig.h"

#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include "support.h"

static char folder[64];

const char *rig_folder(void)
{
    if (folder[0] == '\0') {
        snprintf(folder, sizeof(folder), "/tmp/berth-engine-XXXXXX");
        assert_non_null(mkdtemp(folder));
    }
    return folder;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

void rig_end(void)
{
    if (folder[0] != '\0')
        nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    folder[0] = '\0';
}

struct scenario_set rig_scenario(const char *text, const char *const *settings)
{
    struct scenario_set set = {0};
    char path[128];
    char *messages;
    size_t messages_bytes;
    FILE *errors = open_memstream(&messages, &messages_bytes);
    FILE *file;
    uint32_t count = 0;

    while (settings != NULL && settings[count] != NULL)
        count++;
    snprintf(path, sizeof(path), "%s/x.yaml", rig_folder());
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    if (scenario_read(path, settings, count, errors, &set) != STATUS_OK) {
        fclose(errors);
        fprintf(stderr, "%s", text);
        fail_msg("%s", messages);
    }
    fclose(errors);
    free(messages);
    return set;
}

enum status rig_run(const struct scenario *scenario, const char *journal_dir, struct summary *ret_summary)
{
    struct sim_options options = {.journal_dir = journal_dir};
    enum status status = sim_run(scenario, NULL, &options, stderr, ret_summary);

    ret_summary->facts.wall_s = 0;
    return status;
}

void rig_run_text(const char *text, const char *const *settings, const char *journal_dir, struct summary *ret_summary)
{
    struct scenario_set set = rig_scenario(text, settings);

    assert_int_equal(rig_run(&set.items[0], journal_dir, ret_summary), STATUS_OK);
    scenario_set_free(&set);
}
