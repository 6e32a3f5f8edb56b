/* berth-exec model inspect: what a model or an adapter is. Both forms of output are made from one JSON object, so they
 * cannot disagree. */
#include "cmd_model.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/lora/pack.h"
#include "engine/lora/peft.h"
#include "engine/model/weights.h"
#include "host/words.h"

enum { OPTION_base, OPTION_digest, OPTION_json, OPTION_help };
static const struct option table[] = {
    {"base", "MODEL", "of an adapter: hold it against this model too"},
    {"digest", NULL, "of a model: SHA-256 of its weight files, which reads all of them"},
    {"json", NULL, "one object instead of the lines"},
    {"help", NULL, "this text"},
};

static const char *const dtype_names[DTYPE_COUNT] = {
#define X(name, text, bytes) [DTYPE_##name] = text,
    DTYPES(X)
#undef X
};
static const char *const module_names[] = {
#define X(name, text, group) text,
    LORA_MODULES(X)
#undef X
};

static void print_help(void)
{
    puts(
        "usage: berth-exec model inspect DIR [--digest] [--base MODEL] [--json]\n\n"
        "Opens a model or a PEFT adapter as serving would, checks all of it, and says what it is. An adapter's digest is its identity; it\n"
        "is of what the adapter does, not of its files. Without --base an adapter is checked as far as it can be without its model.\n");
    options_print(stdout, table, ARRAY_COUNT(table));
    puts("\nExit codes: 0 done, 1 it could not be done (or the folder is refused), 2 wrong usage.");
}

static json_t *describe_rope(const struct model_config *config)
{
    const struct rope *rope = &config->rope;
    json_t *about = json_pack("{s:s, s:f}", "kind", rope_kind_name(rope->kind), "theta", rope->theta);

    if (rope->kind != ROPE_PLAIN) {
        json_object_set_new(about, "factor", json_real(rope->factor));
        if (rope->positions_trained > 0)
            json_object_set_new(about, "positions_trained", json_integer(rope->positions_trained));
    }
    return about;
}

static json_t *describe_model(const struct model *model)
{
    const struct model_config *config = &model->config;
    const struct dims *dims = &config->dims;

    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:i, s:s, s:o, s:b, s:b, s:b}",
                     "kind", "model", "family", model_family_name(config->family), "layers", (int)dims->layers,
                     "hidden", (int)dims->hidden, "heads", (int)dims->heads, "kv_heads", (int)dims->kv_heads,
                     "head_dim", (int)dims->head_dim, "ffn", (int)dims->ffn, "vocabulary", (int)dims->vocabulary,
                     "positions_max", (int)config->positions_max, "parameters", (json_int_t)model_parameters(config),
                     "weights_bytes", (json_int_t)model->weights_bytes, "file_bytes",
                     (json_int_t)safetensors_file_bytes(model->files), "files", (int)safetensors_files(model->files),
                     "dtype", dtype_names[model->dtype], "rope", describe_rope(config), "tied_head",
                     (int)config->tied_head, "qkv_bias", (int)config->qkv_bias, "qk_norm", (int)config->qk_norm);
}

/* The scale of all pairs, or null where they differ. */
static json_t *describe_scale(const struct lora_source *source)
{
    const struct lora_pair *first = NULL;

    for (int32_t layer = 0; layer < source->layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++) {
            const struct lora_pair *pair = lora_source_pair(source, layer, module);

            if (pair->a == NULL)
                continue;
            if (first != NULL && float_bits(first->scale) != float_bits(pair->scale))
                return json_null();
            first = pair;
        }
    check(first != NULL);
    return json_real(first->scale);
}

static json_t *describe_adapter(const struct peft *peft, const struct dims *dims)
{
    char digest[DIGEST_TEXT_MAX];
    json_t *modules = json_array();
    json_t *about;

    for (int i = 0; i < LORA_MODULE_COUNT; i++)
        if (peft->source.modules >> i & 1)
            json_array_append_new(modules, json_string(module_names[i]));
    about = json_pack(
        "{s:s, s:i, s:f, s:b, s:o, s:o, s:i, s:i, s:I, s:I, s:I, s:I, s:s}", "kind", "adapter", "rank",
        (int)peft->source.rank, "alpha", peft->alpha_stated, "rslora", (int)peft->rslora, "scale",
        describe_scale(&peft->source), "modules", modules, "layers_adapted", (int)peft->layers_adapted, "tensors",
        (int)peft->tensors, "tensor_bytes", (json_int_t)peft->tensor_bytes, "file_bytes", (json_int_t)peft->file_bytes,
        "packed_bytes_exact", (json_int_t)lora_pack_bytes(&peft->source, dims, MODE_EXACT), "packed_bytes_fast",
        (json_int_t)lora_pack_bytes(&peft->source, dims, MODE_FAST), "digest", digest_text(peft->digest, digest));
    return about;
}

/* "weights bytes  1,040,128" */
static void print_line(const char *key, const json_t *value)
{
    char name[64];
    char text[NUMBER_TEXT_MAX];
    char *written;

    snprintf(name, sizeof(name), "%s", key);
    for (char *at = name; *at != '\0'; at++)
        if (*at == '_')
            *at = ' ';
    printf("  %-20s ", name);
    if (json_is_integer(value)) {
        puts(count_text((uint64_t)json_integer_value(value), text));
    } else if (json_is_real(value)) {
        puts(number_text(json_real_value(value), text));
    } else if (json_is_string(value)) {
        puts(json_string_value(value));
    } else if (json_is_boolean(value)) {
        puts(json_is_true(value) ? "yes" : "no");
    } else if (json_is_null(value)) {
        puts("differs between modules");
    } else {
        written = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        for (char *at = written; at != NULL && *at != '\0'; at++)
            if (strchr("[]{}\"", *at) == NULL)
                putchar(*at == ',' ? ' ' : *at);
        putchar('\n');
        free(written);
    }
}

static int print(json_t *about, const char *directory, bool json)
{
    const char *key;
    json_t *value;
    int failed = 0;

    check(about != NULL);
    if (json) {
        failed = json_dumpf(about, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else {
        puts(directory);
        json_object_foreach(about, key, value)
            print_line(key, value);
    }
    json_decref(about);
    return failed == 0 ? EXIT_OK : EXIT_FAILED;
}

static int inspect_model(const char *directory, bool digest, bool json)
{
    struct refusal refusal = {""};
    struct model *model = NULL;
    uint8_t sha[DIGEST_BYTES];
    char text[DIGEST_TEXT_MAX];
    json_t *about;

    if (model_open(directory, &model, &refusal) != STATUS_OK)
        return model_refused("inspect", &refusal);
    about = describe_model(model);
    if (digest) {
        model_catch_stop();
        if (safetensors_digest(model->files, &model_stop, sha) != STATUS_OK) {
            json_decref(about);
            model_close(model);
            return model_refused("inspect", &refusal);
        }
        json_object_set_new(about, "digest", json_string(digest_text(sha, text)));
    }
    model_close(model);
    return print(about, directory, json);
}

static int inspect_adapter(const char *directory, const char *base, bool json)
{
    struct refusal refusal = {""};
    struct model_config config = {.family = FAMILY_LLAMA};
    struct peft *peft = NULL;
    enum status status =
        base != NULL ? model_config_read(base, &config, &refusal) : peft_infer_dims(directory, &config.dims, &refusal);
    json_t *about;

    if (status == STATUS_OK)
        status = peft_open(directory, &config, LORA_RANK_MAX, &peft, &refusal);
    if (status != STATUS_OK)
        return model_refused("inspect", &refusal);
    about = describe_adapter(peft, &config.dims);
    peft_close(peft);
    return print(about, directory, json);
}

static int inspect(const char *directory, const char *base, bool digest, bool json)
{
    char path[4096];
    bool adapter;

    snprintf(path, sizeof(path), "%.4000s/adapter_config.json", directory);
    adapter = access(path, F_OK) == 0;
    if (base != NULL && !adapter) {
        fprintf(stderr, "berth-exec model inspect: --base is for adapters, and %s holds no adapter_config.json\n", directory);
        return EXIT_USAGE;
    }
    return adapter ? inspect_adapter(directory, base, json) : inspect_model(directory, digest, json);
}

int cmd_model_inspect(int argc, char **argv)
{
    struct options options = {.command = "berth-exec model inspect", .table = table, .count = ARRAY_COUNT(table), .errors = stderr,
                              .argc = argc, .argv = argv, .at = 1};
    const char *directory = NULL;
    const char *base = NULL;
    const char *value;
    bool digest = false;
    bool json = false;
    int option;

    while ((option = options_next(&options, &value)) != OPTION_END) {
        switch (option) {
        case OPTION_base:
            base = value;
            break;
        case OPTION_digest:
            digest = true;
            break;
        case OPTION_json:
            json = true;
            break;
        case OPTION_help:
            print_help();
            return EXIT_OK;
        case OPTION_OPERAND:
            if (directory == NULL) {
                directory = value;
                break;
            }
            fprintf(stderr, "berth-exec model inspect: takes one folder (%s)\n", value);
            return EXIT_USAGE;
        default:
            return EXIT_USAGE;
        }
    }
    if (directory != NULL)
        return inspect(directory, base, digest, json);
    fputs("berth-exec model inspect: needs a folder of a model or an adapter\n", stderr);
    return EXIT_USAGE;
}
