/* Memory for tables that are read here and there: aligned to lines, and, where it is large, in the machine's large pages if it
 * has them, since addresses of small ones take longer to look up than the memory itself. free() gives it back. */
#ifndef CACHELAB_PAGES_H
#define CACHELAB_PAGES_H

#include "base/base.h"

/* NULL: no memory. */
void *pages_alloc(size_t bytes);

#endif
