/* Merged weights serve as their adapter's version, and as nothing else. */
#include <math.h>
#include <stdio.h>

#include "engine/lora/merge.h"
#include "rig.h"
#include "worker/merged.h"

/* The base with adapter `a` folded in, as model merge leaves it. */
static void merge(struct place *place, char *ret_path, size_t size)
{
    const char *adapter = place_adapter(place, "a", 8, 3);
    struct refusal refusal = {{0}};
    struct model *model;
    struct folder folder;
    struct peft *peft;
    char weights[4200];

    snprintf(ret_path, size, "%s-merged", place->base);
    assert_int_equal(folder_begin(&folder, ret_path, &refusal), STATUS_OK);
    assert_int_equal(model_open(place->base, &model, &refusal), STATUS_OK);
    assert_int_equal(peft_open(adapter, &model->config, 64, &peft, &refusal), STATUS_OK);
    snprintf(weights, sizeof(weights), "%s/model.safetensors", folder.temporary);
    assert_int_equal(lora_merge(model, &peft->source, weights, NULL, NULL, &refusal), STATUS_OK);
    assert_int_equal(lora_merge_copy(place->base, folder.temporary, &refusal), STATUS_OK);
    assert_int_equal(merged_write(folder.temporary, peft->digest, &refusal), STATUS_OK);
    assert_int_equal(folder_commit(&folder, &refusal), STATUS_OK);
    peft_close(peft);
    model_close(model);
}

static void merged_weights_answer_as_their_adapter(void **context)
{
    struct place place;
    struct worker_config config;
    struct worker *pool;
    struct worker *merged;
    struct worker_adapter known;
    struct worker_adapter own;
    struct reply want = {0};
    struct reply got = {0};
    char path[600];

    (void)context;
    place_begin(&place, DTYPE_F32);
    merge(&place, path, sizeof(path));
    place_worker_config(&place, &config);
    pool = worker_opened(&config);
    worker_add(pool, &place, "a");
    config.model_directory = path;
    config.merged_as = "a";
    merged = worker_opened(&config);
    worker_ask_drawn(pool, "a", 9, 5, 8, &want);
    worker_finish(pool, &want, 1);
    worker_ask_drawn(merged, "a", 9, 5, 8, &got);
    worker_finish(merged, &got, 1);
    assert_true(same_ids(&got, &want));
    for (uint32_t i = 0; i < got.count; i++)
        assert_true(fabsf(got.logprobs[i] - want.logprobs[i]) < 1e-4f);
    /* The same identity: what was cached or counted for one is the other's. */
    assert_true(worker_adapter_at(pool, 0, &known) && worker_adapter_at(merged, 0, &own));
    assert_string_equal(own.name, "a");
    assert_memory_equal(own.digest, known.digest, DIGEST_BYTES);
    assert_false(worker_adapter_at(merged, 1, &own));
    worker_close(pool);
    worker_close(merged);
    place_end(&place);
}

static void merged_weights_are_nobody_elses(void **context)
{
    struct place place;
    struct worker_config config;
    struct refusal refusal = {{0}};
    struct worker *worker = NULL;
    struct reply reply = {0};
    const int32_t prompt[] = {5, 6};
    char path[600];

    (void)context;
    place_begin(&place, DTYPE_F32);
    merge(&place, path, sizeof(path));
    place_worker_config(&place, &config);
    config.merged_as = "a";
    assert_int_equal(worker_open(&config, &worker, &refusal), STATUS_INVALID); /* a base under an adapter's name */
    config.model_directory = path;
    config.merged_as = NULL;
    assert_int_equal(worker_open(&config, &worker, &refusal), STATUS_INVALID); /* merged weights as a base */
    config.merged_as = "a";
    worker = worker_opened(&config);
    assert_int_equal(worker_asks(worker, &(struct worker_request){.prompt = prompt, .prompt_tokens = 2, .max_tokens = 2}, &reply, &refusal),
                     STATUS_NOT_FOUND);
    assert_int_equal(worker_asks(worker, &(struct worker_request){.adapter = "b", .prompt = prompt, .prompt_tokens = 2, .max_tokens = 2},
                                 &reply, &refusal), STATUS_NOT_FOUND);
    assert_int_equal(worker_adapter_add(worker, "b", place_adapter(&place, "b", 8, 4), &refusal), STATUS_INVALID);
    assert_int_equal(worker_adapter_remove(worker, "a"), STATUS_NOT_FOUND);
    worker_close(worker);
    place_end(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merged_weights_answer_as_their_adapter),
        cmocka_unit_test(merged_weights_are_nobody_elses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
