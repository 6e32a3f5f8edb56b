/* run.json beside an adapter: which base, data, settings and arithmetic it came of, and how far it went. By it a run that is given again
 * knows its own adapter. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/files/file.h"
#include "engine/train/run/internal.h"

#define RECORD_BYTES_MAX (1 << 20)

static json_t *whole_json(int64_t value)
{
    return json_integer(value);
}

static json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *settings_json(const struct run_settings *settings)
{
    json_t *all = json_object();

#define X(type, name, about) json_object_set_new(all, #name, _Generic(settings->name, double: number_json, int64_t: whole_json)(settings->name));
    RUN_SETTINGS(X)
#undef X
    json_object_set_new(all, "method", json_string(run_method_name((enum run_method)settings->method)));
    json_object_set_new(all, "schedule", json_string(schedule_kind_name((enum schedule_kind)settings->schedule)));
    json_object_set_new(all, "mode", json_string(settings->mode == MODE_FAST ? "fast" : "exact"));
    return all;
}

/* What two runs have in common whose adapters are the same. */
static json_t *origin_json(const struct checkpoint_head *head, bool validated)
{
    char base[DIGEST_TEXT_MAX];
    char data[DIGEST_TEXT_MAX];
    char validation[DIGEST_TEXT_MAX];

    return json_pack("{s:I, s:s, s:s, s:s?, s:o}", "numerics_version", (json_int_t)head->numerics, "base", digest_text(head->base, base),
                     "data", digest_text(head->data, data), "validation", validated ? digest_text(head->validation, validation) : NULL,
                     "settings", settings_json(&head->settings));
}

static void name_record(const char *folder, char ret_path[4200])
{
    snprintf(ret_path, 4200, "%.4090s/run.json", folder);
}

enum status run_record_write(const struct run *run, const char *folder, const struct run_outcome *outcome, struct refusal *refusal)
{
    const struct checkpoint_head *head = &run->at.head;
    json_t *record = json_pack("{s:o, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:b}", "origin", origin_json(head, run->config->validation != NULL),
                               "computes", head->computes, "steps", (json_int_t)outcome->steps, "best_step", (json_int_t)outcome->best_step,
                               "train_loss", number_json(outcome->loss), "train_accuracy", number_json(outcome->accuracy),
                               "valid_loss", number_json(outcome->valid_loss), "valid_accuracy", number_json(outcome->valid_accuracy),
                               "stopped_early", (int)outcome->stopped_early);
    char *text = record == NULL ? NULL : json_dumps(record, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    char path[4200];
    enum status status;

    json_decref(record);
    if (text == NULL)
        return refuse(refusal, STATUS_FULL, "no memory");
    name_record(folder, path);
    status = file_write(path, text, strlen(text), refusal);
    free(text);
    return status;
}

static double number_of(const json_t *record, const char *name)
{
    const json_t *value = json_object_get(record, name);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

bool run_record_is_mine(const struct run *run, struct run_outcome *ret_outcome)
{
    struct refusal refusal;
    char path[4200];
    json_t *record;
    json_t *mine;
    bool same;

    name_record(run->config->out, path);
    if (file_read_json(AT_FDCWD, path, path, RECORD_BYTES_MAX, &record, &refusal) != STATUS_OK)
        return false;
    mine = origin_json(&run->at.head, run->config->validation != NULL);
    same = json_equal(mine, json_object_get(record, "origin"));
    if (same)
        *ret_outcome = (struct run_outcome){.steps = json_integer_value(json_object_get(record, "steps")),
                                            .best_step = json_integer_value(json_object_get(record, "best_step")),
                                            .loss = number_of(record, "train_loss"),
                                            .accuracy = number_of(record, "train_accuracy"),
                                            .valid_loss = number_of(record, "valid_loss"),
                                            .valid_accuracy = number_of(record, "valid_accuracy"),
                                            .stopped_early = json_is_true(json_object_get(record, "stopped_early")),
                                            .recompute = run->recompute};
    json_decref(mine);
    json_decref(record);
    return same;
}
