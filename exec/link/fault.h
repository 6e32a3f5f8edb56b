/* Why a worker's task failed, as FAILED says it: a code that anybody may see and count, and words for the tenant alone. The words are
 * sealed by crypto/wrap.h under the key of START's first grant, bound to "fault", the tenant and that grant's id: an envelope would be
 * larger than they are. Whoever made the grant opens them. */
#ifndef LINK_FAULT_H
#define LINK_FAULT_H

#include "crypto/wrap.h"
#include "engine/files/refusal.h"

/* number (of the wire: never used again for something else), name, code, whether another attempt may end otherwise. */
#define FAULTS(X)                                                                                      \
    X(1, SETTINGS, "invalid_settings", false)          /* of START */                                  \
    X(2, BASE, "base_unusable", false)                                                                 \
    X(3, OBJECT, "object_unreadable", true)            /* a granted object does not open */            \
    X(4, TRAINING_FILE, "invalid_training_file", false)                                                \
    X(5, VALIDATION_FILE, "invalid_validation_file", false)                                            \
    X(6, PARENT, "invalid_parent", false)              /* the adapter to go on from */                 \
    X(7, STATE, "invalid_state", true)                 /* the state to go on from is another run's */  \
    X(8, NUMBERS, "not_finite", false)                 /* a lower learning rate may help */            \
    X(9, MEMORY, "out_of_memory", true)                                                                \
    X(10, OUTPUT, "output_failed", true)               /* a granted descriptor takes no more */        \
    X(11, SANDBOX, "no_sandbox", false)                /* this kernel does not do it */                \
    X(12, ADAPTER, "invalid_adapter", false)           /* that was made elsewhere */                   \
    X(13, DEVICE, "device_unusable", true)             /* the GPU that it was given */
enum fault {
    FAULT_NONE,
#define X(number, name, code, again) FAULT_##name = number,
    FAULTS(X)
#undef X
    FAULT_COUNT
};
/* NULL: unknown. */
const char *fault_code(uint32_t fault);
/* Also of unknown ones. */
bool fault_may_pass(uint32_t fault);

#define FAULT_SEALED_MAX (REFUSAL_MAX + WRAP_EXTRA_BYTES)
/* Returns how many bytes of ret_sealed it took; text beyond REFUSAL_MAX is cut. */
size_t fault_seal(const uint8_t key[KEY_BYTES], const char *tenant, const char *object, const char *text, uint8_t ret_sealed[FAULT_SEALED_MAX]);
/* STATUS_CORRUPT: nothing that fault_seal() made of these. `ret_text` ends with '\0'. */
enum status fault_open(const uint8_t key[KEY_BYTES], const char *tenant, const char *object, const uint8_t *sealed, size_t count,
                       char ret_text[REFUSAL_MAX]);

#endif
