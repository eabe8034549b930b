/* Homes: the main memory of the pool's buffers where devices compute. Most buffers live and die on a device, so a home costs
 * nothing until something is there: it is reserved address space, which the first copy between it and a device pins. From then on
 * such copies are asynchronous; StarPU submits all copies alike, and CUDA waits for those of memory that is not pinned. */
#ifndef WEFT_SRC_RUNTIME_HOME_H
#define WEFT_SRC_RUNTIME_HOME_H

#include <starpu.h>

#include "base/base.h"

typedef struct weft_homes weft_homes; /* those of a pool */
typedef struct weft_home weft_home;

/* NULL: no memory. */
weft_homes *weft_homes_new(void);
/* All homes have been given back. */
void weft_homes_delete(weft_homes *homes);

/* `bytes` > 0, aligned to 256; undefined contents. NULL: no address space, or no memory. */
weft_home *weft_home_new(weft_homes *homes, int64_t bytes);
void *weft_home_memory(const weft_home *home);
/* Its handles are unregistered. `stays`: others still use the memory, which is there until the process ends. */
void weft_home_give_back(weft_homes *homes, weft_home *home, bool stays);

/* Registers [offset, offset + bytes) of the home as a variable. */
starpu_data_handle_t weft_home_register(weft_home *home, int64_t offset, int64_t bytes);
/* The handle's memory on the device of a memory node is the program's: StarPU neither frees nor evicts it. Its values become the handle's.
 * To be called before its first use. */
void weft_home_lend(starpu_data_handle_t handle, int node, void *memory);
bool weft_home_is_lent(starpu_data_handle_t handle, unsigned node);

#endif
