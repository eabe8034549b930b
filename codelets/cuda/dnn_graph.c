#include "codelets/cuda/dnn_graph.h"

#include <string.h>

enum { ALIGNMENT = 16, FIRST_VIRTUAL = 1000 };

weft_dnn_layout weft_dnn_dense(cudnnDataType_t type, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (weft_dnn_layout){ type, { a, b, c, d }, { b * c * d, c * d, d, 1 } };
}

void weft_dnn_begin(weft_dnn_graph *graph, const weft_dnn_library *library)
{
    memset(graph, 0, sizeof(*graph));
    graph->library = library;
    graph->next_virtual = FIRST_VIRTUAL;
}

void weft_dnn_end(weft_dnn_graph *graph)
{
    while (graph->num_made > 0) {
        graph->library->BackendDestroyDescriptor(graph->made[--graph->num_made]);
    }
}

/* ---- descriptors --------------------------------------------------------------------------------------- */

static void check(weft_dnn_graph *graph, cudnnStatus_t status)
{
    graph->status = graph->status == CUDNN_STATUS_SUCCESS ? status : graph->status;
}

static cudnnBackendDescriptor_t make(weft_dnn_graph *graph, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t made = NULL;
    if (graph->status == CUDNN_STATUS_SUCCESS && graph->num_made == WEFT_DNN_DESCRIPTORS) {
        graph->status = CUDNN_STATUS_INTERNAL_ERROR;
    }
    if (graph->status == CUDNN_STATUS_SUCCESS) {
        check(graph, graph->library->BackendCreateDescriptor(type, &made));
    }
    if (graph->status == CUDNN_STATUS_SUCCESS) {
        graph->made[graph->num_made++] = made;
    }
    return made;
}

static void set(weft_dnn_graph *graph, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (graph->status == CUDNN_STATUS_SUCCESS) {
        check(graph, graph->library->BackendSetAttribute(of, name, type, count, values));
    }
}

static void set_descriptor(weft_dnn_graph *graph, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t value)
{
    set(graph, of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void set_type(weft_dnn_graph *graph, cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name, cudnnDataType_t value)
{
    set(graph, of, name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

static void finalize(weft_dnn_graph *graph, cudnnBackendDescriptor_t made)
{
    if (graph->status == CUDNN_STATUS_SUCCESS) {
        check(graph, graph->library->BackendFinalize(made));
    }
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

static weft_dnn_tensor tensor(weft_dnn_graph *graph, int64_t id, weft_dnn_layout layout, bool is_virtual, bool is_number)
{
    const int64_t alignment = layout.shape[3] == 1 && !graph->all_aligned ? 4 : ALIGNMENT; /* values of rows, and numbers: elements of 4 bytes */
    cudnnBackendDescriptor_t made = make(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(graph, made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set_type(graph, made, CUDNN_ATTR_TENSOR_DATA_TYPE, layout.type);
    set(graph, made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, WEFT_DNN_DIMS, layout.shape);
    set(graph, made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, WEFT_DNN_DIMS, layout.strides);
    set(graph, made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(graph, made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    set(graph, made, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &is_number);
    finalize(graph, made);
    return (weft_dnn_tensor){ made, layout };
}

weft_dnn_tensor weft_dnn_stored(weft_dnn_graph *graph, int64_t id, weft_dnn_layout layout)
{
    return tensor(graph, id, layout, false, false);
}

weft_dnn_tensor weft_dnn_number(weft_dnn_graph *graph, int64_t id, cudnnDataType_t type)
{
    return tensor(graph, id, weft_dnn_dense(type, 1, 1, 1, 1), false, true);
}

weft_dnn_tensor weft_dnn_between(weft_dnn_graph *graph, weft_dnn_layout layout)
{
    return tensor(graph, graph->next_virtual++, layout, true, false);
}

/* ---- operations ---------------------------------------------------------------------------------------- */

static void add(weft_dnn_graph *graph, cudnnBackendDescriptor_t operation)
{
    finalize(graph, operation);
    if (graph->status == CUDNN_STATUS_SUCCESS && graph->num_operations == WEFT_DNN_OPERATIONS) {
        graph->status = CUDNN_STATUS_INTERNAL_ERROR;
    }
    if (graph->status == CUDNN_STATUS_SUCCESS) {
        graph->operations[graph->num_operations++] = operation;
    }
}

void weft_dnn_multiply(weft_dnn_graph *graph, weft_dnn_tensor a, weft_dnn_tensor b, weft_dnn_tensor result)
{
    cudnnBackendDescriptor_t by = make(graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set_type(graph, by, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    finalize(graph, by);
    cudnnBackendDescriptor_t operation = make(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, result.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, by);
    add(graph, operation);
}

static cudnnBackendDescriptor_t pointwise(weft_dnn_graph *graph, cudnnPointwiseMode_t mode, cudnnDataType_t arithmetic,
                                          int64_t dimension)
{
    cudnnBackendDescriptor_t by = make(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(graph, by, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set_type(graph, by, CUDNN_ATTR_POINTWISE_MATH_PREC, arithmetic);
    if (dimension >= 0) {
        set(graph, by, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &dimension);
    }
    finalize(graph, by);
    return by;
}

static void add_pointwise(weft_dnn_graph *graph, cudnnBackendDescriptor_t by, weft_dnn_tensor a, const weft_dnn_tensor *b,
                          const weft_dnn_tensor *selects, weft_dnn_tensor result)
{
    cudnnBackendDescriptor_t operation = make(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, by);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, a.descriptor);
    if (b != NULL) {
        set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->descriptor);
    }
    if (selects != NULL) {
        set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, selects->descriptor);
    }
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, result.descriptor);
    add(graph, operation);
}

void weft_dnn_apply_to(weft_dnn_graph *graph, cudnnPointwiseMode_t mode, weft_dnn_tensor a, const weft_dnn_tensor *b,
                       const weft_dnn_tensor *selects, weft_dnn_tensor result)
{
    cudnnDataType_t type = result.layout.type;
    cudnnDataType_t arithmetic = type == CUDNN_DATA_BOOLEAN || type == CUDNN_DATA_INT32 ? type : CUDNN_DATA_FLOAT;
    add_pointwise(graph, pointwise(graph, mode, arithmetic, -1), a, b, selects, result);
}

weft_dnn_tensor weft_dnn_apply(weft_dnn_graph *graph, cudnnPointwiseMode_t mode, weft_dnn_tensor a, const weft_dnn_tensor *b)
{
    weft_dnn_layout layout = a.layout;
    layout.type = CUDNN_DATA_FLOAT;
    weft_dnn_tensor result = weft_dnn_between(graph, layout);
    weft_dnn_apply_to(graph, mode, a, b, NULL, result);
    return result;
}

weft_dnn_tensor weft_dnn_index(weft_dnn_graph *graph, weft_dnn_tensor a, int64_t dimension)
{
    weft_dnn_layout layout = a.layout;
    layout.type = CUDNN_DATA_INT32;
    weft_dnn_tensor result = weft_dnn_between(graph, layout);
    add_pointwise(graph, pointwise(graph, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, dimension), a, NULL, NULL, result);
    return result;
}

void weft_dnn_reduce(weft_dnn_graph *graph, cudnnReduceTensorOp_t how, weft_dnn_tensor a, weft_dnn_tensor result)
{
    cudnnBackendDescriptor_t by = make(graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(graph, by, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    set_type(graph, by, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    finalize(graph, by);
    cudnnBackendDescriptor_t operation = make(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, a.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, result.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, by);
    add(graph, operation);
}

void weft_dnn_reshape(weft_dnn_graph *graph, weft_dnn_tensor a, weft_dnn_tensor result)
{
    cudnnBackendDescriptor_t operation = make(graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, a.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, result.descriptor);
    add(graph, operation);
}

void weft_dnn_convolve(weft_dnn_graph *graph, weft_dnn_convolved computed, const weft_dnn_filter *filter, weft_dnn_tensor x,
                       weft_dnn_tensor weights, weft_dnn_tensor result)
{
    enum { SPATIAL = 2 };
    static const struct {
        cudnnBackendDescriptorType_t type;
        cudnnBackendAttributeName_t by, x, weights, result, alpha, beta;
    } names[] = {
#define NAMES(type_, prefix, x_, weights_, result_)                                                                       \
    { CUDNN_BACKEND_OPERATION_CONVOLUTION_##type_##_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_##prefix##_CONV_DESC,     \
      CUDNN_ATTR_OPERATION_CONVOLUTION_##prefix##_##x_, CUDNN_ATTR_OPERATION_CONVOLUTION_##prefix##_##weights_,           \
      CUDNN_ATTR_OPERATION_CONVOLUTION_##prefix##_##result_, CUDNN_ATTR_OPERATION_CONVOLUTION_##prefix##_ALPHA,           \
      CUDNN_ATTR_OPERATION_CONVOLUTION_##prefix##_BETA }
        [WEFT_DNN_CONVOLVE_FORWARD] = NAMES(FORWARD, FORWARD, X, W, Y),
        [WEFT_DNN_CONVOLVE_BACKWARD_DATA] = NAMES(BACKWARD_DATA, BWD_DATA, DX, W, DY),
        [WEFT_DNN_CONVOLVE_BACKWARD_FILTER] = NAMES(BACKWARD_FILTER, BWD_FILTER, X, DW, DY),
#undef NAMES
    };
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t spatial = SPATIAL;
    const float alpha = 1, beta = 0;
    cudnnBackendDescriptor_t by = make(graph, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set_type(graph, by, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    set(graph, by, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(graph, by, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &spatial);
    set(graph, by, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, SPATIAL, filter->dilation);
    set(graph, by, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, SPATIAL, filter->stride);
    set(graph, by, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, SPATIAL, filter->padding);
    set(graph, by, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, SPATIAL, filter->padding);
    finalize(graph, by);
    cudnnBackendDescriptor_t operation = make(graph, names[computed].type);
    set_descriptor(graph, operation, names[computed].by, by);
    set_descriptor(graph, operation, names[computed].x, x.descriptor);
    set_descriptor(graph, operation, names[computed].weights, weights.descriptor);
    set_descriptor(graph, operation, names[computed].result, result.descriptor);
    set(graph, operation, names[computed].alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
    set(graph, operation, names[computed].beta, CUDNN_TYPE_FLOAT, 1, &beta);
    add(graph, operation);
}

/* ---- plans --------------------------------------------------------------------------------------------- */

/* The described device; NULL: the handle's. */
static cudnnBackendDescriptor_t describe_device(weft_dnn_graph *graph, const weft_dnn_target *target)
{
    if (target->device == NULL) {
        return NULL;
    }
    cudnnBackendDescriptor_t made = make(graph, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    set(graph, made, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)strlen(target->device) + 1, target->device);
    finalize(graph, made);
    return made;
}

static cudnnBackendDescriptor_t join_operations(weft_dnn_graph *graph, const weft_dnn_target *target)
{
    cudnnBackendDescriptor_t made = make(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (target->handle != NULL) {
        set(graph, made, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target->handle);
    }
    set(graph, made, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph->num_operations, graph->operations);
    finalize(graph, made);
    return made;
}

/* Whether an engine with this note may not be used. Sums are to be those of single precision, in an order that does not depend on time.
 * Winograd's tiles of 4 x 4 and Fourier transforms round no inputs, and have some ten times the error of a plain sum: they
 * are used. The constants of larger tiles make errors of hundreds of units, so only graphs that may be rounded have them. */
static bool is_refused_note(cudnnBackendNumericalNote_t note, bool keeps_precision)
{
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        return true;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        return keeps_precision;
    default:
        return false;
    }
}

/* Whether a proposal's engine may not be used. */
static bool is_refused(weft_dnn_graph *graph, cudnnBackendDescriptor_t proposal)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    const weft_dnn_library *library = graph->library;
    cudnnBackendDescriptor_t engine = NULL;
    bool refused = true;
    if (library->BackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS) {
        return true;
    }
    if (library->BackendGetAttribute(proposal, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine) ==
            CUDNN_STATUS_SUCCESS &&
        library->BackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                     CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes) == CUDNN_STATUS_SUCCESS) {
        refused = false;
        for (int64_t i = 0; i < count && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++) {
            refused = refused || is_refused_note(notes[i], graph->keeps_precision);
        }
    }
    library->BackendDestroyDescriptor(engine);
    return refused;
}

/* Makes a plan of a proposal. False: it cannot be used. */
static bool try_proposal(weft_dnn_graph *graph, cudnnBackendDescriptor_t proposal, const weft_dnn_target *target,
                         cudnnBackendDescriptor_t device, int64_t most_bytes)
{
    int64_t count = 0, bytes = 0;
    int before = graph->num_made;
    cudnnBackendDescriptor_t plan = make(graph, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set_descriptor(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposal);
    if (target->handle != NULL) {
        set(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target->handle);
    } else {
        set_descriptor(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
    }
    finalize(graph, plan);
    if (graph->status == CUDNN_STATUS_SUCCESS) {
        check(graph, graph->library->BackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                                         &count, &bytes));
    }
    if (graph->status == CUDNN_STATUS_SUCCESS && bytes <= most_bytes) {
        graph->plan = plan;
        graph->workspace_bytes = bytes;
        return true;
    }
    while (graph->num_made > before) {
        graph->library->BackendDestroyDescriptor(graph->made[--graph->num_made]);
    }
    graph->status = CUDNN_STATUS_SUCCESS;
    return false;
}

/* cuDNN's proposals, best first. Returns how many. */
static int propose(weft_dnn_graph *graph, const weft_dnn_target *target, cudnnBackendDescriptor_t device, cudnnBackendHeurMode_t mode,
                   cudnnBackendDescriptor_t proposals[], int most)
{
    int64_t count = 0;
    cudnnBackendDescriptor_t joined = join_operations(graph, target), heuristics = make(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_descriptor(graph, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, joined);
    set(graph, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (device != NULL) {
        set_descriptor(graph, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
    }
    finalize(graph, heuristics);
    for (int i = 0; i < most; i++) {
        proposals[i] = make(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    if (graph->status == CUDNN_STATUS_SUCCESS) {
        check(graph, graph->library->BackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, most,
                                                         &count, proposals));
    }
    return graph->status == CUDNN_STATUS_SUCCESS ? (int)(count < most ? count : most) : 0;
}

cudnnStatus_t weft_dnn_plan(weft_dnn_graph *graph, const weft_dnn_target *target, int64_t most_bytes)
{
    enum { MOST = 16 };
    const cudnnBackendHeurMode_t modes[] = { CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK };
    cudnnBackendDescriptor_t device = describe_device(graph, target), proposals[MOST];
    for (int mode = 0; mode < 2 && graph->status == CUDNN_STATUS_SUCCESS && graph->plan == NULL; mode++) {
        int count = propose(graph, target, device, modes[mode], proposals, MOST);
        for (int i = 0; i < count && graph->plan == NULL; i++) {
            if (!is_refused(graph, proposals[i])) {
                try_proposal(graph, proposals[i], target, device, most_bytes);
            }
        }
    }
    if (graph->status == CUDNN_STATUS_SUCCESS && graph->plan == NULL) {
        graph->status = CUDNN_STATUS_NOT_SUPPORTED;
    }
    return graph->status;
}

void weft_dnn_add(weft_dnn_arguments *arguments, int64_t id, const void *pointer)
{
    if (pointer != NULL) {
        arguments->ids[arguments->count] = id;
        arguments->pointers[arguments->count++] = pointer;
    }
}

cudnnStatus_t weft_dnn_execute(const weft_dnn_graph *graph, cudnnHandle_t handle, const weft_dnn_arguments *of, void *workspace)
{
    weft_dnn_graph call; /* the arguments of this call alone */
    weft_dnn_begin(&call, graph->library);
    cudnnBackendDescriptor_t arguments = make(&call, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&call, arguments, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, of->count, of->ids);
    set(&call, arguments, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, of->count, of->pointers);
    set(&call, arguments, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finalize(&call, arguments);
    if (call.status == CUDNN_STATUS_SUCCESS) {
        call.status = graph->library->BackendExecute(handle, graph->plan, arguments);
    }
    weft_dnn_end(&call);
    return call.status;
}
