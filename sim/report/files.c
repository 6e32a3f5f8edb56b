#include "report/files.h"
#include "report/report.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* False when it does not fit: such a path is refused, not cut. */
__attribute__((format(printf, 2, 0))) static bool path_format(char path[FILES_PATH_MAX], const char *format, va_list arguments)
{
    int length = vsnprintf(path, FILES_PATH_MAX, format, arguments);

    return length >= 0 && length < FILES_PATH_MAX;
}

__attribute__((format(printf, 2, 3))) static bool path_make(char path[FILES_PATH_MAX], const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    bool fits = path_format(path, format, arguments);
    va_end(arguments);
    return fits;
}

static enum status refused(FILE *errors, const char *what, const char *path)
{
    fprintf(errors, "report: cannot %s %s: %s\n", what, path, strerror(errno));
    return STATUS_IO;
}

FILE *file_create(FILE *errors, const char *format, ...)
{
    char path[FILES_PATH_MAX];
    va_list arguments;
    FILE *file;

    va_start(arguments, format);
    bool fits = path_format(path, format, arguments);
    va_end(arguments);
    errno = ENAMETOOLONG;
    file = fits ? fopen(path, "w") : NULL;
    if (file == NULL)
        refused(errors, "write", path);
    return file;
}

bool file_close(FILE *file, FILE *errors)
{
    bool failed = ferror(file) != 0;

    failed |= fclose(file) != 0;
    if (failed)
        fprintf(errors, "report: a file could not be written: %s\n", strerror(errno));
    return !failed;
}

uint64_t file_bytes(const char *format, ...)
{
    char path[FILES_PATH_MAX];
    struct stat facts;
    va_list arguments;

    va_start(arguments, format);
    bool fits = path_format(path, format, arguments);
    va_end(arguments);
    return fits && stat(path, &facts) == 0 && S_ISREG(facts.st_mode) ? (uint64_t)facts.st_size : 0;
}

static char *whole_file(const char *path)
{
    struct stat facts;
    FILE *file = fopen(path, "r");
    char *text = NULL;

    if (file == NULL)
        return NULL;
    if (fstat(fileno(file), &facts) == 0 && S_ISREG(facts.st_mode)) {
        size_t bytes = (size_t)facts.st_size;

        text = malloc(bytes + 1);
        if (text != NULL && fread(text, 1, bytes, file) == bytes) {
            text[bytes] = '\0';
        } else {
            free(text);
            text = NULL;
        }
    }
    fclose(file);
    return text;
}

char *file_read(const char *format, ...)
{
    char path[FILES_PATH_MAX];
    va_list arguments;

    va_start(arguments, format);
    bool fits = path_format(path, format, arguments);
    va_end(arguments);
    return fits ? whole_file(path) : NULL;
}

void file_quote(FILE *errors, const char *format, ...)
{
    char path[FILES_PATH_MAX];
    va_list arguments;
    char *text;

    va_start(arguments, format);
    bool fits = path_format(path, format, arguments);
    va_end(arguments);
    text = fits ? whole_file(path) : NULL;
    for (const char *line = text; line != NULL && *line != '\0';) {
        size_t length = strcspn(line, "\n");

        fprintf(errors, "    %.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
    free(text);
}

enum status script_copy(FILE *errors, const char *plots, const char *work, const char *name)
{
    char *text = file_read("%s/%s.gp", plots, name);
    FILE *out = text != NULL ? file_create(errors, "%s/data/%s.gp", work, name) : NULL;
    enum status status = STATUS_NOT_FOUND;

    if (text == NULL)
        fprintf(errors, "report: cannot read %s/%s.gp: %s\n", plots, name, strerror(errno));
    if (out != NULL) {
        fputs(text, out);
        status = file_close(out, errors) ? STATUS_OK : STATUS_IO;
    }
    free(text);
    return status;
}

static enum status folder_create(FILE *errors, const char *path)
{
    return mkdir(path, 0777) == 0 || errno == EEXIST ? STATUS_OK : refused(errors, "create the folder", path);
}

static enum status parent_create(FILE *errors, const char *directory)
{
    char parent[FILES_PATH_MAX];
    size_t length = strlen(directory);

    while (length > 1 && directory[length - 1] == '/')
        length--;
    while (length > 0 && directory[length - 1] != '/')
        length--;
    /* No slash: the parent is the current folder; only a slash: it is the root. Both are there. */
    if (length <= 1 || !path_make(parent, "%.*s", (int)length, directory))
        return STATUS_OK;
    return folder_create(errors, parent);
}

enum status report_folder(const char *directory, FILE *errors)
{
    enum status status = parent_create(errors, directory);

    return status == STATUS_OK ? folder_create(errors, directory) : status;
}

enum status work_create(FILE *errors, const char *directory, char ret_work[FILES_PATH_MAX])
{
    char data[FILES_PATH_MAX];
    enum status status = report_folder(directory, errors);

    if (status != STATUS_OK)
        return status;
    errno = ENAMETOOLONG;
    /* The margin is for the longest name below. */
    if (strlen(directory) > FILES_PATH_MAX - 512 || !path_make(ret_work, "%s/.partial-XXXXXX", directory) ||
        mkdtemp(ret_work) == NULL)
        return refused(errors, "create a folder in", directory);
    if (!path_make(data, "%s/data", ret_work) || folder_create(errors, data) != STATUS_OK) {
        work_remove(ret_work);
        return STATUS_IO;
    }
    return STATUS_OK;
}

void work_discard(const char *work, const char *name)
{
    char path[FILES_PATH_MAX];

    if (path_make(path, "%s/%s", work, name))
        unlink(path);
}

enum status work_publish(FILE *errors, const char *work, const char *directory, const char *name)
{
    char source[FILES_PATH_MAX];
    char target[FILES_PATH_MAX];

    errno = ENAMETOOLONG;
    if (!path_make(source, "%s/%s", work, name) || !path_make(target, "%s/%s", directory, name))
        return refused(errors, "move", name);
    if (access(source, F_OK) != 0)
        return unlink(target) == 0 || errno == ENOENT ? STATUS_OK : refused(errors, "remove", target);
    return rename(source, target) == 0 ? STATUS_OK : refused(errors, "move a file to", target);
}

static bool is_dots(const char *name) { return strcmp(name, ".") == 0 || strcmp(name, "..") == 0; }

enum status work_publish_data(FILE *errors, const char *work, const char *directory)
{
    char path[FILES_PATH_MAX];
    enum status status;
    DIR *folder;

    if (!path_make(path, "%s/data", directory))
        return STATUS_IO;
    status = folder_create(errors, path);
    if (!path_make(path, "%s/data", work) || (folder = opendir(path)) == NULL)
        return refused(errors, "list", path);
    for (struct dirent *entry; status == STATUS_OK && (entry = readdir(folder)) != NULL;) {
        char name[sizeof(entry->d_name) + 8];

        snprintf(name, sizeof(name), "data/%s", entry->d_name);
        if (!is_dots(entry->d_name))
            status = work_publish(errors, work, directory, name);
    }
    closedir(folder);
    return status;
}

/* Files only: the work folder has no other folder than data. */
static void folder_remove(const char *path)
{
    DIR *folder = opendir(path);

    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char file[FILES_PATH_MAX];

        if (!is_dots(entry->d_name) && path_make(file, "%s/%s", path, entry->d_name))
            unlink(file);
    }
    if (folder != NULL)
        closedir(folder);
    rmdir(path);
}

void work_remove(const char *work)
{
    char data[FILES_PATH_MAX];

    if (path_make(data, "%s/data", work))
        folder_remove(data);
    folder_remove(work);
}
