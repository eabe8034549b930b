/* Whether tensors fit a process's memory, before anything is allocated or sent. */
#ifndef WEFT_SRC_TENSOR_MEMORY_H
#define WEFT_SRC_TENSOR_MEMORY_H

#include "runtime/runtime.h"

/* Whether new tensors in these layouts fit each process's memory (weft_runtime.memory_bytes). The caller's own tensors do not count, and
 * a cut counts as even. If all processes are on one machine, those that receive nothing leave their shares to the others. The answer is
 * the same on all processes. WEFT_ERR_NOMEM,
 * kept, otherwise: the message names the argument `name`. */
bool weft_check_memory(const char *function, const char *name, int count, const weft_layout *const layouts[]);

#endif
