/* The memory that this process may use: less than the machine's in a container, and in a batch job. */
#ifndef WEFT_SRC_RUNTIME_MEMORY_LIMIT_H
#define WEFT_SRC_RUNTIME_MEMORY_LIMIT_H

#include <stdint.h>

/* The least limit in bytes of the process's control groups, version 1 or 2, its own and those above it; INT64_MAX: none. They
 * are read from the files proc/self/cgroup and sys/fs/cgroup/... below the folder `root`, "" but in tests. */
int64_t weft_memory_limit(const char *root);

#endif
