/* This process's part of one stage of a plan as a task list: the panels that it sends, receives, copies
 * and reduces. Built once for a pair of layouts, run for any pair of tensors with these layouts. */
#ifndef WEFT_SRC_TENSOR_EXCHANGE_H
#define WEFT_SRC_TENSOR_EXCHANGE_H

#include "tasks/tasks.h"
#include "tensor/tensor.h"

/* By slot number in the list; a stage has the first two. */
enum { WEFT_EXCHANGE_SOURCE, WEFT_EXCHANGE_TARGET, WEFT_EXCHANGE_TENSORS, WEFT_EXCHANGE_INDICES = WEFT_EXCHANGE_TENSORS };

/* Received by one run, for the counters. */
typedef struct weft_received {
    uint64_t transfers, bytes, messages;
} weft_received;

/* Messages with one process in one run. */
typedef struct weft_tag_range {
    uint32_t count;
    uint32_t first; /* in the current run */
} weft_tag_range;

typedef struct weft_exchange {
    weft_stage stage;
    bool grouped;    /* the transport may carry its messages as a group: no buffer is received into twice */
    uint64_t digest; /* of what both sides of a message agree on: layouts and ranks */
    bool of_boxes; /* of the program's memory (arrays/boxes.h), or of moves of rows (arrays/row_moves.h): no stage; tasks run on CPU workers. stage.from and .to: the tensor's layout */
    weft_tensor_impl *indices; /* of an index list (arrays/index_list.h), a third tensor, and no stage; NULL: a stage, or boxes */
    weft_task_list list;
    weft_tag_range *sends, *receives; /* one per process */
    weft_received received;
} weft_exchange;

/* NULL with the error kept. */
weft_exchange *weft_exchange_new(const char *function, const weft_stage *stage);
void weft_exchange_free(weft_exchange *exchange);
/* Memory in bytes, about. */
size_t weft_exchange_bytes(const weft_exchange *exchange);
/* Submits the stage's tasks and transfers. is_new: the target shares no memory with the source, on no process. False with the
 * error kept. */
bool weft_exchange_run(const char *function, weft_exchange *exchange, weft_tensor_impl *source,
                       weft_tensor_impl *target, bool is_new);

/* An exchange without tasks and messages; NULL: no memory. */
weft_exchange *weft_exchange_allocate(const weft_stage *stage);

/* With WEFT_TASK_CACHE=check: compares the list of a reused exchange with a newly built one. False with
 * the error kept. */
bool weft_exchange_check_again(const char *function, const weft_exchange *exchange);

/* Appends this process's part of the stage and counts its messages (exchange.c). False: no memory. */
bool weft_exchange_lower(weft_exchange *exchange, weft_task_list *list);

#endif
