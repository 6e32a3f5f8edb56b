/* Any bytes as a file of examples: the validator keeps its promises about what it says, says the same however the bytes come in, and accepts
 * nothing that the trainer's reader refuses. The first byte chooses the method, the pieces, and whether there is a model. Built for libFuzzer
 * with FUZZ_VALIDATE defined; the test of mutations calls the same function; everywhere else this file is empty. */
#ifdef FUZZ_VALIDATE

#include <stdlib.h>

#include "engine/model/byte_tokenizer.h"
#include "engine/tokenizer/utf8.h"
#include "validate/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int fuzz_accepted;

static struct tokenizer *fuzz_tokenizer(void)
{
    static const char config[] = "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"chat_template\": \"{{ bos_token }}{% for m in messages %}"
                                 "[{{ m.role }}]{{ m.content }}{{ eos_token if m.role == 'assistant' }}{% endfor %}"
                                 "{{ '[assistant]' if add_generation_prompt }}\"}";
    static struct tokenizer *tokenizer;
    char error[TOKENIZER_ERROR_MAX] = "";
    char *json;

    if (tokenizer == NULL) {
        json = byte_tokenizer_text(300);
        check(tokenizer_open_texts(json, strlen(json), config, sizeof(config) - 1, &tokenizer, error) == STATUS_OK);
        free(json);
    }
    return tokenizer;
}

static void check_text(const char *text, bool may_be_empty)
{
    const size_t count = strlen(text);

    check(may_be_empty || count > 0);
    check(utf8_valid(text, count) == count);
    for (size_t i = 0; i < count; i++)
        check((unsigned char)text[i] >= 0x20 && text[i] != 0x7f);
}

static void check_issues(const struct validator *validator, size_t size)
{
    size_t count;
    const struct validate_issue *issues = validator_issues(validator, &count);
    int64_t shown[VALIDATE_CODE_COUNT] = {0};
    bool rejects = false;

    for (size_t i = 0; i < count; i++) {
        check(issues[i].line >= 0 && issues[i].line <= validator_statistics(validator)->lines);
        check(issues[i].column >= 0 && (size_t)issues[i].column <= size + 1);
        check(issues[i].line > 0 || issues[i].column == 0);
        check(i == 0 || issues[i].line == 0 || issues[i - 1].line <= issues[i].line);
        check_text(issues[i].message, false);
        check_text(issues[i].path, true);
        check_text(issues[i].hint, false);
        shown[issues[i].code]++;
    }
    for (enum validate_code code = 0; code < VALIDATE_CODE_COUNT; code++) {
        check(shown[code] == min_i64(validator_count(validator, code), VALIDATE_ISSUES_MAX));
        rejects |= validator_count(validator, code) > 0 && validate_code_rejects(code);
    }
    check(validator_accepts(validator) == !rejects);
    check(validator_statistics(validator)->good >= 0);
    check(validator_statistics(validator)->good <= validator_statistics(validator)->examples);
}

static struct validator *fuzz_read(const struct validate_config *config, const struct validator *validation, const char *text, size_t size,
                                   size_t piece)
{
    struct validator *validator = validator_open(config, validation);
    bool more = true;

    for (size_t at = 0; at < size && more; at += piece)
        more = validator_put(validator, text + at, size - at < piece ? size - at : piece);
    validator_end(validator);
    check_issues(validator, size);
    return validator;
}

/* Whatever the pieces, the same is said. */
static void check_same(const struct validator *a, const struct validator *b)
{
    size_t counts[2];
    const struct validate_issue *issues[] = {validator_issues(a, &counts[0]), validator_issues(b, &counts[1])};

    check(counts[0] == counts[1]);
    for (size_t i = 0; i < counts[0]; i++) {
        check(issues[0][i].code == issues[1][i].code && issues[0][i].line == issues[1][i].line && issues[0][i].column == issues[1][i].column);
        check(strcmp(issues[0][i].message, issues[1][i].message) == 0 && strcmp(issues[0][i].path, issues[1][i].path) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct data_source source = {.tokenizer = fuzz_tokenizer(), .eos = 2, .vocabulary = 300, .tokens_max = 200, .preferences = size > 0 && data[0] & 1};
    struct data_source trained = source;
    struct validate_config config = {.preferences = source.preferences, .examples_min = 1, .line_bytes_max = 1024};
    const char *text = (const char *)data + 1;
    struct refusal refusal = {{0}};
    struct data_set *set = NULL;
    struct validator *whole, *pieces;

    if (size == 0)
        return 0;
    if (data[0] & 2)
        config.source = &source;
    else
        trained.tokens_max = 1 << 20;
    whole = fuzz_read(&config, NULL, text, size - 1, size);
    pieces = fuzz_read(&config, data[0] & 4 ? whole : NULL, text, size - 1, 1 + data[0] / 8);
    if (!(data[0] & 4))
        check_same(whole, pieces);
    if (validator_accepts(whole)) {
        check(data_open_text(text, (int64_t)size - 1, "fuzz", &trained, &set, &refusal) == STATUS_OK);
        check(config.source == NULL || set->tokens_count == validator_statistics(whole)->tokens);
        check(config.source == NULL || set->targets_count == validator_statistics(whole)->trained_tokens);
        data_close(set);
        fuzz_accepted++;
    }
    validator_close(pieces);
    validator_close(whole);
    return 0;
}

#endif
