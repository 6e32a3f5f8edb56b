/* Any bytes as a safetensors file, by the rules of a base and of a tenant's adapter: it is refused with a reason, or
 * every tensor lies inside it. Built for libFuzzer with FUZZ_SAFETENSORS defined; the test of the reader calls the same
 * function; everywhere else this file is empty. */
#include "engine/safetensors/safetensors.h"

#ifdef FUZZ_SAFETENSORS

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
    check(text[0] != '\0');
    for (const char *at = text; *at != '\0'; at++)
        check((unsigned char)*at >= 0x20 && *at != 0x7f);
}

static void check_file(const struct safetensors *file, const uint8_t *data, size_t size, const struct safetensors_limits *limits)
{
    uint64_t sum = 0;
    int64_t covered = 0;

    check(safetensors_count(file) <= limits->tensors_max);
    for (uint32_t i = 0; i < safetensors_count(file); i++) {
        const struct tensor *tensor = safetensors_at(file, i);
        const uint8_t *bytes = tensor->data;

        check(strlen(tensor->name) <= limits->name_bytes_max);
        check(i == 0 || strcmp(safetensors_at(file, i - 1)->name, tensor->name) < 0);
        check(safetensors_find(file, tensor->name) == tensor);
        check(bytes >= data && bytes + tensor->bytes <= data + size);
        check(tensor->bytes == tensor->count * (int64_t)tensor_type_bytes(tensor->type));
        check(!limits->matrices_only || (tensor->dims == 2 && tensor->count > 0));
        for (int64_t k = 0; k < tensor->bytes; k++)
            sum += bytes[k];
        covered += tensor->bytes;
    }
    check(covered + 8 <= (int64_t)size);
    check(sum <= 255 * (uint64_t)size);
}

static void fuzz_with(const uint8_t *data, size_t size, const struct safetensors_limits *limits)
{
    struct refusal refusal = {""};
    struct safetensors *file = NULL;
    enum status status = safetensors_parse(data, (int64_t)size, "input", limits, &file, &refusal);

    check((status == STATUS_OK) == (file != NULL));
    if (file == NULL) {
        check_text(refusal.text);
        return;
    }
    check_file(file, data, size, limits);
    safetensors_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_with(data, size, &safetensors_limits_base);
    fuzz_with(data, size, &safetensors_limits_adapter);
    return 0;
}

#endif
