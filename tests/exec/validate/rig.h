/* A validator over texts, and what it says in one line: "1:45 bad_json; 2 missing_role messages[0]". */
#ifndef TESTS_EXEC_VALIDATE_RIG_H
#define TESTS_EXEC_VALIDATE_RIG_H

#include "validate/validate.h"

#include "support.h"

/* Room for what the tables below hold, whatever the file says. */
#define SAID_MAX 8192

struct rig {
    struct validate_config config;
    struct data_source source;
    struct tokenizer *tokenizer;
    struct validator *validator;
    char said[SAID_MAX];
};

/* A byte tokenizer and a template that takes any message; NULL: no template. */
void rig_model(struct rig *rig, const char *template, int32_t context);
extern const char rig_template[];
void rig_end(struct rig *rig);

/* What is said of a text that comes in pieces. The validator stays until the next call. */
const char *rig_take(struct rig *rig, const char *text, size_t bytes, size_t piece, const struct validator *validation);
const char *rig_said(struct rig *rig, const char *text);
/* Supervised or dpo, without a model, one example being enough. */
struct rig rig_of(bool preferences);

#endif
