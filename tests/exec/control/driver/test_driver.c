/* The lives of files and jobs: each state that they may be in, each thing that may happen to them there. */
#include "rig.h"

#include "engine/train/schedule.h"
#include "link/fault.h"

static void file_becomes_processed(void **state)
{
    struct rig rig;
    struct played *validator;
    struct meta_file file;

    (void)state;
    rig_begin(&rig);
    rig_add_file(&rig, "{\"messages\":[]}\n", rig.file);
    validator = rig_worker(0);
    assert_int_equal(validator->launch.kind, CORE_VALIDATOR);
    assert_string_equal(json_string_value(json_object_get(validator->settings, "method")), "auto");
    assert_true(json_is_null(json_object_get(validator->settings, "base")));
    assert_int_equal(json_integer_value(json_object_get(validator->settings, "examples_min")), 1);
    played_runs(validator);
    played_hello(validator);
    played_report(&rig, validator, true, "{\"issues\":[]}");
    file = rig_file(&rig, rig.file);
    assert_string_equal(file.state, "processed");
    assert_int_equal(file.lines, 12);
    assert_non_null(file.report);
    played_exits(validator, 0);
    assert_int_equal(rig_objects(&rig, "writing"), 0);
    rig_end(&rig);
}

static void few_validators_run_at_once(void **state)
{
    char files[8][NAME_BYTES];
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    for (int i = 0; i < 8; i++)
        rig_add_file(&rig, "{}\n", files[i]);
    (void)rig_worker(3);
    rig_wait_a_moment();
    assert_int_equal(rig_workers(), 4);
    played_report(&rig, rig_worker(0), true, "{}");
    played_exits(rig_worker(0), 0);
    (void)rig_worker(4);
    rig_wait_a_moment();
    assert_int_equal(rig_workers(), 5);
    rig_end(&rig);
}

static void file_that_crashes_validators_is_in_error(void **state)
{
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_add_file(&rig, "{}\n", rig.file);
    for (uint32_t i = 0; i < 3; i++) {
        played_runs(rig_worker(i));
        played_exits(rig_worker(i), 11);
    }
    rig_wait_file(&rig, rig.file, "error");
    assert_int_equal(rig_workers(), 3);
    assert_int_equal(rig_objects(&rig, "writing"), 0);
    rig_end(&rig);
}

static void job_succeeds(void **state)
{
    const struct model_config base = tiny_config(FAMILY_LLAMA);
    struct fleet_event event;
    struct meta_model models[8];
    struct job_settings settings;
    struct refusal refusal = {{0}};
    struct played *trainer;
    struct meta_job job;
    char file[NAME_BYTES];
    double rate = 0;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 41);
    assert_int_equal(trainer->launch.kind, CORE_TRAINER);
    assert_int_equal(trainer->launch.attempt, 1);
    event = rig_told(FLEET_EVENT_JOB_STARTED);
    assert_int_equal(event.answers, 41);
    job = rig_job(&rig);
    assert_true(job.size_ns > 0 && job.gpu_bytes > 0);
    assert_non_null(strstr(job.settings, "\"epochs\":5"));
    assert_non_null(strstr(job.settings, "\"alpha\":32.0"));
    assert_int_equal(job_settings_read(job.settings, &settings, &refusal), STATUS_OK);
    assert_true(rate_fitted(base.family, base.dims.hidden, &rate)); /* what a trainer takes that isn't told a rate */
    assert_true(settings.rate == rate && settings.rate_multiplier == 1);
    played_progress(trainer, 1, 10);
    played_state(&rig, trainer, 5);
    event = rig_told(FLEET_EVENT_JOB_CHECKPOINTED);
    assert_true(event.job_progress.done_ns >= job.size_ns / 2 - 1 && event.job_progress.done_ns <= job.size_ns / 2 + 1);
    played_result(&rig, trainer, 10);
    rig_wait_job(&rig, "succeeded");
    event = rig_told(FLEET_EVENT_JOB_ENDED);
    assert_int_equal(event.reason, JOB_SUCCEEDED);
    played_exits(trainer, 0);
    job = rig_job(&rig);
    assert_int_equal(job.trained_tokens, 5000);
    assert_true(job.gpu_ms > 0);
    assert_int_equal(rig_models(&rig, models), 1);
    assert_string_equal(models[0].verdict, "deployable");
    assert_int_equal(models[0].rank, 8);
    assert_int_equal(strncmp(models[0].name, "ft:tiny:acme:mine:", 18), 0);
    driver_results_file(rig.job, file);
    assert_string_equal(rig_file(&rig, file).state, "processed");
    assert_string_equal(rig_file(&rig, file).purpose, "fine-tune-results");
    assert_true(rig_has_event(&rig, "validated", NULL) && rig_has_event(&rig, "metrics", NULL) && rig_has_event(&rig, "succeeded", NULL));
    assert_int_equal(rig_objects(&rig, "writing"), 0);
    rig_end(&rig);
}

/* A million units an hour of 3,600 s: what it says of seconds, it says of price in nano of a millionth. */
static void a_dry_run_ends_with_what_it_would_take(void **state)
{
    struct meta_model models[8];
    struct meta_job job;
    struct rig rig;
    json_t *settings;
    json_t *estimate;
    double seconds;

    (void)state;
    rig_begin(&rig);
    rig.dry_run = true;
    rig_check(&rig, "succeeded");
    job = rig_job(&rig);
    settings = json_loads(job.settings, 0, NULL);
    estimate = json_object_get(settings, "estimate");
    assert_int_equal(json_integer_value(json_object_get(estimate, "tokens")), 5000);
    assert_int_equal(json_integer_value(json_object_get(estimate, "steps")), 60);
    seconds = json_real_value(json_object_get(estimate, "seconds"));
    assert_true(seconds * 1e9 <= (double)job.size_ns && (seconds + 0.001) * 1e9 > (double)job.size_ns);
    assert_int_equal(strtoll(json_string_value(json_object_get(estimate, "price_nano")), NULL, 10), job.size_ns * 1000);
    json_decref(settings);
    assert_true(job.finished_at_ms != META_NONE && job.attempt == 0 && job.gpu_ms == 0);
    assert_true(rig_has_event(&rig, "dry_run", NULL) && !rig_has_event(&rig, "validated", NULL));
    assert_int_equal(rig_models(&rig, models), 0);
    rig_wait_a_moment();
    assert_true(rig_told_none(FLEET_EVENT_JOB));
    assert_int_equal(rig_workers(), 2);
    rig_end(&rig);
}

static void epochs_leave_models_and_the_last_three_stay(void **state)
{
    struct meta_model models[8];
    struct played *trainer;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    for (uint32_t epoch = 1; epoch <= 40; epoch++) { /* and no state meanwhile: there is room for the next adapter all the same */
        rig_wait_asked(trainer, epoch);
        played_adapter(&rig, trainer, 10 * epoch);
    }
    assert_int_equal(rig_models(&rig, models), 3);
    assert_int_equal(models[0].step, 400);
    assert_int_equal(models[2].step, 380);
    assert_string_equal(models[0].verdict, "deployable");
    rig_end(&rig);
}

static void gate_keeps_a_model_from_answering(void **state)
{
    struct meta_model models[8];
    struct rig rig;
    struct played *trainer;

    (void)state;
    rig_begin(&rig);
    rig_stop(&rig);
    rig.gate = true;
    rig_start(&rig);
    trainer = rig_run(&rig, 1);
    played_result(&rig, trainer, 10);
    rig_wait_job(&rig, "succeeded");
    assert_int_equal(rig_models(&rig, models), 1);
    assert_string_equal(models[0].verdict, "pending_eval");
    rig_end(&rig);
}

static void bad_files_fail_a_job_in_sealed_words(void **state)
{
    static const char report[] = "{\"issues\":[{\"severity\":\"warning\",\"message\":\"no\"},"
                                 "{\"severity\":\"error\",\"line\":3,\"message\":\"zanzibar is no role\",\"hint\":\"Name one.\"}]}";
    char words[1024] = "";
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_add_file(&rig, "{}\n", rig.file);
    played_report(&rig, rig_worker(0), true, "{}");
    played_exits(rig_worker(0), 0);
    rig_add_job(&rig, rig.file);
    played_report(&rig, rig_worker(1), false, report);
    rig_wait_job(&rig, "failed");
    assert_string_equal(rig_job(&rig).reason, "invalid_training_file");
    assert_true(rig_has_event(&rig, "invalid_training_file", words));
    assert_string_equal(words, "line 3: zanzibar is no role Name one.");
    played_exits(rig_worker(1), 0);
    assert_true(rig_told_none(FLEET_EVENT_JOB));
    rig_end(&rig);
}

static void file_in_error_fails_its_job(void **state)
{
    char words[1024] = "";
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_add_file(&rig, "{}\n", rig.file);
    rig_add_job(&rig, rig.file);
    played_report(&rig, rig_worker(0), false, "{\"issues\":[{\"severity\":\"error\",\"line\":0,\"message\":\"empty\",\"hint\":\"Write.\"}]}");
    rig_wait_file(&rig, rig.file, "error");
    rig_wait_job(&rig, "failed");
    assert_true(rig_has_event(&rig, "invalid_training_file", words));
    assert_string_equal(words, "empty Write.");
    rig_end(&rig);
}

static void crash_goes_on_from_the_newest_state(void **state)
{
    struct played *trainer;
    struct fleet_event event;
    job_id id;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    id = rig_told(FLEET_EVENT_JOB_STARTED).job_progress.job;
    played_progress(trainer, 1, 10);
    played_state(&rig, trainer, 4);
    played_state(&rig, trainer, 6);
    assert_int_equal(rig_objects(&rig, "doomed"), 1);
    played_exits(trainer, 11);
    rig_wait_job(&rig, "queued");
    event = rig_told(FLEET_EVENT_JOB_ENDED);
    assert_int_equal(event.reason, JOB_LOST);
    assert_int_equal(rig_job(&rig).crashes, 1);
    assert_int_equal(rig_job(&rig).crash_step, 6);
    rig_place(2, id);
    trainer = rig_worker(3);
    assert_int_equal(trainer->launch.attempt, 2);
    assert_true(json_is_object(json_object_get(trainer->settings, "resume")));
    assert_int_equal(rig_objects(&rig, "writing"), 3);
    rig_end(&rig);
}

static void two_crashes_at_one_step_fail_a_job(void **state)
{
    struct played *trainer;
    struct fleet_event event;
    job_id id;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    id = rig_told(FLEET_EVENT_JOB_STARTED).job_progress.job;
    played_progress(trainer, 3, 10);
    played_exits(trainer, 11);
    rig_wait_job(&rig, "queued");
    (void)rig_told(FLEET_EVENT_JOB_ENDED);
    rig_place(2, id);
    trainer = rig_worker(3);
    played_runs(trainer);
    played_hello(trainer);
    played_progress(trainer, 3, 10);
    played_exits(trainer, 11);
    rig_wait_job(&rig, "failed");
    assert_string_equal(rig_job(&rig).reason, "crashed");
    event = rig_told(FLEET_EVENT_JOB_ENDED);
    assert_int_equal(event.reason, JOB_FAILED);
    assert_int_equal(rig_objects(&rig, "writing"), 0);
    rig_end(&rig);
}

static void say_failed(struct rig *rig, struct played *played, enum fault fault, const char *text)
{
    struct wire_failed failed = {.step = 3, .code = (uint32_t)fault};
    uint8_t sealed[FAULT_SEALED_MAX];

    failed.sealed_count = (uint32_t)fault_seal(played->grants + 64, rig->acme, (const char *)played->grants, text, sealed);
    failed.sealed = sealed;
    played_say(played, WIRE_FAILED, &failed);
    rig_wait_committed(played);
}

static void fault_that_stays_fails_a_job_at_once(void **state)
{
    struct played *trainer;
    char words[1024] = "";
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    say_failed(&rig, trainer, FAULT_NUMBERS, "the loss of quagga is not finite");
    played_exits(trainer, 1);
    rig_wait_job(&rig, "failed");
    assert_string_equal(rig_job(&rig).reason, "not_finite");
    assert_true(rig_has_event(&rig, "not_finite", words));
    assert_string_equal(words, "the loss of quagga is not finite");
    assert_int_equal(rig_told(FLEET_EVENT_JOB_ENDED).reason, JOB_FAILED);
    rig_end(&rig);
}

static void fault_that_may_pass_is_a_crash(void **state)
{
    struct played *trainer;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    say_failed(&rig, trainer, FAULT_MEMORY, "no room");
    played_exits(trainer, 1);
    rig_wait_job(&rig, "queued");
    assert_int_equal(rig_job(&rig).crash_step, 3);
    rig_end(&rig);
}

static void base_that_no_validator_can_use_fails_a_job(void **state)
{
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_add_file(&rig, "{}\n", rig.file);
    played_report(&rig, rig_worker(0), true, "{}");
    played_exits(rig_worker(0), 0);
    rig_add_job(&rig, rig.file);
    say_failed(&rig, rig_worker(1), FAULT_BASE, "its tokenizer is not there");
    played_exits(rig_worker(1), 1);
    rig_wait_job(&rig, "failed");
    assert_string_equal(rig_job(&rig).reason, "base_unusable");
    rig_end(&rig);
}

/* As the API does it. */
static void ask(struct rig *rig, enum meta_job_state from, enum meta_job_state to, enum meta_job_state target)
{
    const struct meta_job_move move = {.tenant = rig->acme, .id = rig->job, .from = from, .attempt = rig_job(rig).attempt, .to = to, .target = target,
                                       .crash_step = META_NONE};
    struct refusal refusal;

    assert_int_equal(meta_job_move(rig->metadata, &move, 1, NULL, &refusal), STATUS_OK);
    driver_job_changed(rig->driver, rig->acme, rig->job);
}

static void queued_job_is_cancelled(void **state)
{
    struct fleet_event event;
    job_id id;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    id = rig_queue(&rig);
    ask(&rig, META_JOB_QUEUED, META_JOB_CANCELLED, META_JOB_NO_TARGET);
    event = rig_told(FLEET_EVENT_JOB_CANCEL);
    assert_int_equal(event.job_progress.job.value, id.value);
    rig_place(9, id); /* the core had placed it a moment before */
    event = rig_told(FLEET_EVENT_JOB_ENDED);
    assert_int_equal(event.answers, 9);
    assert_int_equal(event.reason, JOB_FAILED);
    rig_stop_job(10, id, 0);
    rig_wait_a_moment();
    assert_int_equal(rig_workers(), 2);
    rig_end(&rig);
}

static void running_job_is_cancelled(void **state)
{
    struct played *trainer;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    ask(&rig, META_JOB_RUNNING, META_JOB_STOPPING, META_JOB_CANCELLED);
    rig_wait_ended(trainer);
    assert_true(trainer->ended_at_once);
    assert_string_equal(rig_job(&rig).state, "stopping");
    played_exits(trainer, 137);
    rig_wait_job(&rig, "cancelled");
    assert_int_equal(rig_told(FLEET_EVENT_JOB_ENDED).reason, JOB_FAILED);
    assert_true(rig_job(&rig).gpu_ms > 0);
    assert_int_equal(rig_objects(&rig, "writing"), 0);
    rig_end(&rig);
}

static void paused_job_saves_and_resumes(void **state)
{
    struct played *trainer;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    rig_wait_asked(trainer, 1);
    ask(&rig, META_JOB_RUNNING, META_JOB_STOPPING, META_JOB_PAUSED);
    rig_wait_asked(trainer, 2);
    assert_int_equal(trainer->deadline_ms, 60000);
    played_state(&rig, trainer, 3);
    played_exits(trainer, 0);
    rig_wait_job(&rig, "paused");
    (void)rig_told(FLEET_EVENT_JOB_ENDED);
    ask(&rig, META_JOB_PAUSED, META_JOB_QUEUED, META_JOB_NO_TARGET);
    rig_place(2, rig_told(FLEET_EVENT_JOB).job.job);
    assert_true(json_is_object(json_object_get(rig_worker(3)->settings, "resume")));
    rig_end(&rig);
}

static void notice_makes_a_job_yield(void **state)
{
    struct played *trainer;
    struct fleet_event event;
    job_id id;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    id = rig_told(FLEET_EVENT_JOB_STARTED).job_progress.job;
    rig_wait_asked(trainer, 1);
    rig_stop_job(77, id, 2 * NS_PER_S);
    rig_wait_asked(trainer, 2);
    assert_int_equal(trainer->deadline_ms, 2000);
    rig_wait_job(&rig, "stopping");
    played_state(&rig, trainer, 3);
    played_exits(trainer, 0);
    rig_wait_job(&rig, "queued");
    event = rig_told(FLEET_EVENT_JOB_YIELDED);
    assert_int_equal(event.answers, 77);
    assert_int_equal(rig_job(&rig).crashes, 0);
    rig_place(78, id);
    assert_int_equal(rig_worker(3)->launch.attempt, 2);
    rig_end(&rig);
}

static void result_that_came_first_counts(void **state)
{
    struct played *trainer;
    struct fleet_event event;
    struct rig rig;
    job_id id;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    id = rig_told(FLEET_EVENT_JOB_STARTED).job_progress.job;
    rig_stop_job(77, id, NS_PER_S);
    rig_wait_job(&rig, "stopping");
    played_result(&rig, trainer, 10);
    rig_wait_job(&rig, "succeeded");
    event = rig_told(FLEET_EVENT_JOB_ENDED);
    assert_int_equal(event.answers, 77);
    assert_int_equal(event.reason, JOB_SUCCEEDED);
    rig_end(&rig);
}

static void result_that_is_refused_for_good_fails_a_job(void **state)
{
    struct played *trainer;
    struct refusal refusal;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    assert_int_equal(meta_base_move(rig.metadata, rig.bases[0].name, "serving", "retired", META_NONE, &refusal), STATUS_OK);
    played_result(&rig, trainer, 10);
    assert_string_equal(rig_job(&rig).state, "running");
    played_exits(trainer, 0);
    rig_wait_job(&rig, "failed");
    assert_string_equal(rig_job(&rig).reason, "result_refused");
    assert_int_equal(rig_objects(&rig, "writing"), 0);
    rig_end(&rig);
}

static void move_tenant(struct rig *rig, const char *from, const char *to)
{
    struct refusal refusal;

    assert_int_equal(meta_tenant_move(rig->metadata, rig->acme, from, to, &refusal), STATUS_OK);
    driver_tenant_changed(rig->driver, rig->acme);
}

/* What it was training is kept whole, as if nothing had happened: adapter, model, table. */
static void suspended_tenant_keeps_what_was_running(void **state)
{
    struct meta_model models[8];
    struct played *trainer;
    struct rig rig;
    char file[NAME_BYTES];

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    move_tenant(&rig, "active", "suspended");
    played_adapter(&rig, trainer, 5);
    played_result(&rig, trainer, 10);
    rig_wait_job(&rig, "succeeded");
    assert_int_equal(rig_models(&rig, models), 2);
    driver_results_file(rig.job, file);
    assert_string_equal(rig_file(&rig, file).state, "processed");
    played_exits(trainer, 0);
    rig_end(&rig);
}

/* Its jobs wait, and take no quota from others; nothing is refused for ever. */
static void suspended_tenant_waits(void **state)
{
    struct fleet_event event;
    struct played *validator;
    struct refusal refusal;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    (void)rig_told(FLEET_EVENT_TENANT);
    assert_int_equal(meta_tenant_set(rig.metadata, rig.acme, "nominal_milli", "2000", &refusal), STATUS_OK);
    driver_tenant_changed(rig.driver, rig.acme);
    assert_int_equal(rig_told(FLEET_EVENT_TENANT).tenant.nominal_milli, 2000);
    rig_add_file(&rig, "{\"messages\":[]}\n", rig.file);
    validator = rig_worker(0);
    played_runs(validator);
    played_hello(validator);
    played_report(&rig, validator, true, "{\"issues\":[]}");
    played_exits(validator, 0);
    rig_add_job(&rig, rig.file);
    validator = rig_worker(1);
    move_tenant(&rig, "active", "suspended");
    event = rig_told(FLEET_EVENT_TENANT);
    assert_int_equal(event.tenant.nominal_milli, 0);
    assert_int_equal(event.tenant.borrowing_milli, 0);
    played_runs(validator);
    played_hello(validator);
    played_report(&rig, validator, true, "{\"issues\":[]}");
    rig_wait_job(&rig, "queued");
    played_exits(validator, 0);
    rig_wait_a_moment();
    assert_true(rig_told_none(FLEET_EVENT_JOB));
    move_tenant(&rig, "suspended", "active");
    event = rig_told(FLEET_EVENT_TENANT);
    assert_int_equal(event.tenant.nominal_milli, 2000);
    assert_true(event.tenant.borrowing_milli == QUOTA_UNLIMITED);
    (void)rig_told(FLEET_EVENT_JOB);
    rig_end(&rig);
}

static void restart_finds_what_was_queued(void **state)
{
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    (void)rig_queue(&rig);
    rig_restart(&rig);
    (void)rig_told(FLEET_EVENT_TENANT);
    rig_place(5, rig_told(FLEET_EVENT_JOB).job.job);
    assert_int_equal(rig_worker(2)->launch.attempt, 1);
    rig_end(&rig);
}

static void restart_loses_a_worker_that_is_gone(void **state)
{
    struct played *trainer;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    rig_wait_asked(trainer, 1);
    trainer->forgotten = true; /* the keeper has it no more */
    rig_restart(&rig);
    rig_wait_job(&rig, "queued");
    assert_int_equal(rig_job(&rig).crashes, 0);
    assert_int_equal(rig_objects(&rig, "writing"), 0);
    rig_place(5, rig_told(FLEET_EVENT_JOB).job.job);
    assert_int_equal(rig_worker(3)->launch.attempt, 2);
    rig_end(&rig);
}

/* Twice: the same trainer, where it stood, as the same attempt. It is given what to save next, since that may have been lost; what was
 * trained before is counted once. */
static void restart_goes_on_with_a_living_trainer(void **state)
{
    struct played *trainer;
    struct fleet_event event;
    struct rig rig;
    job_id id;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    rig_wait_asked(trainer, 1);
    for (uint32_t life = 0; life < 2; life++) {
        const uint32_t asked = trainer->asked;

        played_progress(trainer, 4 * life + 3, 10);
        played_state(&rig, trainer, 4 * life + 3);
        rig_restart(&rig);
        id = rig_told(FLEET_EVENT_JOB).job.job;
        event = rig_told(FLEET_EVENT_JOB_KEPT);
        assert_int_equal(event.job_kept.job.value, id.value);
        assert_int_equal(event.job_kept.attempt, 1);
        event = rig_told(FLEET_EVENT_JOB_FOUND);
        assert_int_equal(event.job_found.job.value, id.value);
        assert_int_equal(event.job_found.gpu_mask, 1);
        assert_int_equal(event.job_found.state, JOB_RUNNING);
        assert_true(event.job_found.started_at_ns > 0);
        rig_wait_asked(trainer, asked + 1);
        assert_int_equal(trainer->deadline_ms, UINT32_MAX);
        assert_string_equal(rig_job(&rig).state, "running");
        assert_int_equal(rig_job(&rig).attempt, 1);
    }
    played_state(&rig, trainer, 9);
    assert_int_equal(rig_told(FLEET_EVENT_JOB_CHECKPOINTED).job_progress.job.value, id.value);
    played_result(&rig, trainer, 10);
    rig_wait_job(&rig, "succeeded");
    assert_int_equal(rig_told(FLEET_EVENT_JOB_ENDED).reason, JOB_SUCCEEDED);
    assert_int_equal(rig_job(&rig).trained_tokens, 5000);
    assert_false(trainer->ended);
    played_exits(trainer, 0);
    assert_int_equal(rig_objects(&rig, "writing"), 0);
    assert_int_equal(rig_workers(), 3);
    rig_end(&rig);
}

static void trainer_that_was_found_and_dies_is_lost_to_the_core(void **state)
{
    struct played *trainer;
    struct fleet_event event;
    struct rig rig;
    job_id id;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    rig_restart(&rig);
    id = rig_told(FLEET_EVENT_JOB_FOUND).job_found.job;
    played_exits(trainer, 11);
    event = rig_told(FLEET_EVENT_JOB_ENDED);
    assert_int_equal(event.job_progress.job.value, id.value);
    assert_int_equal(event.reason, JOB_LOST);
    rig_place(5, id);
    assert_int_equal(rig_worker(3)->launch.attempt, 2);
    rig_end(&rig);
}

static void trainer_that_was_found_without_room_yields(void **state)
{
    struct played *trainer;
    struct fleet_event event;
    struct rig rig;
    job_id id;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    rig_wait_asked(trainer, 1);
    rig_restart(&rig);
    id = rig_told(FLEET_EVENT_JOB_FOUND).job_found.job;
    rig_wait_asked(trainer, 2);
    rig_stop_job(7, id, NS_PER_S);
    rig_wait_asked(trainer, 3);
    assert_int_equal(trainer->deadline_ms, 1000);
    played_state(&rig, trainer, 3);
    played_exits(trainer, 0);
    event = rig_told(FLEET_EVENT_JOB_YIELDED);
    assert_int_equal(event.answers, 7);
    rig_wait_job(&rig, "queued");
    rig_end(&rig);
}

/* However often control planes are killed, what a trainer is lent has a bound. */
static void restarts_lend_no_more_than_there_is_room_for(void **state)
{
    struct played *trainer;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    rig_wait_asked(trainer, 1);
    for (uint32_t life = 0; life < 6; life++)
        rig_restart(&rig);
    assert_int_equal(rig_objects(&rig, "writing"), 16);
    assert_false(trainer->ended);
    rig_restart(&rig);
    rig_wait_ended(trainer);
    played_exits(trainer, 137);
    rig_wait_job(&rig, "queued");
    assert_int_equal(rig_objects(&rig, "writing"), 0);
    assert_int_equal(rig_job(&rig).crashes, 0);
    rig_end(&rig);
}

/* What a control plane that was killed had lent may never have come: the trainer has one to spare that surely came, and after it has taken
 * that, the others are taken back. None has the name of one that was written before. */
static void what_a_lost_control_plane_lent_is_not_counted_on(void **state)
{
    struct played *trainer;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    rig_wait_asked(trainer, 1);
    played_adapter(&rig, trainer, 2); /* the last that it was lent, until the next */
    rig_wait_asked(trainer, 2);
    for (uint32_t i = 0; i < trainer->grants_count; i++)
        trainer->is_spare[i] = false; /* lost on its way */
    rig_restart(&rig);
    rig_wait_asked(trainer, 3);
    assert_int_equal(rig_objects(&rig, "writing"), 6);
    played_adapter(&rig, trainer, 4);
    rig_wait_asked(trainer, 4);
    assert_int_equal(rig_objects(&rig, "writing"), 5);
    played_adapter(&rig, trainer, 6);
    rig_wait_asked(trainer, 5);
    assert_false(trainer->ended);
    assert_string_equal(rig_job(&rig).state, "running");
    rig_end(&rig);
}

static void restart_keeps_what_a_living_worker_wrote(void **state)
{
    struct played *trainer;
    struct meta_model models[8];
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    rig_wait_asked(trainer, 1);
    rig_restart(&rig);
    played_result(&rig, trainer, 10);
    rig_wait_job(&rig, "succeeded");
    assert_int_equal(rig_models(&rig, models), 1);
    played_exits(trainer, 0);
    assert_int_equal(rig_objects(&rig, "writing"), 0);
    rig_end(&rig);
}

static void restart_while_starting_begins_anew(void **state)
{
    struct played *trainer;
    struct rig rig;
    job_id id;

    (void)state;
    rig_begin(&rig);
    rig_place(1, rig_queue(&rig));
    trainer = rig_worker(2);
    rig_restart(&rig);
    rig_wait_ended(trainer);
    id = rig_told(FLEET_EVENT_JOB_FOUND).job_found.job; /* its device is not free before it is gone */
    assert_true(rig_told_none(FLEET_EVENT_JOB_ENDED));
    played_exits(trainer, 137);
    rig_wait_job(&rig, "queued");
    assert_int_equal(rig_job(&rig).crashes, 0);
    assert_int_equal(rig_objects(&rig, "writing"), 0);
    assert_int_equal(rig_told(FLEET_EVENT_JOB_ENDED).reason, JOB_LOST);
    rig_place(2, id);
    assert_int_equal(rig_worker(3)->launch.attempt, 2);
    rig_end(&rig);
}

static void restart_validates_anew(void **state)
{
    struct played *validator;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    rig_add_file(&rig, "{}\n", rig.file);
    validator = rig_worker(0);
    rig_restart(&rig);
    rig_wait_ended(validator);
    played_exits(validator, 137);
    played_report(&rig, rig_worker(1), true, "{}");
    rig_wait_file(&rig, rig.file, "processed");
    played_exits(rig_worker(1), 0);
    assert_int_equal(rig_objects(&rig, "writing"), 0);
    rig_end(&rig);
}

static void restart_while_pausing_still_pauses(void **state)
{
    struct played *trainer;
    struct rig rig;
    uint32_t asked;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    rig_wait_asked(trainer, 1);
    ask(&rig, META_JOB_RUNNING, META_JOB_STOPPING, META_JOB_PAUSED);
    rig_wait_asked(trainer, 2);
    rig_restart(&rig);
    asked = trainer->asked;
    assert_int_equal(asked, 3); /* what it was asked may be lost */
    played_state(&rig, trainer, 3);
    played_exits(trainer, 0);
    rig_wait_job(&rig, "paused");
    assert_int_equal(rig_objects(&rig, "writing"), 0);
    rig_end(&rig);
}

static void restart_while_cancelling_needs_no_worker(void **state)
{
    struct played *trainer;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    ask(&rig, META_JOB_RUNNING, META_JOB_STOPPING, META_JOB_CANCELLED);
    rig_wait_ended(trainer);
    trainer->forgotten = true;
    rig_restart(&rig);
    rig_wait_job(&rig, "cancelled");
    assert_int_equal(rig_objects(&rig, "writing"), 0);
    rig_end(&rig);
}

/* It was committed, and the worker not told so. */
static void result_said_again_after_a_restart_is_one_result(void **state)
{
    struct meta_model models[8];
    struct wire_result again = {.step = 10};
    struct played *trainer;
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    played_result(&rig, trainer, 10);
    rig_wait_job(&rig, "succeeded");
    rig_restart(&rig);
    trainer->seq--;
    played_say(trainer, WIRE_RESULT, &again);
    rig_wait_committed(trainer);
    played_exits(trainer, 0);
    assert_int_equal(rig_models(&rig, models), 1);
    assert_string_equal(rig_job(&rig).state, "succeeded");
    rig_end(&rig);
}

static void frame_of_an_attempt_that_is_over_is_dropped(void **state)
{
    struct wire_checkpoint late = {.step = 9};
    struct played *trainer;
    struct meta_model models[8];
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    played_exits(trainer, 11);
    rig_wait_job(&rig, "queued");
    played_say(trainer, WIRE_CHECKPOINT, &late);
    rig_wait_committed(trainer);
    assert_int_equal(rig_models(&rig, models), 0);
    assert_string_equal(rig_job(&rig).state, "queued");
    rig_end(&rig);
}

static void fetch_is_answered_as_often_as_it_is_asked(void **state)
{
    struct meta_model models[8];
    struct core_fetch first, second;
    struct played *trainer;
    char object[NAME_BYTES];
    struct rig rig;

    (void)state;
    rig_begin(&rig);
    trainer = rig_run(&rig, 1);
    played_result(&rig, trainer, 10);
    rig_wait_job(&rig, "succeeded");
    assert_int_equal(rig_models(&rig, models), 1);
    snprintf(object, sizeof(object), "%s", models[0].object);
    rig_fetch(&rig, object);
    first = rig_fetched();
    assert_int_equal(first.status, STATUS_OK);
    rig_fetch(&rig, object);
    second = rig_fetched();
    assert_int_equal(second.status, STATUS_OK);
    assert_memory_equal(first.key, second.key, 32);
    rig_fetch(&rig, "obj-none");
    assert_int_equal(rig_fetched().status, STATUS_NOT_FOUND);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_becomes_processed),
        cmocka_unit_test(few_validators_run_at_once),
        cmocka_unit_test(file_that_crashes_validators_is_in_error),
        cmocka_unit_test(job_succeeds),
        cmocka_unit_test(a_dry_run_ends_with_what_it_would_take),
        cmocka_unit_test(epochs_leave_models_and_the_last_three_stay),
        cmocka_unit_test(gate_keeps_a_model_from_answering),
        cmocka_unit_test(bad_files_fail_a_job_in_sealed_words),
        cmocka_unit_test(file_in_error_fails_its_job),
        cmocka_unit_test(crash_goes_on_from_the_newest_state),
        cmocka_unit_test(two_crashes_at_one_step_fail_a_job),
        cmocka_unit_test(fault_that_stays_fails_a_job_at_once),
        cmocka_unit_test(fault_that_may_pass_is_a_crash),
        cmocka_unit_test(base_that_no_validator_can_use_fails_a_job),
        cmocka_unit_test(queued_job_is_cancelled),
        cmocka_unit_test(running_job_is_cancelled),
        cmocka_unit_test(paused_job_saves_and_resumes),
        cmocka_unit_test(notice_makes_a_job_yield),
        cmocka_unit_test(result_that_came_first_counts),
        cmocka_unit_test(result_that_is_refused_for_good_fails_a_job),
        cmocka_unit_test(suspended_tenant_keeps_what_was_running),
        cmocka_unit_test(suspended_tenant_waits),
        cmocka_unit_test(restart_finds_what_was_queued),
        cmocka_unit_test(restart_loses_a_worker_that_is_gone),
        cmocka_unit_test(restart_goes_on_with_a_living_trainer),
        cmocka_unit_test(trainer_that_was_found_and_dies_is_lost_to_the_core),
        cmocka_unit_test(trainer_that_was_found_without_room_yields),
        cmocka_unit_test(restarts_lend_no_more_than_there_is_room_for),
        cmocka_unit_test(what_a_lost_control_plane_lent_is_not_counted_on),
        cmocka_unit_test(restart_keeps_what_a_living_worker_wrote),
        cmocka_unit_test(restart_while_starting_begins_anew),
        cmocka_unit_test(restart_validates_anew),
        cmocka_unit_test(restart_while_pausing_still_pauses),
        cmocka_unit_test(restart_while_cancelling_needs_no_worker),
        cmocka_unit_test(result_said_again_after_a_restart_is_one_result),
        cmocka_unit_test(frame_of_an_attempt_that_is_over_is_dropped),
        cmocka_unit_test(fetch_is_answered_as_often_as_it_is_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
