/* The validator over files of examples in memory: megabytes a second of one core, the best of some rounds. With a model it renders each
 * chat twice and encodes it, as training does, and that is what it takes; the tokenizer is one of single bytes. One JSON line each. */
#include <stdlib.h>

#include "bench/bench.h"
#include "engine/model/byte_tokenizer.h"
#include "validate/validate.h"

#define FILE_BYTES (64 << 20)
#define MODEL_BYTES (2 << 20)
#define PIECE_BYTES (256 << 10)
#define ROUNDS 3

static const char chinese[] = "\xe4\xbb\x8a\xe5\xa4\xa9\xe5\xa4\xa9\xe6\xb0\x94\xe6\x80\x8e\xe4\xb9\x88\xe6\xa0\xb7 ";
static const struct {
    const char *name;
    const char *text; /* of a message, so many times */
    int times;
} cases[] = {{"lines of 200 bytes", "What is it? ", 5}, {"lines of 4 KB", "What is it, and what has it to do with us? ", 90},
             {"lines of 4 KB, escapes", "\\\"What\\\" is it?\\n\\u00e9t\\u00e9 ", 128}, {"lines of 4 KB, Chinese", chinese, 180}};

static size_t write_file(char *file, size_t bytes, int kind)
{
    size_t used = 0;

    for (uint32_t number = 0;; number++) {
        const size_t from = used;

        if (used + 8192 > bytes)
            return from;
        used += (size_t)sprintf(file + used, "{\"messages\": [{\"role\": \"user\", \"content\": \"%u ", number);
        for (int i = 0; i < cases[kind].times; i++) {
            memcpy(file + used, cases[kind].text, strlen(cases[kind].text));
            used += strlen(cases[kind].text);
        }
        used += (size_t)sprintf(file + used, "\"}, {\"role\": \"assistant\", \"content\": \"%u of them\"}]}\n", number);
    }
}

static void measure(const char *file, size_t bytes, const char *name, const struct data_source *source)
{
    const struct validate_config config = {.examples_min = 1, .line_bytes_max = VALIDATE_LINE_BYTES, .source = source};
    double best_s = 1e9;

    for (int round = 0; round < ROUNDS; round++) {
        struct validator *validator = validator_open(&config, NULL);
        double taken_s = -bench_cpu_s();

        for (size_t at = 0; at < bytes; at += PIECE_BYTES)
            check(validator_put(validator, file + at, bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES));
        validator_end(validator);
        taken_s += bench_cpu_s();
        check(validator_accepts(validator));
        validator_close(validator);
        if (taken_s < best_s)
            best_s = taken_s;
    }
    printf("{\"name\": \"validate\", \"case\": \"%s%s\", \"value\": %.1f, \"unit\": \"MB/s\", \"bytes\": %zu}\n", name, source != NULL ? ", a model" : "",
           (double)bytes / best_s / 1e6, bytes);
    fflush(stdout);
}

static struct tokenizer *tokenizer_make(void)
{
    static const char config[] = "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"chat_template\": \"{{ bos_token }}{% for m in messages %}"
                                 "[{{ m.role }}]{{ m.content }}{{ eos_token if m.role == 'assistant' }}{% endfor %}"
                                 "{{ '[assistant]' if add_generation_prompt }}\"}";
    char error[TOKENIZER_ERROR_MAX];
    struct tokenizer *tokenizer;
    char *json = byte_tokenizer_text(4096);

    check(tokenizer_open_texts(json, strlen(json), config, strlen(config), &tokenizer, error) == STATUS_OK);
    free(json);
    return tokenizer;
}

int main(int argc, char **argv)
{
    struct data_source source = {.eos = 2, .vocabulary = 4096, .tokens_max = 8192};
    struct tokenizer *tokenizer;
    char *file;

    if (!bench_wanted(argc, argv, "validate"))
        return 0;
    source.tokenizer = tokenizer = tokenizer_make();
    file = malloc(FILE_BYTES);
    check(file != NULL);
    for (int kind = 0; kind < (int)ARRAY_COUNT(cases); kind++) {
        const size_t bytes = write_file(file, FILE_BYTES, kind);

        measure(file, bytes, cases[kind].name, NULL);
        measure(file, write_file(file, MODEL_BYTES, kind), cases[kind].name, &source);
    }
    tokenizer_close(tokenizer);
    free(file);
    return 0;
}
