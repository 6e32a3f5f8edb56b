/* kill -9 at every sync of the disk that an upload and a deletion make, in the control plane and in its vault: what was acknowledged is
 * there afterwards, what wasn't is whole or not there, a retry makes one file, and nothing is left that no file leads to. */
#include <stdio.h>

#include "rig.h"

#define KILLS_MAX 40

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

static size_t listed(void)
{
    client_ask(&rig, rig.key, "GET /v1/files", "", &answer);
    assert_int_equal(answer.status, 200);
    return json_array_size(json_object_get(answer.json, "data"));
}

static void assert_content(const char *id, const char *content)
{
    char line[256];

    snprintf(line, sizeof(line), "GET /v1/files/%s/content", id);
    client_ask(&rig, rig.key, line, "", &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, content);
}

static void an_upload_is_there_or_not(void **context)
{
    char content[32];
    char retry[64];
    uint32_t n = 0;
    bool killed;

    (void)context;
    do {
        char id[NAME_BYTES] = "";
        bool acknowledged;

        n++;
        snprintf(content, sizeof(content), "content %u", n);
        snprintf(retry, sizeof(retry), "Idempotency-Key: k%u\r\n", n);
        rig_start(&rig);
        rig_kill_at(n);
        client_upload(&rig, rig.key, retry, "a", content, strlen(content), &answer);
        acknowledged = answer.status == 200;
        snprintf(id, sizeof(id), "%s", answer_text(&answer, "id"));
        killed = rig_was_killed();
        assert_true(killed || acknowledged);
        if (killed)
            rig_reap(&rig);
        else
            assert_int_equal(rig_stop(&rig), 0);
        rig_start(&rig);
        if (acknowledged)
            assert_content(id, content);
        assert_in_range(listed(), n - 1 + acknowledged, n);
        assert_int_equal(rig_files_below(&rig, "store/objects"), listed());
        client_upload(&rig, rig.key, retry, "a", content, strlen(content), &answer);
        assert_int_equal(answer.status, 200);
        assert_content(answer_text(&answer, "id"), content);
        assert_int_equal(listed(), n);
        assert_int_equal(rig_stop(&rig), 0);
    } while (killed && n < KILLS_MAX);
    assert_in_range(n, 6, KILLS_MAX - 1);
    printf("killed at %u syncs of an upload\n", n - 1);
}

static void a_deletion_is_done_or_not(void **context)
{
    uint32_t n = 0;
    bool killed;

    (void)context;
    do {
        char id[NAME_BYTES];
        char line[256];
        bool acknowledged;

        n++;
        rig_start(&rig);
        client_upload(&rig, rig.key, "", "a", "content", 7, &answer);
        assert_int_equal(answer.status, 200);
        snprintf(id, sizeof(id), "%s", answer_text(&answer, "id"));
        rig_kill_at(n);
        snprintf(line, sizeof(line), "DELETE /v1/files/%s", id);
        client_ask(&rig, rig.key, line, "", &answer);
        acknowledged = answer.status == 200;
        killed = rig_was_killed();
        assert_true(killed || acknowledged);
        if (killed)
            rig_reap(&rig);
        else
            assert_int_equal(rig_stop(&rig), 0);
        rig_start(&rig);
        assert_true(listed() == 0 || !acknowledged);
        assert_int_equal(rig_files_below(&rig, "store/objects"), listed());
        if (listed() > 0) {
            assert_content(id, "content");
            client_ask(&rig, rig.key, line, "", &answer);
            assert_int_equal(answer.status, 200);
        }
        assert_int_equal(rig_files_below(&rig, "store/objects"), 0);
        assert_int_equal(rig_stop(&rig), 0);
    } while (killed && n < KILLS_MAX);
    assert_in_range(n, 4, KILLS_MAX - 1);
    printf("killed at %u syncs of a deletion\n", n - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_upload_is_there_or_not, begin, end),
        cmocka_unit_test_setup_teardown(a_deletion_is_done_or_not, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
