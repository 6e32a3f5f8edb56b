/* The multipart reader by itself: what clients send, cut anywhere, and what is refused; and random bytes, which end in no crash. */
#include <stdio.h>
#include <stdlib.h>

#include "control/http/multipart.h"
#include "support.h"

struct heard {
    char text[8192];
    size_t count;
    uint64_t stop_after; /* calls; 0: never */
    uint64_t calls;
};

static void hear(struct heard *heard, const char *text, size_t bytes)
{
    assert_true(heard->count + bytes < sizeof(heard->text));
    memcpy(heard->text + heard->count, text, bytes);
    heard->count += bytes;
    heard->text[heard->count] = '\0';
}

static bool go_on(struct heard *heard)
{
    return ++heard->calls != heard->stop_after;
}

static bool part_begin(void *context, const struct http_part *part)
{
    char line[1024];

    snprintf(line, sizeof(line), "<%s|%s|%s>", part->name, part->filename == NULL ? "-" : part->filename, part->content_type);
    hear(context, line, strlen(line));
    return go_on(context);
}

static bool part_data(void *context, const void *data, size_t bytes)
{
    assert_true(bytes > 0);
    hear(context, data, bytes);
    return go_on(context);
}

static bool part_end(void *context)
{
    hear(context, "</>", 3);
    return go_on(context);
}

static const struct http_multipart_events events = {part_begin, part_data, part_end};

/* In pieces of `piece` bytes; 0: of random sizes. */
static bool parse(const char *type, const char *body, size_t bytes, size_t piece, uint64_t *state, struct heard *heard,
                  struct http_multipart *parser)
{
    memset(heard, 0, sizeof(*heard));
    if (!http_multipart_begin(parser, type, &events, heard))
        return false;
    for (size_t at = 0; at < bytes;) {
        size_t now = piece == 0 ? 1 + draw_below(state, 9) : piece;

        now = now < bytes - at ? now : bytes - at;
        if (!http_multipart_feed(parser, body + at, now))
            return false;
        at += now;
    }
    return http_multipart_finish(parser);
}

#define TYPE "multipart/form-data; boundary=b"
#define PART(name) "--b\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n"

static void what_clients_send_is_read_however_it_is_cut(void **context)
{
    static const struct {
        const char *type, *body, *heard;
    } cases[] = {
        {"multipart/form-data; boundary=openai-5p6ue9z6yb",
         "--openai-5p6ue9z6yb\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a%22b \xc3\xa9.jsonl\"\r\nContent-Type: application/octet-stream\r\n\r\n"
         "{\"a\": 1}\n\r\n--openai-5p6ue9z6yb\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nfine-tune\r\n"
         "--openai-5p6ue9z6yb\r\nContent-Disposition: form-data; name=\"expires_after[anchor]\"\r\n\r\ncreated_at\r\n--openai-5p6ue9z6yb--\r\n",
         "<file|a\"b \xc3\xa9.jsonl|application/octet-stream>{\"a\": 1}\n</><purpose|-|>fine-tune</><expires_after[anchor]|-|>created_at</>"},
        {"multipart/form-data; boundary=\"--a b\"; charset=utf-8",
         "----a b\r\ncontent-disposition:form-data;name=x;filename=y\r\n\r\n\r\n----a b--", "<x|y|></>"},
        {TYPE, PART("x") "\r\n--b--", "<x|-|></>"},
        {TYPE, "preamble\r\n" PART("x") "1\r\n--b--epilogue\r\n--b\r\n", "<x|-|>1</>"},
        {TYPE, PART("x") "\r\n\r\n-\r\n--\r\n--c\r\r\n--b--", "<x|-|>\r\n\r\n-\r\n--\r\n--c\r</>"},
        {TYPE, PART("x") "--b--\r\n--b--", "<x|-|>--b--</>"},
        {TYPE, "--b\r\nContent-Disposition: form-data; name=\"x\"; filename=\"a\\\"b\\\\c\\d\"; filename*=utf-8''no\r\nX-Y: z\r\n\r\n1\r\n--b--",
         "<x|a\"b\\c\\d|>1</>"},
        {TYPE, "--b\r\nContent-Disposition: form-data; name=\"x\"; filename=\"100%25.jsonl\"\r\n\r\n1\r\n--b--", "<x|100%25.jsonl|>1</>"},
        {TYPE, "--b\r\nContent-Disposition: form-data; name=\"x\"; filename=\"../../etc/passwd\"\r\n\r\n1\r\n--b--", "<x|../../etc/passwd|>1</>"},
        {TYPE, "--b--", ""},
    };
    struct http_multipart parser;
    struct heard heard;
    uint64_t state = test_seed(3);

    (void)context;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        for (size_t piece = 0; piece < 200; piece++) {
            if (!parse(cases[i].type, cases[i].body, strlen(cases[i].body), piece, &state, &heard, &parser))
                fail_msg("case %zu in pieces of %zu: %s", i, piece, parser.wrong);
            if (strcmp(heard.text, cases[i].heard) != 0)
                fail_msg("case %zu in pieces of %zu: %s", i, piece, heard.text);
        }
}

static void what_two_readers_could_read_differently_is_refused(void **context)
{
    static char long_name[4096];
    static const char *const bodies[] = {
        "",
        "--b",
        "--b\r\n",
        PART("x"),
        PART("x") "1",
        PART("x") "1\r\n--b",
        PART("x") "1\r\n--b\r\n",
        "--b-\r\n",
        "--bx\r\n",
        "--b \r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n1\r\n--b--",
        "--b\nContent-Disposition: form-data; name=\"x\"\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"x\"\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"x\"\r\rX: y\r\n\r\n1\r\n--b--",
        "--b\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Type: text/plain\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: attachment; name=\"x\"\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"\"\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"x\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"x\"; name=\"y\"\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"x\"; filename=\"a\"; filename=\"b\"\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"x\"y\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"x\"\r\nContent-Disposition: form-data; name=\"y\"\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"x\xff\"\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"x\xed\xa0\x80\"\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"x\x01\"\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"x\"\r\nno colon\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n: y\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"x\"\r\nContent-Transfer-Encoding: base64\r\n\r\nMQ==\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"x\"\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n1\r\n--b--",
        "--b\r\nContent-Disposition: form-data; name=\"x\"\r\nA: 1\r\nB: 1\r\nC: 1\r\nD: 1\r\nE: 1\r\nF: 1\r\nG: 1\r\nH: 1\r\n\r\n1\r\n--b--",
    };
    static const char *const types[] = {"",
                                        "multipart/form-data",
                                        "multipart/form-data; boundary=",
                                        "multipart/form-data; boundary=\"\"",
                                        "multipart/form-data; boundary=\"a \"",
                                        "multipart/form-data; boundary=a b",
                                        "multipart/form-data; boundary=a; boundary=b",
                                        "multipart/form-data; boundary=\"a\x01\"",
                                        "multipart/form-data; boundary=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                        "multipart/mixed; boundary=b",
                                        "application/json"};
    struct http_multipart parser;
    struct heard heard;
    uint64_t state = test_seed(4);

    (void)context;
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        assert_true(http_multipart_begin(&parser, TYPE, &events, &heard));
        if (parse(TYPE, bodies[i], strlen(bodies[i]), 0, &state, &heard, &parser))
            fail_msg("case %zu was taken: %s", i, heard.text);
        assert_non_null(parser.wrong);
    }
    for (size_t i = 0; i < ARRAY_COUNT(types); i++)
        if (http_multipart_begin(&parser, types[i], &events, &heard))
            fail_msg("type %zu was taken", i);
    memset(long_name, 'n', sizeof(long_name));
    for (size_t name = 64; name <= 2000; name += name == 64 ? 1 : 1935) {
        char body[8192];

        snprintf(body, sizeof(body), "--b\r\nContent-Disposition: form-data; name=\"%.*s\"\r\n\r\n1\r\n--b--", (int)name, long_name);
        assert_int_equal(parse(TYPE, body, strlen(body), 0, &state, &heard, &parser), name == 64);
    }
    for (size_t name = 255; name <= 256; name++) {
        char body[8192];

        snprintf(body, sizeof(body), "--b\r\nContent-Disposition: form-data; name=x; filename=\"%.*s\"\r\n\r\n1\r\n--b--", (int)name, long_name);
        assert_int_equal(parse(TYPE, body, strlen(body), 0, &state, &heard, &parser), name == 255);
    }
}

static void parts_are_bounded(void **context)
{
    struct http_multipart parser;
    struct heard heard;

    (void)context;
    memset(&heard, 0, sizeof(heard));
    assert_true(http_multipart_begin(&parser, TYPE, &events, &heard));
    for (int i = 0; i < MULTIPART_PARTS_MAX; i++)
        assert_true(http_multipart_feed(&parser, PART("x") "1\r\n", strlen(PART("x") "1\r\n")));
    assert_false(http_multipart_feed(&parser, PART("x") "1\r\n", strlen(PART("x") "1\r\n")));
    assert_non_null(parser.wrong);
}

static void a_callback_that_says_stop_is_called_no_more(void **context)
{
    static const char body[] = PART("x") "1\r\n2\r\n" PART("y") "3\r\n--b--";
    struct http_multipart parser;
    struct heard heard;

    (void)context;
    for (uint64_t stop = 1; stop < 7; stop++)
        for (size_t piece = 1; piece < sizeof(body); piece++) {
            memset(&heard, 0, sizeof(heard));
            heard.stop_after = stop;
            assert_true(http_multipart_begin(&parser, TYPE, &events, &heard));
            for (size_t at = 0; at < sizeof(body) - 1; at += piece)
                (void)http_multipart_feed(&parser, body + at, piece < sizeof(body) - 1 - at ? piece : sizeof(body) - 1 - at);
            assert_false(http_multipart_finish(&parser));
            assert_int_equal(heard.calls, stop);
            assert_null(parser.wrong);
        }
}

/* Bodies made of the pieces that bodies are made of: whole or in pieces, the same is heard and the same is wrong. */
static void random_bodies_read_alike_however_they_are_cut(void **context)
{
    static const char *const words[] = {"--b", "\r\n", "\r", "\n", "--", "-", "b", "--b\r\n", "\r\n--b", "\r\n--b--", "x", ": ", ";", "\"", "=",
                                        "Content-Disposition: form-data; name=\"x\"\r\n", "\r\n\r\n", "filename=", PART("y"), "\\", "%22"};
    const uint64_t seed = test_seed(5);
    uint64_t state = seed;
    struct http_multipart whole_parser, parser;
    struct heard whole, heard;

    (void)context;
    for (int round = 0; round < 30000; round++) {
        char body[1024] = "";
        const uint64_t count = draw_below(&state, 16);
        bool fine;

        for (uint64_t i = 0; i < count; i++)
            strcat(body, words[draw_below(&state, ARRAY_COUNT(words))]);
        fine = parse(TYPE, body, strlen(body), SIZE_MAX, &state, &whole, &whole_parser);
        if (parse(TYPE, body, strlen(body), 0, &state, &heard, &parser) != fine || strcmp(heard.text, whole.text) != 0 ||
            parser.wrong != whole_parser.wrong)
            fail_msg("seed %llu, round %d: %s", (unsigned long long)seed, round, body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_clients_send_is_read_however_it_is_cut),
        cmocka_unit_test(what_two_readers_could_read_differently_is_refused),
        cmocka_unit_test(parts_are_bounded),
        cmocka_unit_test(a_callback_that_says_stop_is_called_no_more),
        cmocka_unit_test(random_bodies_read_alike_however_they_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
