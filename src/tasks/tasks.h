/* src/tasks: what a call becomes, as data. PURE (no StarPU, no MPI, no threads): a task list follows from
 * layouts alone, so it can be built once, kept, printed, counted and checked without running it.
 *
 * A list has tasks in submission order. A task is a kernel, its arguments, and operands: places in SLOTS, with
 * how they are accessed. A slot is one panel of a tensor of the call, or a temporary that the list declares;
 * which memory that is gets known when the list is run (src/tensor/run.h). Tasks are ordered by nothing but
 * their accesses to slots: a task waits for the tasks before it that write what it reads or writes, and for
 * those that read what it writes.
 *
 *     slot      (tensor number in the call, hosted shard, panel), or a temporary of so many bytes
 *     operand   slot, bytes from the panel's first row, access
 *     task      kernel, arguments, operands, position
 *     transfer  stands among the tasks: send or receive, messages with other processes, one operand
 *
 * Arguments are shared: those of a task are a block that several tasks have, and patches, the words in which its
 * own are others (where its rows begin).
 *
 * What changes from call to call (a learning rate, an offset of random numbers) is no part of a list: kernels
 * get the call's scalars beside their arguments. */
#ifndef WEFT_SRC_TASKS_H
#define WEFT_SRC_TASKS_H

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "codelets/kernels.h"
#include "tasks/region.h"

enum { WEFT_TEMPORARY = -1 }; /* the tensor number of temporaries */

typedef struct weft_slot {
    int32_t tensor; /* number in the call: inputs first, then outputs; or WEFT_TEMPORARY */
    int32_t shard;  /* of this process; 0 of a temporary */
    int64_t panel;  /* of the shard; or the temporary's number */
} weft_slot;

typedef enum weft_slot_access {
    WEFT_SLOT_READ = 1,
    WEFT_SLOT_WRITE = 2, /* nothing of what was there is needed */
    WEFT_SLOT_READ_WRITE = 3
} weft_slot_access;

typedef struct weft_task_operand {
    int64_t offset; /* bytes from the panel's first row */
    uint32_t slot;  /* index into the list's slots */
    uint32_t access;
} weft_task_operand;

/* One message of a transfer. */
typedef struct weft_task_message {
    int32_t peer; /* process */
    uint32_t tag; /* counts from 0 in the list, for each peer and direction; both sides count alike */
    int32_t source_rank, target_rank;
    weft_region region; /* from the panel's first row */
} weft_task_message;

typedef enum weft_record_kind { WEFT_RECORD_TASK, WEFT_RECORD_SEND, WEFT_RECORD_RECEIVE } weft_record_kind;

/* Bytes 8 * word to 8 * word + 7 of a task's arguments. */
typedef struct weft_task_patch {
    uint64_t value;
    uint32_t word;
} weft_task_patch;

static inline void weft_task_apply(void *arguments, const weft_task_patch patches[], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        memcpy((char *)arguments + 8 * (size_t)patches[i].word, &patches[i].value, 8);
    }
}

/* A task; or a transfer, which has messages in place of a kernel, and reads or writes its operand. */
typedef struct weft_task {
    weft_kernel_id kernel;
    weft_record_kind kind;
    uint32_t first_operand, num_operands;
    uint32_t arguments;             /* number of the block; none of a transfer */
    uint32_t first_item, num_items; /* of its patches; of the messages of a transfer */
    double position; /* of its rows in the tensor, 0 to 1: which tasks of an operation go first */
} weft_task;

typedef struct weft_temporary {
    int64_t bytes;
    uint32_t first_task, last_task; /* that use it */
    uint32_t buffer; /* number of its memory: temporaries of one size that live one after another share it */
    bool apart;      /* it shares none */
} weft_temporary;

/* Arguments that several tasks share. */
typedef struct weft_argument_block {
    weft_kernel_id kernel;
    uint32_t size; /* bytes; memory of whole words belongs to it */
    void *memory;
} weft_argument_block;

/* Built by the functions below; read by everybody. */
typedef struct weft_task_list {
    weft_vec tasks;       /* weft_task */
    weft_vec operands;    /* weft_task_operand: those of one task follow each other */
    weft_vec slots;       /* weft_slot, each once */
    weft_vec temporaries; /* weft_temporary */
    weft_vec arguments;   /* weft_argument_block */
    weft_vec patches;     /* weft_task_patch: those of one task follow each other */
    weft_vec messages;    /* weft_task_message: those of one transfer follow each other */
    size_t max_operands;  /* of one task */
    size_t max_arguments; /* bytes, of one task */
    size_t num_buffers;   /* of temporaries */
    size_t num_transfers;
    /* While it is built: the arguments of the task that was begun, and where slots are found again. */
    void *pending;
    size_t pending_size, pending_capacity;
    weft_kernel_id pending_kernel;
    weft_map slot_index; /* 1 + number in `slots` */
    bool failed; /* no memory: the list is not to be run */
} weft_task_list;

/* Zero-initialise a list; free it when it is not used any more. */
void weft_task_list_free(weft_task_list *list);

/* ---- building ------------------------------------------------------------------------------------------ */

/* Begins a task: returns zeroed arguments of `size` bytes to fill in before weft_task_end(). NULL: no memory,
 * and the list has failed. */
void *weft_task_begin(weft_task_list *list, weft_kernel_id kernel, size_t size);
/* Adds an operand, in the order that the kernel's header gives; returns its number in the task. */
int weft_task_add(weft_task_list *list, weft_slot slot, int64_t offset, weft_slot_access access);
/* The arguments of the task that was begun are `size` bytes, fewer than asked for. */
void weft_task_trim(weft_task_list *list, size_t size);
/* Ends the task. False: no memory, and the list has failed. */
bool weft_task_end(weft_task_list *list, double position);

/* Adds a transfer on a panel, without messages. */
void weft_transfer_begin(weft_task_list *list, weft_record_kind kind, weft_slot slot,
                         weft_slot_access access);
/* Adds a message to it. False: no memory, and the list has failed. */
bool weft_transfer_add(weft_task_list *list, const weft_task_message *message);

/* Memory for the time of the list, of undefined contents: the slot's panel begins at offset 0. */
weft_slot weft_task_new_temporary(weft_task_list *list, int64_t bytes);
/* The same with a buffer of its own, also where another one would do: what is written there need not wait. */
weft_slot weft_task_new_buffer(weft_task_list *list, int64_t bytes);

/* Drops what is needed for building alone. False: the list has failed. */
bool weft_task_list_finish(weft_task_list *list);

/* ---- reading ------------------------------------------------------------------------------------------- */

static inline const weft_task *weft_task_list_tasks(const weft_task_list *list)
{
    return list->tasks.items;
}

static inline const weft_task_operand *weft_task_operands(const weft_task_list *list, const weft_task *task)
{
    return (const weft_task_operand *)list->operands.items + task->first_operand;
}

static inline const weft_task_message *weft_task_messages(const weft_task_list *list,
                                                          const weft_task *transfer)
{
    return (const weft_task_message *)list->messages.items + transfer->first_item;
}

/* How many messages a transfer has; 0 of a task. */
static inline uint32_t weft_task_num_messages(const weft_task *record)
{
    return record->kind == WEFT_RECORD_TASK ? 0 : record->num_items;
}

static inline const weft_argument_block *weft_task_block_of(const weft_task_list *list, const weft_task *task)
{
    return (const weft_argument_block *)list->arguments.items + task->arguments;
}

static inline const weft_task_patch *weft_task_patches(const weft_task_list *list, const weft_task *task)
{
    return (const weft_task_patch *)list->patches.items + task->first_item;
}

/* Writes a task's arguments to memory that is aligned as malloc()'s, with room for whole words. Returns it. */
void *weft_task_arguments(const weft_task_list *list, const weft_task *task, void *memory);

static inline const weft_slot *weft_task_list_slots(const weft_task_list *list)
{
    return list->slots.items;
}

/* Bytes of memory that the list takes. */
size_t weft_task_list_bytes(const weft_task_list *list);

/* Bytes of temporaries that live at the same time, at most; and those of their buffers, which a run takes. */
int64_t weft_task_list_peak(const weft_task_list *list);
int64_t weft_task_list_buffer_bytes(const weft_task_list *list);

/* Whether two lists do the same: equal tasks with equal operands in the same order. */
bool weft_task_list_equal(const weft_task_list *a, const weft_task_list *b);

/* One line a task: "3 matmul  w t2[0].1  r t0[0].1+4096  r t1[0].0". */
void weft_task_list_print(const weft_task_list *list, FILE *file);

#endif
