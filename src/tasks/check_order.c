/* Values of the units of slots, task by task: no value is read before it is written, none is written twice, and
 * the addends of sums come in the documented order. */
#include "tasks/check_state.h"

/* ---- the order of addends ------------------------------------------------------------------------------ */

/* Order of two reads of a tensor: -1, 0, 1 as the bytes read by `a` lie before, at or after those read by
 * `b`. */
static int compare_reads(const weft_checker *c, const weft_task_operand *a, const weft_task_operand *b)
{
    const weft_slot *slots = weft_task_list_slots(c->list), *p = &slots[a->slot], *q = &slots[b->slot];
    if (p->panel != q->panel) {
        return p->panel < q->panel ? -1 : 1;
    }
    return a->offset == b->offset ? 0 : a->offset < b->offset ? -1 : 1;
}

/* The first operand of a task that reads this slot's shard. */
static const weft_task_operand *read_of(const weft_checker *c, const weft_task *task, const weft_slot *shard)
{
    for (uint32_t i = 1; i < task->num_operands; i++) {
        const weft_task_operand *operand = weft_task_operand_at(c->list, task, i);
        const weft_slot *slot = weft_task_list_slots(c->list) + operand->slot;
        if (slot->tensor == shard->tensor && slot->shard == shard->shard &&
            operand->access == WEFT_SLOT_READ) {
            return operand;
        }
    }
    return NULL;
}

/* Whether the addends of `later` lie after those of `earlier`: before them in no tensor, after them in
 * one. Tasks without a common input tensor are not ordered. */
static bool comes_after(const weft_checker *c, uint32_t earlier, uint32_t later)
{
    const weft_task *p = weft_check_task(c, earlier), *q = weft_check_task(c, later);
    bool behind = false, common = false;
    for (uint32_t i = 1; i < q->num_operands; i++) {
        const weft_task_operand *operand = weft_task_operand_at(c->list, q, i);
        const weft_slot *slot = weft_task_list_slots(c->list) + operand->slot;
        bool reads = operand->access == WEFT_SLOT_READ && slot->tensor != WEFT_TEMPORARY;
        const weft_task_operand *before = reads ? read_of(c, p, slot) : NULL;
        if (before == NULL || operand != read_of(c, q, slot)) {
            continue;
        }
        int order = compare_reads(c, before, operand);
        if (order > 0) {
            return false;
        }
        common = true;
        behind = behind || order < 0;
    }
    return behind || !common;
}

/* ---- units --------------------------------------------------------------------------------------------- */

/* The same for rank addends. */
static bool ranks_come_after(int64_t earlier, int64_t later)
{
    return earlier < 0 || later < 0 || earlier < later;
}

/* Adds a source to a sum: its addends follow those of the earlier sources. All its elements must have
 * equally many. */
static const char *add_source(weft_checker *c, const weft_checked_unit *u, bool begins)
{
    weft_checked_sources *s = &c->sources;
    if (begins) {
        if (s->any && ((u->addends > 0 && s->tasks && !comes_after(c, s->last, u->first)) ||
                       !ranks_come_after(s->last_rank_addend, u->rank_addend))) {
            return "its addends do not come after those of the operand before";
        }
        s->addends += s->of_this = u->addends > 0 ? u->addends : 1;
        s->tasks = u->addends > 0;
        s->first = s->any ? s->first : u->first;
        s->last = u->last;
        s->first_rank_addend = s->any ? s->first_rank_addend : u->rank_addend;
        s->last_rank_addend = u->rank_addend;
        s->any = true;
    } else if (s->of_this != (u->addends > 0 ? u->addends : 1)) {
        return "its elements are not of as many addends";
    }
    return NULL;
}

static const char *read_unit(weft_checker *c, weft_checked_unit *u, const weft_kernel_access *access,
                             bool begins)
{
    if (!weft_unit_has_value(u)) {
        return "nothing was written there";
    }
    u->read = true;
    return access->adds_sources ? add_source(c, u, begins) : NULL;
}

static const char *begin_unit(const weft_checker *c, weft_checked_unit *u, weft_kernel_access_kind kind,
                              bool temporary)
{
    if (u->state == WEFT_UNIT_WRITTEN && !(temporary && u->read)) {
        return temporary ? "what was there was not read" : "a task before has written there";
    }
    if ((u->state == WEFT_UNIT_CLEARED || u->state == WEFT_UNIT_DISCARDED) && kind == WEFT_KERNEL_CLEAR) {
        return "a task before has cleared it";
    }
    u->addends = 0;
    u->first = c->task;
    u->state = kind == WEFT_KERNEL_CLEAR ? WEFT_UNIT_CLEARED : WEFT_UNIT_WRITTEN;
    return NULL;
}

static const char *continue_unit(const weft_checker *c, weft_checked_unit *u,
                                 const weft_kernel_access *access)
{
    if (!weft_unit_has_value(u)) {
        return "nothing was written there";
    }
    bool from_tasks = access->adds_sources && c->sources.tasks;
    if (u->state != WEFT_UNIT_GIVEN && u->addends > 0 && (from_tasks || !access->adds_sources) &&
        !comes_after(c, u->last, from_tasks ? c->sources.first : c->task)) {
        return "its addends do not come after those of the tasks before";
    }
    if (access->adds_sources && !ranks_come_after(u->rank_addend, c->sources.first_rank_addend)) {
        return "the ranks' addends do not come after those of the tasks before";
    }
    u->state = WEFT_UNIT_WRITTEN;
    return NULL;
}

static const char *write_unit(const weft_checker *c, weft_checked_unit *u, const weft_kernel_access *access,
                              bool temporary)
{
    const char *why = access->kind == WEFT_KERNEL_UPDATE ? continue_unit(c, u, access)
                                                         : begin_unit(c, u, access->kind, temporary);
    bool from_tasks = access->adds_sources && c->sources.tasks;
    u->addends += access->adds_sources ? c->sources.addends : access->addends;
    u->last = from_tasks ? c->sources.last : c->task;
    u->rank_addend = access->adds_sources ? c->sources.last_rank_addend : c->message_addend;
    u->first = from_tasks && access->kind != WEFT_KERNEL_UPDATE ? c->sources.first : u->first;
    u->read = false;
    return why;
}

static void visit_run(weft_checker *c, const weft_kernel_access *access, uint32_t slot, int64_t offset,
                      int64_t bytes, bool begins)
{
    weft_checked_slot *s = &c->slots[slot];
    bool reads = access->kind == WEFT_KERNEL_READ;
    bool temporary = weft_task_list_slots(c->list)[slot].tensor == WEFT_TEMPORARY;
    for (int64_t at = offset; at < offset + bytes && !c->failed; at += s->unit_bytes) {
        weft_checked_unit *u = &s->units[at / s->unit_bytes];
        const char *why = reads ? read_unit(c, u, access, begins) : write_unit(c, u, access, temporary);
        begins = false;
        if (why != NULL) {
            weft_check_refuse_bytes(c, slot, reads ? "reads" : "writes", at, at + s->unit_bytes, why);
        }
    }
}

void weft_check_visit_runs(weft_checker *c, const weft_kernel_access *access, uint32_t slot,
                           const weft_access_runs *r)
{
    int64_t index[WEFT_KERNEL_DIMS] = { 0 }, offset = r->offset;
    int d;
    bool begins = true;
    do {
        visit_run(c, access, slot, offset, r->bytes, begins);
        begins = false;
        for (d = 0; d < r->ndim; d++) {
            offset += r->stride[d];
            if (++index[d] < r->extent[d]) {
                break;
            }
            offset -= r->extent[d] * r->stride[d];
            index[d] = 0;
        }
    } while (d < r->ndim && !c->failed);
}

void weft_check_discard(weft_checker *c, uint32_t slot)
{
    weft_checked_slot *s = &c->slots[slot];
    bool temporary = weft_task_list_slots(c->list)[slot].tensor == WEFT_TEMPORARY;
    int64_t count = s->bytes == 0 ? 0 : s->bytes / s->unit_bytes;
    for (int64_t i = 0; i < count && !c->failed; i++) {
        weft_checked_unit *u = &s->units[i];
        if (u->state == WEFT_UNIT_WRITTEN && !(temporary && u->read)) {
            weft_check_refuse_bytes(c, slot, "discards", i * s->unit_bytes, (i + 1) * s->unit_bytes,
                                    "a task before has written there");
        }
        u->state = u->state == WEFT_UNIT_CLEARED ? WEFT_UNIT_DISCARDED : WEFT_UNIT_NOTHING;
        u->read = false;
    }
}
