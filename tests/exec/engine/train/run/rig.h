/* Runs of a tiny model in a folder of their own. */
#ifndef TESTS_TRAIN_RUN_RIG_H
#define TESTS_TRAIN_RUN_RIG_H

#include "engine/train/run/run.h"
#include "exec/scratch.h"
#include "support.h"

#define STEPS 20 /* 5 epochs of 4 */

struct world {
    struct scratch scratch;
    struct model *model;
    struct tokenizer *tokenizer;
    struct data_set *data;
    struct data_set *validation;
    struct run_config run;
    struct run_outcome outcome;
    struct refusal refusal;
    char out[512];
    char checkpoints[560];
    char heard[4096];           /* what was said */
    volatile sig_atomic_t stop;
    int64_t stop_after;         /* steps; 0: never */
    int64_t steps;              /* heard of */
    struct run_step first, last;
    int64_t saves;              /* likewise */
    struct run_saved saved;     /* the last */
};

int64_t now_ns(void);
/* 5 epochs of 7 pairs, two a step, on one thread; nothing is written before the end. */
struct world *world_new(void);
void world_free(struct world *world);
/* Samples of these lines, in the form that the run's method wants. */
struct data_set *set_of(struct world *world, const char *text);
/* The world's lines, and some that contradict them. */
extern const char pairs[];
extern const char against[];
/* Where the next run's adapter goes, and its checkpoints. */
void name_out(struct world *world, const char *name);
enum status train(struct world *world);
/* An undisturbed run, to "plain". */
void plain_run(struct world *world);
bool is_there(struct world *world, const char *name);
/* free() it. */
char *bytes_of(struct world *world, const char *folder, const char *name, int64_t *ret_bytes);
/* Fails unless adapter, config and losses are alike, to the byte. */
void same(struct world *world, const char *a, const char *b);
/* A child trains and is killed somewhere, again and again, until it comes through; the times killed. The run should checkpoint often. */
int kill_until_done(struct world *world, int64_t wait_most_ns, uint64_t seed, uint64_t *draws);

#endif
