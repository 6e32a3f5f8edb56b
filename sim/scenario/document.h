/* A YAML file, read within limits: size, UTF-8, one document, no alias is expanded beyond what is asked of it. Nodes
 * answer where they stand, for messages. */
#ifndef SCENARIO_DOCUMENT_H
#define SCENARIO_DOCUMENT_H

#include <libfyaml.h>

#include "scenario/messages.h"

#define DOCUMENT_BYTES_MAX (1u << 20)

struct document {
    struct text text;
    struct fy_parser *parser;
    struct fy_document *yaml;
};

/* A file's bytes, terminated by 0. STATUS_NOT_FOUND, STATUS_IO or STATUS_INVALID (too large) with a message. The bytes
 * are the caller's to free, whatever the answer. */
enum status text_read(const char *path, struct messages *messages, struct text *ret_text);
/* The root is a mapping; otherwise STATUS_INVALID with messages. document_close() in every case. */
enum status document_open(const char *path, struct messages *messages, struct document *ret_document);
void document_close(struct document *document); /* accepts {0}; messages that point into it must be printed before */
struct fy_node *document_root(const struct document *document);

/* An alias stands for the node it names; NULL when there is none or only itself. */
struct fy_node *node_behind_alias(struct fy_node *node);
/* The text of a scalar, aliases followed; an absent one is an empty text. False for lists, mappings and aliases of nothing. */
bool node_text(struct fy_node *node, const char **ret_text, size_t *ret_count);
/* Scalars know their place; other nodes stand where `fallback` says: at their key. */
struct location node_location(const struct document *document, struct fy_node *node, struct location fallback);

#endif
