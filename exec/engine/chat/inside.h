/* The inside of chat templates: tokens, the tree, values, and one rendering. */
#ifndef CHAT_INSIDE_H
#define CHAT_INSIDE_H

#include "engine/chat/chat.h"

/* --- memory that goes at once --- */

struct arena_block;
struct arena {
    struct arena_block *blocks;
    size_t left; /* in the newest block */
    size_t used;
    size_t used_max; /* past which NULL is given */
};
/* Zeroed, aligned for anything; NULL: used_max is reached. */
void *arena_take(struct arena *arena, size_t bytes);
void arena_free(struct arena *arena);

struct word {
    const char *bytes;
    uint32_t count;
};
static inline bool word_is(struct word word, const char *text)
{
    return word.count == strlen(text) && memcmp(word.bytes, text, word.count) == 0;
}

/* --- tokens --- */

enum token_kind { TOKEN_END, TOKEN_DATA, TOKEN_BLOCK_BEGIN, TOKEN_BLOCK_END, TOKEN_PRINT_BEGIN, TOKEN_PRINT_END, TOKEN_NAME,
                  TOKEN_INT, TOKEN_FLOAT, TOKEN_STRING, TOKEN_OPERATOR };
struct token {
    enum token_kind kind;
    uint32_t line;
    struct word text; /* of a string: what it means */
    int64_t integer;
    double number;
};

/* Reading a template: the first mistake stays. */
struct reading {
    struct arena *arena;
    struct token *tokens;
    uint32_t tokens_count;
    uint32_t tokens_capacity;
    uint32_t at;
    uint32_t depth;
    uint32_t loops; /* around the place being read */
    bool failed;
    char *error; /* CHAT_ERROR_MAX */
};
__attribute__((format(printf, 3, 4)))
void reading_fail(struct reading *reading, uint32_t line, const char *what, ...);
void *reading_take(struct reading *reading, size_t bytes);
bool lexer_read(struct reading *reading, const char *text, size_t count);

/* --- the tree --- */

#define NODES(X)                                                                                                         \
    /* statements */                                                                                                     \
    X(DATA) X(PRINT) X(IF) X(FOR) X(SET) X(SET_BLOCK) X(MACRO) X(BREAK) X(CONTINUE)                                       \
    /* expressions */                                                                                                    \
    X(LITERAL) X(NAME) X(LIST) X(DICT) X(ATTRIBUTE) X(SUBSCRIPT) X(SLICE) X(CALL) X(FILTER) X(TEST) X(NOT) X(AND) X(OR)   \
    X(CONDITION) X(NEGATE) X(PLUS) X(ADD) X(SUBTRACT) X(MULTIPLY) X(DIVIDE) X(FLOOR) X(MODULO) X(POWER) X(CONCAT)          \
    X(EQUAL) X(UNEQUAL) X(LESS) X(LESS_EQUAL) X(GREATER) X(GREATER_EQUAL) X(IN) X(NOT_IN)

enum node_kind {
#define X(name) NODE_##name,
    NODES(X)
#undef X
};

enum value_kind { VALUE_UNDEFINED, VALUE_NONE, VALUE_BOOL, VALUE_INT, VALUE_FLOAT, VALUE_STRING, VALUE_LIST, VALUE_DICT,
                  VALUE_NAMESPACE, VALUE_LOOP, VALUE_FUNCTION, VALUE_METHOD, VALUE_MACRO };

/* Bytes of UTF-8. */
struct string {
    const char *bytes;
    uint32_t count;
    uint8_t mark;         /* of every byte, where `marks` is NULL: 1 from the request, 0 from the template */
    const uint8_t *marks; /* one a byte */
};

struct value {
    enum value_kind kind;
    union {
        bool truth;
        int64_t integer;
        double number;
        struct string string;
        struct list *list;
        struct dict *dict;     /* DICT, NAMESPACE */
        struct loop *loop;
        const struct function *function;
        struct method *method;
        struct macro *macro;
        struct word missing;   /* UNDEFINED: what was asked for */
    };
};

struct node {
    enum node_kind kind;
    uint32_t line;
    struct word name;    /* NAME, ATTRIBUTE, FILTER, TEST, MACRO, DATA (the text), a keyword argument's */
    struct value value;  /* LITERAL */
    struct node *a;      /* see the reader of each kind */
    struct node *b;
    struct node *c;
    struct node *d;
    struct node *list;   /* arguments, items, a body */
    struct node *other;  /* a second list: the body of else */
    struct node *next;   /* in a list */
    bool is_tuple;       /* LIST */
};

struct chat_template {
    struct arena arena;
    struct node *body;
};

/* What nests deeper is refused, when it is read or when it runs. */
enum { CHAT_DEPTH_MAX = 200 };

struct node *parse_template(struct reading *reading);
/* parse.c for statements, expression.c for these */
struct node *parse_expression(struct reading *reading, bool with_condition);
struct node *parse_primary(struct reading *reading);
struct node *node_make(struct reading *reading, enum node_kind kind, uint32_t line);
const struct token *reading_token(const struct reading *reading);
bool reading_is(const struct reading *reading, enum token_kind kind, const char *text);
bool reading_accept(struct reading *reading, enum token_kind kind, const char *text);
bool reading_expect(struct reading *reading, enum token_kind kind, const char *text);

/* --- running --- */

struct list {
    uint32_t count;
    bool is_tuple; /* prints in parentheses */
    struct value *items;
};

struct pair {
    struct string key;
    struct value value;
};
struct dict {
    uint32_t count;
    uint32_t capacity;
    struct pair *pairs; /* in the order they came */
};

struct loop {
    const struct list *items;
    uint32_t index;
    uint32_t depth;
};

struct variable {
    struct word name;
    struct value value;
    struct variable *next;
};
struct frame {
    struct variable *variables;
    struct frame *parent;
};

struct macro {
    const struct node *node;
    struct frame *frame; /* where it was defined */
};

enum { ARGUMENTS_MAX = 24 };
struct arguments {
    uint32_t count;
    uint32_t named_count;
    struct value values[ARGUMENTS_MAX];
    struct word names[ARGUMENTS_MAX]; /* of the last named_count values; those before have none */
};

struct run {
    struct arena arena;
    uint32_t steps;
    uint32_t depth;
    uint32_t loops;
    uint32_t line; /* of what is being done */
    bool failed;
    bool broken;   /* break or continue is under way */
    bool continues;
    enum status status;
    char *error;
    int64_t now_s;
    struct frame *frame;
    struct chat_text *out;
};

/* False, always; the first mistake stays. */
__attribute__((format(printf, 2, 3)))
bool run_fail(struct run *run, const char *what, ...);
/* False: no more steps are left. */
bool run_step(struct run *run, size_t steps);
void *run_take(struct run *run, size_t bytes);

/* string.c */
struct string string_of(const char *text);
struct string string_of_word(struct word word);
struct string string_part(struct string string, size_t from, size_t count);
struct string string_join(struct run *run, struct string left, struct string right);
bool string_equal(struct string left, struct string right);
int string_compare(struct string left, struct string right);
/* Where `part` is at `from` or later; SIZE_MAX: nowhere. */
size_t string_find(struct run *run, struct string string, struct string part, size_t from);
/* sides: 1 left, 2 right; characters NULL: white space */
struct string string_strip(struct string string, const struct string *characters, unsigned sides);
size_t string_length(struct string string);       /* in characters */
size_t string_offset(struct string string, size_t character); /* its first byte; count when there is none */
/* Growing, in the run's memory; marks are kept once any byte has one. */
struct builder {
    struct run *run;
    char *bytes;
    uint8_t *marks;
    size_t count;
    size_t capacity;
};
void builder_add(struct builder *builder, struct string string);
void builder_add_text(struct builder *builder, const char *text);
struct string builder_string(const struct builder *builder);
void chat_text_add(struct chat_text *text, struct string string);

/* value.c */
struct value value_undefined(struct word name);
struct value value_none(void);
struct value value_bool(bool truth);
struct value value_int(int64_t integer);
struct value value_string(struct string string);
struct value value_list(struct run *run, uint32_t count); /* of none */
struct value value_pair(struct run *run, struct value first, struct value second); /* a tuple */
bool value_truth(struct value value);
bool value_equal(struct run *run, struct value left, struct value right, uint32_t depth);
/* ret_order: -1, 0, 1; false: these have no order, which has been said. */
bool value_order(struct run *run, struct value left, struct value right, int *ret_order);
bool value_contains(struct run *run, struct value whole, struct value part);
const char *value_kind_text(struct value value);
/* What {{ }} prints, as Python's str(). */
struct string value_text(struct run *run, struct value value);
/* A list of what a loop walks: items, characters, keys. NULL: it cannot be walked, which has been said. */
const struct list *value_items(struct run *run, struct value value);
const struct value *dict_find(struct run *run, const struct dict *dict, struct string key);
void dict_set(struct run *run, struct dict *dict, struct string key, struct value value);
struct dict *dict_make(struct run *run, uint32_t capacity);
const char *number_repr(double number, char ret_text[40]);

/* json.c */
struct value value_of_json(struct run *run, const json_t *json, uint32_t depth);
void json_write(struct builder *builder, struct value value, int indent, uint32_t depth);
/* Python's repr(), which a printed list or dict consists of. */
void repr_write(struct builder *builder, struct value value, uint32_t depth);

/* evaluate.c */
struct value evaluate(struct run *run, const struct node *node);
bool evaluate_arguments(struct run *run, const struct node *list, struct arguments *arguments);
struct value value_attribute(struct run *run, struct value value, struct word name);
struct value value_item(struct run *run, struct value value, struct value key);
/* execute.c */
void execute(struct run *run, const struct node *body);
struct value variable_get(struct run *run, struct word name);
void variable_set(struct run *run, struct word name, struct value value);
struct value macro_call(struct run *run, const struct macro *macro, const struct arguments *arguments);

/* Filters, tests, functions and methods are tables of these. `self` of a function is nothing. */
typedef struct value function_call(struct run *run, struct value self, const struct arguments *arguments);
struct function {
    const char *name;
    uint8_t arguments_max;
    function_call *call;
};
struct method {
    const struct function *function;
    struct value self;
};
/* Methods of strings that are filters too. */
function_call string_upper, string_lower, string_title, string_words, string_capitalize, string_replace, string_join_list;
/* NULL: there is none of the name. */
const struct function *filter_find(struct word name);
const struct function *test_find(struct word name);
const struct function *function_find(struct word name);
const struct function *method_find(enum value_kind kind, struct word name);
struct value function_run(struct run *run, const struct function *function, struct value self, const struct arguments *arguments);
/* By name or by place (0 is the first); NULL: it was not given. */
const struct value *argument(const struct arguments *arguments, uint32_t place, const char *name);
/* A string that was given; false: another kind, which has been said. */
bool argument_string(struct run *run, const struct arguments *arguments, uint32_t place, const char *name, struct string *ret_string);
bool argument_int(struct run *run, const struct arguments *arguments, uint32_t place, const char *name, int64_t fallback, int64_t *ret);

#endif
