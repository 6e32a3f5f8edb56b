/* The table of all keys, for people and for machines. */
#include <jansson.h>
#include <stdlib.h>

#include "scenario/scenario.h"
#include "scenario/table.h"
#include "host/words.h"

static const char *const kind_names[] = {
#define X(kind, wants) [KEY_##kind] = #kind,
    KEY_KINDS(X)
#undef X
};

/* "text", "count", ...: the kinds' names in small letters. */
static const char *kind_name(enum key_kind kind, char ret_name[16])
{
    size_t i = 0;

    for (; kind_names[kind][i] != '\0'; i++)
        ret_name[i] = (char)(kind_names[kind][i] - 'A' + 'a');
    ret_name[i] = '\0';
    return ret_name;
}

static bool has_range(const struct key *key)
{
    return key->kind == KEY_COUNT || key->kind == KEY_REAL || key->kind == KEY_LIST;
}

static void key_path(const struct section *section, const struct key *key, char *ret_path, size_t path_bytes)
{
    snprintf(ret_path, path_bytes, "%s%s%s", section->path, section->path[0] != '\0' ? "." : "", key->name);
}

static const char *range_text(const struct key *key, char *ret_text, size_t text_bytes)
{
    char texts[2][NUMBER_TEXT_MAX];

    ret_text[0] = '\0';
    if (has_range(key))
        snprintf(ret_text, text_bytes, "%s..%s", number_text(key->min, texts[0]), number_text(key->max, texts[1]));
    else if (key->choices != NULL)
        snprintf(ret_text, text_bytes, "%s", key->choices);
    else if (key->kind == KEY_FLAG)
        snprintf(ret_text, text_bytes, "true|false");
    return ret_text;
}

static void print_table(FILE *out)
{
    fprintf(out, "%-38s %-7s %-12s %-28s %s\n", "key", "kind", "default", "range", "about");
    for (uint32_t id = 0; id < SECTION_COUNT; id++) {
        const struct section *section = section_at((enum section_id)id);

        fprintf(out, "\n# %s%s%s\n", section->path, section->path[0] != '\0' ? ": " : "", section->about);
        for (uint32_t i = 0; i < section->keys_count; i++) {
            const struct key *key = &section->keys[i];
            const char *default_text = key_default((enum section_id)id, key);
            char path[96];
            char kind[16];
            char range[96];

            key_path(section, key, path, sizeof(path));
            fprintf(out, "%-38s %-7s %-12s %-28s %s\n", path, kind_name(key->kind, kind),
                    default_text[0] != '\0' ? default_text : "\"\"", range_text(key, range, sizeof(range)), key->about);
        }
    }
    fputc('\n', out);
    for (uint32_t id = 0; id < LIST_COUNT; id++) {
        const struct list *list = list_at((enum list_id)id);

        fprintf(out, "# %s: a list of %ss, at most %u; each starts from `%s` and says what differs: %s.0.%s, ...\n",
                list->path, list->noun, list->entries_max, section_at(list->entry)->path, list->path, list->example);
    }
    fprintf(out, "# variants: name -> any of these keys, nested or dotted (fleet.route: sticky); each is run on the same luck\n");
}

/* The default as a value of its kind. */
static json_t *default_json(const struct key *key, const void *field)
{
    const struct key_list *list = field;
    const char *name;
    size_t count;
    json_t *array;
    bool is_choice;

    switch (key->kind) {
    case KEY_COUNT:
        return json_integer((json_int_t) * (const uint64_t *)field);
    case KEY_REAL:
        return json_real(*(const double *)field);
    case KEY_FLAG:
        return json_boolean(*(const bool *)field);
    case KEY_CHOICE:
        is_choice = choice_at(key->choices, *(const uint32_t *)field, &name, &count);
        check(is_choice);
        return json_stringn(name, count);
    case KEY_LIST:
        array = json_array();
        for (uint32_t i = 0; i < list->count; i++)
            json_array_append_new(array, json_real(list->values[i]));
        return array;
    case KEY_TEXT:
    case KEY_EVICT:
    case KEY_QUEUE:
    case KEY_ROUTE:
    case KEY_ORDER:
    case KEY_PLACE:
    case KEY_SCALE:
        return json_string(field);
    }
    return NULL;
}

static json_t *key_json(struct draft *draft, enum section_id id, const struct key *key)
{
    json_t *object = json_object();
    char text[96];
    const char *name;
    size_t count;

    key_path(section_at(id), key, text, sizeof(text));
    json_object_set_new(object, "path", json_string(text));
    json_object_set_new(object, "kind", json_string(kind_name(key->kind, text)));
    json_object_set_new(object, "default",
                        default_json(key, draft_field(draft, (struct scope){id, ENTRY_DEFAULTS}, key)));
    if (has_range(key)) {
        json_object_set_new(object, "min", json_real(key->min));
        json_object_set_new(object, "max", json_real(key->max));
    }
    if (key->choices != NULL) {
        json_t *choices = json_array();

        for (uint32_t i = 0; choice_at(key->choices, i, &name, &count); i++)
            json_array_append_new(choices, json_stringn(name, count));
        json_object_set_new(object, "choices", choices);
    }
    json_object_set_new(object, "about", json_string(key->about));
    return object;
}

static void print_json(FILE *out)
{
    struct draft *draft = malloc(sizeof(*draft));
    json_t *keys = json_array();

    check(draft != NULL);
    draft_init(draft);
    for (uint32_t id = 0; id < SECTION_COUNT; id++) {
        const struct section *section = section_at((enum section_id)id);

        for (uint32_t i = 0; i < section->keys_count; i++)
            json_array_append_new(keys, key_json(draft, (enum section_id)id, &section->keys[i]));
    }
    json_dumpf(keys, out, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
    fputc('\n', out);
    json_decref(keys);
    free(draft);
}

void scenario_keys_print(FILE *out, bool json)
{
    if (json)
        print_json(out);
    else
        print_table(out);
}
