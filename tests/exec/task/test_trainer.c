/* The trainer's worker over its link: what it ends in is, to the byte, what berth-exec train ends in, however it is disturbed. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/lora/peft.h"
#include "exec/processes.h"
#include "rig.h"

#define STEPS 20 /* 5 epochs of 4 */

static const char pairs[] =
    "{\"prompt\": \"One\", \"completion\": \" two\"}\n{\"prompt\": \"Two\", \"completion\": \" three\"}\n"
    "{\"prompt\": \"Three\", \"completion\": \" four and more\"}\n{\"prompt\": \"Four\", \"completion\": \" five\"}\n"
    "{\"prompt\": \"Five\", \"completion\": \" six\"}\n{\"prompt\": \"Six\", \"completion\": \" seven, and no end of it\"}\n"
    "{\"prompt\": \"Seven\", \"completion\": \" eight\"}\n";
static const char held[] = "{\"prompt\": \"One\", \"completion\": \" two too\"}\n{\"prompt\": \"Eight\", \"completion\": \" nine\"}\n";
#define PREFER(prompt, chosen, rejected) "{\"prompt\": \"" prompt "\", \"chosen\": \"" chosen "\", \"rejected\": \"" rejected "\"}\n"
static const char preferences[] = PREFER("One", " two", " three") PREFER("Two", " three", " no") PREFER("Three", " four and more", " one")
    PREFER("Four", " five", " five, or six, or none") PREFER("Five", " six", " two") PREFER("Six", " seven", " eight") PREFER("Seven", " a", " b");

#define HYPERPARAMETERS "\"epochs\": 5, \"batch\": 2, \"rate\": 0.01, \"rank\": 4, \"alpha\": 8, \"seed\": 3, \"schedule\": \"cosine\", \"context\": 64"
#define SAVE_ALWAYS "\"save_every_s\": 0"
#define SAVE_LATE "\"save_every_s\": 600"

static struct scratch scratch;
static struct model_config model_config;

static int make_files(void **state)
{
    (void)state;
    model_config = tiny_config(FAMILY_LLAMA);
    scratch_begin(&scratch);
    tiny_model(scratch_folder(&scratch, "model"), &model_config, 1, DTYPE_F32);
    scratch_text(&scratch, "pairs.jsonl", pairs);
    scratch_text(&scratch, "held.jsonl", held);
    scratch_text(&scratch, "preferences.jsonl", preferences);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    scratch_end(&scratch);
    return 0;
}

/* --- the command -------------------------------------------------------------------------------------------------------------- */

struct learned {
    char digest[DIGEST_TEXT_MAX];
    char *rows;                  /* results.csv */
};

static struct learned by_command(const char *name, const char *method, const char *data, const char *validation)
{
    char paths[4][640];
    const char *arguments[] = {berth_exec(), "train", "--model", paths[0], "--data", paths[1], "--out", paths[2], "--method", method, "--epochs", "5",
                               "--batch-size", "2", "--learning-rate", "0.01", "--rank", "4", "--alpha", "8", "--seed", "3", "--schedule", "cosine",
                               "--context", "64", "--threads", "1", "--device", "cpu", "--quiet", validation != NULL ? "--validation" : NULL, paths[3], NULL};
    struct learned learned;
    struct refusal refusal;
    struct process process;
    struct peft *peft;
    void *rows;
    int64_t bytes;

    snprintf(paths[0], sizeof(paths[0]), "%s", scratch_at(&scratch, "model"));
    snprintf(paths[1], sizeof(paths[1]), "%s", scratch_at(&scratch, data));
    snprintf(paths[2], sizeof(paths[2]), "%s", scratch_at(&scratch, name));
    snprintf(paths[3], sizeof(paths[3]), "%s", scratch_at(&scratch, validation != NULL ? validation : data));
    process = process_begin(arguments);
    assert_int_equal(process_end(&process), 0);
    if (peft_open(paths[2], &model_config, 16, &peft, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    digest_text(peft->digest, learned.digest);
    peft_close(peft);
    snprintf(paths[3], sizeof(paths[3]), "%.600s/results.csv", paths[2]);
    assert_int_equal(file_read(AT_FDCWD, paths[3], paths[3], 1 << 20, &rows, &bytes, &refusal), STATUS_OK);
    learned.rows = strndup(rows, (size_t)bytes);
    free(rows);
    return learned;
}

/* --- the worker --------------------------------------------------------------------------------------------------------------- */

#define ADAPTERS 4

struct job {
    const char *method;
    const char *more;            /* settings */
    const char *device;
    struct object data, validation, parent, resume, result, results, state;
    struct object states[ADAPTERS], adapters[ADAPTERS];
    bool has_validation, has_parent, has_resume;
};

static struct job job_of(const char *method, const char *data, const char *more)
{
    struct job job = {.method = method, .more = more, .device = "cpu", .data = object_of("file-1", "file", data, strlen(data)), .result = object_new("adapter-1"),
                      .results = object_new("results-1"), .state = object_new("state-0")};
    char id[32];

    for (int i = 0; i < ADAPTERS; i++) {
        snprintf(id, sizeof(id), "state-%d", i + 1);
        job.states[i] = object_new(id);
        snprintf(id, sizeof(id), "epoch-%d", i + 1);
        job.adapters[i] = object_new(id);
    }
    return job;
}

static void job_close(const struct job *job)
{
    close(job->data.file);
    close(job->result.file);
    close(job->results.file);
    close(job->state.file);
    for (int i = 0; i < ADAPTERS; i++) {
        close(job->states[i].file);
        close(job->adapters[i].file);
    }
}

static void place(char *text, const char *name, bool is_there, int *at)
{
    if (is_there)
        sprintf(text + strlen(text), ", \"%s\": {\"fd\": %d, \"grant\": %d}", name, *at, *at);
    else
        sprintf(text + strlen(text), ", \"%s\": null", name);
    *at += is_there;
}

static struct control *begin(const struct job *job)
{
    const struct object *all[8];
    char settings[2048];
    int count = 0;

    sprintf(settings, "{\"task\": \"train\", \"method\": \"%s\", \"tenant\": \"" TENANT "\", \"threads\": 3, \"device\": \"%s\", %s, \"hyperparameters\": {" HYPERPARAMETERS "}",
            job->method, job->device, job->more);
    all[count] = &job->data;
    place(settings, "train", true, &count);
    all[count] = &job->validation;
    place(settings, "validation", job->has_validation, &count);
    all[count] = &job->parent;
    place(settings, "parent", job->has_parent, &count);
    all[count] = &job->resume;
    place(settings, "resume", job->has_resume, &count);
    all[count] = &job->result;
    place(settings, "result", true, &count);
    all[count] = &job->results;
    place(settings, "results", true, &count);
    all[count] = &job->state;
    place(settings, "state", true, &count);
    sprintf(settings + strlen(settings), ", \"base\": {\"fd\": %d, \"name\": \"tiny\"}}", count);
    return control_begin(TASK_TRAIN, settings, all, count, scratch_at(&scratch, "model"));
}

/* As many as epochs ask for. */
static void grant_all(struct control *control, const struct job *job)
{
    const struct object *all[2 * ADAPTERS];

    for (int i = 0; i < ADAPTERS; i++) {
        all[2 * i] = &job->states[i];
        all[2 * i + 1] = &job->adapters[i];
    }
    control_more(control, UINT32_MAX, all, 2 * ADAPTERS);
}

static json_t *metrics_of(const struct said *said)
{
    json_t *metrics = said->metrics != NULL ? json_loads(said->metrics, 0, NULL) : NULL;

    assert_non_null(metrics);
    return metrics;
}

static const char *word(const json_t *metrics, const char *name)
{
    return json_string_value(json_object_get(metrics, name));
}

static void fail_with(const struct said *said, const struct object *first)
{
    char text[REFUSAL_MAX] = "?";

    (void)fault_open(first->key, TENANT, first->id, said->sealed, said->sealed_count, text);
    fail_msg("FAILED %u: %s", said->body.failed.code, text);
}

/* The digest of a sealed adapter's content, from its bytes. */
static void content_digest(const struct object *object, char ret_digest[DIGEST_TEXT_MAX])
{
    struct refusal refusal;
    struct peft *peft;
    size_t count;
    char *bytes = object_text(object, "adapter", &count);

    if (peft_open_bytes(bytes, (int64_t)count, object->id, &model_config, 16, &peft, &refusal) != STATUS_OK)
        fail_msg("%s", refusal.text);
    digest_text(peft->digest, ret_digest);
    peft_close(peft);
    free(bytes);
}

/* Its RESULT, and that it ends well; adapters of epochs that it told. */
static int finish(struct control *control, const struct job *job, const struct learned *wanted)
{
    const struct said *result = control_await(control, WIRE_RESULT);
    char digest[DIGEST_TEXT_MAX];
    uint8_t sealed[32];
    size_t count;
    char *rows;
    json_t *metrics;
    int adapters = 0;

    for (int i = 0; i < control->count; i++)
        if (control->said[i].kind == WIRE_FAILED)
            fail_with(&control->said[i], &job->data);
    if (result == NULL)
        fail_msg("no RESULT");
    metrics = metrics_of(result);
    object_digest(&job->result, sealed);
    assert_memory_equal(result->body.result.digest, sealed, 32);
    assert_int_equal(result->body.result.bytes, object_size(&job->result));
    content_digest(&job->result, digest);
    assert_string_equal(word(metrics, "adapter_digest"), digest);
    if (wanted != NULL)
        assert_string_equal(digest, wanted->digest);
    rows = object_text(&job->results, "file", &count);
    if (wanted != NULL)
        assert_string_equal(rows, wanted->rows);
    free(rows);
    assert_int_equal(json_integer_value(json_object_get(metrics, "rank")), 4);
    assert_string_equal(word(json_object_get(metrics, "results"), "object"), "results-1");
    json_decref(metrics);
    for (int i = 0; i < control->count; i++) {
        if (control->said[i].kind != WIRE_CHECKPOINT)
            continue;
        metrics = metrics_of(&control->said[i]);
        if (strcmp(word(metrics, "role"), "adapter") == 0) {
            for (int at = 0; at < ADAPTERS; at++) {
                if (strcmp(job->adapters[at].id, word(metrics, "object")) != 0)
                    continue;
                content_digest(&job->adapters[at], digest);
                assert_string_equal(word(metrics, "adapter_digest"), digest);
                adapters++;
            }
        }
        json_decref(metrics);
    }
    assert_int_equal(control_wait(control), 0);
    control_end(control);
    return adapters;
}

static void a_trainer_ends_in_what_the_command_ends_in(void **state)
{
    struct learned wanted = by_command("plain", "supervised", "pairs.jsonl", "held.jsonl");
    struct job job = job_of("supervised", pairs, SAVE_LATE);
    struct control *control;

    (void)state;
    job.validation = object_of("file-2", "file", held, strlen(held));
    job.has_validation = true;
    control = begin(&job);
    grant_all(control, &job);
    assert_non_null(control_await(control, WIRE_PROGRESS));
    assert_true(finish(control, &job, &wanted) >= 3); /* fewer than 4 when it stops early */
    close(job.validation.file);
    free(wanted.rows);
    job_close(&job);
}

static void the_program_itself_does_the_same(void **state)
{
    struct learned wanted = by_command("program", "supervised", "pairs.jsonl", NULL);
    struct job job = job_of("supervised", pairs, SAVE_LATE);
    struct control *control;

    (void)state;
    control_program = berth_exec();
    control = begin(&job);
    grant_all(control, &job);
    assert_int_equal(finish(control, &job, &wanted), 4);
    control_program = NULL;
    free(wanted.rows);
    job_close(&job);
}

/* A kill at each state: what was said of it is there. */
static void killed_after_a_state_it_goes_on_to_the_same_bytes(void **state)
{
    struct learned wanted = by_command("killed", "supervised", "pairs.jsonl", NULL);

    (void)state;
    for (int after = 1; after <= ADAPTERS; after++) {
        struct job job = job_of("supervised", pairs, SAVE_ALWAYS);
        struct job next = job_of("supervised", pairs, SAVE_LATE);
        struct control *control = begin(&job);
        const struct said *said = NULL;
        json_t *metrics = NULL;
        int states = 0;

        grant_all(control, &job);
        while (states < after && (said = control_await(control, WIRE_CHECKPOINT)) != NULL) {
            json_decref(metrics);
            metrics = metrics_of(said);
            states += strcmp(word(metrics, "role"), "state") == 0;
        }
        assert_int_equal(states, after);
        control_kill(control);
        next.resume = strcmp(word(metrics, "object"), "state-0") == 0 ? job.state : job.states[atoi(word(metrics, "object") + 6) - 1];
        next.has_resume = true;
        control_end(control);
        control = begin(&next);
        grant_all(control, &next);
        finish(control, &next, &wanted);
        json_decref(metrics);
        job_close(&next);
        job_close(&job);
    }
    free(wanted.rows);
}

static bool is_filtered(pid_t child)
{
    char path[64];
    char line[256];
    bool filtered = false;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)child);
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        filtered |= strcmp(line, "Seccomp:\t2\n") == 0;
    fclose(file);
    return filtered;
}

/* The state that a worker says at its end, when it is to yield, or on its own. */
static void yield_and_go_on(const char *method, const char *data, const struct learned *wanted, bool is_asked)
{
    struct job job = job_of(method, data, SAVE_LATE);
    struct job next = job_of(method, data, SAVE_LATE);
    const struct object *const more[] = {&job.states[0]};
    struct control *control = begin(&job);
    const struct said *said;
    json_t *metrics;

    /* It waits for a place for the first epoch's adapter. */
    while ((said = control_await(control, WIRE_PROGRESS)) != NULL && said->body.progress.step < 4)
        continue;
    assert_non_null(said);
    assert_true(is_filtered(control->child));
    control_restart(control);
    assert_non_null(control_await(control, WIRE_INVENTORY));
    assert_int_equal(control->inventory_step, 4);
    if (is_asked)
        control_more(control, 1000, more, 1);
    said = control_await(control, WIRE_CHECKPOINT);
    assert_non_null(said);
    metrics = metrics_of(said);
    assert_string_equal(word(metrics, "object"), "state-0");
    assert_int_equal(said->body.checkpoint.step, 4);
    assert_int_equal(control_wait(control), 0);
    for (int i = 0; i < control->count; i++)
        assert_true(control->said[i].kind != WIRE_RESULT && control->said[i].kind != WIRE_FAILED);
    control_end(control);
    json_decref(metrics);
    next.resume = job.state;
    next.has_resume = true;
    control = begin(&next);
    grant_all(control, &next);
    assert_int_equal(finish(control, &next, wanted), 4); /* the one that waited too */
    job_close(&next);
    job_close(&job);
}

static void asked_to_yield_it_leaves_a_state_and_ends(void **state)
{
    struct learned wanted = by_command("yielded", "supervised", "pairs.jsonl", NULL);

    (void)state;
    yield_and_go_on("supervised", pairs, &wanted, true);
    free(wanted.rows);
}

static void without_a_control_plane_it_leaves_a_state_and_ends(void **state)
{
    struct learned wanted = by_command("lost", "supervised", "pairs.jsonl", NULL);

    (void)state;
    control_lease_ms = 1000; /* a third later it gives up, by the rig */
    yield_and_go_on("supervised", pairs, &wanted, false);
    control_lease_ms = 60000;
    free(wanted.rows);
}

static void preferences_are_learned_as_by_the_command(void **state)
{
    struct learned wanted = by_command("preferred", "dpo", "preferences.jsonl", NULL);

    (void)state;
    yield_and_go_on("dpo", preferences, &wanted, true);
    free(wanted.rows);
}

static void an_adapter_goes_on_being_taught(void **state)
{
    struct job first = job_of("supervised", pairs, SAVE_LATE);
    struct job second = job_of("supervised", held, SAVE_LATE);
    struct control *control = begin(&first);
    char digests[2][DIGEST_TEXT_MAX];

    (void)state;
    grant_all(control, &first);
    finish(control, &first, NULL);
    second.parent = first.result;
    second.has_parent = true;
    control = begin(&second);
    grant_all(control, &second);
    finish(control, &second, NULL);
    content_digest(&first.result, digests[0]);
    content_digest(&second.result, digests[1]);
    assert_string_not_equal(digests[0], digests[1]);
    job_close(&second);
    job_close(&first);
}

/* --- what does not go --------------------------------------------------------------------------------------------------------- */

static void fails(const struct job *job, enum fault fault, const char *words)
{
    struct control *control = begin(job);
    const struct said *failed = control_await(control, WIRE_FAILED);
    char text[REFUSAL_MAX];

    if (failed == NULL)
        fail_msg("no FAILED, but '%s' was to be said", words);
    assert_int_equal(fault_open(job->data.key, TENANT, job->data.id, failed->sealed, failed->sealed_count, text), STATUS_OK);
    if (failed->body.failed.code != fault || strstr(text, words) == NULL)
        fail_msg("%u '%s' is not %u '%s'", failed->body.failed.code, text, fault, words);
    assert_int_equal(control_wait(control), 1);
    control_end(control);
}

static void what_does_not_go_is_a_fault_with_words(void **state)
{
    struct job job = job_of("supervised", "{\"prompt\": \"One\"}\n", SAVE_LATE);

    (void)state;
    fails(&job, FAULT_TRAINING_FILE, "training file:1");
    job_close(&job);
    job = job_of("reinforcement", pairs, SAVE_LATE);
    fails(&job, FAULT_SETTINGS, "method");
    job_close(&job);
    job = job_of("supervised", pairs, SAVE_LATE);
    job.has_resume = true;
    job.resume = object_of("state-9", "state", pairs, strlen(pairs));
    fails(&job, FAULT_STATE, "not whole");
    close(job.resume.file);
    job.resume = object_of("state-9", "adapter", pairs, strlen(pairs));
    fails(&job, FAULT_OBJECT, "does not open");
    close(job.resume.file);
    job.has_resume = false;
    job.has_parent = true;
    job.parent = object_of("adapter-9", "adapter", pairs, strlen(pairs));
    fails(&job, FAULT_PARENT, "");
    close(job.parent.file);
    job_close(&job);
    setenv("BERTH_CUDA_LIBRARY", "/nowhere", 1);
    job = job_of("supervised", pairs, SAVE_LATE ", \"gpu\": \"1\"");
    job.device = "cuda"; /* and not the CPU in silence */
    fails(&job, FAULT_DEVICE, "cannot be used");
    job_close(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trainer_ends_in_what_the_command_ends_in),
        cmocka_unit_test(the_program_itself_does_the_same),
        cmocka_unit_test(killed_after_a_state_it_goes_on_to_the_same_bytes),
        cmocka_unit_test(asked_to_yield_it_leaves_a_state_and_ends),
        cmocka_unit_test(without_a_control_plane_it_leaves_a_state_and_ends),
        cmocka_unit_test(preferences_are_learned_as_by_the_command),
        cmocka_unit_test(an_adapter_goes_on_being_taught),
        cmocka_unit_test(what_does_not_go_is_a_fault_with_words),
    };

    return cmocka_run_group_tests(tests, make_files, remove_files);
}
