/* One stage of a plan as this process executes it: which panels it sends, receives, copies and reduces, as a
 * task list. Made once for a pair of layouts, run for any pair of tensors that have them. */
#ifndef WEFT_SRC_TENSOR_EXCHANGE_H
#define WEFT_SRC_TENSOR_EXCHANGE_H

#include "tasks/tasks.h"
#include "tensor/tensor.h"

enum { WEFT_EXCHANGE_SOURCE, WEFT_EXCHANGE_TARGET, WEFT_EXCHANGE_TENSORS }; /* their numbers in the list */

/* What one run receives, for the counters. */
typedef struct weft_received {
    uint64_t transfers, bytes, messages;
} weft_received;

/* Messages with one process in one run. */
typedef struct weft_tag_range {
    uint32_t count;
    uint32_t first; /* of the run under way */
} weft_tag_range;

typedef struct weft_exchange {
    weft_stage stage;
    uint64_t digest; /* of what both sides of a message have in common: layouts and ranks */
    weft_task_list list;
    weft_tag_range *sends, *receives; /* one per process */
    weft_received received;
} weft_exchange;

/* NULL with the error kept. */
weft_exchange *weft_exchange_new(const char *function, const weft_stage *stage);
void weft_exchange_free(weft_exchange *exchange);
/* Of memory, about. */
size_t weft_exchange_bytes(const weft_exchange *exchange);
/* Submits the stage's tasks and transfers. False with the error kept. */
bool weft_exchange_run(const char *function, weft_exchange *exchange, weft_tensor_impl *source,
                       weft_tensor_impl *target);

/* Where WEFT_TASK_CACHE=check: whether the list of an exchange that is used again is that which a new one
 * would have. False with the error kept. */
bool weft_exchange_check_again(const char *function, const weft_exchange *exchange);

/* Appends this process's part of the stage, and counts its messages (exchange.c). False: no memory. */
bool weft_exchange_lower(weft_exchange *exchange, weft_task_list *list);

#endif
