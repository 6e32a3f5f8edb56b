/* Walks the nodes of each layer along the section table. Two walks: one for everything but `pools`, then one for
 * `pools`, whose entries start from what `pool` has become by then. A key may be written nested or dotted. */
#include "scenario/apply.h"

#include <stdlib.h>

#include "scenario/words.h"

enum walk { WALK_ALL_BUT_POOLS, WALK_POOLS };

struct applying {
    const struct layers *layers;
    struct messages *messages;
    struct draft *draft;
    enum walk walk;
    uint32_t layer;
    uint32_t pools_listed_layer; /* that gave the list of pools last; 0: none */
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

    if (scope.pool == POOL_DEFAULTS)
        snprintf(ret_path, path_bytes, "%s", section->path);
    else
        snprintf(ret_path, path_bytes, "pools.%u%s", scope.pool, scope.section == SECTION_STEP ? ".step" : "");
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
    if (scope.section == SECTION_RUN) {
        suggest(&suggestion, "pools", strlen("pools"));
        suggest(&suggestion, "variants", strlen("variants"));
    }
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

static void apply_pools_list(struct applying *applying, struct fy_node *sequence, struct location key_at)
{
    int count = fy_node_sequence_item_count(sequence);

    if (applying->pools_listed_layer == applying->layer) {
        messages_add(applying->messages, SEVERITY_ERROR, key_at, "pools is given twice");
        return;
    }
    if (count < 1 || count > POOLS_MAX) {
        messages_add(applying->messages, SEVERITY_ERROR, key_at, "pools must have from 1 to %d entries, not %d", POOLS_MAX,
                     count);
        return;
    }
    applying->pools_listed_layer = applying->layer;
    applying->draft->pools_listed = true;
    applying->draft->pools_count = (uint32_t)count;
    for (uint32_t i = 0; i < (uint32_t)count; i++) {
        char what[32];

        draft_inherit(applying->draft, i);
        snprintf(what, sizeof(what), "pools.%u", i);
        apply_mapping(applying, (struct scope){SECTION_POOL, i}, fy_node_sequence_get_by_index(sequence, (int)i), key_at,
                      what);
    }
}

/* `pools: [...]`, `pools.0.gpu: h200`, or `pools: {0: {gpu: h200}}`. */
static void apply_pools(struct applying *applying, struct name rest, struct location key_at, struct value value)
{
    struct fy_node *node = node_behind_alias(value.node);
    struct scope scope = {.section = SECTION_POOL};
    struct name index;
    struct name text;
    char shown[EXCERPT_MAX];

    if (rest.count == 0 && node != NULL && fy_node_is_sequence(node)) {
        apply_pools_list(applying, node, key_at);
        return;
    }
    if (rest.count == 0 && node != NULL && fy_node_is_mapping(node)) {
        struct fy_node_pair *pair;
        void *cursor = NULL;

        while ((pair = fy_node_mapping_iterate(node, &cursor)) != NULL) {
            struct location at = node_location(applying->layers->document, fy_node_pair_key(pair), key_at);

            if (value_text((struct value){.node = fy_node_pair_key(pair)}, &text) && text.count > 0)
                apply_pools(applying, text, at, (struct value){.node = fy_node_pair_value(pair), .text = ""});
            else
                messages_add(applying->messages, SEVERITY_ERROR, at, "a key must be a word");
        }
        return;
    }
    if (rest.count == 0) {
        messages_add(applying->messages, SEVERITY_ERROR, key_at,
                     "pools must be a list of mappings; one key of one entry is written pools.0.replicas");
        return;
    }
    index = name_first(rest, &rest);
    for (size_t i = 0; i < index.count && scope.pool <= POOLS_MAX; i++) {
        if (index.text[i] < '0' || index.text[i] > '9')
            scope.pool = POOL_DEFAULTS;
        else
            scope.pool = scope.pool * 10 + (uint32_t)(index.text[i] - '0');
    }
    if (index.count == 0 || scope.pool >= applying->draft->pools_count) {
        messages_add(applying->messages, SEVERITY_ERROR, key_at, "pools.%s: there %s %u pool%s, counted from 0",
                     excerpt(index.text, index.count, shown), applying->draft->pools_count == 1 ? "is" : "are",
                     applying->draft->pools_count, applying->draft->pools_count == 1 ? "" : "s");
        return;
    }
    if (rest.count > 0)
        apply_path(applying, scope, rest, key_at, value);
    else if (value.node != NULL)
        apply_mapping(applying, scope, value.node, key_at, "an entry of pools");
    else
        messages_add(applying->messages, SEVERITY_ERROR, key_at, "an entry of pools is set key by key: pools.%u.replicas",
                     scope.pool);
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

    if (scope.section == SECTION_RUN && name_is(first, "pools")) {
        if (applying->walk == WALK_POOLS)
            apply_pools(applying, rest, key_at, value);
        return;
    }
    if (scope.section == SECTION_RUN && applying->walk == WALK_POOLS)
        return;
    if (scope.section == SECTION_RUN && name_is(first, "variants")) {
        if (applying->layer > 1)
            messages_add(applying->messages, SEVERITY_ERROR, key_at, "variants stand at the top of the file only");
    } else if (child != SECTION_COUNT) {
        apply_section(applying, (struct scope){child, scope.pool}, rest, key_at, value);
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
    apply_path(applying, (struct scope){SECTION_RUN, POOL_DEFAULTS}, (struct name){setting, (size_t)(equals - setting)}, at,
               value);
}

static void apply_layers(struct applying *applying)
{
    const struct layers *layers = applying->layers;
    const struct scope root = {SECTION_RUN, POOL_DEFAULTS};
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

/* A change of `pool` that every entry of `pools` overrides would be silently without effect. */
static void tell_shadowed(struct applying *applying)
{
    for (uint32_t id = SECTION_POOL; id <= SECTION_STEP; id++) {
        const struct section *section = section_at((enum section_id)id);

        for (uint32_t i = 0; i < section->keys_count; i++) {
            const struct key *key = &section->keys[i];
            const struct origin *origin =
                draft_origin(applying->draft, (struct scope){(enum section_id)id, POOL_DEFAULTS}, key);
            uint32_t own = 0;

            for (uint32_t pool = 0; pool < applying->draft->pools_count; pool++) {
                const struct origin *of_entry = draft_origin(applying->draft, (struct scope){(enum section_id)id, pool}, key);

                own += of_entry->layer > 0 && !of_entry->is_inherited;
            }
            if (origin->layer >= 2 && own == applying->draft->pools_count)
                messages_add(applying->messages, SEVERITY_ERROR, origin->location,
                             "%s.%s has no effect: each entry of pools has its own; write pools.0.%s%s", section->path,
                             key->name, id == SECTION_STEP ? "step." : "", key->name);
        }
    }
}

void layers_apply(const struct layers *layers, struct messages *messages, struct draft *ret_draft)
{
    struct applying applying = {.layers = layers, .messages = messages, .draft = ret_draft, .walk = WALK_ALL_BUT_POOLS};

    draft_init(ret_draft);
    apply_layers(&applying);
    draft_inherit(ret_draft, 0);
    ret_draft->pools_count = 1;
    applying.walk = WALK_POOLS;
    apply_layers(&applying);
    if (ret_draft->pools_listed)
        tell_shadowed(&applying);
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
