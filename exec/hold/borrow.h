/* A loan for whoever has opened the model: its files are read for their digest (some 1.8 GB a second) and for nothing else. */
#ifndef HOLD_BORROW_H
#define HOLD_BORROW_H

#include "hold/hold.h"

/* No loan: loan_return() does nothing to it. */
#define LOAN_NONE ((struct loan){.base.memory.file = -1, .socket = -1})

/* STATUS_INVALID also: the device's processes share the base without a holder. STATUS_END: *stop. `stop` may be NULL. */
enum status base_borrow(const char *socket_path, const struct device *device, const struct model *model, const volatile sig_atomic_t *stop,
                        struct loan *ret_loan, struct refusal *refusal);

#endif
