/* Table look-ups and their derivative: see cpu/embedding.c. */
#include "codelets/cuda/vectors.h"
#include "codelets/cuda/views.h"

extern "C" {
#include "codelets/lookup.h"
}

namespace
{

enum { INDICES = 1 }; /* number of the input */
enum { TARGET, TABLE };  /* of a copy */

struct embedding_work {
    weft_embedding_args args;
    void *target;
    const void *indices;
    const void *sources[WEFT_EMBEDDING_PANELS]; /* the table's panels, or the gradient alone */
    weft_device_error *error; /* NULL: indices out of range are not reported */
    weft_vector_plan<2> plan; /* of a row: of the target, of the table */
};

/* The row of this part of the table for index i; -1: in another part or out of range. */
__device__ int64_t row_of(const embedding_work &work, int64_t i, bool reports)
{
    const weft_embedding_args &args = work.args;
    const int64_t index = args.index_type == WEFT_I64 ? ((const int64_t *)work.indices)[i] : ((const int32_t *)work.indices)[i];
    const bool valid = index >= 0 && index < args.total_rows;
    if (!valid && reports && work.error != NULL) {
        weft_device_report(work.error, (uint64_t)i, [&](weft_kernel_error *error) {
            error->problem = WEFT_PROBLEM_RANGE;
            error->input = INDICES;
            error->value = index;
            error->bound = args.total_rows - 1;
        });
    }
    const int64_t row = index - args.first_row;
    return valid && row >= 0 && row < args.num_rows ? row : -1;
}

enum { VECTORS_EACH = 4, VECTORS_OF_PIECE = 4 * VECTORS_EACH * WEFT_WARP };

/* Up to VECTORS_EACH vectors of a row, a warp's width apart; `from` NULL: zeros. All are loaded before the first is stored. */
__device__ void copy_vectors(const embedding_work &work, char *to, const char *from, int64_t first, int64_t end)
{
    uint4 vectors[VECTORS_EACH];
WEFT_UNROLL
    for (int v = 0; v < VECTORS_EACH; v++) {
        vectors[v] = { 0, 0, 0, 0 };
        if (from != NULL && first + v * WEFT_WARP < end) {
            vectors[v] = weft_vector_load(work.plan, TABLE, from, weft_vector_at(work.plan, first + v * WEFT_WARP));
        }
    }
WEFT_UNROLL
    for (int v = 0; v < VECTORS_EACH; v++) {
        if (first + v * WEFT_WARP < end) {
            weft_vector_store(work.plan, TARGET, to, weft_vector_at(work.plan, first + v * WEFT_WARP), vectors[v]);
        }
    }
}

__host__ __device__ inline int64_t pieces_of_vectors(const embedding_work &work)
{
    return (work.plan.per_row + VECTORS_OF_PIECE - 1) / VECTORS_OF_PIECE;
}

/* A warp for each piece of a row, which finds the row once; a row of no elements has a piece, whose index is checked none the less. */
__global__ void run_embedding(const embedding_work work)
{
    const weft_embedding_args &args = work.args;
    const int size = work.plan.size[TARGET];
    const int64_t pieces = pieces_of_vectors(work);
    for (int64_t piece = weft_first_warp(); piece < args.count * pieces; piece += weft_warp_step()) {
        const int64_t i = weft_quotient(piece, pieces), begin = (piece - i * pieces) * VECTORS_OF_PIECE;
        const int64_t rest = work.plan.per_row - begin, end = begin + (rest < VECTORS_OF_PIECE ? rest : (int64_t)VECTORS_OF_PIECE);
        const int64_t row = row_of(work, i, begin == 0 && weft_warp_thread() == 0);
        const char *from = NULL;
        if (row < 0 && !args.first) {
            continue;
        }
        if (row >= 0 && args.width > 0) {
            int64_t row_of_panel;
            from = (const char *)work.sources[weft_embedding_panel(&args, row, &row_of_panel)];
            from += row_of_panel * args.table_stride * size;
        }
        for (int64_t first = begin + weft_warp_thread(); first < end; first += VECTORS_EACH * WEFT_WARP) {
            copy_vectors(work, (char *)work.target + i * args.output_stride * size, from, first, end);
        }
    }
}

/* A thread for each column of a narrow table, or a very large one, which adds to it in index order. */
template <typename T> __global__ void run_embedding_backward(const embedding_work work)
{
    const weft_embedding_args &args = work.args;
    for (int64_t column = weft_first_index(); column < (args.width > 0 ? args.width : 1); column += weft_index_step()) {
        T *table = (T *)work.target + column;
        for (int64_t row = 0; row < args.num_rows && args.first && args.width > 0; row++) {
            table[row * args.table_stride] = 0;
        }
        for (int64_t i = 0; i < args.count; i++) {
            const int64_t row = row_of(work, i, column == 0);
            if (row >= 0 && args.width > 0) {
                table[row * args.table_stride] +=
                    weft_load_as(T(), args.gradient_type, work.sources[0], i * args.output_stride + column);
            }
        }
    }
}

/* A warp for each row of the table, and COLUMNS of it: it looks for its row among the indices, and adds in their order. For tables
 * of up to MOST_PIECES such pieces: of more a search by each takes longer than a thread for each column, which waits for memory
 * at each index. */
enum { COLUMNS_EACH = 4, COLUMNS = WEFT_WARP * COLUMNS_EACH, MOST_PIECES = 1 << 20 };

__host__ __device__ inline int64_t pieces_of_row(const weft_embedding_args &args)
{
    return (args.width + COLUMNS - 1) / COLUMNS;
}

/* The sum of the gradient's elements at the columns of a thread, over indices [first, end) that are `row`. */
template <typename T>
__device__ bool add_matches(const embedding_work &work, int64_t row, int64_t column, int64_t first, int64_t end, bool reports, T sums[])
{
    const weft_embedding_args &args = work.args;
    bool found = false;
    for (; first < end; first += WEFT_WARP) {
        const int64_t own = first + weft_warp_thread();
        const bool here = own < end && row_of(work, own, reports) == row;
        unsigned others = __ballot_sync(~0u, here);
        found = found || others != 0;
        for (; others != 0; others &= others - 1) {
            const int64_t place = (first + __ffs((int)others) - 1) * args.output_stride + column;
            for (int c = 0; c < COLUMNS_EACH; c++) {
                if (column + c * WEFT_WARP < args.width) {
                    sums[c] += args.gradient_type == WEFT_F32 ? (T)((const float *)work.sources[0])[place + c * WEFT_WARP]
                                                              : weft_load_as(T(), args.gradient_type, work.sources[0], place + c * WEFT_WARP);
                }
            }
        }
    }
    return found;
}

template <typename T> __global__ void run_embedding_backward_by_rows(const embedding_work work)
{
    const weft_embedding_args &args = work.args;
    const int own = weft_warp_thread();
    for (int64_t piece = weft_first_warp(); piece < args.num_rows * pieces_of_row(args); piece += weft_warp_step()) {
        const int64_t row = piece / pieces_of_row(args), column = piece % pieces_of_row(args) * COLUMNS + own;
        T *target = (T *)work.target + row * args.table_stride + column, sums[COLUMNS_EACH];
        for (int c = 0; c < COLUMNS_EACH; c++) {
            sums[c] = column + c * WEFT_WARP < args.width && !args.first ? target[c * WEFT_WARP] : 0;
        }
        const bool found = add_matches(work, row, column, 0, args.count, piece == 0, sums);
        for (int c = 0; c < COLUMNS_EACH; c++) {
            if (column + c * WEFT_WARP < args.width && (found || args.first)) {
                target[c * WEFT_WARP] = sums[c];
            }
        }
    }
}

/* Fast mode: a block for each such piece, whose warps have a part of the indices each; their sums are added in the order of the warps. */
enum { WARPS_OF_ROW = 16 };

template <typename T> __global__ void run_embedding_backward_by_blocks(const embedding_work work)
{
    __shared__ T parts[WARPS_OF_ROW][COLUMNS];
    __shared__ bool found[WARPS_OF_ROW];
    const weft_embedding_args &args = work.args;
    const int own = weft_warp_thread(), warp = (int)threadIdx.x / WEFT_WARP;
    for (int64_t piece = blockIdx.x; piece < args.num_rows * pieces_of_row(args); piece += gridDim.x) {
        const int64_t row = piece / pieces_of_row(args), begin = piece % pieces_of_row(args) * COLUMNS;
        T sums[COLUMNS_EACH] = {};
        const bool any = add_matches(work, row, begin + own, args.count * warp / WARPS_OF_ROW, args.count * (warp + 1) / WARPS_OF_ROW,
                                     piece == 0, sums);
        for (int c = 0; c < COLUMNS_EACH; c++) {
            parts[warp][c * WEFT_WARP + own] = sums[c];
        }
        if (own == 0) {
            found[warp] = any;
        }
        __syncthreads();
        const int64_t column = begin + threadIdx.x;
        if (threadIdx.x < COLUMNS && column < args.width) {
            T *target = (T *)work.target + row * args.table_stride + column, sum = args.first ? (T)0 : *target;
            bool adds = args.first;
            for (int w = 0; w < WARPS_OF_ROW; w++) {
                sum += parts[w][threadIdx.x];
                adds = adds || found[w];
            }
            if (adds) {
                *target = sum;
            }
        }
        __syncthreads(); /* before the next piece */
    }
}

/* indices, source: numbers of operands; the sources are all operands from that one on to the indices or the end. */
embedding_work work_of(const weft_task_run *run, int indices, int source)
{
    embedding_work work = { *(const weft_embedding_args *)run->arguments, run->operands[0], run->operands[indices] };
    const int end = source < indices ? indices : run->num_operands;
    for (int i = source; i < end; i++) {
        work.sources[i - source] = run->operands[i];
    }
    return work;
}

enum team { THREADS, WARPS, BLOCKS };

int launch(void (*kernel)(embedding_work), int64_t count, embedding_work *work, weft_cuda_queue *queue, team of = THREADS)
{
    const int64_t most = 1 << 20;
    int failed = count > 0 && work->args.checks ? weft_error_begin(&work->error, queue) : 0;
    failed = failed != 0 || count == 0 ? failed
             : of == WARPS                ? weft_launch_warps(kernel, count, queue->stream, *work)
             : of == BLOCKS ? weft_launch_blocks(kernel, (unsigned)(count < most ? count : most), WARPS_OF_ROW * WEFT_WARP, queue->stream, *work)
                            : weft_launch(kernel, count, queue->stream, *work);
    return failed != 0 || work->error == NULL ? failed : weft_error_end(work->error, queue);
}

}

int weft_cuda_embedding(const weft_task_run *run, weft_cuda_queue *queue)
{
    embedding_work work = work_of(run, 1, 2);
    const weft_embedding_args &args = work.args;
    const int size = (int)weft_dtype_size(args.base.dtype);
    int64_t addresses = 0;
    for (int i = 2; i < run->num_operands; i++) {
        addresses |= (int64_t)(uintptr_t)run->operands[i];
    }
    weft_vector_plan_rows(&work.plan, TARGET, args.width, size, (int64_t)(uintptr_t)work.target | args.output_stride * size);
    weft_vector_plan_rows(&work.plan, TABLE, args.width, size, addresses | args.table_stride * size);
    return launch(run_embedding, args.count * pieces_of_vectors(work), &work, queue, WARPS);
}

int weft_cuda_embedding_backward(const weft_task_run *run, weft_cuda_queue *queue)
{
    embedding_work work = work_of(run, 2, 1);
    const weft_embedding_args &args = work.args;
    const bool wide = args.base.dtype == WEFT_F64;
    const int64_t pieces = args.num_rows * pieces_of_row(args);
    if (args.width >= WEFT_WARP && args.num_rows > 0 && pieces <= MOST_PIECES) {
        return queue->fast && args.count >= WARPS_OF_ROW * WEFT_WARP
                   ? launch(wide ? run_embedding_backward_by_blocks<double> : run_embedding_backward_by_blocks<float>, pieces, &work, queue, BLOCKS)
                   : launch(wide ? run_embedding_backward_by_rows<double> : run_embedding_backward_by_rows<float>, pieces, &work, queue, WARPS);
    }
    return launch(wide ? run_embedding_backward<double> : run_embedding_backward<float>, args.width > 0 ? args.width : 1, &work, queue);
}
