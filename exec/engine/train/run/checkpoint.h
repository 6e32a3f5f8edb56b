/* A run between two steps, in one file: what it belongs to, how far it is, every number that goes on. Written under a temporary name,
 * synced and renamed, with a SHA-256 at its end; the last two are kept, so that a damaged one leaves the one before. */
#ifndef TRAIN_RUN_CHECKPOINT_H
#define TRAIN_RUN_CHECKPOINT_H

#include "engine/train/run/run.h"

/* Of another version of the file, a checkpoint is not read. */
#define CHECKPOINT_MAGIC "berth run 3\n"

struct run_row {
    double loss;
    double accuracy;
    double valid_loss;     /* NAN: none, and no accuracy */
    double valid_accuracy;
};

/* In the file as it is here, little-endian, without holes; then rows[step], matrices, two moments and the best matrices, f32 [parameters]
 * each, and the digest of all that. */
struct checkpoint_head {
    char magic[16];
    uint64_t numerics;
    char computes[32];                 /* the set of kernels, or the device */
    uint8_t base[DIGEST_BYTES];
    uint8_t data[DIGEST_BYTES];
    uint8_t validation[DIGEST_BYTES];  /* zeros: none */
    struct run_settings settings;
    int64_t parameters;
    int64_t step;                      /* done; rows as many */
    int64_t updates;
    int64_t best_step;                 /* 0: none yet */
    int64_t stale;                     /* evaluations since the best */
    double best_loss;
};

/* Where a run is; arrays are the caller's. */
struct checkpoint {
    struct checkpoint_head head;
    struct run_row *rows;              /* [rows_max] */
    int64_t rows_max;
    float *state[3];                   /* matrices, moments: [head.parameters] */
    float *best;
};

struct checkpoint_folder {
    const char *path;
    int file;                          /* locked while it is open; -1: none */
};

/* Makes the folder if need be. INVALID: another run is in it. */
enum status checkpoint_folder_open(const char *path, struct checkpoint_folder *ret_folder, struct refusal *refusal);
/* Removes the checkpoints in it. */
void checkpoint_folder_clear(const struct checkpoint_folder *folder);
/* `all`: with the checkpoints in it. */
void checkpoint_folder_close(struct checkpoint_folder *folder, bool all);

/* Of its file. */
int64_t checkpoint_bytes(const struct checkpoint_head *head);
/* Its bytes, a piece after the other; what `put` returns other than OK ends it. */
typedef enum status checkpoint_put(void *context, const void *data, int64_t bytes, struct refusal *refusal);
enum status checkpoint_write(const struct checkpoint *checkpoint, checkpoint_put *put, void *context, struct refusal *refusal);
/* From those bytes, as checkpoint_load() does it. CORRUPT: they are no whole checkpoint. */
enum status checkpoint_read(const void *data, int64_t bytes, const char *shown, struct checkpoint *checkpoint, void *listener,
                            void (*said)(void *listener, const char *text), struct refusal *refusal);
enum status checkpoint_save(const struct checkpoint_folder *folder, const struct checkpoint *checkpoint, struct refusal *refusal);
/* The newest whole one, into the caller's arrays. checkpoint->head says what it must belong to (up to settings) and its parameters.
 * NOT_FOUND: there is none. CORRUPT: none is whole. INVALID: it belongs to another run; the refusal says by what. `said` hears of damaged ones and
 * of another set of kernels. */
enum status checkpoint_load(const struct checkpoint_folder *folder, struct checkpoint *checkpoint, void *listener,
                            void (*said)(void *listener, const char *text), struct refusal *refusal);

#endif
