/* Answers over the whole platform: whole and streamed, cut by clients, by deaths of servers and by the end of the control plane, limits, who
 * may ask which model, and bodies that are meant to hurt. A stub serves where a speed or a death is wanted, and a tiny base where the text
 * matters. */
#define _GNU_SOURCE /* strcasestr */
#include <ctype.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control/metadata/file.h"
#include "control/metadata/model.h"
#include "control/metadata/tenant.h"
#include "rig.h"

#define NOW 1700000000000
#define CHATS "/v1/chat/completions"
#define TEXTS "/v1/completions"
#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"Who is Ada?\"}]"

static struct scratch bases;
static struct rig rig;
static struct answer answer;

/* --- a base and servers ----------------------------------------------------------------------------------------------------- */

/* build/MODE/WHERE of build/MODE/tests/exec/control/api/test_chat. */
static const char *built(const char *where)
{
    static char path[2][4200];
    static unsigned next;
    char *at = path[next++ % 2];
    const ssize_t length = readlink("/proc/self/exe", at, 4000);
    char *tests;

    assert_true(length > 0);
    at[length] = '\0';
    tests = strstr(at, "/tests/exec/");
    assert_non_null(tests);
    sprintf(tests, "/%s", where);
    return at;
}

/* The stub says more tokens than the tiny base has positions for. */
static void widen(const char *folder)
{
    char path[1024];
    json_t *config;

    snprintf(path, sizeof(path), "%s/config.json", folder);
    config = json_load_file(path, 0, NULL);
    assert_non_null(config);
    json_object_set_new(config, "max_position_embeddings", json_integer(1 << 20));
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
}

static void make_base(const char *name)
{
    const pid_t child = fork();
    int status;

    if (child == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execl(built("bin/berth-exec"), "berth-exec", "model", "create-tiny", "--out", scratch_at(&bases, name), "--steps", "1", "--threads", "1",
              NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static int make_bases(void **context)
{
    (void)context;
    scratch_begin(&bases);
    make_base("tiny");
    make_base("wide");
    widen(scratch_at(&bases, "wide"));
    return 0;
}

static int remove_bases(void **context)
{
    (void)context;
    scratch_end(&bases);
    return 0;
}

/* tokens_per_s of each answer, 0: at once; NULL: the real server. */
static void start(const char *tokens_per_s)
{
    static char base[600];
    static char program[4400];

    snprintf(base, sizeof(base), "tiny=%s", scratch_at(&bases, tokens_per_s != NULL ? "wide" : "tiny"));
    snprintf(program, sizeof(program), "%s %s", built("tests/bench/exec/stub_server"), tokens_per_s != NULL ? tokens_per_s : "");
    rig.more[0] = "--base";
    rig.more[1] = base;
    rig.more[2] = tokens_per_s != NULL ? "--server-program" : "--threads";
    rig.more[3] = tokens_per_s != NULL ? program : "1";
    rig_start(&rig);
}

static int begin(void **context)
{
    (void)context;
    rig_begin(&rig);
    return 0;
}

static int end(void **context)
{
    (void)context;
    answer_clear(&answer);
    rig_end(&rig);
    return 0;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- the client ------------------------------------------------------------------------------------------------------------- */

static void post(const char *path, const char *body, unsigned status)
{
    client_post(&rig, rig.key, path, body, &answer);
    if (answer.status != status)
        fail_msg("%s %.200s: %u, not %u: %s", path, body, answer.status, status, answer.body != NULL ? answer.body : "");
}

static int begin_post(const char *body)
{
    return client_begin_post(&rig, rig.key, CHATS, body, strlen(body));
}

static void assert_refused(const char *code, const char *param)
{
    assert_string_equal(answer_error(&answer, "code"), code);
    assert_string_equal(answer_error(&answer, "param"), param);
}

static const char *header(const char *name)
{
    static char value[256];
    const char *at = strcasestr(answer.text, name);

    value[0] = '\0';
    if (at != NULL && at < answer.body)
        sscanf(at + strlen(name), ": %255[^\r]", value);
    return value;
}

static long long at_path(const json_t *json, const char *object, const char *name)
{
    return json_integer_value(json_object_get(json_object_get(json, object), name));
}

static const json_t *choice(const json_t *json, uint32_t index)
{
    return json_array_get(json_object_get(json, "choices"), index);
}

static const char *text_of(const json_t *one, const char *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object != NULL ? json_object_get(one, object) : one, name));

    return text != NULL ? text : "";
}

/* What the chunks of a stream add up to. */
struct heard {
    char text[4][8192]; /* of each choice */
    char finish[4][16];
    uint32_t events, errors, usages, roles;
    long long output_tokens;
    bool is_done;
};

static void hear(struct heard *heard, const json_t *event)
{
    const json_t *list = json_object_get(event, "choices");

    heard->events++;
    heard->errors += json_object_get(event, "error") != NULL;
    if (json_is_object(json_object_get(event, "usage"))) {
        heard->usages++;
        heard->output_tokens = at_path(event, "usage", "completion_tokens");
        assert_int_equal(json_array_size(list), 0);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        const size_t index = (size_t)json_integer_value(json_object_get(one, "index"));
        const char *text = json_object_get(one, "delta") != NULL ? text_of(one, "delta", "content") : text_of(one, NULL, "text");

        assert_true(index < 4 && strlen(heard->text[index]) + strlen(text) < sizeof(heard->text[index]));
        heard->roles += text_of(one, "delta", "role")[0] != '\0';
        strcat(heard->text[index], text);
        snprintf(heard->finish[index], sizeof(heard->finish[index]), "%.15s", text_of(one, NULL, "finish_reason"));
    }
}

/* The body's chunks, joined in place. */
static void unchunk(struct answer *of)
{
    char *from = (char *)(uintptr_t)of->body;
    char *to = from;
    char *past = from + of->body_bytes;

    if (strcasestr(of->text, "transfer-encoding: chunked") == NULL)
        return;
    while (from < past) {
        char *line;
        size_t bytes = strtoul(from, &line, 16);

        from = line + 2;
        bytes = (size_t)min_u64(bytes, (uint64_t)(past > from ? past - from : 0));
        memmove(to, from, bytes);
        to += bytes;
        from += bytes + 2;
    }
    *to = '\0';
}

static void read_stream(int fd, struct heard *ret_heard)
{
    client_read(fd, &answer);
    *ret_heard = (struct heard){0};
    assert_int_equal(answer.status, 200);
    unchunk(&answer);
    for (const char *at = answer.body; (at = strstr(at, "data: ")) != NULL; at += 6) {
        const size_t bytes = strcspn(at + 6, "\n");
        json_t *event = json_loadb(at + 6, bytes, 0, NULL);

        assert_false(ret_heard->is_done);
        if (bytes == 6 && memcmp(at + 6, "[DONE]", 6) == 0)
            ret_heard->is_done = true;
        else if (event == NULL)
            fail_msg("no JSON: %.*s", (int)bytes, at + 6);
        else
            hear(ret_heard, event);
        json_decref(event);
    }
}

/* Until so many bytes came: the stream runs. */
static void read_some(int fd, size_t bytes)
{
    char text[4096];

    while (bytes > 0) {
        const ssize_t got = recv(fd, text, min_u64(bytes, sizeof(text)), 0);

        if (got <= 0)
            fail_msg("the stream ended after %.*s", (int)sizeof(text), text);
        bytes -= (size_t)got;
    }
}

static double metric(const char *name)
{
    const char *at;

    client_ask(&rig, rig.key, "GET /metrics", "", &answer);
    at = strstr(answer.body, name);
    if (at == NULL)
        fail_msg("no metric %s", name);
    return strtod(at + strlen(name), NULL);
}

#define RUNNING "vllm:num_requests_running{model_name=\"tiny\"} "
#define WAITING "vllm:num_requests_waiting{model_name=\"tiny\"} "

static void await_metric(const char *name, double count, int within_ms)
{
    const int64_t until = now_ms() + within_ms;

    while (metric(name) != count)
        if (now_ms() > until)
            fail_msg("%s%g after %d ms, not %g", name, metric(name), within_ms, count);
        else
            usleep(10000);
}

static void await_running(double count, int within_ms)
{
    await_metric(RUNNING, count, within_ms);
}

/* --- what a base answers ---------------------------------------------------------------------------------------------------- */

static void assert_bytes(const json_t *token)
{
    const json_t *bytes = json_object_get(token, "bytes");

    assert_true(json_number_value(json_object_get(token, "logprob")) <= 0);
    assert_true(json_is_array(bytes) && json_array_size(bytes) > 0);
    for (size_t i = 0; i < json_array_size(bytes); i++)
        assert_in_range(json_integer_value(json_array_get(bytes, i)), 0, 255);
}

static void whole_and_streamed_answers_are_the_same(void **context)
{
    static struct heard heard;
    char first[2][8192];

    (void)context;
    start(NULL);
    post(CHATS, "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":20,\"n\":2,\"seed\":7}", 200);
    assert_string_equal(answer_text(&answer, "object"), "chat.completion");
    assert_int_equal(json_array_size(json_object_get(answer.json, "choices")), 2);
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(first[i], sizeof(first[i]), "%s", text_of(choice(answer.json, i), "message", "content"));
        assert_true(strlen(first[i]) > 0);
    }
    assert_string_not_equal(first[0], first[1]);
    assert_in_range(at_path(answer.json, "usage", "completion_tokens"), 2, 40);
    assert_int_equal(at_path(answer.json, "usage", "total_tokens"),
                     at_path(answer.json, "usage", "completion_tokens") + at_path(answer.json, "usage", "prompt_tokens"));
    read_stream(begin_post("{\"model\":\"tiny\"," HELLO ",\"max_tokens\":20,\"n\":2,\"seed\":7,\"stream\":true,"
                           "\"stream_options\":{\"include_usage\":true}}"), &heard);
    assert_true(heard.is_done);
    assert_string_equal(heard.text[0], first[0]);
    assert_string_equal(heard.text[1], first[1]);
    assert_int_equal(heard.roles, 2);
    assert_int_equal(heard.usages, 1);
    assert_int_equal(heard.errors, 0);
    assert_string_not_equal(heard.finish[0], "");
    post(TEXTS, "{\"model\":\"tiny\",\"prompt\":\"Ada is\",\"max_tokens\":12,\"seed\":3,\"ignore_eos\":true}", 200);
    assert_int_equal(at_path(answer.json, "usage", "completion_tokens"), 12);
    assert_string_equal(text_of(choice(answer.json, 0), NULL, "finish_reason"), "length");
}

/* Where a letter or digit stands behind the first character; 0: nowhere. */
static size_t plain_in(const char *text)
{
    size_t at = 1;

    while (text[0] != '\0' && text[at] != '\0' && !isalnum((unsigned char)text[at]))
        at++;
    return text[0] != '\0' && text[at] != '\0' ? at : 0;
}

/* A model that has learned next to nothing says anything; which of its answers has a letter depends on the compiler. */
static void a_stop_string_ends_an_answer_and_is_not_in_it(void **context)
{
    char text[8192] = "";
    char body[1024];
    char stop[2] = "";
    uint32_t seed = 0;

    (void)context;
    start(NULL);
    while (plain_in(text) == 0) {
        assert_in_range(++seed, 1, 32);
        snprintf(body, sizeof(body), "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":60,\"seed\":%u,\"ignore_eos\":true}", seed);
        post(CHATS, body, 200);
        snprintf(text, sizeof(text), "%s", text_of(choice(answer.json, 0), "message", "content"));
    }
    stop[0] = text[plain_in(text)];
    snprintf(body, sizeof(body), "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":60,\"seed\":%u,\"ignore_eos\":true,\"stop\":\"%s\"}", seed, stop);
    post(CHATS, body, 200);
    assert_string_equal(text_of(choice(answer.json, 0), NULL, "finish_reason"), "stop");
    text[strcspn(text, stop)] = '\0';
    assert_string_equal(text_of(choice(answer.json, 0), "message", "content"), text);
}

static void logprobs_come_with_bytes_and_alternatives(void **context)
{
    const json_t *content;

    (void)context;
    start(NULL);
    post(CHATS, "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":8,\"seed\":7,\"ignore_eos\":true,\"logprobs\":true,\"top_logprobs\":3}", 200);
    content = json_object_get(json_object_get(choice(answer.json, 0), "logprobs"), "content");
    assert_int_equal(json_array_size(content), 8);
    for (size_t i = 0; i < 8; i++) {
        const json_t *best = json_object_get(json_array_get(content, i), "top_logprobs");

        assert_bytes(json_array_get(content, i));
        assert_int_equal(json_array_size(best), 3);
        for (size_t j = 0; j < 3; j++)
            assert_bytes(json_array_get(best, j));
    }
}

/* --- cuts ------------------------------------------------------------------------------------------------------------------- */

#define ENDLESS "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":100000,\"stream\":true}"

static void a_client_that_leaves_is_not_served_on(void **context)
{
    int fd;

    (void)context;
    start("200");
    fd = begin_post("{\"model\":\"tiny\"," HELLO ",\"max_tokens\":100000,\"stream\":true,\"n\":3}");
    read_some(fd, 1000);
    await_running(3, 1000);
    close(fd);
    await_running(0, 2000);
    fd = begin_post("{\"model\":\"tiny\"," HELLO ",\"max_tokens\":100000}"); /* not a stream: nothing is sent that would tell */
    await_running(1, 2000);
    close(fd);
    await_running(0, 2000);
}

static void who_does_not_read_is_cut_and_others_go_on(void **context)
{
    static struct heard heard;
    const int64_t since = now_ms();
    const int small = 4096;
    int slow;
    int quick;

    (void)context;
    start("2000");
    slow = begin_post(ENDLESS);
    setsockopt(slow, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    read_some(slow, 500);
    quick = begin_post("{\"model\":\"tiny\"," HELLO ",\"max_tokens\":4000,\"stream\":true}");
    read_stream(quick, &heard);
    assert_true(heard.is_done);
    assert_int_equal(strlen(heard.text[0]), 4000);
    await_running(0, 40000);
    assert_true(now_ms() - since >= 10000);
    close(slow);
}

static void kill_server(void)
{
    const pid_t process = rig_process(&rig, "server");

    assert_true(process > 0);
    assert_int_equal(kill(process, SIGKILL), 0);
}

static void a_server_that_dies_before_its_first_token_is_not_noticed(void **context)
{
    int fd;

    (void)context;
    start("2");
    fd = begin_post("{\"model\":\"tiny\"," HELLO ",\"max_tokens\":2}");
    await_running(1, 5000);
    kill_server();
    client_read(fd, &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(text_of(choice(answer.json, 0), "message", "content"), "ab");
}

static void a_server_that_dies_later_ends_its_streams_with_an_error(void **context)
{
    static struct heard heard;
    int fd;

    (void)context;
    start("100");
    fd = begin_post(ENDLESS);
    read_some(fd, 600);
    kill_server();
    client_read(fd, &answer);
    assert_null(strstr(answer.text, "[DONE]"));
    assert_non_null(strstr(answer.text, "\"error\""));
    assert_non_null(strstr(answer.text, "server_lost"));
    read_stream(begin_post("{\"model\":\"tiny\"," HELLO ",\"max_tokens\":5,\"stream\":true}"), &heard); /* and another takes over */
    assert_true(heard.is_done);
}

/* What the command says of these two words beside `control`, and its exit code. */
static int told(const char *option, const char *value, char ret_said[512])
{
    char command[4400];
    FILE *said;
    size_t count;

    snprintf(command, sizeof(command), "exec %s control %s %s 2>&1 </dev/null", built("bin/berth-exec"), option, value);
    said = popen(command, "r");
    assert_non_null(said);
    count = fread(ret_said, 1, 511, said);
    ret_said[count] = '\0';
    return WEXITSTATUS(pclose(said));
}

static void a_server_is_at_no_more_answers_than_the_command_line_says(void **context)
{
    int streams[5];
    char said[512];

    (void)context;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(told("--server-requests", (const char *const[]){"0", "4097", "many"}[i], said), 2);
        assert_non_null(strstr(said, "--server-requests"));
        assert_non_null(strstr(said, "a whole number from 1 to 4096"));
    }
    rig.more[4] = "--server-requests";
    rig.more[5] = "3";
    start("100");
    for (size_t i = 0; i < 3; i++) {
        streams[i] = begin_post(ENDLESS);
        read_some(streams[i], 600); /* it runs: those that come next wait */
    }
    for (size_t i = 3; i < ARRAY_COUNT(streams); i++)
        streams[i] = begin_post(ENDLESS);
    await_metric(WAITING, 2, 5000);
    assert_int_equal(metric(RUNNING), 3);
    for (size_t i = 0; i < 3; i++)
        close(streams[i]);
    await_running(2, 5000);
    close(streams[3]);
    close(streams[4]);
    await_running(0, 5000);
}

static void the_end_of_the_control_plane_ends_streams_with_an_error(void **context)
{
    int streams[8];
    int whole;
    int64_t since;

    (void)context;
    start("100");
    for (size_t i = 0; i < ARRAY_COUNT(streams); i++) {
        streams[i] = begin_post(ENDLESS);
        read_some(streams[i], 600);
    }
    whole = begin_post("{\"model\":\"tiny\"," HELLO ",\"max_tokens\":100000}");
    await_running(9, 2000);
    since = now_ms();
    assert_int_equal(rig_stop(&rig), 0);
    assert_true(now_ms() - since < 9000);
    for (size_t i = 0; i < ARRAY_COUNT(streams); i++) {
        client_read(streams[i], &answer);
        assert_null(strstr(answer.text, "[DONE]"));
        assert_non_null(strstr(answer.text, "\"error\""));
    }
    client_read(whole, &answer);
    assert_int_equal(answer.status, 503);
}

/* --- limits ----------------------------------------------------------------------------------------------------------------- */

static char third_key[META_KEY_TEXT_BYTES];

static void limit_other(const struct rig *of, struct metadata *metadata)
{
    char third[NAME_BYTES];
    char id[NAME_BYTES];
    struct refusal refusal;

    assert_int_equal(meta_tenant_set(metadata, of->other, "tokens_per_min_max", "100", &refusal), STATUS_OK);
    assert_int_equal(meta_tenant_add(metadata, "third", NOW, third, &refusal), STATUS_OK);
    assert_int_equal(meta_key_add(metadata, third, "member", META_NONE, NOW, third_key, id, &refusal), STATUS_OK);
}

static void a_tenants_tokens_of_a_minute_are_a_bound(void **context)
{
    (void)context;
    rig_fill(&rig, limit_other);
    start("0");
    client_post(&rig, rig.other_key, CHATS, "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":60}", &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(header("x-ratelimit-limit-tokens"), "100");
    client_post(&rig, rig.other_key, CHATS, "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":60}", &answer);
    assert_int_equal(answer.status, 429);
    assert_refused("rate_limit_exceeded", "");
    assert_string_not_equal(header("retry-after"), "");
    assert_string_not_equal(header("retry-after-ms"), "");
    assert_in_range(strtol(header("x-ratelimit-remaining-tokens"), NULL, 10), 0, 59);
    assert_string_not_equal(header("x-ratelimit-reset-tokens"), "");
    post(CHATS, "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":60}", 200); /* others have their own */
}

static void more_at_once_than_the_core_has_room_for_is_told_to_come_again(void **context)
{
    static const char many[] = "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":500,\"n\":128,\"stream\":true}";
    int clients[32];

    (void)context;
    rig_fill(&rig, limit_other);
    start("1");
    for (size_t i = 0; i < 16; i++)
        clients[i] = begin_post(many);
    for (size_t i = 16; i < 32; i++)
        clients[i] = client_begin_post(&rig, third_key, CHATS, many, strlen(many));
    while (metric(RUNNING) + metric(WAITING) < 4096)
        usleep(20000);
    post(CHATS, "{\"model\":\"tiny\"," HELLO "}", 429); /* the tenant's own bound */
    assert_string_not_equal(header("retry-after"), "");
    client_post(&rig, rig.other_key, CHATS, "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":5}", &answer); /* the core's */
    assert_int_equal(answer.status, 429);
    assert_string_not_equal(header("retry-after"), "");
    for (size_t i = 0; i < 32; i++)
        close(clients[i]);
    while (metric(RUNNING) + metric(WAITING) > 0)
        usleep(20000);
    client_post(&rig, rig.other_key, CHATS, "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":1}", &answer);
    assert_int_equal(answer.status, 200);
}

/* --- models ----------------------------------------------------------------------------------------------------------------- */

static char tuned[META_MODEL_NAME_BYTES];
static char checkpoint[META_MODEL_NAME_BYTES];
static char pending[META_MODEL_NAME_BYTES];

static void add_model(const struct rig *of, struct metadata *metadata, const char *suffix, int64_t step, const char *verdict, const char *alias,
                      char ret_name[META_MODEL_NAME_BYTES])
{
    struct meta_model_new model = {.tenant = of->acme, .suffix = suffix, .step = step, .base = "tiny", .digest = "d", .rank = 8, .bytes = 1,
                                   .lineage = "{}"};
    struct meta_results results = {0};
    struct refusal refusal = {{0}};
    struct meta_model made; /* a checkpoint has an id of its own */
    char object[NAME_BYTES];
    char id[NAME_BYTES];

    meta_id("obj-", object);
    meta_id("model-", id);
    model.id = id;
    model.object = object;
    if (meta_object_add(metadata, of->acme, object, "adapter", object, &refusal) != STATUS_OK ||
        meta_object_written(metadata, of->acme, object, 1, "d", &refusal) != STATUS_OK ||
        meta_model_add(metadata, &model, NOW, ret_name, &refusal) != STATUS_OK ||
        meta_name_resolve(metadata, of->acme, ret_name, &results, &made, &refusal) != STATUS_OK ||
        (verdict != NULL && meta_model_judge(metadata, of->acme, made.id, "pending_eval", verdict, NULL, &refusal) != STATUS_OK) ||
        meta_alias_set(metadata, of->acme, alias, made.id, NULL, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    meta_results_free(&results);
}

static void fill_models(const struct rig *of, struct metadata *metadata)
{
    add_model(of, metadata, "yes", META_NONE, "deployable", "prod", tuned);
    add_model(of, metadata, "yes", 20, "deployable", "early", checkpoint);
    add_model(of, metadata, "wait", META_NONE, NULL, "soon", pending);
}

static void ask_model(const char *key, const char *name)
{
    char body[512];

    snprintf(body, sizeof(body), "{\"model\":\"%s\"," HELLO ",\"max_tokens\":5}", name);
    client_post(&rig, key, CHATS, body, &answer);
}

/* Its bytes are not there, which is found when they are wanted: the name was good. */
static void assert_found(const char *name)
{
    ask_model(rig.key, name);
    if (answer.status == 404 || answer.status == 200)
        fail_msg("%s: %u %s", name, answer.status, answer.body);
    assert_string_not_equal(answer_error(&answer, "code"), "model_not_found");
}

static void only_ones_own_models_that_may_answer_are_there(void **context)
{
    char missing[1024];

    (void)context;
    start("0");
    ask_model(rig.key, "tiny");
    assert_int_equal(answer.status, 200);
    ask_model(rig.key, "none");
    assert_int_equal(answer.status, 404);
    assert_refused("model_not_found", "model");
    snprintf(missing, sizeof(missing), "%s", answer.body);
    assert_int_equal(rig_stop(&rig), 0);
    rig_fill(&rig, fill_models);
    start("0");
    assert_found(tuned);
    assert_found(checkpoint);
    assert_found("prod");
    assert_found("early");
    for (size_t i = 0; i < 5; i++) {
        ask_model(i < 3 ? rig.other_key : rig.key, (const char *[]){tuned, checkpoint, "prod", pending, "soon"}[i]);
        assert_int_equal(answer.status, 404);
        assert_string_equal(answer.body, missing);
    }
}

/* --- bodies ----------------------------------------------------------------------------------------------------------------- */

static void what_is_too_long_for_the_model_is_refused_by_its_name(void **context)
{
    (void)context;
    start(NULL);
    post(CHATS, "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":512}", 400);
    assert_refused("context_length_exceeded", "messages");
    post(TEXTS, "{\"model\":\"tiny\",\"prompt\":\"Ada\",\"max_tokens\":4194304}", 400);
    assert_refused("context_length_exceeded", "prompt");
    post(TEXTS, "{\"model\":\"tiny\",\"prompt\":\"Ada\",\"max_tokens\":300,\"seed\":1,\"ignore_eos\":true}", 200);
}

static long control_kib(void)
{
    char path[64];
    char line[256];
    long kib = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)rig_process(&rig, "control"));
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    fclose(file);
    return kib;
}

/* Messages that begin so often, end as often, and what comes past them. */
static void post_repeated(const char *open, size_t opens, const char *between, const char *close, const char *past, unsigned status)
{
    const char *head = "{\"model\":\"tiny\",\"messages\":";
    char *body = malloc(strlen(head) + opens * (strlen(open) + strlen(close)) + strlen(between) + strlen(past) + 1);
    char *at = body + sprintf(body, "%s", head);

    for (size_t i = 0; i < opens; i++)
        at += sprintf(at, "%s", open);
    at += sprintf(at, "%s", between);
    for (size_t i = 0; i < opens; i++)
        at += sprintf(at, "%s", close);
    sprintf(at, "%s", past);
    post(CHATS, body, status);
    free(body);
}

static void bodies_that_are_meant_to_hurt_are_refused(void **context)
{
    static const char *const wrong[] = {
        "{\"model\":\"tiny\"," HELLO ",\"n\":129}",
        "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":1e400}",
        "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":99999999999999999999999999}",
        "{\"model\":\"tiny\"," HELLO ",\"seed\":9223372036854775808}",
        "{\"model\":\"tiny\"," HELLO ",\"temperature\":1e308}",
        "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}]}",
        "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"\\udc00\\ud800\"}]}",
        "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}",
        "{\"model\":\"tiny\\u0000x\"," HELLO "}",
        "{\"model\":\"tiny\"," HELLO ",\"model\":\"tiny\"}",
        ("{\"model\":\"tiny\"," HELLO), /* cut short */
        "[]",
    };
    long before;

    (void)context;
    start("0");
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
        post(CHATS, wrong[i], 400);
    before = control_kib();
    post_repeated("[", 100000, "", "]", "}", 400);
    post_repeated("{\"a\":", 100000, "1", "}", "}", 400);
    post_repeated("[{\"role\":\"user\",\"content\":\"a\"},", 1, "", "7]", "}", 400);
    post_repeated("1", 16u << 20, "", "", "}", 413); /* more than a body may have */
    post(CHATS, "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":5}", 200);
    if (control_kib() - before > 256 << 10)
        fail_msg("%ld KiB more", control_kib() - before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_and_streamed_answers_are_the_same, begin, end),
        cmocka_unit_test_setup_teardown(a_stop_string_ends_an_answer_and_is_not_in_it, begin, end),
        cmocka_unit_test_setup_teardown(logprobs_come_with_bytes_and_alternatives, begin, end),
        cmocka_unit_test_setup_teardown(a_client_that_leaves_is_not_served_on, begin, end),
        cmocka_unit_test_setup_teardown(who_does_not_read_is_cut_and_others_go_on, begin, end),
        cmocka_unit_test_setup_teardown(a_server_that_dies_before_its_first_token_is_not_noticed, begin, end),
        cmocka_unit_test_setup_teardown(a_server_that_dies_later_ends_its_streams_with_an_error, begin, end),
        cmocka_unit_test_setup_teardown(a_server_is_at_no_more_answers_than_the_command_line_says, begin, end),
        cmocka_unit_test_setup_teardown(the_end_of_the_control_plane_ends_streams_with_an_error, begin, end),
        cmocka_unit_test_setup_teardown(a_tenants_tokens_of_a_minute_are_a_bound, begin, end),
        cmocka_unit_test_setup_teardown(more_at_once_than_the_core_has_room_for_is_told_to_come_again, begin, end),
        cmocka_unit_test_setup_teardown(only_ones_own_models_that_may_answer_are_there, begin, end),
        cmocka_unit_test_setup_teardown(what_is_too_long_for_the_model_is_refused_by_its_name, begin, end),
        cmocka_unit_test_setup_teardown(bodies_that_are_meant_to_hurt_are_refused, begin, end),
    };

    return cmocka_run_group_tests(tests, make_bases, remove_bases);
}
