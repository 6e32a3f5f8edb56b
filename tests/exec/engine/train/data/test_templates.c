/* Real templates and files with faults, where ../shared has them. */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/train/data/data.h"
#include "support.h"

static struct tokenizer *tokenizer_of(const char *name)
{
    char relative[128];
    char error[TOKENIZER_ERROR_MAX] = "";
    struct tokenizer *tokenizer;
    const char *folder;

    snprintf(relative, sizeof(relative), "models/tokenizers/%s", name);
    folder = test_shared_path(relative);
    if (folder == NULL) {
        printf("skipped: ../shared/%s is missing\n", relative);
        return NULL;
    }
    if (tokenizer_open(folder, &tokenizer, error) != STATUS_OK)
        fail_msg("%s", error);
    return tokenizer;
}

static struct data_source source_of(const struct tokenizer *tokenizer)
{
    return (struct data_source){.tokenizer = tokenizer, .eos = tokenizer_special(tokenizer, TOKENIZER_EOS),
                                .vocabulary = tokenizer_ids_count(tokenizer), .tokens_max = 4096};
}

/* Learned tokens of all samples as text, | between spans, || between samples. */
static char *learned_text(const struct tokenizer *tokenizer, const struct data_set *set)
{
    struct token_text text = {0};

    for (int32_t i = 0; i < set->count; i++) {
        const struct data_sample *sample = &set->sample[i];
        bool before = false;

        token_text_add(&text, "|", i > 0);
        for (int32_t t = 0; t < sample->tokens; t++) {
            const bool is_target = set->is_target[sample->at + t] != 0;
            size_t bytes = 0;
            const char *piece = token_bytes(tokenizer, set->tokens[sample->at + t], &bytes);

            token_text_add(&text, "|", is_target && !before && text.count > 0);
            if (is_target)
                token_text_add(&text, piece, bytes);
            before = is_target;
        }
    }
    token_text_add(&text, "", 1);
    return text.bytes;
}

static void real_templates_teach_the_answers(void **state)
{
    static const struct {
        const char *name;
        const char *learned;
    } cases[] = {
        {"llama3", "Hello there.<|eot_id|>|So long!<|eot_id|>"},
        {"qwen3", "<think>\n\n</think>\n\nHello there.<|im_end|>||<think>\n\n</think>\n\nSo long!<|im_end|>"},
    };
    static const char chat[] =
        "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", \"content\": \"Hi\"}, "
        "{\"role\": \"assistant\", \"content\": \"Hello there.\"}, {\"role\": \"user\", \"content\": \"Bye\"}, "
        "{\"role\": \"assistant\", \"content\": \"So long!\"}]}";

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct tokenizer *tokenizer = tokenizer_of(cases[i].name);
        struct data_source source;
        struct data_set *set;
        struct refusal refusal = {{0}};
        char *learned;
        int begins = 0;

        if (tokenizer == NULL)
            continue;
        source = source_of(tokenizer);
        if (data_open_text(chat, (int64_t)strlen(chat), "t", &source, &set, &refusal) != STATUS_OK)
            fail_msg("%s", refusal.text);
        learned = learned_text(tokenizer, set);
        assert_string_equal(learned, cases[i].learned);
        for (int32_t t = 0; t < set->sample[0].tokens; t++)
            begins += set->tokens[t] == tokenizer_special(tokenizer, TOKENIZER_BOS);
        assert_true(begins <= 1);
        free(learned);
        data_close(set);
        tokenizer_close(tokenizer);
    }
}

/* Two that a service refuses are fine here: pairs, and fewer than ten examples. */
static void faulty_files_are_refused_and_good_ones_taken(void **state)
{
    const char *manifest = test_shared_path("datasets/broken/manifest.json");
    struct tokenizer *tokenizer = tokenizer_of("qwen3");
    json_t *root = manifest != NULL ? json_load_file(manifest, 0, NULL) : NULL;
    size_t index;
    json_t *item;

    (void)state;
    if (root == NULL || tokenizer == NULL)
        skip();
    json_array_foreach(json_object_get(root, "cases"), index, item) {
        const char *name = json_string_value(json_object_get(item, "file"));
        const char *kind = json_string_value(json_object_get(item, "kind"));
        struct data_source source = source_of(tokenizer);
        struct data_set *set = NULL;
        struct refusal refusal = {{0}};
        char relative[256];
        enum status status;
        bool accept;

        source.preferences = strcmp(kind, "dpo") == 0;
        if (!source.preferences && strcmp(kind, "supervised") != 0)
            continue;
        snprintf(relative, sizeof(relative), "datasets/broken/%s", name);
        status = data_open(test_shared_path(relative), &source, &set, &refusal);
        accept = json_is_true(json_object_get(item, "accept")) || strcmp(name, "31_prompt_completion.jsonl") == 0 ||
                 strcmp(name, "34_too_few.jsonl") == 0;
        if ((status == STATUS_OK) != accept)
            fail_msg("%s is %s: %s", name, status == STATUS_OK ? "taken" : "refused", refusal.text);
        data_close(set);
    }
    json_decref(root);
    tokenizer_close(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_templates_teach_the_answers),
        cmocka_unit_test(faulty_files_are_refused_and_good_ones_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
