/* A job's life: every move of the table, and no other. */
#include <pthread.h>

#include "rig.h"

#define NO META_JOB_NO_TARGET

/* architecture, section 10; and that a cancelled stop stays cancelled, a lost evaluator gets another attempt, and a pause may be
 * asked for while a job is validated. */
static bool table_allows(enum meta_job_state from, enum meta_job_state target, enum meta_job_state to, enum meta_job_state to_target)
{
    static const char *const rows[META_JOB_STATES_COUNT] = {
        [META_JOB_VALIDATING] = "validating queued succeeded cancelled failed",
        [META_JOB_QUEUED] = "starting paused cancelled failed",
        [META_JOB_STARTING] = "running queued stopping failed",
        [META_JOB_RUNNING] = "evaluating stopping queued failed",
        [META_JOB_STOPPING] = "failed",
        [META_JOB_PAUSED] = "queued cancelled",
        [META_JOB_EVALUATING] = "evaluating succeeded cancelled failed",
        [META_JOB_SUCCEEDED] = "",
        [META_JOB_FAILED] = "",
        [META_JOB_CANCELLED] = "",
    };
    const bool to_a_target = to_target == META_JOB_QUEUED || to_target == META_JOB_PAUSED || to_target == META_JOB_CANCELLED;

    if (to == META_JOB_STOPPING && !to_a_target)
        return false;
    if (to != META_JOB_STOPPING && to_target != NO && !(to == META_JOB_VALIDATING && to_target == META_JOB_PAUSED))
        return false;
    if (from == META_JOB_VALIDATING && target == META_JOB_PAUSED && to == META_JOB_QUEUED)
        return false;
    if (from == META_JOB_VALIDATING && to == META_JOB_PAUSED)
        return target == META_JOB_PAUSED;
    if (from == META_JOB_STOPPING && to == META_JOB_STOPPING)
        return target != META_JOB_CANCELLED;
    if (from == META_JOB_STOPPING && (to == target || (to == META_JOB_EVALUATING && target == META_JOB_QUEUED)))
        return true;
    return strstr(rows[from], meta_job_state_text(to)) != NULL;
}

static void every_move_of_the_table_and_no_other(void **state)
{
    static const enum meta_job_state targets[] = {NO, META_JOB_QUEUED, META_JOB_PAUSED, META_JOB_CANCELLED};
    struct world world;
    unsigned allowed = 0;
    unsigned refused = 0;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    OK(&world, meta_tenant_set(world.metadata, world.acme.id, "jobs_max", "100000", &world.refusal));
    for (int from = 0; from < META_JOB_STATES_COUNT; from++) {
        for (int to = 0; to < META_JOB_STATES_COUNT; to++) {
            for (size_t i = 0; i < 16; i++) {
                const enum meta_job_state target = targets[i / 4];
                const enum meta_job_state to_target = targets[i % 4];
                char id[NAME_BYTES];
                struct meta_job before;
                struct meta_job after;
                enum status status;
                bool may;

                if (from == META_JOB_STOPPING ? target == NO : from == META_JOB_VALIDATING ? target != NO && target != META_JOB_PAUSED : target != NO)
                    continue;
                world_job(&world, world.acme.id, world.acme.file, id);
                world_bring(&world, world.acme.id, id, (enum meta_job_state)from, target);
                before = world_get_job(&world, world.acme.id, id);
                assert_string_equal(before.state, meta_job_state_text((enum meta_job_state)from));
                may = table_allows((enum meta_job_state)from, target, (enum meta_job_state)to, to_target);
                status = world_move(world.metadata, world.acme.id, id, (enum meta_job_state)from, before.attempt,
                                    (enum meta_job_state)to, to_target, &world.refusal);
                after = world_get_job(&world, world.acme.id, id);
                if ((status == STATUS_OK) != may)
                    fail_msg("%s (%s) to %s (%s): %s %s", before.state, before.target ? before.target : "-",
                             meta_job_state_text((enum meta_job_state)to), to_target == NO ? "-" : meta_job_state_text(to_target),
                             status_text(status), world.refusal.text);
                if (may) {
                    assert_string_equal(after.state, meta_job_state_text((enum meta_job_state)to));
                    assert_int_equal(after.attempt, before.attempt + (to == META_JOB_STARTING || to == META_JOB_EVALUATING));
                    assert_int_equal(after.finished_at_ms, to >= META_JOB_SUCCEEDED ? NOW : META_NONE);
                    allowed++;
                } else {
                    assert_true(status == STATUS_INVALID || status == STATUS_CONFLICT);
                    assert_string_equal(after.state, before.state);
                    assert_int_equal(after.attempt, before.attempt);
                    refused++;
                }
                meta_results_free(&world.results);
            }
        }
    }
    print_message("%u moves made, %u refused\n", allowed, refused);
    assert_int_equal(allowed + refused, 10 * 4 * (8 + 2 + 3));
    world_end(&world);
}

static void a_move_from_another_attempt_or_tenant_is_lost(void **state)
{
    struct world world;
    const char *job;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    job = world.acme.job;
    world_bring(&world, world.acme.id, job, META_JOB_RUNNING, NO);
    assert_int_equal(world_move(world.metadata, world.acme.id, job, META_JOB_RUNNING, 0, META_JOB_EVALUATING, NO, &world.refusal),
                     STATUS_CONFLICT);
    assert_int_equal(world_move(world.metadata, world.acme.id, job, META_JOB_RUNNING, 2, META_JOB_EVALUATING, NO, &world.refusal),
                     STATUS_CONFLICT);
    assert_int_equal(world_move(world.metadata, world.other.id, job, META_JOB_RUNNING, 1, META_JOB_EVALUATING, NO, &world.refusal),
                     STATUS_CONFLICT);
    OK(&world, world_move(world.metadata, world.acme.id, job, META_JOB_RUNNING, 1, META_JOB_EVALUATING, NO, &world.refusal));
    world_end(&world);
}

static void a_job_has_one_live_attempt(void **state)
{
    struct world world;
    struct meta_worker *workers;
    uint32_t count;
    bool more;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    world_bring(&world, world.acme.id, world.acme.job, META_JOB_RUNNING, NO);
    /* The worker was lost, and nobody has reaped it yet. */
    OK(&world, world_move(world.metadata, world.acme.id, world.acme.job, META_JOB_RUNNING, 1, META_JOB_QUEUED, NO, &world.refusal));
    assert_int_equal(world_move(world.metadata, world.acme.id, world.acme.job, META_JOB_QUEUED, 1, META_JOB_STARTING, NO, &world.refusal),
                     STATUS_CONFLICT);
    assert_string_equal(world_get_job(&world, world.acme.id, world.acme.job).state, "queued");
    assert_int_equal(world_get_job(&world, world.acme.id, world.acme.job).attempt, 1);
    OK(&world, meta_worker_list(world.metadata, "", 10, &world.results, &workers, &count, &more, &world.refusal));
    assert_int_equal(count, 1);
    assert_string_equal(workers[0].subject, world.acme.job);
    OK(&world, meta_worker_ended(world.metadata, workers[0].id, "lost", NOW, &world.refusal));
    assert_int_equal(meta_worker_ended(world.metadata, workers[0].id, "lost", NOW, &world.refusal), STATUS_CONFLICT);
    OK(&world, world_move(world.metadata, world.acme.id, world.acme.job, META_JOB_QUEUED, 1, META_JOB_STARTING, NO, &world.refusal));
    assert_int_equal(world_get_job(&world, world.acme.id, world.acme.job).attempt, 2);
    /* An evaluator of an attempt that is over, and one beside a live worker. */
    {
        const struct meta_worker_new worker = {.id = "worker-x", .kind = "evaluator", .placement = "{}"};

        assert_int_equal(meta_worker_for_job(world.metadata, &worker, world.acme.id, world.acme.job, 1, NOW, &world.refusal), STATUS_CONFLICT);
        assert_int_equal(meta_worker_for_job(world.metadata, &worker, world.acme.id, world.acme.job, 2, NOW, &world.refusal), STATUS_CONFLICT);
    }
    world_end(&world);
}

static void a_file_has_one_validator_at_a_time(void **state)
{
    struct world world;
    struct meta_worker_new worker = {.id = "worker-1", .kind = "validator", .placement = "{}"};
    int64_t attempt = 0;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    OK(&world, meta_worker_for_file(world.metadata, &worker, world.acme.id, world.acme.file, NOW, &attempt, &world.refusal));
    assert_int_equal(attempt, 1);
    worker.id = "worker-2";
    assert_int_equal(meta_worker_for_file(world.metadata, &worker, world.acme.id, world.acme.file, NOW, &attempt, &world.refusal),
                     STATUS_CONFLICT);
    OK(&world, meta_worker_ended(world.metadata, "worker-1", "killed", NOW, &world.refusal));
    OK(&world, meta_worker_for_file(world.metadata, &worker, world.acme.id, world.acme.file, NOW, &attempt, &world.refusal));
    assert_int_equal(attempt, 2);
    OK(&world, meta_worker_ended(world.metadata, "worker-2", "done", NOW, &world.refusal));
    OK(&world, meta_file_judged(world.metadata, world.acme.id, world.acme.file, true, 10, 100, NULL, &world.refusal));
    worker.id = "worker-3";
    assert_int_equal(meta_worker_for_file(world.metadata, &worker, world.acme.id, world.acme.file, NOW, &attempt, &world.refusal),
                     STATUS_CONFLICT);
    world_end(&world);
}

static void crashes_count_while_they_are_at_one_step(void **state)
{
    static const struct {
        int64_t step;
        int64_t crashes;
    } cases[] = {{100, 1}, {META_NONE, 1}, {100, 2}, {200, 1}, {200, 2}, {100, 1}};
    struct world world;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    world_bring(&world, world.acme.id, world.acme.job, META_JOB_QUEUED, NO);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const int64_t attempt = (int64_t)i + 1;
        char id[NAME_BYTES];
        const struct meta_worker_new worker = {.id = id, .kind = "trainer", .placement = "{}"};
        struct meta_job_move move = {.tenant = world.acme.id, .id = world.acme.job, .from = META_JOB_QUEUED, .attempt = attempt - 1,
                                     .to = META_JOB_STARTING, .target = NO, .worker = &worker, .crash_step = META_NONE};

        meta_id("worker-", id);
        OK(&world, meta_job_move(world.metadata, &move, NOW, NULL, &world.refusal));
        OK(&world, world_move(world.metadata, world.acme.id, world.acme.job, META_JOB_STARTING, attempt, META_JOB_RUNNING, NO, &world.refusal));
        OK(&world, meta_worker_ended(world.metadata, id, "crashed", NOW, &world.refusal));
        move = (struct meta_job_move){.tenant = world.acme.id, .id = world.acme.job, .from = META_JOB_RUNNING, .attempt = attempt,
                                      .to = META_JOB_QUEUED, .target = NO, .crash_step = cases[i].step, .gpu_ms = 10};
        OK(&world, meta_job_move(world.metadata, &move, NOW, NULL, &world.refusal));
        assert_int_equal(world_get_job(&world, world.acme.id, world.acme.job).crashes, cases[i].crashes);
        assert_int_equal(world_get_job(&world, world.acme.id, world.acme.job).gpu_ms, 10 * attempt);
    }
    world_end(&world);
}

/* --- races ------------------------------------------------------------------------------------------------------------------ */

struct racer {
    struct metadata *metadata;
    struct world *world;
    pthread_barrier_t *start;
    enum meta_job_state to;
    enum status status;
};

static void *race(void *context)
{
    struct racer *racer = context;
    struct refusal refusal;

    pthread_barrier_wait(racer->start);
    racer->status = world_move(racer->metadata, racer->world->acme.id, racer->world->acme.job, META_JOB_QUEUED, 0, racer->to, NO, &refusal);
    return NULL;
}

static void of_two_who_race_one_wins(void **state)
{
    unsigned wins[2] = {0};
    struct world world;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    OK(&world, meta_tenant_set(world.metadata, world.acme.id, "jobs_max", "1000", &world.refusal));
    for (int round = 0; round < 40; round++) {
        pthread_barrier_t start;
        struct racer racers[2];
        pthread_t threads[2];

        world_job(&world, world.acme.id, world.acme.file, world.acme.job);
        world_bring(&world, world.acme.id, world.acme.job, META_JOB_QUEUED, NO);
        pthread_barrier_init(&start, NULL, 2);
        for (int i = 0; i < 2; i++) {
            racers[i] = (struct racer){.metadata = world_open(&world), .world = &world, .start = &start,
                                       .to = i == 0 ? META_JOB_STARTING : META_JOB_CANCELLED};
            pthread_create(&threads[i], NULL, race, &racers[i]);
        }
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
            meta_close(racers[i].metadata);
        }
        pthread_barrier_destroy(&start);
        assert_true((racers[0].status == STATUS_OK) != (racers[1].status == STATUS_OK));
        assert_true(racers[0].status == STATUS_CONFLICT || racers[1].status == STATUS_CONFLICT);
        wins[racers[1].status == STATUS_OK]++;
        assert_string_equal(world_get_job(&world, world.acme.id, world.acme.job).state,
                            racers[0].status == STATUS_OK ? "starting" : "cancelled");
    }
    print_message("%u starts, %u cancels\n", wins[0], wins[1]);
    world_end(&world);
}

/* --- making, listing -------------------------------------------------------------------------------------------------------- */

static void a_job_wants_what_it_refers_to(void **state)
{
    struct world world;
    char id[NAME_BYTES] = "ftjob-1";
    struct meta_job_new job;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    job = (struct meta_job_new){.tenant = world.acme.id, .id = id, .base = "none", .file = world.acme.file, .settings = "{}"};
    assert_int_equal(meta_job_add(world.metadata, &job, NOW, &world.refusal), STATUS_INVALID);
    job.base = "tiny";
    job.file = world.other.file;
    assert_int_equal(meta_job_add(world.metadata, &job, NOW, &world.refusal), STATUS_INVALID);
    assert_string_equal(world.refusal.text, "no such training file");
    job.file = world.acme.file;
    job.validation = world.other.file;
    assert_int_equal(meta_job_add(world.metadata, &job, NOW, &world.refusal), STATUS_INVALID);
    job.validation = NULL;
    job.parent = world.other.model;
    assert_int_equal(meta_job_add(world.metadata, &job, NOW, &world.refusal), STATUS_INVALID);
    job.parent = world.acme.model;
    OK(&world, meta_job_add(world.metadata, &job, NOW, &world.refusal));
    assert_int_equal(meta_job_add(world.metadata, &job, NOW, &world.refusal), STATUS_CONFLICT);
    OK(&world, meta_tenant_set(world.metadata, world.acme.id, "jobs_max", "2", &world.refusal));
    job.id = "ftjob-2";
    assert_int_equal(meta_job_add(world.metadata, &job, NOW, &world.refusal), STATUS_FULL);
    OK(&world, world_move(world.metadata, world.acme.id, "ftjob-1", META_JOB_VALIDATING, 0, META_JOB_CANCELLED, NO, &world.refusal));
    OK(&world, meta_job_add(world.metadata, &job, NOW, &world.refusal));
    OK(&world, meta_tenant_move(world.metadata, world.acme.id, "active", "suspended", &world.refusal));
    job.id = "ftjob-3";
    assert_int_equal(meta_job_add(world.metadata, &job, NOW, &world.refusal), STATUS_NOT_FOUND);
    world_end(&world);
}

static void pages_hold_every_job_once(void **state)
{
    struct world world;
    struct meta_job *jobs;
    uint32_t count;
    bool more;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    for (int i = 0; i < 24; i++) {
        char id[NAME_BYTES];

        world_job(&world, i % 2 == 0 ? world.acme.id : world.other.id, i % 2 == 0 ? world.acme.file : world.other.file, id);
    }
    for (int order = 0; order < 2; order++) {
        struct meta_page page = {.limit = 5, .oldest_first = order == 1};
        int64_t last = order == 1 ? 0 : INT64_MAX;
        uint32_t total = 0;

        do {
            OK(&world, meta_job_list(world.metadata, world.acme.id, &page, &world.results, &jobs, &count, &more, &world.refusal));
            for (uint32_t i = 0; i < count; i++) {
                assert_string_equal(jobs[i].tenant, world.acme.id);
                assert_true(order == 1 ? jobs[i].number > last : jobs[i].number < last);
                last = jobs[i].number;
            }
            total += count;
            page.after = count > 0 ? jobs[count - 1].id : NULL;
        } while (more);
        assert_int_equal(total, 13);
    }
    /* After what isn't there, or is another's, nothing follows. */
    for (int i = 0; i < 4; i++) {
        const struct meta_page page = {.after = i % 2 == 0 ? "ftjob-none" : world.other.job, .limit = 5, .oldest_first = i / 2 == 1};

        OK(&world, meta_job_list(world.metadata, world.acme.id, &page, &world.results, &jobs, &count, &more, &world.refusal));
        assert_int_equal(count, 0);
        assert_false(more);
    }
    world_end(&world);
}

/* --- events, checkpoints ---------------------------------------------------------------------------------------------------- */

static void events_are_numbered_and_paged(void **state)
{
    const struct meta_bytes sealed = {(const uint8_t *)"sealed", 6};
    struct world world;
    struct meta_event *events;
    int64_t before = INT64_MAX;
    int64_t n = 0;
    int64_t expected = 25;
    uint32_t count;
    bool more;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    for (int i = 1; i <= 25; i++) {
        OK(&world, meta_event_add(world.metadata, world.acme.id, world.acme.job, "info", "step", i % 2 ? "{}" : NULL, sealed, NOW + i, &n, &world.refusal));
        assert_int_equal(n, i);
    }
    assert_int_equal(meta_event_add(world.metadata, world.acme.id, world.acme.job, "shout", "step", NULL, sealed, NOW, &n, &world.refusal),
                     STATUS_INVALID);
    do {
        OK(&world, meta_event_list(world.metadata, world.acme.id, world.acme.job, before, 10, &world.results, &events, &count, &more, &world.refusal));
        for (uint32_t i = 0; i < count; i++) {
            assert_int_equal(events[i].n, expected);
            assert_int_equal(events[i].at_ms, NOW + expected--);
            assert_memory_equal(events[i].sealed.bytes, "sealed", 6);
            before = events[i].n;
        }
    } while (more);
    assert_int_equal(expected, 0);
    world_end(&world);
}

static void a_checkpoint_is_of_the_attempt_that_lives(void **state)
{
    char objects[3][NAME_BYTES];
    struct world world;
    struct meta_checkpoint *checkpoints;
    struct meta_object object;
    uint32_t count;
    bool more;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    for (int i = 0; i < 3; i++)
        world_object(&world, world.acme.id, objects[i]);
#define ADD(attempt, step, object) \
    meta_checkpoint_add(world.metadata, world.acme.id, world.acme.job, attempt, step, object, "{}", NOW, &world.refusal)
    assert_int_equal(ADD(0, 10, objects[0]), STATUS_CONFLICT); /* nothing runs */
    world_bring(&world, world.acme.id, world.acme.job, META_JOB_RUNNING, NO);
    OK(&world, ADD(1, 10, objects[0]));
    OK(&world, ADD(1, 10, objects[0])); /* said again */
    assert_int_equal(ADD(1, 10, objects[1]), STATUS_CONFLICT);
    assert_int_equal(ADD(1, 20, "object-none"), STATUS_CONFLICT);
    assert_int_equal(ADD(1, 20, world.other.object), STATUS_CONFLICT);
    OK(&world, ADD(1, 20, objects[1]));
    /* The next attempt goes back to step 10. */
    OK(&world, world_move(world.metadata, world.acme.id, world.acme.job, META_JOB_RUNNING, 1, META_JOB_QUEUED, NO, &world.refusal));
    assert_int_equal(ADD(1, 30, objects[2]), STATUS_CONFLICT);
    {
        struct meta_worker *workers;

        OK(&world, meta_worker_list(world.metadata, "", 10, &world.results, &workers, &count, &more, &world.refusal));
        OK(&world, meta_worker_ended(world.metadata, workers[0].id, "lost", NOW, &world.refusal));
    }
    OK(&world, world_move(world.metadata, world.acme.id, world.acme.job, META_JOB_QUEUED, 1, META_JOB_STARTING, NO, &world.refusal));
    OK(&world, world_move(world.metadata, world.acme.id, world.acme.job, META_JOB_STARTING, 2, META_JOB_RUNNING, NO, &world.refusal));
    assert_int_equal(ADD(1, 20, objects[1]), STATUS_CONFLICT);
    OK(&world, ADD(2, 20, objects[2]));
    OK(&world, meta_object_get(world.metadata, world.acme.id, objects[1], &world.results, &object, &world.refusal));
    assert_string_equal(object.state, "doomed");
    OK(&world, meta_checkpoint_list(world.metadata, world.acme.id, world.acme.job, INT64_MAX, 10, &world.results, &checkpoints, &count, &more, &world.refusal));
    assert_int_equal(count, 2);
    assert_int_equal(checkpoints[0].step, 20);
    assert_int_equal(checkpoints[0].attempt, 2);
    assert_string_equal(checkpoints[0].object, objects[2]);
    assert_int_equal(checkpoints[1].step, 10);
#undef ADD
    world_end(&world);
}

static void progress_is_of_the_attempt_that_lives(void **state)
{
    struct world world;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    world_bring(&world, world.acme.id, world.acme.job, META_JOB_RUNNING, NO);
    OK(&world, meta_job_progress(world.metadata, world.acme.id, world.acme.job, 1, 5, 100, &world.refusal));
    assert_int_equal(meta_job_progress(world.metadata, world.acme.id, world.acme.job, 0, 6, 100, &world.refusal), STATUS_CONFLICT);
    assert_int_equal(world_get_job(&world, world.acme.id, world.acme.job).done_ns, 5);
    assert_int_equal(world_get_job(&world, world.acme.id, world.acme.job).trained_tokens, 100);
    world_end(&world);
}

static void assert_share(struct world *world, int64_t usage, int64_t at_ms)
{
    struct meta_tenant tenant;

    OK(world, meta_tenant_get(world->metadata, world->acme.id, &world->results, &tenant, &world->refusal));
    assert_int_equal(tenant.share_usage, usage);
    assert_int_equal(tenant.share_at_ms, at_ms);
}

/* In the move's own transaction: who came too late used nothing. */
static void what_an_attempt_used_counts_half_a_day_later(void **state)
{
    struct meta_job_move move = {.from = META_JOB_RUNNING, .attempt = 1, .to = META_JOB_QUEUED, .target = NO, .crash_step = META_NONE, .gpu_ms = 1000};
    struct world world;

    (void)state;
    world_begin(&world);
    world_populate(&world);
    world_bring(&world, world.acme.id, world.acme.job, META_JOB_RUNNING, NO);
    assert_share(&world, 0, 0);
    move.tenant = world.acme.id;
    move.id = world.acme.job;
    OK(&world, meta_job_move(world.metadata, &move, NOW, NULL, &world.refusal));
    assert_int_equal(meta_job_move(world.metadata, &move, NOW + 1, NULL, &world.refusal), STATUS_CONFLICT);
    assert_share(&world, 1000, NOW);
    OK(&world, meta_tenant_used(world.metadata, world.acme.id, 300, NOW + META_SHARE_HALF_LIFE_MS, &world.refusal));
    assert_share(&world, 800, NOW + META_SHARE_HALF_LIFE_MS);
    OK(&world, meta_tenant_used(world.metadata, world.acme.id, 1, NOW, &world.refusal));
    assert_share(&world, 801, NOW + META_SHARE_HALF_LIFE_MS);
    OK(&world, meta_tenant_used(world.metadata, world.acme.id, 0, NOW + 1000 * META_SHARE_HALF_LIFE_MS, &world.refusal));
    assert_share(&world, 0, NOW + 1000 * META_SHARE_HALF_LIFE_MS);
    assert_int_equal(meta_tenant_used(world.metadata, "org-none", 1, NOW, &world.refusal), STATUS_NOT_FOUND);
    world_end(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_move_of_the_table_and_no_other),
        cmocka_unit_test(a_move_from_another_attempt_or_tenant_is_lost),
        cmocka_unit_test(a_job_has_one_live_attempt),
        cmocka_unit_test(a_file_has_one_validator_at_a_time),
        cmocka_unit_test(crashes_count_while_they_are_at_one_step),
        cmocka_unit_test(of_two_who_race_one_wins),
        cmocka_unit_test(a_job_wants_what_it_refers_to),
        cmocka_unit_test(pages_hold_every_job_once),
        cmocka_unit_test(events_are_numbered_and_paged),
        cmocka_unit_test(a_checkpoint_is_of_the_attempt_that_lives),
        cmocka_unit_test(progress_is_of_the_attempt_that_lives),
        cmocka_unit_test(what_an_attempt_used_counts_half_a_day_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
