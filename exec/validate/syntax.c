/* What is said of a line that is no JSON. */
#include "validate/internal.h"

/* "TEXT at column N TAIL." */
static const struct {
    const char *text;
    const char *tail;
    const char *hint; /* NULL: bad_json's own */
} faults[] = {
    [TREE_CUT] = {"Unexpected end of line", "", "An example is whole on one line: was it cut?"},
    [TREE_CUT_IN_TEXT] = {"Unexpected end of line inside a string", "", "Write a line break inside a text as \\n."},
    [TREE_WANTS_KEY] = {"Expected a double-quoted key", "", "Write keys in double quotes: {\"messages\": ...}."},
    [TREE_WANTS_COLON] = {"Expected ':'", "", NULL},
    [TREE_WANTS_VALUE] = {"Expected a value", "", NULL},
    [TREE_WANTS_COMMA_OR_BRACE] = {"Expected ',' or '}'", "", NULL},
    [TREE_WANTS_COMMA_OR_BRACKET] = {"Expected ',' or ']'", "", NULL},
    [TREE_UNESCAPED_QUOTE] = {"Expected ',' or '}'", " (unescaped quote inside a string?)", "Write a quote inside a text as \\\"."},
    [TREE_UNESCAPED_QUOTE_IN_LIST] = {"Expected ',' or ']'", " (unescaped quote inside a string?)", "Write a quote inside a text as \\\"."},
    [TREE_TRAILING_COMMA] = {"Trailing comma before } or ]", "", "Take the comma out."},
    [TREE_SINGLE_QUOTE] = {"Single quote where JSON wants a double one", "", "In Python, write lines with json.dumps(), not str()."},
    [TREE_NOT_A_NUMBER] = {"NaN and Infinity are not valid JSON:", "", "Leave the key out, or write a number."},
    [TREE_PYTHON_WORD] = {"Python's None, True or False, which JSON writes null, true or false,", "",
                          "In Python, write lines with json.dumps(), not str()."},
    [TREE_COMMENT] = {"A comment, which JSON does not have,", "", "Take it out."},
    [TREE_BYTE_ORDER_MARK] = {"A byte order mark inside the file", "", "Files were joined: take the mark out."},
    [TREE_BAD_NUMBER] = {"Not a number of JSON", "", "Write 7, -1, 0.5 or 1e3: no leading zeros, no lone point."},
    [TREE_NUMBER_RANGE] = {"A number out of range", "", "Whole numbers have 64 bits, others are finite doubles; quote what is larger."},
    [TREE_BAD_ESCAPE] = {"Not an escape of JSON", "", "Escapes are \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with four digits; a backslash is \\\\."},
    [TREE_TOO_DEEP] = {"JSON is nested deeper than 64 levels", "", "No example needs as many."},
    [TREE_TOO_MANY] = {"More than 131,072 values on one line", "", "Split the example."},
    [TREE_MORE_BEHIND] = {"Text after the end of the JSON object", "", "Begin a new line after each object."},
};

static size_t control_fault(struct validator *validator)
{
    static const char letters[] = "\b\f\n\r\t", names[] = "bfnrt";
    const uint32_t at = validator->tree.at;
    const unsigned char c = (unsigned char)validator->text[at];
    const char *letter = c != '\0' ? strchr(letters, c) : NULL;
    char escape[8];

    if (letter != NULL)
        snprintf(escape, sizeof(escape), "\\%c", names[letter - letters]);
    else
        snprintf(escape, sizeof(escape), "\\u%04x", c);
    return issue_at(validator, VALIDATE_BAD_JSON, at, NONE_INDEX, "Raw control character 0x%02X inside a string at column %u; write it as %s.", c,
                    at + 1, escape);
}

/* Whether what follows the object begins behind a CR: a file of CR-only line ends is one line to us. */
static bool behind_cr(const struct validator *validator)
{
    uint32_t at = validator->tree.at;

    while (at > 0 && (validator->text[at - 1] == ' ' || validator->text[at - 1] == '\t'))
        at--;
    return at > 0 && validator->text[at - 1] == '\r';
}

static void cr_fault(struct validator *validator)
{
    const uint32_t at = validator->tree.at;
    const size_t issue = issue_at(validator, VALIDATE_BAD_JSON, at, NONE_INDEX,
                                  "Text after the end of the JSON object at column %u. The file uses CR-only line endings; JSONL needs LF.", at + 1);

    if (issue != SIZE_MAX)
        validator->issues[issue].hint = "In a shell: tr '\\r' '\\n' < FILE > FILE.jsonl";
    validator->confused = true;
}

void syntax_fault(struct validator *validator, enum tree_fault fault)
{
    const uint32_t at = validator->tree.at;
    size_t issue;

    if (fault == TREE_MORE_BEHIND && behind_cr(validator)) {
        cr_fault(validator);
        return;
    }
    if (fault == TREE_CONTROL) {
        control_fault(validator);
        return;
    }
    issue = issue_at(validator, VALIDATE_BAD_JSON, at, NONE_INDEX, "%s at column %u%s.", faults[fault].text, at + 1, faults[fault].tail);
    if (issue != SIZE_MAX && faults[fault].hint != NULL)
        validator->issues[issue].hint = faults[fault].hint;
    if (fault != TREE_CUT && fault != TREE_CUT_IN_TEXT)
        return;
    /* What comes next tells why. */
    validator->stage = STAGE_FRAGMENTS;
    validator->cut_line = validator->line;
    validator->cut_issue = issue;
    validator->cut_in_text = fault == TREE_CUT_IN_TEXT;
    validator->cut_column = (int32_t)at + 1;
}

/* A line that does not begin an object, behind one that was cut. */
void syntax_fragment(struct validator *validator)
{
    if (validator->cut_line == 0)
        return;
    if (validator->cut_in_text)
        issue_rewrite(validator, validator->cut_issue, NULL, "Line break inside a string at column %d: the text goes on in the next line.",
                      validator->cut_column);
    else
        issue_rewrite(validator, validator->cut_issue, "In jq: jq -c . FILE > FILE.jsonl",
                      "Line %d is not a complete JSON object. The file looks pretty-printed; each example must be on one line.",
                      validator->cut_line);
    validator->cut_line = 0;
    validator->confused = true;
}

void syntax_end(struct validator *validator)
{
    if (validator->cut_line != 0)
        issue_rewrite(validator, validator->cut_issue, "The file was cut, in an upload perhaps: send it again.",
                      "Unexpected end of line%s at column %d: the last line looks cut off.", validator->cut_in_text ? " inside a string" : "",
                      validator->cut_column);
}

void soft_fault(void *context, enum tree_soft fault, uint32_t at, uint32_t node)
{
    static const enum validate_code codes[] = {[TREE_DUPLICATE_KEY] = VALIDATE_DUPLICATE_KEY, [TREE_LONE_SURROGATE] = VALIDATE_LONE_SURROGATE,
                                               [TREE_NULL_CHARACTER] = VALIDATE_NULL_CHARACTER};
    struct validator *validator = context;
    const struct tree *tree = &validator->tree;
    const struct tree_node *about = &tree->nodes[node];
    char where[96];

    if (issue_beyond(validator, codes[fault]))
        return;
    switch (fault) {
    case TREE_DUPLICATE_KEY:
        if (about->kind == TREE_OBJECT && at == about->at) {
            issue_at(validator, VALIDATE_DUPLICATE_KEY, at, node, "A key appears twice in an object of %u.", about->count);
            return;
        }
        tree_path(tree, about->parent, where, sizeof(where));
        issue_at(validator, VALIDATE_DUPLICATE_KEY, at, node, "Key \"%.*s\" appears twice%s%s.", (int)min_u32(about->key_bytes, 40), about->key,
                 where[0] != '\0' ? " in " : "", where);
        return;
    case TREE_LONE_SURROGATE:
        tree_path(tree, node, where, sizeof(where));
        issue_at(validator, VALIDATE_LONE_SURROGATE, at, node, "Escape %.6s%s%s is half of a surrogate pair and is not a character.",
                 validator->text + at, where[0] != '\0' ? " in " : "", where);
        return;
    case TREE_NULL_CHARACTER:
        issue_at(validator, VALIDATE_NULL_CHARACTER, at, node, "\\u0000 at column %u: the null character is not taken.", at + 1);
        return;
    }
}
