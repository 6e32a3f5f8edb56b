/* SQLite's files through a layer of ours, which kills the process, or fails, at the n-th call that changes the disk. */
#ifndef TESTS_EXEC_CRYPTO_BAD_DISK_H
#define TESTS_EXEC_CRYPTO_BAD_DISK_H

#include "base/base.h"

/* DISK_LOSES_POWER: the process is killed, and what it had not synced is not in its files. */
enum disk_fault { DISK_KILLS, DISK_FAILS, DISK_IS_FULL, DISK_LOSES_POWER };

/* From here on all that this process and its children open. */
void bad_disk_install(void);
/* The n-th call from now, in a child that is forked from here on; 0: none. A disk is full for writes, and for one call; what isn't
 * a write then fails. */
void bad_disk_fault_at(enum disk_fault fault, unsigned call);

#endif
