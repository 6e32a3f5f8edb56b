/* kill -9 of each process at named points of a job's life and of answers, over the whole platform: the keeper starts what it must, clients ask
 * again, and in the end what was acknowledged is there, the job has one result, usage is what clients were given, no file lies in the store that no
 * row knows, and nobody was answered by another tenant's adapter. With BERTH_TEST_KILLED_S: at random instead, for so many seconds, under load;
 * BERTH_TEST_SEED repeats a run's choices. */
#define _DEFAULT_SOURCE /* usleep */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control/metadata/sql.h"
#include "exec/processes.h"
#include "rig.h"
#include "wire/frame.h"

#define ANSWER_TOKENS 48
#define CLIENTS 2
#define WAIT_MS 60000
#define FILES_MAX 256
#define JOBS_MAX 256
#define AT_ONCE 6

/* What a client was told of usage. */
struct told {
    uint32_t whole;         /* answers that came whole */
    uint32_t cut;           /* others, that may have been begun */
    uint32_t seen;          /* of those: some of it came */
    int64_t whole_tokens;
    int64_t whole_prompts;
    int64_t seen_tokens;    /* at least */
};
struct client {
    const char *key;
    const char *org;
    const char *letters;    /* what its adapter answers, and no other */
    char file[NAME_BYTES];
    char model[256];
    char expected[512];
    uint32_t jobs;
    struct told told;
};

static struct rig rig;
static struct answer answer;
static struct client clients[CLIENTS];

/* Frames are counted from when the clients begin: the first RESULT to come is the job's validator's, the second the trainer's. */
static const struct rig_point points[] = {
    {"control: before a job's row is committed", RIG_CONTROL, RIG_SYNC, 0, 0, 1},
    {"control: after a job's row was committed", RIG_CONTROL, RIG_SYNCED, 0, 0, 1},
    {"control: after launch, when HELLO comes", RIG_CONTROL, RIG_CAME, WIRE_HELLO, 0, 1},
    {"control: before START of the validator", RIG_CONTROL, RIG_SEND, WIRE_START, 0, 1},
    {"control: before START of the trainer", RIG_CONTROL, RIG_SEND, WIRE_START, 0, 2},
    {"control: after START of the trainer", RIG_CONTROL, RIG_SENT, WIRE_START, 0, 2},
    {"control: before a place for the next state is told", RIG_CONTROL, RIG_SEND, WIRE_CHECKPOINT_NOW, 0, 1},
    {"control: CHECKPOINT came", RIG_CONTROL, RIG_CAME, WIRE_CHECKPOINT, 0, 1},
    {"control: after CHECKPOINT, before the next commit", RIG_CONTROL, RIG_SYNC, 0, WIRE_CHECKPOINT, 1},
    {"control: after CHECKPOINT's first commit", RIG_CONTROL, RIG_SYNCED, 0, WIRE_CHECKPOINT, 1},
    {"control: the validator's RESULT came", RIG_CONTROL, RIG_CAME, WIRE_RESULT, 0, 1},
    {"control: the trainer's RESULT came", RIG_CONTROL, RIG_CAME, WIRE_RESULT, 0, 2},
    {"control: after RESULT's commit, before the ack", RIG_CONTROL, RIG_SYNCED, 0, WIRE_RESULT, 1},
    {"trainer: before HELLO", RIG_TRAINER, RIG_SEND, WIRE_HELLO, 0, 1},
    {"trainer: a state is sealed, before CHECKPOINT", RIG_TRAINER, RIG_SYNCED, 0, 0, 1},
    {"trainer: before CHECKPOINT", RIG_TRAINER, RIG_SEND, WIRE_CHECKPOINT, 0, 1},
    {"trainer: after CHECKPOINT", RIG_TRAINER, RIG_SENT, WIRE_CHECKPOINT, 0, 1},
    {"trainer: before RESULT", RIG_TRAINER, RIG_SEND, WIRE_RESULT, 0, 1},
    {"trainer: after RESULT", RIG_TRAINER, RIG_SENT, WIRE_RESULT, 0, 1},
    {"validator: before HELLO", RIG_VALIDATOR, RIG_SEND, WIRE_HELLO, 0, 1},
    {"validator: START came", RIG_VALIDATOR, RIG_CAME, WIRE_START, 0, 1},
    {"validator: before RESULT", RIG_VALIDATOR, RIG_SEND, WIRE_RESULT, 0, 1},
    {"validator: after RESULT", RIG_VALIDATOR, RIG_SENT, WIRE_RESULT, 0, 1},
    {"vault: before a key is on disk", RIG_VAULT, RIG_SYNC, 0, 0, 1},
    {"vault: between key_create and its answer", RIG_VAULT, RIG_SYNCED, 0, 0, 2},
    {"vault: a key of the trainer's", RIG_VAULT, RIG_SYNCED, 0, 0, 5},
    {"server: before HELLO", RIG_SERVER, RIG_SEND, WIRE_HELLO, 0, 1},
    {"server: while it loads an adapter", RIG_SERVER, RIG_CAME, WIRE_LOAD, 0, 1},
    {"server: REQUEST came", RIG_SERVER, RIG_CAME, WIRE_REQUEST, 0, 1},
    {"server: before the first TOKENS", RIG_SERVER, RIG_SEND, WIRE_TOKENS, 0, 1},
    {"server: mid-stream", RIG_SERVER, RIG_SENT, WIRE_TOKENS, 0, 9},
    {"server: before USAGE", RIG_SERVER, RIG_SEND, WIRE_USAGE, 0, 1},
    {"server: after USAGE, before DONE", RIG_SERVER, RIG_SENT, WIRE_USAGE, 0, 1},
    {"server: after DONE", RIG_SERVER, RIG_SENT, WIRE_DONE, 0, 1},
    {"control: after REQUEST, before the first TOKENS", RIG_CONTROL, RIG_SENT, WIRE_REQUEST, 0, 1},
    {"control: mid-stream", RIG_CONTROL, RIG_CAME, WIRE_TOKENS, 0, 9},
    {"control: USAGE was taken, before its commit", RIG_CONTROL, RIG_SYNC, 0, WIRE_USAGE, 1},
    {"control: after USAGE's commit, before the ack", RIG_CONTROL, RIG_SYNCED, 0, WIRE_USAGE, 1},
};

/* --- clients ------------------------------------------------------------------------------------------------------------------ */

/* Until it is answered by somebody who can: a client asks again. */
static void get(const struct client *client, const char *line)
{
    uint32_t waited_ms = 0;

    do {
        client_ask(&rig, client->key, line, "", &answer);
        (void)rig_is_killed();
        if (answer.status == 200)
            return;
        usleep(20000);
    } while ((waited_ms += 20) < WAIT_MS);
    fail_msg("%s: %u %s", line, answer.status, answer.text);
}

static void upload(struct client *client)
{
    char lines[4096];
    int count = 0;

    for (int i = 0; i < 10; i++)
        count += snprintf(lines + count, sizeof(lines) - (size_t)count, "{\"messages\": [{\"role\": \"user\", \"content\": \"q%d\"}, {\"role\": \"assistant\","
                          " \"content\": \"%s%d\"}]}\n", i, client->letters, i);
    client_upload(&rig, client->key, "", "a", lines, (size_t)count, &answer);
    assert_int_equal(answer.status, 200);
    snprintf(client->file, sizeof(client->file), "%s", answer_text(&answer, "id"));
}

/* The same key until it is acknowledged: one job. */
static void create(struct client *client, char ret_job[NAME_BYTES])
{
    char body[512];
    char once[64];
    uint32_t waited_ms = 0;

    snprintf(body, sizeof(body), "{\"model\": \"tiny\", \"training_file\": \"%s\", \"seed\": 3, \"hyperparameters\": {\"n_epochs\": 3, \"batch_size\": 5,"
             " \"learning_rate\": 0.01, \"rank\": 4}}", client->file);
    snprintf(once, sizeof(once), "Idempotency-Key: %s-%u\r\n", client->org, ++client->jobs);
    do {
        client_post_with(&rig, client->key, "/v1/fine_tuning/jobs", once, body, &answer);
        (void)rig_is_killed();
        usleep(answer.status == 200 ? 0 : 20000);
    } while (answer.status != 200 && (waited_ms += 20) < WAIT_MS);
    if (answer.status != 200)
        fail_msg("a job: %u %s", answer.status, answer.text);
    snprintf(ret_job, NAME_BYTES, "%s", answer_text(&answer, "id"));
}

/* False: it failed, and why is in `answer`. */
static bool await_end(const struct client *client, const char *job)
{
    char line[256];
    uint32_t waited_ms = 0;

    snprintf(line, sizeof(line), "GET /v1/fine_tuning/jobs/%s", job);
    do {
        get(client, line);
        if (strcmp(answer_text(&answer, "status"), "succeeded") == 0)
            return true;
        if (strcmp(answer_text(&answer, "status"), "failed") == 0)
            return false;
        usleep(20000);
    } while ((waited_ms += 20) < WAIT_MS);
    fail_msg("the job doesn't end: %s", answer.text);
    return false;
}

static void await_job(const struct client *client, const char *job)
{
    if (!await_end(client, job))
        fail_msg("the job didn't succeed: %s", answer.text);
}

static int64_t used(const char *name)
{
    return json_integer_value(json_object_get(json_object_get(answer.json, "usage"), name));
}

static void take_usage(struct client *client)
{
    client->told.whole++;
    client->told.whole_tokens += used("completion_tokens");
    client->told.whole_prompts += used("prompt_tokens");
}

/* A line on which the answer comes. */
static int begin_chat(const struct client *client, bool streams)
{
    char body[1024];

    snprintf(body, sizeof(body), "{\"model\": \"%s\", \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"max_tokens\": %d, \"temperature\": 0%s}",
             client->model, ANSWER_TOKENS, streams ? ", \"stream\": true, \"stream_options\": {\"include_usage\": true}" : "");
    return client_begin_post(&rig, client->key, "/v1/chat/completions", body, strlen(body));
}

static const char *content_of(const struct answer *of)
{
    const json_t *message = json_object_get(json_array_get(json_object_get(of->json, "choices"), 0), "message");

    return json_string_value(json_object_get(message, "content"));
}

static bool take_chat(struct client *client, int line)
{
    client_read(line, &answer);
    (void)rig_is_killed();
    if (answer.status != 200) {
        client->told.cut++;
        return false;
    }
    if (client->expected[0] == '\0')
        snprintf(client->expected, sizeof(client->expected), "%s", content_of(&answer));
    assert_string_equal(content_of(&answer), client->expected);
    take_usage(client);
    return true;
}

/* What came of a stream is the beginning of the tenant's own answer, and the whole of it when it says so. */
static bool take_stream(struct client *client, int line_of_it)
{
    char text[1024] = "";
    char *save = NULL;
    uint32_t pieces = 0;
    bool is_whole;

    client_read(line_of_it, &answer);
    (void)rig_is_killed();
    is_whole = answer.status == 200 && strstr(answer.text, "data: [DONE]") != NULL;
    for (char *line = answer.status == 200 ? strtok_r((char *)(uintptr_t)answer.body, "\n", &save) : NULL; line != NULL; line = strtok_r(NULL, "\n", &save)) {
        json_t *chunk = strncmp(line, "data: {", 7) == 0 ? json_loads(line + 6, 0, NULL) : NULL;
        const json_t *delta = json_object_get(json_array_get(json_object_get(chunk, "choices"), 0), "delta");
        const char *piece = json_string_value(json_object_get(delta, "content"));

        if (piece != NULL)
            strncat(text, piece, sizeof(text) - strlen(text) - 1);
        pieces += piece != NULL && piece[0] != '\0';
        if (json_is_object(json_object_get(chunk, "usage"))) {
            json_decref(answer.json);
            answer.json = json_incref(chunk);
        }
        json_decref(chunk);
    }
    assert_memory_equal(text, client->expected, strlen(text));
    if (!is_whole) {
        client->told.cut++;
        client->told.seen += pieces > 0;
        client->told.seen_tokens += pieces;
        return false;
    }
    assert_string_equal(text, client->expected);
    take_usage(client);
    return true;
}

static bool chat(struct client *client)
{
    return take_chat(client, begin_chat(client, false));
}

static bool stream(struct client *client)
{
    return take_stream(client, begin_chat(client, true));
}

/* Asks until one is answered whole. */
static void talk(struct client *client, bool (*ask)(struct client *client))
{
    uint32_t waited_ms = 0;

    while (!ask(client)) {
        usleep(20000);
        if ((waited_ms += 20) >= WAIT_MS)
            fail_msg("no answer: %u %s", answer.status, answer.text);
    }
}

/* --- what is true in the end -------------------------------------------------------------------------------------------------- */

/* How many there are, the usage's for a tenant; they are judged when the rows are closed. */
#define COUNTS(X)                                                                                                                       \
    X(jobs, "job")                                                                                                                      \
    X(succeeded, "job WHERE state = 'succeeded'")                                                                                       \
    X(crashed, "job WHERE state = 'failed' AND reason = 'crashed'")                                                                     \
    X(results, "model WHERE step IS NULL AND state = 'live'")                                                                           \
    X(jobs_with_results, "(SELECT DISTINCT job FROM model WHERE step IS NULL) AS with_results")                                        \
    /* Attempts follow each other, so that what a job used is less than from their beginnings to their ends; clocks have milliseconds. */ \
    X(overcharged, "job WHERE gpu_ms > 2 * attempt + (SELECT SUM(COALESCE(ended_at_ms, 1 << 60) - started_at_ms) FROM worker WHERE subject = job.id AND kind = 'trainer')") \
    X(uncharged, "job WHERE gpu_ms <= 0")                                                                                               \
    X(overlapping, "worker a JOIN worker b ON a.subject = b.subject AND a.started_at_ms < b.started_at_ms AND a.ended_at_ms > b.started_at_ms") \
    X(open, "worker WHERE kind <> 'server' AND ended_at_ms IS NULL")                                                                    \
    X(writing, "object WHERE state = 'writing'")                                                                                        \
    X(doomed, "object WHERE state = 'doomed'")                                                                                          \
    X(stored, "object WHERE state IN ('live', 'doomed')")                                                                               \
    X(unknown, "object WHERE state = 'live' AND id NOT IN (SELECT object FROM file) AND id NOT IN (SELECT report FROM file WHERE report IS NOT NULL)" \
      " AND id NOT IN (SELECT object FROM model) AND id NOT IN (SELECT object FROM checkpoint)")
static struct rows {
#define X(name, sql) int64_t name;
    COUNTS(X)
#undef X
    int64_t alive;
    int64_t requests[CLIENTS], tokens[CLIENTS], prompts[CLIENTS], halves[CLIENTS];
} rows;

static int64_t started_at_ms; /* the platform, the last time */

static void start(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    started_at_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
    rig_start(&rig);
}

static int64_t count_of(struct metadata *metadata, const char *sql, const struct value *values, uint32_t values_count)
{
    struct refusal refusal = {{0}};
    int64_t number = -1;

    if (sql_number(metadata, sql, values, values_count, &number, &refusal) != STATUS_OK)
        printf("%s: %s\n", sql, refusal.text);
    return number;
}

/* All clients ask the same. */
static int64_t prompt_tokens(const struct client *client)
{
    return client->told.whole_prompts / client->told.whole;
}

static void count_rows(const struct rig *of, struct metadata *metadata)
{
    (void)of;
#define X(name, sql) rows.name = count_of(metadata, "SELECT COUNT(*) FROM " sql, NO_VALUES);
    COUNTS(X)
#undef X
    /* Of one that ended just before the platform, the next start tells. */
    rows.alive = count_of(metadata, "SELECT COUNT(*) FROM worker WHERE kind <> 'server' AND ended_at_ms IS NULL AND started_at_ms < $1",
                          VALUES(AS_INT(started_at_ms)));
    for (uint32_t i = 0; i < CLIENTS; i++) {
        const char *org = clients[i].org;

        rows.requests[i] = count_of(metadata, "SELECT COUNT(*) FROM usage WHERE tenant = $1", VALUES(AS_TEXT(org)));
        rows.tokens[i] = count_of(metadata, "SELECT COALESCE(SUM(tokens_out), 0) FROM usage WHERE tenant = $1", VALUES(AS_TEXT(org)));
        rows.prompts[i] = count_of(metadata, "SELECT COALESCE(SUM(tokens_in), 0) FROM usage WHERE tenant = $1", VALUES(AS_TEXT(org)));
        rows.halves[i] = count_of(metadata, "SELECT COUNT(*) FROM usage WHERE tenant = $1 AND tokens_in <> $2 AND tokens_in + tokens_out > 0",
                                  VALUES(AS_TEXT(org), AS_INT(prompt_tokens(&clients[i]))));
    }
}

/* What came whole is billed, once, and so is whatever a client saw of an answer that was cut, with its prompt; beyond that, no more than was asked
 * for. Each record bills a whole prompt, or nothing at all: one that was cut while it waited was not read. Killed at random, control plane and
 * server may go within one moment; then nobody is left who knows what was sent in it. */
static void check_usage(uint32_t i, bool at_random)
{
    const struct told *told = &clients[i].told;
    const uint32_t seen = at_random ? 0 : told->seen;
    const int64_t seen_tokens = at_random ? 0 : told->seen_tokens;

    assert_in_range(rows.requests[i], told->whole + seen, told->whole + told->cut);
    assert_in_range(rows.tokens[i], told->whole_tokens + seen_tokens, told->whole_tokens + (int64_t)told->cut * ANSWER_TOKENS);
    assert_in_range(rows.prompts[i], told->whole_prompts + seen * prompt_tokens(&clients[i]), rows.requests[i] * prompt_tokens(&clients[i]));
    assert_int_equal(rows.halves[i], 0);
}

static void check_rows(bool at_random)
{
    const int64_t jobs = clients[0].jobs + clients[1].jobs;

    rig_fill(&rig, count_rows);
    for (uint32_t i = 0; i < CLIENTS; i++)
        check_usage(i, at_random);
    assert_int_equal(rows.jobs, jobs);
    assert_int_equal(rows.succeeded + rows.crashed, jobs);
    assert_int_equal(rows.results, rows.succeeded);
    assert_int_equal(rows.jobs_with_results, rows.succeeded);
    assert_int_equal(rows.alive, 0);
    if (rows.open == 0) { /* what a worker was lent to write goes when its end is told */
        assert_int_equal(rows.writing, 0);
        assert_int_equal(rig_files_below(&rig, "store/writing"), 0);
    }
    assert_int_equal(rows.overcharged, 0);
    assert_int_equal(rows.uncharged, 0);
    assert_int_equal(rows.overlapping, 0);
    assert_int_equal(rows.unknown, 0);
    assert_int_equal(rows.stored, rig_files_below(&rig, "store/objects"));
}

/* --- the tests ---------------------------------------------------------------------------------------------------------------- */

static void begin_client(struct client *client, const char *key, const char *org, const char *letters)
{
    char job[NAME_BYTES];

    *client = (struct client){.key = key, .org = org, .letters = letters};
    upload(client);
    create(client, job);
    await_job(client, job);
    snprintf(client->model, sizeof(client->model), "%s", answer_text(&answer, "fine_tuned_model"));
    talk(client, chat);
}

static int begin(void **context)
{
    static char base[600];
    struct process process;

    (void)context;
    rig_begin(&rig);
    snprintf(base, sizeof(base), "tiny=%s", scratch_at(&rig.scratch, "base"));
    memcpy(rig.more, (const char *[]){"--base", base, "--gate", "off"}, 4 * sizeof(*rig.more));
    process = process_begin((const char *[]){berth_exec(), "model", "create-tiny", "--out", base + strlen("tiny="), "--steps", "2", NULL});
    assert_int_equal(process_end(&process), 0);
    start();
    begin_client(&clients[0], rig.key, rig.acme, "zz");
    begin_client(&clients[1], rig.other_key, rig.other, "yy");
    assert_string_not_equal(clients[0].expected, clients[1].expected);
    assert_int_equal(rig_stop(&rig), 0);
    return 0;
}

static int end(void **context)
{
    (void)context;
    answer_clear(&answer);
    rig_end(&rig);
    return 0;
}

static int after(void **context)
{
    (void)context;
    if (rig.process > 0)
        rig_reap(&rig);
    return 0;
}

/* A server is started with the platform: its first frame may be sent before a client begins. */
static bool comes_early(const struct rig_point *point)
{
    return (point->roles & RIG_SERVER) != 0 && point->kind == WIRE_HELLO;
}

static void after_a_kill_at_this_point_nothing_is_lost(void **context)
{
    const struct rig_point *point = *context;
    char job[NAME_BYTES];

    if (comes_early(point))
        rig_kill_there(point);
    start();
    if (!comes_early(point))
        rig_kill_there(point);
    create(&clients[0], job);
    talk(&clients[0], stream);
    talk(&clients[1], chat);
    talk(&clients[1], stream);
    await_job(&clients[0], job);
    for (uint32_t waited_ms = 0; !rig_is_killed() && waited_ms < WAIT_MS; waited_ms += 20)
        usleep(20000); /* usage is committed some time after its answer */
    if (!rig_was_killed())
        fail_msg("nothing comes to the point \"%s\"", point->name);
    for (uint32_t i = 0; i < CLIENTS; i++)
        talk(&clients[i], chat);
    assert_int_equal(rig_stop(&rig), 0);
    check_rows(false);
}

/* --- at random ---------------------------------------------------------------------------------------------------------------- */

static uint64_t seed;
static char files[FILES_MAX][NAME_BYTES];
static uint32_t files_count;
static struct { char id[NAME_BYTES]; uint32_t client; } jobs[JOBS_MAX];
static uint32_t jobs_count;

static bool is_of_keeper(pid_t process)
{
    char path[64];
    FILE *file;
    int parent = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    file = process > 0 ? fopen(path, "r") : NULL;
    if (file == NULL)
        return false;
    if (fscanf(file, "%*d (%*[^)]) %*c %d", &parent) != 1)
        parent = 0;
    fclose(file);
    return parent == rig.process;
}

/* Ends a process every 0.3 to 2 s, until it is ended itself. */
static _Noreturn void kill_on(void)
{
    static const char *const names[] = {"control", "vault", "server", "trainer", "validator"};

    for (;;) {
        pid_t process;

        usleep(300000 + (uint32_t)draw_below(&seed, 1700) * 1000);
        process = rig_process(&rig, names[draw_below(&seed, ARRAY_COUNT(names))]);
        if (is_of_keeper(process))
            (void)kill(process, SIGKILL);
    }
}

static pid_t killer_begin(void)
{
    pid_t killer;

    fflush(NULL);
    (void)draw(&seed); /* the next killer makes other choices */
    killer = fork();
    if (killer == 0)
        kill_on();
    return killer;
}

static void killer_end(pid_t killer)
{
    (void)kill(killer, SIGKILL);
    (void)waitpid(killer, NULL, 0);
}

/* Several answers under way at once, some of which nobody reads to the end. */
static void talk_at_once(void)
{
    int lines[AT_ONCE];
    bool streams[AT_ONCE];

    for (uint32_t i = 0; i < AT_ONCE; i++)
        lines[i] = begin_chat(&clients[i % CLIENTS], streams[i] = draw_below(&seed, 2) == 0);
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        struct client *client = &clients[i % CLIENTS];

        if (draw_below(&seed, 4) == 0) {
            usleep((uint32_t)draw_below(&seed, 20) * 1000);
            close(lines[i]);
            client->told.cut++;
        } else {
            (void)(streams[i] ? take_stream : take_chat)(client, lines[i]);
        }
    }
}

static void upload_one(void)
{
    client_upload(&rig, rig.key, "", "a", "kept", 4, &answer);
    if (answer.status == 200 && files_count < FILES_MAX)
        snprintf(files[files_count++], NAME_BYTES, "%s", answer_text(&answer, "id"));
}

static void create_one(void)
{
    if (jobs_count == JOBS_MAX)
        return;
    jobs[jobs_count].client = (uint32_t)draw_below(&seed, CLIENTS);
    create(&clients[jobs[jobs_count].client], jobs[jobs_count].id);
    jobs_count++;
}

static void killed_at_random_nothing_is_lost(void **context)
{
    const int64_t seconds = strtoll(getenv("BERTH_TEST_KILLED_S"), NULL, 10);
    const time_t until = time(NULL) + seconds;
    pid_t killer;
    time_t again = time(NULL) + 20;

    (void)context;
    seed = getenv("BERTH_TEST_SEED") != NULL ? strtoull(getenv("BERTH_TEST_SEED"), NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)seed);
    rig_kill_at(0);
    start();
    killer = killer_begin();
    while (time(NULL) < until) {
        talk_at_once();
        if (draw_below(&seed, 8) == 0)
            create_one();
        if (draw_below(&seed, 8) == 0)
            upload_one();
        if (time(NULL) >= again) { /* the keeper, with which all ends */
            killer_end(killer);
            rig_reap(&rig);
            start();
            killer = killer_begin();
            again = time(NULL) + 20;
        }
    }
    killer_end(killer);
    for (uint32_t i = 0; i < jobs_count; i++)
        (void)await_end(&clients[jobs[i].client], jobs[i].id);
    for (uint32_t i = 0; i < CLIENTS; i++)
        talk(&clients[i], chat);
    for (uint32_t i = 0; i < files_count; i++) {
        char line[256];

        snprintf(line, sizeof(line), "GET /v1/files/%s/content", files[i]);
        get(&clients[0], line);
        assert_string_equal(answer.body, "kept");
    }
    assert_int_equal(rig_stop(&rig), 0);
    check_rows(true);
    printf("%u jobs, %lld crashed; %u files; %u and %u answers whole, %u and %u cut, of which %u and %u seen\n", jobs_count, (long long)rows.crashed, files_count,
           clients[0].told.whole, clients[1].told.whole, clients[0].told.cut, clients[1].told.cut, clients[0].told.seen, clients[1].told.seen);
}

/* What the sweeper had no time for is done at the next start. */
static void nothing_is_left_of_what_went(void **context)
{
    (void)context;
    start();
    assert_int_equal(rig_stop(&rig), 0);
    check_rows(getenv("BERTH_TEST_KILLED_S") != NULL);
    assert_int_equal(rows.doomed, 0);
    assert_true(clients[0].told.seen > 0);
}

int main(void)
{
    const bool at_random = getenv("BERTH_TEST_KILLED_S") != NULL;
    struct CMUnitTest tests[ARRAY_COUNT(points) + 1];
    const struct CMUnitTest random_tests[] = {
        cmocka_unit_test_teardown(killed_at_random_nothing_is_lost, after),
        cmocka_unit_test(nothing_is_left_of_what_went),
    };

    for (size_t i = 0; i < ARRAY_COUNT(points); i++)
        tests[i] = (struct CMUnitTest){.name = points[i].name, .test_func = after_a_kill_at_this_point_nothing_is_lost, .teardown_func = after,
                                       .initial_state = (void *)(uintptr_t)&points[i]};
    tests[ARRAY_COUNT(points)] = random_tests[1];
    return at_random ? cmocka_run_group_tests(random_tests, begin, end) : cmocka_run_group_tests(tests, begin, end);
}
