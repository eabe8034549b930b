#include "own_kernels.h"

#include <atomic>
#include <csignal>

#include "codelets/cuda/launch.h"

namespace
{

std::atomic<int64_t> calls{ 0 };

int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

float *row_of(const weft_view &view, int64_t row, int64_t *rows)
{
    return static_cast<float *>(weft_view_row(&view, row, rows));
}

/* ---- affine -------------------------------------------------------------------------------------------- */

struct affine {
    const float *in;
    float *out;
    int64_t count;
    float scale, shift;
};

__global__ void run_affine(affine work)
{
    for (int64_t i = weft_first_index(); i < work.count; i += weft_index_step()) {
        work.out[i] = work.scale * work.in[i] + work.shift;
    }
}

/* Rows that are contiguous in both views, one run after the other. */
template <typename Run> int for_each_run(const weft_kernel_call *call, Run run)
{
    const weft_view &out = call->outputs[0], &in = call->num_inputs == 0 ? out : call->inputs[0];
    int64_t rows = weft_view_rows(&out), width = out.ndim == 0 ? 1 : out.row_elements, in_rows = 0, out_rows = 0;
    int failed = 0;
    for (int64_t row = 0; row < rows && failed == 0; row += smaller(in_rows, out_rows)) {
        affine work = { row_of(in, row, &in_rows), row_of(out, row, &out_rows), 0, static_cast<float>(call->scalars[0]),
                        static_cast<float>(call->scalars[1]) };
        work.count = smaller(in_rows, out_rows) * width;
        failed = run(work);
    }
    return failed;
}

/* ---- stencil ------------------------------------------------------------------------------------------- */

/* A row of the output. */
struct stencil {
    const float *rows[3]; /* of the input; NULL: there is none */
    float *out;
    int64_t count, first;       /* columns; the first one's number */
    int64_t in_first, in_count; /* of the input's part */
};

__host__ __device__ float around(const stencil &work, int64_t i)
{
    float sum = 0;
    for (int r = 0; r < 3; r++) {
        for (int64_t c = work.first + i - 1; c <= work.first + i + 1; c++) {
            sum += work.rows[r] != nullptr && c >= work.in_first && c < work.in_first + work.in_count ? work.rows[r][c - work.in_first] : 0;
        }
    }
    return sum;
}

__global__ void run_stencil(stencil work)
{
    for (int64_t i = weft_first_index(); i < work.count; i += weft_index_step()) {
        work.out[i] = around(work, i);
    }
}

template <typename Run> int for_each_row(const weft_kernel_call *call, Run run)
{
    const weft_view &out = call->output, &in = call->inputs[0];
    int failed = 0;
    for (int64_t row = 0; row < weft_view_rows(&out) && failed == 0; row++) {
        stencil work = { {}, row_of(out, row, nullptr), out.extent[1], out.offset[1], in.offset[1], in.extent[1] };
        for (int r = 0; r < 3; r++) {
            int64_t place = out.offset[0] + row + r - 1 - in.offset[0];
            work.rows[r] = place >= 0 && place < in.extent[0] ? row_of(in, place, nullptr) : nullptr;
        }
        failed = run(work);
    }
    return failed;
}

/* ---- noise --------------------------------------------------------------------------------------------- */

struct noise {
    const float *in;
    float *out;
    int64_t count;
    float factor;
    weft_random_state random;
    uint64_t first; /* number of the first element */
};

__host__ __device__ float noisy(const noise &work, int64_t i)
{
    return work.in[i] + work.factor * weft_random_uniform_f32(&work.random, work.first + static_cast<uint64_t>(i));
}

__global__ void run_noise(noise work)
{
    for (int64_t i = weft_first_index(); i < work.count; i += weft_index_step()) {
        work.out[i] = noisy(work, i);
    }
}

/* Rows are whole, so their elements have numbers that follow each other. */
template <typename Run> int for_each_noise(const weft_kernel_call *call, Run run)
{
    const weft_view &out = call->output;
    int64_t row = 0;
    return for_each_run(call, [&](const affine &part) {
        noise work = { part.in, part.out, part.count, *static_cast<const float *>(call->context), call->random,
                       weft_view_number(&out, row, 0) };
        row += part.count / out.row_elements;
        return run(work);
    });
}

/* ---- sums of squares ----------------------------------------------------------------------------------- */

/* Rows that are contiguous, added to the columns' sums. */
struct squares {
    const float *in;
    float *sums;
    int64_t rows, width, count;
    bool first;
};

__host__ __device__ float sum_of(const squares &work, int64_t column)
{
    float sum = work.first ? 0 : work.sums[column];
    for (int64_t row = 0; row < work.rows; row++) {
        float value = work.in[row * work.width + column];
        sum += value * value;
    }
    return sum;
}

__global__ void run_squares(squares work)
{
    for (int64_t i = weft_first_index(); i < work.count; i += weft_index_step()) {
        work.sums[i] = sum_of(work, i);
    }
}

/* The output has one panel, the first rows of the input may be none. */
template <typename Run> int for_each_piece(const weft_kernel_call *call, Run run)
{
    const weft_view &out = call->output, &in = call->inputs[0];
    int64_t rows = 0, all = weft_view_rows(&in);
    squares work = { nullptr, row_of(out, 0, nullptr), 0, in.row_elements, out.extent[0], call->first };
    int failed = all == 0 ? run(work) : 0;
    for (int64_t row = 0; row < all && failed == 0; row += rows) {
        work.in = row_of(in, row, &rows) + out.offset[0] - in.offset[1];
        work.rows = rows = smaller(rows, all - row);
        failed = run(work);
        work.first = false;
    }
    return failed;
}

/* ---- what a device does not survive -------------------------------------------------------------------- */

__global__ void write_nowhere(volatile int *nowhere)
{
    *nowhere = 1;
}

__global__ void kill_devices(int signal)
{
#ifdef __CUDACC__
    (void)signal;
    __trap();
#else
    raise(signal);
#endif
}

template <typename Work> int launch(void (*kernel)(Work), void *stream, const Work &work)
{
    return weft_launch(kernel, work.count, stream, work);
}

template <typename Work, typename Each> int on_host(const Work &work, Each each)
{
    for (int64_t i = 0; i < work.count; i++) {
        each(i);
    }
    return 0;
}

}

void own_affine(const weft_kernel_call *call)
{
    for_each_run(call, [](const affine &work) {
        return on_host(work, [&](int64_t i) { work.out[i] = work.scale * work.in[i] + work.shift; });
    });
}

int own_affine_cuda(const weft_kernel_call *call, void *stream)
{
    calls++;
    return for_each_run(call, [=](const affine &work) { return launch(run_affine, stream, work); });
}

void own_stencil(const weft_kernel_call *call)
{
    for_each_row(call, [](const stencil &work) {
        return on_host(work, [&](int64_t i) { work.out[i] = around(work, i); });
    });
}

int own_stencil_cuda(const weft_kernel_call *call, void *stream)
{
    calls++;
    return for_each_row(call, [=](const stencil &work) { return launch(run_stencil, stream, work); });
}

void own_noise(const weft_kernel_call *call)
{
    for_each_noise(call, [](const noise &work) { return on_host(work, [&](int64_t i) { work.out[i] = noisy(work, i); }); });
}

int own_noise_cuda(const weft_kernel_call *call, void *stream)
{
    calls++;
    return for_each_noise(call, [=](const noise &work) { return launch(run_noise, stream, work); });
}

void own_squares(const weft_kernel_call *call)
{
    for_each_piece(call, [](const squares &work) {
        return on_host(work, [&](int64_t i) { work.sums[i] = sum_of(work, i); });
    });
}

int own_squares_cuda(const weft_kernel_call *call, void *stream)
{
    calls++;
    return for_each_piece(call, [=](const squares &work) { return launch(run_squares, stream, work); });
}

int own_refused_cuda(const weft_kernel_call *call, void *stream)
{
    return for_each_run(call, [=](const affine &work) { return weft_launch_on(run_affine, 1, 2048, stream, work); });
}

int own_illegal_cuda(const weft_kernel_call *, void *stream)
{
    return weft_launch_on<volatile int *>(write_nowhere, 1, 1, stream, nullptr);
}

int own_killing_cuda(const weft_kernel_call *, void *stream)
{
    return weft_launch_on<int>(kill_devices, 1, 1, stream, SIGKILL);
}

int64_t own_cuda_calls(void)
{
    return calls;
}
