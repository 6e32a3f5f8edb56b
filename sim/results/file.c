/* The results file: made under a temporary name beside its own, renamed when closed in good order, removed otherwise.
 * HDF5 must not print for itself: what it says of a failure is put into our sentence. A file that could not be written
 * is not closed either: HDF5 1.10 frees half of it, and then reads it again when the process ends. It stays open until
 * then, without a name, and HDF5's own end-of-process work is turned off, since all else is closed by hand. */
#include "results/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "results/attributes.h"
#include "host/version.h"

void results_file_fail(struct results_file *file, const char *what)
{
    char reason[256];

    if (file->failed)
        return;
    attribute_error_text(reason, sizeof(reason));
    file->failed = true;
    snprintf(file->message, sizeof(file->message), "cannot write %s: %s", what, reason);
}

void results_file_report(struct results_file *file, FILE *errors)
{
    if (!file->failed || file->reported)
        return;
    file->reported = true;
    fprintf(errors, "%s: %s\n", file->path, file->message);
}

hid_t results_group_create(hid_t parent, const char *name)
{
    hid_t plist = H5Pcreate(H5P_GROUP_CREATE);
    hid_t group = H5I_INVALID_HID;

    if (H5Pset_obj_track_times(plist, false) >= 0)
        group = H5Gcreate2(parent, name, H5P_DEFAULT, plist, H5P_DEFAULT);
    H5Pclose(plist);
    return group;
}

void results_group_name(const char *variant, char *ret_name, size_t bytes)
{
    snprintf(ret_name, bytes, "%s", variant[0] != '\0' ? variant : "default");
    for (char *c = ret_name; *c != '\0'; c++)
        if (*c == '/')
            *c = '_';
    if (strcmp(ret_name, ".") == 0)
        *ret_name = '_';
}

/* The name is taken with open(), whose errno is plainer than HDF5's story of it, and so that two runs never share one. */
static enum status temporary_take(const char *path, const char *temporary_path, FILE *errors)
{
    struct stat there;
    int descriptor;

    if (stat(path, &there) == 0 && S_ISDIR(there.st_mode)) {
        fprintf(errors, "%s: cannot create the results file: it is a directory\n", path);
        return STATUS_IO;
    }
    descriptor = open(temporary_path, O_CREAT | O_EXCL | O_WRONLY, 0666);
    if (descriptor < 0) {
        fprintf(errors, "%s: cannot create the results file: %s\n", path, strerror(errno));
        return STATUS_IO;
    }
    close(descriptor);
    return STATUS_OK;
}

static hid_t h5_create(const char *temporary_path)
{
    hid_t creation = H5Pcreate(H5P_FILE_CREATE);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    hid_t file = H5I_INVALID_HID;

    /* Nobody else knows the temporary name, and many network file systems cannot lock. */
    if (H5Pset_obj_track_times(creation, false) >= 0 && H5Pset_file_locking(access, false, true) >= 0 &&
        H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) >= 0)
        file = H5Fcreate(temporary_path, H5F_ACC_TRUNC, creation, access);
    H5Pclose(access);
    H5Pclose(creation);
    return file;
}

static bool head_write(struct results_file *file, const char *format, const char *scenario_text, uint64_t seed)
{
    file->variants = results_group_create(file->file, "variants");
    return file->variants >= 0 && attribute_text(file->file, "format", format) &&
           attribute_text(file->file, "berth_version", BERTH_VERSION) &&
           attribute_text(file->file, "scenario", scenario_text) && attribute_u64(file->file, "seed", seed);
}

static void file_free(struct results_file *file)
{
    free(file->path);
    free(file->temporary_path);
    free(file);
}

enum status results_file_create(const char *path, const char *scenario_text, uint64_t seed, FILE *errors,
                                struct results_file **ret_file)
{
    return results_file_create_as("berth-results-1", path, scenario_text, seed, errors, ret_file);
}

enum status results_file_create_as(const char *format, const char *path, const char *scenario_text, uint64_t seed, FILE *errors,
                                   struct results_file **ret_file)
{
    struct results_file *file = calloc(1, sizeof(*file));
    const size_t temporary_bytes = strlen(path) + 32;
    enum status status;

    check(file != NULL);
    (void)H5dont_atexit(); /* refused, harmlessly, the second time */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    file->path = malloc(strlen(path) + 1);
    file->temporary_path = malloc(temporary_bytes);
    check(file->path != NULL && file->temporary_path != NULL);
    memcpy(file->path, path, strlen(path) + 1);
    snprintf(file->temporary_path, temporary_bytes, "%s.part%ld", path, (long)getpid());

    status = temporary_take(path, file->temporary_path, errors);
    if (status != STATUS_OK)
        goto free_file;
    status = STATUS_IO;
    file->file = h5_create(file->temporary_path);
    if (file->file < 0) {
        results_file_fail(file, "the results file");
        goto remove_temporary;
    }
    if (!head_write(file, format, scenario_text, seed)) {
        results_file_fail(file, "the head of the results file");
        goto remove_temporary;
    }
    *ret_file = file;
    return STATUS_OK;

remove_temporary:
    results_file_report(file, errors);
    unlink(file->temporary_path);
free_file:
    file_free(file);
    return status;
}

void results_file_abandon(struct results_file *file)
{
    if (file == NULL)
        return;
    file->failed = true;
    file->reported = true;
    (void)results_file_close(file, true, stderr);
}

enum status results_file_close(struct results_file *file, bool partial, FILE *errors)
{
    enum status status;

    check(file->open_count == 0);
    if (!file->failed && !attribute_u8(file->file, "partial", partial))
        results_file_fail(file, "the end of the results file");
    if (!file->failed && H5Fflush(file->file, H5F_SCOPE_LOCAL) < 0)
        results_file_fail(file, "what was gathered");
    if (!file->failed && (H5Gclose(file->variants) < 0 || H5Fclose(file->file) < 0))
        results_file_fail(file, "the end of the results file");
    if (!file->failed && rename(file->temporary_path, file->path) != 0) {
        file->failed = true;
        snprintf(file->message, sizeof(file->message), "cannot be put in place: %s", strerror(errno));
    }
    results_file_report(file, errors);
    if (file->failed)
        unlink(file->temporary_path);
    status = file->failed ? STATUS_IO : STATUS_OK;
    file_free(file);
    return status;
}
