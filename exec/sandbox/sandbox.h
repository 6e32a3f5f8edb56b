/* What a process may still ask of the kernel once it holds all that it works on: memory, threads, time, and the descriptors that it has or
 * is handed over its socket. No file, socket, process or program is opened or begun any more, by name or otherwise; such calls fail
 * with EPERM. A list of what is allowed, so that what a newer kernel adds is not. Linux's seccomp; x86-64 and aarch64.
 *
 * A process that computes on a GPU is not filtered: its driver opens device files and maps memory by ioctl all the time, and what
 * it asks differs by version. */
#ifndef SANDBOX_SANDBOX_H
#define SANDBOX_SANDBOX_H

#include "engine/files/refusal.h"

/* No core dumps, no new privileges, the filter: of all threads there are, and those to come. STATUS_IO: this kernel does not do it;
 * nothing was given up but what cannot be told. */
enum status sandbox_enter(struct refusal *refusal);

#endif
