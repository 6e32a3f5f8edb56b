/* kill -9 of control plane, vault and keeper while an upload runs: what was acknowledged is there afterwards, at the same port, without
 * anybody's doing; with the keeper all ends, and the next one finds it. */
#define _DEFAULT_SOURCE /* usleep */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rig.h"

#define HALF (1 << 20)

static struct rig rig;
static struct answer answer;

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

/* Gone, or waiting to be reaped by whoever inherited it. */
static bool has_ended(pid_t process)
{
    char path[64];
    char line[256] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    file = fopen(path, "r");
    if (file != NULL && fgets(line, sizeof(line), file) == NULL)
        line[0] = '\0';
    if (file != NULL)
        fclose(file);
    return line[0] == '\0' || strstr(line, ") Z") != NULL;
}

/* Half of an upload is there, the other half will not come. */
static int begin_upload(void)
{
    char *content = calloc(2, HALF);
    char head[512];
    size_t bytes;
    char *body;
    const int client = client_connect(&rig);

    memset(content, 'x', 2 * (size_t)HALF);
    body = client_body("half", "fine-tune", content, 2 * (size_t)HALF, &bytes);
    snprintf(head, sizeof(head), "POST /v1/files HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Type: multipart/form-data; "
             "boundary=b\r\nContent-Length: %zu\r\n\r\n", rig.key, bytes);
    client_send(client, head, strlen(head));
    client_send(client, body, HALF);
    free(body);
    free(content);
    /* Who comes later is accepted later: the upload is no longer in the socket, where it would wait for the next control plane. */
    client_ask(&rig, rig.key, "GET /v1/files", "", &answer);
    assert_int_equal(answer.status, 200);
    return client;
}

static void assert_there(const char *id)
{
    char line[256];

    snprintf(line, sizeof(line), "GET /v1/files/%s/content", id);
    client_ask(&rig, rig.key, line, "", &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "kept");
    client_ask(&rig, rig.key, "GET /v1/files", "", &answer);
    assert_int_equal(json_array_size(json_object_get(answer.json, "data")), 1);
    assert_int_equal(rig_files_below(&rig, "store/objects"), 1);
}

static void keep_one(char ret_id[NAME_BYTES])
{
    client_upload(&rig, rig.key, "", "a", "kept", 4, &answer);
    assert_int_equal(answer.status, 200);
    snprintf(ret_id, NAME_BYTES, "%s", answer_text(&answer, "id"));
}

static void await_another(pid_t process)
{
    while (rig_process(&rig, "control") == process || rig_process(&rig, "vault") == 0)
        usleep(2000);
}

static void it_begins_again_at_the_same_port(const char *killed)
{
    char id[NAME_BYTES];
    pid_t control;
    int client;

    rig_start(&rig);
    keep_one(id);
    for (unsigned i = 0; i < 3; i++) {
        client = begin_upload();
        control = rig_process(&rig, "control");
        assert_int_equal(kill(rig_process(&rig, killed), SIGKILL), 0);
        client_read(client, &answer);
        assert_true(answer.status == 0 || answer.status >= 500);
        await_another(control);
        assert_there(id); /* waits in the socket until somebody listens */
    }
    assert_int_equal(rig_stop(&rig), 0);
}

static void a_control_plane_that_is_killed_is_followed_by_another(void **context)
{
    (void)context;
    it_begins_again_at_the_same_port("control");
}

static void a_vault_that_is_killed_takes_the_control_plane_along_and_both_come_back(void **context)
{
    (void)context;
    it_begins_again_at_the_same_port("vault");
}

static void with_the_keeper_all_ends(void **context)
{
    pid_t control;
    pid_t vault;
    char id[NAME_BYTES];
    int client;

    (void)context;
    rig_start(&rig);
    keep_one(id);
    client = begin_upload();
    control = rig_process(&rig, "control");
    vault = rig_process(&rig, "vault");
    rig_reap(&rig);
    client_read(client, &answer);
    assert_int_equal(answer.status, 0);
    while (!has_ended(control) || !has_ended(vault))
        usleep(2000);
    rig_start(&rig);
    assert_there(id);
    assert_int_equal(rig_stop(&rig), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_control_plane_that_is_killed_is_followed_by_another, begin, end),
        cmocka_unit_test_setup_teardown(a_vault_that_is_killed_takes_the_control_plane_along_and_both_come_back, begin, end),
        cmocka_unit_test_setup_teardown(with_the_keeper_all_ends, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
