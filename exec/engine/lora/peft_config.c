/* adapter_config.json, field by field. A table says of each field that PEFT writes what it may be here; a field that is
 * in no table may change the numbers in ways we do not know, so it is refused unless it is empty. */
#include "engine/lora/internal.h"

#include <math.h>

#include "host/words.h"

/* null, false, "", [], {}: as if it were not there. */
static bool is_empty(const json_t *value)
{
    return value == NULL || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* Read here or in peft_choose, or without effect on what a finished adapter computes. */
static const char *const taken[] = {
    "r",
    "lora_alpha",
    "use_rslora",
    "target_modules",
    "exclude_modules",
    "layers_to_transform",
    "layers_pattern",
    "rank_pattern",
    "alpha_pattern",
    "peft_type",
    "bias",
    "init_lora_weights",
    "auto_mapping",
    "base_model_name_or_path",
    "revision",
    "task_type",
    "inference_mode",
    "lora_dropout",
    "loftq_config",
    "megatron_core",
    "peft_version",
    "eva_config",
    "corda_config",
    "lora_ga_config",
    "qalora_group_size",
    "ensure_weight_tying",
    "runtime_config",
};

/* Refused unless empty, with a reason. */
static const struct {
    const char *field;
    const char *why;
} refused[] = {
    {"use_dora", "DoRA is not supported; merge the adapter into its base"},
    {"modules_to_save",
     "full copies of modules are not supported; train without modules_to_save, or merge the adapter into its base"},
    {"lora_bias", "biases of adapters are not supported"},
    {"fan_in_fan_out", "transposed weights are not of any supported model"},
    {"layer_replication", "replicated layers are not supported"},
    {"target_parameters", "adapters of parameters outside linear modules are not supported"},
    {"trainable_token_indices", "trained rows of the embedding table are not supported"},
    {"alora_invocation_tokens", "adapters that begin at a token (aLoRA) are not supported"},
    {"megatron_config", "adapters of Megatron's modules are not supported"},
    {"use_qalora", "QALoRA is not supported"},
    {"use_bdlora", "block-diagonal LoRA is not supported"},
    {"arrow_config", "Arrow's routing of adapters is not supported"},
};

/* Ways to begin that change the base itself: the adapter then belongs to another base than the one named. */
static const char *const changes_base[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};

static void check_known(const json_t *root, struct faults *faults)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)root, key, value) {
        char shown[EXCERPT_MAX];
        bool known = is_empty(value);

        for (size_t i = 0; i < ARRAY_COUNT(taken) && !known; i++)
            known = strcmp(key, taken[i]) == 0;
        for (size_t i = 0; i < ARRAY_COUNT(refused) && !known; i++) {
            if (strcmp(key, refused[i].field) != 0)
                continue;
            known = true;
            fault(faults, "%s: %s: %s", faults->shown, key, refused[i].why);
        }
        if (!known)
            fault(
                faults,
                "%s: the field %s of adapter_config.json is not known here and might change the numbers; leave it out if it does not",
                faults->shown, excerpt(key, strlen(key), shown));
    }
}

static void check_kind(const json_t *root, struct faults *faults)
{
    const char *type = json_string_value(json_object_get(root, "peft_type"));
    const char *bias = json_string_value(json_object_get(root, "bias"));
    const char *begun = json_string_value(json_object_get(root, "init_lora_weights"));
    char shown[EXCERPT_MAX];

    if (type == NULL || strcmp(type, "LORA") != 0)
        fault(faults, "%s: peft_type must be LORA; %s is not supported", faults->shown,
              type == NULL ? "none" : excerpt(type, strlen(type), shown));
    if (!is_empty(json_object_get(root, "bias")) && (bias == NULL || strcmp(bias, "none") != 0))
        fault(faults, "%s: bias must be none; trained biases are not supported", faults->shown);
    for (size_t i = 0; begun != NULL && i < ARRAY_COUNT(changes_base); i++)
        if (strncmp(begun, changes_base[i], strlen(changes_base[i])) == 0)
            fault(faults,
                  "%s: init_lora_weights %s changes the base when training begins; convert the adapter to a plain one",
                  faults->shown, changes_base[i]);
}

static const json_t *get(const json_t *root, const char *field)
{
    const json_t *value = json_object_get(root, field);

    return is_empty(value) ? NULL : value;
}

static void check_list(const char *field, const json_t *list, bool of_numbers, struct faults *faults)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);

        if (of_numbers ? json_is_integer(value) : json_is_string(value))
            continue;
        fault(faults, "%s: %s must be a list of %s", faults->shown, field, of_numbers ? "whole numbers" : "strings");
        return;
    }
}

static void read_targets(const json_t *root, struct faults *faults, struct peft_config *config)
{
    const json_t *pattern = get(root, "layers_pattern");

    config->targets = get(root, "target_modules");
    config->excluded = get(root, "exclude_modules");
    config->layers = get(root, "layers_to_transform");
    if (config->targets == NULL)
        fault(faults, "%s: target_modules is missing", faults->shown);
    else if (!json_is_string(config->targets) && !json_is_array(config->targets))
        fault(faults, "%s: target_modules must be a list or a string", faults->shown);
    check_list("target_modules", config->targets, false, faults);
    if (config->excluded != NULL && !json_is_array(config->excluded))
        fault(faults, "%s: exclude_modules must be a list; a regular expression is not supported there", faults->shown);
    check_list("exclude_modules", config->excluded, false, faults);
    if (config->layers != NULL && !json_is_integer(config->layers) && !json_is_array(config->layers))
        fault(faults, "%s: layers_to_transform must be a whole number or a list of them", faults->shown);
    check_list("layers_to_transform", config->layers, true, faults);
    if (config->layers != NULL && json_is_string(config->targets))
        fault(faults, "%s: layers_to_transform needs target_modules to be a list", faults->shown);
    if (json_array_size(pattern) == 1)
        pattern = json_array_get(pattern, 0);
    if (pattern != NULL && (!json_is_string(pattern) || strcmp(json_string_value(pattern), "layers") != 0))
        fault(faults, "%s: layers_pattern must be \"layers\", as the supported models call them", faults->shown);
}

static const json_t *read_pattern(const json_t *root, const char *field, bool whole, struct faults *faults)
{
    const json_t *pattern = get(root, field);
    const char *key;
    json_t *value;

    if (pattern != NULL && !json_is_object(pattern))
        fault(faults, "%s: %s must be an object", faults->shown, field);
    json_object_foreach((json_t *)(uintptr_t)pattern, key, value) {
        char shown[EXCERPT_MAX];

        if (whole ? json_is_integer(value) && json_integer_value(value) >= 1 && json_integer_value(value) <= INT32_MAX
                  : json_is_number(value) && json_number_value(value) > 0 && json_number_value(value) <= 1e6)
            continue;
        fault(faults, "%s: %s: %s must be a %s", faults->shown, field, excerpt(key, strlen(key), shown),
              whole ? "whole number >= 1" : "number above 0, at most 1e6");
    }
    return json_is_object(pattern) ? pattern : NULL;
}

double peft_scale(double alpha, int32_t rank, bool rslora)
{
    return rslora ? alpha / sqrt(rank) : alpha / rank;
}

void peft_config_read(const json_t *root, struct faults *faults, struct peft_config *ret_config)
{
    struct peft_config config = {.rank = 8, .alpha = 8};
    const json_t *rank = get(root, "r");
    const json_t *alpha = get(root, "lora_alpha");
    const json_t *rslora = json_object_get(root, "use_rslora");
    uint32_t before;

    check_kind(root, faults);
    check_known(root, faults);
    before = faults->count;
    if (rank != NULL && (!json_is_integer(rank) || json_integer_value(rank) < 1 || json_integer_value(rank) > INT32_MAX))
        fault(faults, "%s: r must be a whole number >= 1", faults->shown);
    else if (rank != NULL)
        config.rank = (int32_t)json_integer_value(rank);
    /* An alpha of 0 would serve the base under the adapter's name. */
    if (alpha != NULL && !(json_is_number(alpha) && json_number_value(alpha) > 0 && json_number_value(alpha) <= 1e6))
        fault(faults, "%s: lora_alpha must be a number above 0, at most 1e6", faults->shown);
    else if (alpha != NULL)
        config.alpha = json_number_value(alpha);
    if (rslora != NULL && !json_is_null(rslora) && !json_is_boolean(rslora))
        fault(faults, "%s: use_rslora must be true or false", faults->shown);
    config.rslora = json_is_true(rslora);
    read_targets(root, faults, &config);
    config.rank_pattern = read_pattern(root, "rank_pattern", true, faults);
    config.alpha_pattern = read_pattern(root, "alpha_pattern", false, faults);
    config.usable = faults->count == before;
    *ret_config = config;
}
