/* Columns of images, a thread for each element of what is written. */
#include "codelets/cuda/columns.h"

#include "codelets/cuda/division.h"
#include "codelets/cuda/views.h"

namespace
{

/* Lines are the taps of all samples. */
struct make_work {
    weft_device_columns w;
    int64_t count;
    weft_divisor positions, taps, kernel[2], width;
};

static __device__ inline int64_t place_under(const weft_device_columns &w, int d, int64_t index, int64_t tap)
{
    return index * w.stride[d] + tap * w.dilation[d] - w.padding[d];
}

template <typename T> __global__ void run_make(const make_work work)
{
    const weft_device_columns &w = work.w;
    for (int64_t index = weft_first_index(); index < work.count; index += weft_index_step()) {
        const int64_t line = weft_divided(index, work.positions), at = index - line * w.positions;
        const int64_t sample = weft_divided(line, work.taps), number = line - sample * w.taps, tap = w.tap + number;
        const int64_t channel_row = weft_divided(tap, work.kernel[1]), j = tap - channel_row * w.kernel[1];
        const int64_t channel = weft_divided(channel_row, work.kernel[0]), i = channel_row - channel * w.kernel[0];
        const int64_t position = w.position + at, row = weft_divided(position, work.width);
        const int64_t y = place_under(w, 0, w.top + row, i), x = place_under(w, 1, w.left + position - row * w.width, j);
        const bool inside = y >= 0 && y < w.shape[0] && x >= 0 && x < w.shape[1];
        const int64_t from = sample * w.image_step + channel * w.channel_step + (y - w.offset[0]) * w.row_step + x - w.offset[1];
        ((T *)w.columns)[sample * w.column_step + number * w.tap_step + at] = inside ? ((const T *)w.image)[from] : (T)0;
    }
}

struct add_work {
    weft_device_columns w;
    int64_t first, channels, count; /* the taps' channels; elements of the images there */
    weft_divisor elements, of_channels, row, kernel, stride[2];
};

/* The index whose element under a tap is at `place`; false: there is none. */
static __device__ inline bool index_at(const add_work &work, int d, int64_t place, int64_t tap, int64_t *index)
{
    const int64_t distance = place + work.w.padding[d] - tap * work.w.dilation[d];
    *index = distance < 0 ? -1 : weft_divided(distance, work.stride[d]);
    return distance >= 0 && *index * work.w.stride[d] == distance;
}

/* A thread for each element of the image in the taps' channels. */
template <typename T> __global__ void run_add(const add_work work)
{
    const weft_device_columns &w = work.w;
    const int64_t area = w.kernel[0] * w.kernel[1], elements = w.extent[0] * w.extent[1];
    for (int64_t index = weft_first_index(); index < work.count; index += weft_index_step()) {
        const int64_t image = weft_divided(index, work.elements), element = index - image * elements;
        const int64_t sample = weft_divided(image, work.of_channels), channel = work.first + image - sample * work.channels;
        const int64_t row = weft_divided(element, work.row), column = element - row * w.extent[1];
        T *to = (T *)w.image + sample * w.image_step + channel * w.channel_step + row * w.row_step + column;
        T sum = *to;
        for (int64_t under = 0; under < area; under++) {
            const int64_t number = channel * area + under - w.tap, i = weft_divided(under, work.kernel);
            int64_t y, x;
            if (number < 0 || number >= w.taps || !index_at(work, 0, w.offset[0] + row, i, &y) ||
                !index_at(work, 1, w.offset[1] + column, under - i * w.kernel[1], &x) || x < w.left || x >= w.left + w.width || y < w.top) {
                continue;
            }
            const int64_t at = (y - w.top) * w.width + x - w.left - w.position;
            if (at >= 0 && at < w.positions) {
                sum += ((const T *)w.columns)[sample * w.column_step + number * w.tap_step + at];
            }
        }
        *to = sum;
    }
}

struct start_work {
    weft_device_call call;
    int bias;
};

template <typename T> __global__ void run_start(const start_work work)
{
    const weft_device_view &output = work.call.views[0];
    const int64_t samples = output.extent[0] * output.extent[1], image = output.count / samples;
    for (int64_t index = weft_first_index(); index < output.count; index += weft_index_step()) {
        T value = work.bias < 0 ? (T)0 : weft_get<T>(work.call, weft_input(work.call, work.bias), index / image % output.extent[1]);
        weft_set(work.call, 0, index, value);
    }
}

}

int weft_cuda_make_columns(const weft_device_columns *w, weft_cuda_queue *queue)
{
    make_work work = { *w, w->samples * w->taps * w->positions };
    if (work.count == 0) {
        return 0;
    }
    work.positions = weft_divisor_of(w->positions, work.count);
    work.taps = weft_divisor_of(w->taps, work.count);
    for (int d = 0; d < 2; d++) {
        work.kernel[d] = weft_divisor_of(w->kernel[d], w->tap + w->taps);
    }
    work.width = weft_divisor_of(w->width, w->position + w->positions);
    switch (weft_dtype_size(w->type)) {
    case 2:
        return weft_launch(run_make<uint16_t>, work.count, queue->stream, work);
    case 4:
        return weft_launch(run_make<uint32_t>, work.count, queue->stream, work);
    default:
        return weft_launch(run_make<uint64_t>, work.count, queue->stream, work);
    }
}

int weft_cuda_add_columns(const weft_device_columns *w, weft_cuda_queue *queue)
{
    const int64_t area = w->kernel[0] * w->kernel[1];
    if (w->samples * w->taps * w->positions * w->extent[0] * w->extent[1] == 0) {
        return 0;
    }
    const int64_t elements = w->extent[0] * w->extent[1];
    add_work work = { *w, w->tap / area };
    work.channels = (w->tap + w->taps - 1) / area + 1 - work.first;
    work.count = w->samples * work.channels * elements;
    work.elements = weft_divisor_of(elements, work.count);
    work.of_channels = weft_divisor_of(work.channels, work.count);
    work.row = weft_divisor_of(w->extent[1], elements);
    work.kernel = weft_divisor_of(w->kernel[1], area);
    for (int d = 0; d < 2; d++) {
        work.stride[d] = weft_divisor_of(w->stride[d], w->shape[d] + w->padding[d]);
    }
    return weft_launch(w->type == WEFT_F64 ? run_add<double> : run_add<float>, work.count, queue->stream, work);
}

int weft_cuda_start_images(const weft_task_run *run, int bias, weft_cuda_queue *queue)
{
    start_work work;
    int failed = weft_call_begin(&work.call, run, queue);
    const weft_device_view &output = work.call.views[0];
    work.bias = bias;
    return failed != 0 || output.count == 0
               ? failed
               : weft_launch(output.dtype == WEFT_F64 ? run_start<double> : run_start<float>, output.count, queue->stream, work);
}
