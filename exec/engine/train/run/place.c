/* Where a run's states and results go: folders, or the caller's hands. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/files/file.h"
#include "engine/lora/peft.h"
#include "engine/train/run/internal.h"

/* --- folders ---------------------------------------------------------------------------------------------------------------- */

/* Said before hours of work rather than after them. */
static enum status check_out(const struct run_config *config, struct refusal *refusal)
{
    struct folder folder;
    enum status status = folder_begin(&folder, config->out, refusal);

    if (status == STATUS_OK)
        folder_abandon(&folder);
    else if (access(config->checkpoints, F_OK) == 0)
        refuse_also(refusal, status, "%s: if that adapter is this run's, these checkpoints of it are no longer needed", config->checkpoints);
    return status;
}

static enum status disk_begin(struct run *run, struct refusal *refusal)
{
    const struct run_config *config = run->config;
    const enum status status = check_out(config, refusal);

    run->found = status == STATUS_INVALID && config->done_counts;
    if (run->found)
        return STATUS_OK; /* as long as it may be its own */
    return status == STATUS_OK ? checkpoint_folder_open(config->checkpoints, &run->folder, refusal) : status;
}

static enum status disk_load(struct run *run, struct refusal *refusal)
{
    const struct run_config *config = run->config;

    if (config->restart)
        checkpoint_folder_clear(&run->folder);
    return checkpoint_load(&run->folder, &run->at, config->listener, config->said, refusal);
}

static enum status disk_save(struct run *run, struct refusal *refusal)
{
    return checkpoint_save(&run->folder, &run->at, refusal);
}

/* A PEFT folder with the losses of all steps and a record of where it came from: there whole, or not at all. */
static enum status disk_finish(struct run *run, const struct run_made *made, struct refusal *refusal)
{
    struct folder folder;
    char path[4200];
    enum status status = folder_begin(&folder, run->config->out, refusal);

    if (status != STATUS_OK)
        return status;
    snprintf(path, sizeof(path), "%.4090s/results.csv", folder.temporary);
    status = file_write(path, made->results, made->results_bytes, refusal);
    if (status == STATUS_OK)
        status = run_record_write(run, folder.temporary, made->outcome, refusal);
    if (status == STATUS_OK)
        status = peft_write(folder.temporary, made->adapter, refusal);
    if (status == STATUS_OK)
        return folder_commit(&folder, refusal);
    folder_abandon(&folder);
    return status;
}

static void disk_close(struct run *run)
{
    checkpoint_folder_close(&run->folder, run->done);
}

const struct run_place run_disk = {disk_begin, disk_load, disk_save, NULL, disk_finish, disk_close};

/* --- the caller's ----------------------------------------------------------------------------------------------------------- */

static enum status held_begin(struct run *run, struct refusal *refusal)
{
    (void)run;
    (void)refusal;
    return STATUS_OK;
}

static enum status held_load(struct run *run, struct refusal *refusal)
{
    const struct run_config *config = run->config;
    enum status status;

    if (config->memory->state == NULL)
        return STATUS_NOT_FOUND;
    status = checkpoint_read(config->memory->state, config->memory->state_bytes, "the state", &run->at, config->listener, config->said, refusal);
    return status == STATUS_CORRUPT ? refuse(refusal, STATUS_CORRUPT, "the state to go on from is not whole") : status;
}

static enum status held_save(struct run *run, struct refusal *refusal)
{
    return run->config->memory->save(run->config->memory->owner, &run->at, refusal);
}

static enum status held_epoch(struct run *run, const struct run_made *made, struct refusal *refusal)
{
    const struct run_memory *memory = run->config->memory;

    return memory->epoch != NULL ? memory->epoch(memory->owner, made, refusal) : STATUS_OK;
}

static enum status held_finish(struct run *run, const struct run_made *made, struct refusal *refusal)
{
    return run->config->memory->finish(run->config->memory->owner, made, refusal);
}

static void held_close(struct run *run)
{
    (void)run;
}

const struct run_place run_held = {held_begin, held_load, held_save, held_epoch, held_finish, held_close};
