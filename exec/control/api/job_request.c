#include "control/api/job_request.h"

#include <math.h>
#include <stdio.h>

#define METADATA_PAIRS_MAX 16
#define METADATA_KEY_MAX 64 /* characters, as those below */
#define METADATA_VALUE_MAX 512
#define SUFFIX_MAX 64
#define SEED_MAX 2147483647
#define RANK_MAX 256
#define NAME_SHOWN_MAX 64

/* A key of the request's that can be said back: it has a bound, and is no text that somebody pasted there. */
static bool is_name(const char *key)
{
    const size_t length = strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");

    return length > 0 && length <= NAME_SHOWN_MAX && key[length] == '\0';
}

static const char *shown(const char *key)
{
    return is_name(key) ? key : "(no name)";
}

/* --- numbers ---------------------------------------------------------------------------------------------------------------- */

/* A hyperparameter: which of the settings it is, its range, and whether `least` itself is out of it. */
struct knob {
    const char *name;
    size_t offset;
    bool is_real;
    bool open;
    double least;
    double most;
    bool dpo_only;
};
#define AT(member) offsetof(struct job_settings, member)
static const struct knob knobs[] = {
    {"n_epochs", AT(epochs), false, false, 1, 50, false},
    {"epochs", AT(epochs), false, false, 1, 50, false},
    {"batch_size", AT(batch), false, false, 1, 256, false},
    {"learning_rate_multiplier", AT(rate_multiplier), true, true, 0, 10000, false},
    {"learning_rate", AT(rate), true, true, 0, 1, false},
    {"rank", AT(rank), false, false, 1, RANK_MAX, false},
    {"alpha", AT(alpha), true, true, 0, 4096, false},
    {"beta", AT(beta), true, true, 0, 2, true},
};

static bool in_range(const struct knob *knob, double value)
{
    return isfinite(value) && (knob->open ? value > knob->least : value >= knob->least) && value <= knob->most;
}

static void refuse_knob(struct fault *fault, const struct knob *knob)
{
    fault_set(fault, 400, "invalid_hyperparameter", knob->name, "hyperparameters.%s must be \"auto\" or a %s %s %g, at most %g", knob->name,
              knob->is_real ? "number" : "whole number", knob->open ? "above" : "from", knob->least, knob->most);
}

static bool read_knob(const struct knob *knob, const json_t *value, struct job_settings *settings, struct fault *fault)
{
    void *at = (char *)settings + knob->offset;

    if (json_is_null(value) || (json_is_string(value) && strcmp(json_string_value(value), "auto") == 0))
        return true;
    if (knob->dpo_only && !settings->preferences)
        fault_set(fault, 400, "invalid_hyperparameter", knob->name, "hyperparameters.%s is the method dpo's", knob->name);
    else if (knob->is_real ? !json_is_number(value) : !json_is_integer(value))
        refuse_knob(fault, knob);
    else if (!in_range(knob, json_number_value(value)))
        refuse_knob(fault, knob);
    else if (knob->is_real)
        *(double *)at = json_number_value(value);
    else if (*(int64_t *)at != 0 && *(int64_t *)at != json_integer_value(value))
        fault_set(fault, 400, "invalid_hyperparameter", knob->name, "n_epochs and epochs are the same and differ here; give one of them");
    else
        *(int64_t *)at = (int64_t)json_integer_value(value);
    return fault->status == 0;
}

static bool read_early_stopping(const json_t *value, struct job_settings *settings, struct fault *fault)
{
    bool enabled = true;
    const char *key;
    json_t *item;

    if (json_is_null(value))
        return true;
    if (!json_is_object(value)) {
        fault_set(fault, 400, "invalid_hyperparameter", "early_stopping", "early_stopping is {\"enabled\", \"patience\", \"min_delta\"}");
        return false;
    }
    settings->patience = 1;
    json_object_foreach((json_t *)(uintptr_t)value, key, item) {
        if (strcmp(key, "enabled") == 0 && json_is_boolean(item))
            enabled = json_is_true(item);
        else if (strcmp(key, "patience") == 0 && json_is_integer(item) && json_integer_value(item) >= 1 && json_integer_value(item) <= 50)
            settings->patience = (int64_t)json_integer_value(item);
        else if (strcmp(key, "min_delta") == 0 && json_is_number(item) && json_number_value(item) >= 0 && json_number_value(item) <= 100)
            settings->min_delta = json_number_value(item);
        else
            fault_set(fault, 400, "invalid_hyperparameter", "early_stopping",
                      "early_stopping has enabled (a boolean), patience (evaluations, 1 to 50) and min_delta (0 to 100), and nothing else");
    }
    if (!enabled) {
        settings->patience = 0;
        settings->min_delta = 0;
    }
    return fault->status == 0;
}

static bool read_hyperparameter(const char *name, const json_t *value, struct job_settings *settings, struct fault *fault)
{
    for (size_t i = 0; i < ARRAY_COUNT(knobs); i++)
        if (strcmp(knobs[i].name, name) == 0)
            return read_knob(&knobs[i], value, settings, fault);
    if (strcmp(name, "early_stopping") == 0)
        return read_early_stopping(value, settings, fault);
    fault_set(fault, 400, "unknown_parameter", "hyperparameters", "hyperparameters.%s is not known here; known are n_epochs (or epochs), "
              "batch_size, learning_rate_multiplier, learning_rate, rank, alpha, beta and early_stopping", shown(name));
    return false;
}

static bool read_hyperparameters(const json_t *values, struct job_settings *settings, struct fault *fault)
{
    const char *key;
    json_t *value;

    if (values == NULL || json_is_null(values))
        return true;
    if (!json_is_object(values)) {
        fault_set(fault, 400, NULL, "hyperparameters", "hyperparameters must be an object");
        return false;
    }
    json_object_foreach((json_t *)(uintptr_t)values, key, value)
        if (!read_hyperparameter(key, value, settings, fault))
            return false;
    return true;
}

/* --- method ----------------------------------------------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static bool refuse_method(const char *type, struct fault *fault)
{
    if (type != NULL && strcmp(type, "reinforcement") == 0)
        fault_set(fault, 400, "unsupported_method", "method", "reinforcement is not offered here; the methods are supervised and dpo");
    else
        fault_set(fault, 400, "unsupported_method", "method", "method.type must be supervised or dpo");
    return false;
}

/* method.TYPE.hyperparameters; NULL: none. */
static bool read_method(const json_t *method, struct job_settings *settings, const json_t **ret_values, struct fault *fault)
{
    const char *type = text_of(method, "type");
    const char *key;
    json_t *value;

    *ret_values = NULL;
    if (method == NULL || json_is_null(method))
        return true;
    if (type == NULL || (strcmp(type, "supervised") != 0 && strcmp(type, "dpo") != 0))
        return refuse_method(type, fault);
    settings->preferences = strcmp(type, "dpo") == 0;
    json_object_foreach((json_t *)(uintptr_t)method, key, value) {
        const char *inner;
        json_t *part;

        if (strcmp(key, "type") == 0 || json_is_null(value))
            continue;
        if (strcmp(key, type) != 0 || !json_is_object(value)) {
            fault_set(fault, 400, "unknown_parameter", "method", "method.%s is not known here, or no object: method has type and, under the "
                      "type's name, its hyperparameters", shown(key));
            return false;
        }
        json_object_foreach(value, inner, part) {
            if (strcmp(inner, "hyperparameters") != 0) {
                fault_set(fault, 400, "unknown_parameter", "method", "method.%s.%s is not known here; it has hyperparameters and nothing else", type,
                          shown(inner));
                return false;
            }
            *ret_values = part;
        }
    }
    return true;
}

static bool read_settings(const json_t *body, struct job_settings *settings, struct fault *fault)
{
    const json_t *outer = json_object_get(body, "hyperparameters");
    const json_t *inner;

    if (!read_method(json_object_get(body, "method"), settings, &inner, fault))
        return false;
    if (outer != NULL && json_is_null(outer))
        outer = NULL;
    if (inner != NULL && json_is_null(inner))
        inner = NULL;
    if (outer != NULL && inner != NULL && !json_equal(outer, inner)) {
        fault_set(fault, 400, NULL, "hyperparameters", "hyperparameters stands twice and differs: give it once, in method.%s",
                  job_method(settings));
        return false;
    }
    return read_hyperparameters(inner != NULL ? inner : outer, settings, fault);
}

/* --- the rest --------------------------------------------------------------------------------------------------------------- */

static size_t characters(const char *text)
{
    size_t count = 0;

    for (; *text != '\0'; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

static bool read_metadata(const json_t *metadata, struct job_request *request, struct fault *fault)
{
    const char *key;
    json_t *value;
    bool good = true;

    if (metadata == NULL || json_is_null(metadata))
        return true;
    good = json_is_object(metadata) && json_object_size(metadata) <= METADATA_PAIRS_MAX;
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value)
        good = good && json_is_string(value) && characters(key) <= METADATA_KEY_MAX && characters(json_string_value(value)) <= METADATA_VALUE_MAX;
    if (!good)
        fault_set(fault, 400, NULL, "metadata", "metadata must be an object of at most %d texts, keys of at most %d characters, values of at "
                  "most %d", METADATA_PAIRS_MAX, METADATA_KEY_MAX, METADATA_VALUE_MAX);
    request->metadata = metadata;
    return good;
}

/* As it stands in the model's name: small letters and digits, '-' for what is between them. */
static void to_slug(const char *text, char ret_slug[JOB_SUFFIX_BYTES])
{
    size_t length = 0;

    for (; *text != '\0' && length < JOB_SUFFIX_BYTES - 1; text++) {
        const char c = *text >= 'A' && *text <= 'Z' ? (char)(*text + 'a' - 'A') : *text;

        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            ret_slug[length++] = c;
        else if (length > 0 && ret_slug[length - 1] != '-')
            ret_slug[length++] = '-';
    }
    while (length > 0 && ret_slug[length - 1] == '-')
        length--;
    ret_slug[length] = '\0';
}

static bool read_suffix(const json_t *suffix, struct job_settings *settings, struct fault *fault)
{
    const char *text = json_string_value(suffix);

    if (suffix == NULL || json_is_null(suffix) || (text != NULL && text[0] == '\0'))
        return true;
    if (text != NULL && characters(text) <= SUFFIX_MAX)
        to_slug(text, settings->suffix);
    if (settings->suffix[0] != '\0')
        return true;
    fault_set(fault, 400, NULL, "suffix", "suffix must be a text of at most %d characters, a letter or digit among them: it stands in the model's name",
              SUFFIX_MAX);
    return false;
}

/* Where none is given one is drawn, so that the job can be done again as it was. */
static bool read_seed(const json_t *seed, struct job_settings *settings, struct fault *fault)
{
    if (seed == NULL || json_is_null(seed)) {
        settings->seed = 1 + (int64_t)randombytes_uniform(SEED_MAX);
        return true;
    }
    if (!json_is_integer(seed) || json_integer_value(seed) < 0 || json_integer_value(seed) > SEED_MAX) {
        fault_set(fault, 400, NULL, "seed", "seed must be a whole number from 0 to %d", SEED_MAX);
        return false;
    }
    settings->seed = (int64_t)json_integer_value(seed);
    return true;
}

static bool read_dry_run(const json_t *dry_run, struct job_settings *settings, struct fault *fault)
{
    if (dry_run != NULL && !json_is_null(dry_run) && !json_is_boolean(dry_run)) {
        fault_set(fault, 400, NULL, "dry_run", "dry_run must be true or false");
        return false;
    }
    settings->dry_run = json_is_true(dry_run);
    return true;
}

static bool read_integrations(const json_t *integrations, struct fault *fault)
{
    if (integrations == NULL || json_is_null(integrations) || (json_is_array(integrations) && json_array_size(integrations) == 0))
        return true;
    fault_set(fault, 400, "unsupported_integration", "integrations",
              "integrations (wandb) are not offered here: nothing of a job leaves the platform; leave the field out");
    return false;
}

static bool read_names(const json_t *body, struct job_request *request, struct fault *fault)
{
    const char *other = text_of(body, "base_model");

    request->model = text_of(body, "model");
    request->file = text_of(body, "training_file");
    request->validation = text_of(body, "validation_file");
    if (request->model != NULL && other != NULL && strcmp(request->model, other) != 0)
        fault_set(fault, 400, NULL, "base_model", "model and base_model are the same field and differ here; give one of them");
    if (request->model == NULL)
        request->model = other;
    if (fault->status == 0 && (request->model == NULL || request->model[0] == '\0'))
        fault_set(fault, 400, NULL, "model", "model is missing: a base's name, or one of your own models'");
    else if (fault->status == 0 && (request->file == NULL || request->file[0] == '\0'))
        fault_set(fault, 400, NULL, "training_file", "training_file is missing: the id of a file, as POST /v1/files gives it");
    else if (fault->status == 0 && request->validation == NULL && json_object_get(body, "validation_file") != NULL &&
             !json_is_null(json_object_get(body, "validation_file")))
        fault_set(fault, 400, NULL, "validation_file", "validation_file must be a file's id");
    return fault->status == 0;
}

static bool check_keys(const json_t *body, struct fault *fault)
{
    static const char *const known[] = {"model", "base_model", "training_file", "validation_file", "suffix", "seed", "integrations", "metadata",
                                        "method", "hyperparameters", "dry_run"};
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)body, key, value) {
        bool found = false;

        for (size_t i = 0; i < ARRAY_COUNT(known) && !found; i++)
            found = strcmp(key, known[i]) == 0;
        if (!found) {
            fault_set(fault, 400, "unknown_parameter", is_name(key) ? key : NULL, "%s is not known here; known are model, training_file, "
                      "validation_file, suffix, seed, method, hyperparameters, metadata, dry_run and integrations", shown(key));
            return false;
        }
    }
    return true;
}

bool job_request_read(const json_t *body, struct job_request *ret_request, struct fault *fault)
{
    struct job_request request = {0};
    const bool good = check_keys(body, fault) && read_names(body, &request, fault) && read_settings(body, &request.settings, fault) &&
                      read_suffix(json_object_get(body, "suffix"), &request.settings, fault) &&
                      read_seed(json_object_get(body, "seed"), &request.settings, fault) &&
                      read_dry_run(json_object_get(body, "dry_run"), &request.settings, fault) &&
                      read_integrations(json_object_get(body, "integrations"), fault) &&
                      read_metadata(json_object_get(body, "metadata"), &request, fault);

    if (good)
        *ret_request = request;
    return good;
}
