/* Profiles from YAML files. `h100` is looked for as hardware/h100.yaml beside the scenario, then as
 * scenarios/hardware/h100.yaml below the current directory, then below each directory above the program itself, so that
 * an installed or a freshly built berth-sim finds the profiles of its own tree from anywhere. */
#include "hardware/profile.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "scenario/document.h"
#include "scenario/table.h"
#include "host/words.h"

#define PROFILE_PATH_MAX 1024
#define SOURCE_MAX 1000 /* a sentence or two, not a file */

struct profile_key {
    const char *name;
    size_t offset;
    double min;
    double max;
};

static const struct profile_key profile_keys[] = {
#define X(field, least, most, about) {#field, offsetof(struct gpu_profile, field), least, most},
    PROFILE_KEYS(X)
#undef X
};

struct reader {
    const struct document *document;
    struct messages *messages;
    struct gpu_profile *profile;
    bool seen[ARRAY_COUNT(profile_keys)];
    bool title_seen;
};

static bool text_is(const char *text, size_t count, const char *name)
{
    return strlen(name) == count && memcmp(text, name, count) == 0;
}

static void read_value(struct reader *reader, const struct profile_key *key, struct fy_node *node, struct location key_at)
{
    struct location at = node_location(reader->document, node, key_at);
    double *field = (double *)(void *)((char *)reader->profile + key->offset);
    char texts[3][NUMBER_TEXT_MAX];
    char why[WHY_MAX];
    const char *text;
    size_t count;
    double value;
    uint64_t unused;

    if (!node_text(node, &text, &count))
        messages_add(reader->messages, SEVERITY_ERROR, at, "%s.value must be a number", key->name);
    else if (!number_read(text, count, false, &value, &unused, why))
        messages_add(reader->messages, SEVERITY_ERROR, at, "%s.value %s", key->name, why);
    else if (value < key->min || value > key->max)
        messages_add(reader->messages, SEVERITY_ERROR, at, "%s.value must be from %s to %s, not %s", key->name,
                     number_text(key->min, texts[0]), number_text(key->max, texts[1]), number_text(value, texts[2]));
    else
        *field = value;
}

static void read_number(struct reader *reader, const struct profile_key *key, struct fy_node *node, struct location key_at)
{
    struct fy_node_pair *pair;
    void *cursor = NULL;
    bool has_value = false;
    bool has_source = false;
    const char *text;
    size_t count;

    node = node_behind_alias(node);
    if (node == NULL || !fy_node_is_mapping(node)) {
        messages_add(reader->messages, SEVERITY_ERROR, key_at,
                     "%s must be {value: a number, source: \"where it comes from\"}", key->name);
        return;
    }
    while ((pair = fy_node_mapping_iterate(node, &cursor)) != NULL && reader->messages->dropped == 0) {
        struct location at = node_location(reader->document, fy_node_pair_key(pair), key_at);
        struct fy_node *value = fy_node_pair_value(pair);
        char shown[EXCERPT_MAX];

        if (!node_text(fy_node_pair_key(pair), &text, &count)) {
            messages_add(reader->messages, SEVERITY_ERROR, at, "a key must be a word");
        } else if (text_is(text, count, "value") && !has_value) {
            has_value = true;
            read_value(reader, key, value, at);
        } else if (text_is(text, count, "source") && !has_source) {
            has_source = true;
            if (!node_text(value, &text, &count) || count == 0 || count > SOURCE_MAX)
                messages_add(reader->messages, SEVERITY_ERROR, at, "%s.source must say where the number comes from", key->name);
        } else {
            messages_add(reader->messages, SEVERITY_ERROR, at, "`%s` is unknown or given twice in %s: it has value and source",
                         excerpt(text, count, shown), key->name);
        }
    }
    if (!has_value)
        messages_add(reader->messages, SEVERITY_ERROR, key_at, "%s has no value", key->name);
    if (!has_source)
        messages_add(reader->messages, SEVERITY_ERROR, key_at, "%s has no source; an assumption is one: say so", key->name);
}

static void read_title(struct reader *reader, struct fy_node *node, struct location key_at)
{
    const char *text;
    size_t count;

    reader->title_seen = true;
    if (!node_text(node, &text, &count) || count == 0 || count >= sizeof(reader->profile->title))
        messages_add(reader->messages, SEVERITY_ERROR, key_at, "title must be the GPU's name, shorter than %zu bytes",
                     sizeof(reader->profile->title));
    else
        excerpt(text, count, reader->profile->title);
}

static void tell_unknown(struct reader *reader, const char *text, size_t count, struct location at)
{
    struct suggestion suggestion;
    char shown[EXCERPT_MAX];
    const char *near;

    suggestion_begin(&suggestion, text, count);
    suggest(&suggestion, "title", strlen("title"));
    for (size_t i = 0; i < ARRAY_COUNT(profile_keys); i++)
        suggest(&suggestion, profile_keys[i].name, strlen(profile_keys[i].name));
    near = suggestion_answer(&suggestion);
    messages_add(reader->messages, SEVERITY_ERROR, at, "unknown key `%s`%s%s%s", excerpt(text, count, shown),
                 near != NULL ? "; did you mean `" : "", near != NULL ? near : "", near != NULL ? "`?" : "");
}

static void read_pair(struct reader *reader, struct fy_node_pair *pair)
{
    struct location top = {.text = &reader->document->text};
    struct location at = node_location(reader->document, fy_node_pair_key(pair), top);
    struct fy_node *value = fy_node_pair_value(pair);
    const char *text;
    size_t count;
    size_t i = 0;

    if (!node_text(fy_node_pair_key(pair), &text, &count)) {
        messages_add(reader->messages, SEVERITY_ERROR, at, "a key must be a word");
        return;
    }
    while (i < ARRAY_COUNT(profile_keys) && !text_is(text, count, profile_keys[i].name))
        i++;
    if (text_is(text, count, "title") && !reader->title_seen) {
        read_title(reader, value, at);
    } else if (i == ARRAY_COUNT(profile_keys) && !text_is(text, count, "title")) {
        tell_unknown(reader, text, count, at);
    } else if (i == ARRAY_COUNT(profile_keys) || reader->seen[i]) {
        messages_add(reader->messages, SEVERITY_ERROR, at, "%.*s is given twice", (int)count, text);
    } else {
        reader->seen[i] = true;
        read_number(reader, &profile_keys[i], value, at);
    }
}

static void read_document(struct reader *reader)
{
    struct location whole = {.text = &reader->document->text};
    struct fy_node_pair *pair;
    void *cursor = NULL;
    char missing[512] = "";

    while ((pair = fy_node_mapping_iterate(document_root(reader->document), &cursor)) != NULL &&
           reader->messages->dropped == 0)
        read_pair(reader, pair);
    for (size_t i = 0; i < ARRAY_COUNT(profile_keys); i++) {
        size_t used = strlen(missing);

        if (!reader->seen[i])
            snprintf(missing + used, sizeof(missing) - used, "%s%s", used > 0 ? ", " : "", profile_keys[i].name);
    }
    if (missing[0] != '\0')
        messages_add(reader->messages, SEVERITY_ERROR, whole, "a profile needs every number; missing: %s", missing);
    if (!reader->title_seen)
        messages_add(reader->messages, SEVERITY_ERROR, whole, "a profile needs a title: the GPU's name");
}

static bool is_path(const char *name)
{
    size_t count = strlen(name);

    return count > 5 && strcmp(name + count - 5, ".yaml") == 0;
}

static bool path_exists(char *path, size_t path_bytes, const char *directory, const char *between, const char *name)
{
    int count = snprintf(path, path_bytes, "%s%s%s%s", directory, between, name, is_path(name) ? "" : ".yaml");

    return count > 0 && (size_t)count < path_bytes && access(path, R_OK) == 0;
}

/* The program's directory, then each above it. */
static bool find_above_program(const char *name, char ret_path[PROFILE_PATH_MAX])
{
    char program[PROFILE_PATH_MAX];
    ssize_t count = readlink("/proc/self/exe", program, sizeof(program) - 1);
    char *slash;

    if (count <= 0)
        return false;
    program[count] = '\0';
    while ((slash = strrchr(program, '/')) != NULL) {
        *slash = '\0';
        if (path_exists(ret_path, PROFILE_PATH_MAX, program, "/scenarios/hardware/", name))
            return true;
    }
    return false;
}

static int is_profile_file(const struct dirent *entry)
{
    return is_path(entry->d_name);
}

/* "; there are a10g, h100" of the first directory that has any. */
static void list_profiles(const char *directory, char *ret_text, size_t text_bytes)
{
    char beside[PROFILE_PATH_MAX];
    const char *const places[] = {beside, "scenarios/hardware"};
    struct dirent **entries;
    int count = 0;

    snprintf(beside, sizeof(beside), "%s/hardware", directory);
    ret_text[0] = '\0';
    for (size_t place = 0; place < ARRAY_COUNT(places) && count <= 0; place++) {
        count = scandir(places[place], &entries, is_profile_file, alphasort);
        for (int i = 0; i < count; i++) {
            size_t used = strlen(ret_text);

            snprintf(ret_text + used, text_bytes - used, "%s%.*s", i == 0 ? "; there are " : ", ",
                     (int)(strlen(entries[i]->d_name) - strlen(".yaml")), entries[i]->d_name);
            free(entries[i]);
        }
        if (count >= 0)
            free(entries);
    }
}

static enum status find_profile(const char *name, const char *directory, FILE *errors, char ret_path[PROFILE_PATH_MAX])
{
    char known[512];

    if (is_path(name) || strchr(name, '/') != NULL) {
        bool found = name[0] == '/' ? path_exists(ret_path, PROFILE_PATH_MAX, "", "", name)
                                    : path_exists(ret_path, PROFILE_PATH_MAX, directory, "/", name);

        if (!found)
            fprintf(errors, "%s: error: no such file (relative paths start at %s)\n", name, directory);
        return found ? STATUS_OK : STATUS_NOT_FOUND;
    }
    if (path_exists(ret_path, PROFILE_PATH_MAX, directory, "/hardware/", name) ||
        path_exists(ret_path, PROFILE_PATH_MAX, "scenarios/hardware", "/", name) || find_above_program(name, ret_path))
        return STATUS_OK;
    list_profiles(directory, known, sizeof(known));
    fprintf(errors, "no GPU profile is called `%s` in %s/hardware, scenarios/hardware or a tree above the program%s\n", name,
            directory, known);
    return STATUS_NOT_FOUND;
}

/* h100 of scenarios/hardware/h100.yaml. */
static void name_from_path(const char *path, char *ret_name)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    size_t count = strlen(base) - strlen(".yaml");

    snprintf(ret_name, PROFILE_NAME_MAX, "%.*s", (int)count, base);
}

enum status profile_read(const char *name, const char *directory, FILE *errors, struct gpu_profile *ret_profile)
{
    char path[PROFILE_PATH_MAX];
    struct gpu_profile profile = {0};
    struct document document = {0};
    struct messages *messages;
    struct reader reader = {.document = &document, .profile = &profile};
    enum status status = find_profile(name, directory[0] != '\0' ? directory : ".", errors, path);

    if (status != STATUS_OK)
        return status;
    messages = calloc(1, sizeof(*messages));
    if (messages == NULL) {
        fprintf(errors, "%s: error: no memory to read it\n", path);
        return STATUS_IO;
    }
    reader.messages = messages;
    name_from_path(path, profile.name);
    status = document_open(path, messages, &document);
    if (status == STATUS_OK) {
        read_document(&reader);
        status = messages->errors == 0 ? STATUS_OK : STATUS_INVALID;
    }
    messages_print(messages, 0, errors);
    document_close(&document);
    free(messages);
    if (status == STATUS_OK)
        *ret_profile = profile;
    return status;
}
