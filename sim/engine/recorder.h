/* A core's journal on disk: one file a core, written as records come, in the form of journal/journal.h. */
#ifndef ENGINE_RECORDER_H
#define ENGINE_RECORDER_H

#include <stdio.h>

#include "journal/journal.h"

struct recorder;

/* Creates `directory`/<noun>-<index>.journal; it must not exist. `header` is filled but not sealed. */
enum status recorder_open(const char *directory, const char *noun, struct journal_header *header, FILE *errors,
                          struct recorder **ret_recorder);
/* A failed write is remembered and told by recorder_close(). commands: the bytes of all of them. */
void recorder_write(struct recorder *recorder, const void *event, uint64_t digest, const void *commands, size_t commands_bytes);
/* Accepts NULL. */
enum status recorder_close(struct recorder *recorder, FILE *errors);

#endif
