/* Look-ups in a scalar, and elements that are scattered into one: as in a vector of one element. */
#include "ops/ops.h"

/* TOGETHER: the result is a scalar for any shape of the indices, as that of weft_index_select(). */
enum { NUMBER_KIND, NUMBER_TOGETHER, NUMBER_REDUCTION, NUMBER_INCLUDES, NUM_NUMBERS };

static bool is_scalar(const weft_tensor *a)
{
    return weft_layout_of(a)->ndim == 0;
}

static weft_tensor *as_vector(const weft_call *call, int input)
{
    weft_tensor *a = call->inputs[input];
    return is_scalar(a) ? weft_unsqueeze_dim(call->function, a, 0) : a;
}

/* The same call on vectors. scalars[0]: the value that fills. */
static weft_tensor *call_on_vectors(const weft_call *call, weft_tensor *a, weft_tensor *indices, weft_tensor *source)
{
    switch ((weft_scalar_call)call->attributes.numbers[NUMBER_KIND]) {
    case WEFT_SCALAR_LOOK_UP: return weft_gather(a, 0, indices);
    case WEFT_SCALAR_ADD: return weft_scatter_add(a, 0, indices, source);
    case WEFT_SCALAR_FILL: return weft_scatter_scalar(a, 0, indices, call->scalars[0]);
    case WEFT_SCALAR_COPY: return weft_scatter(a, 0, indices, source);
    case WEFT_SCALAR_REDUCE:
        return weft_scatter_reduce(a, 0, indices, source, (weft_reduce_op)call->attributes.numbers[NUMBER_REDUCTION],
                                   call->attributes.numbers[NUMBER_INCLUDES] != 0);
    }
    return NULL;
}

/* Whether the result is a vector: one element for each index. */
static bool gives_vector(const weft_call *call)
{
    return call->attributes.numbers[NUMBER_KIND] == WEFT_SCALAR_LOOK_UP && !is_scalar(call->inputs[1]) &&
           !call->attributes.numbers[NUMBER_TOGETHER];
}

/* Inputs: a, indices and perhaps source. */
static bool expand_scalar_indexing(const weft_call *call, weft_tensor *outputs[])
{
    weft_tensor *a = as_vector(call, 0), *indices = as_vector(call, 1);
    weft_tensor *source = call->num_inputs == 2 ? NULL : as_vector(call, 2);
    bool made = a != NULL && indices != NULL && (call->num_inputs == 2 || source != NULL);
    weft_tensor *result = made ? call_on_vectors(call, a, indices, source) : NULL;
    result = result == NULL || gives_vector(call) ? result : weft_squeeze_dims(call->function, result, 1);
    bool changes = result != NULL && weft_operation_changes(call->operation, 0);
    outputs[0] = changes ? weft_copy_inplace(call->inputs[0], result) : result;
    return outputs[0] != NULL;
}

#define SCALAR_INDEXING(name_, ...)                                                                          \
    static const weft_operation operation_##name_ = {                                                        \
        .name = #name_,                                                                                      \
        .inputs = { { "a", WEFT_TYPES_ANY, false },                                                          \
                    { "indices", WEFT_TYPES_INDEX, false },                                                  \
                    { "source", WEFT_TYPES_ANY, true } },                                                    \
        .expand = expand_scalar_indexing,                                                                    \
        __VA_ARGS__                                                                                          \
    };

#define READS (WEFT_READS_INPUT(0) | WEFT_READS_INPUT(1) | WEFT_READS_INPUT(2))

SCALAR_INDEXING(scalar_indexing, .gradient = { .function = weft_gradient_of_body, .reads = { READS, 0, READS } })

/* a' = a + the sum of the source's elements. */
static bool gradients_of_addition(const weft_gradient *of)
{
    weft_tensor *gradient = weft_gradient_of_output(of, 0);
    if (weft_gradient_wanted(of, 0) && !weft_give_gradient(of, 0, gradient)) {
        return false;
    }
    const weft_layout *source = weft_layout_of(of->call->inputs[2]);
    return !weft_gradient_wanted(of, 2) || gradient == NULL ||
           weft_give_gradient(of, 2, weft_expand_beside(gradient, source));
}

SCALAR_INDEXING(scalar_add_inplace, .gradient = { .function = gradients_of_addition }, .outputs[0].in_place = true)

/* False with the error kept. */
static bool check_line(const weft_scattering *x, const char *name, weft_tensor *line)
{
    if (weft_check_tensor(x->function, name, line) == NULL ||
        !weft_check_same_mesh(x->function, "a", weft_layout_of(x->a), name, weft_layout_of(line))) {
        return false;
    }
    const weft_layout *layout = weft_layout_of(line);
    if (layout->ndim > 1) {
        weft_fail(WEFT_ERR_SHAPE, x->function, "%s has %d dimensions, expected 0 or 1: a is a scalar", name, layout->ndim);
    }
    return layout->ndim <= 1;
}

static int64_t size_of(const weft_tensor *line)
{
    return is_scalar(line) ? 1 : weft_layout_of(line)->shape[0];
}

static bool check_arguments(const weft_scattering *x, weft_scalar_call kind)
{
    if (!check_line(x, "indices", x->indices) ||
        !weft_check_type(x->function, "indices", x->indices, WEFT_TYPES_INDEX, "i64 or i32")) {
        return false;
    }
    int64_t size = size_of(x->indices);
    if (kind == WEFT_SCALAR_LOOK_UP && x->together && size != 1) {
        weft_fail(WEFT_ERR_SHAPE, x->function, "indices has %lld elements, expected 1: a is a scalar", (long long)size);
        return false;
    }
    if (kind == WEFT_SCALAR_LOOK_UP || kind == WEFT_SCALAR_FILL) {
        return true;
    }
    if (!check_line(x, "source", x->source) ||
        !weft_check_type(x->function, "source", x->source, WEFT_TYPE_BIT(weft_layout_of(x->a)->dtype), "the type of a")) {
        return false;
    }
    if (size_of(x->source) != size) {
        weft_fail(WEFT_ERR_SHAPE, x->function, "source has %lld element%s, expected %lld, as indices has",
                  (long long)size_of(x->source), size_of(x->source) == 1 ? "" : "s", (long long)size);
        return false;
    }
    if (x->in_place && weft_layout_of(x->a)->has_partial) {
        weft_fail(WEFT_ERR_LAYOUT, x->function, "a is Partial, which cannot be added to: weft_redistribute() it");
        return false;
    }
    return true;
}

weft_tensor *weft_index_scalar(const weft_scattering *x, weft_scalar_call kind, weft_reduce_op reduction, bool includes,
                               double value)
{
    if (!check_arguments(x, kind)) {
        return NULL;
    }
    bool one = kind == WEFT_SCALAR_LOOK_UP || kind == WEFT_SCALAR_FILL;
    return weft_dispatch(&(weft_call){
        .function = x->function,
        .operation = x->in_place ? &operation_scalar_add_inplace : &operation_scalar_indexing,
        .num_inputs = one ? 2 : 3,
        .inputs = { x->a, x->indices, one ? NULL : x->source },
        .attributes = { .num_numbers = NUM_NUMBERS,
                        .numbers = { [NUMBER_KIND] = kind,
                                     [NUMBER_TOGETHER] = x->together,
                                     [NUMBER_REDUCTION] = reduction,
                                     [NUMBER_INCLUDES] = includes } },
        .scalars = { value } });
}

const weft_operation *const weft_scalar_indexing_operations[] = {
    &operation_scalar_indexing,
    &operation_scalar_add_inplace,
    NULL,
};
