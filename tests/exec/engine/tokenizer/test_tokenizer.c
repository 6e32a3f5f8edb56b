/* Tokenizers small enough to say beforehand what they do: merging against a naive twin, splitting, normalising, added tokens, plain
 * text, bytes, streams, and texts that would take for ever if anything were quadratic. */
#include <stdio.h>
#include <stdlib.h>

#include <utf8proc.h>

#include "engine/tokenizer/utf8.h"
#include "rig.h"
#include "support.h"

#define MARK "\xe2\x96\x81" /* U+2581, a space in SentencePiece */
#define SPECIAL(content) "{\"id\": ID, \"content\": \"" content "\", \"special\": true, \"normalized\": false}"

/* --- merging --- */

enum { LETTERS = 4, MERGES_MAX = 60 };
struct twin {
    char tokens[LETTERS + MERGES_MAX][64];
    uint32_t tokens_count;
    uint32_t left[MERGES_MAX], right[MERGES_MAX], made[MERGES_MAX];
    uint32_t merges_count;
};

/* The definition, word for word: as long as any pair merges, the first of the lowest rank does. */
static size_t twin_merge(const struct twin *twin, const char *word, uint32_t *ret_tokens)
{
    size_t count = strlen(word);

    for (size_t i = 0; i < count; i++)
        ret_tokens[i] = (uint32_t)(word[i] - 'a');
    for (;;) {
        uint32_t best = NONE_INDEX;
        size_t best_at = 0;

        for (size_t i = 0; i + 1 < count; i++) {
            for (uint32_t rank = 0; rank < twin->merges_count && rank < best; rank++) {
                if (twin->left[rank] == ret_tokens[i] && twin->right[rank] == ret_tokens[i + 1]) {
                    best = rank;
                    best_at = i;
                }
            }
        }
        if (best == NONE_INDEX)
            return count;
        ret_tokens[best_at] = twin->made[best];
        memmove(ret_tokens + best_at + 1, ret_tokens + best_at + 2, (count - best_at - 2) * sizeof(*ret_tokens));
        count--;
    }
}

static void twin_draw(struct twin *twin, uint64_t *random, char *merges)
{
    size_t used = 0;

    memset(twin, 0, sizeof(*twin));
    for (; twin->tokens_count < LETTERS; twin->tokens_count++)
        twin->tokens[twin->tokens_count][0] = (char)('a' + twin->tokens_count);
    for (int tries = 0; tries < 400 && twin->merges_count < MERGES_MAX; tries++) {
        uint32_t left = (uint32_t)draw_below(random, twin->tokens_count), right = (uint32_t)draw_below(random, twin->tokens_count);
        char joined[80];
        bool known = false;

        snprintf(joined, sizeof(joined), "%.30s%.30s", twin->tokens[left], twin->tokens[right]);
        for (uint32_t i = 0; i < twin->tokens_count; i++)
            known |= strcmp(twin->tokens[i], joined) == 0;
        if (known || strlen(joined) > 12)
            continue;
        used += (size_t)sprintf(merges + used, "%s%s %s", used > 0 ? "|" : "", twin->tokens[left], twin->tokens[right]);
        twin->left[twin->merges_count] = left;
        twin->right[twin->merges_count] = right;
        twin->made[twin->merges_count++] = twin->tokens_count;
        strcpy(twin->tokens[twin->tokens_count++], joined);
    }
}

static void merging_agrees_with_its_definition(void **state)
{
    uint64_t seed = test_seed(41), random = seed;
    static char merges[MERGES_MAX * 40];
    static struct twin twin;

    (void)state;
    for (int round = 0; round < 60; round++) {
        struct rig rig = {.no_bytes = true, .characters = "abcd", .merges = merges};
        struct tokenizer *tokenizer;

        twin_draw(&twin, &random, merges);
        tokenizer = rig_open(&rig);
        for (int i = 0; i < 40; i++) {
            char word[101] = "";
            uint32_t expected[101];
            size_t length = (size_t)draw_below(&random, 100), count;
            struct token_list list;

            for (size_t at = 0; at < length; at++)
                word[at] = (char)('a' + draw_below(&random, draw_below(&random, 2) == 0 ? 1 : LETTERS));
            count = twin_merge(&twin, word, expected);
            list = rig_encode(tokenizer, word, length, NULL, 0);
            for (size_t at = 0; at < count || at < list.count; at++) {
                /* <unk>, <s> and </s> come first. */
                if (at >= count || at >= list.count || list.ids[at] != (int32_t)expected[at] + 3)
                    fail_msg("seed %llu: '%s': token %zu is %d, not %u", (unsigned long long)seed, word, at,
                             at < list.count ? list.ids[at] : -1, at < count ? expected[at] + 3 : 0);
            }
            token_list_free(&list);
        }
        tokenizer_close(tokenizer);
    }
}

static void a_byte_level_vocabulary_merges_bytes(void **state)
{
    struct tokenizer *tokenizer = rig_open(&(struct rig){.byte_level = true, .merges = "h e|l l|he ll|hell o|\xc4\xa0 w|\xc3\x83 \xc2\xa9"});

    (void)state;
    assert_string_equal(rig_pieces(tokenizer, "hello", 0), "hello");
    assert_string_equal(rig_pieces(tokenizer, "hello world \xc3\xa9", 0), "hello|\xc4\xa0w|o|r|l|d|\xc4\xa0|\xc3\x83\xc2\xa9");
    assert_string_equal(rig_pieces(tokenizer, "", 0), "");
    assert_int_equal(tokenizer_id_of(tokenizer, "\xc4\xa0w", 3), 260);
    assert_int_equal(tokenizer_id_of(tokenizer, " w", 2), TOKENIZER_NO_ID);
    assert_int_equal(tokenizer_ids_count(tokenizer), 262);
    tokenizer_close(tokenizer);
}

static void a_whole_word_may_go_before_merges(void **state)
{
    const struct rig without = {.byte_level = true, .words = "hello"};
    const struct rig with = {.byte_level = true, .words = "hello", .model = ", \"ignore_merges\": true"};
    struct tokenizer *tokenizers[2] = {rig_open(&without), rig_open(&with)};

    (void)state;
    assert_string_equal(rig_pieces(tokenizers[0], "hello", 0), "h|e|l|l|o");
    assert_string_equal(rig_pieces(tokenizers[1], "hello hello", 0), "hello|\xc4\xa0|h|e|l|l|o");
    tokenizer_close(tokenizers[0]);
    tokenizer_close(tokenizers[1]);
}

static void characters_without_a_token_are_bytes_or_unknown(void **state)
{
    const struct rig bytes = {.characters = "ab", .model = ", \"byte_fallback\": true, \"unk_token\": \"<unk>\", \"fuse_unk\": true"};
    const struct rig fused = {.no_bytes = true, .characters = "ab", .model = ", \"unk_token\": \"<unk>\", \"fuse_unk\": true"};
    const struct rig apart = {.no_bytes = true, .characters = "ab", .model = ", \"unk_token\": \"<unk>\""};
    const struct rig none = {.no_bytes = true, .characters = "ab"};
    const struct rig *const rigs[] = {&bytes, &fused, &apart, &none};
    static const char *const expected[] = {"a|<0xC3>|<0xA9>|<0x78>|b", "a|<unk>|b", "a|<unk>|<unk>|b", "a|b"};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rigs); i++) {
        struct tokenizer *tokenizer = rig_open(rigs[i]);

        assert_string_equal(rig_pieces(tokenizer, "a\xc3\xa9xb", 0), expected[i]);
        tokenizer_close(tokenizer);
    }
}

/* --- splitting --- */

/* Words are seen by being tokens. */
static void expect_words(const char *pre_tokenizer, const char *words, const char *text, const char *expected)
{
    const struct rig rig = {.no_bytes = true, .characters = "abcdefghijklmnopqrstuvwxyz -1" MARK, .words = words,
                            .pre_tokenizer = pre_tokenizer, .model = ", \"ignore_merges\": true"};
    struct tokenizer *tokenizer = rig_open(&rig);

    assert_string_equal(rig_pieces(tokenizer, text, 0), expected);
    tokenizer_close(tokenizer);
}

#define SPLIT(behavior, more) "{\"type\": \"Split\", \"pattern\": {\"String\": \"-\"}, \"behavior\": \"" behavior "\"" more "}"

static void a_split_leaves_what_its_behavior_says(void **state)
{
    static const char words[] = "the|final|countdown|the-|final-|-final|-countdown|--";

    (void)state;
    expect_words(SPLIT("Removed", ""), words, "the-final--countdown", "the|final|countdown");
    expect_words(SPLIT("Isolated", ""), words, "the-final--countdown", "the|-|final|-|-|countdown");
    expect_words(SPLIT("MergedWithPrevious", ""), words, "the-final--countdown", "the-|final-|-|countdown");
    expect_words(SPLIT("MergedWithNext", ""), words, "the-final--countdown", "the|-final|-|-countdown");
    expect_words(SPLIT("Contiguous", ""), words, "the-final--countdown", "the|-|final|--|countdown");
    expect_words(SPLIT("Removed", ", \"invert\": true"), words, "the-final--countdown", "-|-|-");
    expect_words("{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(?<=e)-|\\\\s+(?!\\\\S)\"}, \"behavior\": \"Isolated\"}", "the|  ", "the-  ", "the|-|  ");
    expect_words("{\"type\": \"Digits\", \"individual_digits\": true}", "11|ab", "ab11", "ab|1|1");
    expect_words("{\"type\": \"Digits\"}", "11|ab", "ab11", "ab|11");
    expect_words("{\"type\": \"Sequence\", \"pretokenizers\": [" SPLIT("Isolated", "") ", {\"type\": \"Digits\"}]}", "ab|11|c", "ab11-c", "ab|11|-|c");
}

static void a_mark_stands_for_a_space(void **state)
{
    static const char words[] = MARK "a|" MARK "b|" MARK "a" MARK "b";

    (void)state;
    expect_words("{\"type\": \"Metaspace\", \"replacement\": \"" MARK "\", \"prepend_scheme\": \"always\"}", words, "a b", MARK "a|" MARK "b");
    expect_words("{\"type\": \"Metaspace\", \"replacement\": \"" MARK "\", \"prepend_scheme\": \"never\"}", words, "a b", "a|" MARK "b");
    expect_words("{\"type\": \"Metaspace\", \"replacement\": \"" MARK "\", \"prepend_scheme\": \"first\"}", words, " a b", MARK "a|" MARK "b");
    expect_words("{\"type\": \"Metaspace\", \"replacement\": \"" MARK "\", \"split\": false}", words, "a b", MARK "a" MARK "b");
    expect_words("{\"type\": \"Metaspace\", \"replacement\": \"" MARK "\", \"add_prefix_space\": false}", words, "a b", "a|" MARK "b");
}

static void a_space_may_be_put_in_front(void **state)
{
    struct tokenizer *tokenizer = rig_open(&(struct rig){
        .byte_level = true, .pre_tokenizer = "{\"type\": \"ByteLevel\", \"add_prefix_space\": true}", .merges = "\xc4\xa0 a"});

    (void)state;
    assert_string_equal(rig_pieces(tokenizer, "a a", 0), "\xc4\xa0" "a|\xc4\xa0" "a");
    assert_string_equal(rig_pieces(tokenizer, " a", 0), "\xc4\xa0" "a");
    tokenizer_close(tokenizer);
}

/* --- added tokens --- */

static void the_longest_added_token_is_taken_first(void **state)
{
    struct tokenizer *tokenizer = rig_open(&(struct rig){
        .byte_level = true, .added = "[" SPECIAL("<|a|>") "," SPECIAL("<|a|><|b|>") "," SPECIAL("<|") ", {\"id\": ID, \"content\": \"<think>\", \"normalized\": false}]"});

    (void)state;
    assert_string_equal(rig_pieces(tokenizer, "x<|a|><|b|><|a|>y<|a<think>", 0), "x|<|a|><|b|>|<|a|>|y|<||a|<think>");
    assert_int_equal(tokenizer_id_of(tokenizer, "<|a|>", 5), 256);
    assert_true(token_is_special(tokenizer, 256));
    assert_false(token_is_special(tokenizer, 259));
    assert_true(token_is_control(tokenizer, 259));
    assert_false(token_is_control(tokenizer, 'a'));
    assert_false(token_is_control(tokenizer, 999));
    tokenizer_close(tokenizer);
}

static void added_tokens_take_spaces_and_stand_alone_as_told(void **state)
{
    struct tokenizer *tokenizer = rig_open(&(struct rig){
        .byte_level = true,
        .added = "[{\"id\": ID, \"content\": \"LL\", \"lstrip\": true}, {\"id\": ID, \"content\": \"RR\", \"rstrip\": true},"
                 " {\"id\": ID, \"content\": \"WW\", \"single_word\": true}, {\"id\": ID, \"content\": \" S\"},"
                 " {\"id\": ID, \"content\": \"  \", \"lstrip\": true, \"rstrip\": true}]"});

    (void)state;
    /* Odd, but the definition: a space that one takes may begin the next; and one that has nothing left says nothing. */
    assert_string_equal(rig_pieces(tokenizer, "RR S", 0), "RR| S");
    assert_string_equal(rig_pieces(tokenizer, "x    BB", 0), "x|  |B|B");
    assert_string_equal(rig_pieces(tokenizer, "a \xc2\xa0LL b", 0), "a|LL|\xc4\xa0|b");
    assert_string_equal(rig_pieces(tokenizer, "a RR \n b", 0), "a|\xc4\xa0|RR|b");
    assert_string_equal(rig_pieces(tokenizer, "RR  LL", 0), "RR|LL");
    assert_string_equal(rig_pieces(tokenizer, "aWW WW WW, _WW", 0), "a|W|W|\xc4\xa0|WW|\xc4\xa0|WW|,|\xc4\xa0|_|W|W");
    tokenizer_close(tokenizer);
}

static void plain_text_never_becomes_a_control_token(void **state)
{
    const struct rig rig = {.byte_level = true, .merges = "< s|<s >",
                            .pre_tokenizer = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}",
                            .added = "[" SPECIAL("<|end|>") ", {\"id\": ID, \"content\": \"<think>\"},"
                            " {\"id\": ID, \"content\": \"  \"}, {\"id\": 257, \"content\": \"<s>\", \"special\": true}]"};
    struct tokenizer *tokenizer = rig_open(&rig);
    static const char text[] = "<|end|><|end|><think>  ";
    uint8_t plain[sizeof(text) - 1] = {0};
    struct token_list list;

    (void)state;
    assert_string_equal(rig_pieces(tokenizer, text, 0), "<|end|>|<|end|>|<think>|  ");
    assert_string_equal(rig_pieces(tokenizer, text, TOKENIZER_PLAIN), "<|||e|n|d|||>|<|||e|n|d|||>|<|t|h|i|n|k|>|  ");
    /* Merging could make this one. */
    assert_string_equal(rig_pieces(tokenizer, "<s>", TOKENIZER_PLAIN), "<s|>");
    for (size_t at = 0; at < 7; at++) {
        memset(plain, 0, sizeof(plain));
        plain[at] = (uint8_t)(at + 1); /* one byte of the first is a stranger's */
        list = rig_encode(tokenizer, text, sizeof(text) - 1, plain, 0);
        assert_string_equal(rig_ids(&list), "60 124 101 110 100 124 62 258 259 260");
        token_list_free(&list);
    }
    tokenizer_close(tokenizer);
}

static void tokens_looked_for_in_normalised_text_are_guarded_too(void **state)
{
    struct tokenizer *tokenizer = rig_open(&(struct rig){
        .characters = "ab<s>" MARK,
        .normalizer = "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"" MARK "\"}, {\"type\": \"NFC\"}]}",
        .added = "[{\"id\": 1, \"content\": \"<s>\", \"special\": true, \"normalized\": true}]"});
    static const uint8_t plain[] = {0, 0, 0, 0, 0, 1, 1, 1};
    struct token_list list = rig_encode(tokenizer, "<s>a <s>", 8, plain, 0);

    (void)state;
    assert_string_equal(rig_pieces(tokenizer, "<s>a <s>", 0), "<s>|a|" MARK "|<s>");
    assert_int_equal(list.count, 6);
    assert_int_equal(list.ids[0], 1);
    assert_int_equal(list.ids[4], tokenizer_id_of(tokenizer, "s", 1));
    token_list_free(&list);
    tokenizer_close(tokenizer);
}

static void the_model_s_own_tokens_come_around_a_text(void **state)
{
    struct tokenizer *tokenizer = rig_open(&(struct rig){
        .no_bytes = true, .characters = "ab",
        .post_processor = "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": {\"id\": \"A\"}},"
                          " {\"SpecialToken\": {\"id\": \"</s>\"}}], \"special_tokens\": {\"<s>\": {\"ids\": [1]}, \"</s>\": {\"ids\": [2, 2]}}}"});

    (void)state;
    assert_string_equal(rig_pieces(tokenizer, "ab", TOKENIZER_ADD_SPECIAL), "<s>|a|b|</s>|</s>");
    assert_string_equal(rig_pieces(tokenizer, "ab", 0), "a|b");
    assert_string_equal(rig_pieces(tokenizer, "", TOKENIZER_ADD_SPECIAL), "<s>|</s>|</s>");
    tokenizer_close(tokenizer);
}

/* --- normalising --- */

static void text_is_composed_as_unicode_says(void **state)
{
    struct tokenizer *tokenizer = rig_open(&(struct rig){.byte_level = true, .normalizer = "{\"type\": \"NFC\"}"});
    uint64_t seed = test_seed(43), random = seed;
    static const uint32_t likely[] = {'a', 'e', 0x301, 0x302, 0x323, 0x327, 0x345, 0x1100, 0x1161, 0x11a8, 0xac00, 0x212b, 0xfb01, 0x1e0a, 0x3099, 0x304b};

    (void)state;
    for (int round = 0; round < 300; round++) {
        char text[256];
        size_t used = 0;
        uint64_t characters = draw_below(&random, 60);
        struct token_list list;
        utf8proc_uint8_t *expected;

        while (characters-- > 0)
            used += utf8_write(likely[draw_below(&random, ARRAY_COUNT(likely))], text + used);
        text[used] = '\0';
        expected = utf8proc_NFC((const utf8proc_uint8_t *)text);
        list = rig_encode(tokenizer, text, used, NULL, 0);
        for (size_t i = 0; i < list.count || expected[i] != 0; i++) {
            if (i >= list.count || list.ids[i] != expected[i])
                fail_msg("seed %llu, round %d: byte %zu differs", (unsigned long long)seed, round, i);
        }
        token_list_free(&list);
        free(expected);
    }
    tokenizer_close(tokenizer);
}

/* --- decoding --- */

static struct tokenizer *sentences(void)
{
    return rig_open(&(struct rig){
        .characters = "ab" MARK, .merges = MARK " a",
        .normalizer = "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"" MARK "\"}, {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"" MARK "\"}]}",
        .decoder = "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"" MARK "\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}]}",
        .added = "[{\"id\": 1, \"content\": \"<s>\", \"special\": true}]",
        .model = ", \"byte_fallback\": true"});
}

static void decode_both(const struct tokenizer *tokenizer, const int32_t *ids, size_t count, const char *expected)
{
    struct token_text whole = {0}, streamed = {0};
    struct token_stream stream;

    tokenizer_decode(tokenizer, ids, count, true, &whole);
    token_stream_begin(&stream, tokenizer, true);
    for (size_t i = 0; i < count; i++)
        token_stream_push(&stream, ids[i], &streamed);
    token_stream_finish(&stream, &streamed);
    assert_int_equal(whole.count, strlen(expected));
    assert_int_equal(streamed.count, strlen(expected));
    assert_memory_equal(whole.bytes, expected, whole.count);
    assert_memory_equal(streamed.bytes, expected, whole.count);
    token_text_free(&whole);
    token_text_free(&streamed);
}

#define BYTE(byte) (3 + (byte))
#define BAD UTF8_REPLACEMENT

static void a_run_of_bytes_is_text_only_as_a_whole(void **state)
{
    struct tokenizer *tokenizer = sentences();
    int32_t a = tokenizer_id_of(tokenizer, "a", 1), spaced = tokenizer_id_of(tokenizer, MARK "a", 4);

    (void)state;
    decode_both(tokenizer, (int32_t[]){spaced, a, spaced}, 3, "aa a");
    decode_both(tokenizer, (int32_t[]){a, BYTE(0xc3), BYTE(0xa9), a}, 4, "a\xc3\xa9" "a");
    decode_both(tokenizer, (int32_t[]){a, BYTE(0xc3), BYTE(0xa9), BYTE(0xc3), a}, 5, "a" BAD BAD BAD "a");
    decode_both(tokenizer, (int32_t[]){BYTE(0xc3), 1, BYTE(0xa9), 99999, -1}, 5, "\xc3\xa9"); /* what says nothing ends no run */
    decode_both(tokenizer, (int32_t[]){BYTE(' '), BYTE(' '), a}, 3, " a");
    decode_both(tokenizer, (int32_t[]){1}, 1, "");
    tokenizer_close(tokenizer);
}

static void a_stream_shows_no_part_of_a_character(void **state)
{
    struct tokenizer *tokenizer = rig_open(&(struct rig){.byte_level = true});
    static const unsigned char bytes[] = {'x', 0xf0, 0x9f, 0x98, 0x80, 0xe2, 0x82, 'y', 0xc3};
    static const char *const shown[] = {"x", "", "", "", "\xf0\x9f\x98\x80", "", "", BAD "y", ""};
    struct token_stream stream;
    struct token_text text = {0};

    (void)state;
    token_stream_begin(&stream, tokenizer, true);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        text.count = 0;
        token_stream_push(&stream, bytes[i], &text);
        assert_int_equal(text.count, strlen(shown[i]));
        if (text.count > 0)
            assert_memory_equal(text.bytes, shown[i], text.count);
    }
    text.count = 0;
    token_stream_finish(&stream, &text);
    assert_int_equal(text.count, 3);
    assert_memory_equal(text.bytes, BAD, 3);
    token_text_free(&text);
    tokenizer_close(tokenizer);
}

static void a_stream_holds_a_long_run_in_parts(void **state)
{
    struct tokenizer *tokenizer = sentences();
    struct token_stream stream;
    struct token_text text = {0};

    (void)state;
    token_stream_begin(&stream, tokenizer, true);
    for (int i = 0; i < 1000; i++) {
        token_stream_push(&stream, BYTE(0xc3), &text);
        token_stream_push(&stream, BYTE(0xa9), &text);
        assert_int_equal(utf8_valid(text.bytes, text.count), text.count);
        assert_true(2 * (size_t)(i + 1) - text.count <= TOKEN_STREAM_HELD_MAX);
    }
    token_stream_finish(&stream, &text);
    assert_int_equal(text.count, 2000);
    token_text_free(&text);
    tokenizer_close(tokenizer);
}

static void tokens_without_a_decoder_have_spaces_between(void **state)
{
    struct tokenizer *joined = rig_open(&(struct rig){.no_bytes = true, .characters = "ab"});
    struct tokenizer *marked = rig_open(&(struct rig){
        .no_bytes = true, .characters = "ab" MARK, .decoder = "{\"type\": \"Metaspace\", \"replacement\": \"" MARK "\", \"prepend_scheme\": \"always\"}"});

    (void)state;
    decode_both(joined, (int32_t[]){3, 4, 3}, 3, "a b a");
    decode_both(marked, (int32_t[]){5, 3, 5, 4}, 4, "a b");
    tokenizer_close(joined);
    tokenizer_close(marked);
}

/* --- what is refused, and what takes time --- */

static void texts_that_are_none_are_refused(void **state)
{
    struct tokenizer *tokenizer = rig_open(&(struct rig){.byte_level = true});
    char error[TOKENIZER_ERROR_MAX] = "";
    char *long_text = calloc(TOKENIZER_TEXT_BYTES_MAX + 1, 1);
    struct token_list list = {0};

    (void)state;
    token_list_add(&list, 7);
    assert_int_equal(tokenizer_encode(tokenizer, "ab\xed\xa0\x80", 5, NULL, 0, &list, error), STATUS_INVALID);
    assert_string_equal(error, "the text is not UTF-8 at byte 2");
    assert_int_equal(tokenizer_encode(tokenizer, "ab\xc3", 3, NULL, 0, &list, error), STATUS_INVALID);
    assert_int_equal(tokenizer_encode(tokenizer, long_text, TOKENIZER_TEXT_BYTES_MAX + 1, NULL, 0, &list, error), STATUS_INVALID);
    assert_non_null(strstr(error, "at most 16777216"));
    assert_int_equal(list.count, 1);
    free(long_text);
    token_list_free(&list);
    tokenizer_close(tokenizer);
}

static void long_runs_take_no_longer_than_long_texts(void **state)
{
    static const char *const pieces[] = {"a", " ", "\n", "<", "ab", "\xcc\x81\xcc\xa3", "<|end|", "1"};
    struct tokenizer *tokenizers[2] = {
        rig_open(&(struct rig){.byte_level = true, .normalizer = "{\"type\": \"NFC\"}", .merges = "a a|aa aa|aaaa aaaa|a b|ab ab",
                               .added = "[" SPECIAL("<|end|>") "," SPECIAL("<|end|x") "]"}),
        sentences()};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(pieces); i++) {
        struct token_text text = {0};

        while (text.count < 1000000)
            token_text_add(&text, pieces[i], strlen(pieces[i]));
        for (size_t j = 0; j < 2; j++) {
            struct token_list list = rig_encode(tokenizers[j], text.bytes, text.count, NULL, 0);

            assert_true(list.count > 0);
            token_list_free(&list);
        }
        token_text_free(&text);
    }
    tokenizer_close(tokenizers[0]);
    tokenizer_close(tokenizers[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merging_agrees_with_its_definition),
        cmocka_unit_test(a_byte_level_vocabulary_merges_bytes),
        cmocka_unit_test(a_whole_word_may_go_before_merges),
        cmocka_unit_test(characters_without_a_token_are_bytes_or_unknown),
        cmocka_unit_test(a_split_leaves_what_its_behavior_says),
        cmocka_unit_test(a_mark_stands_for_a_space),
        cmocka_unit_test(a_space_may_be_put_in_front),
        cmocka_unit_test(the_longest_added_token_is_taken_first),
        cmocka_unit_test(added_tokens_take_spaces_and_stand_alone_as_told),
        cmocka_unit_test(plain_text_never_becomes_a_control_token),
        cmocka_unit_test(tokens_looked_for_in_normalised_text_are_guarded_too),
        cmocka_unit_test(the_model_s_own_tokens_come_around_a_text),
        cmocka_unit_test(text_is_composed_as_unicode_says),
        cmocka_unit_test(a_run_of_bytes_is_text_only_as_a_whole),
        cmocka_unit_test(a_stream_shows_no_part_of_a_character),
        cmocka_unit_test(a_stream_holds_a_long_run_in_parts),
        cmocka_unit_test(tokens_without_a_decoder_have_spaces_between),
        cmocka_unit_test(texts_that_are_none_are_refused),
        cmocka_unit_test(long_runs_take_no_longer_than_long_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
