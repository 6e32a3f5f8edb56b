/* A model server through the wire: its answers are the in-process worker's, bit for bit; what it keeps, tells and refuses. */
#include "control.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "control/core/core.h"
#include "exec/processes.h"

enum { PROMPT = 20 };

/* What the same request gets in this process, with a folder's adapter. */
static void expect(struct control *control, const char *adapter, uint64_t seed, uint32_t max_tokens, const struct heard *heard)
{
    static struct reply cold;
    struct worker_config config;
    struct worker *worker;

    place_worker_config(&control->place, &config);
    config.positions_max = 256;
    worker = worker_opened(&config);
    if (adapter != NULL)
        worker_add(worker, &control->place, adapter);
    worker_ask_drawn(worker, adapter, PROMPT, seed, max_tokens, &cold);
    worker_finish(worker, &cold, 1);
    worker_close(worker);
    assert_int_equal(cold.count, heard->reply.count);
    for (uint32_t i = 0; i < cold.count; i++)
        if (cold.ids[i] != heard->reply.ids[i] || memcmp(&cold.logprobs[i], &heard->reply.logprobs[i], sizeof(float)) != 0)
            fail_msg("token %u is %d (%.9g), wanted %d (%.9g)", i, heard->reply.ids[i], (double)heard->reply.logprobs[i], cold.ids[i],
                     (double)cold.logprobs[i]);
}

static void answers_are_the_workers_bit_for_bit(void **context)
{
    static struct control control;
    struct object object;
    struct heard *base;
    struct heard *tuned;
    uint64_t first;

    (void)context;
    control_begin(&control, NULL);
    place_adapter(&control.place, "one", 8, 7);
    object_make(&control, "one", "acme", &object);
    control_load(&control, &object);
    first = control_ask(&control, &(struct wanted){.prompt_tokens = PROMPT, .seed = 3, .max_tokens = 30});
    tuned = control_answer(&control, &(struct wanted){.object = &object, .prompt_tokens = PROMPT, .seed = 3, .max_tokens = 30});
    base = heard_of(&control, first);
    control_until(&control, base->reply.ends == 1);
    expect(&control, NULL, 3, 30, base);
    expect(&control, "one", 3, 30, tuned);
    assert_false(same_ids(&base->reply, &tuned->reply));
    assert_int_equal(tuned->done.finish, CORE_END_LENGTH);
    assert_int_equal(tuned->done.output_tokens, 30);
    assert_int_equal(tuned->done.tier_found, TIER_STORE);
    assert_int_equal(tuned->usage.prompt_tokens, PROMPT);
    assert_int_equal(tuned->usage.output_tokens, 30);
    assert_string_equal(tuned->account, "acme tiny-2");
    control_until(&control, control.resident.tier == TIER_GPU);
    assert_memory_equal(control.resident.digest, object.key, 32);
    object_end(&object);
    control_end(&control);
}

static void one_place(struct serving_config *config)
{
    config->worker.slots = 1;
    config->worker.max_loras = 1;
    config->worker.host_bytes = 40000; /* one of them */
}

static void what_host_memory_let_go_is_read_again(void **context)
{
    static struct control control;
    struct object objects[3];
    const char *names[] = {"one", "two", "three"};

    (void)context;
    control_begin(&control, one_place);
    for (uint32_t i = 0; i < 3; i++) {
        place_adapter(&control.place, names[i], 8, 7 + i);
        object_make(&control, names[i], i == 2 ? "other" : "acme", &objects[i]);
    }
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 3; i++) {
            struct heard *heard;

            control_load(&control, &objects[i]); /* the second time it is there already, and has another generation */
            heard = control_answer(&control, &(struct wanted){.object = &objects[i], .prompt_tokens = PROMPT, .seed = 3, .max_tokens = 9});
            assert_int_equal(heard->done.finish, CORE_END_LENGTH);
            assert_int_equal(heard->done.tier_found, TIER_STORE);
            expect(&control, names[i], 3, 9, heard);
        }
    }
    for (uint32_t i = 0; i < 3; i++)
        object_end(&objects[i]);
    control_end(&control);
}

static void who_does_not_read_holds_no_batch(void **context)
{
    static struct control control;
    struct heard *slow;

    (void)context;
    control_begin(&control, NULL);
    slow = heard_of(&control, control_ask(&control, &(struct wanted){.prompt_tokens = PROMPT, .seed = 3, .max_tokens = 200, .credit = 3}));
    control_until(&control, slow->usages == 1); /* it was generated to its end */
    control_until(&control, slow->reply.count == 3 && control.beat.running == 0 && control.beat.kv_free_permille == 1000);
    for (int i = 0; i < 10; i++)
        control_turn(&control, 5);
    assert_int_equal(slow->reply.count, 3);
    assert_int_equal(slow->reply.ends, 0);
    control_say(&control, WIRE_CREDIT, &(struct wire_credit){.request = slow->request, .tokens = 10}, NULL, 0);
    control_until(&control, slow->reply.count == 13);
    for (int i = 0; i < 10; i++)
        control_turn(&control, 5);
    assert_int_equal(slow->reply.count, 13);
    control_say(&control, WIRE_CREDIT, &(struct wire_credit){.request = slow->request, .tokens = 187}, NULL, 0);
    control_until(&control, slow->reply.ends == 1);
    expect(&control, NULL, 3, 200, slow);
    control_end(&control);
}

static void an_abort_ends_it_and_is_billed(void **context)
{
    static struct control control;
    struct heard *heard;
    uint32_t count;

    (void)context;
    control_begin(&control, NULL);
    heard = heard_of(&control, control_ask(&control, &(struct wanted){.prompt_tokens = PROMPT, .seed = 3, .max_tokens = 230, .credit = 5}));
    control_until(&control, heard->reply.count == 5);
    count = heard->reply.count;
    control_say(&control, WIRE_ABORT, &(struct wire_abort){.request = heard->request}, NULL, 0);
    control_until(&control, heard->reply.ends == 1);
    assert_int_equal(heard->done.finish, CORE_END_CANCELLED);
    assert_int_equal(heard->reply.count, count);
    assert_true(heard->usage.output_tokens >= count);
    assert_int_equal(heard->usage.prompt_tokens, PROMPT);
    control_end(&control);
}

static void texts_best_ones_and_stop_strings_go_through(void **context)
{
    static struct control control;
    struct heard *whole;
    struct heard *cut;
    char stop[8] = "";
    char settings[256];

    (void)context;
    control_begin(&control, NULL);
    whole = control_answer(&control, &(struct wanted){.prompt_tokens = PROMPT, .seed = 4, .max_tokens = 40,
                           .settings = "{\"temperature\": 0, \"ignore_eos\": true, \"logprobs\": 3}"});
    assert_int_equal(whole->best_each, 3);
    for (uint32_t i = 0; i < whole->reply.count; i++) {
        assert_int_equal(whole->best[i].id, whole->reply.ids[i]); /* greedy */
        assert_memory_equal(&whole->best[i].logprob_bits, &whole->reply.logprobs[i], sizeof(float));
    }
    /* A letter of it that is written the same in JSON. */
    for (size_t i = 3; whole->text[i] != '\0' && stop[0] == '\0'; i++)
        if ((whole->text[i] >= 'a' && whole->text[i] <= 'z') || (whole->text[i] >= 'A' && whole->text[i] <= 'Z'))
            stop[0] = whole->text[i];
    assert_true(stop[0] != '\0');
    snprintf(settings, sizeof(settings), "{\"temperature\": 0, \"ignore_eos\": true, \"stop\": [\"%s\"]}", stop);
    cut = control_answer(&control, &(struct wanted){.prompt_tokens = PROMPT, .seed = 4, .max_tokens = 40, .settings = settings});
    assert_int_equal(cut->done.finish, CORE_END_STOP);
    assert_int_equal(strlen(cut->text), strcspn(whole->text, stop));
    assert_memory_equal(cut->text, whole->text, strlen(cut->text));
    control_end(&control);
}

static void a_prompt_may_come_as_a_file(void **context)
{
    static struct control control;
    struct heard *heard;

    (void)context;
    control_begin(&control, NULL);
    heard = control_answer(&control, &(struct wanted){.prompt_tokens = PROMPT, .seed = 3, .max_tokens = 5, .by_file = true});
    expect(&control, NULL, 3, 5, heard);
    control_end(&control);
}

static void expect_refused(struct control *control, const struct wanted *wanted, enum status code, const char *why)
{
    struct heard *heard = control_answer(control, wanted);

    assert_int_equal(heard->done.finish, CORE_END_REFUSED);
    assert_int_equal(heard->done.code, code);
    assert_int_equal(heard->usage.prompt_tokens + heard->usage.output_tokens, 0);
    if (strstr(heard->why, why) == NULL)
        fail_msg("expected \"%s\" in: %s", why, heard->why);
}

static void what_cannot_be_served_is_refused(void **context)
{
    static struct control control;
    struct object mine;
    struct object theirs;

    (void)context;
    control_begin(&control, NULL);
    place_adapter(&control.place, "one", 8, 7);
    object_make(&control, "one", "acme", &mine);
    object_make(&control, "one", "other", &theirs);
    control_load(&control, &mine);
    expect_refused(&control, &(struct wanted){.prompt_tokens = PROMPT, .max_tokens = 5, .tenant_number = WORKER_TENANTS_MAX}, STATUS_INVALID,
                   "tenant 1024");
    expect_refused(&control, &(struct wanted){.prompt_tokens = PROMPT, .max_tokens = 250}, STATUS_INVALID, "more than the 256");
    expect_refused(&control, &(struct wanted){.prompt_tokens = PROMPT, .max_tokens = 5, .settings = "{\"temperatur\": 0}"}, STATUS_INVALID,
                   "there is no key");
    expect_refused(&control, &(struct wanted){.prompt_tokens = PROMPT, .max_tokens = 5, .settings = "{"}, STATUS_INVALID, "no JSON");
    /* The same weights under another tenant's name are another adapter, and one tenant's account opens no other's. */
    expect_refused(&control, &(struct wanted){.prompt_tokens = PROMPT, .max_tokens = 5, .object = &theirs}, STATUS_NOT_FOUND, "no such adapter");
    expect_refused(&control, &(struct wanted){.prompt_tokens = PROMPT, .max_tokens = 5, .object = &mine, .tenant = "other"}, STATUS_NOT_FOUND,
                   "no such adapter");
    expect_refused(&control, &(struct wanted){.prompt_tokens = PROMPT, .max_tokens = 5, .object = &mine, .tenant = "acm"}, STATUS_NOT_FOUND,
                   "no such adapter");
    control.generation++;
    expect_refused(&control, &(struct wanted){.prompt_tokens = PROMPT, .max_tokens = 5, .object = &mine}, STATUS_NOT_FOUND, "no such adapter");
    object_end(&mine);
    object_end(&theirs);
    control_end(&control);
}

static void spoil_key(struct object *object) { object->secret[0] ^= 1; }
static void spoil_tenant(struct object *object) { object->tenant[0] ^= 2; }
static void spoil_id(struct object *object) { object->id[0] ^= 1; }
static void spoil_rank(struct object *object) { object->rank += 16; }
static void spoil_digest(struct object *object) { object->key[31] ^= 1; }
static void spoil_end(struct object *object) { assert_int_equal(ftruncate(object->file, (off_t)object->bytes - 1), 0); }

static void an_adapter_that_does_not_open_is_unloaded_after_its_requests(void **context)
{
    static struct control control;
    static void (*const spoil[])(struct object *object) = {spoil_key, spoil_tenant, spoil_id, spoil_rank, spoil_digest, spoil_end};

    (void)context;
    control_begin(&control, NULL);
    place_adapter(&control.place, "one", 8, 7);
    for (size_t i = 0; i < ARRAY_COUNT(spoil); i++) {
        const uint32_t before = control.unloadeds;
        struct object object;
        struct heard *heard;

        object_make(&control, "one", "acme", &object);
        spoil[i](&object);
        control_load(&control, &object);
        heard = control_answer(&control, &(struct wanted){.object = &object, .prompt_tokens = PROMPT, .max_tokens = 5});
        assert_int_equal(heard->done.finish, CORE_END_REFUSED);
        assert_int_equal(control.unloadeds, before);
        control_until(&control, control.unloadeds == before + 1);
        assert_int_equal(control.unloaded.generation, control.generation);
        assert_int_equal(control.unloaded.code, STATUS_CORRUPT);
        assert_memory_equal(control.unloaded.digest, object.key, 32);
        expect_refused(&control, &(struct wanted){.object = &object, .prompt_tokens = PROMPT, .max_tokens = 5}, STATUS_NOT_FOUND,
                       "no such adapter");
        object_end(&object);
    }
    control_end(&control);
}

static void what_is_refused_at_once_is_unloaded_at_once(void **context)
{
    static struct control control;
    struct object object;

    (void)context;
    control_begin(&control, NULL);
    place_adapter(&control.place, "one", 8, 7);
    object_make(&control, "one", "acme", &object);
    object.rank = 65;
    control_load(&control, &object);
    control_until(&control, control.unloadeds == 1);
    assert_int_equal(control.unloaded.code, STATUS_INVALID);
    object.rank = 8;
    strcpy(object.tenant, "../acme");
    control_load(&control, &object);
    control_until(&control, control.unloadeds == 2);
    assert_int_equal(control.unloaded.code, STATUS_INVALID);
    object_end(&object);
    control_end(&control);
}

static void an_unload_ends_no_request_and_frees_its_name(void **context)
{
    static struct control control;
    struct object object;
    struct heard *heard;
    struct wire_unload unload;

    (void)context;
    control_begin(&control, NULL);
    place_adapter(&control.place, "one", 8, 7);
    object_make(&control, "one", "acme", &object);
    control_load(&control, &object);
    heard = heard_of(&control, control_ask(&control, &(struct wanted){.object = &object, .prompt_tokens = PROMPT, .seed = 5,
                                                                      .max_tokens = 60}));
    unload = (struct wire_unload){.generation = control.generation};
    memcpy(unload.digest, object.key, 32);
    control_say(&control, WIRE_UNLOAD, &unload, NULL, 0);
    control_until(&control, control.unloadeds == 1);
    assert_int_equal(control.unloaded.code, STATUS_OK);
    control_load(&control, &object); /* while the first is still running */
    assert_int_equal(control_answer(&control, &(struct wanted){.object = &object, .prompt_tokens = PROMPT, .seed = 5,
                                                               .max_tokens = 60})->done.finish,
                     CORE_END_LENGTH);
    control_until(&control, heard->reply.ends == 1);
    expect(&control, "one", 5, 60, heard);
    control_say(&control, WIRE_UNLOAD, &unload, NULL, 0); /* of a generation that is gone */
    control_until(&control, control.unloadeds == 2);
    assert_int_equal(control_answer(&control, &(struct wanted){.object = &object, .prompt_tokens = PROMPT, .max_tokens = 2})->done.finish,
                     CORE_END_LENGTH);
    object_end(&object);
    control_end(&control);
}

static void a_new_control_plane_finds_the_adapters_and_hears_of_the_usage(void **context)
{
    static struct control control;
    struct object object;
    struct heard *old;
    struct heard *heard;
    uint32_t count;

    (void)context;
    control_begin(&control, NULL);
    place_adapter(&control.place, "one", 8, 7);
    object_make(&control, "one", "acme", &object);
    control_load(&control, &object);
    old = heard_of(&control, control_ask(&control, &(struct wanted){.object = &object, .prompt_tokens = PROMPT, .seed = 5, .max_tokens = 230,
                                                                    .credit = 2}));
    control_until(&control, old->reply.count == 2);
    count = old->usages;
    control_again(&control);
    assert_int_equal(control.residents, 1);
    assert_memory_equal(control.resident.digest, object.key, 32);
    assert_int_equal(control.resident.generation, control.generation);
    control_until(&control, old->usages == 1);
    assert_true(count == 1 || old->usage.output_tokens >= 2);
    heard = control_answer(&control, &(struct wanted){.object = &object, .prompt_tokens = PROMPT, .seed = 5, .max_tokens = 20});
    expect(&control, "one", 5, 20, heard);
    assert_int_equal(old->reply.ends, 0);
    assert_int_equal(old->reply.count, 2);
    object_end(&object);
    control_end(&control);
}

static void a_drain_finishes_and_ends(void **context)
{
    static struct control control;
    struct heard *heard;

    (void)context;
    control_begin(&control, NULL);
    heard = heard_of(&control, control_ask(&control, &(struct wanted){.prompt_tokens = PROMPT, .seed = 3, .max_tokens = 60, .credit = 1}));
    control_say(&control, WIRE_DRAIN, &(struct wire_drain){.deadline_ms = UINT32_MAX}, NULL, 0);
    expect_refused(&control, &(struct wanted){.prompt_tokens = PROMPT, .max_tokens = 5}, STATUS_FULL, "draining");
    control_say(&control, WIRE_CREDIT, &(struct wire_credit){.request = heard->request, .tokens = 59}, NULL, 0);
    control_until(&control, heard->reply.ends == 1);
    expect(&control, NULL, 3, 60, heard);
    for (int i = 0; i < 10; i++)
        control_turn(&control, 20);
    assert_int_equal(control_join(&control), STATUS_OK);
    control_end(&control);
}

static void a_drain_has_a_deadline(void **context)
{
    static struct control control;
    struct heard *heard;

    (void)context;
    control_begin(&control, NULL);
    heard = heard_of(&control, control_ask(&control, &(struct wanted){.prompt_tokens = PROMPT, .seed = 3, .max_tokens = 60, .credit = 1}));
    control_say(&control, WIRE_DRAIN, &(struct wire_drain){.deadline_ms = 30}, NULL, 0);
    control_until(&control, heard->reply.ends == 1);
    assert_int_equal(heard->done.finish, CORE_END_CANCELLED);
    for (int i = 0; i < 10; i++)
        control_turn(&control, 20);
    assert_int_equal(control_join(&control), STATUS_OK);
    control_end(&control);
}

static void short_hold(struct serving_config *config)
{
    config->hold_ms = 100;
}

static void without_a_control_plane_the_base_is_held_for_a_while(void **context)
{
    static struct control control;

    (void)context;
    control_begin(&control, short_hold);
    control_say(&control, WIRE_LEASE, &(struct wire_lease){.lease_ms = 1}, NULL, 0);
    control_turn(&control, 0);
    assert_int_equal(control_join(&control), STATUS_END);
    assert_non_null(strstr(control.refusal.text, "no control plane"));
    control_end(&control);
}

/* Requests, credit, aborts, loads and unloads in any order, and control planes that come anew: each request is billed once, whoever waits
 * hears one end, and nothing stays behind. */
static void a_storm_bills_each_request_once(void **context)
{
    static struct control control;
    static const char *const names[] = {"one", "two", "three"};
    uint64_t seed = test_seed(7);
    uint64_t since = 1; /* the first request of this control plane's */
    struct object objects[3];

    (void)context;
    control_begin(&control, one_place);
    for (uint32_t i = 0; i < 3; i++) {
        place_adapter(&control.place, names[i], 8, 7 + i);
        object_make(&control, names[i], "acme", &objects[i]);
    }
    for (int round = 0; round < 400; round++) {
        const uint64_t deed = draw_below(&seed, 20);
        const uint64_t request = control.requests > 0 ? 1 + draw_below(&seed, control.requests) : 0;
        struct object *object = &objects[draw_below(&seed, 3)];
        struct wire_unload unload = {.generation = control.generation};

        if (deed < 6 && control.requests < HEARD_MAX - 1) {
            (void)control_ask(&control, &(struct wanted){.object = deed < 2 ? NULL : object, .prompt_tokens = 10, .seed = seed,
                                                         .max_tokens = 1 + (uint32_t)draw_below(&seed, 40),
                                                         .credit = 1 + (uint32_t)draw_below(&seed, 60)});
        } else if (deed < 9 && request >= since && heard_of(&control, request)->reply.ends == 0) {
            (void)wire_say(control.wire, WIRE_CREDIT, &(struct wire_credit){.request = request, .tokens = 20}, 0, NULL, 0);
        } else if (deed < 11 && request >= since && heard_of(&control, request)->reply.ends == 0) {
            (void)wire_say(control.wire, WIRE_ABORT, &(struct wire_abort){.request = request}, 0, NULL, 0);
        } else if (deed < 14) {
            control_load(&control, object);
        } else if (deed == 14) {
            memcpy(unload.digest, object->key, 32);
            control_say(&control, WIRE_UNLOAD, &unload, NULL, 0);
        } else if (deed == 15 && round % 4 == 0) {
            control_again(&control);
            since = control.requests + 1;
        }
        control_turn(&control, 0);
    }
    for (uint64_t request = since; request <= control.requests; request++)
        (void)wire_say(control.wire, WIRE_CREDIT, &(struct wire_credit){.request = request, .tokens = 1000}, 0, NULL, 0);
    for (uint64_t request = 1; request <= control.requests; request++) {
        struct heard *heard = heard_of(&control, request);

        control_until(&control, heard->usages == 1 && (request < since || heard->reply.ends == 1));
        assert_true(heard->usage.output_tokens >= heard->reply.count);
        if (heard->reply.ends == 1 && heard->done.finish != CORE_END_CANCELLED)
            assert_int_equal(heard->usage.output_tokens, heard->reply.count);
    }
    assert_true(control.requests > 20);
    control_until(&control, control.beat.running == 0 && control.beat.waiting == 0 && control.beat.kv_free_permille == 1000);
    control_say(&control, WIRE_DRAIN, &(struct wire_drain){.deadline_ms = UINT32_MAX}, NULL, 0);
    for (int i = 0; i < 10; i++)
        control_turn(&control, 5);
    assert_int_equal(control_join(&control), STATUS_OK);
    for (uint32_t i = 0; i < 3; i++)
        object_end(&objects[i]);
    control_end(&control);
}

/* Hardened, with an empty environment, and nothing open but its socket. */
static void the_program_itself_serves(void **context)
{
    static struct control control;
    const char *const arguments[] = {berth_exec(), "worker", "server", "--device", "cpu", "--mode", "exact", "--threads", "1", NULL};
    struct object object;
    struct heard *heard;

    (void)context;
    control_begin_program(&control, arguments);
    place_adapter(&control.place, "one", 8, 7);
    object_make(&control, "one", "acme", &object);
    control_load(&control, &object);
    heard = control_answer(&control, &(struct wanted){.object = &object, .prompt_tokens = PROMPT, .seed = 3, .max_tokens = 30});
    expect(&control, "one", 3, 30, heard);
    control_say(&control, WIRE_DRAIN, &(struct wire_drain){.deadline_ms = UINT32_MAX}, NULL, 0);
    control_turn(&control, 10);
    assert_int_equal(control_join(&control), STATUS_OK);
    object_end(&object);
    control_end(&control);
}

static void many(struct serving_config *config)
{
    config->worker.adapters_max = 5000;
}

static void five_thousand_adapters_are_registered_at_once(void **context)
{
    static struct control control;
    struct rlimit limit;
    struct object object;

    (void)context;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 5200) {
        printf("skipped: a process may open %llu files here\n", (unsigned long long)limit.rlim_cur);
        skip();
    }
    control_begin(&control, many);
    place_adapter(&control.place, "one", 8, 7);
    object_make(&control, "one", "acme", &object);
    for (uint32_t i = 0; i < 4999; i++) {
        object.key[0] ^= (uint8_t)(i % 251 + 1);
        object.key[1] = (uint8_t)(i >> 8);
        object.key[2] = (uint8_t)i;
        control_load(&control, &object);
    }
    object_end(&object);
    object_make(&control, "one", "acme", &object);
    control_load(&control, &object);
    assert_int_equal(control_answer(&control, &(struct wanted){.object = &object, .prompt_tokens = PROMPT, .max_tokens = 2})->done.finish,
                     CORE_END_LENGTH);
    control_again(&control);
    assert_int_equal(control.residents, 5000);
    assert_int_equal(control.unloadeds, 0);
    object.key[3] ^= 1;
    control_load(&control, &object);
    control_until(&control, control.unloadeds == 1);
    assert_int_equal(control.unloaded.code, STATUS_FULL);
    object_end(&object);
    control_end(&control);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_workers_bit_for_bit),
        cmocka_unit_test(what_host_memory_let_go_is_read_again),
        cmocka_unit_test(who_does_not_read_holds_no_batch),
        cmocka_unit_test(an_abort_ends_it_and_is_billed),
        cmocka_unit_test(texts_best_ones_and_stop_strings_go_through),
        cmocka_unit_test(a_prompt_may_come_as_a_file),
        cmocka_unit_test(what_cannot_be_served_is_refused),
        cmocka_unit_test(an_adapter_that_does_not_open_is_unloaded_after_its_requests),
        cmocka_unit_test(what_is_refused_at_once_is_unloaded_at_once),
        cmocka_unit_test(an_unload_ends_no_request_and_frees_its_name),
        cmocka_unit_test(a_new_control_plane_finds_the_adapters_and_hears_of_the_usage),
        cmocka_unit_test(a_drain_finishes_and_ends),
        cmocka_unit_test(a_drain_has_a_deadline),
        cmocka_unit_test(without_a_control_plane_the_base_is_held_for_a_while),
        cmocka_unit_test(a_storm_bills_each_request_once),
        cmocka_unit_test(the_program_itself_serves),
        cmocka_unit_test(five_thousand_adapters_are_registered_at_once),
    };

    return cmocka_run_group_tests_name("serving", tests, NULL, NULL);
}
