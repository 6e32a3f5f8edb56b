/* What the files that read PEFT adapters share. */
#ifndef LORA_INTERNAL_H
#define LORA_INTERNAL_H

#include <jansson.h>

#include "engine/lora/peft.h"
#include "engine/model/weights.h"

/* The faults of one adapter, all of which are told, up to a number. */
struct faults {
    const char *shown; /* the folder */
    uint32_t count;
    struct refusal *refusal;
};
#define FAULTS_NAMED_MAX 12
#define fault(faults, ...) \
    ((faults)->count++ < FAULTS_NAMED_MAX ? (void)refuse_also((faults)->refusal, STATUS_INVALID, __VA_ARGS__) : (void)0)

/* adapter_config.json, as far as it changes numbers. */
struct peft_config {
    int32_t rank;
    double alpha;
    bool rslora;
    const json_t *targets;       /* string or list of strings */
    const json_t *excluded;      /* list of strings; NULL */
    const json_t *layers;        /* whole number or list of them; NULL: all */
    const json_t *rank_pattern;  /* objects; NULL: none */
    const json_t *alpha_pattern;
    bool usable;                 /* what stands above is of the right kinds */
};

/* Plain fields; what is wrong with them is told. */
void peft_config_read(const json_t *root, struct faults *faults, struct peft_config *ret_config);

/* Which modules an adapter changes, with what rank and alpha: by the rules of PEFT. */
struct peft_choice {
    bool chosen;
    int32_t rank;
    double alpha;
};
/* ret_choice: [layers][LORA_MODULE_COUNT]. */
void peft_choose(const struct peft_config *config, const struct dims *dims, struct faults *faults, struct peft_choice *ret_choice);

#endif
