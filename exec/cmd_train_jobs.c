/* The file of berth-exec train --jobs: a JSON object a line, each a training job; its fields are for who knows the options. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "cmd_train.h"
#include "engine/files/file.h"

#define JOBS_BYTES_MAX (1 << 20)

static enum status add_line(struct train_jobs *jobs, const char *text, size_t bytes, int32_t line, const char *path, struct refusal *refusal)
{
    json_error_t error;
    json_t *object;

    if (strspn(text, " \t\r") >= bytes)
        return STATUS_OK;
    if (jobs->count == RUNS_MAX)
        return refuse(refusal, STATUS_INVALID, "%s:%d: more than %d jobs do not train together", path, line, RUNS_MAX);
    object = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(object)) {
        json_decref(object);
        return refuse(refusal, STATUS_INVALID, "%s:%d: is not a JSON object%s%s", path, line, object == NULL ? ": " : "",
                      object == NULL ? error.text : "");
    }
    jobs->line[jobs->count] = line;
    jobs->object[jobs->count++] = object;
    return STATUS_OK;
}

enum status train_jobs_open(const char *path, struct train_jobs *ret_jobs, struct refusal *refusal)
{
    void *data = NULL;
    int64_t bytes = 0;
    int32_t line = 0;
    enum status status = file_read(AT_FDCWD, path, path, JOBS_BYTES_MAX, &data, &bytes, refusal);
    const char *text = data;

    memset(ret_jobs, 0, sizeof(*ret_jobs));
    for (int64_t at = 0; status == STATUS_OK && at < bytes;) {
        const char *end = memchr(text + at, '\n', (size_t)(bytes - at));
        const int64_t length = end != NULL ? end - text - at : bytes - at;

        status = add_line(ret_jobs, text + at, (size_t)length, ++line, path, refusal);
        at += length + 1;
    }
    free(data);
    if (status == STATUS_OK && ret_jobs->count == 0)
        return refuse(refusal, STATUS_INVALID, "%s: has no job", path);
    return status;
}

void train_jobs_close(struct train_jobs *jobs)
{
    for (int32_t i = 0; i < jobs->count; i++)
        json_decref(jobs->object[i]);
    jobs->count = 0;
}

const char *train_job_value(const json_t *value, char *buffer, size_t size)
{
    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_integer(value))
        snprintf(buffer, size, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(buffer, size, "%.17g", json_real_value(value));
    else
        return NULL;
    return buffer;
}
