/* Which GPUs the platform has. A process of its own is asked, `berth-exec devices`, since what loads CUDA is neither the keeper nor a control
 * plane; it starts as workers do, with nothing of our environment but which GPUs we may see. */
#include <jansson.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd_control.h"

#define VISIBLE "CUDA_VISIBLE_DEVICES"

/* False: it did not start. */
static bool start(const char *visible, int out, pid_t *ret_process)
{
    static char name[] = "berth-exec", verb[] = "devices", option[] = "--json";
    char *const arguments[] = {name, verb, option, NULL};
    char variable[sizeof(VISIBLE) + 1 + GPUS_TEXT_BYTES];
    char *const environment[] = {visible != NULL ? variable : NULL, NULL};
    posix_spawn_file_actions_t actions;
    bool is_fine = snprintf(variable, sizeof(variable), VISIBLE "=%s", visible != NULL ? visible : "") < (int)sizeof(variable);

    check(posix_spawn_file_actions_init(&actions) == 0);
    is_fine = is_fine && posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO) == 0 &&
              posix_spawn(ret_process, CONTROL_SELF, &actions, NULL, arguments, environment) == 0;
    posix_spawn_file_actions_destroy(&actions);
    return is_fine;
}

/* What it prints; NULL: nothing that can be read. */
static json_t *ask(const char *visible)
{
    json_t *said = NULL;
    bool is_started;
    pid_t process;
    int ends[2];

    if (pipe(ends) != 0)
        return NULL;
    is_started = start(visible, ends[1], &process);
    close(ends[1]);
    if (is_started) {
        said = json_loadfd(ends[0], 0, NULL);
        (void)waitpid(process, NULL, 0);
    }
    close(ends[0]);
    return said;
}

static const json_t *cuda_of(const json_t *said)
{
    const json_t *device;
    size_t i;

    json_array_foreach(said, i, device) {
        const char *name = json_string_value(json_object_get(device, "name"));

        if (name != NULL && strcmp(name, "cuda") == 0)
            return device;
    }
    return NULL;
}

/* Their names are ours where we were told which we may see, else their numbers. */
static enum status name_them(const char *visible, uint32_t count, struct core_gpus *gpus, struct refusal *refusal)
{
    enum status status = STATUS_OK;

    gpus->count = CORE_DEVICES_MAX;
    for (uint32_t i = 0; i < CORE_DEVICES_MAX; i++)
        (void)snprintf(gpus->names[i], GPU_NAME_BYTES, "%u", i);
    if (visible != NULL)
        status = core_gpus_read(visible, gpus, refusal);
    gpus->count = min_u32(gpus->count, count);
    return status;
}

enum status control_gpus_find(const char *device, struct core_gpus *ret_gpus, struct refusal *refusal)
{
    const char *visible = getenv(VISIBLE);
    struct core_gpus gpus = {0};
    enum status status = STATUS_OK;
    const json_t *cuda;
    json_t *said;
    uint32_t count;

    if (strcmp(device, "cpu") == 0) {
        *ret_gpus = gpus;
        return STATUS_OK;
    }
    said = ask(visible);
    cuda = cuda_of(said);
    count = (uint32_t)json_integer_value(json_object_get(cuda, "gpus"));
    gpus.bytes = (uint64_t)json_integer_value(json_object_get(cuda, "gpu_bytes"));
    if (count > 0)
        status = name_them(visible, count, &gpus, refusal);
    else if (strcmp(device, "cuda") == 0)
        status = refuse(refusal, STATUS_INVALID, "--device cuda: %s",
                        cuda != NULL ? json_string_value(json_object_get(cuda, "why")) : "berth-exec devices cannot be asked");
    json_decref(said);
    if (status == STATUS_OK)
        *ret_gpus = gpus;
    return status;
}
