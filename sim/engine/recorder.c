#include "engine/recorder.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"

struct recorder {
    FILE *file;
    uint64_t chain;
    size_t event_bytes;
    bool failed;
    char path[512];
};

enum status recorder_open(const char *directory, const char *noun, struct journal_header *header, FILE *errors,
                          struct recorder **ret_recorder)
{
    struct recorder *recorder = calloc(1, sizeof(*recorder));

    check(recorder != NULL);
    snprintf(recorder->path, sizeof(recorder->path), "%s/%s-%04u.journal", directory, noun, header->core_index);
    recorder->file = fopen(recorder->path, "wbx");
    if (recorder->file == NULL) {
        fprintf(errors, "berth-sim: cannot create the journal %s: %s%s\n", recorder->path, strerror(errno),
                errno == EEXIST ? "; name a new folder, or remove the old one" : "");
        free(recorder);
        return STATUS_IO;
    }
    journal_header_seal(header);
    recorder->chain = header->checksum;
    recorder->event_bytes = header->event_bytes;
    recorder->failed = fwrite(header, sizeof(*header), 1, recorder->file) != 1;
    *ret_recorder = recorder;
    return STATUS_OK;
}

void recorder_write(struct recorder *recorder, const void *event, uint64_t digest, const void *commands, size_t commands_bytes)
{
    struct journal_tail tail;

    journal_seal(&recorder->chain, event, recorder->event_bytes, digest, hash_bytes(0, commands, commands_bytes), &tail);
    if (fwrite(event, recorder->event_bytes, 1, recorder->file) != 1 || fwrite(&tail, sizeof(tail), 1, recorder->file) != 1)
        recorder->failed = true;
}

enum status recorder_close(struct recorder *recorder, FILE *errors)
{
    enum status status = STATUS_OK;

    if (recorder == NULL)
        return STATUS_OK;
    if (fclose(recorder->file) != 0 || recorder->failed) {
        fprintf(errors, "berth-sim: the journal %s could not be written whole: is the disk full?\n", recorder->path);
        status = STATUS_IO;
    }
    free(recorder);
    return status;
}
