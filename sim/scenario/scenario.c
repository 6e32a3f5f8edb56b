/* Reading a scenario file: parse, find its variants, and for each lay the layers over each other, resolve and check. */
#include "scenario/scenario.h"

#include <stdlib.h>

#include "scenario/apply.h"
#include "scenario/resolve.h"

void scenario_path(const struct scenario *scenario, const char *path, char *ret_path)
{
    bool is_absolute = path[0] == '/' || scenario->directory[0] == '\0' || strcmp(scenario->directory, ".") == 0;

    snprintf(ret_path, KEY_TEXT_MAX * 2, "%s%s%s", is_absolute ? "" : scenario->directory, is_absolute ? "" : "/", path);
}

/* The part of a path before its last slash; "." when there is none. */
static enum status directory_of(const char *path, struct location at, struct messages *messages, char *ret_directory)
{
    const char *slash = strrchr(path, '/');
    size_t count = slash != NULL ? (size_t)(slash - path) : 1;

    if (count >= KEY_TEXT_MAX) {
        messages_add(messages, SEVERITY_ERROR, at, "its directory's name is longer than %d bytes", KEY_TEXT_MAX - 1);
        return STATUS_INVALID;
    }
    memcpy(ret_directory, slash != NULL ? path : ".", count);
    ret_directory[count] = '\0';
    if (count == 0)
        strcpy(ret_directory, "/");
    return STATUS_OK;
}

/* The file and, as comments, what the command line changed: together they say what was run. */
static char *text_with_settings(const struct text *text, const char *const *settings, uint32_t settings_count)
{
    size_t bytes = text->count + 2;
    size_t used;
    char *whole;

    for (uint32_t i = 0; i < settings_count; i++)
        bytes += strlen(settings[i]) + sizeof("# --set \n");
    whole = malloc(bytes);
    if (whole == NULL)
        return NULL;
    memcpy(whole, text->bytes, text->count);
    used = text->count;
    if (used > 0 && whole[used - 1] != '\n')
        whole[used++] = '\n';
    whole[used] = '\0';
    for (uint32_t i = 0; i < settings_count; i++) {
        int line_count = snprintf(whole + used, bytes - used, "# --set %s\n", settings[i]);

        check(line_count > 0);
        /* A setting with a line break must not begin a line that is no comment. */
        for (int j = 0; j < line_count - 1; j++) {
            if (whole[used + (size_t)j] == '\n')
                whole[used + (size_t)j] = ' ';
        }
        used += (size_t)line_count;
    }
    return whole;
}

/* What reading needs beside its answer; too large for a stack. */
struct reading {
    struct messages messages;
    struct document document;
    struct variant_list variants;
    struct draft draft;
    struct text *setting_texts;
};

static void read_variant(struct reading *reading, const struct layers *layers, const char *name, struct scenario *ret_scenario)
{
    const struct location top = {.text = &reading->document.text};
    uint32_t errors_before = reading->messages.errors;

    reading->messages.variant = layers->variant != NULL ? name : NULL;
    snprintf(ret_scenario->variant, sizeof(ret_scenario->variant), "%s", name);
    layers_apply(layers, &reading->messages, &reading->draft);
    if (reading->messages.errors == errors_before)
        scenario_resolve(&reading->draft, top, &reading->messages, ret_scenario);
    reading->messages.variant = NULL;
}

static enum status read_variants(struct reading *reading, const char *path, const char *const *settings,
                                 uint32_t settings_count, struct scenario_set *set)
{
    const struct variant_list *variants = &reading->variants;
    struct layers layers = {
        .document = &reading->document,
        .settings = settings,
        .setting_texts = reading->setting_texts,
        .settings_count = settings_count,
    };
    char directory[KEY_TEXT_MAX];
    enum status status =
        directory_of(path, (struct location){.text = &reading->document.text}, &reading->messages, directory);

    if (status != STATUS_OK)
        return status;
    set->count = variants->count > 0 ? variants->count : 1;
    set->items = calloc(set->count, sizeof(*set->items));
    set->text = text_with_settings(&reading->document.text, settings, settings_count);
    if (set->items == NULL || set->text == NULL)
        return STATUS_IO;
    for (uint32_t i = 0; i < set->count && reading->messages.dropped == 0; i++) {
        char name[VARIANT_NAME_MAX] = "default";

        memcpy(set->items[i].directory, directory, sizeof(directory));
        if (variants->count > 0) {
            snprintf(name, sizeof(name), "%.*s", (int)variants->names_count[i], variants->names[i]);
            layers.variant = variants->overrides[i];
            layers.variant_at = variants->at[i];
        }
        read_variant(reading, &layers, name, &set->items[i]);
    }
    return reading->messages.errors == 0 ? STATUS_OK : STATUS_INVALID;
}

enum status scenario_read(const char *path, const char *const *settings, uint32_t settings_count, FILE *errors,
                          struct scenario_set *ret_set)
{
    struct reading *reading = calloc(1, sizeof(*reading));
    struct scenario_set set = {0};
    enum status status = STATUS_IO;

    if (reading == NULL) {
        fprintf(errors, "%s: error: no memory to read it\n", path);
        return STATUS_IO;
    }
    reading->setting_texts = calloc((size_t)settings_count + 1, sizeof(*reading->setting_texts));
    if (reading->setting_texts == NULL)
        goto free_reading;
    for (uint32_t i = 0; i < settings_count; i++)
        snprintf(reading->setting_texts[i].label, MESSAGE_LABEL_MAX, "--set %s", settings[i]);
    status = document_open(path, &reading->messages, &reading->document);
    if (status == STATUS_OK) {
        variants_find(&reading->document, &reading->messages, &reading->variants);
        status = read_variants(reading, path, settings, settings_count, &set);
    }
    messages_print(&reading->messages, reading->variants.count, errors);
    if (status == STATUS_OK)
        *ret_set = set;
    else
        scenario_set_free(&set);
    document_close(&reading->document);

free_reading:
    free(reading->setting_texts);
    free(reading);
    return status;
}

void scenario_set_free(struct scenario_set *set)
{
    free(set->items);
    free(set->text);
    memset(set, 0, sizeof(*set));
}
