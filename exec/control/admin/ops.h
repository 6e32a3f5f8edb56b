/* What the socket's requests do. */
#ifndef ADMIN_OPS_H
#define ADMIN_OPS_H

#include <jansson.h>
#include <sys/types.h>

#include "control/admin/admin.h"

/* Does what the packet asks and returns the answer, which is the caller's; NULL: no memory. `uid` is who asked. */
json_t *admin_answer(const struct admin_config *config, uid_t uid, const char *packet, size_t bytes);
json_t *admin_error(enum status status, const char *text);

#endif
