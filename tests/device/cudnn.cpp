/* The part of cuDNN's graph interface that weft calls: graphs of operations, evaluated one operation after the other on the
 * stand-in's streams, in single precision. It refuses what cuDNN refuses of attention, and checks what cuDNN takes for granted:
 * that descriptors are finalized before they are used, that addresses are aligned, and that stored tensors and workspace lie in
 * memory in use; workspace is overwritten. */
#include <cuda_runtime_api.h>
#include <cudnn_graph.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <vector>

#include "codelets/half.h"
#include "stand_in.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

struct cudnnContext {
    int device;
    cudaStream_t stream;
};

namespace
{

struct descriptor;
using pointer = std::shared_ptr<descriptor>;

struct attribute {
    cudnnBackendAttributeType_t type;
    std::vector<unsigned char> bytes;
    std::vector<pointer> descriptors;
};

struct descriptor {
    cudnnBackendDescriptorType_t type;
    bool finalized = false;
    std::map<int, attribute> attributes;
    int64_t workspace = 0; /* of a plan */
};

/* What a program holds: cuDNN keeps what a finalized descriptor refers to by itself. */
struct holder {
    pointer held;
};

pointer of(cudnnBackendDescriptor_t descriptor)
{
    return static_cast<holder *>(descriptor)->held;
}

size_t size_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
        return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
        return 8;
    default:
        return 4; /* numbers of enumerations */
    }
}

template <typename T> std::vector<T> values(const pointer &from, int name)
{
    auto found = from->attributes.find(name);
    std::vector<T> result;
    if (found != from->attributes.end()) {
        result.resize(found->second.bytes.size() / sizeof(T));
        std::memcpy(result.data(), found->second.bytes.data(), result.size() * sizeof(T));
    }
    return result;
}

template <typename T> T value(const pointer &from, int name, T otherwise)
{
    auto found = from->attributes.find(name);
    if (found != from->attributes.end() && found->second.bytes.size() >= sizeof(T)) {
        std::memcpy(&otherwise, found->second.bytes.data(), sizeof(T));
    }
    return otherwise;
}

pointer child(const pointer &from, int name)
{
    auto found = from->attributes.find(name);
    return found == from->attributes.end() || found->second.descriptors.empty() ? nullptr : found->second.descriptors[0];
}

/* ---- tensors ------------------------------------------------------------------------------------------- */

struct tensor {
    int64_t id, shape[4], strides[4], alignment;
    cudnnDataType_t type;
    bool is_virtual, is_number;
    unsigned char *data; /* of stored ones, and numbers */
    std::vector<float> own;
};

tensor tensor_of(const pointer &from)
{
    tensor t = {};
    std::vector<int64_t> shape = values<int64_t>(from, CUDNN_ATTR_TENSOR_DIMENSIONS), strides = values<int64_t>(from, CUDNN_ATTR_TENSOR_STRIDES);
    std::copy(shape.begin(), shape.begin() + 4, t.shape);
    std::copy(strides.begin(), strides.begin() + 4, t.strides);
    t.id = value<int64_t>(from, CUDNN_ATTR_TENSOR_UNIQUE_ID, -1);
    t.alignment = value<int64_t>(from, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1);
    t.type = value<cudnnDataType_t>(from, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
    t.is_virtual = value<bool>(from, CUDNN_ATTR_TENSOR_IS_VIRTUAL, false);
    t.is_number = value<bool>(from, CUDNN_ATTR_TENSOR_IS_BY_VALUE, false);
    return t;
}

size_t bytes_of(cudnnDataType_t type)
{
    return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16 ? 2 : type == CUDNN_DATA_BOOLEAN ? 1 : 4;
}

/* Place of an element; sizes of 1 are broadcast, and heads shared. */
int64_t place_of(const tensor &t, const int64_t index[4], const int64_t shape[4])
{
    int64_t place = 0;
    for (int d = 0; d < 4; d++) {
        int64_t own = t.shape[d] == shape[d] ? index[d] : index[d] / (shape[d] / t.shape[d]);
        place += own * t.strides[d];
    }
    return place;
}

float load(const tensor &t, int64_t place)
{
    if (t.is_virtual) {
        return t.own[static_cast<size_t>(place)];
    }
    const unsigned char *at = t.data + static_cast<size_t>(place) * bytes_of(t.type);
    uint16_t narrow;
    int32_t whole;
    float wide;
    switch (t.type) {
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
        std::memcpy(&narrow, at, sizeof(narrow));
        return t.type == CUDNN_DATA_HALF ? weft_f16_to_f32(narrow) : weft_bf16_to_f32(narrow);
    case CUDNN_DATA_INT32:
        std::memcpy(&whole, at, sizeof(whole));
        return static_cast<float>(whole);
    default:
        std::memcpy(&wide, at, sizeof(wide));
        return wide;
    }
}

void store(tensor &t, int64_t place, float value)
{
    uint16_t narrow = t.type == CUDNN_DATA_HALF ? weft_f32_to_f16(value) : weft_f32_to_bf16(value);
    if (t.is_virtual) {
        bool rounds = t.type == CUDNN_DATA_HALF || t.type == CUDNN_DATA_BFLOAT16;
        t.own[static_cast<size_t>(place)] = !rounds ? value : t.type == CUDNN_DATA_HALF ? weft_f16_to_f32(narrow) : weft_bf16_to_f32(narrow);
    } else {
        unsigned char *at = t.data + static_cast<size_t>(place) * bytes_of(t.type);
        std::memcpy(at, bytes_of(t.type) == 2 ? static_cast<void *>(&narrow) : static_cast<void *>(&value), bytes_of(t.type));
    }
}

template <typename Function> void for_each(const int64_t shape[4], Function &&function)
{
    int64_t index[4];
    for (index[0] = 0; index[0] < shape[0]; index[0]++) {
        for (index[1] = 0; index[1] < shape[1]; index[1]++) {
            for (index[2] = 0; index[2] < shape[2]; index[2]++) {
                for (index[3] = 0; index[3] < shape[3]; index[3]++) {
                    function(index);
                }
            }
        }
    }
}

/* ---- operations ---------------------------------------------------------------------------------------- */

/* An execution. */
struct job {
    std::vector<pointer> operations;
    std::map<int64_t, tensor> tensors; /* by their numbers */
    std::vector<std::vector<unsigned char>> numbers;
};

tensor &tensor_in(job &j, const pointer &operation, int name)
{
    return j.tensors.at(value<int64_t>(child(operation, name), CUDNN_ATTR_TENSOR_UNIQUE_ID, -1));
}

void multiply(const tensor &a, const tensor &b, tensor &c)
{
    const bool wrong = getenv("STAND_IN_DNN_WRONG") != nullptr; /* a version that computes something else */
    for_each(c.shape, [&](int64_t index[4]) {
        float sum = 0;
        int64_t at_a[4] = { index[0], index[1], index[2], 0 }, at_b[4] = { index[0], index[1], 0, index[3] };
        const int64_t shape_a[4] = { c.shape[0], c.shape[1], c.shape[2], a.shape[3] };
        const int64_t shape_b[4] = { c.shape[0], c.shape[1], b.shape[2], c.shape[3] };
        const int64_t first_a = place_of(a, at_a, shape_a), first_b = place_of(b, at_b, shape_b);
        for (int64_t l = 0; l < a.shape[3]; l++) {
            sum += load(a, first_a + l * a.strides[3]) * load(b, first_b + l * b.strides[2]);
        }
        store(c, place_of(c, index, c.shape), wrong ? -sum : sum);
    });
}

float combine(cudnnPointwiseMode_t mode, float a, float b, float selects)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
        return a + b;
    case CUDNN_POINTWISE_SUB:
        return a - b;
    case CUDNN_POINTWISE_MUL:
        return a * b;
    case CUDNN_POINTWISE_DIV:
        return a / b;
    case CUDNN_POINTWISE_EXP:
        return std::exp(a);
    case CUDNN_POINTWISE_LOG:
        return std::log(a);
    case CUDNN_POINTWISE_CMP_GE:
        return a >= b ? 1.0f : 0.0f;
    case CUDNN_POINTWISE_BINARY_SELECT:
        return selects != 0 ? a : b;
    default:
        std::abort();
    }
}

void apply(job &j, const pointer &operation)
{
    const pointer by = child(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = value<cudnnPointwiseMode_t>(by, CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
    const int64_t dimension = value<int64_t>(by, CUDNN_ATTR_POINTWISE_AXIS, 0);
    const bool has_b = child(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC) != nullptr;
    const bool has_t = child(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC) != nullptr;
    const tensor &a = tensor_in(j, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    const tensor &b = has_b ? tensor_in(j, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC) : a;
    const tensor &t = has_t ? tensor_in(j, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC) : a;
    tensor &y = tensor_in(j, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    for_each(y.shape, [&](int64_t index[4]) {
        float result = mode == CUDNN_POINTWISE_GEN_INDEX
                           ? static_cast<float>(index[dimension])
                           : combine(mode, load(a, place_of(a, index, y.shape)), load(b, place_of(b, index, y.shape)),
                                     load(t, place_of(t, index, y.shape)));
        store(y, place_of(y, index, y.shape), result);
    });
}

void reduce(job &j, const pointer &operation)
{
    const auto how = value<cudnnReduceTensorOp_t>(child(operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC), CUDNN_ATTR_REDUCTION_OPERATOR,
                                                  CUDNN_REDUCE_TENSOR_ADD);
    const tensor &x = tensor_in(j, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    tensor &y = tensor_in(j, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    const float none = how == CUDNN_REDUCE_TENSOR_MAX ? -std::numeric_limits<float>::infinity() : 0;
    std::map<int64_t, float> results;
    for_each(x.shape, [&](int64_t index[4]) {
        float &result = results.emplace(place_of(y, index, x.shape), none).first->second, own = load(x, place_of(x, index, x.shape));
        result = how == CUDNN_REDUCE_TENSOR_MAX ? std::max(result, own) : result + own;
    });
    for (const auto &each : results) {
        store(y, each.first, each.second);
    }
}

/* Rows as columns: the only reshape that attention has. */
void reshape(const tensor &x, tensor &y)
{
    for_each(y.shape, [&](int64_t index[4]) {
        int64_t from[4] = { index[0], index[1], index[3], index[2] };
        store(y, place_of(y, index, y.shape), load(x, place_of(x, from, x.shape)));
    });
}

/* x, weights and result of a convolution, one of which is computed in the order of the CPU's loops. */
struct convolution {
    tensor &x, &weights, &result;
    std::vector<int64_t> stride, padding, dilation;
};

struct convolution_names {
    int type, by, x, weights, result, beta;
};

const convolution_names *convolved_by(const pointer &operation)
{
#define NAMES(type, of, x, w, y)                                                                                     \
    { CUDNN_BACKEND_OPERATION_CONVOLUTION_##type##_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_CONV_DESC,     \
      CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_##x, CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_##w,                      \
      CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_##y, CUDNN_ATTR_OPERATION_CONVOLUTION_##of##_BETA }
    static const convolution_names all[] = { NAMES(FORWARD, FORWARD, X, W, Y), NAMES(BACKWARD_DATA, BWD_DATA, DX, W, DY),
                                             NAMES(BACKWARD_FILTER, BWD_FILTER, X, DW, DY) };
#undef NAMES
    const auto *found = std::find_if(all, all + 3, [&](const convolution_names &n) { return n.type == operation->type; });
    return found == all + 3 ? nullptr : found;
}

int64_t offset_of(const tensor &t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return a * t.strides[0] + b * t.strides[1] + c * t.strides[2] + d * t.strides[3];
}

/* Calls function(place in x, place in weights) for each that meets the result's element. */
template <typename Function> void for_each_tap(const convolution &c, const int64_t index[4], Function &&function)
{
    const int64_t features = c.weights.shape[0] * c.weights.shape[1] / c.x.shape[1], first = index[1] / features * c.weights.shape[1];
    for (int64_t channel = 0; channel < c.weights.shape[1]; channel++) {
        for (int64_t i = 0; i < c.weights.shape[2]; i++) {
            for (int64_t k = 0; k < c.weights.shape[3]; k++) {
                const int64_t h = index[2] * c.stride[0] - c.padding[0] + i * c.dilation[0];
                const int64_t w = index[3] * c.stride[1] - c.padding[1] + k * c.dilation[1];
                if (h >= 0 && h < c.x.shape[2] && w >= 0 && w < c.x.shape[3]) {
                    function(offset_of(c.x, index[0], first + channel, h, w), offset_of(c.weights, index[1], channel, i, k));
                }
            }
        }
    }
}

void convolve(job &j, const pointer &operation)
{
    const convolution_names *n = convolved_by(operation);
    const pointer by = child(operation, n->by);
    convolution c = { tensor_in(j, operation, n->x), tensor_in(j, operation, n->weights), tensor_in(j, operation, n->result),
                      values<int64_t>(by, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES), values<int64_t>(by, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
                      values<int64_t>(by, CUDNN_ATTR_CONVOLUTION_DILATIONS) };
    const bool forward = n->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
    const bool of_x = n->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    tensor &computed = forward ? c.result : of_x ? c.x : c.weights;
    const float beta = value<float>(operation, n->beta, 0);
    std::map<int64_t, double> sums;
    for_each(computed.shape, [&](int64_t index[4]) { sums[offset_of(computed, index[0], index[1], index[2], index[3])] = 0; });
    for_each(c.result.shape, [&](int64_t index[4]) {
        const int64_t at = offset_of(c.result, index[0], index[1], index[2], index[3]);
        for_each_tap(c, index, [&](int64_t in_x, int64_t in_weights) {
            const int64_t place = forward ? at : of_x ? in_x : in_weights;
            sums[place] += static_cast<double>(forward || !of_x ? load(c.x, in_x) : load(c.result, at)) *
                           static_cast<double>(forward || of_x ? load(c.weights, in_weights) : load(c.result, at));
        });
    });
    for (const auto &each : sums) {
        const double before = beta == 0 ? 0 : static_cast<double>(beta * load(computed, each.first));
        store(computed, each.first, static_cast<float>(before + each.second));
    }
}

void run(void *argument)
{
    std::unique_ptr<job> j(static_cast<job *>(argument));
    for (const pointer &operation : j->operations) {
        switch (operation->type) {
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
            multiply(tensor_in(*j, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC), tensor_in(*j, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC),
                     tensor_in(*j, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC));
            break;
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
            apply(*j, operation);
            break;
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
            reduce(*j, operation);
            break;
        case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
            reshape(tensor_in(*j, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC), tensor_in(*j, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
            break;
        default:
            convolve(*j, operation);
        }
    }
}

/* ---- plans --------------------------------------------------------------------------------------------- */

std::vector<pointer> operations_of(const pointer &plan)
{
    pointer engine = child(child(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG), CUDNN_ATTR_ENGINECFG_ENGINE);
    return child(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH)->attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors;
}

/* All tensors of a graph. */
std::map<int64_t, tensor> tensors_of(const std::vector<pointer> &operations)
{
    std::map<int64_t, tensor> all;
    for (const pointer &operation : operations) {
        for (const auto &each : operation->attributes) {
            if (!each.second.descriptors.empty() && each.second.descriptors[0]->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
                tensor t = tensor_of(each.second.descriptors[0]);
                all.emplace(t.id, t);
            }
        }
    }
    return all;
}

bool says(const char *variable)
{
    const char *set = std::getenv(variable);
    return set != nullptr && set[0] == '1';
}

/* Attention: columns of stored 16-bit matrices are multiples of 8, no more than 256. Gradients (reshapes) need memory for all scores. */
cudnnStatus_t finalize_plan(const pointer &plan)
{
    int64_t scores = 0;
    bool gradients = false;
    if (says("STAND_IN_NO_PLANS")) {
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
    const std::vector<pointer> operations = operations_of(plan);
    if (convolved_by(operations[0]) != nullptr) { /* the forward one needs none */
        plan->workspace = operations[0]->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ? 0 : 512;
        return CUDNN_STATUS_SUCCESS;
    }
    for (const auto &each : tensors_of(operations)) {
        const tensor &t = each.second;
        int64_t columns = t.strides[3] == 1 ? t.shape[3] : t.shape[2];
        if (!t.is_virtual && bytes_of(t.type) == 2 && (columns % 8 != 0 || columns > 256)) {
            return CUDNN_STATUS_NOT_SUPPORTED;
        }
        scores = t.is_virtual ? std::max(scores, t.shape[0] * t.shape[1] * t.shape[2] * t.shape[3]) : scores;
    }
    for (const pointer &operation : operations) {
        gradients = gradients || operation->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
    }
    plan->workspace = 256 + (gradients ? 2 * scores : 0);
    return CUDNN_STATUS_SUCCESS;
}

/* Finds a stored tensor's memory; false: it is not all in use, or not aligned. */
bool place_tensor(tensor &t, void *address, int device)
{
    int64_t last = 0;
    for (int d = 0; d < 4; d++) {
        last += (t.shape[d] - 1) * t.strides[d];
    }
    t.data = static_cast<unsigned char *>(stand_in_view(device, address, static_cast<size_t>(last + 1) * bytes_of(t.type)));
    return t.data != nullptr && reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(t.alignment) == 0;
}

}

/* ---- functions ----------------------------------------------------------------------------------------- */

EXPORTED size_t cudnnGetVersion(void)
{
    return 91900;
}

EXPORTED cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    int device;
    if (says("STAND_IN_NO_CUDNN") || cudaGetDevice(&device) != cudaSuccess) {
        return CUDNN_STATUS_NOT_INITIALIZED;
    }
    *handle = new cudnnContext{ device, nullptr };
    return CUDNN_STATUS_SUCCESS;
}

EXPORTED cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    delete handle;
    return CUDNN_STATUS_SUCCESS;
}

EXPORTED cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

EXPORTED cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *made)
{
    auto held = std::make_shared<descriptor>();
    held->type = type;
    *made = new holder{ held };
    return CUDNN_STATUS_SUCCESS;
}

EXPORTED cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t made)
{
    delete static_cast<holder *>(made);
    return CUDNN_STATUS_SUCCESS;
}

EXPORTED cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t made, cudnnBackendAttributeName_t name,
                                                cudnnBackendAttributeType_t type, int64_t count, const void *elements)
{
    pointer target = of(made);
    attribute a = { type, {}, {} };
    if (target->finalized) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        for (int64_t i = 0; i < count; i++) {
            a.descriptors.push_back(of(static_cast<const cudnnBackendDescriptor_t *>(elements)[i]));
            if (!a.descriptors.back()->finalized) {
                return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
            }
        }
    } else {
        const auto *bytes = static_cast<const unsigned char *>(elements);
        a.bytes.assign(bytes, bytes + static_cast<size_t>(count) * size_of(type));
    }
    target->attributes[name] = a;
    return CUDNN_STATUS_SUCCESS;
}

EXPORTED cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t made)
{
    pointer target = of(made);
    target->finalized = true;
    return target->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ? finalize_plan(target) : CUDNN_STATUS_SUCCESS;
}

/* A proposal of the heuristics: an engine for the graph. */
static void propose(const pointer &heuristics, cudnnBackendDescriptor_t result)
{
    auto engine = std::make_shared<descriptor>();
    engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    engine->finalized = of(result)->finalized = true;
    engine->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = heuristics->attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    of(result)->attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = { CUDNN_TYPE_BACKEND_DESCRIPTOR, {}, { engine } };
}

EXPORTED cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t made, cudnnBackendAttributeName_t name,
                                                cudnnBackendAttributeType_t, int64_t most, int64_t *count, void *elements)
{
    pointer from = of(made);
    auto *results = static_cast<cudnnBackendDescriptor_t *>(elements);
    *count = 1;
    if (!from->finalized || most < 1) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        propose(from, results[0]);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        static_cast<holder *>(results[0])->held = child(from, CUDNN_ATTR_ENGINECFG_ENGINE);
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
        const char *note = std::getenv("STAND_IN_NOTE");
        *count = note != nullptr;
        if (note != nullptr) {
            *static_cast<cudnnBackendNumericalNote_t *>(elements) = static_cast<cudnnBackendNumericalNote_t>(std::atoi(note));
        }
        return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        *static_cast<int64_t *>(elements) = from->workspace;
        return CUDNN_STATUS_SUCCESS;
    default:
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
}

EXPORTED cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    const std::vector<int64_t> ids = values<int64_t>(of(pack), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const std::vector<void *> pointers = values<void *>(of(pack), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    void *workspace = value<void *>(of(pack), CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
    size_t bytes = static_cast<size_t>(of(plan)->workspace);
    void *view = stand_in_view(handle->device, workspace, bytes);
    if (!of(plan)->finalized || !of(pack)->finalized || view == nullptr || stand_in_device_of(handle->stream) != handle->device) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    auto j = std::make_unique<job>();
    j->operations = operations_of(of(plan));
    j->tensors = tensors_of(j->operations);
    for (auto &each : j->tensors) {
        tensor &t = each.second;
        auto found = std::find(ids.begin(), ids.end(), t.id);
        if (t.is_virtual) {
            int64_t strides[4] = { t.shape[1] * t.shape[2] * t.shape[3], t.shape[2] * t.shape[3], t.shape[3], 1 };
            std::copy(strides, strides + 4, t.strides);
            t.own.resize(static_cast<size_t>(t.shape[0] * t.strides[0]), std::numeric_limits<float>::quiet_NaN());
        } else if (found == ids.end()) {
            return CUDNN_STATUS_BAD_PARAM;
        } else if (t.is_number) {
            const auto *number = static_cast<unsigned char *>(pointers[static_cast<size_t>(found - ids.begin())]);
            j->numbers.emplace_back(number, number + 4);
            t.data = j->numbers.back().data();
        } else if (!place_tensor(t, pointers[static_cast<size_t>(found - ids.begin())], handle->device)) {
            return CUDNN_STATUS_BAD_PARAM;
        }
    }
    cudaMemsetAsync(workspace, 0xa5, bytes, handle->stream);
    stand_in_push(handle->stream, run, j.release());
    return says("STAND_IN_FAILING_CUDNN") ? CUDNN_STATUS_EXECUTION_FAILED : CUDNN_STATUS_SUCCESS; /* a failed run may have written */
}
