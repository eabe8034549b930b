/* Norms of vectors in fast mode, a team of threads for each: see norms.cu. The gradient of the gain: columns tile by tile, as in
 * fast_reductions.cu. */
#include <math.h>

#include "codelets/cuda/norms.cuh"
#include "codelets/cuda/products.h"

extern "C" {
#include "codelets/norms.h"
}

namespace
{

enum { BLOCK = 256, UNROLLED = 4, EACH = 8, MANY_BLOCKS = 2048 };

typedef weft_norm_statistics statistics;

/* The gain, or the bias. */
struct parameter {
    char *memory; /* NULL: there is none */
    weft_dtype type;
};

struct norm_work {
    weft_norm_work norm;
    weft_fast_lines lines; /* the argument's, the gradient's if there is one, and the output's */
    parameter gain, bias;
    double size; /* elements of a whole vector */
    bool centred;
    int lanes;   /* for the gain's gradient: see fast_reductions.cu */
    int64_t tiles, tile;
    statistics *found; /* of each vector */
    double *left;      /* [tiles][length], NULL: one tile */
};

/* The values of a pack of a line: of the line's type, or of WEFT_F32. */
template <weft_dtype type>
__device__ void load_parameter(const parameter &from, int length, int first, typename weft_element<type>::arithmetic (&values)[weft_element<type>::width])
{
    typedef weft_element<type> of;
    enum { WIDTH = of::width, WIDTH_F32 = weft_element<WEFT_F32>::width };
    if (from.type == type) {
        const weft_pack<type> pack = weft_fast_line<type>(from.memory, length).load(first);
WEFT_UNROLL
        for (int j = 0; j < WIDTH; j++) {
            values[j] = of::load(pack.at(j));
        }
        return;
    }
WEFT_UNROLL
    for (int begin = 0; begin < WIDTH; begin += WIDTH_F32) {
        const weft_pack<WEFT_F32> pack = weft_fast_line<WEFT_F32>(from.memory, length).load(first + begin);
WEFT_UNROLL
        for (int j = 0; j < WIDTH_F32 && begin + j < WIDTH; j++) {
            values[begin + j] = pack.at(j);
        }
    }
}

/* The mean in two parts, which keep its low bits in single precision. */
template <typename T> struct normaliser {
    T mean, rest, inverse;

    __device__ explicit normaliser(const statistics &s) : mean((T)s.mean), rest((T)(s.mean - (double)(T)s.mean)), inverse((T)s.inverse)
    {
    }

    __device__ T of(T x) const
    {
        return ((x - mean) - rest) * inverse;
    }
};

/* 1 / sqrt(variance + epsilon), or what is given instead. */
__device__ double inverse_of(const norm_work &work, double variance)
{
    const weft_device_call &call = work.norm.call;
    const bool kept = (call.numbers[WEFT_NORM_PARTS] & WEFT_NORM_HAS_RSTD) != 0;
    return kept ? variance : 1 / sqrt(variance + call.scalars[0]);
}

__device__ statistics given_statistics(const norm_work &work, int64_t number)
{
    const weft_norm_work &norm = work.norm;
    const double mean = norm.mean != 0 ? weft_get<double>(norm.call, norm.mean, number) : 0;
    return { mean, inverse_of(work, weft_get<double>(norm.call, norm.variance, number)) };
}

/* Of tensor 0 of the lines. */
template <int width, typename Lines> __device__ statistics find_statistics(const norm_work &work, Lines &in, weft_team &team)
{
    double mean = 0, total = 0;
    if (work.centred) {
        in.each([&](int, int here, const auto &values) { mean += weft_sum_in_pairs<width>(here, [&](int j) { return (double)values[0][j]; }); });
        mean = team.sum(mean) / work.size;
    }
    in.each([&](int, int here, const auto &values) {
        total += weft_sum_in_pairs<width>(here, [&](int j) { return ((double)values[0][j] - mean) * ((double)values[0][j] - mean); });
    });
    return { mean, inverse_of(work, team.sum(total) / work.size) };
}

template <int tensors, typename Lines> __device__ void start_lines(const norm_work &work, Lines &in, const weft_team &team, int64_t number)
{
WEFT_UNROLL
    for (int t = 0; t < tensors; t++) {
        in.lines[t] = weft_fast_line_at<Lines::type_of>(work.norm.call, work.lines, t, number);
    }
    in.start(team);
}

template <weft_dtype type, int packs, bool kept> __global__ void WEFT_THREADS_AT_MOST(WEFT_TEAM_MOST, packs == 8 ? 1 : 2) run_norm(const norm_work work)
{
    typedef weft_element<type> of;
    typedef typename of::arithmetic T;
    const weft_device_call &call = work.norm.call;
    weft_team team(work.lines.team);
    for (int64_t first = weft_first_of_block(team.size); first < work.lines.count; first += weft_lines_step(team.size)) {
        const int64_t number = first + threadIdx.x / team.size;
        const bool here = number < work.lines.count;
        statistics s = here && work.norm.variance != 0 ? given_statistics(work, number) : statistics{ 0, 0 };
        weft_held_lines<type, 1, packs, kept> in;
        start_lines<1>(work, in, team, number);
        if (work.norm.variance == 0) {
            s = find_statistics<of::width>(work, in, team);
        }
        const normaliser<T> normal(s);
        const weft_fast_line<type> out = weft_fast_line_at<type>(call, work.lines, 1, number);
        in.each([&](int begin, int, const T (&values)[1][of::width]) {
            T gain[of::width], bias[of::width], result[of::width];
            if (work.gain.memory != NULL) {
                load_parameter<type>(work.gain, work.lines.length, begin, gain);
            }
            if (work.bias.memory != NULL) {
                load_parameter<type>(work.bias, work.lines.length, begin, bias);
            }
WEFT_UNROLL
            for (int j = 0; j < of::width; j++) {
                result[j] = normal.of(values[0][j]);
                result[j] = work.gain.memory != NULL ? result[j] * gain[j] : result[j];
                result[j] = work.bias.memory != NULL ? result[j] + bias[j] : result[j];
            }
            out.store(begin, result);
        });
        if (team.rank == 0 && here && call.num_outputs > 1) {
            weft_set(call, 1, number, s.inverse);
        }
        if (team.rank == 0 && here && call.num_outputs > 2) {
            weft_set(call, 2, number, s.mean);
        }
    }
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* use(first, here, normal values, gradients times the gain), of each pack of the argument and the gradient. */
template <weft_dtype type, typename Lines, typename Use>
__device__ void each_weighted(const norm_work &work, Lines &in, const normaliser<typename weft_element<type>::arithmetic> &normal, Use use)
{
    typedef weft_element<type> of;
    typedef typename of::arithmetic T;
    in.each([&](int first, int here, const T (&values)[2][of::width]) {
        T normals[of::width], weighted[of::width], gain[of::width];
        if (work.gain.memory != NULL) {
            load_parameter<type>(work.gain, work.lines.length, first, gain);
        }
WEFT_UNROLL
        for (int j = 0; j < of::width; j++) {
            normals[j] = normal.of(values[0][j]);
            weighted[j] = work.gain.memory != NULL ? values[1][j] * gain[j] : values[1][j];
        }
        use(first, here, normals, weighted);
    });
}

template <weft_dtype type, int packs, bool kept> __global__ void WEFT_THREADS_AT_MOST(WEFT_TEAM_MOST) run_norm_backward(const norm_work work)
{
    typedef weft_element<type> of;
    typedef typename of::arithmetic T;
    const weft_norm_work &norm = work.norm;
    weft_team team(work.lines.team);
    for (int64_t first = weft_first_of_block(team.size); first < work.lines.count; first += weft_lines_step(team.size)) {
        const int64_t number = first + threadIdx.x / team.size;
        const bool here = number < work.lines.count;
        statistics s = here && norm.variance != 0 ? given_statistics(work, number) : statistics{ 0, 0 };
        double sum = here && norm.sums != 0 ? weft_get<double>(norm.call, norm.sums, 2 * number) : 0;
        double product = here && norm.sums != 0 ? weft_get<double>(norm.call, norm.sums, 2 * number + 1) : 0;
        weft_held_lines<type, 2, packs, kept> in;
        start_lines<2>(work, in, team, number);
        if (norm.variance == 0) {
            s = find_statistics<of::width>(work, in, team);
        }
        const normaliser<T> normal(s);
        if (norm.sums == 0) {
            each_weighted<type>(work, in, normal, [&](int, int some, const T (&normals)[of::width], const T (&weighted)[of::width]) {
                sum += weft_sum_in_pairs<of::width>(some, [&](int j) { return (double)weighted[j]; });
                product += weft_sum_in_pairs<of::width>(some, [&](int j) { return (double)weighted[j] * (double)normals[j]; });
            });
            sum = team.sum(sum);
            product = team.sum(product);
        }
        const T mean = (T)(work.centred ? sum / work.size : 0), slope = (T)(product / work.size);
        const weft_fast_line<type> out = weft_fast_line_at<type>(norm.call, work.lines, 2, number);
        each_weighted<type>(work, in, normal, [&](int begin, int, const T (&normals)[of::width], const T (&weighted)[of::width]) {
            T result[of::width];
WEFT_UNROLL
            for (int j = 0; j < of::width; j++) {
                result[j] = normal.inverse * ((weighted[j] - mean) - normals[j] * slope);
            }
            out.store(begin, result);
        });
    }
}

/* Into `found`. */
template <weft_dtype type, int packs, bool kept> __global__ void WEFT_THREADS_AT_MOST(WEFT_TEAM_MOST, packs == 8 ? 1 : 2) run_statistics(const norm_work work)
{
    weft_team team(work.lines.team);
    for (int64_t first = weft_first_of_block(team.size); first < work.lines.count; first += weft_lines_step(team.size)) {
        const int64_t number = first + threadIdx.x / team.size;
        weft_held_lines<type, 1, packs, kept> in;
        start_lines<1>(work, in, team, number);
        const statistics s = find_statistics<weft_element<type>::width>(work, in, team);
        if (team.rank == 0 && number < work.lines.count) {
            work.found[number] = s;
        }
    }
}

__global__ void run_given_statistics(const norm_work work)
{
    for (int64_t number = weft_first_index(); number < work.lines.count; number += weft_index_step()) {
        work.found[number] = given_statistics(work, number);
    }
}

__device__ void add_gain(const norm_work &work, int64_t column, double total)
{
    const weft_device_call &call = work.norm.call;
    weft_set(call, 0, column, (call.first ? 0 : weft_get<double>(call, 0, column)) + total);
}

/* A block for each tile of vectors of a strip of columns. */
template <weft_dtype type> __global__ void WEFT_THREADS_AT_MOST(BLOCK) run_gain(const norm_work work)
{
    typedef weft_element<type> of;
    typedef typename of::arithmetic T;
    const int lane = (int)threadIdx.x % work.lanes, group = (int)threadIdx.x / work.lanes, groups = BLOCK / work.lanes;
    const int strip = work.lanes * of::width, strips = (work.lines.length + strip - 1) / strip;
    for (int64_t number = blockIdx.x; number < strips * work.tiles; number += gridDim.x) {
        const int64_t tile = number / strips, end = (tile + 1) * work.tile, last = end < work.lines.count ? end : work.lines.count;
        const int column = (int)(number % strips) * strip + lane * of::width;
        double total[of::width] = {};
        for (int64_t row = tile * work.tile + group; row < last; row += UNROLLED * groups) {
            weft_pack<type> packs[UNROLLED][2] = {};
            statistics found[UNROLLED] = {};
WEFT_UNROLL
            for (int u = 0; u < UNROLLED; u++) {
                if (row + u * groups < last) {
                    packs[u][0] = weft_fast_line_at<type>(work.norm.call, work.lines, 0, row + u * groups).load(column);
                    packs[u][1] = weft_fast_line_at<type>(work.norm.call, work.lines, 1, row + u * groups).load(column);
                    found[u] = work.found[row + u * groups];
                }
            }
WEFT_UNROLL
            for (int u = 0; u < UNROLLED; u++) {
                const normaliser<T> normal(found[u]);
WEFT_UNROLL
                for (int j = 0; j < of::width && row + u * groups < last; j++) {
                    total[j] += (double)of::load(packs[u][1].at(j)) * (double)normal.of(of::load(packs[u][0].at(j)));
                }
            }
        }
        weft_combine_groups<BLOCK>(total, work.lanes, [](double a, double b) { return a + b; });
WEFT_UNROLL
        for (int j = 0; j < of::width; j++) {
            if (group == 0 && column + j < work.lines.length && work.left != NULL) {
                work.left[tile * work.lines.length + column + j] = total[j];
            } else if (group == 0 && column + j < work.lines.length) {
                add_gain(work, column + j, total[j]);
            }
        }
    }
}

__global__ void run_gain_left(const norm_work work)
{
    for (int64_t column = weft_first_index(); column < work.lines.length; column += weft_index_step()) {
        double total = 0;
        for (int64_t tile = 0; tile < work.tiles; tile++) {
            total += work.left[tile * work.lines.length + column];
        }
        add_gain(work, column, total);
    }
}

/* ---- launch -------------------------------------------------------------------------------------------- */

#define KERNELS(name)                                                                                                             \
    template <weft_dtype type, int packs, bool kept> struct kernels_of_##name {                                                   \
        static auto kernel()                                                                                                      \
        {                                                                                                                         \
            return name<type, packs, kept>;                                                                                       \
        }                                                                                                                         \
    };
KERNELS(run_norm)
KERNELS(run_norm_backward)
KERNELS(run_statistics)

/* False: it lies in pieces, or has a type of its own. */
bool find_parameter(parameter *found, const norm_work &work, int view)
{
    const weft_device_call &call = work.norm.call;
    found->type = call.views[view].dtype;
    found->memory = view != 0 ? weft_in_one_panel(call, view) : NULL;
    return view == 0 || (found->memory != NULL && call.views[view].count == work.lines.length &&
                         (found->type == work.lines.type || (found->type == WEFT_F32 && work.lines.type != WEFT_F64)));
}

bool begin(norm_work *work, const weft_norm_work *norm, int num_views, const int views[])
{
    const int input = norm->call.num_outputs;
    const int64_t first = norm->call.numbers[WEFT_NORM_FIRST];
    const weft_device_view &a = norm->call.views[input];
    work->norm = *norm;
    work->centred = norm->call.numbers[WEFT_NORM_CENTRED] != 0;
    work->size = 1;
    for (int d = (int)first; d < a.ndim; d++) {
        work->size *= (double)a.shape[d];
    }
    return weft_fast_lines_of(&work->lines, norm->call, first, num_views, views) && find_parameter(&work->gain, *work, norm->gain) &&
           find_parameter(&work->bias, *work, norm->bias);
}

/* Tiles of vectors, so that there are blocks for all of a device and room for what they leave; false: there is none. */
bool divide(norm_work *work, weft_cuda_queue *queue)
{
    void *scratch;
    size_t bytes;
    const int64_t vectors = work->lines.count, packs = weft_in_packs(work->lines.length, work->lines.type);
    if (weft_cuda_scratch(queue, &scratch, &bytes) != 0 || vectors > (int64_t)(bytes / sizeof(statistics))) {
        return false;
    }
    work->found = (statistics *)scratch;
    work->left = (double *)(work->found + vectors);
    const int64_t room = (int64_t)((bytes - (size_t)vectors * sizeof(statistics)) / sizeof(double)) / work->lines.length;
    work->lanes = weft_team_for(packs, 1, WEFT_WARP);
    const int64_t groups = BLOCK / work->lanes, most = weft_quotient_up(vectors, groups * EACH);
    const int64_t wanted = weft_quotient_up(MANY_BLOCKS, weft_quotient_up(packs, work->lanes));
    const int64_t tiles = most < wanted ? most : wanted, fit = room < 1 ? 1 : tiles < room ? tiles : room;
    work->tile = weft_quotient_up(weft_quotient_up(vectors, fit), groups) * groups;
    work->tiles = weft_quotient_up(vectors, work->tile);
    work->left = work->tiles > 1 ? work->left : NULL;
    return true;
}

template <weft_dtype type> int launch_gain(const norm_work &work, weft_cuda_queue *queue)
{
    const int64_t blocks = weft_quotient_up(weft_in_packs(work.lines.length, type), work.lanes) * work.tiles, most = 1 << 20;
    return weft_launch_blocks(run_gain<type>, (unsigned)(blocks < most ? blocks : most), BLOCK, queue->stream, work);
}

}

int weft_fast_norm(const weft_norm_work *norm, weft_cuda_queue *queue)
{
    norm_work work;
    const int views[] = { norm->call.num_outputs, 0 };
    return begin(&work, norm, 2, views) ? weft_launch_held<kernels_of_run_norm>(&work, work.lines.count, queue) : WEFT_NOT_FAST;
}

int weft_fast_norm_backward(const weft_norm_work *norm, weft_cuda_queue *queue)
{
    norm_work work;
    const int views[] = { norm->call.num_outputs, norm->call.num_outputs + 1, 0 };
    return begin(&work, norm, 3, views) ? weft_launch_held<kernels_of_run_norm_backward>(&work, work.lines.count, queue) : WEFT_NOT_FAST;
}

int weft_fast_norm_gain_backward(const weft_norm_work *norm, weft_cuda_queue *queue)
{
    norm_work work;
    const int views[] = { norm->call.num_outputs, norm->call.num_outputs + 1 };
    if (!begin(&work, norm, 2, views) || !divide(&work, queue)) {
        return WEFT_NOT_FAST;
    }
    int failed = norm->variance != 0 ? weft_launch(run_given_statistics, work.lines.count, queue->stream, work)
                                     : weft_launch_held<kernels_of_run_statistics>(&work, work.lines.count, queue);
    if (failed == 0) {
        failed = work.lines.type == WEFT_F64    ? launch_gain<WEFT_F64>(work, queue)
                 : work.lines.type == WEFT_F32  ? launch_gain<WEFT_F32>(work, queue)
                 : work.lines.type == WEFT_BF16 ? launch_gain<WEFT_BF16>(work, queue)
                                                : launch_gain<WEFT_F16>(work, queue);
    }
    return failed != 0 || work.left == NULL ? failed : weft_launch(run_gain_left, work.lines.length, queue->stream, work);
}
