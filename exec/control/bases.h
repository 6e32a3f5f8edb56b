/* Bases by name: what `--base NAME=FOLDER` makes known. */
#ifndef CONTROL_BASES_H
#define CONTROL_BASES_H

#include "control/core/core.h"

/* "NAME=FOLDER". The folder's model is read whole, for its digest. A name stays with the weights and the folder that it was first given.
 * ret_base->folder is the caller's to close; of replicas there is one. */
enum status base_open(struct meta_writer *writer, const char *what, int64_t now_ms, struct core_base *ret_base, struct refusal *refusal);

#endif
