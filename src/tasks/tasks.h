/* src/tasks: task lists. PURE (no StarPU, no MPI, no threads): a task list is a function of layouts alone,
 * so it can be built once, cached, printed, counted and checked without running it.
 *
 * A list has tasks in submission order. A task has a kernel, arguments, and operands: positions in SLOTS
 * with access modes. A slot is one panel of a tensor of the call, or a temporary that the list declares;
 * running the list binds slots to memory (src/tensor/run.h). Only accesses to slots order tasks: a task
 * waits for the earlier tasks that write a slot it accesses, and for those that read a slot it writes.
 *
 *     slot      (tensor number in the call, hosted shard, panel), or a temporary of so many bytes
 *     operand   slot, bytes from the panel's first row, access
 *     task      kernel, arguments, operands, position
 *     transfer  in the order of the tasks: send or receive, messages with other processes, one operand
 *
 * Arguments are shared: a task has the number of a block, which several tasks share, and patches: the
 * words in which its own arguments differ (the index of its first row). Operands are shared: the last operands
 * of a task that equal those of the task before (all panels of a gain) are stored once.
 *
 * Values that change from call to call (a learning rate, an offset of random numbers) are no part of a
 * list: kernels get the call's scalars beside their arguments. */
#ifndef WEFT_SRC_TASKS_H
#define WEFT_SRC_TASKS_H

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "codelets/kernels.h"
#include "tasks/region.h"

enum { WEFT_TEMPORARY = -1 }; /* tensor number of temporaries */

typedef struct weft_slot {
    int32_t tensor; /* number in the call: inputs first, then outputs; or WEFT_TEMPORARY */
    int32_t shard;  /* of this process; temporaries: 0 */
    int64_t panel;  /* of the shard; or number of the temporary */
} weft_slot;

static inline bool weft_slot_equal(weft_slot a, weft_slot b)
{
    return a.tensor == b.tensor && a.shard == b.shard && a.panel == b.panel;
}

typedef enum weft_slot_access {
    WEFT_SLOT_READ = 1,
    WEFT_SLOT_WRITE = 2, /* former contents are not needed */
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
    uint32_t tag; /* counts from 0 in the list for each peer and direction, on both sides alike */
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

/* A task; or a transfer, which has messages instead of a kernel, and reads or writes its operand. */
typedef struct weft_task {
    weft_kernel_id kernel;
    weft_record_kind kind : 2;
    uint32_t num_own : 30; /* the first operands; the others are shared with the task before */
    uint32_t num_operands, first_own, first_shared;
    uint32_t arguments;             /* index of the block; unused in a transfer */
    uint32_t first_item, num_items; /* its patches; the messages of a transfer */
    double position; /* of its rows in the tensor, 0 to 1: priority within an operation */
} weft_task;

typedef struct weft_temporary {
    int64_t bytes;
    uint32_t first_task, last_task; /* users */
    uint32_t buffer; /* number of its memory: temporaries of one size with disjoint lifetimes share it */
    bool apart;      /* shares its memory with none */
} weft_temporary;

/* Arguments that several tasks share. */
typedef struct weft_argument_block {
    weft_kernel_id kernel;
    uint32_t size; /* bytes; memory of whole words belongs to it */
    void *memory;
} weft_argument_block;

/* Built by the functions below; read-only afterwards. */
typedef struct weft_task_list {
    weft_vec tasks;       /* weft_task */
    weft_vec operands;    /* weft_task_operand: those of one task follow each other */
    weft_vec slots;       /* weft_slot, each once */
    weft_vec temporaries; /* weft_temporary */
    weft_vec arguments;   /* weft_argument_block */
    weft_vec patches;     /* weft_task_patch: those of one task follow each other */
    weft_vec messages;    /* weft_task_message: those of one transfer follow each other */
    size_t max_operands;  /* maximum over the tasks */
    size_t max_arguments; /* bytes, maximum over the tasks */
    size_t num_buffers;   /* of temporaries */
    size_t num_transfers;
    /* Used while building: arguments of the open task, and the index of slots. */
    weft_vec pending; /* words */
    size_t pending_size;
    weft_kernel_id pending_kernel;
    weft_map slot_index; /* 1 + number in `slots` */
    bool failed; /* no memory: do not run the list */
} weft_task_list;

/* Zero-initialise a list; free it after use. */
void weft_task_list_free(weft_task_list *list);

/* ---- building ------------------------------------------------------------------------------------------ */

/* Begins a task: returns zeroed arguments of `size` bytes, to be filled in before weft_task_end(). NULL:
 * no memory, and the list has failed. */
void *weft_task_begin(weft_task_list *list, weft_kernel_id kernel, size_t size);
/* Adds an operand, in the order of the kernel's header; returns its number in the task. */
int weft_task_add(weft_task_list *list, weft_slot slot, int64_t offset, weft_slot_access access);
/* Shortens the arguments of the open task to `size` bytes. */
void weft_task_trim(weft_task_list *list, size_t size);
/* Ends the task. False: no memory, and the list has failed. */
bool weft_task_end(weft_task_list *list, double position);

/* Adds a transfer on a panel, without messages. */
void weft_transfer_begin(weft_task_list *list, weft_record_kind kind, weft_slot slot,
                         weft_slot_access access);
/* Adds a message to the transfer. False: no memory, and the list has failed. */
bool weft_transfer_add(weft_task_list *list, const weft_task_message *message);

/* A temporary of undefined contents: the slot's panel begins at offset 0. */
weft_slot weft_task_new_temporary(weft_task_list *list, int64_t bytes);
/* The same with a buffer of its own: its first write waits for no other temporary's tasks. */
weft_slot weft_task_new_buffer(weft_task_list *list, int64_t bytes);

/* Frees the state of building. False: the list has failed. */
bool weft_task_list_finish(weft_task_list *list);

/* ---- reading ------------------------------------------------------------------------------------------- */

static inline const weft_task *weft_task_list_tasks(const weft_task_list *list)
{
    return list->tasks.items;
}

static inline const weft_task_operand *weft_task_operand_at(const weft_task_list *list, const weft_task *task,
                                                           uint32_t number)
{
    const weft_task_operand *all = list->operands.items;
    return number < task->num_own ? &all[task->first_own + number]
                                  : &all[task->first_shared + (number - task->num_own)];
}

static inline const weft_task_message *weft_task_messages(const weft_task_list *list,
                                                          const weft_task *transfer)
{
    return (const weft_task_message *)list->messages.items + transfer->first_item;
}

/* Number of a transfer's messages; of a task 0. */
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

/* Writes a task's arguments to memory with malloc()'s alignment and room for whole words. Returns it. */
void *weft_task_arguments(const weft_task_list *list, const weft_task *task, void *memory);

static inline const weft_slot *weft_task_list_slots(const weft_task_list *list)
{
    return list->slots.items;
}

/* Bytes of memory of the list. */
size_t weft_task_list_bytes(const weft_task_list *list);

/* Maximum of bytes in live temporaries; bytes of all buffers, which a run allocates. */
int64_t weft_task_list_peak(const weft_task_list *list);
int64_t weft_task_list_buffer_bytes(const weft_task_list *list);

/* Whether two lists have equal tasks with equal operands in the same order. */
bool weft_task_list_equal(const weft_task_list *a, const weft_task_list *b);

/* One line per task: "3 matmul  w t2[0].1  r t0[0].1+4096  r t1[0].0". */
void weft_task_list_print(const weft_task_list *list, FILE *file);

#endif
