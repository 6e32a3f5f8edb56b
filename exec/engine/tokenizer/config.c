/* tokenizer_config.json: which tokens play which role, and the chat template. Numbers there may be greater than any integer. */
#include "engine/tokenizer/inside.h"
#include "host/words.h"

static const char *const role_keys[] = {
#define X(name, key) key,
    TOKENIZER_ROLES(X)
#undef X
};

/* One template, or a list of {"name", "template"}. */
static const json_t *template_in(const json_t *value)
{
    const json_t *item;
    size_t i;

    if (json_is_string(value))
        return value;
    json_array_foreach(value, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        const json_t *text = json_object_get(item, "template");

        if (name != NULL && strcmp(name, "default") == 0 && json_is_string(text))
            return text;
    }
    return NULL;
}

bool config_open(struct opening *opening, const char *config, size_t count)
{
    struct tokenizer *tokenizer = opening->tokenizer;
    json_error_t error;
    json_t *root;
    const json_t *template;

    for (int role = 0; role < TOKENIZER_ROLE_COUNT; role++)
        tokenizer->roles[role] = TOKENIZER_NO_ID;
    if (config == NULL)
        return true;
    root = json_loadb(config, count, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    if (!json_is_object(root)) {
        char shown[EXCERPT_MAX];

        opening_refuse(opening, STATUS_CORRUPT, "tokenizer_config.json: line %d: %s", root == NULL ? error.line : 1,
                       root == NULL ? excerpt(error.text, strlen(error.text), shown) : "no object");
        json_decref(root);
        return false;
    }
    for (int role = 0; role < TOKENIZER_ROLE_COUNT; role++) {
        const json_t *token = json_object_get(root, role_keys[role]);

        if (json_is_object(token))
            token = json_object_get(token, "content");
        if (json_is_string(token))
            tokenizer->roles[role] = tokenizer_id_of(tokenizer, json_string_value(token), json_string_length(token));
    }
    template = template_in(json_object_get(root, "chat_template"));
    if (template != NULL) {
        tokenizer->has_chat_template = true;
        tokenizer->chat_template = span_add(tokenizer, json_string_value(template), json_string_length(template));
    }
    json_decref(root);
    return true;
}
