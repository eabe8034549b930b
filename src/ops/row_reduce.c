#include "ops/row_reduce.h"

const char *weft_write_letters(char *text, int ndim, int64_t mask, weft_letters_style style)
{
    char *at = text;
    for (int d = 0; d < ndim; d++) {
        bool chosen = mask >> d & 1;
        char letter = (char)('a' + d);
        switch (style) {
        case WEFT_LETTERS_WHOLE:
            if (chosen) {
                *at++ = '[';
                *at++ = letter;
                letter = ']';
            }
            break;
        case WEFT_LETTERS_ONES:
            letter = chosen ? '1' : letter;
            break;
        case WEFT_LETTERS_OTHERS:
            letter = chosen ? letter : '1';
            break;
        default:
            break;
        }
        if (chosen || style != WEFT_LETTERS_CHOSEN) {
            *at++ = letter;
        }
        if (style == WEFT_LETTERS_ALL || (!chosen && (style == WEFT_LETTERS_WHOLE || style == WEFT_LETTERS_CHUNKS))) {
            *at++ = '*';
        }
    }
    *at = '\0';
    return text;
}

bool weft_is_cut(const weft_layout *layout, int64_t mask)
{
    for (int m = 0; m < layout->mesh->ndim; m++) {
        weft_placement placement = layout->placements[m];
        if (placement.kind == WEFT_SHARD && (mask >> placement.dim & 1) && layout->mesh->shape[m] > 1) {
            return true;
        }
    }
    return false;
}

weft_tensor *weft_place_like(const char *function, weft_tensor *tensor, const weft_layout *like, int64_t mask)
{
    if (tensor == NULL) {
        return NULL;
    }
    const weft_layout *from = weft_layout_of(tensor);
    weft_placement placements[WEFT_MAX_DIMS];
    for (int m = 0; m < like->mesh->ndim; m++) {
        weft_placement placement = like->placements[m];
        bool stays = placement.kind == WEFT_SHARD && !(mask >> placement.dim & 1);
        placements[m] = stays ? placement : weft_replicate();
    }
    const weft_layout *to = weft_layout_intern(weft_runtime.layouts, like->mesh, placements, from->ndim,
                                               from->shape, from->dtype);
    if (to == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a layout");
        return NULL;
    }
    return weft_in_layout(function, tensor, to);
}

double weft_count_along(const weft_layout *layout, int64_t mask)
{
    double count = 1;
    for (int d = 0; d < layout->ndim; d++) {
        count *= mask >> d & 1 ? (double)layout->shape[d] : 1;
    }
    return count;
}
