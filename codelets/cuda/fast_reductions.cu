/* Reductions of floating numbers in fast mode, in double precision: a team of threads for each line, or for a part of it; columns tile by
 * tile. What parts and tiles leave lies in scratch memory, and a second launch reduces it in a fixed order. */
#include "codelets/cuda/fast.h"
#include "codelets/cuda/fast_lines.cuh"
#include "codelets/cuda/products.h"
#include "codelets/cuda/reduction_kinds.cuh"

namespace
{

enum { BLOCK = 256, UNROLLED = 4, EACH = 8, MANY_BLOCKS = 2048 };

/* `centred`: of differences from the call's second input. */
template <typename Operation, bool is_centred> struct kind_of : Operation {
    static const bool centred = is_centred;
};

struct reduce_work {
    weft_device_call call;
    int source;             /* number of the input among the views */
    weft_dtype type;        /* of the input */
    char *memory;           /* of the input; NULL: in several panels */
    int64_t results;
    int64_t lines, length;  /* of each result; line number l of result r begins with element (l * results + r) * length */
    int64_t parts, part;    /* of each line, elements of one */
    int64_t outer, rows, columns, tiles, tile; /* instead of lines: [outer][rows][columns], rows of one tile */
    int lanes, team;        /* threads for the columns of a strip; for each line */
    double *left;           /* [num_left][results], NULL: results are complete */
    int64_t num_left;
};

/* Of an element. */
template <weft_dtype type> __device__ typename weft_element<type>::element *address_of(const reduce_work &work, int64_t index)
{
    typedef typename weft_element<type>::element element;
    if (work.memory != NULL) {
        return (element *)work.memory + index;
    }
    const weft_device_place at = weft_place_of(work.call, work.source, index);
    return (element *)at.memory + at.place;
}

template <typename Kind> __device__ double centre_of(const reduce_work &work, int64_t r)
{
    return Kind::centred ? weft_get<double>(work.call, work.source + 1, r) : 0;
}

template <typename Kind> __device__ void complete(const weft_device_call &call, int64_t r, double total)
{
    const double before = call.first ? Kind::identity(double()) : weft_get<double>(call, 0, r);
    weft_set(call, 0, r, finished(call, Kind::combine(before, total)));
}

template <typename Kind> __device__ void leave(const reduce_work &work, int64_t number, int64_t r, double total)
{
    if (work.left != NULL) {
        work.left[number * work.results + r] = total;
    } else {
        complete<Kind>(work.call, r, total);
    }
}

/* A team for each part of a line. */
template <typename Kind, weft_dtype type> __global__ void WEFT_THREADS_AT_MOST(BLOCK) run_lines(const reduce_work work)
{
    typedef weft_element<type> of;
    typedef typename of::arithmetic T;
    const int64_t of_result = work.lines * work.parts, count = work.results * of_result;
    weft_team team(work.team);
    for (int64_t first = weft_first_of_block(team.size); first < count; first += weft_lines_step(team.size)) {
        const int64_t number = first + threadIdx.x / team.size, r = weft_quotient(number, of_result);
        const int64_t l = weft_quotient(number - r * of_result, work.parts), p = number - r * of_result - l * work.parts;
        weft_held_lines<type, 1, UNROLLED, false> in;
        double centre = 0;
        if (number < count) {
            const int64_t begin = p * work.part, rest = work.length - begin;
            in.lines[0] = weft_fast_line<type>(address_of<type>(work, (l * work.results + r) * work.length + begin),
                                               (int)(rest < work.part ? rest : work.part));
            centre = centre_of<Kind>(work, r);
        }
        in.start(team);
        double total = Kind::identity(double());
        auto combine = [](double a, double b) { return Kind::combine(a, b); };
        in.each([&](int, int here, const T (&values)[1][of::width]) {
            auto value = [&](int j) { return Kind::prepare(Kind::centred ? (double)values[0][j] - centre : (double)values[0][j]); };
            total = combine(total, weft_in_pairs<of::width, double>(here, Kind::identity(double()), value, combine));
        });
        total = team.reduce(total, combine);
        if (team.rank == 0 && number < count) {
            leave<Kind>(work, l * work.parts + p, r, total);
        }
    }
}

/* A pack of `here` columns of every `groups` rows, up to `count` of them, from element `index` on. `whole`: the packs are aligned. */
template <weft_dtype type>
__device__ void load_rows(const reduce_work &work, bool whole, int64_t index, int groups, int count, int here, weft_pack<type> (&packs)[UNROLLED])
{
    const int64_t step = groups * work.columns;
    if (whole) { /* no other path among the loads */
        const typename weft_element<type>::element *from = (const typename weft_element<type>::element *)work.memory + index;
WEFT_UNROLL
        for (int u = 0; u < UNROLLED; u++) {
            if (u < count) {
                packs[u].read(from + u * step);
            }
        }
        return;
    }
WEFT_UNROLL
    for (int u = 0; u < UNROLLED; u++) {
        if (u < count) {
            packs[u] = weft_fast_line<type>(address_of<type>(work, index + u * step), here).load(0);
        }
    }
}

/* A block for each tile of rows of a strip of columns: `lanes` threads have a pack of each row, BLOCK / lanes rows at a time. */
template <typename Kind, weft_dtype type> __global__ void WEFT_THREADS_AT_MOST(BLOCK) run_columns(const reduce_work work)
{
    typedef weft_element<type> of;
    const int lane = (int)threadIdx.x % work.lanes, group = (int)threadIdx.x / work.lanes, groups = BLOCK / work.lanes;
    const bool whole = work.memory != NULL && (uintptr_t)work.memory % sizeof(uint4) == 0 && work.columns % of::width == 0;
    const int64_t strips = (work.columns + work.lanes * of::width - 1) / (work.lanes * of::width);
    for (int64_t number = blockIdx.x; number < work.outer * strips * work.tiles; number += gridDim.x) {
        const int64_t o = number / (strips * work.tiles), tile = number / strips % work.tiles;
        const int64_t column = (number % strips * work.lanes + lane) * of::width;
        const int64_t rest = work.columns - column, end = (tile + 1) * work.tile;
        const int64_t last = end < work.rows ? end : work.rows;
        const int here = rest >= of::width ? (int)of::width : rest > 0 ? (int)rest : 0;
        double total[of::width], centre[of::width];
WEFT_UNROLL
        for (int j = 0; j < of::width; j++) {
            total[j] = Kind::identity(double());
            centre[j] = j < here ? centre_of<Kind>(work, o * work.columns + column + j) : 0;
        }
        for (int64_t row = tile * work.tile + group; row < last && here > 0; row += UNROLLED * groups) {
            weft_pack<type> packs[UNROLLED];
            load_rows<type>(work, whole, (o * work.rows + row) * work.columns + column, groups, (int)((last - row + groups - 1) / groups), here, packs);
WEFT_UNROLL
            for (int u = 0; u < UNROLLED; u++) {
WEFT_UNROLL
                for (int j = 0; j < of::width && row + u * groups < last; j++) {
                    const double value = (double)of::load(packs[u].at(j));
                    total[j] = Kind::combine(total[j], Kind::prepare(Kind::centred ? value - centre[j] : value));
                }
            }
        }
        weft_combine_groups<BLOCK>(total, work.lanes, [](double a, double b) { return Kind::combine(a, b); });
WEFT_UNROLL
        for (int j = 0; j < of::width; j++) {
            if (group == 0 && j < here) {
                leave<Kind>(work, tile, o * work.columns + column + j, total[j]);
            }
        }
    }
}

/* What is left of each result, by a team. */
template <typename Kind> __global__ void WEFT_THREADS_AT_MOST(BLOCK) run_left(const reduce_work work)
{
    weft_team team(work.team);
    auto combine = [](double a, double b) { return Kind::combine(a, b); };
    for (int64_t first = weft_first_of_block(team.size); first < work.results; first += weft_lines_step(team.size)) {
        const int64_t r = first + threadIdx.x / team.size;
        double total = Kind::identity(double());
        for (int64_t i = team.rank; r < work.results && i < work.num_left; i += team.size) {
            total = combine(total, work.left[i * work.results + r]);
        }
        total = team.reduce(total, combine);
        if (team.rank == 0 && r < work.results) {
            complete<Kind>(work.call, r, total);
        }
    }
}

/* ---- launch -------------------------------------------------------------------------------------------- */

/* The reduced dimensions as lines or as columns; false: they are neither, or lines lie in pieces. */
bool find_shape(reduce_work *work)
{
    const weft_device_view &in = work->call.views[work->source];
    int64_t size[4] = { 1, 1, 1, 1 };
    bool reduced[4] = { true, true, true, true };
    int n = 0;
    for (int d = in.ndim - 1; d >= 0; d--) {
        const bool is_reduced = (work->call.numbers[0] >> d & 1) != 0, apart = n == 1 && d == 0 && work->memory == NULL;
        if (in.extent[d] == 1) {
            continue;
        }
        if (n == 0 || reduced[n - 1] != is_reduced || apart) {
            n++;
        }
        if (n > 3 || (n == 1 && d == 0 && work->memory == NULL)) {
            return false;
        }
        reduced[n - 1] = is_reduced;
        size[n - 1] *= in.extent[d];
    }
    work->outer = 0;
    work->lines = work->parts = work->tiles = 1;
    if (reduced[0]) {
        const bool keeps = n > 1 && !reduced[1];
        work->length = work->part = size[0];
        work->results = keeps ? size[1] : 1;
        work->lines = keeps ? size[2] : size[1];
        return n < 3 || keeps;
    }
    work->columns = size[0];
    work->rows = work->tile = size[1];
    work->outer = size[2];
    work->results = size[0] * size[2];
    return n > 1 && reduced[1];
}

/* Results of which scratch memory has room for what is left: 0: none. */
int64_t find_scratch(reduce_work *work, weft_cuda_queue *queue)
{
    void *scratch;
    size_t bytes;
    if (weft_cuda_scratch(queue, &scratch, &bytes) != 0) {
        return 0;
    }
    work->left = (double *)scratch;
    return (int64_t)(bytes / sizeof(double)) / work->results;
}

/* Parts of lines, so that there are blocks for all of a device. False: they do not fit. */
bool divide_lines(reduce_work *work, weft_cuda_queue *queue)
{
    const int64_t packs = weft_in_packs(work->length, work->type), count = work->results * work->lines;
    const int64_t width = 16 / (int64_t)weft_dtype_size(work->type);
    int64_t parts = 1;
    work->team = weft_team_for(packs, EACH, BLOCK);
    if (work->team == BLOCK && count < MANY_BLOCKS / 2) {
        const int64_t most = weft_quotient_up(packs, EACH * BLOCK), wanted = weft_quotient_up(MANY_BLOCKS, count);
        parts = most < wanted ? most : wanted;
    }
    if (parts > 1 || work->lines > 1) {
        const int64_t room = find_scratch(work, queue) / work->lines;
        if (room < 1 && work->lines > 1) {
            return false;
        }
        parts = room < 1 ? 1 : parts < room ? parts : room;
    }
    work->part = weft_quotient_up(packs, parts) * width;
    work->parts = weft_quotient_up(work->length, work->part);
    work->num_left = work->lines * work->parts;
    return work->part <= WEFT_FAST_LENGTH;
}

void divide_columns(reduce_work *work, weft_cuda_queue *queue)
{
    const int64_t packs = weft_in_packs(work->columns, work->type);
    work->lanes = weft_team_for(packs, 1, WEFT_WARP);
    const int64_t groups = BLOCK / work->lanes, blocks = work->outer * weft_quotient_up(packs, work->lanes);
    const int64_t most = weft_quotient_up(work->rows, groups * EACH), wanted = weft_quotient_up(MANY_BLOCKS, blocks);
    int64_t tiles = most < wanted ? most : wanted;
    if (tiles > 1) {
        const int64_t room = find_scratch(work, queue);
        tiles = room < 1 ? 1 : tiles < room ? tiles : room;
    }
    work->tile = weft_quotient_up(weft_quotient_up(work->rows, tiles), groups) * groups;
    work->tiles = work->num_left = weft_quotient_up(work->rows, work->tile);
}

template <typename Kind, weft_dtype type> int launch_of_type(reduce_work *work, weft_cuda_queue *queue)
{
    if (work->outer == 0) {
        return weft_launch_teams(run_lines<Kind, type>, work->results * work->lines * work->parts, work->team, queue->stream, *work);
    }
    const int64_t blocks = work->outer * weft_quotient_up(weft_in_packs(work->columns, type), work->lanes) * work->tiles, most = 1 << 20;
    return weft_launch_blocks(run_columns<Kind, type>, (unsigned)(blocks < most ? blocks : most), BLOCK, queue->stream, *work);
}

template <typename Kind> int launch(reduce_work *work, weft_cuda_queue *queue)
{
    work->left = NULL;
    if (work->outer > 0) {
        divide_columns(work, queue);
    } else if (!divide_lines(work, queue)) {
        return WEFT_NOT_FAST;
    }
    work->left = work->num_left > 1 ? work->left : NULL;
    const int failed = work->type == WEFT_F64    ? launch_of_type<Kind, WEFT_F64>(work, queue)
                       : work->type == WEFT_F32  ? launch_of_type<Kind, WEFT_F32>(work, queue)
                       : work->type == WEFT_BF16 ? launch_of_type<Kind, WEFT_BF16>(work, queue)
                                                 : launch_of_type<Kind, WEFT_F16>(work, queue);
    if (failed != 0 || work->left == NULL) {
        return failed;
    }
    work->team = work->results >= MANY_BLOCKS / 2 ? 1 : weft_team_for(work->num_left, EACH, BLOCK);
    return weft_launch_teams(run_left<Kind>, work->results, work->team, queue->stream, *work);
}

}

int weft_fast_reduction(weft_kernel_id kernel, const weft_device_call *call, weft_cuda_queue *queue)
{
    reduce_work work;
    work.call = *call;
    work.source = call->num_outputs;
    work.type = call->views[work.source].dtype;
    work.memory = weft_in_one_panel(*call, work.source);
    if (call->views[0].count == 0 || call->views[work.source].count == 0 || !weft_is_float(work.type) || !find_shape(&work)) {
        return WEFT_NOT_FAST;
    }
    switch (kernel) {
    case WEFT_KERNEL_sum:
        return launch<kind_of<kinds::sum, false>>(&work, queue);
    case WEFT_KERNEL_sum_abs:
        return launch<kind_of<kinds::sum_abs, false>>(&work, queue);
    case WEFT_KERNEL_sum_square:
        return call->num_inputs > 1 ? launch<kind_of<kinds::sum_square, true>>(&work, queue)
                                    : launch<kind_of<kinds::sum_square, false>>(&work, queue);
    case WEFT_KERNEL_prod:
        return launch<kind_of<kinds::prod, false>>(&work, queue);
    case WEFT_KERNEL_max:
        return launch<kind_of<kinds::max, false>>(&work, queue);
    case WEFT_KERNEL_max_abs:
        return launch<kind_of<kinds::max_abs, false>>(&work, queue);
    case WEFT_KERNEL_min:
        return launch<kind_of<kinds::min, false>>(&work, queue);
    default:
        return WEFT_NOT_FAST;
    }
}
