/* Tokenizers and templates after accidents of many kinds, through the fuzz target. */
#define FUZZ_TOKENIZER
#include "fuzz/fuzz_tokenizer.c"

#include "rig.h"
#include "support.h"

enum { MUTATIONS = 4000, BYTES_MAX = 1 << 15 };

static void mutate(uint64_t *random, char *text, size_t *count)
{
    static const char *const likely[] = {"{", "}", "[", "]", "\"", "null", "%", "{%", "%}", "{{", "}}", "0", "-1", "1e9", "|", ".", "(", ")",
                                         "\\", "\n", "\xff", "\xe2\x96\x81", " if ", " for ", " in ", "true", ": ", ", "};
    const char *in = likely[draw_below(random, ARRAY_COUNT(likely))];
    size_t at = (size_t)draw_below(random, *count);
    size_t length = (size_t)min_u64(1 + draw_below(random, 24), *count - at);

    switch (draw_below(random, 4)) {
    case 0: /* a bit flips */
        text[at] = (char)(text[at] ^ (char)(1 << draw_below(random, 8)));
        break;
    case 1: /* a piece is lost */
        memmove(text + at, text + at + length, *count - at - length);
        *count = *count - length > 0 ? *count - length : 1;
        break;
    case 2: /* something comes in */
        memmove(text + at + strlen(in), text + at, *count - at);
        memcpy(text + at, in, strlen(in));
        *count += strlen(in);
        break;
    default: /* a piece stands there twice */
        memmove(text + at + length, text + at, *count - at);
        *count += length;
        break;
    }
}

static void survive(const char *text, char kind, uint64_t seed, unsigned accidents_max)
{
    static char bytes[BYTES_MAX];
    uint64_t random = test_seed(seed);

    print_message("seed %llu\n", (unsigned long long)random); /* a failed check stops the program */
    assert_true(strlen(text) + 1024 < BYTES_MAX);
    for (int i = 0; i < MUTATIONS; i++) {
        size_t count = strlen(text);

        bytes[0] = kind;
        memcpy(bytes + 1, text, count);
        for (uint64_t accidents = 1 + draw_below(&random, accidents_max); accidents > 0; accidents--)
            mutate(&random, bytes + 1, &count);
        LLVMFuzzerTestOneInput((const uint8_t *)bytes, count + 1);
    }
}

static void tokenizers_survive_accidents(void **state)
{
    const struct rig rigs[] = {
        {.byte_level = true, .merges = "h e|l l", .normalizer = "{\"type\": \"NFC\"}",
         .pre_tokenizer = "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\p{L}+|\\\\s+(?!\\\\S)|[^\\\\s]\"}, "
                          "\"behavior\": \"Isolated\"}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}]}",
         .added = "[{\"id\": ID, \"content\": \"<|end|>\", \"special\": true}, {\"id\": ID, \"content\": \"<think>\"}]"},
        {.no_bytes = true, .characters = "Helo wrd\xe2\x96\x81", .merges = "l l|H e", .model = ", \"unk_token\": \"<unk>\", \"byte_fallback\": true",
         .normalizer = "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"\xe2\x96\x81\"}, {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\xe2\x96\x81\"}]}",
         .decoder = "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"\xe2\x96\x81\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}]}",
         .added = "[{\"id\": 1, \"content\": \"<s>\", \"special\": true, \"normalized\": true}]"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rigs); i++) {
        char *json = rig_json(&rigs[i]);

        survive(json, 0, 51 + i, 2);
        free(json);
    }
}

static void templates_survive_accidents(void **state)
{
    (void)state;
    survive("{%- set ns = namespace(n=0) %}{% macro m(x, y='z') %}[{{ x }}{{ y }}]{% endmacro %}{% for message in messages[::-1] if message.role != 'x' %}\n"
            "  {%- if loop.first and not message.content %}{{- '<|im_start|>' + message.role + '\\n' }}{% elif message.content is string %}\n"
            "{{ message.content.split('<')[-1].lstrip('\\n') | trim | upper }}{% else %}{{ m(message.tool_calls[0].function | tojson(indent=2)) }}{% endif %}\n"
            "{% set ns.n = ns.n + loop.index0 * 2 ** 3 %}{# c #}{%- endfor -%}{{ ns.n ~ '|' ~ messages | map(attribute='role') | join(', ') }}\n"
            "{% raw %}{{ x }}{% endraw %}{{ 'a' if add_generation_prompt else {'k': [1, 2.5, none]} }}",
            1, 61, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokenizers_survive_accidents),
        cmocka_unit_test(templates_survive_accidents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
