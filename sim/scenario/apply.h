/* Layers of a scenario, one over the other, into a draft: the file, a variant, the settings of the command line. */
#ifndef SCENARIO_APPLY_H
#define SCENARIO_APPLY_H

#include "scenario/document.h"
#include "scenario/scenario.h"
#include "scenario/table.h"

struct layers {
    const struct document *document;
    struct fy_node *variant;            /* overrides; NULL: none */
    struct location variant_at;
    const char *const *settings;        /* "key=value" [settings_count] */
    const struct text *setting_texts;   /* their labels, for messages */
    uint32_t settings_count;
};

/* Later layers win. What is wrong goes to messages; the draft is usable only if there was no error. */
void layers_apply(const struct layers *layers, struct messages *messages, struct draft *ret_draft);

/* The variants of a file: name after name, in its order. */
struct variant_list {
    struct fy_node *overrides[VARIANTS_MAX];
    struct location at[VARIANTS_MAX];
    const char *names[VARIANTS_MAX]; /* not terminated */
    size_t names_count[VARIANTS_MAX];
    uint32_t count;
};
void variants_find(const struct document *document, struct messages *messages, struct variant_list *ret_list);

#endif
