/* Rotary position embedding in fast mode: see rotary.cu. A thread has one position and 16 bytes of the first half of each of some vectors
 * there, with those of the second half that are rotated with them: it computes the angles once. */
#include <math.h>

#include "codelets/cuda/fast.h"
#include "codelets/cuda/fast_lines.cuh"

extern "C" {
#include "codelets/rotary.h"
}

namespace
{

/* Threads wanted; vectors of which a thread has the loads under way at once; vectors of a thread, if there are as many: angles cost as
 * much as some of them. */
enum { THREADS = 1 << 16, TOGETHER = 4, LEAST = 2 * TOGETHER };

struct rotary_work {
    weft_device_call call;
    weft_fast_lines lines;    /* vectors: the output's, the input's */
    int half, packs;          /* pairs of a vector; packs of them */
    int64_t positions, first; /* vectors one after the other; position of the first */
    int64_t outer, parts;     /* vectors at each position; parts of them, of which a thread has one */
    double step, sign;        /* binary logarithm of the quotient of two frequencies */
};

/* Cosine and sine of an angle. It is reduced to an eighth of a turn, where the series' next terms are below the last place of f32. */
__device__ void turn(double angle, float *cosine, float *sine)
{
    const double quarters = angle * 0.63661977236758134308, nearest = rint(quarters);
    const float x = (float)((quarters - nearest) * 1.57079632679489661923), square = x * x;
    const float up = x + x * (square * (-1 / 6.0f + square * (1 / 120.0f + square * (-1 / 5040.0f + square * (1 / 362880.0f)))));
    const float along =
        1 + square * (-0.5f + square * (1 / 24.0f + square * (-1 / 720.0f + square * (1 / 40320.0f + square * (-1 / 3628800.0f)))));
    const int quarter = (int)((int64_t)nearest & 3);
    const float first = quarter % 2 == 0 ? along : up, second = quarter % 2 == 0 ? up : along;
    *cosine = quarter == 1 || quarter == 2 ? -first : first;
    *sine = quarter >= 2 ? -second : second;
}

__device__ void turn(double angle, double *cosine, double *sine)
{
    *cosine = cos(angle);
    *sine = sin(angle);
}

template <typename T, int width>
__device__ void set_angles(const rotary_work &work, int64_t position, int pair, T (&cosine)[width], T (&sine)[width])
{
WEFT_UNROLL
    for (int j = 0; j < width; j++) {
        turn((double)(work.first + position) * exp2(work.step * (double)(pair + j)), &cosine[j], &sine[j]);
        sine[j] *= (T)work.sign;
    }
}

/* The two halves of a vector of the output (0) or the input (1). */
template <weft_dtype type>
__device__ void find_halves(const rotary_work &work, int tensor, int64_t number, weft_fast_line<type> (&half)[2])
{
    const weft_fast_line<type> line = weft_fast_line_at<type>(work.call, work.lines, tensor, number);
    half[0] = weft_fast_line<type>(line.memory, work.half);
    half[1] = weft_fast_line<type>(line.memory + work.half, work.half);
}

template <weft_dtype type, bool whole, typename T, int width>
__device__ void store_pack(const weft_fast_line<type> &half, int pair, const T (&values)[width])
{
    if (whole) {
        weft_pack<type> pack = {};
WEFT_UNROLL
        for (int j = 0; j < width; j++) {
            pack.put(j, weft_element<type>::store(values[j]));
        }
        pack.write(half.memory + pair);
    } else {
        half.store(pair, values);
    }
}

/* A pack of each half of a vector. */
template <weft_dtype type, bool whole, typename T, int width>
__device__ void rotate(const weft_pack<type> (&held)[2], const weft_fast_line<type> (&half)[2], int pair, const T (&cosine)[width],
                       const T (&sine)[width])
{
    typedef weft_element<type> of;
    T low[width], high[width];
WEFT_UNROLL
    for (int j = 0; j < width; j++) {
        const T a = of::load(held[0].at(j)), b = of::load(held[1].at(j));
        low[j] = fma(a, cosine[j], -(b * sine[j])); /* in all forms of the kernel alike */
        high[j] = fma(b, cosine[j], a * sine[j]);
    }
    store_pack<type, whole>(half[0], pair, low);
    store_pack<type, whole>(half[1], pair, high);
}

/* `whole`: all packs are at multiples of their size, and none is longer than the rest of its half. */
template <weft_dtype type, bool whole> __global__ void WEFT_THREADS_AT_MOST(256, 2) run_rotary(const rotary_work work)
{
    typedef typename weft_element<type>::arithmetic T;
    enum { WIDTH = weft_element<type>::width };
    for (int64_t index = weft_first_index(); index < work.parts * work.positions * work.packs; index += weft_index_step()) {
        const int64_t place = weft_quotient(index, work.packs), part = weft_quotient(place, work.positions);
        const int64_t position = place - part * work.positions, end = weft_quotient(work.outer * (part + 1), work.parts);
        const int pair = (int)(index - place * work.packs) * WIDTH;
        const int64_t begin = weft_quotient(work.outer * part, work.parts);
        T cosine[WIDTH] = {}, sine[WIDTH] = {};
        for (int64_t outer = begin; outer < end; outer += TOGETHER) {
            weft_pack<type> held[TOGETHER][2];
            weft_fast_line<type> half[2];
WEFT_UNROLL
            for (int i = 0; i < TOGETHER; i++) {
                if (outer + i < end) {
                    find_halves(work, 1, (outer + i) * work.positions + position, half);
                    for (int h = 0; h < 2; h++) {
                        if (whole) {
                            held[i][h].read(half[h].memory + pair);
                        } else {
                            held[i][h] = half[h].load(pair);
                        }
                    }
                }
            }
            if (outer == begin) { /* while the first loads are under way */
                set_angles(work, position, pair, cosine, sine);
            }
WEFT_UNROLL
            for (int i = 0; i < TOGETHER; i++) {
                if (outer + i < end) {
                    find_halves(work, 0, (outer + i) * work.positions + position, half);
                    rotate<type, whole>(held[i], half, pair, cosine, sine);
                }
            }
        }
    }
}

bool has_aligned_panels(const weft_device_call &call, int k)
{
    const weft_device_view &view = call.views[k];
    const int64_t first = view.offset[0] + view.row_shift;
    bool aligned = call.table == NULL;
    for (int64_t row = first, panel = view.first_panel; row < first + view.extent[0] && aligned; panel++) {
        aligned = (uintptr_t)call.panels[panel] % 16 == 0;
        row += view.panel_rows - row % view.panel_rows;
    }
    return aligned;
}

template <weft_dtype type> int launch_of(const rotary_work &work, weft_cuda_queue *queue)
{
    const bool whole = work.half % weft_element<type>::width == 0 && has_aligned_panels(work.call, work.lines.view[0]) &&
                       has_aligned_panels(work.call, work.lines.view[1]);
    return weft_launch(whole ? run_rotary<type, true> : run_rotary<type, false>, work.parts * work.positions * work.packs, queue->stream,
                       work);
}

}

int weft_fast_rotary(const weft_device_call *call, weft_cuda_queue *queue)
{
    rotary_work work;
    work.call = *call;
    const weft_device_view &out = call->views[0];
    const int dim = out.ndim - 2, views[] = { 0, call->num_outputs };
    if (!weft_fast_lines_of(&work.lines, *call, dim + 1, 2, views)) {
        return WEFT_NOT_FAST;
    }
    work.half = work.lines.length / 2;
    work.packs = (int)weft_in_packs(work.half, work.lines.type);
    work.positions = out.extent[dim];
    work.first = (int64_t)call->scalars[WEFT_ROTARY_FIRST] + out.offset[dim];
    work.outer = work.lines.count / work.positions;
    work.step = log2(call->scalars[WEFT_ROTARY_THETA]) / -work.half;
    work.sign = call->scalars[WEFT_ROTARY_SIGN];
    const int64_t wanted = weft_quotient_up(THREADS, work.positions * work.packs);
    const int64_t most = weft_quotient_up(work.outer, LEAST);
    work.parts = most < wanted ? most : wanted;
    switch (work.lines.type) {
    case WEFT_F64:
        return launch_of<WEFT_F64>(work, queue);
    case WEFT_F32:
        return launch_of<WEFT_F32>(work, queue);
    case WEFT_BF16:
        return launch_of<WEFT_BF16>(work, queue);
    default:
        return launch_of<WEFT_F16>(work, queue);
    }
}
