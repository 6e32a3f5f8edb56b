#include "engine/train/run/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/files/file.h"

#define KEPT 2
#define SEEN_MAX 64
#define NAME "step-%012lld.checkpoint"
#define NAME_MAX_BYTES 64

_Static_assert(sizeof(struct checkpoint_head) == 16 + 8 + 32 + 3 * DIGEST_BYTES + sizeof(struct run_settings) + 48, "no holes in a file");
_Static_assert(sizeof(struct run_settings) % 8 == 0 && sizeof(struct run_row) == 32, "no holes in a file");

/* --- the folder ------------------------------------------------------------------------------------------------------------- */

enum status checkpoint_folder_open(const char *path, struct checkpoint_folder *ret_folder, struct refusal *refusal)
{
    struct checkpoint_folder folder = {.path = path};

    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return refuse(refusal, STATUS_IO, "%s: cannot be made: %s", path, strerror(errno));
    folder.file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder.file < 0)
        return refuse(refusal, STATUS_IO, "%s: %s", path, strerror(errno));
    if (flock(folder.file, LOCK_EX | LOCK_NB) != 0) {
        close(folder.file);
        return refuse(refusal, STATUS_INVALID, "%s: another run keeps its checkpoints there", path);
    }
    *ret_folder = folder;
    return STATUS_OK;
}

/* Steps of the checkpoints that are there, the newest first. Halves that a killed run has left are removed. */
static uint32_t list(const struct checkpoint_folder *folder, int64_t *ret_steps)
{
    DIR *directory = opendir(folder->path);
    struct dirent *entry;
    uint32_t count = 0;

    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        long long step = 0;
        char name[NAME_MAX_BYTES];
        uint32_t at = count;

        if (sscanf(entry->d_name, "step-%lld.checkpoint", &step) != 1 || step < 0)
            continue;
        snprintf(name, sizeof(name), NAME, step);
        if (strncmp(entry->d_name, name, strlen(name)) != 0)
            continue;
        if (entry->d_name[strlen(name)] != '\0') {
            unlinkat(folder->file, entry->d_name, 0);
            continue;
        }
        if (count == SEEN_MAX)
            continue;
        for (; at > 0 && ret_steps[at - 1] < step; at--)
            ret_steps[at] = ret_steps[at - 1];
        ret_steps[at] = step;
        count++;
    }
    if (directory != NULL)
        closedir(directory);
    return count;
}

static void remove_but(const struct checkpoint_folder *folder, uint32_t kept)
{
    int64_t steps[SEEN_MAX];
    const uint32_t count = list(folder, steps);
    char name[NAME_MAX_BYTES];

    for (uint32_t i = kept; i < count; i++) {
        snprintf(name, sizeof(name), NAME, (long long)steps[i]);
        unlinkat(folder->file, name, 0);
    }
}

void checkpoint_folder_clear(const struct checkpoint_folder *folder)
{
    remove_but(folder, 0);
}

void checkpoint_folder_close(struct checkpoint_folder *folder, bool all)
{
    if (folder->file < 0)
        return;
    if (all)
        remove_but(folder, 0);
    if (all)
        rmdir(folder->path); /* stays when somebody has put something there */
    close(folder->file);
    folder->file = -1;
}

/* --- writing ---------------------------------------------------------------------------------------------------------------- */

int64_t checkpoint_bytes(const struct checkpoint_head *head)
{
    return (int64_t)sizeof(*head) + head->step * (int64_t)sizeof(struct run_row) + 4 * head->parameters * (int64_t)sizeof(float) + DIGEST_BYTES;
}

/* What goes on also goes into the digest. */
struct summed {
    checkpoint_put *put;
    void *context;
    EVP_MD_CTX *digest;
};

static enum status put(const struct summed *summed, const void *data, int64_t bytes, struct refusal *refusal)
{
    check(EVP_DigestUpdate(summed->digest, data, (size_t)bytes) == 1);
    return summed->put(summed->context, data, bytes, refusal);
}

static enum status put_all(const struct summed *summed, const struct checkpoint *checkpoint, struct refusal *refusal)
{
    const struct checkpoint_head *head = &checkpoint->head;
    const int64_t bytes = head->parameters * (int64_t)sizeof(float);
    enum status status = put(summed, head, sizeof(*head), refusal);

    if (status == STATUS_OK && head->step > 0)
        status = put(summed, checkpoint->rows, head->step * (int64_t)sizeof(struct run_row), refusal);
    for (int i = 0; i < 3 && status == STATUS_OK; i++)
        status = put(summed, checkpoint->state[i], bytes, refusal);
    return status == STATUS_OK ? put(summed, checkpoint->best, bytes, refusal) : status;
}

enum status checkpoint_write(const struct checkpoint *checkpoint, checkpoint_put *put_piece, void *context, struct refusal *refusal)
{
    const struct summed summed = {put_piece, context, EVP_MD_CTX_new()};
    uint8_t sum[DIGEST_BYTES];
    enum status status;

    check(summed.digest != NULL);
    check(EVP_DigestInit_ex(summed.digest, EVP_sha256(), NULL) == 1);
    status = put_all(&summed, checkpoint, refusal);
    check(EVP_DigestFinal_ex(summed.digest, sum, NULL) == 1);
    EVP_MD_CTX_free(summed.digest);
    return status == STATUS_OK ? put_piece(context, sum, sizeof(sum), refusal) : status;
}

static enum status put_in_file(void *context, const void *data, int64_t bytes, struct refusal *refusal)
{
    return file_put(context, data, (size_t)bytes, refusal);
}

enum status checkpoint_save(const struct checkpoint_folder *folder, const struct checkpoint *checkpoint, struct refusal *refusal)
{
    struct new_file file;
    char path[4096];
    enum status status;

    snprintf(path, sizeof(path), "%.4000s/" NAME, folder->path, (long long)checkpoint->head.step);
    status = file_begin(&file, path, refusal);
    if (status != STATUS_OK)
        return status;
    status = checkpoint_write(checkpoint, put_in_file, &file, refusal);
    if (status == STATUS_OK)
        status = file_commit(&file, refusal);
    file_abandon(&file);
    if (status == STATUS_OK)
        remove_but(folder, KEPT);
    return status;
}

/* --- reading ---------------------------------------------------------------------------------------------------------------- */

static bool is_whole(const char *data, int64_t bytes)
{
    uint8_t sum[DIGEST_BYTES];

    if (bytes < (int64_t)sizeof(struct checkpoint_head) + DIGEST_BYTES || memcmp(data, CHECKPOINT_MAGIC, sizeof(CHECKPOINT_MAGIC)) != 0)
        return false;
    check(EVP_Digest(data, (size_t)bytes - DIGEST_BYTES, sum, NULL, EVP_sha256(), NULL) == 1);
    return memcmp(sum, data + bytes - DIGEST_BYTES, DIGEST_BYTES) == 0;
}

static enum status other(struct refusal *refusal, const char *shown, const char *what)
{
    return refuse_also(refusal, STATUS_INVALID, "%s: belongs to a run with another %s", shown, what);
}

/* All that differs, not only the first. */
static enum status compare(const struct checkpoint_head *mine, const struct checkpoint_head *found, const char *shown, struct refusal *refusal)
{
    enum status status = STATUS_OK;

    refusal->text[0] = '\0';
    if (memcmp(mine->base, found->base, DIGEST_BYTES) != 0)
        status = other(refusal, shown, "base");
    if (memcmp(mine->data, found->data, DIGEST_BYTES) != 0)
        status = other(refusal, shown, "data set");
    if (memcmp(mine->validation, found->validation, DIGEST_BYTES) != 0)
        status = other(refusal, shown, "validation set");
    if (mine->numerics != found->numerics)
        status = other(refusal, shown, "numerics_version");
#define X(type, name, about)                                                                    \
    if (memcmp(&mine->settings.name, &found->settings.name, sizeof(mine->settings.name)) != 0) \
        status = other(refusal, shown, about);
    RUN_SETTINGS(X)
#undef X
    if (status != STATUS_OK)
        refuse_also(refusal, status, "give what it was begun with, or --restart to begin anew");
    return status;
}

static const char *take(void *to, const char *from, int64_t bytes)
{
    memcpy(to, from, (size_t)bytes);
    return from + bytes;
}

static enum status take_all(struct checkpoint *checkpoint, const struct checkpoint_head *head, const char *data, int64_t bytes)
{
    const int64_t state = checkpoint->head.parameters * (int64_t)sizeof(float);
    const int64_t rows = head->step * (int64_t)sizeof(struct run_row);

    if (head->parameters != checkpoint->head.parameters || head->step < 0 || head->step > checkpoint->rows_max ||
        bytes != checkpoint_bytes(head))
        return STATUS_CORRUPT;
    data += sizeof(*head);
    data = take(checkpoint->rows, data, rows);
    for (int i = 0; i < 3; i++)
        data = take(checkpoint->state[i], data, state);
    take(checkpoint->best, data, state);
    checkpoint->head.step = head->step;
    checkpoint->head.updates = head->updates;
    checkpoint->head.best_step = head->best_step;
    checkpoint->head.best_loss = head->best_loss;
    checkpoint->head.stale = head->stale;
    return STATUS_OK;
}

enum status checkpoint_read(const void *data, int64_t bytes, const char *shown, struct checkpoint *checkpoint, void *listener,
                            void (*said)(void *listener, const char *text), struct refusal *refusal)
{
    const struct checkpoint_head mine = checkpoint->head;
    struct checkpoint_head head;
    char text[4400];
    enum status status;

    if (!is_whole(data, bytes)) {
        snprintf(text, sizeof(text), "%.4200s is damaged and is left aside", shown);
        said(listener, text);
        return STATUS_CORRUPT;
    }
    memcpy(&head, data, sizeof(head));
    head.computes[sizeof(head.computes) - 1] = '\0';
    status = compare(&mine, &head, shown, refusal);
    if (status == STATUS_OK)
        status = take_all(checkpoint, &head, data, bytes);
    if (status == STATUS_OK && strcmp(head.computes, mine.computes) != 0) {
        snprintf(text, sizeof(text), "%.4200s was computed by %s; going on with %s, the last bits will be others than without the change", shown,
                 head.computes, mine.computes);
        said(listener, text);
    }
    return status;
}

static enum status load_one(const struct checkpoint_folder *folder, int64_t step, struct checkpoint *checkpoint, void *listener,
                            void (*said)(void *listener, const char *text), struct refusal *refusal)
{
    char name[NAME_MAX_BYTES];
    char shown[4096];
    void *data = NULL;
    int64_t bytes = 0;
    enum status status;

    snprintf(name, sizeof(name), NAME, (long long)step);
    snprintf(shown, sizeof(shown), "%.4000s/%s", folder->path, name);
    if (file_read(folder->file, name, shown, INT64_C(1) << 40, &data, &bytes, refusal) != STATUS_OK)
        bytes = 0; /* as one that is damaged */
    status = checkpoint_read(data, bytes, shown, checkpoint, listener, said, refusal);
    free(data);
    return status;
}

enum status checkpoint_load(const struct checkpoint_folder *folder, struct checkpoint *checkpoint, void *listener,
                            void (*said)(void *listener, const char *text), struct refusal *refusal)
{
    int64_t steps[SEEN_MAX];
    const uint32_t count = list(folder, steps);
    enum status status = STATUS_NOT_FOUND;

    for (uint32_t i = 0; i < count; i++) {
        status = load_one(folder, steps[i], checkpoint, listener, said, refusal);
        if (status != STATUS_CORRUPT)
            return status;
    }
    if (status == STATUS_CORRUPT)
        return refuse(refusal, STATUS_CORRUPT, "%s: no checkpoint is whole; --restart begins anew", folder->path);
    return STATUS_NOT_FOUND;
}
