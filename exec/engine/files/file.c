/* Reading with care: the checks are made on the open file, never on its name, so that nobody can swap it in between. */
#include "engine/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum status file_open(int directory, const char *name, const char *shown, int *ret_file, int64_t *ret_bytes,
                      struct refusal *refusal)
{
    /* Without O_NONBLOCK a FIFO that nobody writes would hold us here. */
    int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    struct stat about;

    if (file < 0 && errno == ENOENT)
        return refuse(refusal, STATUS_NOT_FOUND, "%s: there is no such file", shown);
    if (file < 0 && errno == ELOOP)
        return refuse(refusal, STATUS_INVALID,
                      "%s: is a symbolic link, which is not followed; put the file itself there (cp -L)", shown);
    if (file < 0)
        return refuse(refusal, STATUS_IO, "%s: %s", shown, strerror(errno));
    if (fstat(file, &about) != 0) {
        close(file);
        return refuse(refusal, STATUS_IO, "%s: %s", shown, strerror(errno));
    }
    if (!S_ISREG(about.st_mode)) {
        close(file);
        return refuse(refusal, STATUS_INVALID, "%s: is not a regular file", shown);
    }
    *ret_file = file;
    *ret_bytes = (int64_t)about.st_size;
    return STATUS_OK;
}

/* False: the file ended early or could not be read. */
static bool read_whole(int file, char *data, int64_t bytes)
{
    int64_t done = 0;

    while (done < bytes) {
        ssize_t got = read(file, data + done, (size_t)min_i64(bytes - done, 1 << 30));

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got == 0 ? 0 : errno;
            return false;
        }
        done += got;
    }
    return true;
}

enum status file_read(int directory, const char *name, const char *shown, int64_t bytes_max, void **ret_data, int64_t *ret_bytes,
                      struct refusal *refusal)
{
    enum status status;
    int64_t bytes = 0;
    int file = -1;
    char *data;

    status = file_open(directory, name, shown, &file, &bytes, refusal);
    if (status != STATUS_OK)
        return status;
    if (bytes > bytes_max) {
        status = refuse(refusal, STATUS_INVALID, "%s: has %lld bytes; at most %lld are read", shown, (long long)bytes,
                        (long long)bytes_max);
        goto close_file;
    }
    data = malloc((size_t)bytes + 1);
    if (data == NULL) {
        status = refuse(refusal, STATUS_IO, "%s: no memory for its %lld bytes", shown, (long long)bytes);
        goto close_file;
    }
    if (!read_whole(file, data, bytes)) {
        status = refuse(refusal, STATUS_IO, "%s: %s", shown, errno == 0 ? "was cut while it was read" : strerror(errno));
        free(data);
        goto close_file;
    }
    data[bytes] = '\0';
    *ret_data = data;
    *ret_bytes = bytes;
close_file:
    close(file);
    return status;
}

enum status file_read_json(int directory, const char *name, const char *shown, int64_t bytes_max, json_t **ret_object,
                           struct refusal *refusal)
{
    void *data = NULL;
    int64_t bytes = 0;
    json_error_t error;
    json_t *object;
    enum status status = file_read(directory, name, shown, bytes_max, &data, &bytes, refusal);

    if (status != STATUS_OK)
        return status;
    object = json_loadb(data, (size_t)bytes, JSON_REJECT_DUPLICATES, &error);
    free(data);
    if (object == NULL)
        return refuse(refusal, STATUS_INVALID, "%s:%d: is not JSON: %s", shown, error.line, error.text);
    if (!json_is_object(object)) {
        json_decref(object);
        return refuse(refusal, STATUS_INVALID, "%s: is not a JSON object", shown);
    }
    *ret_object = object;
    return STATUS_OK;
}
