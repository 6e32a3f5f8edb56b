/* Files through libfyaml. Its diagnostics are collected and told in our look. Documents are not resolved: aliases are
 * followed one at a time by a reader whose depth is bounded by the keys there are, so they cannot be made to explode. */
#include "scenario/document.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "host/words.h"

static struct location location_point(const struct text *text, size_t at)
{
    return (struct location){.text = text, .at = at < text->count ? at : text->count, .count = 1};
}

static struct location location_of_file(const struct text *text)
{
    return (struct location){.text = text};
}

enum status text_read(const char *path, struct messages *messages, struct text *ret_text)
{
    struct location file_only = location_of_file(ret_text);
    enum status status = STATUS_IO;
    struct stat facts;
    FILE *file;
    char *bytes = NULL;
    size_t count;

    memset(ret_text, 0, sizeof(*ret_text));
    snprintf(ret_text->label, sizeof(ret_text->label), "%s", path);
    file = fopen(path, "rb");
    if (file == NULL) {
        messages_add(messages, SEVERITY_ERROR, file_only, "cannot be opened: %s", strerror(errno));
        return errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO;
    }
    if (fstat(fileno(file), &facts) != 0) {
        messages_add(messages, SEVERITY_ERROR, file_only, "cannot be examined: %s", strerror(errno));
        goto close_file;
    }
    if (S_ISDIR(facts.st_mode)) {
        messages_add(messages, SEVERITY_ERROR, file_only, "is a directory; name a file in it");
        goto close_file;
    }
    bytes = malloc(DOCUMENT_BYTES_MAX + 2);
    if (bytes == NULL) {
        messages_add(messages, SEVERITY_ERROR, file_only, "no memory to read it");
        goto close_file;
    }
    count = fread(bytes, 1, DOCUMENT_BYTES_MAX + 1, file);
    if (ferror(file)) {
        messages_add(messages, SEVERITY_ERROR, file_only, "cannot be read: %s", strerror(errno));
        goto free_bytes;
    }
    if (count > DOCUMENT_BYTES_MAX) {
        messages_add(messages, SEVERITY_ERROR, file_only, "is larger than %u bytes; is it the right file?",
                     DOCUMENT_BYTES_MAX);
        status = STATUS_INVALID;
        goto free_bytes;
    }
    bytes[count] = '\0';
    ret_text->bytes = bytes;
    ret_text->count = count;
    fclose(file);
    return STATUS_OK;

free_bytes:
    free(bytes);
close_file:
    fclose(file);
    return status;
}

/* libfyaml takes a value with broken UTF-8 for an empty one, so it is refused before. Returns the offset of the first
 * byte that is no part of a character a person can write; `count` when there is none. */
static size_t first_bad_byte(const char *text, size_t count)
{
    size_t i = 0;

    while (i < count) {
        size_t bytes = character_bytes(text + i, count - i);

        if (bytes == 0)
            return i;
        i += bytes;
    }
    return count;
}

/* line and column are libfyaml's, from 1; columns count characters. */
static size_t offset_of(const struct text *text, int line, int column)
{
    size_t at = 0;

    for (int i = 1; i < line && at < text->count; at++)
        i += text->bytes[at] == '\n';
    for (int i = 1; i < column && at < text->count && text->bytes[at] != '\n'; i++) {
        at++;
        while (at < text->count && !begins_character(text->bytes[at]))
            at++;
    }
    return at;
}

static void be_silent(struct fy_diag *diag, void *user, const char *bytes, size_t count)
{
    (void)diag;
    (void)user;
    (void)bytes;
    (void)count;
}

static void tell_syntax_errors(struct fy_diag *diag, const struct text *text, struct messages *messages)
{
    void *cursor = NULL;
    const struct fy_diag_error *error;
    uint32_t told = 0;

    while ((error = fy_diag_errors_iterate(diag, &cursor)) != NULL) {
        size_t at = offset_of(text, error->line, error->column);

        messages_add(messages, SEVERITY_ERROR, location_point(text, at), "%s", error->msg);
        told++;
    }
    if (told == 0)
        messages_add(messages, SEVERITY_ERROR, location_of_file(text), "is not YAML that can be read");
}

static enum status parse(struct document *document, struct fy_diag *diag, struct messages *messages)
{
    struct fy_parse_cfg config = {
        /* Twice the same key is found, and said, by the reader: libfyaml compares each with all before it. */
        .flags = FYPCF_QUIET | FYPCF_ALLOW_DUPLICATE_KEYS,
        .diag = diag,
    };
    struct text *text = &document->text;
    struct fy_document *second;

    document->parser = fy_parser_create(&config);
    if (document->parser == NULL || fy_parser_set_string(document->parser, text->bytes, text->count) != 0) {
        messages_add(messages, SEVERITY_ERROR, location_of_file(text), "no memory to read it");
        return STATUS_IO;
    }
    document->yaml = fy_parse_load_document(document->parser);
    if (fy_diag_got_error(diag)) {
        tell_syntax_errors(diag, text, messages);
        return STATUS_INVALID;
    }
    if (document->yaml == NULL || fy_document_root(document->yaml) == NULL) {
        messages_add(messages, SEVERITY_ERROR, location_of_file(text), "is empty; the least it may hold is {}");
        return STATUS_INVALID;
    }
    second = fy_parse_load_document(document->parser);
    if (second != NULL || fy_diag_got_error(diag)) {
        if (fy_diag_got_error(diag))
            tell_syntax_errors(diag, text, messages);
        else
            messages_add(messages, SEVERITY_ERROR, location_of_file(text),
                         "holds more than one document (`---`); only one is read");
        fy_parse_document_destroy(document->parser, second);
        return STATUS_INVALID;
    }
    return STATUS_OK;
}

enum status document_open(const char *path, struct messages *messages, struct document *ret_document)
{
    struct fy_diag_cfg quiet;
    struct fy_diag *diag;
    struct text *text = &ret_document->text;
    enum status status;
    size_t bad_at;

    memset(ret_document, 0, sizeof(*ret_document));
    status = text_read(path, messages, text);
    if (status != STATUS_OK)
        return status;
    bad_at = first_bad_byte(text->bytes, text->count);
    if (bad_at < text->count) {
        messages_add(messages, SEVERITY_ERROR, location_point(text, bad_at),
                     "byte 0x%02x is not text in UTF-8; is it the right file?", (unsigned char)text->bytes[bad_at]);
        return STATUS_INVALID;
    }
    fy_diag_cfg_default(&quiet);
    quiet.fp = NULL;
    quiet.output_fn = be_silent;
    diag = fy_diag_create(&quiet);
    if (diag == NULL) {
        messages_add(messages, SEVERITY_ERROR, location_of_file(text), "no memory to read it");
        return STATUS_IO;
    }
    fy_diag_set_collect_errors(diag, true);
    status = parse(ret_document, diag, messages);
    fy_diag_reset_error(diag); /* frees what was collected, which the last unref does not */
    fy_diag_unref(diag);
    if (status == STATUS_OK && !fy_node_is_mapping(document_root(ret_document))) {
        struct location first = node_location(ret_document, document_root(ret_document), location_of_file(text));

        messages_add(messages, SEVERITY_ERROR, first, "the file must be a mapping: lines of `key: value`");
        status = STATUS_INVALID;
    }
    return status;
}

void document_close(struct document *document)
{
    if (document->parser != NULL) {
        fy_parse_document_destroy(document->parser, document->yaml);
        fy_parser_destroy(document->parser);
    }
    free(document->text.bytes);
    memset(document, 0, sizeof(*document));
}

struct fy_node *document_root(const struct document *document)
{
    return fy_document_root(document->yaml);
}

struct fy_node *node_behind_alias(struct fy_node *node)
{
    /* An alias may name an alias, and at worst itself. */
    for (uint32_t hops = 0; node != NULL && fy_node_is_alias(node); hops++) {
        if (hops == 8)
            return NULL;
        node = fy_node_resolve_alias(node);
    }
    return node;
}

bool node_text(struct fy_node *node, const char **ret_text, size_t *ret_count)
{
    node = node_behind_alias(node);
    if (node == NULL || !fy_node_is_scalar(node))
        return false;
    *ret_text = fy_node_get_scalar(node, ret_count);
    if (*ret_text == NULL) {
        *ret_text = "";
        *ret_count = 0;
    }
    return true;
}

struct location node_location(const struct document *document, struct fy_node *node, struct location fallback)
{
    struct fy_token *token = node != NULL ? fy_node_get_scalar_token(node) : NULL;
    const struct fy_mark *start = token != NULL ? fy_token_start_mark(token) : NULL;
    const struct fy_mark *end = token != NULL ? fy_token_end_mark(token) : NULL;

    if (start == NULL || end == NULL || start->input_pos == (size_t)-1 || end->input_pos > document->text.count)
        return fallback;
    return (struct location){
        .text = &document->text,
        .at = start->input_pos,
        .count = end->input_pos > start->input_pos ? end->input_pos - start->input_pos : 1,
    };
}
