/* What a tokenizer.json may ask for in vain, what makes one contradict itself, and files that are missing, cut or packed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include "rig.h"
#include "support.h"

static void refused(const struct rig *rig, enum status expected, const char *why)
{
    char *json = rig_json(rig);
    char error[TOKENIZER_ERROR_MAX] = "";
    struct tokenizer *tokenizer = (struct tokenizer *)error; /* must stay as it is */
    enum status status = tokenizer_open_texts(json, strlen(json), NULL, 0, &tokenizer, error);

    if (status != expected || strstr(error, why) == NULL || strncmp(error, "tokenizer.json: ", 16) != 0)
        fail_msg("'%s' (%s) does not say '%s': %s", error, status_text(status), why, json);
    assert_ptr_equal(tokenizer, error);
    free(json);
}

static void what_is_unknown_is_refused_by_name(void **state)
{
    (void)state;
    refused(&(struct rig){.normalizer = "{\"type\": \"BertNormalizer\"}"}, STATUS_INVALID, "normalizer 'BertNormalizer' is unknown here");
    refused(&(struct rig){.normalizer = "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \" +\"}, \"content\": \" \"}"}, STATUS_INVALID, "normalizer Replace");
    refused(&(struct rig){.normalizer = "{\"type\": \"Prepend\", \"prepend\": \"longer than sixteen\"}"}, STATUS_INVALID, "normalizer Prepend has no text of at most 16 bytes");
    refused(&(struct rig){.normalizer = "{}"}, STATUS_INVALID, "normalizer '' is unknown here");
    refused(&(struct rig){.pre_tokenizer = "{\"type\": \"Whitespace\"}"}, STATUS_INVALID, "pre_tokenizer 'Whitespace' is unknown here");
    refused(&(struct rig){.pre_tokenizer = "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\"}, \"behavior\": \"Fancy\"}"}, STATUS_INVALID, "behavior 'Fancy' is unknown here");
    refused(&(struct rig){.pre_tokenizer = "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a\"}, \"behavior\": \"Isolated\"}"}, STATUS_INVALID, "cannot be compiled");
    refused(&(struct rig){.pre_tokenizer = "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a[b]]\"}, \"behavior\": \"Isolated\"}"}, STATUS_INVALID, "a class in a class");
    refused(&(struct rig){.pre_tokenizer = "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[^\\\\S]\"}, \"behavior\": \"Isolated\"}"}, STATUS_INVALID, "\\S in a class");
    refused(&(struct rig){.pre_tokenizer = "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\h\"}, \"behavior\": \"Isolated\"}"}, STATUS_INVALID, "\\h");
    refused(&(struct rig){.pre_tokenizer = "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(*LF)a\"}, \"behavior\": \"Isolated\"}"}, STATUS_INVALID, "(*");
    refused(&(struct rig){.pre_tokenizer = "{\"type\": \"Split\", \"pattern\": {}, \"behavior\": \"Isolated\"}"}, STATUS_CORRUPT, "Split has no pattern");
    refused(&(struct rig){.pre_tokenizer = "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"}, {\"type\": \"Digits\"}]}"}, STATUS_INVALID, "Digits behind ByteLevel");
    refused(&(struct rig){.pre_tokenizer = "{\"type\": \"Metaspace\", \"replacement\": \"ab\"}"}, STATUS_CORRUPT, "replacement is no character");
    refused(&(struct rig){.pre_tokenizer = "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\bx\"}, \"behavior\": \"Isolated\"}"}, STATUS_INVALID, "\\b, which is unknown here");
    refused(&(struct rig){.normalizer = "{\"type\": \"Prepend\", \"prepend\": \"_\"}",
                          .pre_tokenizer = "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\"}, {\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"first\"}]}"},
            STATUS_INVALID, "prepend_scheme first behind another split");
    refused(&(struct rig){.post_processor = "{\"type\": \"BertProcessing\"}"}, STATUS_INVALID, "post_processor 'BertProcessing' is unknown here");
    refused(&(struct rig){.post_processor = "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"x\"}}]}"}, STATUS_CORRUPT, "names a token that it does not define");
    refused(&(struct rig){.post_processor = "{\"type\": \"TemplateProcessing\", \"single\": []}"}, STATUS_INVALID, "no place for the text");
    refused(&(struct rig){.decoder = "{\"type\": \"WordPiece\"}"}, STATUS_INVALID, "decoder 'WordPiece' is unknown here");
    refused(&(struct rig){.decoder = "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Fuse\"}, {\"type\": \"ByteFallback\"}]}"}, STATUS_INVALID, "decoder ByteFallback in this place");
    refused(&(struct rig){.decoder = "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": 0, \"stop\": 1}]}"}, STATUS_INVALID, "decoder Strip");
    refused(&(struct rig){.model = ", \"dropout\": 0.1"}, STATUS_INVALID, "dropout");
    refused(&(struct rig){.model = ", \"end_of_word_suffix\": \"</w>\""}, STATUS_INVALID, "end_of_word_suffix");
    refused(&(struct rig){.model = ", \"type\": \"Unigram\""}, STATUS_INVALID, "model 'Unigram' is unknown here; BPE is known");
}

static void what_contradicts_itself_is_refused(void **state)
{
    (void)state;
    refused(&(struct rig){.model = ", \"unk_token\": \"<none>\""}, STATUS_CORRUPT, "unk_token '<none>' is not in the vocabulary");
    refused(&(struct rig){.added = "[{\"id\": 0, \"content\": \"<other>\"}]"}, STATUS_CORRUPT, "added token '<other>' has the id of another token");
    refused(&(struct rig){.added = "[{\"id\": 4194304, \"content\": \"x\"}]"}, STATUS_CORRUPT, "token 'x' has no id from 0 to 4194303");
    refused(&(struct rig){.added = "[{\"id\": -1, \"content\": \"x\"}]"}, STATUS_CORRUPT, "has no id");
    refused(&(struct rig){.added = "[{\"id\": 1}]"}, STATUS_CORRUPT, "added_tokens[0] has no content");
}

static void texts_that_are_no_tokenizer_are_refused(void **state)
{
    static const struct {
        const char *json, *why;
    } cases[] = {
        {"", "tokenizer.json: line 1: "},
        {"{\n\"model\": ", "tokenizer.json: line 2: "},
        {"[]", "it is no object"},
        {"{}", "it has no model"},
        {"{\"model\": {}}", "model.vocab is no object"},
        {"{\"model\": {\"vocab\": {}}}", "there is no token in it"},
        {"{\"model\": {\"vocab\": {\"a\": 0}}}", "model.merges is no list"},
        {"{\"model\": {\"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}}", "two tokens have id 0"},
        {"{\"model\": {\"vocab\": {\"a\": 1.5}, \"merges\": []}}", "token 'a' has no id"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a\"]}}", "model.merges[0] is no pair"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [[\"a\", 1]]}}", "model.merges[0] is no pair"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a a\"]}}", "'a' and 'a' or both together are not in the vocabulary"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char error[TOKENIZER_ERROR_MAX] = "";
        struct tokenizer *tokenizer = NULL;

        assert_int_equal(tokenizer_open_texts(cases[i].json, strlen(cases[i].json), NULL, 0, &tokenizer, error), STATUS_CORRUPT);
        if (strstr(error, cases[i].why) == NULL)
            fail_msg("'%s' does not say '%s'", error, cases[i].why);
        assert_null(tokenizer);
    }
}

static void a_config_says_which_tokens_play_which_role(void **state)
{
    char *json = rig_json(&(struct rig){.no_bytes = true, .characters = "ab"});
    /* No integer is so great as this model_max_length, which real files have. */
    static const char config[] = "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}, \"pad_token\": null, \"unk_token\": \"<other>\","
                                 " \"model_max_length\": 1000000000000000019884624838656,"
                                 " \"chat_template\": [{\"name\": \"rag\", \"template\": \"r\"}, {\"name\": \"default\", \"template\": \"d\"}]}";
    char error[TOKENIZER_ERROR_MAX] = "";
    struct tokenizer *tokenizer = NULL;
    const char *template;
    size_t count;

    (void)state;
    assert_int_equal(tokenizer_open_texts(json, strlen(json), config, sizeof(config) - 1, &tokenizer, error), STATUS_OK);
    assert_int_equal(tokenizer_special(tokenizer, TOKENIZER_BOS), 1);
    assert_int_equal(tokenizer_special(tokenizer, TOKENIZER_EOS), 2);
    assert_int_equal(tokenizer_special(tokenizer, TOKENIZER_PAD), TOKENIZER_NO_ID);
    assert_int_equal(tokenizer_special(tokenizer, TOKENIZER_UNK), TOKENIZER_NO_ID);
    template = tokenizer_chat_template(tokenizer, &count);
    assert_int_equal(count, 1);
    assert_int_equal(template[0], 'd');
    tokenizer_close(tokenizer);
    assert_int_equal(tokenizer_open_texts(json, strlen(json), "{", 1, &tokenizer, error), STATUS_CORRUPT);
    assert_non_null(strstr(error, "tokenizer_config.json: line 1: "));
    free(json);
}

/* --- files --- */

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const char *bytes, size_t count)
{
    FILE *file = fopen(in_folder(name), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

static void put_packed(const char *name, const char *text)
{
    gzFile file = gzopen(in_folder(name), "wb");

    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)strlen(text)), (int)strlen(text));
    assert_int_equal(gzclose(file), Z_OK);
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/berth-tokenizer-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.json.gz", "tokenizer_config.json", "chat_template.jinja"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        unlink(in_folder(names[i]));
    return rmdir(folder);
}

static void a_folder_without_a_tokenizer_is_not_found(void **state)
{
    char error[TOKENIZER_ERROR_MAX] = "";
    struct tokenizer *tokenizer = NULL;

    (void)state;
    assert_int_equal(tokenizer_open(folder, &tokenizer, error), STATUS_NOT_FOUND);
    assert_string_equal(error, "there is neither tokenizer.json nor tokenizer.json.gz");
    assert_int_equal(tokenizer_open("/tmp/berth-no-such-folder", &tokenizer, error), STATUS_NOT_FOUND);
}

static void a_packed_file_is_read_and_a_cut_one_is_not(void **state)
{
    static const char config[] = "{\"bos_token\": \"<s>\", \"chat_template\": \"c\"}";
    char *json = rig_json(&(struct rig){.no_bytes = true, .characters = "ab"});
    char error[TOKENIZER_ERROR_MAX] = "";
    struct tokenizer *tokenizer = NULL;
    size_t count;

    (void)state;
    put_packed("tokenizer.json.gz", json);
    put("tokenizer_config.json", config, sizeof(config) - 1);
    assert_int_equal(tokenizer_open(folder, &tokenizer, error), STATUS_OK);
    assert_int_equal(tokenizer_special(tokenizer, TOKENIZER_BOS), 1);
    assert_int_equal(tokenizer_chat_template(tokenizer, &count)[0], 'c');
    tokenizer_close(tokenizer);
    put("chat_template.jinja", "jinja", 5);
    assert_int_equal(tokenizer_open(folder, &tokenizer, error), STATUS_OK);
    assert_int_equal(tokenizer_chat_template(tokenizer, &count)[0], 'j');
    assert_int_equal(count, 5);
    tokenizer_close(tokenizer);
    assert_int_equal(truncate(in_folder("tokenizer.json.gz"), 40), 0);
    assert_int_equal(tokenizer_open(folder, &tokenizer, error), STATUS_IO);
    assert_string_equal(error, "tokenizer.json.gz: it cannot be read to its end");
    put("tokenizer.json", json, strlen(json));
    assert_int_equal(tokenizer_open(folder, &tokenizer, error), STATUS_OK);
    tokenizer_close(tokenizer);
    put("tokenizer_config.json", "[]", 2);
    assert_int_equal(tokenizer_open(folder, &tokenizer, error), STATUS_CORRUPT);
    assert_string_equal(error, "tokenizer_config.json: line 1: no object");
    free(json);
}

/* A packed file of nothing but spaces is small and would fill the memory. */
static void a_file_that_unpacks_to_too_much_is_refused(void **state)
{
    static char spaces[1 << 20];
    char error[TOKENIZER_ERROR_MAX] = "";
    struct tokenizer *tokenizer = NULL;
    gzFile file = gzopen(in_folder("tokenizer.json.gz"), "wb1");

    (void)state;
    memset(spaces, ' ', sizeof(spaces));
    assert_non_null(file);
    for (unsigned i = 0; i <= TOKENIZER_FILE_BYTES_MAX >> 20; i++)
        assert_int_equal(gzwrite(file, spaces, sizeof(spaces)), sizeof(spaces));
    assert_int_equal(gzclose(file), Z_OK);
    assert_int_equal(tokenizer_open(folder, &tokenizer, error), STATUS_INVALID);
    assert_string_equal(error, "tokenizer.json.gz: more than 134217728 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_unknown_is_refused_by_name),
        cmocka_unit_test(what_contradicts_itself_is_refused),
        cmocka_unit_test(texts_that_are_no_tokenizer_are_refused),
        cmocka_unit_test(a_config_says_which_tokens_play_which_role),
        cmocka_unit_test_setup_teardown(a_folder_without_a_tokenizer_is_not_found, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_packed_file_is_read_and_a_cut_one_is_not, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_file_that_unpacks_to_too_much_is_refused, make_folder, remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
