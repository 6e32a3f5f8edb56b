/* Which modules an adapter changes, by the rules of PEFT (peft/tuners/tuners_utils.py, check_target_module_exists;
 * peft/utils/other.py, get_pattern_key): a target of a list is a module's whole path or its ending after a dot; a
 * string must match the whole path as a regular expression; the first key of a pattern wins of which `(.*\.)?(KEY)$`
 * matches. PCRE2 with small limits runs what strangers wrote. */
#include "engine/lora/internal.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/words.h"

#define REGEX_BYTES_MAX 2048
#define REGEX_STEPS_MAX 20000
#define PATTERN_KEYS_MAX 4096

/* NULL when it is none; that has been told. */
static pcre2_code *compile(const char *field, const char *before, const char *text, const char *after, struct faults *faults)
{
    char whole[REGEX_BYTES_MAX + 32];
    char shown[EXCERPT_MAX];
    int code = 0;
    PCRE2_SIZE at = 0;
    pcre2_code *regex = NULL;

    if (strlen(text) <= REGEX_BYTES_MAX) {
        snprintf(whole, sizeof(whole), "%s%s%s", before, text, after);
        regex = pcre2_compile((PCRE2_SPTR)whole, PCRE2_ZERO_TERMINATED,
                              PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_NEVER_BACKSLASH_C, &code, &at, NULL);
    }
    if (regex == NULL)
        fault(faults, "%s: %s: %s is no regular expression that can be run here", faults->shown, field,
              excerpt(text, strlen(text), shown));
    return regex;
}

/* A match that takes too many steps counts as none, and is told once. */
struct matcher {
    pcre2_match_data *data;
    pcre2_match_context *limits;
    struct faults *faults;
    bool told;
};

static bool matches(struct matcher *matcher, const pcre2_code *regex, const char *path)
{
    int result = pcre2_match(regex, (PCRE2_SPTR)path, strlen(path), 0, 0, matcher->data, matcher->limits);

    if (result < 0 && result != PCRE2_ERROR_NOMATCH && !matcher->told) {
        matcher->told = true;
        fault(matcher->faults, "%s: a regular expression of adapter_config.json takes too many steps", matcher->faults->shown);
    }
    return result >= 0;
}

/* One of a list: the path or its ending after a dot. */
static bool is_named(const char *path, const char *name)
{
    size_t path_bytes = strlen(path);
    size_t name_bytes = strlen(name);

    if (name_bytes > path_bytes || strcmp(path + path_bytes - name_bytes, name) != 0)
        return false;
    return name_bytes == path_bytes || path[path_bytes - name_bytes - 1] == '.';
}

static bool is_listed(const json_t *list, const char *path)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (is_named(path, json_string_value(json_array_get(list, i))))
            return true;
    return false;
}

static bool layer_is_listed(const json_t *layers, int32_t layer)
{
    if (layers == NULL || json_is_integer(layers))
        return layers == NULL || json_integer_value(layers) == layer;
    for (size_t i = 0; i < json_array_size(layers); i++)
        if (json_integer_value(json_array_get(layers, i)) == layer)
            return true;
    return false;
}

static void check_layer(int64_t layer, const struct dims *dims, struct faults *faults)
{
    if (layer < 0 || layer >= dims->layers)
        fault(faults, "%s: layers_to_transform: there is no layer %lld in a model of %d", faults->shown,
              (long long)layer, dims->layers);
}

/* Each name must mean something in this model: what PEFT would pass over in silence is most often a mistake. */
static void check_names(const struct peft_config *config, const struct dims *dims, struct faults *faults)
{
    for (size_t i = 0; i < json_array_size(config->targets); i++) {
        const char *name = json_string_value(json_array_get(config->targets, i));
        char path[TENSOR_NAME_MAX];
        char shown[EXCERPT_MAX];
        bool found = false;

        for (int32_t layer = 0; layer < dims->layers && !found; layer++)
            for (enum lora_module module = 0; module < LORA_MODULE_COUNT && !found; module++)
                found = is_named(model_linear_name(layer, module, "", path), name);
        if (!found)
            fault(faults,
                  "%s: target_modules: %s is none of the modules of this model that adapters may change: "
                  "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj",
                  faults->shown, excerpt(name, strlen(name), shown));
    }
    if (json_is_integer(config->layers))
        check_layer(json_integer_value(config->layers), dims, faults);
    for (size_t i = 0; i < json_array_size(config->layers); i++)
        check_layer(json_integer_value(json_array_get(config->layers, i)), dims, faults);
}

struct keyed {
    pcre2_code *regex;
    double value;
};

/* In the order of the file, which decides. */
static size_t compile_keys(const char *field, const json_t *pattern, struct faults *faults, struct keyed *ret_keys)
{
    const char *key;
    json_t *value;
    size_t count = 0;

    if (json_object_size(pattern) > PATTERN_KEYS_MAX) {
        fault(faults, "%s: %s has more than %d keys", faults->shown, field, PATTERN_KEYS_MAX);
        return 0;
    }
    json_object_foreach((json_t *)(uintptr_t)pattern, key, value) {
        ret_keys[count].value = json_number_value(value);
        ret_keys[count++].regex = compile(field, "(?:.*\\.)?(?:", key, ")", faults);
    }
    return count;
}

static double keyed_value(struct matcher *matcher, const struct keyed *keys, size_t count, const char *path, double otherwise)
{
    for (size_t i = 0; i < count; i++)
        if (keys[i].regex != NULL && matches(matcher, keys[i].regex, path))
            return keys[i].value;
    return otherwise;
}

static void free_keys(struct keyed *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pcre2_code_free(keys[i].regex);
}

static void refuse_others(struct matcher *matcher, const pcre2_code *regex)
{
    static const char *const others[] = {"lm_head", "model.embed_tokens"};

    for (size_t i = 0; i < ARRAY_COUNT(others); i++)
        if (matches(matcher, regex, others[i]))
            fault(matcher->faults, "%s: target_modules matches %s, which adapters may not change here",
                  matcher->faults->shown, others[i]);
}

void peft_choose(const struct peft_config *config, const struct dims *dims, struct faults *faults, struct peft_choice *ret_choice)
{
    const char *text = json_string_value(config->targets);
    bool all = text != NULL && strcmp(text, "all-linear") == 0;
    pcre2_code *regex = text != NULL && !all ? compile("target_modules", "", text, "", faults) : NULL;
    struct keyed *keys = calloc(2 * PATTERN_KEYS_MAX, sizeof(*keys));
    struct keyed *alphas = keys + PATTERN_KEYS_MAX;
    struct matcher matcher = {pcre2_match_data_create(1, NULL), pcre2_match_context_create(NULL), faults, false};
    size_t ranks_count;
    size_t alphas_count;
    char path[TENSOR_NAME_MAX];

    check(keys != NULL && matcher.data != NULL && matcher.limits != NULL);
    pcre2_set_match_limit(matcher.limits, REGEX_STEPS_MAX);
    ranks_count = compile_keys("rank_pattern", config->rank_pattern, faults, keys);
    alphas_count = compile_keys("alpha_pattern", config->alpha_pattern, faults, alphas);
    check_names(config, dims, faults);
    if (regex != NULL)
        refuse_others(&matcher, regex);
    for (int32_t layer = 0; layer < dims->layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++) {
            struct peft_choice *choice = &ret_choice[layer * LORA_MODULE_COUNT + (int32_t)module];

            model_linear_name(layer, module, "", path);
            choice->chosen = all || (regex != NULL ? matches(&matcher, regex, path) : is_listed(config->targets, path));
            choice->chosen &= !is_listed(config->excluded, path) && layer_is_listed(config->layers, layer);
            if (!choice->chosen)
                continue;
            choice->rank = (int32_t)keyed_value(&matcher, keys, ranks_count, path, config->rank);
            choice->alpha = keyed_value(&matcher, alphas, alphas_count, path, config->alpha);
        }
    free_keys(keys, ranks_count);
    free_keys(alphas, alphas_count);
    free(keys);
    pcre2_match_data_free(matcher.data);
    pcre2_match_context_free(matcher.limits);
    pcre2_code_free(regex);
}
