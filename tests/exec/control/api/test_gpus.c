/* The platform on GPUs, which are the emulation's two: who is asked for them, which device of the fleet core's stands on which, and that what
 * is trained and served there is used by its right number, or not at all. */
#define _DEFAULT_SOURCE /* usleep */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd_control.h"
#include "rig.h"

#define WAIT_MS 60000

static struct rig rig;
static struct answer answer;
static char base[600];

/* build/MODE/lib/... of build/MODE/tests/exec/control/api/test_gpus. */
static const char *emulation(void)
{
    static char path[4200];
    const ssize_t length = readlink("/proc/self/exe", path, 4000);
    char *tests;

    assert_true(length > 0);
    path[length] = '\0';
    tests = strstr(path, "/tests/exec/");
    assert_non_null(tests);
    strcpy(tests, "/lib/libberth-cuda-emulated.so");
    return path;
}

/* In every process that the keeper starts, whose environment is empty: berth-exec would find its library beside itself. */
__attribute__((constructor(101))) static void use_emulation(void)
{
    setenv("BERTH_CUDA_LIBRARY", emulation(), 1);
}

static int begin(void **context)
{
    const struct model_config config = tiny_config(FAMILY_LLAMA);

    (void)context;
    unsetenv("CUDA_VISIBLE_DEVICES");
    if (access(emulation(), R_OK) != 0) {
        printf("skipped: %s is not built\n", emulation());
        skip();
    }
    rig_begin(&rig);
    tiny_model(scratch_folder(&rig.scratch, "tiny"), &config, 1, DTYPE_F32);
    snprintf(base, sizeof(base), "tiny=%s", scratch_at(&rig.scratch, "tiny"));
    return 0;
}

static int end(void **context)
{
    (void)context;
    answer_clear(&answer);
    rig_end(&rig);
    return 0;
}

static void start(const char *device)
{
    const char *const more[] = {"--base", base, "--gate", "off", "--device", device};

    memcpy(rig.more, more, sizeof(more));
    rig_start(&rig);
}

static void start_with_devices(const char *devices, const char *expected)
{
    rig.more[6] = "--devices";
    rig.more[7] = devices;
    start("auto");
    if (strstr(rig.ready, expected) == NULL)
        fail_msg("%s devices: %s", devices, rig.ready);
    assert_int_equal(rig_stop(&rig), 0);
}

/* How often a worker was given this one. */
static uint32_t uses(int gpu)
{
    FILE *log = fopen(rig.log, "r");
    uint32_t count = 0;
    char expected[64];
    char line[1024];

    assert_non_null(log);
    snprintf(expected, sizeof(expected), "emulated GPU %d\n", gpu);
    while (fgets(line, sizeof(line), log) != NULL)
        count += strcmp(line, expected) == 0;
    fclose(log);
    return count;
}

/* A server under the emulation may take longer to come than a request waits for it. */
static void complete(const char *model, char ret_text[512])
{
    char body[512];
    uint32_t asked = 0;

    snprintf(body, sizeof(body), "{\"model\":\"%s\",\"prompt\":\"ab\",\"max_tokens\":6,\"temperature\":0}", model);
    do
        client_post(&rig, rig.key, "/v1/completions", body, &answer);
    while (answer.status >= 500 && ++asked < 3);
    if (answer.status != 200)
        fail_msg("%s: %u %s", model, answer.status, answer.text);
    snprintf(ret_text, 512, "%s", json_string_value(json_object_get(json_array_get(json_object_get(answer.json, "choices"), 0), "text")));
}

static void train(char ret_model[256])
{
    char lines[2048] = "";
    char text[512];
    uint32_t waited_ms = 0;

    for (int i = 0; i < 10; i++)
        snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "{\"prompt\": \"%d\", \"completion\": \"abc\"}\n", i);
    client_upload(&rig, rig.key, "", "a", lines, strlen(lines), &answer);
    assert_int_equal(answer.status, 200);
    snprintf(text, sizeof(text), "{\"model\": \"tiny\", \"training_file\": \"%s\", \"hyperparameters\": {\"n_epochs\": 1, \"batch_size\": 10, \"rank\": 4,"
             " \"learning_rate\": 0.05}}", answer_text(&answer, "id"));
    client_post(&rig, rig.key, "/v1/fine_tuning/jobs", text, &answer);
    if (answer.status != 200)
        fail_msg("a job: %u %s", answer.status, answer.text);
    snprintf(text, sizeof(text), "GET /v1/fine_tuning/jobs/%s", answer_text(&answer, "id"));
    do {
        client_ask(&rig, rig.key, text, "", &answer);
        if (strcmp(answer_text(&answer, "status"), "failed") == 0)
            fail_msg("%s", answer.text);
        usleep(20000);
    } while (strcmp(answer_text(&answer, "status"), "succeeded") != 0 && (waited_ms += 20) < WAIT_MS);
    snprintf(ret_model, 256, "%s", answer_text(&answer, "fine_tuned_model"));
    assert_string_not_equal(ret_model, "");
}

static void server_and_trainer_have_a_gpu_each_and_cpu_leaves_both_alone(void **context)
{
    char model[256];
    char plain[3][512];
    char tuned[2][512];
    uint32_t used[2];

    (void)context;
    start("auto");
    assert_non_null(strstr(rig.ready, ", on 2 shares of GPU 0,1\n"));
    complete("tiny", plain[0]);
    assert_true(uses(0) > 0 && uses(1) == 0);
    train(model);
    assert_true(uses(1) > 0);
    complete(model, tuned[0]);
    complete("tiny", plain[1]);
    assert_string_equal(plain[1], plain[0]);
    assert_string_not_equal(tuned[0], plain[0]);
    assert_int_equal(rig_stop(&rig), 0);

    used[0] = uses(0);
    used[1] = uses(1);
    start("cpu");
    assert_non_null(strstr(rig.ready, ", on 2 shares of the CPU\n"));
    complete("tiny", plain[2]);
    complete(model, tuned[1]);
    assert_string_equal(plain[2], plain[0]);
    assert_string_equal(tuned[1], tuned[0]);
    train(model);
    assert_int_equal(uses(0), used[0]);
    assert_int_equal(uses(1), used[1]);
}

static void who_may_see_one_gpu_uses_no_other(void **context)
{
    char model[256];
    char text[512];

    (void)context;
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    start("cuda");
    assert_non_null(strstr(rig.ready, ", on 2 shares of GPU 1\n"));
    complete("tiny", text);
    train(model);
    assert_true(uses(1) > 1);
    assert_int_equal(uses(0), 0);
}

static void each_gpu_has_as_many_devices_and_fewer_leave_the_last_alone(void **context)
{
    (void)context;
    start_with_devices("3", ", on 4 shares of GPU 0,1\n");
    start_with_devices("1", ", on 1 share of GPU 0\n");
}

static void a_device_is_a_share_of_the_gpu_of_its_number_modulo_theirs(void **context)
{
    const struct core_gpus gpus = {.count = 3, .names = {"a", "b", "c"}};

    (void)context;
    for (uint32_t device = 0; device < CORE_DEVICES_MAX; device++) {
        json_t *settings = json_object();

        core_gpus_say(&gpus, (uint16_t)(1u << device), settings);
        assert_string_equal(json_string_value(json_object_get(settings, "device")), "cuda");
        assert_string_equal(json_string_value(json_object_get(settings, "gpu")), gpus.names[device % 3]);
        json_decref(settings);
    }
}

static void find(const char *visible, const char *device, const char *expected)
{
    struct core_gpus gpus = {0};
    struct refusal refusal = {{0}};
    char list[GPUS_TEXT_BYTES];
    enum status status;

    if (visible != NULL)
        setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    else
        unsetenv("CUDA_VISIBLE_DEVICES");
    status = control_gpus_find(device, &gpus, &refusal);
    core_gpus_text(&gpus, list);
    assert_string_equal(list, expected);
    assert_int_equal(gpus.bytes, gpus.count > 0 ? (uint64_t)1 << 32 : 0);
    assert_int_equal(status, gpus.count == 0 && strcmp(device, "cuda") == 0 ? STATUS_INVALID : STATUS_OK);
    assert_int_equal(refusal.text[0] != '\0', status != STATUS_OK);
}

static void gpus_are_those_that_run_and_may_be_seen(void **context)
{
    (void)context;
    find(NULL, "auto", "0,1");
    find(NULL, "cuda", "0,1");
    find(NULL, "cpu", "");
    find("1,0", "auto", "1,0");
    find("1", "cuda", "1");
    find("0,9,1", "auto", "0");
    find("", "auto", "");
    find("", "cuda", "");
    setenv("BERTH_CUDA_LIBRARY", "/nowhere", 1); /* only ours; who is asked has an environment of its own */
    find(NULL, "auto", "0,1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gpus_are_those_that_run_and_may_be_seen, begin, end),
        cmocka_unit_test(a_device_is_a_share_of_the_gpu_of_its_number_modulo_theirs),
        cmocka_unit_test_setup_teardown(each_gpu_has_as_many_devices_and_fewer_leave_the_last_alone, begin, end),
        cmocka_unit_test_setup_teardown(server_and_trainer_have_a_gpu_each_and_cpu_leaves_both_alone, begin, end),
        cmocka_unit_test_setup_teardown(who_may_see_one_gpu_uses_no_other, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
