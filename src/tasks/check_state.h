/* State of the checker of task lists (check.h), shared by its files: check.c visits the tasks,
 * check_bounds.c checks an access in its slot, check_order.c follows the values of each unit, and
 * check_coverage.c checks the result of all tasks. A slot is divided into units, the greatest common
 * divisor of all access borders in it, so that a panel that is only used whole is one unit. */
#ifndef WEFT_SRC_TASKS_CHECK_STATE_H
#define WEFT_SRC_TASKS_CHECK_STATE_H

#include "tasks/check.h"

/* WEFT_UNIT_DISCARDED: was WEFT_UNIT_CLEARED, and has undefined contents. */
typedef enum weft_unit_state {
    WEFT_UNIT_NOTHING,
    WEFT_UNIT_GIVEN,
    WEFT_UNIT_CLEARED,
    WEFT_UNIT_DISCARDED,
    WEFT_UNIT_WRITTEN
} weft_unit_state;

typedef struct weft_checked_unit {
    weft_unit_state state;
    bool read;            /* since the last write */
    uint32_t first, last; /* tasks whose addends it contains */
    int64_t addends;
    int64_t rank_addend; /* of rank addends: the number of the addend, in sums of the last one; else -1 */
} weft_checked_unit;

typedef struct weft_checked_slot {
    int64_t bytes, unit_bytes;
    weft_checked_unit *units;
    uint32_t access; /* of the current task: union of its operands in this slot */
} weft_checked_slot;

/* Sources of a task that accumulates. */
typedef struct weft_checked_sources {
    int64_t addends, of_this; /* of all sources; of the current one */
    bool any, tasks;          /* there was a source; the last one is a sum by tasks first .. last */
    uint32_t first, last;
    int64_t first_rank_addend, last_rank_addend; /* -1: not a rank's addend */
} weft_checked_sources;

typedef struct weft_checker {
    const weft_task_list *list;
    const weft_task_call *call;
    weft_checked_slot *slots;
    void *arguments; /* of the current task */
    uint32_t task;   /* the current task */
    bool measures;   /* first pass: computes units */
    weft_checked_sources sources;
    int64_t message_addend; /* of the received message, as unit.rank_addend; else -1 */
    bool failed, out_of_memory;
    char *why;
    size_t why_size;
} weft_checker;

static inline bool weft_unit_has_value(const weft_checked_unit *u)
{
    return u->state != WEFT_UNIT_NOTHING && u->state != WEFT_UNIT_DISCARDED;
}

static inline const weft_task *weft_check_task(const weft_checker *c, uint32_t number)
{
    return weft_task_list_tasks(c->list) + number;
}

/* ---- reasons (check.c) --------------------------------------------------------------------------------- */

/* Keeps the first reason. */
void weft_check_refuse(weft_checker *c, const char *format, ...) WEFT_PRINTF(2, 3);
/* "task 3 (copy) reads bytes 16 to 32 of tensor 0, shard 0, panel 1: ..." */
void weft_check_refuse_bytes(weft_checker *c, uint32_t slot, const char *does, int64_t first, int64_t last,
                             const char *why);
const char *weft_check_slot_text(const weft_slot *slot, char text[64]);

/* ---- bounds (check_bounds.c) --------------------------------------------------------------------------- */

/* An access as runs of bytes: positive ascending strides, contiguous dimensions merged. */
typedef struct weft_access_runs {
    int64_t offset, bytes;
    int ndim;
    int64_t extent[WEFT_KERNEL_DIMS], stride[WEFT_KERNEL_DIMS];
    bool repeats; /* elements overlap */
} weft_access_runs;

/* False: no elements. */
bool weft_access_find_runs(const weft_kernel_access *access, int64_t operand_offset, weft_access_runs *r);
int64_t weft_access_end(const weft_access_runs *r);
/* Called before and after the measuring pass. */
void weft_check_size_slots(weft_checker *c);
void weft_check_make_units(weft_checker *c);
/* Whether an access lies in its slot; its places divide the slot's units. */
void weft_check_measure(weft_checker *c, uint32_t slot, const weft_access_runs *r, const char *does);
/* The number of a rank's addend; -1: not told apart. */
int64_t weft_check_rank_addend(const weft_checker *c, int rank);

/* ---- order (check_order.c) ----------------------------------------------------------------------------- */

/* Reads or writes all units of an access. */
void weft_check_visit_runs(weft_checker *c, const weft_kernel_access *access, uint32_t slot,
                           const weft_access_runs *r);
/* After WEFT_SLOT_WRITE the former contents of a slot are undefined. */
void weft_check_discard(weft_checker *c, uint32_t slot);

/* ---- coverage (check_coverage.c) ----------------------------------------------------------------------- */

/* After all tasks: outputs, temporaries, tags. */
void weft_check_coverage(weft_checker *c);

#endif
