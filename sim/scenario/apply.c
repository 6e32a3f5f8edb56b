/* Walks the nodes of each layer along the section table. Two walks: one for everything but lists, then one for the lists,
 * whose entries start from what their section has become by then. A key may be written nested or dotted. */
#include "scenario/apply.h"

#include <stdlib.h>

#include "host/words.h"

enum walk { WALK_ALL_BUT_LISTS, WALK_LISTS };

struct applying {
    const struct layers *layers;
    struct messages *messages;
    struct draft *draft;
    enum walk walk;
    uint32_t layer;
    uint32_t written_layer[LIST_COUNT]; /* that wrote the whole list last; 0: none */
};

/* What is to be set: a node of the file, or the text of a setting. */
struct value {
    struct fy_node *node;
    const char *text;
    size_t text_count;
};

/* A key as written: "fleet.route" or what is left of it. */
struct name {
    const char *text;
    size_t count;
};

static struct name name_first(struct name path, struct name *ret_rest)
{
    const char *dot = memchr(path.text, '.', path.count);
    size_t count = dot != NULL ? (size_t)(dot - path.text) : path.count;

    ret_rest->text = path.text + count + (dot != NULL);
    ret_rest->count = path.count - count - (dot != NULL);
    return (struct name){path.text, count};
}

static bool name_is(struct name name, const char *text)
{
    return name.count == strlen(text) && memcmp(name.text, text, name.count) == 0;
}

static void apply_path(struct applying *applying, struct scope scope, struct name path, struct location key_at,
                       struct value value);

/* The text of a scalar or of a setting; false for lists and mappings. */
static bool value_text(struct value value, struct name *ret_text)
{
    if (value.node != NULL)
        return node_text(value.node, &ret_text->text, &ret_text->count);
    *ret_text = (struct name){value.text, value.text_count};
    return value.text != NULL;
}

static struct location value_location(const struct applying *applying, struct value value, struct location key_at)
{
    return node_location(applying->layers->document, value.node, key_at);
}

static const char *kind_of(struct value value)
{
    struct fy_node *node = node_behind_alias(value.node);

    return node == NULL ? "an alias of nothing" : fy_node_is_mapping(node) ? "a mapping" : "a list";
}

/* "pool.step.fixed_us", "pools.2.gpu": how the scope's keys are written in full. */
static const char *scope_path(struct scope scope, char *ret_path, size_t path_bytes)
{
    const struct section *section = section_at(scope.section);
    const struct list *list;

    if (scope.entry == ENTRY_DEFAULTS) {
        snprintf(ret_path, path_bytes, "%s", section->path);
    } else {
        list = list_at(list_of(scope.section));
        snprintf(ret_path, path_bytes, "%s.%u%s", list->path, scope.entry,
                 section->path + strlen(section_at(list->entry)->path));
    }
    return ret_path;
}

static void apply_list(struct applying *applying, const struct key *key, void *field, struct fy_node *sequence,
                       struct location key_at)
{
    struct key_list list = {0};
    struct fy_node *item;
    void *cursor = NULL;
    char why[WHY_MAX];

    while ((item = fy_node_sequence_iterate(sequence, &cursor)) != NULL) {
        struct name text;
        struct location at = node_location(applying->layers->document, item, key_at);

        if (!value_text((struct value){.node = item}, &text)) {
            messages_add(applying->messages, SEVERITY_ERROR, at, "a value of %s must be a number, not %s", key->name,
                         kind_of((struct value){.node = item}));
            return;
        }
        if (!key_list_add(key, &list, text.text, text.count, why)) {
            messages_add(applying->messages, SEVERITY_ERROR, at, "%s %s", key->name, why);
            return;
        }
    }
    *(struct key_list *)field = list;
}

static void apply_key(struct applying *applying, struct scope scope, const struct key *key, struct location key_at,
                      struct value value)
{
    struct origin *origin = draft_origin(applying->draft, scope, key);
    void *field = draft_field(applying->draft, scope, key);
    struct location at = value_location(applying, value, key_at);
    struct name text;
    char why[WHY_MAX];

    if (origin->layer == applying->layer && !origin->is_inherited) {
        messages_add(applying->messages, SEVERITY_ERROR, key_at, "%s is given twice", key->name);
        return;
    }
    *origin = (struct origin){.location = at, .layer = applying->layer};
    if (value_text(value, &text)) {
        if (!key_set(key, field, text.text, text.count, why))
            messages_add(applying->messages, SEVERITY_ERROR, at, "%s %s", key->name, why);
        return;
    }
    if (key->kind == KEY_LIST && node_behind_alias(value.node) != NULL &&
        fy_node_is_sequence(node_behind_alias(value.node))) {
        apply_list(applying, key, field, node_behind_alias(value.node), key_at);
        return;
    }
    messages_add(applying->messages, SEVERITY_ERROR, at, "%s must be a single value, not %s", key->name, kind_of(value));
}

/* Other sections that know the name, "fleet.route or pool.queue"; an empty text when none does. */
static void find_elsewhere(struct name name, enum section_id here, char *ret_text, size_t text_bytes)
{
    ret_text[0] = '\0';
    for (uint32_t id = 0; id < SECTION_COUNT; id++) {
        const struct section *section = section_at((enum section_id)id);
        size_t used = strlen(ret_text);
        bool is_child = id != SECTION_RUN && section->parent != here && name_is(name, section->name);

        if (is_child)
            snprintf(ret_text + used, text_bytes - used, "%s%s", used > 0 ? " or " : "", section->path);
        else if ((enum section_id)id != here && section_key((enum section_id)id, name.text, name.count) != NULL)
            snprintf(ret_text + used, text_bytes - used, "%s%s%s%.*s", used > 0 ? " or " : "", section->path,
                     section->path[0] != '\0' ? "." : "", (int)name.count, name.text);
    }
    for (uint32_t id = 0; id < LIST_COUNT; id++) {
        const struct list *list = list_at((enum list_id)id);
        size_t used = strlen(ret_text);

        if (list->parent != here && name_is(name, list->name))
            snprintf(ret_text + used, text_bytes - used, "%s%s", used > 0 ? " or " : "", list->path);
    }
}

static void tell_unknown(struct applying *applying, struct scope scope, struct name name, struct location key_at)
{
    const struct section *section = section_at(scope.section);
    struct suggestion suggestion;
    char elsewhere[256];
    char shown[EXCERPT_MAX];
    char path[64];
    const char *near;

    suggestion_begin(&suggestion, name.text, name.count);
    for (uint32_t i = 0; i < section->keys_count; i++)
        suggest(&suggestion, section->keys[i].name, strlen(section->keys[i].name));
    for (uint32_t id = SECTION_RUN + 1; id < SECTION_COUNT; id++) {
        const char *child = section_at((enum section_id)id)->name;

        if (section_at((enum section_id)id)->parent == scope.section)
            suggest(&suggestion, child, strlen(child));
    }
    for (uint32_t id = 0; id < LIST_COUNT; id++) {
        if (list_at((enum list_id)id)->parent == scope.section)
            suggest(&suggestion, list_at((enum list_id)id)->name, strlen(list_at((enum list_id)id)->name));
    }
    if (scope.section == SECTION_RUN)
        suggest(&suggestion, "variants", strlen("variants"));
    near = suggestion_answer(&suggestion);
    find_elsewhere(name, scope.section, elsewhere, sizeof(elsewhere));
    scope_path(scope, path, sizeof(path));
    messages_add(applying->messages, SEVERITY_ERROR, key_at, "unknown key `%s`%s%s%s%s%s%s%s%s",
                 excerpt(name.text, name.count, shown), path[0] != '\0' ? " in " : "", path,
                 near != NULL ? "; did you mean `" : "", near != NULL ? near : "", near != NULL ? "`?" : "",
                 elsewhere[0] != '\0' ? (near != NULL ? " Or " : "; did you mean ") : "", elsewhere,
                 elsewhere[0] != '\0' ? "?" : near != NULL ? "" : "; see `berth-sim scenario keys`");
}

/* The pairs of a mapping; null, as in a section whose keys are all commented out, has none. */
static void apply_mapping(struct applying *applying, struct scope scope, struct fy_node *node, struct location key_at,
                          const char *what)
{
    struct fy_node *mapping = node_behind_alias(node);
    struct fy_node_pair *pair;
    struct name text;
    void *cursor = NULL;

    if (mapping == NULL || !fy_node_is_mapping(mapping)) {
        if (value_text((struct value){.node = node}, &text) && text.count == 0)
            return;
        messages_add(applying->messages, SEVERITY_ERROR, node_location(applying->layers->document, node, key_at),
                     "%s must be a mapping of keys, not %s", what,
                     mapping != NULL && fy_node_is_scalar(mapping) ? "a single value" : kind_of((struct value){.node = node}));
        return;
    }
    while ((pair = fy_node_mapping_iterate(mapping, &cursor)) != NULL) {
        struct value key = {.node = fy_node_pair_key(pair)};
        struct value value = {.node = fy_node_pair_value(pair), .text = ""};
        struct location at = node_location(applying->layers->document, key.node, key_at);

        if (applying->messages->dropped > 0)
            return;
        if (key.node == NULL || !value_text(key, &text) || text.count == 0)
            messages_add(applying->messages, SEVERITY_ERROR, at, "a key must be a word");
        else if (name_is(text, "<<"))
            messages_add(applying->messages, SEVERITY_ERROR, at,
                         "merge keys (<<) are not read: `pool` is what every entry of `pools` starts from, and a variant "
                         "needs only what differs");
        else
            apply_path(applying, scope, text, at, value);
    }
}

static void apply_whole_list(struct applying *applying, enum list_id id, struct fy_node *sequence, struct location key_at)
{
    const struct list *list = list_at(id);
    int count = fy_node_sequence_item_count(sequence);

    if (applying->written_layer[id] == applying->layer) {
        messages_add(applying->messages, SEVERITY_ERROR, key_at, "%s is given twice", list->path);
        return;
    }
    if (count < 1 || (uint32_t)count > list->entries_max) {
        messages_add(applying->messages, SEVERITY_ERROR, key_at, "%s must have from 1 to %u entries, not %d", list->path,
                     list->entries_max, count);
        return;
    }
    applying->written_layer[id] = applying->layer;
    applying->draft->lists[id] = (struct draft_list){.count = (uint32_t)count, .is_written = true};
    for (uint32_t i = 0; i < (uint32_t)count; i++) {
        char what[64];

        draft_inherit(applying->draft, id, i);
        snprintf(what, sizeof(what), "%s.%u", list->path, i);
        apply_mapping(applying, (struct scope){list->entry, i}, fy_node_sequence_get_by_index(sequence, (int)i), key_at,
                      what);
    }
}

static void apply_list_part(struct applying *applying, enum list_id id, struct name rest, struct location key_at,
                            struct value value);

/* `pools: [...]` or `pools: {0: {gpu: h200}}`. */
static void apply_list_value(struct applying *applying, enum list_id id, struct location key_at, struct value value)
{
    const struct list *list = list_at(id);
    struct fy_node *node = node_behind_alias(value.node);
    struct fy_node_pair *pair;
    struct name text;
    void *cursor = NULL;

    if (node != NULL && fy_node_is_sequence(node)) {
        apply_whole_list(applying, id, node, key_at);
        return;
    }
    if (node == NULL || !fy_node_is_mapping(node)) {
        messages_add(applying->messages, SEVERITY_ERROR, key_at,
                     "%s must be a list of mappings; one key of one entry is written %s.0.%s", list->path, list->path,
                     list->example);
        return;
    }
    while ((pair = fy_node_mapping_iterate(node, &cursor)) != NULL) {
        struct location at = node_location(applying->layers->document, fy_node_pair_key(pair), key_at);

        if (value_text((struct value){.node = fy_node_pair_key(pair)}, &text) && text.count > 0)
            apply_list_part(applying, id, text, at, (struct value){.node = fy_node_pair_value(pair), .text = ""});
        else
            messages_add(applying->messages, SEVERITY_ERROR, at, "a key must be a word");
    }
}

/* `pools.0.gpu: h200`; rest: "0.gpu". */
static void apply_list_part(struct applying *applying, enum list_id id, struct name rest, struct location key_at,
                            struct value value)
{
    const struct list *list = list_at(id);
    uint32_t count = applying->draft->lists[id].count;
    struct scope scope = {.section = list->entry};
    struct name index = name_first(rest, &rest);
    char shown[EXCERPT_MAX];
    char what[64];

    for (size_t i = 0; i < index.count && scope.entry <= list->entries_max; i++) {
        if (index.text[i] < '0' || index.text[i] > '9')
            scope.entry = ENTRY_DEFAULTS;
        else
            scope.entry = scope.entry * 10 + (uint32_t)(index.text[i] - '0');
    }
    if (index.count == 0 || scope.entry >= count) {
        messages_add(applying->messages, SEVERITY_ERROR, key_at, "%s.%s: there %s %u %s%s, counted from 0", list->path,
                     excerpt(index.text, index.count, shown), count == 1 ? "is" : "are", count, list->noun,
                     count == 1 ? "" : "s");
        return;
    }
    snprintf(what, sizeof(what), "an entry of %s", list->path);
    if (rest.count > 0)
        apply_path(applying, scope, rest, key_at, value);
    else if (value.node != NULL)
        apply_mapping(applying, scope, value.node, key_at, what);
    else
        messages_add(applying->messages, SEVERITY_ERROR, key_at, "%s is set key by key: %s.%u.%s", what, list->path,
                     scope.entry, list->example);
}

static void apply_list_name(struct applying *applying, enum list_id id, struct name rest, struct location key_at,
                            struct value value)
{
    if (rest.count == 0)
        apply_list_value(applying, id, key_at, value);
    else
        apply_list_part(applying, id, rest, key_at, value);
}

/* Does a list stand in this section, or below it? */
static bool leads_to_list(enum section_id section)
{
    for (uint32_t id = 0; id < LIST_COUNT; id++) {
        enum section_id above = list_at((enum list_id)id)->parent;

        while (above != section && above != SECTION_RUN)
            above = section_at(above)->parent;
        if (above == section)
            return true;
    }
    return false;
}

static void apply_section(struct applying *applying, struct scope scope, struct name rest, struct location key_at,
                          struct value value)
{
    const struct section *section = section_at(scope.section);

    if (rest.count > 0)
        apply_path(applying, scope, rest, key_at, value);
    else if (value.node != NULL)
        apply_mapping(applying, scope, value.node, key_at, section->path);
    else if (value.text_count > 0 || applying->layer > 2)
        messages_add(applying->messages, SEVERITY_ERROR, key_at, "%s is a section; set one of its keys, such as %s.%s",
                     section->path, section->path, section->keys[0].name);
}

static void apply_path(struct applying *applying, struct scope scope, struct name path, struct location key_at,
                       struct value value)
{
    struct name rest;
    struct name first = name_first(path, &rest);
    const struct key *key = section_key(scope.section, first.text, first.count);
    enum section_id child = section_child(scope.section, first.text, first.count);
    enum list_id list = list_child(scope.section, first.text, first.count);

    if (list != LIST_COUNT) {
        if (applying->walk == WALK_LISTS)
            apply_list_name(applying, list, rest, key_at, value);
        return;
    }
    if (applying->walk == WALK_LISTS && scope.entry == ENTRY_DEFAULTS && (child == SECTION_COUNT || !leads_to_list(child)))
        return;
    if (scope.section == SECTION_RUN && name_is(first, "variants")) {
        if (applying->layer > 1)
            messages_add(applying->messages, SEVERITY_ERROR, key_at, "variants stand at the top of the file only");
    } else if (child != SECTION_COUNT) {
        apply_section(applying, (struct scope){child, scope.entry}, rest, key_at, value);
    } else if (key == NULL) {
        tell_unknown(applying, scope, first, key_at);
    } else if (first.count < path.count) {
        messages_add(applying->messages, SEVERITY_ERROR, key_at, "%s has no parts", key->name);
    } else {
        apply_key(applying, scope, key, key_at, value);
    }
}

static void apply_setting(struct applying *applying, uint32_t index)
{
    const char *setting = applying->layers->settings[index];
    const char *equals = strchr(setting, '=');
    struct location at = {.text = &applying->layers->setting_texts[index]};
    struct value value = {0};

    if (equals == NULL || equals == setting) {
        messages_add(applying->messages, SEVERITY_ERROR, at, "must be key=value, such as pool.replicas=8");
        return;
    }
    value.text = equals + 1;
    value.text_count = strlen(value.text);
    apply_path(applying, (struct scope){SECTION_RUN, ENTRY_DEFAULTS}, (struct name){setting, (size_t)(equals - setting)}, at,
               value);
}

static void apply_layers(struct applying *applying)
{
    const struct layers *layers = applying->layers;
    const struct scope root = {SECTION_RUN, ENTRY_DEFAULTS};
    struct location top = {.text = &layers->document->text};

    applying->layer = 1;
    apply_mapping(applying, root, document_root(layers->document), top, "the file");
    applying->layer = 2;
    if (layers->variant != NULL)
        apply_mapping(applying, root, layers->variant, layers->variant_at, "a variant");
    for (uint32_t i = 0; i < layers->settings_count; i++) {
        applying->layer = 3 + i;
        apply_setting(applying, i);
    }
}

/* How many entries have their own value of a key. */
static uint32_t own_values(struct applying *applying, enum list_id id, enum section_id section, const struct key *key)
{
    uint32_t own = 0;

    for (uint32_t i = 0; i < applying->draft->lists[id].count; i++) {
        const struct origin *origin = draft_origin(applying->draft, (struct scope){section, i}, key);

        own += origin->layer > 0 && !origin->is_inherited;
    }
    return own;
}

/* A change of what entries start from that every entry overrides would be silently without effect. */
static void tell_shadowed(struct applying *applying, enum list_id list_id)
{
    const struct list *list = list_at(list_id);

    for (uint32_t id = list->entry; id <= list->last; id++) {
        const struct section *section = section_at((enum section_id)id);
        const char *below = section->path + strlen(section_at(list->entry)->path);

        for (uint32_t i = 0; i < section->keys_count; i++) {
            const struct key *key = &section->keys[i];
            const struct origin *origin =
                draft_origin(applying->draft, (struct scope){(enum section_id)id, ENTRY_DEFAULTS}, key);

            if (origin->layer >= 2 &&
                own_values(applying, list_id, (enum section_id)id, key) == applying->draft->lists[list_id].count)
                messages_add(applying->messages, SEVERITY_ERROR, origin->location,
                             "%s.%s has no effect: each entry of %s has its own; write %s.0%s.%s", section->path,
                             key->name, list->path, list->path, below, key->name);
        }
    }
}

void layers_apply(const struct layers *layers, struct messages *messages, struct draft *ret_draft)
{
    struct applying applying = {.layers = layers, .messages = messages, .draft = ret_draft, .walk = WALK_ALL_BUT_LISTS};

    draft_init(ret_draft);
    apply_layers(&applying);
    for (uint32_t id = 0; id < LIST_COUNT; id++) {
        draft_inherit(ret_draft, (enum list_id)id, 0);
        ret_draft->lists[id].count = 1;
    }
    applying.walk = WALK_LISTS;
    apply_layers(&applying);
    for (uint32_t id = 0; id < LIST_COUNT; id++) {
        if (ret_draft->lists[id].is_written)
            tell_shadowed(&applying, (enum list_id)id);
    }
}

static bool is_variant_name(struct name name)
{
    if (name.count == 0 || name.count >= VARIANT_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.count; i++) {
        char letter = name.text[i];

        /* It names groups of a results file and files of a report. */
        if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
              (i > 0 && strchr("-_.+", letter) != NULL)))
            return false;
    }
    return true;
}

static void variant_add(struct variant_list *list, struct name name, struct location at, struct fy_node *overrides,
                        struct messages *messages)
{
    char shown[EXCERPT_MAX];

    if (!is_variant_name(name)) {
        messages_add(messages, SEVERITY_ERROR, at,
                     "a variant's name must be from 1 to %d letters, digits, - _ . +, and begin with a letter or digit",
                     VARIANT_NAME_MAX - 1);
        return;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->names_count[i] == name.count && memcmp(list->names[i], name.text, name.count) == 0) {
            messages_add(messages, SEVERITY_ERROR, at, "variant %s is given twice", excerpt(name.text, name.count, shown));
            return;
        }
    }
    if (list->count == VARIANTS_MAX) {
        messages_add(messages, SEVERITY_ERROR, at, "a file may hold at most %d variants", VARIANTS_MAX);
        return;
    }
    list->overrides[list->count] = overrides;
    list->at[list->count] = at;
    list->names[list->count] = name.text;
    list->names_count[list->count++] = name.count;
}

void variants_find(const struct document *document, struct messages *messages, struct variant_list *ret_list)
{
    struct location top = {.text = &document->text};
    struct fy_node_pair *pair;
    void *cursor = NULL;
    bool found = false;

    memset(ret_list, 0, sizeof(*ret_list));
    while ((pair = fy_node_mapping_iterate(document_root(document), &cursor)) != NULL) {
        struct location at = node_location(document, fy_node_pair_key(pair), top);
        struct fy_node *variants = node_behind_alias(fy_node_pair_value(pair));
        struct fy_node_pair *variant;
        struct name name;
        void *inner = NULL;

        if (fy_node_pair_key(pair) == NULL || !value_text((struct value){.node = fy_node_pair_key(pair)}, &name) ||
            !name_is(name, "variants"))
            continue;
        if (found) {
            messages_add(messages, SEVERITY_ERROR, at, "variants is given twice");
            return;
        }
        found = true;
        if (variants == NULL || !fy_node_is_mapping(variants) || fy_node_mapping_item_count(variants) == 0) {
            messages_add(messages, SEVERITY_ERROR, at, "variants must be a mapping: a name, and below it the keys that differ");
            continue;
        }
        while ((variant = fy_node_mapping_iterate(variants, &inner)) != NULL && messages->dropped == 0) {
            struct fy_node *key = fy_node_pair_key(variant);
            struct location name_at = node_location(document, key, at);

            if (key == NULL || !value_text((struct value){.node = key}, &name))
                name = (struct name){"", 0};
            variant_add(ret_list, name, name_at, fy_node_pair_value(variant), messages);
        }
    }
}
