/* The one thread that writes, so that nobody who answers requests waits for a disk. Acts queue up and are done in order; those that
 * wait together share one transaction and one wait for the disk, and each is told what came of it after that. An act that is
 * refused leaves the others alone; when the disk refuses, all of that transaction are told so and nothing of it is kept. */
#ifndef METADATA_WRITER_H
#define METADATA_WRITER_H

#include "control/metadata/metadata.h"

/* On the writer's thread, inside a transaction. */
typedef enum status meta_act(struct metadata *metadata, void *context, struct refusal *refusal);
/* On the writer's thread, after the commit; quick. */
typedef void meta_done(void *context, enum status status, const struct refusal *refusal);

struct meta_writer;
/* The connection is the writer's until it stops. `acts_max`: what may wait. */
enum status meta_writer_start(struct metadata *metadata, uint32_t acts_max, struct meta_writer **ret_writer, struct refusal *refusal);
/* Does what waits, then ends. NULL is fine. */
void meta_writer_stop(struct meta_writer *writer);

/* From any thread. STATUS_FULL: as many wait as may; it was not taken, and the client is to try again later (429, or 503). After
 * STATUS_OK `done` will be called, once. */
enum status meta_writer_submit(struct meta_writer *writer, meta_act *act, meta_done *done, void *context, struct refusal *refusal);
/* The same, waiting for what comes of it. */
enum status meta_writer_call(struct meta_writer *writer, meta_act *act, void *context, struct refusal *refusal);

#endif
