/* An adapter as a whole: its config chooses modules, its file must hold exactly their matrices, and every number is looked at once. */
#include "engine/lora/peft.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/files/file.h"
#include "engine/lora/internal.h"

#define PEFT_PREFIX "base_model.model."
#define PATH_BYTES_MAX 4096

struct opener {
    struct peft *peft;
    const struct dims *dims;
    int32_t rank_max;
    struct peft_choice *choice; /* [layers][modules] */
    bool *seen;                 /* [tensors] */
    char file_shown[PATH_BYTES_MAX];
    struct faults faults;
};

static const struct tensor *take(struct opener *opener, int32_t layer, enum lora_module module, const char *which, int64_t rows,
                                 int64_t columns, enum dtype *ret_dtype)
{
    char name[TENSOR_NAME_MAX + 64];
    char path[TENSOR_NAME_MAX];
    char shape[TENSOR_SHAPE_TEXT_MAX];
    const struct tensor *tensor;

    snprintf(name, sizeof(name), PEFT_PREFIX "%s.%s.weight", model_linear_name(layer, module, "", path), which);
    tensor = safetensors_find(opener->peft->file, name);
    if (tensor == NULL) {
        fault(&opener->faults, "%s: tensor %s is missing, which adapter_config.json promises", opener->file_shown, name);
        return NULL;
    }
    opener->seen[tensor - safetensors_at(opener->peft->file, 0)] = true;
    check(tensor_dtype(tensor, ret_dtype));
    if (tensor->shape[0] == rows && tensor->shape[1] == columns)
        return tensor;
    fault(&opener->faults, "%s: tensor %s is %s; for this base and rank it must be [%lld, %lld]", opener->file_shown, name,
          tensor_shape_text(tensor, shape), (long long)rows, (long long)columns);
    return NULL;
}

static void take_pair(struct opener *opener, int32_t layer, enum lora_module module, const struct peft_choice *choice)
{
    struct lora_pair *pair = &opener->peft->pairs[layer * LORA_MODULE_COUNT + (int32_t)module];
    const struct tensor *a =
        take(opener, layer, module, "lora_A", choice->rank, lora_module_in(opener->dims, module), &pair->a_dtype);
    const struct tensor *b =
        take(opener, layer, module, "lora_B", lora_module_out(opener->dims, module), choice->rank, &pair->b_dtype);

    if (a == NULL || b == NULL)
        return;
    pair->a = a->data;
    pair->b = b->data;
    pair->rank = choice->rank;
    pair->scale = (float)peft_scale(choice->alpha, choice->rank, opener->peft->rslora);
    opener->peft->tensor_bytes += a->bytes + b->bytes;
}

/* All pairs, and nothing else. */
static void take_tensors(struct opener *opener)
{
    struct lora_source *source = &opener->peft->source;

    for (int32_t layer = 0; layer < opener->dims->layers; layer++) {
        bool adapted = false;

        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++) {
            const struct peft_choice *choice = &opener->choice[layer * LORA_MODULE_COUNT + (int32_t)module];

            if (!choice->chosen)
                continue;
            take_pair(opener, layer, module, choice);
            source->modules |= 1u << module;
            source->rank = choice->rank > source->rank ? choice->rank : source->rank;
            adapted = true;
        }
        opener->peft->layers_adapted += adapted;
    }
    for (uint32_t i = 0; i < safetensors_count(opener->peft->file); i++)
        if (!opener->seen[i])
            fault(&opener->faults, "%s: tensor %s belongs to no module that adapter_config.json names", opener->file_shown,
                  safetensors_at(opener->peft->file, i)->name);
}

/* The largest rank is told, not every one. */
static void check_choice(struct opener *opener)
{
    int32_t largest = 0;

    for (int32_t i = 0; i < opener->dims->layers * LORA_MODULE_COUNT; i++)
        if (opener->choice[i].chosen && opener->choice[i].rank > largest)
            largest = opener->choice[i].rank;
    if (largest > opener->rank_max)
        fault(&opener->faults, "%s: rank %d is above the largest that is taken, %d", opener->faults.shown, largest,
              opener->rank_max);
    if (largest == 0)
        fault(&opener->faults, "%s: target_modules match no module of this model, so the base alone would answer",
              opener->faults.shown);
}

static void digest_u32(EVP_MD_CTX *context, uint32_t value)
{
    const uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16), (uint8_t)(value >> 24)};

    check(EVP_DigestUpdate(context, bytes, sizeof(bytes)) == 1);
}

#define PIECE_BYTES 16384

/* Infinities and NaNs have all bits of the exponent set. */
static bool piece_is_finite(enum dtype dtype, const char *data, size_t bytes)
{
    uint32_t words[PIECE_BYTES / 4];
    uint16_t halves[PIECE_BYTES / 2];
    const uint16_t exponent = dtype == DTYPE_F16 ? 0x7c00 : 0x7f80;
    uint32_t bad = 0;

    if (dtype == DTYPE_F32) {
        memcpy(words, data, bytes);
        for (size_t i = 0; i < bytes / 4; i++)
            bad |= (words[i] & 0x7f800000u) == 0x7f800000u;
        return bad == 0;
    }
    memcpy(halves, data, bytes);
    for (size_t i = 0; i < bytes / 2; i++)
        bad |= (halves[i] & exponent) == exponent;
    return bad == 0;
}

/* Both in one pass, a piece at a time while it is in the cache. */
static bool digest_matrix(EVP_MD_CTX *context, enum dtype dtype, const void *data, size_t bytes)
{
    bool finite = true;

    for (size_t at = 0; at < bytes; at += PIECE_BYTES) {
        size_t piece = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;

        finite &= piece_is_finite(dtype, (const char *)data + at, piece);
        check(EVP_DigestUpdate(context, (const char *)data + at, piece) == 1);
    }
    return finite;
}

static void digest_pair(struct opener *opener, EVP_MD_CTX *context, int32_t layer, enum lora_module module)
{
    const struct lora_pair *pair = lora_source_pair(&opener->peft->source, layer, module);
    uint32_t in = (uint32_t)lora_module_in(opener->dims, module);
    uint32_t out = (uint32_t)lora_module_out(opener->dims, module);
    const uint32_t words[] = {(uint32_t)layer,         module,        (uint32_t)pair->rank, in, out,
                              float_bits(pair->scale), pair->a_dtype, pair->b_dtype};
    char name[TENSOR_NAME_MAX];
    bool a_finite;
    bool b_finite;

    for (size_t i = 0; i < ARRAY_COUNT(words); i++)
        digest_u32(context, words[i]);
    a_finite = digest_matrix(context, pair->a_dtype, pair->a, (size_t)pair->rank * in * dtype_bytes(pair->a_dtype));
    b_finite = digest_matrix(context, pair->b_dtype, pair->b, (size_t)pair->rank * out * dtype_bytes(pair->b_dtype));
    if (!a_finite || !b_finite)
        fault(&opener->faults, "%s: tensor " PEFT_PREFIX "%s.lora_%s.weight holds numbers that are not finite", opener->file_shown,
              model_linear_name(layer, module, "", name), a_finite ? "B" : "A");
}

static void digest_pairs(struct opener *opener)
{
    static const char domain[] = "berth lora 1\n";
    EVP_MD_CTX *context = EVP_MD_CTX_new();

    check(context != NULL);
    check(EVP_DigestInit_ex(context, EVP_sha256(), NULL) == 1);
    check(EVP_DigestUpdate(context, domain, strlen(domain)) == 1);
    for (int32_t layer = 0; layer < opener->dims->layers; layer++)
        for (enum lora_module module = 0; module < LORA_MODULE_COUNT; module++)
            if (lora_source_pair(&opener->peft->source, layer, module)->a != NULL)
                digest_pair(opener, context, layer, module);
    check(EVP_DigestFinal_ex(context, opener->peft->digest, NULL) == 1);
    EVP_MD_CTX_free(context);
}

static enum status verdict(struct faults *faults)
{
    if (faults->count > FAULTS_NAMED_MAX)
        refuse_also(faults->refusal, STATUS_INVALID, "and %u faults more", faults->count - FAULTS_NAMED_MAX);
    return faults->count > 0 ? STATUS_INVALID : STATUS_OK;
}

static void note_base(struct peft *peft, const json_t *root)
{
    const char *base = json_string_value(json_object_get(root, "base_model_name_or_path"));

    if (base != NULL && strlen(base) < sizeof(peft->base_stated))
        snprintf(peft->base_stated, sizeof(peft->base_stated), "%s", base);
}

static enum status read_config(struct opener *opener, const json_t *root)
{
    struct peft_config config;

    opener->faults.refusal->text[0] = '\0';
    peft_config_read(root, &opener->faults, &config);
    if (config.usable)
        peft_choose(&config, opener->dims, &opener->faults, opener->choice);
    if (opener->faults.count == 0)
        check_choice(opener);
    opener->peft->rank_stated = config.rank;
    opener->peft->alpha_stated = config.alpha;
    opener->peft->rslora = config.rslora;
    note_base(opener->peft, root);
    return verdict(&opener->faults);
}

static enum status copy_file(struct opener *opener, int directory)
{
    struct refusal *refusal = opener->faults.refusal;
    enum status status = safetensors_copy(directory, "adapter_model.safetensors", opener->file_shown, &safetensors_limits_adapter,
                                          &opener->peft->file, refusal);

    if (status == STATUS_NOT_FOUND && faccessat(directory, "adapter_model.bin", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return refuse(refusal, STATUS_INVALID, "%s: holds adapter_model.bin, a pickle, which can run code and is not read; "
                      "save it with safe_serialization=True", opener->faults.shown);
    return status;
}

static enum status read_tensors(struct opener *opener)
{
    struct peft *peft = opener->peft;
    struct refusal *refusal = opener->faults.refusal;

    opener->seen = calloc((size_t)safetensors_count(peft->file) + 1, sizeof(*opener->seen));
    if (opener->seen == NULL)
        return refuse(refusal, STATUS_IO, "%s: no memory", opener->faults.shown);
    peft->tensors = safetensors_count(peft->file);
    peft->file_bytes = safetensors_file_bytes(peft->file);
    refusal->text[0] = '\0';
    take_tensors(opener);
    if (opener->faults.count == 0)
        digest_pairs(opener);
    return verdict(&opener->faults);
}

/* `file`: with the adapter's tensors, taken over; NULL: it lies in the folder. */
static enum status open_adapter(struct opener *opener, const struct model_config *config, const json_t *root, int directory,
                                struct safetensors *file, struct peft **ret_peft)
{
    const size_t pairs = (size_t)config->dims.layers * LORA_MODULE_COUNT;
    struct peft *peft = calloc(1, sizeof(*peft));
    enum status status;

    opener->peft = peft;
    opener->choice = calloc(pairs, sizeof(*opener->choice));
    if (peft != NULL)
        peft->pairs = calloc(pairs, sizeof(*peft->pairs));
    if (peft == NULL || opener->choice == NULL || peft->pairs == NULL) {
        safetensors_close(file);
        status = refuse(opener->faults.refusal, STATUS_IO, "%s: no memory", opener->faults.shown);
        goto free_all;
    }
    peft->file = file;
    peft->source.layers = config->dims.layers;
    peft->source.pair = peft->pairs;
    status = read_config(opener, root);
    if (status == STATUS_OK && peft->file == NULL)
        status = copy_file(opener, directory);
    if (status == STATUS_OK)
        status = read_tensors(opener);
free_all:
    free(opener->choice);
    free(opener->seen);
    if (status == STATUS_OK)
        *ret_peft = peft;
    else
        peft_close(peft);
    return status;
}

enum status peft_open_at(int directory, const char *shown, const struct model_config *config, int32_t rank_max,
                         struct peft **ret_peft, struct refusal *refusal)
{
    struct opener opener = {.dims = &config->dims, .rank_max = rank_max, .faults = {.shown = shown, .refusal = refusal}};
    char path[PATH_BYTES_MAX + 64];
    json_t *root = NULL;
    enum status status;

    check(rank_max >= 1 && rank_max <= LORA_RANK_MAX);
    snprintf(path, sizeof(path), "%.*s/adapter_config.json", PATH_BYTES_MAX, shown);
    snprintf(opener.file_shown, sizeof(opener.file_shown), "%.4000s/adapter_model.safetensors", shown);
    status = file_read_json(directory, "adapter_config.json", path, PEFT_CONFIG_BYTES_MAX, &root, refusal);
    if (status == STATUS_OK)
        status = open_adapter(&opener, config, root, directory, NULL, ret_peft);
    json_decref(root);
    return status;
}

static enum status parse_config(const struct safetensors *file, const char *shown, json_t **ret_root, struct refusal *refusal)
{
    const char *text = safetensors_metadata(file, PEFT_CONFIG_KEY);
    json_error_t error;

    if (text == NULL)
        return refuse(refusal, STATUS_INVALID, "%s: its __metadata__ has no " PEFT_CONFIG_KEY, shown);
    if (strlen(text) > PEFT_CONFIG_BYTES_MAX)
        return refuse(refusal, STATUS_INVALID, "%s: " PEFT_CONFIG_KEY " is longer than the %d bytes that are read", shown,
                      PEFT_CONFIG_BYTES_MAX);
    *ret_root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(*ret_root))
        return STATUS_OK;
    return refuse(refusal, STATUS_INVALID, "%s: " PEFT_CONFIG_KEY " is not a JSON object", shown);
}

enum status peft_open_bytes(const void *data, int64_t bytes, const char *shown, const struct model_config *config, int32_t rank_max,
                            struct peft **ret_peft, struct refusal *refusal)
{
    struct opener opener = {.dims = &config->dims, .rank_max = rank_max, .faults = {.shown = shown, .refusal = refusal}};
    struct safetensors *file = NULL;
    json_t *root = NULL;
    enum status status = safetensors_parse(data, bytes, shown, &safetensors_limits_adapter, &file, refusal);

    check(rank_max >= 1 && rank_max <= LORA_RANK_MAX);
    snprintf(opener.file_shown, sizeof(opener.file_shown), "%.4000s", shown);
    if (status == STATUS_OK)
        status = parse_config(file, shown, &root, refusal);
    if (status == STATUS_OK)
        status = open_adapter(&opener, config, root, -1, file, ret_peft);
    else
        safetensors_close(file);
    json_decref(root);
    return status;
}

enum status peft_open_parts(const struct peft_parts *parts, const struct model_config *config, int32_t rank_max, struct peft **ret_peft,
                            struct refusal *refusal)
{
    struct opener opener = {.dims = &config->dims, .rank_max = rank_max, .file_shown = "adapter_model.safetensors",
                            .faults = {.shown = "adapter_config.json", .refusal = refusal}};
    json_t *root = parts->config_bytes <= PEFT_CONFIG_BYTES_MAX
                       ? json_loadb(parts->config, (size_t)parts->config_bytes, JSON_REJECT_DUPLICATES, NULL) : NULL;
    struct safetensors *file = NULL;
    enum status status = json_is_object(root) ? STATUS_OK
                                              : refuse(refusal, STATUS_INVALID, "adapter_config.json: is not a JSON object of at most %d bytes",
                                                       PEFT_CONFIG_BYTES_MAX);

    check(rank_max >= 1 && rank_max <= LORA_RANK_MAX);
    if (status == STATUS_OK)
        status = safetensors_parse(parts->tensors, parts->tensors_bytes, opener.file_shown, &safetensors_limits_adapter, &file, refusal);
    if (status == STATUS_OK)
        status = open_adapter(&opener, config, root, -1, file, ret_peft);
    json_decref(root);
    return status;
}

enum status peft_open(const char *directory, const struct model_config *config, int32_t rank_max, struct peft **ret_peft,
                      struct refusal *refusal)
{
    int file = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum status status;

    if (file < 0)
        return refuse(refusal, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: %s", directory, strerror(errno));
    status = peft_open_at(file, directory, config, rank_max, ret_peft, refusal);
    close(file);
    return status;
}

void peft_close(struct peft *peft)
{
    if (peft == NULL)
        return;
    safetensors_close(peft->file);
    free(peft->pairs);
    free(peft);
}
