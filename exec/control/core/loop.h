/* What the loop and its opening share. */
#ifndef CORE_LOOP_H
#define CORE_LOOP_H

#include "base/base.h"

/* In epoll, beside workers' numbers. */
enum { TAG_WAKE = 1, TAG_LAUNCHER = 2, TAG_LAST = TAG_LAUNCHER };

int64_t core_boot_ns(void);

#endif
