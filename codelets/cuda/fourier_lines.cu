/* Lines of views, to and from the memory in which cuFFT transforms them. */
#include "codelets/cuda/fourier.h"

#include "codelets/cuda/views.h"

namespace
{

struct work {
    weft_device_call call;
    weft_fourier_copy copy;
    int64_t length, inner; /* of the view along the dimension, and behind it */
};

/* The number in memory, and the element of its line. */
struct place {
    int64_t line, element;
};

__device__ inline place place_of(const work &w, int64_t index)
{
    const int64_t over = w.copy.columns ? w.copy.lines : w.copy.elements, high = weft_quotient(index, over), low = index - high * over;
    return w.copy.columns ? place{ low, high } : place{ high, low };
}

template <typename T> __device__ inline T *element_of(const work &w, const place &at)
{
    const int64_t line = w.copy.first + at.line, outer = weft_quotient(line, w.inner);
    const weft_device_place found = weft_place_of(w.call, w.copy.view, (outer * w.length + at.element) * w.inner + line - outer * w.inner);
    return (T *)found.memory + found.place * (weft_is_complex_on_device(w.call.views[w.copy.view].dtype) ? 2 : 1);
}

template <typename T> __device__ inline T factor_of(const work &w, int64_t element)
{
    return (T)(w.copy.scale * (element > 0 && element < w.copy.bins ? w.copy.twice : 1));
}

template <typename T> __global__ void run_load(const work w)
{
    const bool from_complex = weft_is_complex_on_device(w.call.views[w.copy.view].dtype);
    for (int64_t index = weft_first_index(); index < w.copy.lines * w.copy.elements; index += weft_index_step()) {
        const place at = place_of(w, index);
        T real = 0, imag = 0;
        if (at.element < w.length) {
            const T *from = element_of<T>(w, at), factor = factor_of<T>(w, at.element);
            real = from[0] * factor;
            imag = from_complex && at.element != w.copy.real && (w.copy.real < 0 || at.element > 0) ? from[1] * factor : 0;
        }
        if (w.copy.complex) {
            ((T *)w.copy.memory)[2 * index] = real;
            ((T *)w.copy.memory)[2 * index + 1] = imag;
        } else {
            ((T *)w.copy.memory)[index] = real;
        }
    }
}

template <typename T> __global__ void run_store(const work w)
{
    const int width = w.copy.complex ? 2 : 1;
    for (int64_t index = weft_first_index(); index < w.copy.lines * w.copy.elements; index += weft_index_step()) {
        const place at = place_of(w, index);
        if (at.element < w.length) {
            T *to = element_of<T>(w, at);
            const T factor = factor_of<T>(w, at.element);
            /* A result that lies where it belongs is scaled there. */
            const T *from = w.copy.memory != NULL ? (const T *)w.copy.memory + width * index : to;
            for (int i = 0; i < width; i++) {
                to[i] = from[i] * factor;
            }
        }
    }
}

int launch(void (*kernels[2])(work), const weft_fourier_copy *copy, const weft_task_run *run, weft_cuda_queue *queue)
{
    work w;
    int failed = weft_call_begin(&w.call, run, queue);
    const weft_device_view &view = w.call.views[copy->view];
    w.copy = *copy;
    w.length = view.extent[copy->dim];
    w.inner = 1;
    for (int d = copy->dim + 1; d < view.ndim; d++) {
        w.inner *= view.extent[d];
    }
    return failed != 0 ? failed : weft_launch(kernels[copy->part == WEFT_F32], copy->lines * copy->elements, queue->stream, w);
}

}

int weft_fourier_load(const weft_fourier_copy *copy, const weft_task_run *run, weft_cuda_queue *queue)
{
    void (*kernels[2])(work) = { run_load<double>, run_load<float> };
    return launch(kernels, copy, run, queue);
}

int weft_fourier_store(const weft_fourier_copy *copy, const weft_task_run *run, weft_cuda_queue *queue)
{
    void (*kernels[2])(work) = { run_store<double>, run_store<float> };
    return launch(kernels, copy, run, queue);
}
