/* Flatten: a tensor's shards and layout; unflatten: a tensor of these. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <weft/autograd.h>
#include <weft/elementwise.h>

#include "comm/check_spmd.h"
#include "sharding/types.h"
#include "tensor/actions.h"
#include "tensor/run.h"
#include "tensor/state.h"

/* ---- apart --------------------------------------------------------------------------------------------- */

/* Gives the caller a reference per shard. */
static weft_status perform_flatten(const weft_call *call, weft_tensor *outputs[])
{
    (void)outputs;
    weft_tensor_impl *tensor = weft_tensor_get(call->inputs[0]);
    tensor->references += weft_runtime.local_ranks;
    tensor->caller_references += weft_runtime.local_ranks;
    return WEFT_OK;
}

weft_status weft_tensor_flatten(weft_tensor *handle, weft_tensor_shard shards[], weft_tensor_layout *layout, size_t size)
{
    static const char function[] = "weft_tensor_flatten";
    static const weft_operation action = { .name = "tensor_flatten",
                                           .perform = perform_flatten,
                                           .effects = WEFT_LEAVES_VALUES | WEFT_IS_NOT_MISSED };
    const weft_tensor_impl *tensor = weft_check_tensor(function, "tensor", handle);
    if (tensor == NULL) {
        return weft_latest_status();
    }
    if (shards == NULL || layout == NULL) {
        return weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", shards == NULL ? "shards" : "layout");
    }
    const weft_layout *own = tensor->layout;
    weft_tensor_layout found = { .dtype = own->dtype,
                                 .ndim = own->ndim,
                                 .mesh = weft_mesh_handle(own->mesh),
                                 .requires_grad = weft_requires_grad(handle) };
    memcpy(found.shape, own->shape, sizeof(found.shape));
    memcpy(found.placements, own->placements, (size_t)own->mesh->ndim * sizeof(found.placements[0]));
    if (!weft_give_struct(function, "layout", layout, size, &found, sizeof(found))) {
        return weft_latest_status();
    }
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        shards[i] = (weft_tensor_shard){ handle, i };
    }
    return weft_act(
        &(weft_call){ .function = function, .operation = &action, .num_inputs = 1, .inputs = { handle } }, NULL);
}

/* ---- together ------------------------------------------------------------------------------------------ */

/* Whether a shard fits a rank in `layout`. False with the error kept. */
static bool check_shard(const char *function, const weft_layout *layout, int number,
                        const weft_tensor_shard *given)
{
    const weft_shard_info wanted = weft_layout_shard(layout, weft_runtime.first_rank + number);
    char name[32];
    snprintf(name, sizeof(name), "shards[%d].tensor", number);
    const weft_tensor_impl *source = weft_check_tensor(function, name, given->tensor);
    if (source == NULL) {
        return false;
    }
    if (given->local_rank < 0 || given->local_rank >= weft_runtime.local_ranks) {
        weft_fail(WEFT_ERR_INVALID, function, "shards[%d].local_rank is %d, expected 0 to %d", number,
                  given->local_rank, weft_runtime.local_ranks - 1);
        return false;
    }
    if (source->layout->dtype != layout->dtype) {
        weft_fail(WEFT_ERR_DTYPE, function, "shards[%d] is %s, expected %s", number,
                  weft_dtype_name(source->layout->dtype), weft_dtype_name(layout->dtype));
        return false;
    }
    const weft_shard_info found =
        weft_layout_shard(source->layout, weft_runtime.first_rank + given->local_rank);
    if (source->layout->ndim != layout->ndim || found.count == 0 ||
        memcmp(found.box.extent, wanted.box.extent, (size_t)layout->ndim * sizeof(wanted.box.extent[0])) !=
            0) {
        char source_text[160], layout_text[160];
        weft_fail(WEFT_ERR_SHAPE, function,
                  "shards[%d] is shard %d of %s, and does not have the sizes of the rank's part of %s",
                  number, given->local_rank,
                  weft_layout_format(source->layout, source_text, sizeof(source_text)),
                  weft_layout_format(layout, layout_text, sizeof(layout_text)));
        return false;
    }
    return true;
}

static bool check_shards(const char *function, const weft_layout *layout, const weft_tensor_shard shards[])
{
    bool right = true;
    for (int i = 0; i < weft_runtime.local_ranks && right; i++) {
        bool empty = weft_layout_shard(layout, weft_runtime.first_rank + i).count == 0;
        right = empty || check_shard(function, layout, i, &shards[i]);
    }
    return right;
}

/* Copies all bytes of a shard to one that is cut into other panels. False with the error kept. */
static bool copy_shard(const char *function, const weft_layout *layout, weft_local_shard *shard,
                       const weft_layout *from_layout, const weft_local_shard *from)
{
    if (!weft_shard_attach(shard, weft_buffer_new(weft_runtime.pool, weft_shard_cut(layout, shard)))) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a shard of %lld elements",
                  (long long)shard->count);
        return false;
    }
    weft_cut to = weft_shard_cut(layout, shard), source = weft_shard_cut(from_layout, from);
    int64_t end = shard->count * (int64_t)weft_dtype_size(layout->dtype), place = 0;
    bool done = true;
    for (int i = 0, k = 0; place < end && done;) {
        int64_t to_end = weft_cut_end(&to, i), source_end = weft_cut_end(&source, k);
        int64_t next = weft_min_i64(to_end, source_end);
        done = weft_task_copy_piece(&shard->panels[i], place - weft_cut_start(&to, i), &from->panels[k],
                                    place - weft_cut_start(&source, k), next - place);
        place = next;
        i += place == to_end;
        k += place == source_end;
    }
    return done;
}

/* Numbers of the call, for each hosted rank: which of details->tensors has its shard, and the local rank there. */
enum { SOURCE, PLACE, NUMBERS_OF_SHARD };
/* In place of a source: the rank's part is empty, or zero. */
enum { NOTHING = -1, ZEROS = -2 };

static bool fill_with_zeros(const weft_call *call, weft_tensor_impl *tensor, weft_local_shard *shard)
{
    bool attached =
        weft_shard_attach(shard, weft_buffer_new(weft_runtime.pool, weft_shard_cut(tensor->layout, shard)));
    if (!attached) {
        weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for a shard of %lld elements",
                  (long long)shard->count);
    }
    return attached && weft_shard_fill(tensor, shard, (weft_exact){ 0, 0 });
}

static bool fill_shard(const weft_call *call, weft_tensor_impl *tensor, int number)
{
    const weft_call_details *details = call->details;
    const int64_t *numbers = details->numbers + (ptrdiff_t)number * NUMBERS_OF_SHARD;
    weft_local_shard *shard = &tensor->shards[number];
    if (numbers[SOURCE] == ZEROS) {
        return fill_with_zeros(call, tensor, shard);
    }
    const weft_tensor_impl *source = weft_tensor_get(details->tensors[numbers[SOURCE]]);
    const weft_local_shard *from = &source->shards[numbers[PLACE]];
    return (weft_shard_may_be_viewed(from) && weft_shard_view(tensor->layout, shard, source, from, 0)) ||
           copy_shard(call->function, tensor->layout, shard, source->layout, from);
}

/* NULL with the error kept. */
static weft_tensor_impl *assemble(const weft_call *call)
{
    weft_tensor_impl *tensor = weft_tensor_allocate(call->function, call->details->layout);
    bool done = tensor != NULL;
    for (int i = 0; done && i < tensor->num_shards; i++) {
        done = tensor->shards[i].count == 0 || fill_shard(call, tensor, i);
    }
    if (tensor != NULL && (!done || !weft_tensor_register(call->function, tensor))) {
        weft_tensor_delete(tensor);
        return NULL;
    }
    return tensor;
}

static weft_status perform_unflatten(const weft_call *call, weft_tensor *outputs[])
{
    /* Each process finds by itself, from its own shards, whether a gradient is wanted and known. */
    const weft_gradient_entry *gradient = &call->operation->gradient;
    const double differentiable = gradient->function != NULL ? 2 : gradient->missing != NULL ? 1 : 0;
    if (!weft_check_spmd(&(weft_call_signature){ .function = call->function,
                                                 .num_layouts = 1,
                                                 .layouts = &call->details->layout,
                                                 .num_numbers = 1,
                                                 .numbers = &differentiable })) {
        return weft_latest_status();
    }
    outputs[0] = weft_tensor_handle(assemble(call));
    return outputs[0] == NULL ? weft_latest_status() : WEFT_OK;
}

/* ---- the gradient -------------------------------------------------------------------------------------- */

/* Each rank's part of the gradient is the gradient of the shard that it was given. All processes have the same tape, which
 * knows tensors and not shards: so all shards are those of one tensor, in their places. */
typedef enum kind { CONSTANT, KNOWN, OF_SEVERAL, OF_ADDENDS, BY_REDUCTION, ON_MESHES } kind;

static bool differentiate(const weft_gradient *of);

#define UNFLATTEN(...)                                                                                       \
    {                                                                                                        \
        .name = "tensor_unflatten", .perform = perform_unflatten, .num_outputs = 1, .effects = WEFT_MAKES,   \
        .gradient = { __VA_ARGS__ }                                                                          \
    }
static const weft_operation actions[] = {
    [CONSTANT] = UNFLATTEN(.function = NULL),
    [KNOWN] = UNFLATTEN(.function = differentiate),
    [OF_SEVERAL] = UNFLATTEN(.missing = "the shards are not those of one tensor, each in its place"),
    [OF_ADDENDS] = UNFLATTEN(.missing = "the shards are addends of a Partial tensor, and are used as values"),
    [BY_REDUCTION] = UNFLATTEN(.missing = "the shards are combined by another reduction than a sum"),
    [ON_MESHES] = UNFLATTEN(.missing = "the shards are replicas of a tensor on another mesh")
};

static bool is_sum(weft_placement placement)
{
    return placement.kind == WEFT_PARTIAL && (placement.op == WEFT_SUM || placement.op == WEFT_AVG);
}

/* From which placements to which the gradient's shards go, in a dimension of the mesh that both have. The values of a
 * tensor that is Replicate are used by each rank on its own account. */
static kind place_gradient(weft_placement from, weft_placement to, weft_placement *placement)
{
    *placement = from;
    if (from.kind == WEFT_REPLICATE && to.kind != WEFT_REPLICATE) {
        *placement = weft_partial(WEFT_SUM);
    } else if (from.kind == WEFT_PARTIAL) {
        *placement = weft_replicate();
        return to.kind != WEFT_PARTIAL ? OF_ADDENDS : is_sum(from) ? KNOWN : BY_REDUCTION;
    }
    return KNOWN;
}

/* The gradient's layout as a tensor of its own shards, and the factor of its values. */
static kind find_gradient(const weft_layout *from, const weft_layout *to, weft_placement placements[],
                          double *factor)
{
    kind found = KNOWN;
    *factor = 1;
    for (int m = 0; m < from->mesh->ndim && found == KNOWN; m++) {
        if (from->mesh == to->mesh) {
            found = place_gradient(from->placements[m], to->placements[m], &placements[m]);
        } else {
            placements[m] = from->placements[m];
            found = placements[m].kind == WEFT_SHARD ? KNOWN : ON_MESHES;
        }
        bool averaged = from->placements[m].kind == WEFT_PARTIAL && from->placements[m].op == WEFT_AVG;
        *factor *= averaged ? (double)from->mesh->shape[m] : 1;
    }
    for (int m = 0; m < to->mesh->ndim && found == KNOWN; m++) {
        bool partial = to->placements[m].kind == WEFT_PARTIAL;
        found = partial && !is_sum(to->placements[m]) ? BY_REDUCTION : KNOWN;
        *factor /= partial && to->placements[m].op == WEFT_AVG ? (double)to->mesh->shape[m] : 1;
    }
    return found;
}

static kind kind_of(const weft_layout *from, const weft_layout *to)
{
    weft_placement placements[WEFT_MAX_DIMS];
    double factor;
    return from == to ? KNOWN : find_gradient(from, to, placements, &factor);
}

/* The tensor's shards as those of a tensor in another layout; zeros where it has none. NULL with the error kept. */
static weft_tensor *with_layout(const char *function, weft_tensor *tensor, const weft_layout *layout)
{
    const weft_layout *from = weft_layout_of(tensor);
    int64_t *numbers = malloc((size_t)weft_runtime.local_ranks * NUMBERS_OF_SHARD * sizeof(*numbers));
    if (numbers == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for %d shards", weft_runtime.local_ranks);
        return NULL;
    }
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        int64_t has = weft_layout_shard_count(from, weft_runtime.first_rank + i),
                needs = weft_layout_shard_count(layout, weft_runtime.first_rank + i);
        numbers[NUMBERS_OF_SHARD * i + SOURCE] = needs == 0 ? NOTHING : has == 0 ? ZEROS : 0;
        numbers[NUMBERS_OF_SHARD * i + PLACE] = i;
    }
    const weft_call_details details = { .num_tensors = 1,
                                        .tensors = &tensor,
                                        .num_numbers = NUMBERS_OF_SHARD * weft_runtime.local_ranks,
                                        .numbers = numbers,
                                        .layout = layout };
    weft_tensor *result = weft_act_for_tensor(
        &(weft_call){ .function = function, .operation = &actions[kind_of(from, layout)], .details = &details });
    free(numbers);
    return result;
}

static bool differentiate(const weft_gradient *of)
{
    const weft_call *call = of->call;
    const weft_layout *from = weft_layout_of(call->details->tensors[0]), *to = call->details->layout;
    weft_placement placements[WEFT_MAX_DIMS];
    double factor;
    if (from == to) {
        of->gradients[0] = of->output_gradients[0];
        return true;
    }
    find_gradient(from, to, placements, &factor);
    const weft_layout *whole = weft_layout_like(call->function, to, to->dtype),
                      *layout = weft_check_layout(call->function, from->mesh, placements, from->ndim,
                                                  from->shape, from->dtype);
    if (whole == NULL || layout == NULL) {
        return false;
    }
    weft_tensor *gradient = weft_redistribute(of->output_gradients[0], to->mesh->handle, whole->placements);
    gradient = gradient == NULL || factor == 1 ? gradient : weft_scale(gradient, factor);
    of->gradients[0] = gradient == NULL ? NULL : with_layout(call->function, gradient, layout);
    return of->gradients[0] != NULL;
}

/* ---- the call ------------------------------------------------------------------------------------------- */

/* Lists the tensors of shards, and says which has which: also tensors of empty shards, so that the tape is the same on all
 * processes. */
static void list_sources(weft_call_details *details, weft_tensor *tensors[], int64_t numbers[],
                         const weft_tensor_shard shards[])
{
    for (int i = 0; i < weft_runtime.local_ranks; i++) {
        bool empty = weft_layout_shard_count(details->layout, weft_runtime.first_rank + i) == 0;
        bool alive = shards[i].tensor != NULL && weft_tensor_get(shards[i].tensor) != NULL;
        int source = 0;
        while (alive && source < details->num_tensors && tensors[source] != shards[i].tensor) {
            source++;
        }
        if (alive && source == details->num_tensors) {
            tensors[details->num_tensors++] = shards[i].tensor;
        }
        numbers[NUMBERS_OF_SHARD * i + SOURCE] = empty ? NOTHING : source;
        numbers[NUMBERS_OF_SHARD * i + PLACE] = shards[i].local_rank;
    }
}

static kind kind_of_call(const weft_call_details *details)
{
    const weft_layout *from = details->num_tensors == 1 ? weft_layout_of(details->tensors[0]) : NULL;
    /* A process whose parts are all empty may have given any tensor. */
    bool in_place = details->num_tensors == 0 ||
                    (from != NULL && from->ndim == details->layout->ndim && from->dtype == details->layout->dtype);
    for (int i = 0; i < weft_runtime.local_ranks && in_place; i++) {
        const int64_t *numbers = details->numbers + (ptrdiff_t)i * NUMBERS_OF_SHARD;
        in_place = numbers[SOURCE] == NOTHING || numbers[PLACE] == i;
    }
    return !in_place ? OF_SEVERAL : from == NULL ? KNOWN : kind_of(from, details->layout);
}

static weft_tensor *act(const char *function, const weft_layout *layout, const weft_tensor_shard shards[],
                        bool requires_grad)
{
    size_t most = (size_t)weft_runtime.local_ranks;
    weft_tensor **tensors = malloc(most * sizeof(*tensors));
    int64_t *numbers = malloc(most * NUMBERS_OF_SHARD * sizeof(*numbers));
    weft_tensor *output = NULL;
    weft_call_details details = { .tensors = tensors,
                                  .num_numbers = NUMBERS_OF_SHARD * weft_runtime.local_ranks,
                                  .numbers = numbers,
                                  .layout = layout };
    if (tensors == NULL || numbers == NULL) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for %zu shards", most);
        weft_check_spmd(&(weft_call_signature){ .function = function, .failed = true });
    } else {
        list_sources(&details, tensors, numbers, shards);
        const weft_operation *action = &actions[requires_grad ? kind_of_call(&details) : CONSTANT];
        output =
            weft_act_for_tensor(&(weft_call){ .function = function, .operation = action, .details = &details });
    }
    free(tensors);
    free(numbers);
    return output;
}

/* The layout; NULL with the error kept. */
static const weft_layout *check_layout(const char *function, const weft_tensor_layout *given)
{
    if (!weft_check_dtype(function, given->dtype)) {
        return NULL;
    }
    const weft_layout *layout = weft_factory_layout(&(weft_factory){ .function = function,
                                                                     .dtype = given->dtype,
                                                                     .ndim = given->ndim,
                                                                     .shape = given->shape,
                                                                     .mesh = given->mesh,
                                                                     .placements = given->placements,
                                                                     .partial_allowed = true });
    if (layout != NULL && given->requires_grad && !weft_dtype_has_gradient(given->dtype)) {
        weft_fail(WEFT_ERR_DTYPE, function,
                  "layout.requires_grad is set, and layout.dtype is %s, expected a floating or complex type",
                  weft_dtype_name(given->dtype));
        return NULL;
    }
    return layout;
}

/* Members before those that were added later. */
enum { FIRST_MEMBERS = offsetof(weft_tensor_layout, requires_grad) };

weft_tensor *weft_tensor_unflatten(const weft_tensor_shard shards[], const weft_tensor_layout *given, size_t size)
{
    static const char function[] = "weft_tensor_unflatten";
    if (weft_require_init(function) != WEFT_OK) {
        return NULL;
    }
    const weft_layout *layout = NULL;
    weft_tensor_layout own = { 0 };
    if (shards == NULL || given == NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is NULL", shards == NULL ? "shards" : "layout");
    } else if (weft_check_options(function, &own, sizeof(own), given, size, FIRST_MEMBERS)) {
        layout = check_layout(function, &own);
    }
    if (layout == NULL || !check_shards(function, layout, shards)) {
        weft_check_spmd(&(weft_call_signature){ .function = function, .failed = true });
        return NULL;
    }
    weft_tensor *output = act(function, layout, shards, own.requires_grad);
    bool is_leaf = output != NULL && own.requires_grad && !weft_requires_grad(output);
    return is_leaf && weft_set_requires_grad(output, true) != WEFT_OK ? NULL : output;
}
