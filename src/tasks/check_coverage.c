/* The result of all tasks: outputs are written, all elements of as many addends; temporaries are read; tags have
 * no gap. */
#include <inttypes.h>
#include <stdlib.h>

#include "tasks/check_state.h"

/* ---- slots and shards ---------------------------------------------------------------------------------- */

/* Summary of the units of one shard. */
typedef struct shard_state {
    int64_t panels; /* panels with a slot */
    bool some_read, some_unread;
    int64_t written;     /* bytes */
    int64_t least, most; /* addends */
} shard_state;

static void add_slot(const weft_checked_slot *s, shard_state *shard)
{
    int64_t count = s->bytes == 0 ? 0 : s->bytes / s->unit_bytes;
    shard->panels++;
    for (int64_t i = 0; i < count; i++) {
        const weft_checked_unit *u = &s->units[i];
        shard->some_read = shard->some_read || u->read;
        shard->some_unread = shard->some_unread || !u->read;
        if (u->state == WEFT_UNIT_WRITTEN) {
            shard->written += s->unit_bytes;
            shard->least = weft_min_i64(shard->least, u->addends);
            shard->most = weft_max_i64(shard->most, u->addends);
        }
    }
}

static void check_temporary(weft_checker *c, size_t slot)
{
    const weft_checked_slot *s = &c->slots[slot];
    int64_t count = s->bytes == 0 ? 0 : s->bytes / s->unit_bytes;
    char text[64];
    for (int64_t i = 0; i < count; i++) {
        if (weft_unit_has_value(&s->units[i]) && !s->units[i].read) {
            weft_check_refuse(c, "%s has values that no task reads",
                              weft_check_slot_text(weft_task_list_slots(c->list) + slot, text));
            return;
        }
    }
}

/* Whether all units of an output's panel are written. */
static void check_written(weft_checker *c, size_t slot)
{
    const weft_checked_slot *s = &c->slots[slot];
    int64_t count = s->bytes == 0 ? 0 : s->bytes / s->unit_bytes;
    char text[64];
    for (int64_t i = 0; i < count; i++) {
        if (s->units[i].state != WEFT_UNIT_WRITTEN && s->units[i].state != WEFT_UNIT_CLEARED) {
            weft_check_refuse(c, "no task writes bytes %" PRId64 " to %" PRId64 " of %s", i * s->unit_bytes,
                              (i + 1) * s->unit_bytes,
                              weft_check_slot_text(weft_task_list_slots(c->list) + slot, text));
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
static void check_inside(weft_checker *c, size_t number, const weft_box *box)
{
    const weft_checked_slot *s = &c->slots[number];
    const weft_slot *slot = weft_task_list_slots(c->list) + number;
    const weft_layout *layout = c->call->tensors[slot->tensor].layout;
    int64_t size = (int64_t)weft_dtype_size(layout->dtype), first, last;
    weft_shard_info shard = weft_layout_shard(layout, c->call->first_rank + slot->shard);
    weft_panel_range(layout, &shard.box, slot->panel, &first, &last);
    for (int64_t i = 0; s->bytes > 0 && i < s->bytes / s->unit_bytes; i++) {
        if (s->units[i].state == WEFT_UNIT_WRITTEN &&
            !is_inside(layout, &shard.box, first, i * s->unit_bytes / size, box)) {
            char text[64];
            weft_check_refuse(c, "a task writes element %" PRId64 " of %s, which is not asked for",
                              i * s->unit_bytes / size, weft_check_slot_text(slot, text));
            return;
        }
    }
}

static void check_shard(weft_checker *c, int tensor, int shard)
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
        weft_check_refuse(c, "no task writes %" PRId64 " of %" PRId64 " panels of tensor %d, shard %d",
                          panels - found.panels, panels, tensor, shard);
    }
    if (t->written == WEFT_TASKS_ALL && found.least < found.most) {
        weft_check_refuse(c, "elements of tensor %d, shard %d have from %" PRId64 " to %" PRId64 " addends",
                          tensor, shard, found.least, found.most);
    }
    if (t->written != WEFT_TASKS_NONE && c->call->addend != NULL && found.panels > 0 &&
        (found.least != c->call->num_addends || found.most != c->call->num_addends)) {
        weft_check_refuse(c, "elements of tensor %d, shard %d have %" PRId64 " addends, expected %" PRId64,
                          tensor, shard, found.least, c->call->num_addends);
    }
    int64_t size = (int64_t)weft_dtype_size(t->layout->dtype);
    int64_t expected = t->boxes == NULL ? 0 : weft_box_count(t->layout->ndim, &t->boxes[shard]);
    if (t->boxes != NULL && found.written != expected * size) {
        weft_check_refuse(c, "tasks write %" PRId64 " elements of tensor %d, shard %d, expected %" PRId64,
                          found.written / size, tensor, shard, expected);
    }
    if (t->read == WEFT_TASKS_ALL && t->written == WEFT_TASKS_NONE && found.some_read &&
        (found.some_unread || found.panels < panels)) {
        weft_check_refuse(c, "tasks read some of tensor %d, shard %d, but not all", tensor, shard);
    }
}

/* ---- tags ---------------------------------------------------------------------------------------------- */

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

static void collect_tags(const weft_checker *c, message_tag tags[])
{
    size_t count = 0;
    for (size_t i = 0; i < c->list->tasks.count; i++) {
        const weft_task *transfer = weft_check_task(c, (uint32_t)i);
        for (uint32_t k = 0; k < weft_task_num_messages(transfer); k++) {
            const weft_task_message *message = weft_task_messages(c->list, transfer) + k;
            tags[count++] = (message_tag){ transfer->kind, message->peer, message->tag };
        }
    }
    qsort(tags, count, sizeof(tags[0]), compare_tags);
}

static void check_tags(weft_checker *c)
{
    size_t count = 0;
    for (size_t i = 0; i < c->list->tasks.count; i++) {
        count += weft_task_num_messages(weft_check_task(c, (uint32_t)i));
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
            weft_check_refuse(c, "a message with process %" PRId32 " has tag %" PRIu32 ", expected %" PRIu32,
                              tags[i].peer, tags[i].tag, expected);
        }
    }
    free(tags);
}

/* ---- all ----------------------------------------------------------------------------------------------- */

void weft_check_coverage(weft_checker *c)
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
