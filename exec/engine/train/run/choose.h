/* What nobody chose of a run: one set of rules for the command line, the validator and the platform's trainer. */
#ifndef TRAIN_RUN_CHOOSE_H
#define TRAIN_RUN_CHOOSE_H

#include "engine/train/plan.h"
#include "engine/train/run/run.h"

#define RUN_RATE 1e-4     /* the default; times the multiplier */
#define RUN_RATE_DPO 1e-5
#define RUN_BETA 0.1

struct run_wishes {
    struct run_settings settings;  /* batch, epochs, alpha, row_tokens: 0 is for the rules */
    bool beta_chosen;
    bool mode_chosen;
    double rate;                   /* 0: the default, or fitted */
    bool rate_auto;                /* fitted to the model; refused where it cannot be */
    double rate_multiplier;        /* of the default or the fitted */
};
#define RUN_WISHES_DEFAULT \
    ((struct run_wishes){.settings = {.rank = 16, .schedule = SCHEDULE_LINEAR, .patience = 3, .clip = 1}, .rate_multiplier = 1})
/* What the platform takes where nobody chose: fitted to the model where that can be, else the default. */
double run_rate(enum run_method method, const struct model_config *model);
/* Context, beta, alpha, mode, rate; epochs and batch need the data: run_choose_data(). */
enum status run_choose(const struct run_wishes *wishes, const struct model_config *model, enum dtype dtype, struct run_settings *ret_settings,
                       struct refusal *refusal);
void run_choose_data(struct run_settings *settings, const struct data_set *data);

/* What the host has to spare, page cache included, and this group of processes may have; 0: not known. */
int64_t run_host_memory(void);

/* A base's tokenizer, and how texts become samples for such a run. `shown` is the base in messages. */
enum status run_tokenizer(const char *folder, struct tokenizer **ret_tokenizer, struct refusal *refusal);
enum status run_source(const char *shown, const struct tokenizer *tokenizer, const struct model_config *model, const struct run_settings *settings,
                       struct data_source *ret_source, struct refusal *refusal);

#endif
