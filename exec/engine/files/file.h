/* Files that others wrote, opened with care: only regular ones, never through a symbolic link in the last part of the path, never
 * longer than was said. And outputs that are there whole or not at all. */
#ifndef FILES_FILE_H
#define FILES_FILE_H

#include <jansson.h>

#include "engine/files/refusal.h"

/* `directory` is an open directory, or AT_FDCWD; `shown` is the path that messages name.
 * STATUS_NOT_FOUND: there is none. STATUS_INVALID: not a regular file, a link, too large. STATUS_IO: the rest. */
enum status file_open(int directory, const char *name, const char *shown, int *ret_file, int64_t *ret_bytes,
                      struct refusal *refusal);

/* A folder below `folder`, an open one, by a path that a stranger gave: plain names between single slashes. Each is opened in the one before and
 * no link is followed, so that what is opened lies below `folder`, whatever is renamed meanwhile. STATUS_INVALID: no such path.
 * STATUS_NOT_FOUND: no folder there, or none that may be opened: which of them is not told. */
enum status folder_open_below(int folder, const char *path, int *ret_folder, struct refusal *refusal);

/* A private copy, so that nobody can change or cut it while it is used; free() it. `ret_bytes` may be 0: the copy then
 * is not NULL. */
enum status file_read(int directory, const char *name, const char *shown, int64_t bytes_max, void **ret_data, int64_t *ret_bytes,
                      struct refusal *refusal);

/* One JSON object; duplicate keys, and anything after it, are refused. json_decref() it. */
enum status file_read_json(int directory, const char *name, const char *shown, int64_t bytes_max, json_t **ret_object,
                           struct refusal *refusal);

/* Asked now and then by those who write much; false: stop, leaving nothing. */
typedef bool file_progress(void *context, int64_t done_bytes, int64_t total_bytes);

/* Of a folder's path without the slashes at its end. */
size_t folder_path_length(const char *path);

/* A new folder that appears under its name when all of it is on disk: it is made beside it under a temporary name, and renamed.
 * A name that is taken is refused at once, unless by an empty folder. */
struct folder {
    char path[4096];
    char temporary[4096]; /* write files here */
};
enum status folder_begin(struct folder *folder, const char *path, struct refusal *refusal);
enum status folder_commit(struct folder *folder, struct refusal *refusal);
/* Removes the temporary folder and all in it; after a commit it does nothing. */
void folder_abandon(struct folder *folder);

/* A file that appears under its name when all of it is on disk; `path` is replaced if it is there, and must outlive this. */
struct new_file {
    const char *path;
    char temporary[4096];
    int file; /* -1: none open */
};
enum status file_begin(struct new_file *file, const char *path, struct refusal *refusal);
enum status file_put(struct new_file *file, const void *data, size_t bytes, struct refusal *refusal);
enum status file_commit(struct new_file *file, struct refusal *refusal); /* a failure abandons it */
void file_abandon(struct new_file *file);                                /* after a commit it does nothing */

enum status file_write(const char *path, const void *data, size_t bytes, struct refusal *refusal);

#endif
