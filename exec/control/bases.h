/* Bases by name: what `--base NAME=FOLDER` makes known. */
#ifndef CONTROL_BASES_H
#define CONTROL_BASES_H

#include "control/metadata/writer.h"

/* "NAME=FOLDER". The folder's model is read whole, for its digest. A name stays with the weights and the folder that it was first given. */
enum status base_register(struct meta_writer *writer, const char *what, int64_t now_ms, struct refusal *refusal);

#endif
