/* Pooling, a thread for each element of the output, with sums in the order of cpu/pooling.c. */
#include <math.h>

#include "codelets/cuda/views.h"

extern "C" {
#include "codelets/pooling.h"
#include "codelets/pooling_windows.h"
}

namespace
{

enum { AXES = WEFT_POOLING_AXES };

/* A part of a tensor as images: the last three dimensions, of which missing ones have size 1. */
struct pooling_image {
    int view;
    int64_t offset[AXES], extent[AXES], shape[AXES], stride[AXES];
    int64_t per_row, apart, elements; /* images in a row, elements from one to the next; elements of one */
};

/* Made by each thread: a call has no room for it. */
struct pooling_work {
    const weft_device_call &call;
    weft_pooling_axis axes[AXES];
    int64_t divisor;
    pooling_image in, indices, out, places; /* indices: input 1; places: output 1, if there is one */

    __device__ pooling_work(const weft_device_call &call_, bool backward);
};

/* An element of an image: the image's place in its row and the element's in the image. */
struct pooling_element {
    int64_t row, number, at[AXES];
};

static __device__ pooling_image image_of(const weft_device_call &call, int number)
{
    const weft_device_view &view = call.views[number];
    const int dims = (int)call.numbers[WEFT_POOLING_DIMS];
    pooling_image m;
    m.view = number;
    m.per_row = m.elements = 1;
    m.apart = 0;
    for (int d = 0; d < AXES; d++) {
        const int own = view.ndim - AXES + d;
        const bool pooled = d >= AXES - dims;
        m.offset[d] = pooled ? view.offset[own] : 0;
        m.extent[d] = pooled ? view.extent[own] : 1;
        m.shape[d] = pooled ? view.shape[own] : 1;
        m.stride[d] = pooled ? view.strides[own] : 0;
        m.elements *= m.extent[d];
    }
    for (int d = 1; d < view.ndim - dims; d++) {
        m.per_row *= view.extent[d];
        m.apart = view.strides[d];
    }
    return m;
}

/* `backward`: the output is the image's gradient; else it has an element for each window. */
__device__ pooling_work::pooling_work(const weft_device_call &call_, bool backward)
    : call(call_), divisor(call_.numbers[WEFT_POOLING_DIVISOR]), in(image_of(call_, call_.num_outputs)),
      indices(image_of(call_, call_.num_outputs + call_.num_inputs - 1)), out(image_of(call_, 0)), places(image_of(call_, call_.num_outputs - 1))
{
    const int64_t *numbers = call.numbers;
    for (int d = 0; d < AXES; d++) {
        axes[d].kernel = numbers[WEFT_POOLING_KERNEL + d];
        axes[d].stride = numbers[WEFT_POOLING_STRIDE + d];
        axes[d].padding = numbers[WEFT_POOLING_PADDING + d];
        axes[d].dilation = numbers[WEFT_POOLING_DILATION + d];
        axes[d].size = backward ? out.shape[d] : in.shape[d];
        axes[d].count = backward ? in.shape[d] : out.shape[d];
    }
}

/* ---- elements ------------------------------------------------------------------------------------------ */

/* Element `index` of all images. */
static __device__ inline pooling_element element_of(const pooling_image &m, int64_t index)
{
    pooling_element e;
    const int64_t image = weft_quotient(index, m.elements);
    int64_t rest = index - image * m.elements;
    e.row = weft_quotient(image, m.per_row);
    e.number = image - e.row * m.per_row;
    for (int d = AXES - 1; d >= 0; d--) {
        const int64_t outer = weft_quotient(rest, m.extent[d]);
        e.at[d] = m.offset[d] + rest - outer * m.extent[d];
        rest = outer;
    }
    return e;
}

/* Where element (x, y, z) of the same image lies. */
static __device__ inline weft_device_place place_of(const pooling_work &work, const pooling_image &m, const pooling_element &e,
                                                    int64_t x, int64_t y, int64_t z)
{
    weft_device_place at = { weft_row_at(work.call, m.view, e.row),
                             e.number * m.apart + (x - m.offset[0]) * m.stride[0] + (y - m.offset[1]) * m.stride[1] +
                                 (z - m.offset[2]) * m.stride[2] };
    return at;
}

static __device__ inline double value_at(const pooling_work &work, const pooling_element &e, int64_t x, int64_t y, int64_t z)
{
    const weft_device_place at = place_of(work, work.in, e, x, y, z);
    return weft_load_as(double(), work.call.views[work.in.view].dtype, at.memory, at.place);
}

static __device__ inline int64_t index_at(const pooling_work &work, const pooling_element &e, int64_t x, int64_t y, int64_t z)
{
    const weft_device_place at = place_of(work, work.indices, e, x, y, z);
    return ((const int64_t *)at.memory)[at.place];
}

static __device__ inline void store(const pooling_work &work, const pooling_element &e, double value)
{
    const weft_device_place at = place_of(work, work.out, e, e.at[0], e.at[1], e.at[2]);
    weft_store_from(work.call.views[work.out.view].dtype, at.memory, at.place, value);
}

static __device__ inline bool is_in(const pooling_image &m, int d, int64_t i)
{
    return i >= m.offset[d] && i < m.offset[d] + m.extent[d];
}

/* `visit(x, y, z)` for the image's elements in the window of element e of the output. */
template <typename Visit> __device__ void in_window(const pooling_work &work, const pooling_element &e, Visit visit)
{
    const weft_pooling_range r = weft_pooling_window(&work.axes[0], e.at[0]), s = weft_pooling_window(&work.axes[1], e.at[1]),
                             t = weft_pooling_window(&work.axes[2], e.at[2]);
    for (int64_t x = r.first; x < r.last; x += r.step) {
        for (int64_t y = s.first; y < s.last; y += s.step) {
            for (int64_t z = t.first; z < t.last; z += t.step) {
                visit(x, y, z);
            }
        }
    }
}

/* Whether the gradient's part has window i of a dimension, and the window has element x. */
static __device__ inline bool meets(const pooling_work &work, int d, int64_t i, int64_t x)
{
    const weft_pooling_range r = weft_pooling_window(&work.axes[d], i);
    return is_in(work.in, d, i) && weft_pooling_has(&r, x);
}

/* `visit(x, y, z)` for the windows that have element e of the image. */
template <typename Visit> __device__ void in_windows(const pooling_work &work, const pooling_element &e, Visit visit)
{
    const weft_pooling_range r = weft_pooling_windows_with(&work.axes[0], e.at[0]), s = weft_pooling_windows_with(&work.axes[1], e.at[1]),
                             t = weft_pooling_windows_with(&work.axes[2], e.at[2]);
    for (int64_t x = r.first; x < r.last; x++) {
        for (int64_t y = s.first; y < s.last; y++) {
            for (int64_t z = t.first; z < t.last; z++) {
                if (meets(work, 0, x, e.at[0]) && meets(work, 1, y, e.at[1]) && meets(work, 2, z, e.at[2])) {
                    visit(x, y, z);
                }
            }
        }
    }
}

static __device__ inline double length(const pooling_work &work, int d, int64_t i)
{
    return weft_pooling_length(&work.axes[d], i, work.divisor);
}

static __device__ inline double divisor_of(const pooling_work &work, int64_t x, int64_t y, int64_t z)
{
    const double lines = work.divisor > 0 ? (double)work.divisor : length(work, 0, x) * length(work, 1, y);
    return lines * length(work, 2, z);
}

/* ---- kernels ------------------------------------------------------------------------------------------- */

__global__ void run_max(const weft_device_call call)
{
    const pooling_work work(call, false);
    for (int64_t i = weft_first_index(); i < call.views[0].count; i += weft_index_step()) {
        const pooling_element e = element_of(work.out, i);
        double most = -INFINITY;
        int64_t place = -1;
        in_window(work, e, [&](int64_t x, int64_t y, int64_t z) {
            const double value = value_at(work, e, x, y, z);
            if (value > most || isnan(value) || place < 0) {
                most = value;
                place = (x * work.in.shape[1] + y) * work.in.shape[2] + z;
            }
        });
        store(work, e, most);
        if (call.num_outputs > 1) {
            const weft_device_place at = place_of(work, work.places, e, e.at[0], e.at[1], e.at[2]);
            ((int64_t *)at.memory)[at.place] = place;
        }
    }
}

__global__ void run_max_backward(const weft_device_call call)
{
    const pooling_work work(call, true);
    for (int64_t i = weft_first_index(); i < call.views[0].count; i += weft_index_step()) {
        const pooling_element e = element_of(work.out, i);
        const int64_t place = (e.at[0] * work.out.shape[1] + e.at[1]) * work.out.shape[2] + e.at[2];
        double sum = 0;
        in_windows(work, e, [&](int64_t x, int64_t y, int64_t z) {
            sum += index_at(work, e, x, y, z) == place ? value_at(work, e, x, y, z) : 0;
        });
        store(work, e, sum);
    }
}

__global__ void run_max_pick(const weft_device_call call)
{
    const pooling_work work(call, false);
    for (int64_t i = weft_first_index(); i < call.views[0].count; i += weft_index_step()) {
        const pooling_element e = element_of(work.out, i);
        const int64_t place = index_at(work, e, e.at[0], e.at[1], e.at[2]);
        double value = 0;
        if (place >= 0) {
            const int64_t line = place / work.in.shape[2], x = line / work.in.shape[1], y = line % work.in.shape[1], z = place % work.in.shape[2];
            const weft_pooling_range r = weft_pooling_window(&work.axes[0], e.at[0]), s = weft_pooling_window(&work.axes[1], e.at[1]);
            const bool found = weft_pooling_has(&r, x) && weft_pooling_has(&s, y) && is_in(work.in, 2, z);
            value = found ? value_at(work, e, x, y, z) : 0;
        }
        store(work, e, value);
    }
}

__global__ void run_avg(const weft_device_call call)
{
    const pooling_work work(call, false);
    for (int64_t i = weft_first_index(); i < call.views[0].count; i += weft_index_step()) {
        const pooling_element e = element_of(work.out, i);
        double sum = 0;
        in_window(work, e, [&](int64_t x, int64_t y, int64_t z) { sum += value_at(work, e, x, y, z); });
        store(work, e, sum / divisor_of(work, e.at[0], e.at[1], e.at[2]));
    }
}

__global__ void run_avg_backward(const weft_device_call call)
{
    const pooling_work work(call, true);
    for (int64_t i = weft_first_index(); i < call.views[0].count; i += weft_index_step()) {
        const pooling_element e = element_of(work.out, i);
        double sum = 0;
        in_windows(work, e, [&](int64_t x, int64_t y, int64_t z) { sum += value_at(work, e, x, y, z) / divisor_of(work, x, y, z); });
        store(work, e, sum);
    }
}

}

int weft_cuda_max_pool(const weft_task_run *run, weft_cuda_queue *queue)
{
    return weft_launch_elements(run_max, run, queue);
}

int weft_cuda_max_pool_backward(const weft_task_run *run, weft_cuda_queue *queue)
{
    return weft_launch_elements(run_max_backward, run, queue);
}

int weft_cuda_max_pool_pick(const weft_task_run *run, weft_cuda_queue *queue)
{
    return weft_launch_elements(run_max_pick, run, queue);
}

int weft_cuda_avg_pool(const weft_task_run *run, weft_cuda_queue *queue)
{
    return weft_launch_elements(run_avg, run, queue);
}

int weft_cuda_avg_pool_backward(const weft_task_run *run, weft_cuda_queue *queue)
{
    return weft_launch_elements(run_avg_backward, run, queue);
}
