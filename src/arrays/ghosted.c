/* Tensors that lie in ghosted arrays: how they are made, and what other calls than kernels on arrays see of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrays/arrays.h"
#include "call/deferral.h"
#include "comm/check_spmd.h"
#include "tensor/actions.h"
#include "tensor/ghosts.h"

static weft_status perform_halo_exchange(const weft_call *call, weft_tensor *outputs[]);
static weft_status perform_read(const weft_call *call, weft_tensor *outputs[]);
static weft_status perform_write(const weft_call *call, weft_tensor *outputs[]);

/* The program may have written to the arrays. */
static const weft_operation action_halo_exchange = {
    .name = "halo_exchange", .perform = perform_halo_exchange, .effects = WEFT_READS_LAYOUTS | WEFT_LENDS
};
/* In graphs, where all other calls but those of kernels in the arrays get copies: the same; a copy; a copy that goes back. */
static const weft_operation action_fill = { .name = "ghosted_fill", .perform = perform_halo_exchange, .effects = WEFT_CHANGES };
static const weft_operation action_read = { .name = "ghosted_read", .perform = perform_read, .effects = WEFT_MAKES, .num_outputs = 1 };
static const weft_operation action_write = { .name = "ghosted_write", .perform = perform_write, .effects = WEFT_CHANGES };

/* ---- other calls --------------------------------------------------------------------------------------- */

static weft_tensor_impl *input_of(const weft_call *call, int input)
{
    const weft_tensor *handle = weft_call_tensor(call, input);
    return handle == NULL ? NULL : weft_tensor_get(handle);
}

static weft_tensor_impl *ghosted_input(const weft_call *call, int input)
{
    weft_tensor_impl *tensor = input_of(call, input);
    return tensor == NULL || tensor->ghosted == NULL ? NULL : tensor;
}

/* Whether the tape may keep the values of inputs for a gradient. */
static bool is_differentiated(const weft_call *call)
{
    bool any = false;
    for (int i = 0; i < call->num_inputs; i++) {
        const weft_tensor_impl *tensor = input_of(call, i);
        any |= tensor != NULL && tensor->tape != NULL;
    }
    return any;
}

/* Whether the call reads or writes the values of its tensors elsewhere than in arrays, or shares them. */
static bool needs_dense(const weft_call *call)
{
    const unsigned beside = WEFT_LEAVES_VALUES | WEFT_READS_LAYOUTS | WEFT_KEEPS;
    return !weft_call_is_action(call) ? !call->operation->takes_strides || is_differentiated(call)
                                      : call->operation != &action_fill &&
                                            (call->operation->num_outputs > 0 || (call->operation->effects & beside) == 0);
}

/* The program would hold memory that the next step in the arrays takes away. */
static bool lends(const weft_call *call)
{
    return call->operation != &action_halo_exchange &&
           (weft_call_does(call, WEFT_LENDS) || strcmp(call->function, "weft_local_acquire") == 0);
}

/* Gives the ghosted tensors of a call their dense copies. NULL with the error kept. */
static const weft_call *prepare(weft_interposer *self, const weft_call *call, weft_call *own)
{
    (void)self;
    (void)own;
    for (int i = 0, count = weft_call_num_tensors(call); i < count; i++) {
        weft_tensor_impl *tensor = ghosted_input(call, i);
        if (tensor == NULL) {
            continue;
        }
        if (lends(call)) {
            weft_fail(WEFT_ERR_UNSUPPORTED, call->function,
                      "the tensor lies in ghosted arrays: weft_wait(), and use the arrays (weft_from_ghosted())");
            return NULL;
        }
        if (weft_runtime.context.deferral == NULL && needs_dense(call) && !weft_ghosted_make_dense(call->function, tensor)) {
            return NULL;
        }
    }
    return call;
}

/* Makes the call, which is executed now, and writes what it has changed in dense copies to the arrays. */
static weft_status make_now(weft_call_frame *frame)
{
    const weft_call *call = frame->call;
    weft_status status = weft_call_next(frame);
    for (int i = 0, count = weft_call_num_tensors(call); i < count; i++) {
        weft_tensor_impl *tensor = ghosted_input(call, i);
        if (tensor != NULL && !weft_ghosted_write_back(call->function, tensor) && status == WEFT_OK) {
            status = weft_latest_status();
        }
    }
    return status;
}

/* Whether a graph defers the call, if it defers calls on other tensors. */
static bool is_deferrable(const weft_call *call)
{
    return (!weft_call_is_action(call) || weft_call_does(call, WEFT_MAKES)) && (call->details == NULL || call->details->memory == NULL);
}

/* In a graph: all calls before it are executed. */
static weft_status make_after_all(weft_call_frame *frame)
{
    const weft_call *call = frame->call;
    if (!weft_deferral_finish(call->function)) {
        return weft_latest_status();
    }
    for (int i = 0, count = weft_call_num_tensors(call); i < count; i++) {
        weft_tensor_impl *tensor = ghosted_input(call, i);
        if (tensor != NULL && !weft_ghosted_make_dense(call->function, tensor)) {
            return weft_latest_status();
        }
    }
    return make_now(frame);
}

/* The call's tensors, with a deferred copy of each ghosted one. False with the error kept. */
static bool copy_ghosted(const weft_call *call, weft_tensor *tensors[])
{
    for (int i = 0, count = weft_call_num_tensors(call); i < count; i++) {
        const weft_tensor_impl *ghosted = ghosted_input(call, i);
        tensors[i] = weft_call_tensor(call, i);
        for (int k = 0; k < i && ghosted != NULL; k++) {
            if (weft_call_tensor(call, k) == ghosted->handle) {
                tensors[i] = tensors[k];
                ghosted = NULL;
            }
        }
        if (ghosted != NULL) {
            tensors[i] = weft_act_for_tensor(&(weft_call){ .function = "weft_ghosted_read",
                                                           .operation = &action_read,
                                                           .num_inputs = 1,
                                                           .inputs = { ghosted->handle },
                                                           .details = &(weft_call_details){ .layout = ghosted->layout } });
        }
        if (tensors[i] == NULL && weft_call_tensor(call, i) != NULL) {
            return false;
        }
    }
    return true;
}

/* After the call: changed copies go back to their originals, and an output that is a copy becomes its original. The originals are the
 * call's outputs, of which kept[] are new tensors. A status with the error kept. */
static weft_status return_copies(const weft_call_frame *frame, weft_tensor *const copies[], weft_tensor *kept[])
{
    for (int i = 0; i < frame->num_outputs; i++) {
        kept[i] = frame->outputs[i];
        for (int k = 0, count = weft_call_num_tensors(frame->call); k < count && frame->outputs[i] != NULL; k++) {
            weft_tensor *original = weft_call_tensor(frame->call, k);
            if (copies[k] != frame->outputs[i] || copies[k] == original) {
                continue;
            }
            weft_tensor *unused;
            const weft_call back = { .function = "weft_ghosted_write",
                                     .operation = &action_write,
                                     .num_inputs = 2,
                                     .inputs = { original, copies[k] },
                                     .details = &(weft_call_details){ .num_outputs = 1, .num_changed = 1 } };
            if (weft_call_changes(frame->call, i) && weft_act(&back, &unused) != WEFT_OK) {
                return weft_latest_status();
            }
            frame->outputs[i] = original;
            kept[i] = weft_call_changes(frame->call, i) ? NULL : original;
            break;
        }
    }
    return WEFT_OK;
}

/* In a graph, which defers the call: on copies. */
static weft_status make_on_copies(weft_call_frame *frame)
{
    const weft_call *call = frame->call;
    const int count = weft_call_num_tensors(call);
    weft_tensor **tensors = calloc((size_t)(count + frame->num_outputs) + 1, sizeof(*tensors));
    if (tensors == NULL || !weft_scope_begin_unrecorded()) {
        free(tensors);
        return weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for %d tensors", count);
    }
    weft_own_call own;
    weft_status status = copy_ghosted(call, tensors) ? WEFT_OK : weft_latest_status();
    if (status == WEFT_OK) {
        frame->call = weft_call_on(&own, call, tensors);
        status = weft_call_next(frame);
        frame->call = call;
    }
    status = status == WEFT_OK ? return_copies(frame, tensors, tensors + count) : status;
    bool kept = weft_scope_end_keeping(status == WEFT_OK ? frame->num_outputs : 0, tensors + count, NULL, NULL);
    free(tensors);
    return status == WEFT_OK && !kept ? weft_latest_status() : status;
}

/* Whether a gradient would go through arrays. */
static bool needs_gradient(const weft_call *call)
{
    bool needs = call->operation->takes_strides && is_differentiated(call);
    for (int i = 0, count = weft_call_num_tensors(call); i < count; i++) {
        const weft_tensor_impl *tensor = ghosted_input(call, i);
        needs |= tensor != NULL && (tensor->tape != NULL || (weft_call_changes(call, i) && is_differentiated(call)));
    }
    return needs;
}

static bool any_ghosted(const weft_call *call)
{
    bool any = false;
    for (int i = 0, count = weft_call_num_tensors(call); i < count; i++) {
        any |= ghosted_input(call, i) != NULL;
    }
    return any;
}

static weft_status around(weft_interposer *self, weft_call_frame *frame)
{
    (void)self;
    const weft_call *call = frame->call;
    if (!any_ghosted(call)) {
        return weft_call_next(frame);
    }
    if (weft_runtime.context.deferral == NULL) {
        return make_now(frame);
    }
    if (is_deferrable(call) && needs_gradient(call)) {
        return weft_fail(WEFT_ERR_UNSUPPORTED, call->function, "gradients of tensors in ghosted arrays are no part of captured graphs");
    }
    return !needs_dense(call) ? weft_call_next(frame) : is_deferrable(call) ? make_on_copies(frame) : make_after_all(frame);
}

void weft_ghosted_see_calls(void)
{
    weft_arrays *arrays = weft_runtime.arrays;
    if (!arrays->sees_calls) {
        arrays->ghosts = (weft_interposer){ .order = WEFT_OBSERVER, .prepare = prepare, .around = around };
        weft_interposer_install(&arrays->ghosts);
        arrays->sees_calls = true;
    }
}

/* ---- new ones ------------------------------------------------------------------------------------------ */

typedef struct arguments {
    const char *function;
    weft_dtype dtype, dtype_given; /* maybe WEFT_WITH_GRAD */
    int ndim;
    const int64_t *shape;
    void *const *locals;
    const weft_ghosts *given;
    weft_ghosts ghosts; /* with zeros for dimensions that the tensor does not have */
    weft_mesh *mesh;
    const weft_placement *placements;
    const weft_layout *layout, *padded; /* found by checks */
} arguments;

static bool take_ghosts(arguments *a)
{
    weft_ghosts own;
    if (a->given == NULL) {
        weft_fail(WEFT_ERR_INVALID, a->function, "ghosts is NULL");
        return false;
    }
    if (!WEFT_TAKE_OPTIONS(a->function, &own, a->given)) {
        return false;
    }
    a->ghosts = (weft_ghosts){ .star = own.star };
    for (int d = 0; d < a->ndim; d++) {
        a->ghosts.before[d] = own.before[d];
        a->ghosts.after[d] = own.after[d];
        a->ghosts.periodic[d] = own.periodic[d];
    }
    return true;
}

static bool find_layouts(arguments *a)
{
    weft_placement canonical[WEFT_MAX_DIMS];
    const weft_mesh_impl *mesh = weft_check_mesh(a->function, a->mesh);
    if (mesh == NULL || !weft_check_given_type(a->function, a->dtype_given) || !weft_check_shape(a->function, a->ndim, a->shape)) {
        return false;
    }
    if (a->ndim == 0) {
        weft_fail(WEFT_ERR_SHAPE, a->function, "ndim is 0, and a scalar has no margin");
        return false;
    }
    if (!take_ghosts(a) || !weft_check_placements(a->function, mesh, a->placements, a->ndim, canonical)) {
        return false;
    }
    a->layout = weft_check_layout(a->function, mesh, canonical, a->ndim, a->shape, a->dtype);
    if (a->layout == NULL) {
        return false;
    }
    char why[200];
    weft_status status = weft_ghosts_check(a->layout, &a->ghosts, why, sizeof(why));
    if (status != WEFT_OK) {
        weft_fail(status, a->function, "%s", why);
        return false;
    }
    /* A view of several panels is one piece of memory on the host alone. */
    const bool apart = weft_runtime.devices.bytes == 0;
    a->padded = weft_ghosts_padded(weft_runtime.layouts, a->layout, &a->ghosts, apart);
    if (a->padded == NULL) {
        weft_fail(WEFT_ERR_NOMEM, a->function, "no memory for a layout");
    }
    return a->padded != NULL;
}

static bool check_arrays(const arguments *a)
{
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        weft_shard_info shard = weft_layout_shard(a->padded, weft_runtime.first_rank + i);
        if (shard.count > 0 && (a->locals == NULL || a->locals[i] == NULL)) {
            char number[24] = "";
            if (a->locals != NULL) {
                snprintf(number, sizeof(number), "[%d]", i);
            }
            weft_fail(WEFT_ERR_INVALID, a->function, "locals%s is NULL, but rank %d has %lld elements, margins included", number,
                      shard.rank, (long long)shard.count);
            return false;
        }
        if (shard.count > 0 && !weft_is_aligned(weft_dtype_size(a->dtype), a->locals[i])) {
            weft_fail(WEFT_ERR_INVALID, a->function, "locals[%d] is not aligned to the type", i);
            return false;
        }
    }
    return true;
}

/* BLOCKS: all processes give the same arguments, and their arrays are right. False with the error kept, on all. */
static bool compare(const arguments *a, bool right)
{
    enum { NUMBERS = WEFT_NUMBERS_OWN };
    int64_t mine[NUMBERS] = { 0 };
    int64_t *all = calloc((size_t)weft_runtime.num_processes * NUMBERS, sizeof(*all));
    mine[WEFT_NUMBERS_STATUS] = right ? WEFT_OK : weft_latest_status();
    if (right) {
        uint64_t digest = weft_digest_add(a->layout->digest, a->layout->mesh->digest);
        mine[WEFT_NUMBERS_FINGERPRINT] = (int64_t)weft_digest_add(digest, weft_ghosts_digest(a->ndim, &a->ghosts));
    }
    if (all == NULL) {
        weft_fail_alone(WEFT_ERR_NOMEM, a->function, "no memory to compare the arguments of all processes");
        return false;
    }
    bool same = weft_numbers_gather(a->function, NUMBERS, mine, all) && weft_numbers_agree(a->function, NUMBERS, all, right);
    free(all);
    return same;
}

/* details->memory: the arguments. */
static weft_status perform_from_ghosted(const weft_call *call, weft_tensor *outputs[])
{
    arguments *a = call->details->memory;
    const bool fake = weft_runtime.world == WEFT_WORLD_FAKE;
    bool right = find_layouts(a) && (fake || check_arrays(a));
    if (fake && right) {
        outputs[0] = weft_zeros(a->dtype, a->ndim, a->shape, a->mesh, a->placements);
        return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
    }
    if (fake || !weft_check_nothing_waits(a->function) ||
        !weft_check_spmd(&(weft_call_signature){ .function = a->function }) || !compare(a, right)) {
        return weft_latest_status();
    }
    for (int i = 0; i < weft_runtime.local_ranks && a->dtype == WEFT_BOOL; i++) {
        weft_shard_info shard = weft_layout_shard(a->padded, weft_runtime.first_rank + i);
        weft_truths_normalize(a->dtype, shard.count > 0 ? a->locals[i] : NULL, shard.count);
    }
    weft_ghosted_see_calls();
    outputs[0] = weft_tensor_handle(weft_ghosted_new(a->function, a->layout, a->padded, &a->ghosts, a->locals));
    return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
}

weft_tensor *weft_from_ghosted(weft_dtype dtype, int ndim, const int64_t shape[], void *const locals[],
                               const weft_ghosts *ghosts, weft_mesh *mesh, const weft_placement *placements)
{
    static const char function[] = "weft_from_ghosted";
    static const weft_operation action = {
        .name = "from_ghosted", .perform = perform_from_ghosted, .effects = WEFT_LEAVES_VALUES, .num_outputs = 1
    };
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    if (weft_runtime.context.deferral != NULL) {
        weft_fail(WEFT_ERR_STATE, function, "a captured graph has no ghosted arrays: make the tensor before weft_graph_call()");
        return NULL;
    }
    arguments a = { .function = function,
                    .dtype = weft_plain_type(dtype),
                    .dtype_given = dtype,
                    .ndim = ndim,
                    .shape = shape,
                    .locals = locals,
                    .given = ghosts,
                    .mesh = mesh,
                    .placements = placements };
    return weft_made(dtype, weft_act_for_tensor(&(weft_call){
                                .function = function, .operation = &action, .details = &(weft_call_details){ .memory = &a } }));
}

/* ---- margins, and copies in graphs ---------------------------------------------------------------------- */

/* Whether a graph only checks the call. */
static bool is_checked_alone(const weft_call *call, weft_tensor *outputs[])
{
    if (outputs != NULL) {
        outputs[0] = call->inputs[0];
    }
    return !weft_has_values(weft_tensor_get(call->inputs[0]));
}

static weft_status perform_halo_exchange(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]);
    if (is_checked_alone(call, outputs)) {
        return WEFT_OK;
    }
    if (!weft_check_spmd(&(weft_call_signature){ .function = call->function, .num_layouts = 1, .layouts = &tensor->layout })) {
        return weft_latest_status();
    }
    weft_ghosted_array_changed(tensor);
    return weft_ghosted_fill(call->function, tensor) ? WEFT_OK : weft_latest_status();
}

static weft_status perform_read(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]), *copy = weft_tensor_new(call->function, tensor->layout);
    bool done = copy != NULL && weft_ghosted_read(call->function, tensor, copy);
    outputs[0] = weft_tensor_handle(done ? copy : weft_tensor_discard(copy));
    return done ? WEFT_OK : weft_latest_status();
}

static weft_status perform_write(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]);
    if (is_checked_alone(call, outputs)) {
        return WEFT_OK;
    }
    weft_ghosted_array_changed(tensor);
    return weft_ghosted_write(call->function, tensor, weft_tensor_get(call->inputs[1])) ? WEFT_OK : weft_latest_status();
}

weft_status weft_halo_exchange(weft_tensor *handle)
{
    static const char function[] = "weft_halo_exchange";
    const weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    if (tensor == NULL) {
        return weft_latest_status();
    }
    if (tensor->ghosted == NULL && weft_runtime.world != WEFT_WORLD_FAKE) {
        return weft_fail(WEFT_ERR_INVALID, function, "tensor does not lie in ghosted arrays (weft_from_ghosted())");
    }
    if (tensor->ghosted != NULL && tensor->ghosted->has_gaps) {
        return weft_fail(WEFT_ERR_INVALID, function, "tensor has gaps, and no ghosts (WEFT_STRIDES)");
    }
    const bool deferred = weft_runtime.context.deferral != NULL && tensor->tape == NULL;
    const weft_call_details details = { .num_outputs = deferred, .num_changed = deferred }; /* the tape looks at it */
    weft_tensor *unused;
    return weft_act(&(weft_call){ .function = function,
                                  .operation = deferred ? &action_fill : &action_halo_exchange,
                                  .num_inputs = 1,
                                  .inputs = { handle },
                                  .details = &details },
                    deferred ? &unused : NULL);
}
