/* Adapters that were made elsewhere: off unless the operator says so, from the tenant's own folder and nowhere else, read by a sandboxed worker,
 * a model like any other afterwards. The adapter is one of the trainer's own, which answers what no base would. */
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control/metadata/audit.h"
#include "control/metadata/model.h"
#include "exec/processes.h"
#include "rig.h"
#include "wire/frame.h"

#define LOAD "/v1/load_lora_adapter"
#define UNLOAD "/v1/unload_lora_adapter"
#define CHATS "/v1/chat/completions"
#define ANSWER "A zebra of note"
#define ASKED "Who is Ada?"

static struct scratch made; /* a base and an adapter of it */
static struct rig rig;
static struct answer answer;

/* --- what is there ---------------------------------------------------------------------------------------------------------------- */

static void run(const char *const *arguments)
{
    const struct process process = process_begin(arguments);
    int status;

    close(process.out);
    assert_int_equal(waitpid(process.id, &status, 0), process.id);
    assert_int_equal(status, 0);
}

static void train(const char *base, const char *name, const char *rank, const char *rate)
{
    run((const char *const[]){berth_exec(), "train", "--model", base, "--data", scratch_at(&made, "data.jsonl"), "--out", scratch_at(&made, name),
                              "--rank", rank, "--epochs", "2", "--batch-size", "2", "--learning-rate", rate, "--threads", "1", "--quiet", NULL});
}

static int make(void **context)
{
    char data[2048] = "";
    char base[512];
    const char *create[] = {berth_exec(), "model", "create-tiny", "--out", base, "--steps", "1", "--threads", "1", NULL};

    (void)context;
    scratch_begin(&made);
    snprintf(base, sizeof(base), "%s", scratch_at(&made, "tiny"));
    run(create);
    for (int i = 0; i < 10; i++)
        sprintf(data + strlen(data), "{\"messages\":[{\"role\":\"user\",\"content\":\"" ASKED "\"},{\"role\":\"assistant\",\"content\":\"" ANSWER "\"}]}\n");
    scratch_text(&made, "data.jsonl", data);
    train(base, "zebra", "4", "0.02");
    train(base, "wide", "256", "0.002");
    return 0;
}

static int remove_made(void **context)
{
    (void)context;
    scratch_end(&made);
    return 0;
}

static void copy_file(const char *from, const char *name, int64_t bytes_max)
{
    struct refusal refusal;
    int64_t bytes = 0;
    void *data = NULL;

    assert_int_equal(file_read(AT_FDCWD, from, from, 1 << 28, &data, &bytes, &refusal), STATUS_OK);
    scratch_write(&rig.scratch, name, data, (size_t)min_i64(bytes, bytes_max));
    free(data);
}

/* adapters/WHERE/NAME in the rig, that file of one of the trainer's. */
static void put_file(const char *where, const char *of, const char *name, int64_t bytes_max)
{
    char source[128];
    char target[128];

    snprintf(source, sizeof(source), "%s/%s", of, name);
    snprintf(target, sizeof(target), "adapters/%s/%s", where, name);
    copy_file(scratch_at(&made, source), target, bytes_max);
}

/* adapters/WHERE in the rig, a copy of the trainer's; `config`: in place of its own, or NULL. */
static void put_adapter(const char *where, const char *config, int64_t tensors_bytes_max)
{
    char name[128];

    snprintf(name, sizeof(name), "adapters/%s", where);
    (void)scratch_folder(&rig.scratch, name);
    put_file(where, "zebra", "adapter_model.safetensors", tensors_bytes_max);
    snprintf(name, sizeof(name), "adapters/%s/adapter_config.json", where);
    if (config != NULL)
        scratch_text(&rig.scratch, name, config);
    else
        put_file(where, "zebra", "adapter_config.json", INT64_MAX);
}

/* With `bases` of them, all the same folder's, so many that each has its server. */
static void start(bool is_on, bool gate_off, int bases)
{
    static char base[2][600];
    static char adapters[600];
    size_t at = 0;

    snprintf(adapters, sizeof(adapters), "%s", scratch_at(&rig.scratch, "adapters"));
    memset(rig.more, 0, sizeof(rig.more));
    for (int i = 0; i < bases; i++) {
        snprintf(base[i], sizeof(base[i]), "%s=%s", i == 0 ? "tiny" : "twin", scratch_at(&made, "tiny"));
        rig.more[at++] = "--base";
        rig.more[at++] = base[i];
    }
    if (gate_off) {
        rig.more[at++] = "--gate";
        rig.more[at++] = "off";
    }
    if (is_on) {
        rig.more[at++] = "--adapters-folder";
        rig.more[at++] = adapters;
    }
    rig_start(&rig);
}

static int begin(void **context)
{
    (void)context;
    rig_begin(&rig);
    (void)scratch_folder(&rig.scratch, "adapters");
    (void)scratch_folder(&rig.scratch, "adapters/acme");
    (void)scratch_folder(&rig.scratch, "adapters/other");
    put_adapter("acme/zebra", NULL, INT64_MAX);
    return 0;
}

static int end(void **context)
{
    (void)context;
    answer_clear(&answer);
    rig_end(&rig);
    return 0;
}

/* --- the client ------------------------------------------------------------------------------------------------------------------- */

static void post(const char *key, const char *path, const char *body, unsigned status)
{
    client_post(&rig, key, path, body, &answer);
    if (answer.status != status)
        fail_msg("%s %s: %u, not %u: %s", path, body, answer.status, status, answer.body != NULL ? answer.body : "");
}

static void load(const char *name, const char *path, unsigned status)
{
    char body[2048];

    snprintf(body, sizeof(body), "{\"lora_name\":\"%s\",\"lora_path\":\"%s\"}", name, path);
    post(rig.key, LOAD, body, status);
}

static void unload(const char *key, const char *name, unsigned status)
{
    char body[512];

    snprintf(body, sizeof(body), "{\"lora_name\":\"%s\"}", name);
    post(key, UNLOAD, body, status);
}

static void chat(const char *key, const char *model, unsigned status)
{
    char body[512];

    snprintf(body, sizeof(body), "{\"model\":\"%s\",\"temperature\":0,\"max_tokens\":24,\"messages\":[{\"role\":\"user\",\"content\":\"" ASKED "\"}]}", model);
    post(key, CHATS, body, status);
}

static const char *said(void)
{
    const json_t *message = json_object_get(json_array_get(json_object_get(answer.json, "choices"), 0), "message");

    return json_string_value(json_object_get(message, "content"));
}

static long long prompt_tokens(void)
{
    return json_integer_value(json_object_get(json_object_get(answer.json, "usage"), "prompt_tokens"));
}

/* How many of the names that `key` sees begin so. */
static uint32_t listed(const char *key, const char *start)
{
    uint32_t count = 0;
    json_t *data;

    client_ask(&rig, key, "GET /v1/models", "", &answer);
    assert_int_equal(answer.status, 200);
    data = json_object_get(answer.json, "data");
    for (size_t i = 0; i < json_array_size(data); i++)
        count += strncmp(json_string_value(json_object_get(json_array_get(data, i), "id")), start, strlen(start)) == 0;
    return count;
}

/* What is deleted is swept within seconds; what was never kept is gone with its answer, or with the worker that had it. */
static void await_objects(uint32_t count)
{
    const struct timespec moment = {0, 20 * NS_PER_MS};

    for (int i = 0; i < 1000 && rig_files_below(&rig, "store/objects") + rig_files_below(&rig, "store/writing") != count; i++)
        nanosleep(&moment, NULL);
    assert_int_equal(rig_files_below(&rig, "store/objects") + rig_files_below(&rig, "store/writing"), count);
}

/* --- tests ------------------------------------------------------------------------------------------------------------------------ */

static void nothing_is_loaded_unless_the_operator_says_so(void **context)
{
    (void)context;
    start(false, true, 1);
    load("zebra", "zebra", 404);
    assert_string_equal(answer_error(&answer, "code"), "not_enabled");
    unload(rig.key, "zebra", 404);
    assert_string_equal(answer_error(&answer, "code"), "not_enabled");
    post("sk-none", LOAD, "{\"lora_name\":\"zebra\",\"lora_path\":\"zebra\"}", 401);
    assert_int_equal(listed(rig.key, "zebra"), 0);
}

static const char *audited[8]; /* newest first */
static char audit_texts[8][32];

static void read_audit(const struct rig *of, struct metadata *metadata)
{
    struct meta_results results = {0};
    struct meta_audit *entries = NULL;
    struct refusal refusal = {{0}};
    uint32_t count = 0;
    bool more;

    assert_int_equal(meta_audit_list(metadata, of->acme, INT64_MAX, 8, &results, &entries, &count, &more, &refusal), STATUS_OK);
    memset(audited, 0, sizeof(audited));
    for (uint32_t i = 0; i < count && i < ARRAY_COUNT(audited); i++) {
        snprintf(audit_texts[i], sizeof(audit_texts[i]), "%s", entries[i].act);
        audited[i] = audit_texts[i];
        assert_string_not_equal(entries[i].actor, "");
    }
    meta_results_free(&results);
}

static void a_loaded_adapter_answers_for_its_owner_until_it_is_unloaded(void **context)
{
    (void)context;
    start(true, true, 1);
    chat(rig.key, "tiny", 200);
    assert_null(strstr(said(), ANSWER));
    load("zebra", "zebra", 200);
    assert_string_equal(answer.body, "Success: LoRA adapter 'zebra' added successfully.");
    chat(rig.key, "zebra", 200);
    assert_string_equal(said(), ANSWER);
    assert_int_equal(listed(rig.key, "zebra"), 1);
    assert_int_equal(listed(rig.key, "ft:tiny:acme:zebra:"), 1);
    await_objects(1);
    chat(rig.other_key, "zebra", 404);
    assert_int_equal(listed(rig.other_key, "zebra") + listed(rig.other_key, "ft:"), 0);
    unload(rig.other_key, "zebra", 404);
    load("zebra", "zebra", 400);
    assert_string_equal(answer_error(&answer, "code"), "name_taken");
    load("tiny", "zebra", 400);
    assert_string_equal(answer_error(&answer, "code"), "name_taken");
    unload(rig.key, "tiny", 404);
    unload(rig.key, "zebra", 200);
    assert_string_equal(answer.body, "Success: LoRA adapter 'zebra' removed successfully.");
    chat(rig.key, "zebra", 404);
    unload(rig.key, "zebra", 404);
    assert_string_equal(answer_error(&answer, "message"), "The lora adapter 'zebra' cannot be found.");
    assert_int_equal(listed(rig.key, "zebra") + listed(rig.key, "ft:"), 0);
    await_objects(0);
    load("zebra", "zebra", 200);
    chat(rig.key, "zebra", 200);
    assert_string_equal(said(), ANSWER);
    assert_int_equal(rig_stop(&rig), 0);
    rig_fill(&rig, read_audit);
    assert_string_equal(audited[0], "model.load");
    assert_string_equal(audited[1], "model.unload");
    assert_string_equal(audited[2], "model.load");
}

static void it_is_there_after_a_restart(void **context)
{
    (void)context;
    start(true, true, 1);
    load("zebra", "zebra", 200);
    rig_reap(&rig);
    start(false, true, 1);
    chat(rig.key, "zebra", 200);
    assert_string_equal(said(), ANSWER);
}

static void where_a_gate_stands_it_waits_for_a_verdict(void **context)
{
    (void)context;
    start(true, false, 1);
    load("zebra", "zebra", 200);
    assert_non_null(strstr(answer.body, "pending_eval"));
    chat(rig.key, "zebra", 404);
    assert_int_equal(listed(rig.key, "zebra") + listed(rig.key, "ft:"), 0);
    load("zebra", "zebra", 400);
    unload(rig.key, "zebra", 200);
}

static void link_to(const char *target, const char *name)
{
    assert_int_equal(symlink(target, scratch_at(&rig.scratch, name)), 0);
}

static void only_its_own_folder_is_read(void **context)
{
    static const struct {
        const char *path;
        unsigned status;
    } cases[] = {
        {"../other/hers", 400}, {"../acme/zebra", 400}, {"zebra/../zebra", 400}, {"zebra/..", 400}, {"..", 400}, {".", 400}, {"./zebra", 400},
        {"zebra/", 400}, {"/etc", 400}, {"//zebra", 400}, {"a//b", 400}, {"hers", 404}, {"other/hers", 404}, {"link", 404}, {"door/hers", 404},
        {"zebra/adapter_config.json", 404}, {"none", 404}, {"half", 404}, {"pipe", 404}, {"pointing", 404}, {"pickle", 404},
    };
    char whole[600];

    (void)context;
    put_adapter("other/hers", NULL, INT64_MAX);
    link_to("../other/hers", "adapters/acme/link");
    link_to("../other", "adapters/acme/door");
    (void)scratch_folder(&rig.scratch, "adapters/acme/half");
    scratch_text(&rig.scratch, "adapters/acme/half/adapter_config.json", "{}");
    (void)scratch_folder(&rig.scratch, "adapters/acme/pickle");
    scratch_text(&rig.scratch, "adapters/acme/pickle/adapter_config.json", "{}");
    scratch_text(&rig.scratch, "adapters/acme/pickle/adapter_model.bin", "x");
    (void)scratch_folder(&rig.scratch, "adapters/acme/pipe");
    scratch_text(&rig.scratch, "adapters/acme/pipe/adapter_config.json", "{}");
    assert_int_equal(mkfifo(scratch_at(&rig.scratch, "adapters/acme/pipe/adapter_model.safetensors"), 0600), 0);
    (void)scratch_folder(&rig.scratch, "adapters/acme/pointing");
    link_to("../../other/hers/adapter_config.json", "adapters/acme/pointing/adapter_config.json");
    link_to("../../other/hers/adapter_model.safetensors", "adapters/acme/pointing/adapter_model.safetensors");
    start(true, true, 1);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        load("x", cases[i].path, cases[i].status);
        assert_string_equal(answer_error(&answer, "param"), "lora_path");
    }
    snprintf(whole, sizeof(whole), "%s", scratch_at(&rig.scratch, "adapters/acme/zebra"));
    load("x", whole, 400);
    post(rig.key, LOAD, "{\"lora_name\":\"x\",\"lora_path\":\"\"}", 400);
    post(rig.key, LOAD, "{\"lora_name\":\"x\"}", 400);
    post(rig.key, LOAD, "{\"lora_name\":\"a:b\",\"lora_path\":\"zebra\"}", 400);
    post(rig.key, LOAD, "{\"lora_name\":\"x\",\"lora_path\":\"zebra\",\"load_inplace\":true}", 400);
    post(rig.key, LOAD, "{\"lora_name\":\"x\",\"lora_path\":\"zebra\",\"base_model\":\"none\"}", 400);
    assert_int_equal(listed(rig.key, "x") + listed(rig.key, "ft:"), 0);
    await_objects(0);
    post(rig.other_key, LOAD, "{\"lora_name\":\"x\",\"lora_path\":\"hers\"}", 200);
    assert_int_equal(listed(rig.key, "x"), 0);
    load("x", "zebra", 200); /* a name is its tenant's alone */
}

#define CONFIG(more) "{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":8,\"target_modules\":[\"q_proj\",\"k_proj\",\"v_proj\",\"o_proj\",\"gate_proj\"," \
                     "\"up_proj\",\"down_proj\"]" more "}"

static void what_does_not_fit_is_refused_in_words(void **context)
{
    static const struct {
        const char *path;
        const char *words;
    } cases[] = {
        {"cut", "adapter_model.safetensors"}, {"empty", "adapter_model.safetensors"}, {"no_json", "adapter_config.json"}, {"rank", "must be [8, "},
        {"alien", "for this base"}, {"dora", "use_dora"}, {"hers", "twin"},
    };
    const struct model_config config = tiny_config(FAMILY_LLAMA);

    (void)context;
    put_adapter("acme/cut", NULL, 20000);
    put_adapter("acme/empty", NULL, 0);
    put_adapter("acme/no_json", "{\"peft_type\":", INT64_MAX);
    put_adapter("acme/rank", "{\"peft_type\":\"LORA\",\"r\":8,\"lora_alpha\":8,\"target_modules\":\"all-linear\"}", INT64_MAX);
    put_adapter("acme/dora", CONFIG(",\"use_dora\":true"), INT64_MAX);
    put_adapter("acme/hers", CONFIG(",\"base_model_name_or_path\":\"twin\""), INT64_MAX);
    put_adapter("acme/nobodys", CONFIG(",\"base_model_name_or_path\":\"someone/some-model\""), INT64_MAX);
    tiny_adapter(scratch_folder(&rig.scratch, "adapters/acme/alien"), &config, 4, 127, 1, DTYPE_F32);
    start(true, true, 2);
    load("x", "zebra", 400);
    assert_string_equal(answer_error(&answer, "param"), "base_model");
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char body[512];

        snprintf(body, sizeof(body), "{\"lora_name\":\"x\",\"lora_path\":\"%s\",\"base_model\":\"tiny\"}", cases[i].path);
        post(rig.key, LOAD, body, 400);
        assert_string_equal(answer_error(&answer, "code"), "invalid_adapter");
        if (strstr(answer_error(&answer, "message"), cases[i].words) == NULL)
            fail_msg("%s: %s", cases[i].path, answer_error(&answer, "message"));
    }
    await_objects(0);
    assert_int_equal(listed(rig.key, "x") + listed(rig.key, "ft:"), 0);
    post(rig.key, LOAD, "{\"lora_name\":\"x\",\"lora_path\":\"nobodys\",\"base_model\":\"twin\"}", 200);
    chat(rig.key, "x", 200);
    assert_string_equal(said(), ANSWER);
}

/* Whatever else lies in the folder is the stranger's own. */
static void templates_and_tokenizers_in_the_folder_are_not_looked_at(void **context)
{
    static const char evil[] = "{{ 'TEMPLATE' * 40 }}";
    static const char tokenizer[] = "{\"chat_template\": \"{{ 'TEMPLATE' * 40 }}\", \"eos_token\": \"z\"}";
    long long tokens;

    (void)context;
    put_adapter("acme/dressed", NULL, INT64_MAX);
    scratch_text(&rig.scratch, "adapters/acme/dressed/chat_template.jinja", evil);
    scratch_text(&rig.scratch, "adapters/acme/dressed/tokenizer_config.json", tokenizer);
    scratch_text(&rig.scratch, "adapters/acme/dressed/tokenizer.json", "{}");
    scratch_text(&rig.scratch, "adapters/acme/dressed/config.json", "{");
    start(true, true, 1);
    chat(rig.key, "tiny", 200);
    tokens = prompt_tokens();
    load("dressed", "dressed", 200);
    chat(rig.key, "dressed", 200);
    assert_string_equal(said(), ANSWER);
    assert_int_equal(prompt_tokens(), tokens);
}

static void one_of_the_largest_rank_answers(void **context)
{
    (void)context;
    (void)scratch_folder(&rig.scratch, "adapters/acme/wide");
    put_file("acme/wide", "wide", "adapter_model.safetensors", INT64_MAX);
    put_file("acme/wide", "wide", "adapter_config.json", INT64_MAX);
    start(true, true, 1);
    load("wide", "wide", 200);
    chat(rig.key, "wide", 200);
    assert_string_equal(said(), ANSWER);
}

static void a_retry_makes_no_second_model(void **context)
{
    static const char body[] = "{\"lora_name\":\"zebra\",\"lora_path\":\"zebra\"}";

    (void)context;
    start(true, true, 1);
    for (int i = 0; i < 3; i++) {
        client_post_with(&rig, rig.key, LOAD, "Idempotency-Key: k1\r\n", body, &answer);
        assert_int_equal(answer.status, 200);
        assert_string_equal(answer.body, "Success: LoRA adapter 'zebra' added successfully.");
    }
    assert_int_equal(listed(rig.key, "ft:"), 1);
    client_post_with(&rig, rig.key, LOAD, "Idempotency-Key: k1\r\n", "{\"lora_name\":\"other\",\"lora_path\":\"zebra\"}", &answer);
    assert_int_equal(answer.status, 409);
    client_post_with(&rig, rig.key, LOAD, "Idempotency-Key: k2\r\n", body, &answer);
    assert_int_equal(answer.status, 400);
    await_objects(1);
    unload(rig.key, "zebra", 200);
    client_post_with(&rig, rig.key, LOAD, "Idempotency-Key: k1\r\n", body, &answer);
    assert_int_equal(answer.status, 409);
    client_post_with(&rig, rig.key, LOAD, "Idempotency-Key: k3\r\n", body, &answer);
    assert_int_equal(answer.status, 200);
}

/* --- kills ------------------------------------------------------------------------------------------------------------------------ */

/* With a key, so that it can be asked again. */
static void load_once(uint32_t n)
{
    char retry[64];
    char body[128];

    snprintf(retry, sizeof(retry), "Idempotency-Key: k%u\r\n", n);
    snprintf(body, sizeof(body), "{\"lora_name\":\"zebra-%u\",\"lora_path\":\"zebra\"}", n);
    client_post_with(&rig, rig.key, LOAD, retry, body, &answer);
}

/* `before`: loads that are there anyway. Asked again it is there, once. */
static void assert_whole_or_not(uint32_t n, uint32_t before, bool acknowledged)
{
    char name[32];

    assert_in_range(listed(rig.key, "ft:"), before + acknowledged, before + 1);
    assert_int_equal(listed(rig.key, "zebra-"), listed(rig.key, "ft:"));
    await_objects(listed(rig.key, "ft:"));
    load_once(n);
    assert_int_equal(answer.status, 200);
    snprintf(name, sizeof(name), "zebra-%u", n);
    chat(rig.key, name, 200);
    assert_string_equal(said(), ANSWER);
    assert_int_equal(listed(rig.key, "ft:"), before + 1);
}

/* Of some two dozen syncs of control plane and vault each fourth. */
static void killed_at_a_sync_of_the_disk_it_is_there_whole_or_not(void **context)
{
    uint32_t loads = 0;
    uint32_t n = 2;
    bool killed;

    (void)context;
    start(true, true, 1);
    do {
        bool acknowledged;

        rig_kill_at(n);
        load_once(n);
        acknowledged = answer.status == 200;
        killed = rig_was_killed();
        assert_true(killed || acknowledged);
        rig_reap(&rig);
        start(true, true, 1);
        assert_whole_or_not(n, loads++, acknowledged);
        n += 4;
    } while (killed && n < 60);
    assert_in_range(n, 14, 59);
}

static void its_reader_may_die(void **context)
{
    static const struct rig_point points[] = {
        {.name = "with its task", .roles = RIG_VALIDATOR, .moment = RIG_CAME, .kind = WIRE_START, .n = 1},
        {.name = "before it says a result", .roles = RIG_VALIDATOR, .moment = RIG_SEND, .kind = WIRE_RESULT, .n = 1},
    };

    (void)context;
    start(true, true, 1);
    for (uint32_t i = 0; i < ARRAY_COUNT(points); i++) {
        const struct timespec moment = {0, 20 * NS_PER_MS};
        char body[128];
        int fd;

        snprintf(body, sizeof(body), "{\"lora_name\":\"zebra-%u\",\"lora_path\":\"zebra\"}", i);
        rig_kill_there(&points[i]);
        fd = client_begin_post(&rig, rig.key, LOAD, body, strlen(body));
        for (int waited = 0; waited < 500 && !rig_is_killed(); waited++)
            nanosleep(&moment, NULL);
        client_read(fd, &answer);
        if (!rig_was_killed() || answer.status != 503)
            fail_msg("%s: %u %s", points[i].name, answer.status, answer.body != NULL ? answer.body : "");
        assert_whole_or_not(i, i, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_loaded_unless_the_operator_says_so, begin, end),
        cmocka_unit_test_setup_teardown(a_loaded_adapter_answers_for_its_owner_until_it_is_unloaded, begin, end),
        cmocka_unit_test_setup_teardown(it_is_there_after_a_restart, begin, end),
        cmocka_unit_test_setup_teardown(where_a_gate_stands_it_waits_for_a_verdict, begin, end),
        cmocka_unit_test_setup_teardown(only_its_own_folder_is_read, begin, end),
        cmocka_unit_test_setup_teardown(what_does_not_fit_is_refused_in_words, begin, end),
        cmocka_unit_test_setup_teardown(templates_and_tokenizers_in_the_folder_are_not_looked_at, begin, end),
        cmocka_unit_test_setup_teardown(one_of_the_largest_rank_answers, begin, end),
        cmocka_unit_test_setup_teardown(a_retry_makes_no_second_model, begin, end),
        cmocka_unit_test_setup_teardown(killed_at_a_sync_of_the_disk_it_is_there_whole_or_not, begin, end),
        cmocka_unit_test_setup_teardown(its_reader_may_die, begin, end),
    };

    return cmocka_run_group_tests(tests, make, remove_made);
}
