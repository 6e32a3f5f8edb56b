#include "link/fault.h"

#include <string.h>

static const char *const codes[FAULT_COUNT] = {
#define X(number, name, code, again) [number] = code,
    FAULTS(X)
#undef X
};
static const bool may_pass[FAULT_COUNT] = {
#define X(number, name, code, again) [number] = again,
    FAULTS(X)
#undef X
};

const char *fault_code(uint32_t fault)
{
    return fault < FAULT_COUNT ? codes[fault] : NULL;
}

bool fault_may_pass(uint32_t fault)
{
    return fault < FAULT_COUNT && may_pass[fault];
}

static void bind(struct binding *binding, const char *tenant, const char *object)
{
    binding_begin(binding, "fault");
    binding_add(binding, tenant);
    binding_add(binding, object);
}

size_t fault_seal(const uint8_t key[KEY_BYTES], const char *tenant, const char *object, const char *text, uint8_t ret_sealed[FAULT_SEALED_MAX])
{
    const size_t length = strnlen(text, REFUSAL_MAX - 1);
    struct binding binding;

    bind(&binding, tenant, object);
    wrap(key, &binding, text, length, ret_sealed);
    return length + WRAP_EXTRA_BYTES;
}

enum status fault_open(const uint8_t key[KEY_BYTES], const char *tenant, const char *object, const uint8_t *sealed, size_t count,
                       char ret_text[REFUSAL_MAX])
{
    struct binding binding;
    enum status status;

    if (count < WRAP_EXTRA_BYTES || count >= FAULT_SEALED_MAX)
        return STATUS_CORRUPT;
    bind(&binding, tenant, object);
    status = unwrap(key, &binding, sealed, count, ret_text);
    if (status == STATUS_OK)
        ret_text[count - WRAP_EXTRA_BYTES] = '\0';
    return status;
}
