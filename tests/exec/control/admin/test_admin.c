/* The socket: who may speak, what is answered, and what is kept of it. */
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/admin/admin.h"
#include "control/metadata/audit.h"
#include "control/metadata/file.h"
#include "control/metadata/job.h"
#include "control/metadata/key.h"
#include "control/metadata/model.h"
#include "control/metadata/tenant.h"
#include "exec/scratch.h"
#include "support.h"

struct rig {
    struct scratch scratch;
    struct metadata *metadata;
    struct meta_writer *writer;
    struct admin *admin;
    struct refusal refusal;
    FILE *log;
    char *log_text;
    size_t log_bytes;
    char changed[8][NAME_BYTES]; /* tenants, as the config's callback heard of them */
    uint32_t changes;
    pthread_t thread;
    int stop[2];
};

static void *serve(void *context)
{
    struct rig *rig = context;
    struct refusal refusal;

    check(admin_run(rig->admin, rig->stop[0], &refusal) == STATUS_OK);
    return NULL;
}

static void hear_change(void *context, const char *tenant)
{
    struct rig *rig = context;

    if (rig->changes < ARRAY_COUNT(rig->changed))
        snprintf(rig->changed[rig->changes++], NAME_BYTES, "%s", tenant);
}

static void rig_begin(struct rig *rig)
{
    static const uint8_t key[META_KEY_BYTES] = {1};
    struct meta_options options = {.server_key = key, .first = true};
    struct admin_config config;

    memset(rig, 0, sizeof(*rig));
    scratch_begin(&rig->scratch);
    options.place = scratch_at(&rig->scratch, "metadata.db");
    assert_int_equal(meta_open(&options, &rig->metadata, &rig->refusal), STATUS_OK);
    assert_int_equal(meta_writer_start(rig->metadata, 16, &rig->writer, &rig->refusal), STATUS_OK);
    rig->log = open_memstream(&rig->log_text, &rig->log_bytes);
    config = (struct admin_config){.folder = rig->scratch.path, .writer = rig->writer, .log = rig->log,
                                   .tenant_changed = hear_change, .context = rig};
    assert_int_equal(admin_open(&config, &rig->admin, &rig->refusal), STATUS_OK);
    assert_int_equal(pipe(rig->stop), 0);
    assert_int_equal(pthread_create(&rig->thread, NULL, serve, rig), 0);
}

/* The loop ends; log and database can be looked at. */
static void rig_stop(struct rig *rig)
{
    assert_int_equal(write(rig->stop[1], "x", 1), 1);
    pthread_join(rig->thread, NULL);
    meta_writer_stop(rig->writer);
    admin_close(rig->admin);
    fflush(rig->log);
}

static void rig_end(struct rig *rig)
{
    close(rig->stop[0]);
    close(rig->stop[1]);
    fclose(rig->log);
    free(rig->log_text);
    meta_close(rig->metadata);
    scratch_end(&rig->scratch);
}

static int connect_here(struct rig *rig)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%.60s/%s", rig->scratch.path, ADMIN_SOCKET);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static json_t *hear(int fd)
{
    static char packet[ADMIN_PACKET_BYTES_MAX];
    const ssize_t got = recv(fd, packet, sizeof(packet), 0);

    return got > 0 ? json_loadb(packet, (size_t)got, 0, NULL) : NULL;
}

static json_t *ask(int fd, const char *request)
{
    json_t *answer;

    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    answer = hear(fd);
    assert_non_null(answer);
    return answer;
}

static const char *text_of(const json_t *answer, const char *name) { return json_string_value(json_object_get(answer, name)); }

static void expect(int fd, const char *request, const char *code)
{
    json_t *answer = ask(fd, request);
    const char *got = text_of(answer, "code");

    if (code == NULL ? got != NULL : got == NULL || strcmp(got, code) != 0)
        fail_msg("%s: %s, %s", request, got ? got : "done", got ? text_of(answer, "error") : "");
    json_decref(answer);
}

static void tenants_and_keys_are_made_listed_and_revoked(void **state)
{
    struct meta_caller caller;
    struct meta_results results = {0};
    struct meta_audit *entries;
    char request[256];
    char key[META_KEY_TEXT_BYTES];
    json_t *answer;
    struct rig rig;
    uint32_t count;
    bool more;
    int fd;

    (void)state;
    rig_begin(&rig);
    fd = connect_here(&rig);
    expect(fd, "{\"op\": \"tenant.add\", \"tenant\": \"acme\"}", NULL);
    expect(fd, "{\"op\": \"tenant.add\", \"tenant\": \"acme\"}", "CONFLICT");
    expect(fd, "{\"op\": \"tenant.add\", \"tenant\": \"A b\"}", "INVALID");
    expect(fd, "{\"op\": \"tenant.add\"}", "INVALID");
    expect(fd, "{\"op\": \"tenant.set\", \"tenant\": \"acme\", \"settings\": {\"priority\": \"7\", \"weight_milli\": \"0\"}}", "INVALID");
    answer = ask(fd, "{\"op\": \"tenant.list\"}");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(json_object_get(answer, "tenants"), 0), "priority")), 0);
    json_decref(answer);
    expect(fd, "{\"op\": \"tenant.set\", \"tenant\": \"acme\", \"settings\": {\"priority\": \"7\", \"weight_milli\": \"5\"}}", NULL);
    expect(fd, "{\"op\": \"tenant.set\", \"tenant\": \"acme\", \"settings\": {}}", "INVALID");
    expect(fd, "{\"op\": \"tenant.set\", \"tenant\": \"none\", \"settings\": {\"priority\": \"7\"}}", "NOT_FOUND");
    expect(fd, "{\"op\": \"key.add\", \"tenant\": \"none\", \"role\": \"member\"}", "NOT_FOUND");
    expect(fd, "{\"op\": \"key.add\", \"tenant\": \"acme\", \"role\": \"auditor\"}", "INVALID");
    expect(fd, "{\"op\": \"key.add\", \"tenant\": \"acme\", \"role\": \"member\", \"expires_at_ms\": 1}", "INVALID");
    answer = ask(fd, "{\"op\": \"key.add\", \"tenant\": \"acme\", \"role\": \"member\"}");
    snprintf(key, sizeof(key), "%s", text_of(answer, "key"));
    snprintf(request, sizeof(request), "{\"op\": \"key.revoke\", \"tenant\": \"acme\", \"key\": \"%s\"}", text_of(answer, "id"));
    json_decref(answer);
    answer = ask(fd, "{\"op\": \"key.list\", \"tenant\": \"acme\"}");
    assert_int_equal(json_array_size(json_object_get(answer, "keys")), 1);
    json_decref(answer);
    expect(fd, request, NULL);
    expect(fd, "{\"op\": \"key.revoke\", \"tenant\": \"acme\", \"key\": \"none\"}", "NOT_FOUND");
    expect(fd, "{\"op\": \"tenant.suspend\", \"tenant\": \"acme\"}", NULL);
    expect(fd, "{\"op\": \"tenant.suspend\", \"tenant\": \"acme\"}", "CONFLICT");
    expect(fd, "{\"op\": \"tenant.resume\", \"tenant\": \"acme\"}", NULL);
    close(fd);
    rig_stop(&rig);
    assert_int_equal(meta_key_check(rig.metadata, key, 0, &caller, &rig.refusal), STATUS_OK);
    assert_int_equal(caller.standing, META_KEY_REVOKED);
    assert_int_equal(rig.changes, 3); /* settings, a suspension and a resumption; what was refused changed nothing */
    /* What was done is in the audit log, what was refused is not, and neither log holds a key or a name. */
    assert_int_equal(meta_audit_list(rig.metadata, NULL, INT64_MAX, 100, &results, &entries, &count, &more, &rig.refusal), STATUS_OK);
    assert_int_equal(count, 6);
    assert_string_equal(entries[0].act, "tenant.resume");
    assert_string_equal(entries[3].act, "key.add");
    assert_non_null(strstr(entries[0].actor, "local:"));
    assert_non_null(entries[0].tenant);
    assert_int_equal(meta_audit_verify(rig.metadata, NULL, &rig.refusal), STATUS_OK);
    meta_results_free(&results);
    assert_non_null(strstr(rig.log_text, "op=key.add"));
    assert_null(strstr(rig.log_text, key + strlen(key) - 43));
    assert_null(strstr(rig.log_text, "acme"));
    rig_end(&rig);
}

/* A tenant with a job and a model, as rows. */
static void fill(struct rig *rig)
{
    struct meta_results results = {0};
    struct meta_job_new job = {.id = "ftjob-1", .base = "tiny", .file = "file-1", .settings = "{}"};
    struct meta_model_new model = {.id = "m1", .suffix = "", .step = META_NONE, .base = "tiny", .object = "obj-2", .digest = "d", .rank = 8,
                                   .bytes = 1, .lineage = "{}"};
    const struct meta_bytes sealed = {(const uint8_t *)"s", 1};
    char name[META_MODEL_NAME_BYTES];
    struct meta_tenant tenant;

    assert_int_equal(meta_tenant_find(rig->metadata, "acme", &results, &tenant, &rig->refusal), STATUS_OK);
    assert_int_equal(meta_base_add(rig->metadata, "tiny", "d", "/m", 1, &rig->refusal), STATUS_OK);
    for (int i = 1; i <= 2; i++) {
        const char *object = i == 1 ? "obj-1" : "obj-2";

        assert_int_equal(meta_object_add(rig->metadata, tenant.id, object, "file", object, &rig->refusal), STATUS_OK);
        assert_int_equal(meta_object_written(rig->metadata, tenant.id, object, 1, "d", &rig->refusal), STATUS_OK);
    }
    assert_int_equal(meta_file_add(rig->metadata, tenant.id, "file-1", "obj-1", "fine-tune", sealed, META_NONE, 1, &rig->refusal), STATUS_OK);
    job.tenant = tenant.id;
    model.tenant = tenant.id;
    assert_int_equal(meta_job_add(rig->metadata, &job, 1, &rig->refusal), STATUS_OK);
    assert_int_equal(meta_model_add(rig->metadata, &model, 1, name, &rig->refusal), STATUS_OK);
    meta_results_free(&results);
}

static void jobs_models_usage_and_the_log_are_told(void **state)
{
    struct rig rig;
    json_t *answer;
    json_t *first;
    char request[256];
    char alias[256];
    int fd;

    (void)state;
    rig_begin(&rig);
    fd = connect_here(&rig);
    expect(fd, "{\"op\": \"tenant.add\", \"tenant\": \"acme\"}", NULL);
    expect(fd, "{\"op\": \"tenant.add\", \"tenant\": \"other\"}", NULL);
    fill(&rig); /* the writer is idle: nobody asks */
    answer = ask(fd, "{\"op\": \"job.list\", \"tenant\": \"acme\"}");
    first = json_array_get(json_object_get(answer, "jobs"), 0);
    assert_string_equal(text_of(first, "id"), "ftjob-1");
    assert_string_equal(text_of(first, "state"), "validating");
    json_decref(answer);
    expect(fd, "{\"op\": \"job.show\", \"tenant\": \"other\", \"job\": \"ftjob-1\"}", "NOT_FOUND");
    expect(fd, "{\"op\": \"job.cancel\", \"tenant\": \"other\", \"job\": \"ftjob-1\"}", "NOT_FOUND");
    expect(fd, "{\"op\": \"job.cancel\", \"tenant\": \"acme\", \"job\": \"ftjob-1\"}", NULL);
    answer = ask(fd, "{\"op\": \"job.show\", \"tenant\": \"acme\", \"job\": \"ftjob-1\"}");
    assert_string_equal(text_of(json_object_get(answer, "job"), "state"), "cancelled");
    assert_string_equal(text_of(json_array_get(json_object_get(answer, "events"), 0), "code"), "cancelled");
    json_decref(answer);
    answer = ask(fd, "{\"op\": \"model.list\", \"tenant\": \"acme\"}");
    first = json_array_get(json_object_get(answer, "models"), 0);
    assert_string_equal(text_of(first, "verdict"), "pending_eval");
    snprintf(request, sizeof(request), "{\"op\": \"model.judge\", \"tenant\": \"acme\", \"model\": \"%s\", \"verdict\": \"deployable\"}",
             text_of(first, "name"));
    snprintf(alias, sizeof(alias), "{\"op\": \"alias.set\", \"tenant\": \"acme\", \"alias\": \"prod\", \"model\": \"%s\"}", text_of(first, "name"));
    json_decref(answer);
    expect(fd, request, NULL);
    expect(fd, "{\"op\": \"alias.set\", \"tenant\": \"acme\", \"alias\": \"prod\", \"model\": \"tiny\"}", "INVALID");
    expect(fd, "{\"op\": \"alias.set\", \"tenant\": \"acme\", \"alias\": \"prod\", \"model\": \"none\"}", "NOT_FOUND");
    expect(fd, alias, NULL);
    expect(fd, "{\"op\": \"alias.set\", \"tenant\": \"acme\", \"alias\": \"next\", \"model\": \"prod\"}", NULL);
    answer = ask(fd, "{\"op\": \"alias.list\", \"tenant\": \"acme\", \"after\": \"next\"}");
    assert_int_equal(json_array_size(json_object_get(answer, "aliases")), 1);
    assert_string_equal(text_of(json_array_get(json_object_get(answer, "aliases"), 0), "id"), "prod");
    assert_string_equal(text_of(json_array_get(json_object_get(answer, "aliases"), 0), "verdict"), "deployable");
    json_decref(answer);
    expect(fd, "{\"op\": \"alias.delete\", \"tenant\": \"other\", \"alias\": \"prod\"}", "NOT_FOUND");
    expect(fd, "{\"op\": \"alias.delete\", \"tenant\": \"acme\", \"alias\": \"prod\"}", NULL);
    expect(fd, "{\"op\": \"alias.delete\", \"tenant\": \"acme\", \"alias\": \"prod\"}", "NOT_FOUND");
    expect(fd, "{\"op\": \"model.judge\", \"tenant\": \"acme\", \"model\": \"tiny\", \"verdict\": \"blocked\"}", "INVALID");
    expect(fd, "{\"op\": \"usage.list\", \"tenant\": \"acme\"}", NULL);
    expect(fd, "{\"op\": \"usage.list\", \"tenant\": \"acme\", \"hours\": 0}", "INVALID");
    answer = ask(fd, "{\"op\": \"audit.list\"}");
    assert_int_equal(json_array_size(json_object_get(answer, "entries")), 7);
    first = json_array_get(json_object_get(answer, "entries"), 0);
    assert_string_equal(text_of(first, "act"), "alias.delete");
    assert_string_equal(text_of(first, "subject"), "m1");
    first = json_array_get(json_object_get(answer, "entries"), 3);
    assert_string_equal(text_of(first, "act"), "model.judge");
    assert_string_equal(text_of(first, "subject"), "m1");
    json_decref(answer);
    close(fd);
    rig_stop(&rig);
    rig_end(&rig);
}

static void long_lists_come_in_pages(void **state)
{
    char request[128];
    struct rig rig;
    size_t total = 0;
    long long after = 0;
    bool more = true;
    int fd;

    (void)state;
    rig_begin(&rig);
    fd = connect_here(&rig);
    for (int i = 0; i < 120; i++) {
        snprintf(request, sizeof(request), "{\"op\": \"tenant.add\", \"tenant\": \"t%d\"}", i);
        expect(fd, request, NULL);
    }
    while (more) {
        json_t *answer;
        json_t *rows;

        snprintf(request, sizeof(request), "{\"op\": \"tenant.list\", \"after\": %lld}", after);
        answer = ask(fd, request);
        rows = json_object_get(answer, "tenants");
        total += json_array_size(rows);
        assert_true(json_array_size(rows) > 0);
        after = json_integer_value(json_object_get(json_array_get(rows, json_array_size(rows) - 1), "number"));
        more = json_is_true(json_object_get(answer, "more"));
        json_decref(answer);
    }
    assert_int_equal(total, 120);
    close(fd);
    rig_stop(&rig);
    rig_end(&rig);
}

static void nonsense_is_answered_and_changes_nothing(void **state)
{
    static const char *const packets[] = {"x", "[]", "{}", "{\"op\": 1}", "{\"op\": \"tenant.delete\"}", "{\"op\": \"tenant.add\", \"op\": \"tenant.add\"}",
                                          "{\"op\": \"tenant.add\", \"tenant\": 5}", "{\"op\": \"tenant.list\", \"after\": \"0\"}",
                                          "{\"op\": \"tenant.add\", \"tenant\": \"a\\u0000b\"}"};
    static char large[70000];
    struct rig rig;
    json_t *answer;
    int fd;

    (void)state;
    rig_begin(&rig);
    fd = connect_here(&rig);
    for (size_t i = 0; i < ARRAY_COUNT(packets); i++)
        expect(fd, packets[i], "INVALID");
    memset(large, ' ', sizeof(large) - 1);
    expect(fd, large, "INVALID");
    answer = ask(fd, "{\"op\": \"tenant.list\"}");
    assert_int_equal(json_array_size(json_object_get(answer, "tenants")), 0);
    json_decref(answer);
    close(fd);
    rig_stop(&rig);
    rig_end(&rig);
}

static void more_than_so_many_are_told_to_wait(void **state)
{
    int fds[ADMIN_CLIENTS_MAX + 1];
    struct rig rig;
    json_t *answer;

    (void)state;
    rig_begin(&rig);
    for (int i = 0; i < ADMIN_CLIENTS_MAX; i++) {
        fds[i] = connect_here(&rig);
        expect(fds[i], "{\"op\": \"tenant.list\"}", NULL);
    }
    fds[ADMIN_CLIENTS_MAX] = connect_here(&rig);
    answer = hear(fds[ADMIN_CLIENTS_MAX]);
    assert_string_equal(text_of(answer, "code"), "FULL");
    json_decref(answer);
    close(fds[0]);
    close(fds[ADMIN_CLIENTS_MAX]);
    fds[0] = -1;
    /* Its place is free once the loop has seen it go. */
    for (int tries = 0; fds[0] < 0 && tries < 1000; tries++) {
        json_t *list;

        fds[0] = connect_here(&rig);
        (void)send(fds[0], "{\"op\": \"tenant.list\"}", 21, MSG_NOSIGNAL);
        list = hear(fds[0]);
        if (json_object_get(list, "tenants") == NULL) {
            close(fds[0]);
            fds[0] = -1;
        }
        json_decref(list);
    }
    assert_true(fds[0] >= 0);
    for (int i = 0; i < ADMIN_CLIENTS_MAX; i++)
        close(fds[i]);
    rig_stop(&rig);
    rig_end(&rig);
}

/* Even where folder and socket are open to all. */
static void another_user_is_turned_away(void **state)
{
    char path[512];
    struct rig rig;
    pid_t child;
    int status;

    (void)state;
    if (geteuid() != 0) {
        puts("skipped: only root can be another user");
        skip();
    }
    rig_begin(&rig);
    snprintf(path, sizeof(path), "%s/%s", rig.scratch.path, ADMIN_SOCKET);
    assert_int_equal(chmod(rig.scratch.path, 0755), 0);
    assert_int_equal(chmod(path, 0666), 0);
    child = fork();
    if (child == 0) {
        json_t *answer;
        int fd;

        if (setgid(65534) != 0 || setuid(65534) != 0)
            _exit(2);
        fd = connect_here(&rig);
        answer = hear(fd);
        /* What it asks all the same is not heard. */
        (void)send(fd, "{\"op\": \"tenant.add\", \"tenant\": \"evil\"}", 39, MSG_NOSIGNAL);
        _exit(answer != NULL && strcmp(text_of(answer, "code"), "INVALID") == 0 && hear(fd) == NULL ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    rig_stop(&rig);
    assert_non_null(strstr(rig.log_text, "admin refused uid=65534 why=peer"));
    assert_null(strstr(rig.log_text, "op=tenant.add"));
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tenants_and_keys_are_made_listed_and_revoked),
        cmocka_unit_test(jobs_models_usage_and_the_log_are_told),
        cmocka_unit_test(long_lists_come_in_pages),
        cmocka_unit_test(nonsense_is_answered_and_changes_nothing),
        cmocka_unit_test(more_than_so_many_are_told_to_wait),
        cmocka_unit_test(another_user_is_turned_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
