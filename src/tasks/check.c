/* Visits the tasks of a list twice: to measure its slots, and to follow the values in them. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/check_state.h"

/* ---- reasons ------------------------------------------------------------------------------------------- */

void weft_check_refuse(weft_checker *c, const char *format, ...)
{
    if (c->failed) {
        return;
    }
    c->failed = true;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->why, c->why_size, format, arguments);
    va_end(arguments);
}

const char *weft_check_slot_text(const weft_slot *slot, char text[64])
{
    if (slot->tensor == WEFT_TEMPORARY) {
        snprintf(text, 64, "temporary %" PRId64, slot->panel);
    } else {
        snprintf(text, 64, "tensor %" PRId32 ", shard %" PRId32 ", panel %" PRId64, slot->tensor, slot->shard,
                 slot->panel);
    }
    return text;
}

static const char *name_of(const weft_task *task)
{
    return task->kind == WEFT_RECORD_SEND      ? "send"
           : task->kind == WEFT_RECORD_RECEIVE ? "receive"
                                               : weft_kernel_info_of(task->kernel)->name;
}

void weft_check_refuse_bytes(weft_checker *c, uint32_t slot, const char *does, int64_t first, int64_t last,
                             const char *why)
{
    char text[64];
    weft_check_refuse(c, "task %" PRIu32 " (%s) %s bytes %" PRId64 " to %" PRId64 " of %s: %s", c->task,
                      name_of(weft_check_task(c, c->task)), does, first, last,
                      weft_check_slot_text(weft_task_list_slots(c->list) + slot, text), why);
}

/* ---- tasks --------------------------------------------------------------------------------------------- */

static uint32_t needed_access(weft_kernel_access_kind kind)
{
    return kind == WEFT_KERNEL_READ     ? WEFT_SLOT_READ
           : kind == WEFT_KERNEL_UPDATE ? WEFT_SLOT_READ_WRITE
                                        : WEFT_SLOT_WRITE;
}

static void visit_access(void *context, const weft_kernel_access *access)
{
    weft_checker *c = context;
    const weft_task *task = weft_check_task(c, c->task);
    if (c->failed) {
        return;
    }
    if (access->operand < 0 || (uint32_t)access->operand >= task->num_operands) {
        weft_check_refuse(c, "task %" PRIu32 " (%s) has no operand %d", c->task, name_of(task),
                          access->operand);
        return;
    }
    const weft_task_operand *operand = weft_task_operand_at(c->list, task, (uint32_t)access->operand);
    const char *does = access->kind == WEFT_KERNEL_READ ? "reads" : "writes";
    weft_access_runs r;
    if (!weft_access_find_runs(access, operand->offset, &r)) {
        return;
    }
    uint32_t needed = needed_access(access->kind);
    if ((operand->access & needed) != needed) {
        weft_check_refuse_bytes(c, operand->slot, does, r.offset, weft_access_end(&r),
                                "the operand does not declare it");
    } else if (r.repeats && access->kind != WEFT_KERNEL_READ) {
        weft_check_refuse_bytes(c, operand->slot, does, r.offset, weft_access_end(&r),
                                "elements lie on each other");
    } else if (c->measures) {
        weft_check_measure(c, operand->slot, &r, does);
    } else {
        weft_check_visit_runs(c, access, operand->slot, &r);
    }
}

static void declare_accesses(weft_checker *c, const weft_task *task)
{
    for (uint32_t i = 0; i < task->num_operands; i++) {
        const weft_task_operand *operand = weft_task_operand_at(c->list, task, i);
        c->slots[operand->slot].access |= operand->access;
    }
    for (uint32_t i = 0; i < task->num_operands; i++) {
        uint32_t slot = weft_task_operand_at(c->list, task, i)->slot;
        if (c->slots[slot].access == WEFT_SLOT_WRITE) {
            weft_check_discard(c, slot);
        }
        c->slots[slot].access = 0;
    }
}

/* Values that a transfer's messages write to its operand, or read from it. */
static void visit_transfer(weft_checker *c, const weft_task *transfer)
{
    bool receives = transfer->kind == WEFT_RECORD_RECEIVE;
    for (uint32_t i = 0; i < weft_task_num_messages(transfer); i++) {
        const weft_task_message *message = weft_task_messages(c->list, transfer) + i;
        const weft_region *region = &message->region;
        weft_kernel_access access = { .kind = receives ? WEFT_KERNEL_WRITE : WEFT_KERNEL_READ,
                                      .offset = region->offset,
                                      .element = region->run_bytes,
                                      .ndim = region->ndim };
        memcpy(access.extent, region->count, sizeof(region->count));
        memcpy(access.stride, region->stride, sizeof(region->stride));
        c->message_addend = receives ? weft_check_rank_addend(c, message->source_rank) : -1;
        visit_access(c, &access);
    }
}

static void visit_tasks(weft_checker *c, bool measures)
{
    c->measures = measures;
    for (c->task = 0; c->task < c->list->tasks.count && !c->failed; c->task++) {
        const weft_task *task = weft_check_task(c, c->task);
        c->sources = (weft_checked_sources){ 0 };
        if (!measures) {
            declare_accesses(c, task);
        }
        c->message_addend = -1;
        if (task->kind == WEFT_RECORD_TASK) {
            weft_kernel_info_of(task->kernel)
                ->accesses(weft_task_arguments(c->list, task, c->arguments), (int)task->num_operands,
                           visit_access, c);
        } else {
            visit_transfer(c, task);
        }
    }
}

/* ---- the list ------------------------------------------------------------------------------------------ */

weft_status weft_task_list_check(const weft_task_list *list, const weft_task_call *call, char *why,
                                 size_t why_size)
{
    weft_checker c = { .list = list, .call = call, .why = why, .why_size = why_size };
    c.slots = calloc(list->slots.count + 1, sizeof(*c.slots));
    c.arguments = malloc(list->max_arguments + sizeof(uint64_t));
    if (c.slots == NULL || c.arguments == NULL) {
        free(c.slots);
        free(c.arguments);
        return WEFT_ERR_NOMEM;
    }
    weft_check_size_slots(&c);
    visit_tasks(&c, true);
    weft_check_make_units(&c);
    visit_tasks(&c, false);
    if (!c.failed) {
        weft_check_coverage(&c);
    }
    for (size_t i = 0; i < list->slots.count; i++) {
        free(c.slots[i].units);
    }
    free(c.slots);
    free(c.arguments);
    return c.out_of_memory ? WEFT_ERR_NOMEM : c.failed ? WEFT_ERR_STATE : WEFT_OK;
}
