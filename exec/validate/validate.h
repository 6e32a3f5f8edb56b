/* What is wrong with a file of examples, before anything is trained on it: all faults in one pass over a stream, each with line, column,
 * path, code and hint, in memory that does not grow with the file beyond a table of its examples' hashes. Stricter than the trainer, never
 * laxer: what is accepted here, data_open() takes. It reads a stranger's bytes and nothing else; it opens no file. */
#ifndef VALIDATE_VALIDATE_H
#define VALIDATE_VALIDATE_H

#include <jansson.h>
#include <stdio.h>

#include "base/histogram.h"
#include "engine/train/data/data.h"

#define VALIDATE_FILE_BYTES_MAX DATA_FILE_BYTES_MAX
#define VALIDATE_LINE_BYTES (1 << 20)                /* unless more is asked for */
#define VALIDATE_LINE_BYTES_MAX DATA_LINE_BYTES_MAX
#define VALIDATE_EXAMPLES_MIN 10
#define VALIDATE_ISSUES_MAX 100                      /* of one code are kept; the rest is counted */
#define VALIDATE_COMPARED_MAX (1 << 21)              /* examples, and prompts, that later ones are compared with */

/* Name, code, whether it rejects, what to do about it. */
#define VALIDATE_CODES(X)                                                                                                                  \
    X(FILE_EMPTY, "file_empty", ERROR, "Write one example a line, each a JSON object.")                                                    \
    X(FILE_TOO_LARGE, "file_too_large", ERROR, "Split the file, or leave examples out.")                                                   \
    X(NOT_UTF8, "not_utf8", ERROR, "Save the file again as UTF-8 without a byte order mark.")                                              \
    X(INVALID_UTF8, "invalid_utf8", ERROR, "Save the file as UTF-8; this byte is of another encoding, Latin-1 perhaps.")                   \
    X(UTF8_BOM, "utf8_bom", WARNING, "Save the file as UTF-8 without a byte order mark.")                                                  \
    X(BLANK_LINE, "blank_line", WARNING, "Nothing needs to be done.")                                                                      \
    X(NOT_JSONL, "not_jsonl", ERROR, "Write one JSON object a line: {\"messages\": [{\"role\": ..., \"content\": ...}, ...]}.")            \
    X(FILE_IS_JSON_ARRAY, "file_is_json_array", ERROR, "In jq: jq -c '.[]' FILE > FILE.jsonl")                                             \
    X(LINE_TOO_LONG, "line_too_long", ERROR, "Shorten the example, or split the chat into several.")                                       \
    X(BAD_JSON, "bad_json", ERROR, "Let a JSON library write the line.")                                                                   \
    X(NOT_AN_OBJECT, "not_an_object", ERROR, "Each line is one JSON object in braces.")                                                    \
    X(DUPLICATE_KEY, "duplicate_key", ERROR, "Keep one of the two: readers differ in which one they take.")                                \
    X(LONE_SURROGATE, "lone_surrogate", ERROR, "Write the character itself, or both halves of its pair.")                                  \
    X(NULL_CHARACTER, "null_character", ERROR, "Take \\u0000 out: it is no text.")                                                         \
    X(MISSING_MESSAGES, "missing_messages", ERROR, "An example is {\"messages\": [{\"role\": ..., \"content\": ...}, ...]}.")              \
    X(MESSAGES_NOT_LIST, "messages_not_list", ERROR, "Put the messages in [ and ].")                                                       \
    X(MESSAGES_EMPTY, "messages_empty", ERROR, "Leave the line out, or give it a user's and an assistant's message.")                      \
    X(TOO_MANY_MESSAGES, "too_many_messages", ERROR, "Split the chat into several examples.")                                              \
    X(MESSAGE_NOT_OBJECT, "message_not_object", ERROR, "A message is {\"role\": ..., \"content\": ...}.")                                  \
    X(MISSING_ROLE, "missing_role", ERROR, "Add \"role\": system, user, assistant or tool.")                                               \
    X(BAD_ROLE, "bad_role", ERROR, "Roles are system, developer, user, assistant and tool.")                                               \
    X(MISSING_CONTENT, "missing_content", ERROR, "Add \"content\": a text.")                                                               \
    X(CONTENT_TYPE, "content_type", ERROR, "Write the content as one text in quotes; join parts into one.")                                \
    X(EMPTY_CONTENT, "empty_content", WARNING, "Check that nothing was lost on the way.")                                                  \
    X(UNRECOGNIZED_KEY, "unrecognized_key", ERROR, "Rename or remove it.")                                                                 \
    X(KEY_TYPE, "key_type", ERROR, "Give it the type that the message names, or leave it out.")                                            \
    X(LEGACY_FORMAT, "legacy_format", ERROR,                                                                                               \
      "{\"messages\": [{\"role\": \"user\", \"content\": PROMPT}, {\"role\": \"assistant\", \"content\": COMPLETION}]}")                   \
    X(SHAREGPT_FORMAT, "sharegpt_format", ERROR, "Rename conversations, from and value to messages, role and content; human to user, gpt to assistant.") \
    X(RENAMED_COLUMNS, "renamed_columns", ERROR, "Make a user's message of the question and an assistant's of the answer.")                \
    X(WRONG_METHOD, "wrong_method", ERROR, "Choose the other method, or another file.")                                                    \
    X(MIXED_FORMAT, "mixed_format", ERROR, "Write all lines of a file in one format.")                                                     \
    X(NO_CHAT_TEMPLATE, "no_chat_template", ERROR, "Take a chat model, or give texts: prompt and completion, or prompt, chosen and rejected.") \
    X(NO_ASSISTANT, "no_assistant", ERROR, "End the example with the answer that is to be learned.")                                       \
    X(LAST_NOT_ASSISTANT, "last_not_assistant", ERROR, "End the example with the answer that is to be learned.")                           \
    X(CONSECUTIVE_ROLES, "consecutive_roles", WARNING, "Join the two, if they are one turn.")                                              \
    X(SYSTEM_NOT_FIRST, "system_not_first", WARNING, "Put it first.")                                                                      \
    X(NO_USER, "no_user", WARNING, "Add what is answered, if the model will be asked.")                                                    \
    X(BAD_WEIGHT, "bad_weight", ERROR, "0 leaves the message out of what is learned; 1, or no weight, learns it.")                         \
    X(WEIGHT_ON_NON_ASSISTANT, "weight_on_non_assistant", ERROR, "Remove it: only what assistants say is learned.")                        \
    X(NO_TRAINABLE_TOKENS, "no_trainable_tokens", ERROR, "Shorten what comes before the answer, or learn at least one answer.")            \
    X(TOOLS_TYPE, "tools_type", ERROR, "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": ..., \"parameters\": {...}}}]")      \
    X(TOOL_CALLS_TYPE, "tool_calls_type", ERROR,                                                                                           \
      "\"tool_calls\": [{\"id\": ..., \"type\": \"function\", \"function\": {\"name\": ..., \"arguments\": \"{...}\"}}]")                  \
    X(TOOL_CALLS_ON_NON_ASSISTANT, "tool_calls_on_non_assistant", ERROR, "Only an assistant calls tools.")                                 \
    X(TOOL_CALL_MISSING_ID, "tool_call_missing_id", ERROR, "Give each call an \"id\" that its tool message names.")                        \
    X(TOOL_ARGUMENTS_TYPE, "tool_arguments_type", ERROR, "Write the arguments as JSON inside a text: \"{\\\"x\\\": 1}\".")                 \
    X(TOOL_ARGUMENTS_NOT_JSON, "tool_arguments_not_json", ERROR, "Write the arguments as JSON inside a text; none are \"{}\".")            \
    X(UNKNOWN_TOOL_CALL_ID, "unknown_tool_call_id", ERROR, "A tool message names the \"id\" of a call in the assistant's message before it.") \
    X(TOOL_CALL_UNANSWERED, "tool_call_unanswered", ERROR, "Add the tool message with this call's id.")                                    \
    X(UNDECLARED_TOOL, "undeclared_tool", ERROR, "List the function in the example's \"tools\".")                                          \
    X(MISSING_KEY, "missing_key", ERROR, "{\"input\": {\"messages\": [...]}, \"preferred_output\": [ANSWER], \"non_preferred_output\": [ANSWER]}") \
    X(PREFERENCE_TYPE, "preference_type", ERROR, "{\"input\": {\"messages\": [...]}, \"preferred_output\": [ANSWER], \"non_preferred_output\": [ANSWER]}") \
    X(PREFERENCE_NOT_SINGLE, "preference_not_single", ERROR, "Put all turns but the answer into the input.")                               \
    X(PREFERENCE_EMPTY, "preference_empty", ERROR, "Give both answers a text.")                                                            \
    X(INPUT_ENDS_WITH_ASSISTANT, "input_ends_with_assistant", ERROR, "End the input with what both answers answer.")                       \
    X(IDENTICAL_PREFERENCE, "identical_preference", WARNING, "It is left out of training: there is nothing to prefer.")                    \
    X(SPECIAL_TOKEN_TEXT, "special_token_text", WARNING, "Take it out, unless the model is to speak of it; roles and ends of turns are written by the template.") \
    X(NOT_RENDERABLE, "not_renderable", ERROR, "The model's chat template does not take this chat.")                                       \
    X(ANSWER_CUT, "answer_cut", WARNING, "Shorten the example, or train with a longer context: that the answer ends is not learned.")      \
    X(TOO_FEW_EXAMPLES, "too_few_examples", ERROR, "50 to 100 good examples are a fair start.")                                            \
    X(TOO_MANY_EXAMPLES, "too_many_examples", ERROR, "Split the file, or leave examples out.")                                             \
    X(NOTHING_TO_PREFER, "nothing_to_prefer", ERROR, "Give at least one pair of answers that differ.")                                     \
    X(DUPLICATE_EXAMPLE, "duplicate_example", WARNING, "Leave one of them out, unless it is to count twice.")                              \
    X(CONFLICTING_ANSWERS, "conflicting_answers", WARNING, "Keep the better one, unless variety is wanted.")                               \
    X(IDENTICAL_ANSWERS, "identical_answers", WARNING, "The model will learn to say this whatever it is asked.")                           \
    X(VALIDATION_LEAK, "validation_leak", WARNING, "Leave it out of one of the two: validation should be of what was not learned.")        \
    X(VALIDATION_PROMPT_LEAK, "validation_prompt_leak", WARNING, "Leave it out of one of the two: validation should be of what was not learned.")
enum validate_code {
#define X(name, code, severity, hint) VALIDATE_##name,
    VALIDATE_CODES(X)
#undef X
    VALIDATE_CODE_COUNT
};
const char *validate_code_name(enum validate_code code);
bool validate_code_rejects(enum validate_code code);

struct validate_issue {
    enum validate_code code;
    int32_t line;              /* from 1, as an editor counts; 0: of the whole file */
    int32_t column;            /* byte in the line, from 1; 0: of the whole line */
    uint32_t order;            /* as they were found */
    char path[96];             /* "messages[1].content"; "" where there is none */
    char message[256];         /* one line of UTF-8, for a person; may quote a few words of the file */
    const char *hint;
};

struct validate_statistics {
    int64_t bytes;
    int64_t lines;
    int64_t blank_lines;
    int64_t examples;          /* lines that were meant as one */
    int64_t good;              /* without an error */
    int64_t messages;          /* of good ones, as are all below */
    int64_t assistant_messages;
    int64_t duplicates;
    int64_t duplicates_exact;
    int64_t conflicts;
    int64_t leaks;             /* also in the validation file */
    int64_t prompt_leaks;
    int64_t not_compared;      /* examples beyond VALIDATE_COMPARED_MAX */
    /* With a model. */
    int64_t samples;
    int64_t tokens;            /* of all samples, as they are cut */
    int64_t trained_tokens;
    int64_t tokens_cut;        /* that are lost */
    int64_t examples_cut;
    struct histogram example_tokens; /* before cutting */
};

struct validate_config {
    bool preferences;          /* method dpo; else supervised */
    int64_t examples_min;      /* fewer are refused; 1: a validation file */
    int64_t line_bytes_max;    /* at most VALIDATE_LINE_BYTES_MAX */
    const struct data_source *source; /* the model, with the context as tokens_max; NULL: none is looked at */
    bool any_base;             /* without a model: pairs pass too, for a base without a chat template takes them */
};

struct validator;
/* `validation` is the ended validator of the validation file, or NULL; it and what `config` points to outlive this one. */
struct validator *validator_open(const struct validate_config *config, const struct validator *validation);
/* The file's next bytes, in pieces of any size. False: nothing further will be looked at. */
bool validator_put(struct validator *validator, const void *bytes, size_t count);
/* The file's end: what can only be said of the whole is said. */
void validator_end(struct validator *validator);
void validator_close(struct validator *validator); /* NULL is fine */

/* After the end. Issues by line and column; ret_count of them are kept, and validator_count() tells all of a code. */
bool validator_accepts(const struct validator *validator);
const struct validate_issue *validator_issues(const struct validator *validator, size_t *ret_count);
int64_t validator_count(const struct validator *validator, enum validate_code code);
const struct validate_statistics *validator_statistics(const struct validator *validator);

/* What training on it would be, by the trainer's own rules for what nobody chose. */
struct validate_dry_run {
    int64_t epochs;
    int64_t batch;             /* samples a step, or pairs */
    int64_t steps;
    int64_t tokens;            /* of all epochs */
    int64_t trained_tokens;
};
/* epochs, batch: 0 is for the trainer's rule. False: there are no samples. */
bool validate_plan(const struct validator *validator, int64_t epochs, int64_t batch, struct validate_dry_run *ret_plan);

/* Issues as a list of objects, in which "file" is `file`; appended to `list`. */
void validate_issues_json(const struct validator *validator, const char *file, json_t *list);
json_t *validate_counts_json(const struct validator *validator);
json_t *validate_statistics_json(const struct validator *validator);
/* All that berth-exec validate --json says, of one file or two. json_decref() it. */
struct validate_report {
    const struct validator *training;
    const struct validator *validation; /* NULL: none */
    bool preferences;
    int32_t context;                    /* of the model that was looked at; 0: none was */
    int64_t epochs;                     /* of the dry run; 0: the trainer's rule */
    int64_t batch;
    double price;                       /* of a million tokens; 0: not known */
    double tokens_per_s;                /* likewise */
};
json_t *validate_report_json(const struct validate_report *report);
bool validate_report_accepts(const struct validate_report *report);
/* How its text is written, so that it is one wherever it is made. */
#define VALIDATE_REPORT_FORM (JSON_COMPACT | JSON_REAL_PRECISION(9))

/* Whether a file that begins so is one of preferences: by the keys of its first line that is not blank. */
bool validate_looks_preferred(const char *bytes, size_t count);

/* The issues for a person. */
void validate_print(const struct validator *validator, const char *file, FILE *out);

#endif
