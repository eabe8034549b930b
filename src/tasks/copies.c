#include "tasks/copies.h"

#include <stddef.h>

enum { MOST_SOURCES = WEFT_MAX_OPERANDS - 1 };

static bool begin(weft_copies *c)
{
    c->args = weft_task_begin(c->list, WEFT_KERNEL_copy, sizeof(*c->args));
    if (c->args == NULL) {
        return false;
    }
    c->count = 0;
    c->args->base.dtype = c->dtype;
    c->args->element_size = c->element_size;
    c->args->streams = c->streams;
    weft_task_add(c->list, c->target, 0, c->access);
    c->access = WEFT_SLOT_READ_WRITE;
    return true;
}

bool weft_copies_add(weft_copies *c, int64_t target_offset, weft_slot source, int64_t source_offset, const weft_strided_box *box)
{
    if (c->args != NULL && c->count == MOST_SOURCES && !weft_copies_end(c)) {
        return false;
    }
    if (c->args == NULL && !begin(c)) {
        return false;
    }
    c->args->target_offset[c->count] = target_offset;
    c->args->boxes[c->count++] = *box;
    weft_task_add(c->list, source, source_offset, WEFT_SLOT_READ);
    return true;
}

bool weft_copies_end(weft_copies *c)
{
    if (c->args == NULL) {
        return true;
    }
    c->args = NULL;
    weft_task_trim(c->list, offsetof(weft_copy_args, boxes) + (size_t)c->count * sizeof(weft_strided_box));
    return weft_task_end(c->list, c->position);
}
