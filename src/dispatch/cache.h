/* What the dispatcher remembers: layouts chosen before, and rules that are parsed; and how it comes to them
 * (choose.c). */
#ifndef WEFT_SRC_DISPATCH_CACHE_H
#define WEFT_SRC_DISPATCH_CACHE_H

#include "dispatch/dispatch.h"

uint64_t weft_cache_hash(const weft_call *call, const weft_layout *const inputs[]);
/* No allocation. NULL when it is not there. Choices are valid until the next one is added. */
const weft_choice *weft_cache_find(const weft_call *call, const weft_layout *const inputs[], uint64_t hash);
/* NULL with the error kept: no memory. */
const weft_choice *weft_cache_add(const weft_call *call, const weft_layout *const inputs[], uint64_t hash,
                                  const weft_choice *choice);

/* What weft_dispatch_force() has set. */
weft_forced_choice *weft_forced(void);

/* The rule of a call, parsed the first time it is asked for; NULL with the error kept. */
const weft_rule *weft_cached_rule(const weft_call *call);

/* True the first time that it is asked for an operation: warnings are given once. */
bool weft_cache_first_warning(const weft_operation *operation);

/* For a call with these inputs: from the cache, or chosen and added to it, valid until the next call; NULL with the error kept. *guessed:
 * see weft_gather_layouts(). `own`: room for what is not kept. */
const weft_choice *weft_obtain_layouts(const weft_call *call, weft_tensor_impl *const inputs[],
                                       weft_choice *own, int *guessed);

#endif
