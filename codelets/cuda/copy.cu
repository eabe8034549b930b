/* Copies and reductions of boxes. */
#include <string.h>

#include "codelets/cuda/box.h"
#include "codelets/cuda/kernels.h"
#include "codelets/cuda/vectors.h"

extern "C" {
#include "codelets/copy.h"
#include "codelets/half.h"
}

namespace
{

/* ---- copies: by vectors of rows -------------------------------------------------------------------------- */

enum { TARGET, SOURCE };

struct copy_work {
    int64_t count; /* vectors */
    weft_device_box<2> rows;
    weft_vector_plan<2> plan;
    void *operands[2];
};

__global__ void run_copy(const copy_work work)
{
    const int size = work.plan.size[0];
    for (int64_t i = weft_first_index(); i < work.count; i += weft_index_step()) {
        const weft_vector_span span = weft_vector_at(work.plan, i);
        int64_t place[2];
        weft_find_places<2>(work.rows, span.row, place);
        const uint4 vector = weft_vector_load(work.plan, SOURCE, (const char *)work.operands[SOURCE] + place[SOURCE] * size, span);
        weft_vector_store(work.plan, TARGET, (char *)work.operands[TARGET] + place[TARGET] * size, span, vector);
    }
}

/* Takes a dimension out of a box; added after the others if the rows are to lie along it. */
void take_out(weft_device_box<2> *box, int taken)
{
    box->ndim--;
    for (int d = taken; d < box->ndim; d++) {
        box->extent[d] = box->extent[d + 1];
        for (int k = 0; k < 2; k++) {
            box->stride[k][d] = box->stride[k][d + 1];
        }
    }
}

/* Rows along dimension `last` of the box. */
int launch_rows(const weft_device_box<2> &box, int last, void *const operands[2], int size, void *stream)
{
    copy_work work = { 0, box, {}, { operands[TARGET], operands[SOURCE] } };
    const int64_t extent = box.extent[last], strides[2] = { box.stride[TARGET][last], box.stride[SOURCE][last] };
    take_out(&work.rows, last);
    weft_box_add(&work.rows, extent, strides);
    work.plan.size[TARGET] = work.plan.size[SOURCE] = size;
    weft_vector_plan_make(&work.plan, &work.rows, operands, 2);
    work.count = weft_box_count(work.rows) * work.plan.per_row;
    return weft_launch(run_copy, work.count, stream, work);
}

/* ---- copies that transpose: by tiles in shared memory ---------------------------------------------------- */

enum { TILE_THREADS = 256, LANES = 32, WARPS = TILE_THREADS / LANES, PITCH = LANES + 1, LEAST_SIDE = 8 };

/* Rows of the target lie along dimension 0 of a tile, those of the source along dimension 1. */
struct transpose_work {
    int64_t count; /* tiles */
    weft_device_box<2> outer;
    int64_t extent[2], tiles[2];
    int64_t target_stride, source_stride; /* from row to row */
    void *operands[2];
};

/* A thread moves these consecutive elements at once. */
template <typename T, typename Unit> union tile_unit {
    Unit all;
    T part[sizeof(Unit) / sizeof(T)];
};

/* A tile of a row of units for each of a warp's threads: elements that are left of it on both sides. */
template <typename T> struct tile_place {
    const T *source;
    T *target;
    int64_t rest[2];
};

template <typename T> __device__ tile_place<T> find_tile(const transpose_work &work, int64_t number, int side)
{
    int64_t place[2];
    const int64_t line = weft_quotient(number, work.tiles[1]), outer = weft_quotient(line, work.tiles[0]);
    const int64_t first[2] = { (line - outer * work.tiles[0]) * side, (number - line * work.tiles[1]) * side };
    weft_find_places<2>(work.outer, outer, place);
    return { (const T *)work.operands[SOURCE] + place[SOURCE] + first[0] * work.source_stride + first[1],
             (T *)work.operands[TARGET] + place[TARGET] + first[1] * work.target_stride + first[0],
             { work.extent[0] - first[0], work.extent[1] - first[1] } };
}

template <typename T, typename Unit> __device__ void read_tile(const transpose_work &work, const tile_place<T> &at, Unit tile[])
{
    constexpr int each = (int)(sizeof(Unit) / sizeof(T));
    const int lane = (int)threadIdx.x % LANES, column = lane * each;
    for (int row = (int)threadIdx.x / LANES; row < LANES * each && row < at.rest[0]; row += WARPS) {
        const T *from = at.source + row * work.source_stride + column;
        tile_unit<T, Unit> unit;
        if (column + each <= at.rest[1]) {
            unit.all = *(const Unit *)WEFT_ALIGNED(from, sizeof(Unit));
        } else {
WEFT_UNROLL
            for (int k = 0; k < each; k++) {
                unit.part[k] = column + k < at.rest[1] ? from[k] : 0;
            }
        }
        tile[row * PITCH + lane] = unit.all;
    }
}

template <typename T, typename Unit> __device__ void write_tile(const transpose_work &work, const tile_place<T> &at, const Unit tile[])
{
    constexpr int each = (int)(sizeof(Unit) / sizeof(T));
    const int column = (int)threadIdx.x % LANES * each;
    for (int row = (int)threadIdx.x / LANES; row < LANES * each && row < at.rest[1]; row += WARPS) {
        T *to = at.target + row * work.target_stride + column;
        tile_unit<T, Unit> unit;
WEFT_UNROLL
        for (int k = 0; k < each; k++) {
            unit.part[k] = ((const T *)tile)[(column + k) * PITCH * each + row];
        }
        if (column + each <= at.rest[0]) {
            *(Unit *)WEFT_ALIGNED(to, sizeof(Unit)) = unit.all;
        } else {
WEFT_UNROLL
            for (int k = 0; k < each; k++) {
                if (column + k < at.rest[0]) {
                    to[k] = unit.part[k];
                }
            }
        }
    }
}

template <typename T, typename Unit> __global__ void run_transpose(const transpose_work work)
{
    constexpr int side = LANES * (int)(sizeof(Unit) / sizeof(T));
    __shared__ Unit tile[side * PITCH];
    for (int64_t number = blockIdx.x; number < work.count; number += gridDim.x) {
        const tile_place<T> at = find_tile<T>(work, number, side);
        read_tile(work, at, tile);
        __syncthreads();
        write_tile(work, at, tile);
        __syncthreads();
    }
}

template <typename T, typename Unit> int launch_tiles(transpose_work *work, void *stream)
{
    const int64_t side = LANES * (int)(sizeof(Unit) / sizeof(T)), most = 1 << 20;
    work->tiles[0] = (work->extent[0] + side - 1) / side;
    work->tiles[1] = (work->extent[1] + side - 1) / side;
    work->count = weft_box_count(work->outer) * work->tiles[0] * work->tiles[1];
    return weft_launch_blocks(run_transpose<T, Unit>, (unsigned)(work->count < most ? work->count : most), (unsigned)TILE_THREADS, stream, *work);
}

/* Whether all rows of both operands begin at a multiple of `bytes`. */
bool are_aligned(const transpose_work &work, int size, int bytes)
{
    int64_t bits = (int64_t)(uintptr_t)work.operands[TARGET] | (int64_t)(uintptr_t)work.operands[SOURCE] | work.target_stride * size |
                   work.source_stride * size;
    for (int d = 0; d < work.outer.ndim; d++) {
        bits |= (work.outer.stride[TARGET][d] | work.outer.stride[SOURCE][d]) * size;
    }
    return (bits & (bytes - 1)) == 0;
}

/* The target's rows lie along dimension `across` of the box, the source's along `along`. */
int launch_transpose(const weft_device_box<2> &box, int across, int along, void *const operands[2], int size, void *stream)
{
    transpose_work work = { 0, box, { box.extent[across], box.extent[along] }, { 0, 0 }, box.stride[TARGET][along], box.stride[SOURCE][across],
                            { operands[TARGET], operands[SOURCE] } };
    take_out(&work.outer, across > along ? across : along);
    take_out(&work.outer, across > along ? along : across);
    const bool words = are_aligned(work, size, (int)sizeof(uint32_t));
    switch (size) {
    case 1:
        return words ? launch_tiles<uint8_t, uint32_t>(&work, stream) : launch_tiles<uint8_t, uint8_t>(&work, stream);
    case 2:
        return words ? launch_tiles<uint16_t, uint32_t>(&work, stream) : launch_tiles<uint16_t, uint16_t>(&work, stream);
    case 4:
        return launch_tiles<uint32_t, uint32_t>(&work, stream);
    default:
        return launch_tiles<uint64_t, uint64_t>(&work, stream);
    }
}

/* A box's dimensions may have any order here: a row is one along which both operands are contiguous, or at least the target. */
int launch_copy(const weft_device_box<2> &box, void *const operands[2], int size, void *stream)
{
    const bool contiguous = box.ndim == 1 && box.stride[TARGET][0] == 1 && box.stride[SOURCE][0] == 1;
    if (contiguous || box.ndim == 0) {
        return (int)cudaMemcpyAsync(operands[TARGET], operands[SOURCE], (size_t)weft_box_count(box) * (size_t)size, cudaMemcpyDeviceToDevice,
                                    (cudaStream_t)stream);
    }
    int last = box.ndim - 1, across = -1, along = -1;
    for (int d = 0; d < box.ndim; d++) {
        across = box.stride[TARGET][d] == 1 ? d : across;
        along = box.stride[SOURCE][d] == 1 ? d : along;
    }
    if (across >= 0 && along >= 0 && across != along && box.stride[SOURCE][across] != 0 && box.extent[across] >= LEAST_SIDE &&
        box.extent[along] >= LEAST_SIDE) {
        return launch_transpose(box, across, along, operands, size, stream);
    }
    last = across >= 0 ? across : along >= 0 ? along : last;
    return launch_rows(box, last, operands, size, stream);
}

}

int weft_cuda_copy(const weft_task_run *run, weft_cuda_queue *queue)
{
    const weft_copy_args *args = (const weft_copy_args *)run->arguments;
    int failed = 0;
    for (int i = 1; i < run->num_operands && failed == 0; i++) {
        const weft_strided_box *from = &args->boxes[i - 1];
        weft_device_box<2> box;
        box.ndim = 0;
        for (int d = 0; d < from->ndim; d++) {
            const int64_t strides[2] = { from->target_stride[d], from->source_stride[d] };
            weft_box_add(&box, from->extent[d], strides);
        }
        void *const operands[2] = { (char *)run->operands[0] + args->target_offset[i - 1], run->operands[i] };
        failed = weft_box_count(box) == 0 ? 0 : launch_copy(box, operands, (int)args->element_size, queue->stream);
    }
    return failed;
}

/* ---- reductions ---------------------------------------------------------------------------------------- */

namespace
{

struct reduce_work {
    int64_t count;
    weft_device_box<WEFT_MAX_OPERANDS> box; /* the target first */
    void *operands[WEFT_MAX_OPERANDS];
    int num_operands;
    weft_combine combine;
    bool accumulate;
    double scale;
};

namespace values
{
#define COMBINED(name, type, wide_, load_, store_, sum, prod, min, max)                                      \
    struct name {                                                                                            \
        typedef type stored;                                                                                 \
        typedef wide_ wide;                                                                                  \
        static __device__ wide load(const stored x)                                                          \
        {                                                                                                    \
            return load_(x);                                                                                 \
        }                                                                                                    \
        static __device__ stored store(const wide x)                                                         \
        {                                                                                                    \
            return store_(x);                                                                                \
        }                                                                                                    \
        static __device__ wide combine(weft_combine how, const wide a, const wide b)                         \
        {                                                                                                    \
            return how == WEFT_COMBINE_SUM    ? (sum)                                                        \
                   : how == WEFT_COMBINE_PROD ? (prod)                                                       \
                   : how == WEFT_COMBINE_MIN  ? (min)                                                        \
                                              : (max);                                                       \
        }                                                                                                    \
    };
#include "codelets/combinations.inc"
}

template <typename Values> __global__ void run_reduce(const reduce_work work)
{
    typedef typename Values::stored stored;
    typedef typename Values::wide wide;
    for (int64_t i = weft_first_index(); i < work.count; i += weft_index_step()) {
        int64_t place[WEFT_MAX_OPERANDS];
        weft_find_places<WEFT_MAX_OPERANDS>(work.box, i, place);
        stored *target = (stored *)work.operands[0] + place[0];
        wide value = Values::load(work.accumulate ? *target : ((const stored *)work.operands[1])[place[1]]);
        for (int k = 1; k < WEFT_MAX_OPERANDS; k++) { /* unrolled, so that places stay in registers */
            if (k < work.num_operands && (k > 1 || work.accumulate)) {
                value = Values::combine(work.combine, value,
                                        Values::load(((const stored *)work.operands[k])[place[k]]));
            }
        }
        *target = Values::store(work.scale == 1 ? value : (wide)((double)value * work.scale));
    }
}

typedef void (*reduce_kernel)(reduce_work);

reduce_kernel reduce_for(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_F64:
        return run_reduce<values::f64>;
    case WEFT_F32:
        return run_reduce<values::f32>;
    case WEFT_BF16:
        return run_reduce<values::bf16>;
    case WEFT_F16:
        return run_reduce<values::f16>;
    case WEFT_I64:
        return run_reduce<values::i64>;
    case WEFT_I32:
        return run_reduce<values::i32>;
    case WEFT_U8:
        return run_reduce<values::u8>;
    default:
        return run_reduce<values::boolean>;
    }
}

}

int weft_cuda_reduce(const weft_task_run *run, weft_cuda_queue *queue)
{
    const weft_reduce_args *args = (const weft_reduce_args *)run->arguments;
    reduce_work work;
    work.box.ndim = 0;
    for (int d = 0; d < args->boxes[0].ndim; d++) {
        int64_t strides[WEFT_MAX_OPERANDS] = { args->boxes[0].target_stride[d] };
        for (int k = 1; k < WEFT_MAX_OPERANDS; k++) { /* of operands that are not there: as the first source */
            strides[k] = args->boxes[k < run->num_operands ? k - 1 : 0].source_stride[d];
        }
        weft_box_add(&work.box, args->boxes[0].extent[d], strides);
    }
    work.count = weft_box_count(work.box);
    work.num_operands = run->num_operands;
    for (int k = 0; k < WEFT_MAX_OPERANDS; k++) {
        work.operands[k] = k < run->num_operands ? run->operands[k] : NULL;
    }
    work.combine = args->combine;
    work.accumulate = args->accumulate;
    work.scale = args->scale;
    return work.count == 0 ? 0 : weft_launch(reduce_for(args->base.dtype), work.count, queue->stream, work);
}
