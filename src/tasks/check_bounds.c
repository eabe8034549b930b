/* Positions of accesses in their slots: no access leaves its slot or cuts an element. */
#include <inttypes.h>
#include <stdlib.h>

#include "tasks/check_state.h"

/* ---- slots --------------------------------------------------------------------------------------------- */

/* Bytes of a panel; -1: no such panel. */
static int64_t panel_bytes(const weft_checker *c, const weft_slot *slot)
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

static int64_t slot_bytes(const weft_checker *c, const weft_slot *slot)
{
    if (slot->tensor != WEFT_TEMPORARY) {
        return panel_bytes(c, slot);
    }
    const weft_temporary *all = c->list->temporaries.items;
    bool exists = slot->panel >= 0 && slot->panel < (int64_t)c->list->temporaries.count;
    return exists ? all[slot->panel].bytes : -1;
}

void weft_check_size_slots(weft_checker *c)
{
    for (size_t i = 0; i < c->list->slots.count && !c->failed; i++) {
        const weft_slot *slot = weft_task_list_slots(c->list) + i;
        char text[64];
        c->slots[i].bytes = c->slots[i].unit_bytes = slot_bytes(c, slot);
        if (c->slots[i].bytes < 0) {
            weft_check_refuse(c, "there is no %s", weft_check_slot_text(slot, text));
        }
    }
}

int64_t weft_check_rank_addend(const weft_checker *c, int rank)
{
    return c->call->addend == NULL ? -1 : c->call->addend(c->call->context, rank);
}

void weft_check_make_units(weft_checker *c)
{
    for (size_t i = 0; i < c->list->slots.count && !c->failed; i++) {
        weft_checked_slot *s = &c->slots[i];
        const weft_slot *slot = weft_task_list_slots(c->list) + i;
        size_t count = s->bytes == 0 ? 0 : (size_t)(s->bytes / s->unit_bytes);
        s->units = calloc(count + 1, sizeof(*s->units));
        c->failed = c->out_of_memory = s->units == NULL;
        bool given = slot->tensor != WEFT_TEMPORARY && c->call->tensors[slot->tensor].given;
        int64_t rank_addend = given ? weft_check_rank_addend(c, c->call->first_rank + slot->shard) : -1;
        for (size_t k = 0; k < count && !c->failed; k++) {
            s->units[k].state = given ? WEFT_UNIT_GIVEN : WEFT_UNIT_NOTHING;
            s->units[k].rank_addend = rank_addend;
        }
    }
}

/* ---- accesses ------------------------------------------------------------------------------------------ */

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

static void insert_dim(weft_access_runs *r, int64_t extent, int64_t stride)
{
    int place = r->ndim++;
    for (; place > 0 && r->stride[place - 1] > stride; place--) {
        r->extent[place] = r->extent[place - 1];
        r->stride[place] = r->stride[place - 1];
    }
    r->extent[place] = extent;
    r->stride[place] = stride;
}

bool weft_access_find_runs(const weft_kernel_access *access, int64_t operand_offset, weft_access_runs *r)
{
    *r = (weft_access_runs){ .offset = operand_offset + access->offset, .bytes = access->element };
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

int64_t weft_access_end(const weft_access_runs *r)
{
    int64_t end = r->offset + r->bytes;
    for (int d = 0; d < r->ndim; d++) {
        end += (r->extent[d] - 1) * r->stride[d];
    }
    return end;
}

void weft_check_measure(weft_checker *c, uint32_t slot, const weft_access_runs *r, const char *does)
{
    weft_checked_slot *s = &c->slots[slot];
    int64_t end = weft_access_end(r);
    if (r->offset < 0 || end > s->bytes) {
        char why[64];
        snprintf(why, sizeof(why), "it has %" PRId64, s->bytes);
        weft_check_refuse_bytes(c, slot, does, r->offset, end, why);
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
        weft_check_refuse_bytes(c, slot, does, r->offset, end, "elements are cut");
    }
}
