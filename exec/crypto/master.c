/* The master key, from a file or a command. No message here tells what was read. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crypto/secret.h"

#define DIGITS (2 * KEY_BYTES)
#define TEXT_MAX (DIGITS + 3) /* a line's end of two bytes, and one more, so that longer ones are seen */
#define COMMAND_MS 30000

static enum status parse_key(const char *text, size_t count, const char *shown, uint8_t *ret_key, struct refusal *refusal)
{
    size_t bytes = 0;

    if (count > 0 && text[count - 1] == '\n')
        count--;
    if (count > 0 && text[count - 1] == '\r')
        count--;
    if (count != DIGITS || sodium_hex2bin(ret_key, KEY_BYTES, text, count, NULL, &bytes, NULL) != 0 || bytes != KEY_BYTES)
        return refuse(refusal, STATUS_INVALID, "%s: a master key is %d hexadecimal digits and a line's end, nothing else", shown,
                      DIGITS);
    return STATUS_OK;
}

/* Up to TEXT_MAX bytes or the end, within `wait_ms`; -1: errno. */
static ssize_t read_text(int file, char *text, int64_t wait_ms)
{
    struct pollfd waits = {.fd = file, .events = POLLIN};
    struct timespec start;
    size_t count = 0;

    clock_gettime(CLOCK_MONOTONIC, &start);
    while (count < TEXT_MAX) {
        struct timespec now;
        int64_t left_ms;
        ssize_t got;
        int ready;

        clock_gettime(CLOCK_MONOTONIC, &now);
        left_ms = wait_ms - ((int64_t)(now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000);
        ready = poll(&waits, 1, (int)max_i64(left_ms, 0));
        if (ready == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
        got = ready < 0 ? -1 : read(file, text + count, TEXT_MAX - count);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        count += (size_t)got;
    }
    return (ssize_t)count;
}

static enum status load_file(const char *path, char *text, uint8_t *ret_key, struct refusal *refusal)
{
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    enum status status;
    struct stat about;
    ssize_t count;

    if (file < 0)
        return refuse(refusal, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: the master key cannot be read: %s", path,
                      errno == ELOOP ? "it is a symbolic link, which is not followed" : strerror(errno));
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode))
        status = refuse(refusal, STATUS_INVALID, "%s: is not a regular file", path);
    else if (about.st_uid != geteuid() && about.st_uid != 0)
        status = refuse(refusal, STATUS_INVALID, "%s: belongs to another user; a master key is its owner's alone", path);
    else if ((about.st_mode & 077) != 0)
        status = refuse(refusal, STATUS_INVALID, "%s: has mode %04o; others must not read or write a master key: chmod 600", path,
                        (unsigned)about.st_mode & 07777);
    else if ((count = read_text(file, text, COMMAND_MS)) < 0)
        status = refuse(refusal, STATUS_IO, "%s: %s", path, strerror(errno));
    else
        status = parse_key(text, (size_t)count, path, ret_key, refusal);
    close(file);
    return status;
}

static pid_t start_command(const char *command, int *ret_out)
{
    int ends[2];
    pid_t child;

    if (pipe(ends) != 0)
        return -1;
    child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    if (child < 0)
        close(ends[0]);
    else
        *ret_out = ends[0];
    return child;
}

static enum status load_command(const char *command, char *text, uint8_t *ret_key, struct refusal *refusal)
{
    enum status status = STATUS_OK;
    int out = -1;
    pid_t child = start_command(command, &out);
    int how = 0;
    ssize_t count;

    if (child < 0)
        return refuse(refusal, STATUS_IO, "the command for the master key cannot be started: %s", strerror(errno));
    count = read_text(out, text, COMMAND_MS);
    if (count < 0) {
        status = refuse(refusal, STATUS_IO, "the command for the master key: %s", strerror(errno));
        kill(child, SIGKILL);
    }
    close(out);
    while (waitpid(child, &how, 0) < 0 && errno == EINTR)
        continue;
    if (status == STATUS_OK && !(WIFEXITED(how) && WEXITSTATUS(how) == 0))
        status = refuse(refusal, STATUS_IO, "the command for the master key failed (exit code %d)",
                        WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how));
    if (status != STATUS_OK)
        return status;
    return parse_key(text, (size_t)count, "what the command for the master key printed", ret_key, refusal);
}

enum status master_load(const struct master_source *source, uint8_t ret_key[KEY_BYTES], struct refusal *refusal)
{
    char *text = secret_alloc(TEXT_MAX);
    enum status status;

    check((source->file != NULL) != (source->command != NULL));
    if (text == NULL)
        return refuse(refusal, STATUS_IO, "no memory for a key");
    status = source->file != NULL ? load_file(source->file, text, ret_key, refusal)
                                  : load_command(source->command, text, ret_key, refusal);
    secret_free(text);
    return status;
}

static bool write_key(int file, const char *text)
{
    return write(file, text, DIGITS + 1) == DIGITS + 1 && fsync(file) == 0;
}

/* A new name is on disk when its folder is. */
static bool sync_folder_of(const char *path)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    bool done;
    int file;

    if (length >= sizeof(folder))
        return false;
    memcpy(folder, slash == NULL ? "." : path, length);
    folder[length] = '\0';
    file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0)
        return false;
    done = fsync(file) == 0;
    close(file);
    return done;
}

enum status master_create(const char *path, struct refusal *refusal)
{
    uint8_t *key = secret_alloc(KEY_BYTES);
    char *text = secret_alloc(DIGITS + 1);
    enum status status = STATUS_OK;
    int file = -1;

    if (key == NULL || text == NULL) {
        status = refuse(refusal, STATUS_IO, "no memory for a key");
        goto free_text;
    }
    randombytes_buf(key, KEY_BYTES);
    sodium_bin2hex(text, DIGITS + 1, key, KEY_BYTES);
    text[DIGITS] = '\n';
    file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) {
        status = refuse(refusal, errno == EEXIST ? STATUS_INVALID : STATUS_IO, "%s: %s", path,
                        errno == EEXIST ? "is there already; a master key is never overwritten" : strerror(errno));
        goto free_text;
    }
    if (!write_key(file, text) || !sync_folder_of(path)) {
        status = refuse(refusal, STATUS_IO, "%s: %s", path, strerror(errno));
        unlink(path);
    }
    close(file);
free_text:
    secret_free(text);
    secret_free(key);
    return status;
}
