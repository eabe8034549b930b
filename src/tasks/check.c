/* Follows the tasks of a list through its slots. A slot is divided into units, the greatest common divisor
 * of all access borders in it, so that a panel that is only used whole is one unit. */
#include "tasks/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- state --------------------------------------------------------------------------------------------- */

/* DISCARDED: was CLEARED, and has undefined contents. */
typedef enum unit_state { NOTHING, GIVEN, CLEARED, DISCARDED, WRITTEN } unit_state;

typedef struct unit {
    unit_state state;
    bool read;            /* since the last write */
    uint32_t first, last; /* tasks whose addends it contains */
    int64_t addends;
    int64_t rank_addend; /* of rank addends: the number of the addend, in sums of the last one; else -1 */
} unit;

typedef struct slot_state {
    int64_t bytes, unit_bytes;
    unit *units;
    uint32_t access; /* of the current task: union of its operands in this slot */
} slot_state;

/* Sources of a task that accumulates. */
typedef struct sources {
    int64_t addends, of_this; /* of all sources; of the current one */
    bool any, tasks;          /* there was a source; the last one is a sum by tasks first .. last */
    uint32_t first, last;
    int64_t first_rank_addend, last_rank_addend; /* -1: not a rank's addend */
} sources;

typedef struct checker {
    const weft_task_list *list;
    const weft_task_call *call;
    slot_state *slots;
    void *arguments; /* of the current task */
    uint32_t task;   /* the current task */
    bool measures;   /* first pass: computes units */
    sources sources;
    int64_t message_addend; /* of the received message, as unit.rank_addend; else -1 */
    bool failed, out_of_memory;
    char *why;
    size_t why_size;
} checker;

static void refuse(checker *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Keeps the first reason. */
static void refuse(checker *c, const char *format, ...)
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

static const weft_task *task_at(const checker *c, uint32_t number)
{
    return weft_task_list_tasks(c->list) + number;
}

static const char *slot_text(const weft_slot *slot, char text[64])
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

/* "task 3 (weft_copy) reads bytes 16 to 32 of tensor 0, shard 0, panel 1: ..." */
static void refuse_bytes(checker *c, uint32_t slot, const char *does, int64_t first, int64_t last,
                         const char *why)
{
    char text[64];
    refuse(c, "task %" PRIu32 " (%s) %s bytes %" PRId64 " to %" PRId64 " of %s: %s", c->task,
           name_of(task_at(c, c->task)), does, first, last,
           slot_text(weft_task_list_slots(c->list) + slot, text), why);
}

/* ---- slots --------------------------------------------------------------------------------------------- */

/* Bytes of a panel; -1: no such panel. */
static int64_t panel_bytes(const checker *c, const weft_slot *slot)
{
    const weft_task_call *call = c->call;
    if (slot->tensor < 0 || slot->tensor >= call->num_tensors || slot->shard < 0 ||
        slot->shard >= call->num_shards) {
        return -1;
    }
    const weft_layout *layout = call->tensors[slot->tensor].layout;
    weft_shard_info shard = weft_layout_shard(layout, call->first_rank + slot->shard);
    if (slot->panel < 0 || slot->panel >= shard.num_panels) {
        return -1;
    }
    int64_t first, last;
    weft_panel_range(layout, &shard.box, slot->panel, &first, &last);
    return (last - first) * weft_row_elements(layout->ndim, &shard.box) *
           (int64_t)weft_dtype_size(layout->dtype);
}

static int64_t slot_bytes(const checker *c, const weft_slot *slot)
{
    if (slot->tensor != WEFT_TEMPORARY) {
        return panel_bytes(c, slot);
    }
    const weft_temporary *all = c->list->temporaries.items;
    bool exists = slot->panel >= 0 && slot->panel < (int64_t)c->list->temporaries.count;
    return exists ? all[slot->panel].bytes : -1;
}

static void size_slots(checker *c)
{
    for (size_t i = 0; i < c->list->slots.count && !c->failed; i++) {
        const weft_slot *slot = weft_task_list_slots(c->list) + i;
        char text[64];
        c->slots[i].bytes = c->slots[i].unit_bytes = slot_bytes(c, slot);
        if (c->slots[i].bytes < 0) {
            refuse(c, "there is no %s", slot_text(slot, text));
        }
    }
}

static int64_t rank_addend_of(const checker *c, int rank)
{
    return c->call->addend == NULL ? -1 : c->call->addend(c->call->context, rank);
}

static void make_units(checker *c)
{
    for (size_t i = 0; i < c->list->slots.count && !c->failed; i++) {
        slot_state *s = &c->slots[i];
        const weft_slot *slot = weft_task_list_slots(c->list) + i;
        size_t count = s->bytes == 0 ? 0 : (size_t)(s->bytes / s->unit_bytes);
        s->units = calloc(count + 1, sizeof(*s->units));
        c->failed = c->out_of_memory = s->units == NULL;
        bool given = slot->tensor != WEFT_TEMPORARY && c->call->tensors[slot->tensor].given;
        int64_t rank_addend = given ? rank_addend_of(c, c->call->first_rank + slot->shard) : -1;
        for (size_t k = 0; k < count && !c->failed; k++) {
            s->units[k].state = given ? GIVEN : NOTHING;
            s->units[k].rank_addend = rank_addend;
        }
    }
}

/* ---- boxes --------------------------------------------------------------------------------------------- */

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

/* An access as runs of bytes: positive ascending strides, contiguous dimensions merged. */
typedef struct runs {
    int64_t offset, bytes;
    int ndim;
    int64_t extent[WEFT_KERNEL_DIMS], stride[WEFT_KERNEL_DIMS];
    bool repeats; /* elements overlap */
} runs;

static void insert_dim(runs *r, int64_t extent, int64_t stride)
{
    int place = r->ndim++;
    for (; place > 0 && r->stride[place - 1] > stride; place--) {
        r->extent[place] = r->extent[place - 1];
        r->stride[place] = r->stride[place - 1];
    }
    r->extent[place] = extent;
    r->stride[place] = stride;
}

/* False: no elements. */
static bool find_runs(const weft_kernel_access *access, int64_t operand_offset, runs *r)
{
    *r = (runs){ .offset = operand_offset + access->offset, .bytes = access->element };
    for (int d = 0; d < access->ndim; d++) {
        int64_t extent = access->extent[d], stride = access->stride[d];
        if (extent <= 0) {
            return false;
        }
        r->repeats = r->repeats || (extent > 1 && stride == 0);
        if (stride < 0) {
            r->offset += (extent - 1) * stride;
            stride = -stride;
        }
        if (extent > 1 && stride > 0) {
            insert_dim(r, extent, stride);
        }
    }
    int joined = 0;
    while (joined < r->ndim && r->stride[joined] == r->bytes) {
        r->bytes *= r->extent[joined++];
    }
    r->ndim -= joined;
    for (int d = 0; d < r->ndim; d++) {
        r->extent[d] = r->extent[d + joined];
        r->stride[d] = r->stride[d + joined];
    }
    return r->bytes > 0;
}

static int64_t end_of(const runs *r)
{
    int64_t end = r->offset + r->bytes;
    for (int d = 0; d < r->ndim; d++) {
        end += (r->extent[d] - 1) * r->stride[d];
    }
    return end;
}

static void measure(checker *c, uint32_t slot, const runs *r, const char *does)
{
    slot_state *s = &c->slots[slot];
    int64_t end = end_of(r);
    if (r->offset < 0 || end > s->bytes) {
        char why[64];
        snprintf(why, sizeof(why), "it has %" PRId64, s->bytes);
        refuse_bytes(c, slot, does, r->offset, end, why);
        return;
    }
    s->unit_bytes = common_divisor(common_divisor(s->unit_bytes, r->offset), r->bytes);
    for (int d = 0; d < r->ndim; d++) {
        s->unit_bytes = common_divisor(s->unit_bytes, r->stride[d]);
    }
    const weft_slot *of = weft_task_list_slots(c->list) + slot;
    size_t size =
        of->tensor == WEFT_TEMPORARY ? 1 : weft_dtype_size(c->call->tensors[of->tensor].layout->dtype);
    if (s->unit_bytes % (int64_t)size != 0) {
        refuse_bytes(c, slot, does, r->offset, end, "elements are cut");
    }
}

/* ---- the order of addends ------------------------------------------------------------------------------ */

/* Order of two reads of a tensor: -1, 0, 1 as the bytes read by `a` lie before, at or behind those read by
 * `b`. */
static int compare_reads(const checker *c, const weft_task_operand *a, const weft_task_operand *b)
{
    const weft_slot *slots = weft_task_list_slots(c->list), *p = &slots[a->slot], *q = &slots[b->slot];
    if (p->panel != q->panel) {
        return p->panel < q->panel ? -1 : 1;
    }
    return a->offset == b->offset ? 0 : a->offset < b->offset ? -1 : 1;
}

/* The first operand of a task that reads this slot's shard. */
static const weft_task_operand *read_of(const checker *c, const weft_task *task, const weft_slot *shard)
{
    for (uint32_t i = 1; i < task->num_operands; i++) {
        const weft_task_operand *operand = weft_task_operands(c->list, task) + i;
        const weft_slot *slot = weft_task_list_slots(c->list) + operand->slot;
        if (slot->tensor == shard->tensor && slot->shard == shard->shard &&
            operand->access == WEFT_SLOT_READ) {
            return operand;
        }
    }
    return NULL;
}

/* Whether the addends of `later` lie behind those of `earlier`: before them in no tensor, behind them in
 * one. Tasks without a common input tensor are not ordered. */
static bool comes_after(const checker *c, uint32_t earlier, uint32_t later)
{
    const weft_task *p = task_at(c, earlier), *q = task_at(c, later);
    bool behind = false, common = false;
    for (uint32_t i = 1; i < q->num_operands; i++) {
        const weft_task_operand *operand = weft_task_operands(c->list, q) + i;
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

static bool has_value(const unit *u)
{
    return u->state != NOTHING && u->state != DISCARDED;
}

/* ---- units --------------------------------------------------------------------------------------------- */

/* The same for rank addends. */
static bool ranks_come_after(int64_t earlier, int64_t later)
{
    return earlier < 0 || later < 0 || earlier < later;
}

/* Adds a source to a sum: its addends follow those of the earlier sources. All its elements must have
 * equally many. */
static const char *add_source(checker *c, const unit *u, bool begins)
{
    sources *s = &c->sources;
    if (begins) {
        if (s->any && ((u->addends > 0 && s->tasks && !comes_after(c, s->last, u->first)) ||
                       !ranks_come_after(s->last_rank_addend, u->rank_addend))) {
            return "its addends do not come behind those of the operand before";
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

static const char *read_unit(checker *c, unit *u, const weft_kernel_access *access, bool begins)
{
    if (!has_value(u)) {
        return "nothing was written there";
    }
    u->read = true;
    return access->adds_sources ? add_source(c, u, begins) : NULL;
}

static const char *begin_unit(const checker *c, unit *u, weft_kernel_access_kind kind, bool temporary)
{
    if (u->state == WRITTEN && !(temporary && u->read)) {
        return temporary ? "what was there was not read" : "a task before has written there";
    }
    if ((u->state == CLEARED || u->state == DISCARDED) && kind == WEFT_KERNEL_CLEAR) {
        return "a task before has cleared it";
    }
    u->addends = 0;
    u->first = c->task;
    u->state = kind == WEFT_KERNEL_CLEAR ? CLEARED : WRITTEN;
    return NULL;
}

static const char *continue_unit(const checker *c, unit *u, const weft_kernel_access *access)
{
    if (!has_value(u)) {
        return "nothing was written there";
    }
    bool from_tasks = access->adds_sources && c->sources.tasks;
    if (u->state != GIVEN && u->addends > 0 && (from_tasks || !access->adds_sources) &&
        !comes_after(c, u->last, from_tasks ? c->sources.first : c->task)) {
        return "its addends do not come behind those of the tasks before";
    }
    if (access->adds_sources && !ranks_come_after(u->rank_addend, c->sources.first_rank_addend)) {
        return "the ranks' addends do not come behind those of the tasks before";
    }
    u->state = WRITTEN;
    return NULL;
}

static const char *write_unit(const checker *c, unit *u, const weft_kernel_access *access, bool temporary)
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

static void visit_run(checker *c, const weft_kernel_access *access, uint32_t slot, int64_t offset,
                      int64_t bytes, bool begins)
{
    slot_state *s = &c->slots[slot];
    bool reads = access->kind == WEFT_KERNEL_READ;
    bool temporary = weft_task_list_slots(c->list)[slot].tensor == WEFT_TEMPORARY;
    for (int64_t at = offset; at < offset + bytes && !c->failed; at += s->unit_bytes) {
        unit *u = &s->units[at / s->unit_bytes];
        const char *why = reads ? read_unit(c, u, access, begins) : write_unit(c, u, access, temporary);
        begins = false;
        if (why != NULL) {
            refuse_bytes(c, slot, reads ? "reads" : "writes", at, at + s->unit_bytes, why);
        }
    }
}

static void visit_runs(checker *c, const weft_kernel_access *access, uint32_t slot, const runs *r)
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

/* ---- tasks --------------------------------------------------------------------------------------------- */

static uint32_t needed_access(weft_kernel_access_kind kind)
{
    return kind == WEFT_KERNEL_READ     ? WEFT_SLOT_READ
           : kind == WEFT_KERNEL_UPDATE ? WEFT_SLOT_READ_WRITE
                                        : WEFT_SLOT_WRITE;
}

static void visit_access(void *context, const weft_kernel_access *access)
{
    checker *c = context;
    const weft_task *task = task_at(c, c->task);
    if (c->failed) {
        return;
    }
    if (access->operand < 0 || (uint32_t)access->operand >= task->num_operands) {
        refuse(c, "task %" PRIu32 " (%s) has no operand %d", c->task, name_of(task), access->operand);
        return;
    }
    const weft_task_operand *operand = weft_task_operands(c->list, task) + access->operand;
    const char *does = access->kind == WEFT_KERNEL_READ ? "reads" : "writes";
    runs r;
    if (!find_runs(access, operand->offset, &r)) {
        return;
    }
    uint32_t needed = needed_access(access->kind);
    if ((operand->access & needed) != needed) {
        refuse_bytes(c, operand->slot, does, r.offset, end_of(&r), "the operand does not declare it");
    } else if (r.repeats && access->kind != WEFT_KERNEL_READ) {
        refuse_bytes(c, operand->slot, does, r.offset, end_of(&r), "elements lie on each other");
    } else if (c->measures) {
        measure(c, operand->slot, &r, does);
    } else {
        visit_runs(c, access, operand->slot, &r);
    }
}

/* After WEFT_SLOT_WRITE the former contents of a slot are undefined. */
static void discard(checker *c, uint32_t slot)
{
    slot_state *s = &c->slots[slot];
    bool temporary = weft_task_list_slots(c->list)[slot].tensor == WEFT_TEMPORARY;
    int64_t count = s->bytes == 0 ? 0 : s->bytes / s->unit_bytes;
    for (int64_t i = 0; i < count && !c->failed; i++) {
        unit *u = &s->units[i];
        if (u->state == WRITTEN && !(temporary && u->read)) {
            refuse_bytes(c, slot, "discards", i * s->unit_bytes, (i + 1) * s->unit_bytes,
                         "a task before has written there");
        }
        u->state = u->state == CLEARED ? DISCARDED : NOTHING;
        u->read = false;
    }
}

static void declare_accesses(checker *c, const weft_task *task)
{
    const weft_task_operand *operands = weft_task_operands(c->list, task);
    for (uint32_t i = 0; i < task->num_operands; i++) {
        c->slots[operands[i].slot].access |= operands[i].access;
    }
    for (uint32_t i = 0; i < task->num_operands; i++) {
        if (c->slots[operands[i].slot].access == WEFT_SLOT_WRITE) {
            discard(c, operands[i].slot);
        }
        c->slots[operands[i].slot].access = 0;
    }
}

/* Values that a transfer's messages write to its operand, or read from it. */
static void visit_transfer(checker *c, const weft_task *transfer)
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
        c->message_addend = receives ? rank_addend_of(c, message->source_rank) : -1;
        visit_access(c, &access);
    }
}

static void visit_tasks(checker *c, bool measures)
{
    c->measures = measures;
    for (c->task = 0; c->task < c->list->tasks.count && !c->failed; c->task++) {
        const weft_task *task = task_at(c, c->task);
        c->sources = (sources){ 0 };
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

/* ---- at the end ---------------------------------------------------------------------------------------- */

/* Summary of the units of one shard. */
typedef struct shard_state {
    int64_t panels; /* panels with a slot */
    bool some_read, some_unread;
    int64_t written;     /* bytes */
    int64_t least, most; /* addends */
} shard_state;

static void add_slot(const slot_state *s, shard_state *shard)
{
    int64_t count = s->bytes == 0 ? 0 : s->bytes / s->unit_bytes;
    shard->panels++;
    for (int64_t i = 0; i < count; i++) {
        const unit *u = &s->units[i];
        shard->some_read = shard->some_read || u->read;
        shard->some_unread = shard->some_unread || !u->read;
        if (u->state == WRITTEN) {
            shard->written += s->unit_bytes;
            shard->least = weft_min_i64(shard->least, u->addends);
            shard->most = weft_max_i64(shard->most, u->addends);
        }
    }
}

static void check_temporary(checker *c, size_t slot)
{
    const slot_state *s = &c->slots[slot];
    int64_t count = s->bytes == 0 ? 0 : s->bytes / s->unit_bytes;
    char text[64];
    for (int64_t i = 0; i < count; i++) {
        if (has_value(&s->units[i]) && !s->units[i].read) {
            refuse(c, "%s has values that no task reads",
                   slot_text(weft_task_list_slots(c->list) + slot, text));
            return;
        }
    }
}

/* Whether all units of an output's panel are written. */
static void check_written(checker *c, size_t slot)
{
    const slot_state *s = &c->slots[slot];
    int64_t count = s->bytes == 0 ? 0 : s->bytes / s->unit_bytes;
    char text[64];
    for (int64_t i = 0; i < count; i++) {
        if (s->units[i].state != WRITTEN && s->units[i].state != CLEARED) {
            refuse(c, "no task writes bytes %" PRId64 " to %" PRId64 " of %s", i * s->unit_bytes,
                   (i + 1) * s->unit_bytes, slot_text(weft_task_list_slots(c->list) + slot, text));
            return;
        }
    }
}

/* Whether element `number` (row-major) of a panel is inside a box of the tensor's indices. */
static bool is_inside(const weft_layout *layout, const weft_box *shard, int64_t first_row, int64_t number,
                      const weft_box *box)
{
    bool inside = true;
    for (int d = layout->ndim - 1; d >= 0; d--) {
        int64_t index = d == 0 ? number + first_row : number % shard->extent[d] + shard->offset[d];
        inside = inside && index >= box->offset[d] && index < box->offset[d] + box->extent[d];
        number /= shard->extent[d];
    }
    return inside;
}

/* Checks that no unit outside a box is written. */
static void check_inside(checker *c, size_t number, const weft_box *box)
{
    const slot_state *s = &c->slots[number];
    const weft_slot *slot = weft_task_list_slots(c->list) + number;
    const weft_layout *layout = c->call->tensors[slot->tensor].layout;
    int64_t size = (int64_t)weft_dtype_size(layout->dtype), first, last;
    weft_shard_info shard = weft_layout_shard(layout, c->call->first_rank + slot->shard);
    weft_panel_range(layout, &shard.box, slot->panel, &first, &last);
    for (int64_t i = 0; s->bytes > 0 && i < s->bytes / s->unit_bytes; i++) {
        if (s->units[i].state == WRITTEN &&
            !is_inside(layout, &shard.box, first, i * s->unit_bytes / size, box)) {
            char text[64];
            refuse(c, "a task writes element %" PRId64 " of %s, which is not asked for",
                   i * s->unit_bytes / size, slot_text(slot, text));
            return;
        }
    }
}

static void check_shard(checker *c, int tensor, int shard)
{
    const weft_task_tensor *t = &c->call->tensors[tensor];
    shard_state found = { .least = INT64_MAX, .most = INT64_MIN };
    for (size_t i = 0; i < c->list->slots.count; i++) {
        const weft_slot *slot = weft_task_list_slots(c->list) + i;
        if (slot->tensor == tensor && slot->shard == shard) {
            add_slot(&c->slots[i], &found);
            if (t->written == WEFT_TASKS_ALL) {
                check_written(c, i);
            }
            if (t->boxes != NULL) {
                check_inside(c, i, &t->boxes[shard]);
            }
        }
    }
    int64_t panels = weft_layout_shard(t->layout, c->call->first_rank + shard).num_panels;
    if (t->written == WEFT_TASKS_ALL && found.panels < panels) {
        refuse(c, "no task writes %" PRId64 " of %" PRId64 " panels of tensor %d, shard %d",
               panels - found.panels, panels, tensor, shard);
    }
    if (t->written == WEFT_TASKS_ALL && found.least < found.most) {
        refuse(c, "elements of tensor %d, shard %d have from %" PRId64 " to %" PRId64 " addends", tensor,
               shard, found.least, found.most);
    }
    if (t->written != WEFT_TASKS_NONE && c->call->addend != NULL && found.panels > 0 &&
        (found.least != c->call->num_addends || found.most != c->call->num_addends)) {
        refuse(c, "elements of tensor %d, shard %d have %" PRId64 " addends, expected %" PRId64, tensor,
               shard, found.least, c->call->num_addends);
    }
    int64_t size = (int64_t)weft_dtype_size(t->layout->dtype);
    int64_t expected = t->boxes == NULL ? 0 : weft_box_count(t->layout->ndim, &t->boxes[shard]);
    if (t->boxes != NULL && found.written != expected * size) {
        refuse(c, "tasks write %" PRId64 " elements of tensor %d, shard %d, expected %" PRId64,
               found.written / size, tensor, shard, expected);
    }
    if (t->read == WEFT_TASKS_ALL && t->written == WEFT_TASKS_NONE && found.some_read &&
        (found.some_unread || found.panels < panels)) {
        refuse(c, "tasks read some of tensor %d, shard %d, but not all", tensor, shard);
    }
}

typedef struct message_tag {
    weft_record_kind kind;
    int32_t peer;
    uint32_t tag;
} message_tag;

static int compare_tags(const void *a, const void *b)
{
    const message_tag *p = a, *q = b;
    return p->kind != q->kind   ? (p->kind < q->kind ? -1 : 1)
           : p->peer != q->peer ? (p->peer < q->peer ? -1 : 1)
           : p->tag != q->tag   ? (p->tag < q->tag ? -1 : 1)
                                : 0;
}

static void collect_tags(const checker *c, message_tag tags[])
{
    size_t count = 0;
    for (size_t i = 0; i < c->list->tasks.count; i++) {
        const weft_task *transfer = task_at(c, (uint32_t)i);
        for (uint32_t k = 0; k < weft_task_num_messages(transfer); k++) {
            const weft_task_message *message = weft_task_messages(c->list, transfer) + k;
            tags[count++] = (message_tag){ transfer->kind, message->peer, message->tag };
        }
    }
    qsort(tags, count, sizeof(tags[0]), compare_tags);
}

static void check_tags(checker *c)
{
    size_t count = 0;
    for (size_t i = 0; i < c->list->tasks.count; i++) {
        count += weft_task_num_messages(task_at(c, (uint32_t)i));
    }
    message_tag *tags = malloc((count + 1) * sizeof(*tags));
    if (tags == NULL) {
        c->failed = c->out_of_memory = true;
        return;
    }
    collect_tags(c, tags);
    for (size_t i = 0; i < count; i++) {
        bool same = i > 0 && tags[i].kind == tags[i - 1].kind && tags[i].peer == tags[i - 1].peer;
        uint32_t expected = same ? tags[i - 1].tag + 1 : 0;
        if (tags[i].tag != expected) {
            refuse(c, "a message with process %" PRId32 " has tag %" PRIu32 ", expected %" PRIu32,
                   tags[i].peer, tags[i].tag, expected);
        }
    }
    free(tags);
}

static void check_end(checker *c)
{
    check_tags(c);
    for (size_t i = 0; i < c->list->slots.count; i++) {
        if (weft_task_list_slots(c->list)[i].tensor == WEFT_TEMPORARY) {
            check_temporary(c, i);
        }
    }
    for (int t = 0; t < c->call->num_tensors; t++) {
        for (int s = 0; s < c->call->num_shards && c->call->tensors[t].layout != NULL; s++) {
            check_shard(c, t, s);
        }
    }
}

weft_status weft_task_list_check(const weft_task_list *list, const weft_task_call *call, char *why,
                                 size_t why_size)
{
    checker c = { .list = list, .call = call, .why = why, .why_size = why_size };
    c.slots = calloc(list->slots.count + 1, sizeof(*c.slots));
    c.arguments = malloc(list->max_arguments + sizeof(uint64_t));
    if (c.slots == NULL || c.arguments == NULL) {
        free(c.slots);
        free(c.arguments);
        return WEFT_ERR_NOMEM;
    }
    size_slots(&c);
    visit_tasks(&c, true);
    make_units(&c);
    visit_tasks(&c, false);
    if (!c.failed) {
        check_end(&c);
    }
    for (size_t i = 0; i < list->slots.count; i++) {
        free(c.slots[i].units);
    }
    free(c.slots);
    free(c.arguments);
    return c.out_of_memory ? WEFT_ERR_NOMEM : c.failed ? WEFT_ERR_STATE : WEFT_OK;
}
