#include "engine/model/byte_tokenizer.h"

#include <jansson.h>
#include <stdio.h>

#define BYTES_COUNT 256

/* Bytes in the order in which pairs are made of them. */
static void order_bytes(unsigned char ret_order[BYTES_COUNT])
{
    static const char first[] = " etaoinshrdlcumwfgypbvkjxqz.,\nTAISHWMBCDPLRFNEGOJUVYKQXZ'\"-0123456789!?;:()";
    bool used[BYTES_COUNT] = {false};
    size_t count = 0;

    for (const char *at = first; *at != '\0'; at++) {
        used[(unsigned char)*at] = true;
        ret_order[count++] = (unsigned char)*at;
    }
    for (int byte = 0; byte < BYTES_COUNT; byte++)
        if (!used[byte])
            ret_order[count++] = (unsigned char)byte;
    check(count == BYTES_COUNT);
}

/* GPT-2's letters for bytes: printable ones are themselves, the others follow from 256 on. UTF-8. */
static void name_bytes(char ret_name[BYTES_COUNT][4])
{
    unsigned next = 256;

    for (unsigned byte = 0; byte < BYTES_COUNT; byte++) {
        bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        unsigned letter = itself ? byte : next++;

        memset(ret_name[byte], 0, 4);
        if (letter < 0x80) {
            ret_name[byte][0] = (char)letter;
        } else {
            ret_name[byte][0] = (char)(0xc0 | letter >> 6);
            ret_name[byte][1] = (char)(0x80 | (letter & 0x3f));
        }
    }
}

static void add_special(json_t *list, json_t *vocabulary, const char *content)
{
    json_int_t id = (json_int_t)json_object_size(vocabulary);

    json_object_set_new(vocabulary, content, json_integer(id));
    json_array_append_new(list, json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", content,
                                          "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1));
}

/* Pairs of the first n bytes of the order come before those with the next one. */
static void add_pairs(json_t *vocabulary, json_t *merges, char name[BYTES_COUNT][4], int32_t count)
{
    unsigned char order[BYTES_COUNT];
    char token[16];

    order_bytes(order);
    for (int shell = 0; shell < BYTES_COUNT; shell++)
        for (int i = 0; i < 2 * shell + 1; i++) {
            const char *left = name[order[i <= shell ? i : shell]];
            const char *right = name[order[i <= shell ? shell : i - shell - 1]];

            if ((int32_t)json_object_size(vocabulary) >= count)
                return;
            snprintf(token, sizeof(token), "%s%s", left, right);
            json_object_set_new(vocabulary, token, json_integer((json_int_t)json_object_size(vocabulary)));
            snprintf(token, sizeof(token), "%s %s", left, right);
            json_array_append_new(merges, json_string(token));
        }
}

char *byte_tokenizer_text(int32_t vocabulary_count)
{
    json_t *vocabulary = json_object();
    json_t *merges = json_array();
    json_t *added = json_array();
    char name[BYTES_COUNT][4];
    json_t *root;
    char *text;

    check(vocabulary_count >= BYTE_TOKENIZER_IDS_MIN);
    name_bytes(name);
    add_special(added, vocabulary, "<unk>");
    add_special(added, vocabulary, "<s>");
    add_special(added, vocabulary, "</s>");
    for (int byte = 0; byte < BYTES_COUNT; byte++)
        json_object_set_new(vocabulary, name[byte], json_integer(3 + byte));
    add_pairs(vocabulary, merges, name, vocabulary_count);
    root = json_pack(
        "{s:s, s:n, s:n, s:o, s:n, s:{s:s, s:b, s:b, s:b}, s:n, s:{s:s, s:b, s:b, s:b}, s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:o, s:o}}",
        "version", "1.0", "truncation", "padding", "added_tokens", added, "normalizer", "pre_tokenizer", "type",
        "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1, "post_processor", "decoder", "type",
        "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1, "model", "type", "BPE", "dropout",
        "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "vocab",
        vocabulary, "merges", merges);
    check(root != NULL);
    text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}
