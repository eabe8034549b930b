/* Columns of images, a thread for each element of what is written. */
#include "codelets/cuda/columns.h"

#include "codelets/cuda/views.h"

namespace
{

static __device__ inline int64_t place_under(const weft_device_columns &w, int d, int64_t index, int64_t tap)
{
    return index * w.stride[d] + tap * w.dilation[d] - w.padding[d];
}

template <typename T> __global__ void run_make(const weft_device_columns w)
{
    for (int64_t index = weft_first_index(); index < w.samples * w.taps * w.positions; index += weft_index_step()) {
        const int64_t sample = index / w.positions / w.taps, number = index / w.positions % w.taps, at = index % w.positions;
        const int64_t tap = w.tap + number, position = w.position + at;
        const int64_t j = tap % w.kernel[1], i = tap / w.kernel[1] % w.kernel[0], channel = tap / w.kernel[1] / w.kernel[0];
        const int64_t y = place_under(w, 0, w.top + position / w.width, i), x = place_under(w, 1, w.left + position % w.width, j);
        const bool inside = y >= 0 && y < w.shape[0] && x >= 0 && x < w.shape[1];
        const int64_t from = sample * w.image_step + channel * w.channel_step + (y - w.offset[0]) * w.row_step + x - w.offset[1];
        ((T *)w.columns)[sample * w.column_step + number * w.tap_step + at] = inside ? ((const T *)w.image)[from] : (T)0;
    }
}

/* The index whose element under a tap is at `place`; false: there is none. */
static __device__ inline bool index_at(const weft_device_columns &w, int d, int64_t place, int64_t tap, int64_t *index)
{
    int64_t distance = place + w.padding[d] - tap * w.dilation[d];
    *index = distance / w.stride[d];
    return distance >= 0 && distance % w.stride[d] == 0;
}

/* A thread for each element of the image in the taps' channels. */
template <typename T> __global__ void run_add(const weft_device_columns w)
{
    const int64_t area = w.kernel[0] * w.kernel[1], first = w.tap / area, channels = (w.tap + w.taps - 1) / area + 1 - first;
    const int64_t elements = w.extent[0] * w.extent[1];
    for (int64_t index = weft_first_index(); index < w.samples * channels * elements; index += weft_index_step()) {
        const int64_t sample = index / elements / channels, channel = first + index / elements % channels;
        const int64_t row = index % elements / w.extent[1], column = index % w.extent[1];
        T *to = (T *)w.image + sample * w.image_step + channel * w.channel_step + row * w.row_step + column;
        T sum = *to;
        for (int64_t under = 0; under < area; under++) {
            const int64_t number = channel * area + under - w.tap;
            int64_t y, x;
            if (number < 0 || number >= w.taps || !index_at(w, 0, w.offset[0] + row, under / w.kernel[1], &y) ||
                !index_at(w, 1, w.offset[1] + column, under % w.kernel[1], &x) || x < w.left || x >= w.left + w.width || y < w.top) {
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
    const int64_t count = w->samples * w->taps * w->positions;
    if (count == 0) {
        return 0;
    }
    switch (weft_dtype_size(w->type)) {
    case 2:
        return weft_launch(run_make<uint16_t>, count, queue->stream, *w);
    case 4:
        return weft_launch(run_make<uint32_t>, count, queue->stream, *w);
    default:
        return weft_launch(run_make<uint64_t>, count, queue->stream, *w);
    }
}

int weft_cuda_add_columns(const weft_device_columns *w, weft_cuda_queue *queue)
{
    const int64_t area = w->kernel[0] * w->kernel[1];
    if (w->samples * w->taps * w->positions * w->extent[0] * w->extent[1] == 0) {
        return 0;
    }
    const int64_t channels = (w->tap + w->taps - 1) / area + 1 - w->tap / area;
    return weft_launch(w->type == WEFT_F64 ? run_add<double> : run_add<float>, w->samples * channels * w->extent[0] * w->extent[1],
                       queue->stream, *w);
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
