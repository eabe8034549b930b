/* Sums of the gradients that come to one value. */
#include <stdlib.h>

#include "autograd/tape.h"
#include "ops/ops.h"

static weft_partial_sum *sum_in(weft_tape_value *value, const weft_layout *layout)
{
    weft_partial_sum *sum = value->first.sum == NULL ? NULL : &value->first;
    while (sum != NULL && sum->sum->layout != layout) {
        sum = sum->next;
    }
    return sum;
}

static void set_sum(weft_partial_sum *sum, weft_tensor_impl *tensor, bool own)
{
    weft_tensor_impl *former = sum->sum;
    tensor->references++;
    sum->sum = tensor;
    sum->own = own;
    if (former != NULL) {
        weft_tensor_unreference(former);
    }
}

static weft_partial_sum *new_sum(const char *function, weft_tape_value *value)
{
    if (value->first.sum == NULL) {
        return &value->first;
    }
    weft_partial_sum *sum = calloc(1, sizeof(*sum)), **end = &value->first.next;
    if (sum == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a gradient");
        return NULL;
    }
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = sum;
    return sum;
}

bool weft_sums_add(const weft_pass *pass, weft_tape_value *value, weft_tensor *gradient, bool computed)
{
    weft_tensor_impl *tensor = weft_tensor_get(gradient);
    weft_partial_sum *sum = sum_in(value, tensor->layout);
    if (sum == NULL) {
        sum = new_sum(pass->function, value);
        if (sum != NULL) {
            set_sum(sum, tensor, computed && tensor->references == 1);
        }
        return sum != NULL;
    }
    if (sum->own && !pass->create_graph) {
        return weft_add_inplace(sum->sum->handle, gradient, 1) != NULL;
    }
    weft_tensor *added = weft_add(sum->sum->handle, gradient);
    if (added != NULL) {
        set_sum(sum, weft_tensor_get(added), true);
    }
    return added != NULL;
}

/* Whether the gradient of a slice can be added in place: a Partial sum takes addends alone, and a slice of runs of rows is none. */
static bool takes_addends(const weft_layout *sum, const weft_layout *gradient)
{
    bool takes = !sum->has_runs;
    for (int m = 0; m < sum->mesh->ndim && takes; m++) {
        takes = sum->placements[m].kind != WEFT_PARTIAL ||
                (gradient->placements[m].kind == WEFT_PARTIAL && gradient->placements[m].op == sum->placements[m].op);
    }
    return takes;
}

bool weft_sums_add_part(const weft_pass *pass, weft_tape_value *value, const weft_call *call, weft_tensor *gradient,
                        bool *added)
{
    weft_partial_sum *sum = &value->first;
    *added = !pass->create_graph && sum->sum != NULL && sum->own && sum->next == NULL &&
             sum->sum->layout->mesh == weft_layout_of(gradient)->mesh && weft_is_slice(call) &&
             takes_addends(sum->sum->layout, weft_layout_of(gradient));
    return !*added || weft_add_to_slice(call, sum->sum->handle, gradient);
}

void weft_sums_drop(weft_tape_value *value)
{
    weft_partial_sum *sum = value->first.next;
    if (value->first.sum != NULL) {
        weft_tensor_unreference(value->first.sum);
    }
    value->first = (weft_partial_sum){ .sum = NULL };
    while (sum != NULL) {
        weft_partial_sum *next = sum->next;
        weft_tensor_unreference(sum->sum);
        free(sum);
        sum = next;
    }
}

const weft_layout *weft_dual_layout(const char *function, const weft_layout *layout, int num_gradients,
                                    const weft_layout *const gradients[])
{
    weft_placement placements[WEFT_MAX_DIMS];
    for (int m = 0; m < layout->mesh->ndim; m++) {
        weft_placement first = gradients[0]->placements[m];
        bool partial = layout->placements[m].kind == WEFT_REPLICATE;
        for (int i = 0; i < num_gradients && partial; i++) {
            partial = gradients[i]->mesh == layout->mesh && gradients[i]->placements[m].kind == WEFT_PARTIAL &&
                      gradients[i]->placements[m].op == first.op;
        }
        placements[m] = partial                                          ? first
                        : layout->placements[m].kind == WEFT_PARTIAL ? weft_replicate()
                                                                         : layout->placements[m];
    }
    return weft_check_layout(function, layout->mesh, placements, layout->ndim, layout->shape, layout->dtype);
}

const weft_layout *weft_gradient_layout(const char *function, const weft_tape_value *value)
{
    return value->gradient_layout != NULL ? value->gradient_layout
                                          : weft_layout_like(function, value->layout, value->layout->dtype);
}

/* The dual layout for all sums of a value. */
static const weft_layout *dual_of_sums(const char *function, const weft_tape_value *value)
{
    enum { SOME = 16 };
    const weft_layout *layouts[SOME];
    int count = 0;
    for (const weft_partial_sum *sum = &value->first; sum != NULL && count < SOME; sum = sum->next) {
        layouts[count++] = sum->sum->layout;
    }
    return weft_dual_layout(function, value->layout, count, layouts);
}

/* The layout in which a single gradient on the value's mesh goes on: its own. But where a sharded value has a gradient
 * that is not sharded anywhere, each rank takes its part, which moves nothing and saves computing it everywhere. */
static const weft_layout *layout_of_single(const char *function, const weft_layout *value, const weft_layout *gradient)
{
    weft_placement placements[WEFT_MAX_DIMS];
    bool any = false;
    for (int m = 0; m < value->mesh->ndim; m++) {
        if (gradient->placements[m].kind == WEFT_SHARD) {
            return gradient;
        }
        bool takes_part = gradient->placements[m].kind == WEFT_REPLICATE && value->placements[m].kind == WEFT_SHARD;
        placements[m] = takes_part ? value->placements[m] : gradient->placements[m];
        any |= takes_part;
    }
    weft_placements_settle(value->mesh, value->shape, placements);
    return !any ? gradient
                : weft_check_layout(function, value->mesh, placements, value->ndim, value->shape, value->dtype);
}

bool weft_sums_take(const weft_pass *pass, weft_tape_value *value, const weft_layout *layout, weft_tensor **sum)
{
    *sum = NULL;
    if (value->first.sum == NULL) {
        return true;
    }
    bool single = value->first.next == NULL && value->first.sum->layout->mesh == value->layout->mesh;
    const weft_layout *first = value->first.sum->layout,
                      *target = layout != NULL ? layout
                                : single       ? layout_of_single(pass->function, value->layout, first)
                                               : dual_of_sums(pass->function, value);
    bool done = target != NULL;
    for (const weft_partial_sum *part = &value->first; part != NULL && done; part = part->next) {
        weft_tensor *placed = part->sum->layout == target
                                  ? weft_tensor_handle(weft_tensor_share(part->sum))
                                  : weft_redistribute(part->sum->handle, target->mesh->handle, target->placements);
        *sum = placed == NULL || *sum == NULL ? placed : weft_add(*sum, placed);
        done = *sum != NULL;
    }
    weft_sums_drop(value);
    return done;
}

weft_tensor_impl *weft_own_gradient(const weft_pass *pass, weft_tensor_impl *sum)
{
    weft_tensor_impl *own;
    if (sum->borrowed) {
        own = weft_tensor_new(pass->function, sum->layout);
        if (own == NULL || !weft_tensor_copy_into(pass->function, own, sum)) {
            return NULL;
        }
        own->references++;
    } else {
        own = weft_tensor_save(pass->function, sum);
        if (own == NULL || !weft_tensor_register(pass->function, own)) {
            return NULL;
        }
    }
    if (pass->create_graph) {
        weft_tape_set(own, sum->tape);
    }
    return own;
}
