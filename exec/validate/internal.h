/* The inside of validate/, for its own files only. */
#ifndef VALIDATE_INTERNAL_H
#define VALIDATE_INTERNAL_H

#include "validate/tree.h"
#include "validate/twins.h"
#include "validate/validate.h"

#define MESSAGES_MAX 1024  /* of a chat; the trainer's bound */
#define TOOLS_MAX 1024
#define BATCH_LINES_MAX 64 /* that go through the model at once */
#define BATCH_BYTES_MAX (256 << 10)
#define MARKS_MAX 4096     /* spellings of a model's control tokens */

/* Which kind of example a line is. The first four can be trained on. */
enum format { FORMAT_CHAT, FORMAT_PAIR, FORMAT_PREFERENCE, FORMAT_CHOICE, FORMAT_SHAREGPT, FORMAT_RENAMED, FORMAT_UNKNOWN, FORMAT_COUNT };

/* What the lines before mean for the next one. */
enum stage {
    STAGE_LINES,       /* each is an example */
    STAGE_FRAGMENTS,   /* one was cut in its middle: lines that do not begin with { go on with it */
    STAGE_FOREIGN,     /* the first was no JSON: until one begins with {, none is */
    STAGE_OVER,        /* the rest cannot be understood */
};

struct batch {
    char *text;
    size_t count;
    size_t capacity;
    int32_t lines[BATCH_LINES_MAX];
    int32_t lines_count;
};

struct mark {
    const char *text;
    size_t bytes;
};
/* Spellings of control tokens, by their first byte. */
struct marks {
    struct mark *mark;
    uint32_t count;
    uint8_t firsts[256]; /* bytes that begin one, each once */
    uint32_t firsts_count;
};

enum role { ROLE_SYSTEM, ROLE_DEVELOPER, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL, ROLE_FUNCTION, ROLE_UNKNOWN };
struct message {
    enum role role;
    uint32_t node;
    uint32_t calls;            /* its list of calls, or NONE_INDEX: it has none */
    bool learned;
};

struct validator {
    struct validate_config config;
    const struct validator *validation;
    bool chats;                /* supervised examples are chats, not pairs */

    struct validate_issue *issues;
    size_t issues_count;
    size_t issues_capacity;
    int64_t counts[VALIDATE_CODE_COUNT];
    struct validate_statistics statistics;

    /* The stream. */
    char *carry;               /* a line that is not whole yet */
    size_t carry_count;
    size_t carry_capacity;
    int64_t line_bytes;        /* of this line, what was dropped of a long one too */
    enum stage stage;
    bool confused;             /* how many examples the file has is not known */
    int32_t line;
    int32_t first_line;        /* that is not blank; 0: none yet */
    int32_t blank_from;        /* a run of blank lines that is not told yet; 0: none */
    int32_t blank_until;
    int32_t array_line;        /* the first line, when it is a whole array and nobody knows yet what for; 0: is not */
    int32_t cut_line;          /* that ended too early, the last that was read; 0: it did not */
    size_t cut_issue;          /* SIZE_MAX: not kept */
    bool cut_in_text;
    int32_t cut_column;

    /* The line. */
    const char *text;
    size_t text_bytes;
    struct tree tree;
    struct tree inner;         /* of arguments, which are JSON in a text */
    int64_t line_errors;
    struct message messages[MESSAGES_MAX];

    /* The set. */
    enum format format;        /* of the first example that can be trained on; FORMAT_UNKNOWN: none yet */
    int64_t foreign[FORMAT_COUNT];  /* lines of a kind that is not wanted */
    size_t foreign_issue[FORMAT_COUNT]; /* what was said of the first of them */
    struct twins examples;
    struct twins prompts;
    uint64_t answer;           /* hash of the first assistant's message; 0: none yet */
    bool answers_differ;
    int64_t identical;         /* preferences whose sides are equal */
    struct marks marks;
    struct batch batch;
};

/* --- issues.c --- */

#define NO_COLUMN SIZE_MAX
/* Of the line that is being read, at the byte `at`; the path is that of `node`, or NONE_INDEX. Returns its index in issues, SIZE_MAX: it is
 * only counted. */
size_t issue_at(struct validator *validator, enum validate_code code, size_t at, uint32_t node, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Only counts it. False: it is to be said, which may take a search for a path or a near name. */
bool issue_beyond(struct validator *validator, enum validate_code code);
/* At a value; at a value's key. */
#define issue_node(validator, code, node, ...) issue_at(validator, code, (validator)->tree.nodes[node].at, node, __VA_ARGS__)
#define issue_key(validator, code, node, ...) issue_at(validator, code, (validator)->tree.nodes[node].key_at, node, __VA_ARGS__)
/* Of another line; 0: of the file. */
size_t issue_line(struct validator *validator, enum validate_code code, int32_t line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Says it in other words; SIZE_MAX is fine. */
void issue_rewrite(struct validator *validator, size_t index, const char *hint, const char *format, ...) __attribute__((format(printf, 4, 5)));
void issues_sort(struct validator *validator);

/* --- lines that are no JSON --- */

void syntax_fault(struct validator *validator, enum tree_fault fault);
/* A line behind one that was cut, which goes on with it; and the file's end. */
void syntax_fragment(struct validator *validator);
void syntax_end(struct validator *validator);
/* What the scanner finds wrong and reads over. */
void soft_fault(void *context, enum tree_soft fault, uint32_t at, uint32_t node);

/* --- lines that are --- */

/* The line's tree is an object. */
void example_check(struct validator *validator);
/* The file's end: how many lines were of kinds that are not wanted. */
void example_end(struct validator *validator);

/* --- what an example is made of --- */

/* A list of messages, into validator->messages, of which it returns the number; 0: there are none. ret_known: all are objects with a role, so
 * that the order of turns can be looked at. `field` is the list's name. */
uint32_t messages_check(struct validator *validator, uint32_t list, const char *field, bool *ret_known);
struct message message_check(struct validator *validator, uint32_t node);
/* Its content, if that is an empty text and it calls nothing either; NONE_INDEX: it says something. */
uint32_t message_empty(const struct validator *validator, const struct message *message);
const char *role_name(enum role role);
void chat_check(struct validator *validator, uint32_t root);
/* Warnings about the order of the turns in validator->messages. */
void turns_check(struct validator *validator, uint32_t count);
void preference_check(struct validator *validator, uint32_t root, enum format format);
/* `tools` may be NONE_INDEX. */
void tools_check(struct validator *validator, uint32_t tools);
/* Of the first `count` of validator->messages. */
void calls_check(struct validator *validator, uint32_t count, uint32_t tools);
/* Which keys an object may have; `names` ends in NULL. */
void keys_check(struct validator *validator, uint32_t object, const char *const *names);
const char *kind_name(enum tree_kind kind);

/* --- text that spells a control token --- */

void marks_open(struct marks *marks, const struct tokenizer *tokenizer);
void marks_close(struct marks *marks);
void marks_check(struct validator *validator, uint32_t node);

/* --- the set --- */

/* Hashes of a value: equal for values that say the same; with `loosely` also where only whitespace in texts differs. */
uint64_t value_hash(const struct tree *tree, uint32_t node, bool loosely);
void set_add(struct validator *validator, uint32_t root, enum format format);
void set_end(struct validator *validator);

/* --- with a model --- */

void tokens_add(struct validator *validator);
void tokens_flush(struct validator *validator);

#endif
