/* Lines of elements that follow each other in memory, for kernels in fast mode (weft_cuda_queue): a team of threads reads a line once,
 * 16 bytes a load, keeps it in registers and reduces it. What each thread has of a line depends on the line's length and type alone, so
 * equal lines give equal bits wherever they lie. */
#ifndef WEFT_CODELETS_CUDA_FAST_LINES_CUH
#define WEFT_CODELETS_CUDA_FAST_LINES_CUH

#include <math.h>
#include <string.h>

#include "codelets/cuda/views.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

/* What a function returns that has launched nothing, because its operands do not lie as it needs them. */
enum { WEFT_NOT_FAST = -1 };

/* ---- types --------------------------------------------------------------------------------------------- */

static __device__ inline uint16_t weft_rounded_to_bf16(float x)
{
#ifdef __CUDACC__
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
#else
    return f32_to_bf16(x);
#endif
}

static __device__ inline uint16_t weft_rounded_to_f16(float x)
{
#ifdef __CUDACC__
    return __half_as_ushort(__float2half_rn(x));
#else
    return f32_to_f16(x);
#endif
}

static __device__ inline float weft_widened_from_f16(uint16_t x)
{
#ifdef __CUDACC__
    return __half2float(__ushort_as_half(x));
#else
    return f16_to_f32(x);
#endif
}

/* Elements as they lie, the type of their arithmetic, that of their sums, and how many of them 16 bytes hold. */
template <weft_dtype type> struct weft_element;
#define ELEMENT(type, lies, computes, adds, loaded, stored)                                                                       \
    template <> struct weft_element<type> {                                                                                       \
        typedef lies element;                                                                                                     \
        typedef computes arithmetic;                                                                                              \
        typedef adds sum;                                                                                                         \
        static const int width = 16 / (int)sizeof(lies);                                                                          \
        static __device__ computes load(const lies x)                                                                             \
        {                                                                                                                         \
            return loaded;                                                                                                        \
        }                                                                                                                         \
        static __device__ lies store(const computes x)                                                                            \
        {                                                                                                                         \
            return stored;                                                                                                        \
        }                                                                                                                         \
    };
ELEMENT(WEFT_F64, double, double, double, x, x)
ELEMENT(WEFT_F32, float, float, double, x, x)
ELEMENT(WEFT_BF16, uint16_t, float, double, bf16_to_f32(x), weft_rounded_to_bf16(x))
ELEMENT(WEFT_F16, uint16_t, float, double, weft_widened_from_f16(x), weft_rounded_to_f16(x))
ELEMENT(WEFT_I64, int64_t, int64_t, int64_t, x, x)
ELEMENT(WEFT_I32, int32_t, int64_t, int64_t, x, (int32_t)x)
ELEMENT(WEFT_U8, uint8_t, int64_t, int64_t, x, (uint8_t)x)
#undef ELEMENT

/* Exponentials within two units in the last place. */
static __device__ inline float weft_fast_exp(float x)
{
#ifdef __CUDACC__
    return expf(x);
#else
    return weft_exp_f32(x);
#endif
}

static __device__ inline double weft_fast_exp(double x)
{
    return weft_exp_f64(x);
}

/* ---- lines --------------------------------------------------------------------------------------------- */

/* 16 bytes of elements, as four registers. */
template <weft_dtype type> struct weft_pack {
    typedef typename weft_element<type>::element element;
    enum { IN_WORD = sizeof(element) < 4 ? 4 / sizeof(element) : 1 };
    uint4 words;

    __device__ uint32_t word(int number) const
    {
        return number == 0 ? words.x : number == 1 ? words.y : number == 2 ? words.z : words.w;
    }

    __device__ void set_word(int number, uint32_t value)
    {
        (number == 0 ? words.x : number == 1 ? words.y : number == 2 ? words.z : words.w) = value;
    }

    __device__ element at(int j) const
    {
        element value;
        const uint64_t bits = sizeof(element) == 8 ? (uint64_t)word((2 * j + 1) & 3) << 32 | word(2 * j & 3)
                                                   : word(j / IN_WORD) >> j % IN_WORD * (8 * sizeof(element)) % 32;
        memcpy(&value, &bits, sizeof(value)); /* little-endian */
        return value;
    }

    /* Into words that are 0 there. */
    __device__ void put(int j, element value)
    {
        uint64_t bits = 0;
        memcpy(&bits, &value, sizeof(value));
        if (sizeof(element) == 8) {
            set_word(2 * j & 3, (uint32_t)bits);
            set_word((2 * j + 1) & 3, (uint32_t)(bits >> 32));
        } else {
            set_word(j / IN_WORD, word(j / IN_WORD) | (uint32_t)bits << j % IN_WORD * (8 * sizeof(element)) % 32);
        }
    }

    /* An aligned address. */
    __device__ void read(const element *memory)
    {
#ifdef __CUDACC__
        __builtin_assume(__isGlobal(memory)); /* which the compiler does not see */
        words = *(const uint4 *)memory;
#else
        memcpy(&words, WEFT_ALIGNED(memory, sizeof(words)), sizeof(words));
#endif
    }

    __device__ void write(element *memory) const
    {
#ifdef __CUDACC__
        __builtin_assume(__isGlobal(memory));
        *(uint4 *)memory = words;
#else
        memcpy(WEFT_ALIGNED(memory, sizeof(words)), &words, sizeof(words));
#endif
    }
};

template <weft_dtype type> struct weft_fast_line {
    typedef weft_element<type> of;
    typedef typename of::element element;
    typedef typename of::arithmetic arithmetic;
    element *memory;
    int length;
    bool aligned; /* the line's packs are */

    __device__ weft_fast_line() : memory(NULL), length(0), aligned(false)
    {
    }

    __device__ weft_fast_line(void *memory_, int length_)
        : memory((element *)memory_), length(length_), aligned((uintptr_t)memory_ % sizeof(weft_pack<type>) == 0)
    {
    }

    /* Elements of the pack that begins with element `first`: at most a pack, none after the end. */
    __device__ int here(int first) const
    {
        return length - first >= of::width ? (int)of::width : length > first ? length - first : 0;
    }

    /* After the end there are zeros. */
    __device__ weft_pack<type> load(int first) const
    {
        weft_pack<type> pack = {};
        if (aligned && length - first >= of::width) {
            pack.read(memory + first);
        } else {
            const int some = length - first;
WEFT_UNROLL
            for (int j = 0; j < of::width; j++) {
                pack.put(j, j < some ? memory[first + j] : (element)0);
            }
        }
        return pack;
    }

    __device__ void store(int first, const weft_pack<type> &pack) const
    {
        if (aligned && length - first >= of::width) {
            pack.write(memory + first);
        } else {
            const int some = length - first;
WEFT_UNROLL
            for (int j = 0; j < of::width; j++) {
                if (j < some) {
                    memory[first + j] = pack.at(j);
                }
            }
        }
    }

    __device__ void store(int first, const arithmetic (&values)[of::width]) const
    {
        weft_pack<type> pack = {};
WEFT_UNROLL
        for (int j = 0; j < of::width; j++) {
            pack.put(j, of::store(values[j]));
        }
        store(first, pack);
    }
};

/* The first `here` of a few values, combined pairwise. */
template <int width, typename T, typename Value, typename Operation>
__device__ T weft_in_pairs(int here, T identity, Value value, Operation operation)
{
    T left[width];
WEFT_UNROLL
    for (int j = 0; j < width; j++) {
        left[j] = j < here ? (T)value(j) : identity;
    }
WEFT_UNROLL
    for (int half = width / 2; half > 0; half /= 2) {
WEFT_UNROLL
        for (int j = 0; j < half; j++) {
            left[j] = operation(left[j], left[j + half]);
        }
    }
    return left[0];
}

template <int width, typename Value> __device__ double weft_sum_in_pairs(int here, Value value)
{
    return weft_in_pairs<width, double>(here, 0.0, value, [](double a, double b) { return a + b; });
}

/* ---- teams --------------------------------------------------------------------------------------------- */

enum { WEFT_TEAM_MOST = 512, WEFT_TEAM_BLOCK = 128 };

/* Threads that have a line together: a part of a warp, or, from 64 threads on, a whole block. All threads of a block come to each
 * reduction. */
struct weft_team {
    int size, rank, slot;

    __device__ explicit weft_team(int size_) : size(size_), rank((int)threadIdx.x % size_), slot(0)
    {
    }

    /* All threads get the result. The operation commutes. */
    template <typename T, typename Operation> __device__ T reduce(T value, Operation operation)
    {
        for (int step = (size < WEFT_WARP ? size : (int)WEFT_WARP) / 2; step > 0; step /= 2) {
            value = operation(value, __shfl_sync(~0u, value, weft_warp_thread() ^ step));
        }
        if (size > WEFT_WARP) {
            __shared__ T left[2][WEFT_WARP]; /* the next reduction's barrier comes before the one that writes here again */
            const int warps = size / WEFT_WARP;
            if (rank % WEFT_WARP == 0) {
                left[slot][rank / WEFT_WARP] = value;
            }
            __syncthreads();
            value = left[slot][rank % warps];
            for (int step = warps / 2; step > 0; step /= 2) {
                value = operation(value, __shfl_sync(~0u, value, weft_warp_thread() ^ step));
            }
            slot = 1 - slot;
        }
        return value;
    }

    __device__ double sum(double value)
    {
        return reduce(value, [](double a, double b) { return a + b; });
    }
};

/* A team's lines of some tensors: each thread has `packs` packs of each line at a time, all that it has of it if `kept`. */
template <weft_dtype type, int tensors, int packs, bool kept> struct weft_held_lines {
    typedef weft_element<type> of;
    typedef typename of::arithmetic arithmetic;
    static const weft_dtype type_of = type;
    weft_fast_line<type> lines[tensors];
    int begin, step; /* the thread's first pack, and from pack to pack: elements */
    weft_pack<type> held[tensors][packs];

    /* Behind `lines`. */
    __device__ void start(const weft_team &team)
    {
        begin = team.rank * of::width;
        step = team.size * of::width;
        if constexpr (kept) {
            fetch(begin);
        }
    }

    __device__ void fetch(int first)
    {
WEFT_UNROLL
        for (int t = 0; t < tensors; t++) {
            const bool whole = lines[t].aligned && lines[t].length % of::width == 0;
            if (whole) { /* no other path among the loads */
WEFT_UNROLL
                for (int p = 0; p < packs; p++) {
                    if (first + p * step < lines[t].length) {
                        held[t][p].read(lines[t].memory + first + p * step);
                    }
                }
            } else {
WEFT_UNROLL
                for (int p = 0; p < packs; p++) {
                    held[t][p] = lines[t].load(first + p * step);
                }
            }
        }
    }

    /* use(first, here, values): the values [tensors][width] of a pack that begins with element `first`, `here` of them in the line. */
    template <typename Use> __device__ void use_held(int first, Use use) const
    {
WEFT_UNROLL
        for (int p = 0; p < packs; p++) {
            const int here = lines[0].here(first + p * step);
            if (here > 0) {
                arithmetic values[tensors][of::width];
WEFT_UNROLL
                for (int t = 0; t < tensors; t++) {
WEFT_UNROLL
                    for (int j = 0; j < of::width; j++) {
                        values[t][j] = of::load(held[t][p].at(j));
                    }
                }
                use(first + p * step, here, values);
            }
        }
    }

    template <typename Use> __device__ void each(Use use)
    {
        if constexpr (kept) {
            use_held(begin, use);
        } else {
            for (int first = begin; first < lines[0].length; first += packs * step) {
                fetch(first);
                use_held(first, use);
            }
        }
    }
};

/* The largest value of a line but NaN, and the sum of e^(value - most). */
template <typename T, int width, typename Lines> __device__ void weft_find_most(Lines &in, weft_team &team, T *most, double *sum)
{
    auto greater = [](T a, T b) { return (T)fmax(a, b); }; /* of NaN and a number the number */
    T own = (T)-INFINITY;
    in.each([&](int, int here, const T (&values)[1][width]) {
        own = greater(own, weft_in_pairs<width, T>(here, (T)-INFINITY, [&](int j) { return values[0][j]; }, greater));
    });
    const T found = team.reduce(own, greater);
    double total = 0;
    in.each([&](int, int here, const T (&values)[1][width]) {
        total += weft_sum_in_pairs<width>(here, [&](int j) { return (double)weft_fast_exp((T)(values[0][j] - found)); });
    });
    *most = found;
    *sum = team.sum(total);
}

/* A block's threads that have the same columns, every `lanes`, combine what they have of each: the first of them gets it. All threads of
 * the block come here. */
template <int threads, int width, typename Operation>
__device__ void weft_combine_groups(double (&total)[width], int lanes, Operation operation)
{
    __shared__ double shared[width][threads];
    const int group = (int)threadIdx.x / lanes;
    for (int half = threads / lanes / 2; half > 0; half /= 2) {
        if (group >= half && group < 2 * half) {
WEFT_UNROLL
            for (int j = 0; j < width; j++) {
                shared[j][threadIdx.x] = total[j];
            }
        }
        __syncthreads();
        if (group < half) {
WEFT_UNROLL
            for (int j = 0; j < width; j++) {
                total[j] = operation(total[j], shared[j][threadIdx.x + half * lanes]);
            }
        }
    }
    __syncthreads();
}

/* ---- launch -------------------------------------------------------------------------------------------- */

/* The address of a view's first element, if the view lies in one panel; NULL: it does not, or only the device knows. */
static inline char *weft_in_one_panel(const weft_device_call &call, int k)
{
    const weft_device_view &view = call.views[k];
    const bool whole = view.count > 0 && (view.ndim == 0 || weft_rows_together(view, 0) >= view.extent[0]);
    return whole && call.table == NULL ? (char *)call.panels[view.first_panel] : NULL;
}

enum { WEFT_FAST_TENSORS = 3, WEFT_FAST_LENGTH = 1 << 30 };

/* The lines along a call's last dimensions, of some of its views. */
struct weft_fast_lines {
    int64_t count;
    int length, team;
    weft_dtype type;
    int view[WEFT_FAST_TENSORS];
    char *memory[WEFT_FAST_TENSORS]; /* NULL: in several panels */
};

static inline bool weft_is_float(weft_dtype type)
{
    return type == WEFT_F64 || type == WEFT_F32 || type == WEFT_BF16 || type == WEFT_F16;
}

/* The lines from dimension `first_dim` on of views of one shape. False: there are none, they are too long, of several types, or in pieces. */
static inline bool weft_fast_lines_of(weft_fast_lines *lines, const weft_device_call &call, int64_t first_dim, int num_views, const int views[])
{
    const weft_device_view &first = call.views[views[0]];
    int64_t length = 1;
    for (int d = (int)first_dim; d < first.ndim; d++) {
        length *= first.extent[d];
    }
    bool fits = first.count > 0 && length <= WEFT_FAST_LENGTH && weft_is_float(first.dtype);
    lines->type = first.dtype;
    lines->length = fits ? (int)length : 0;
    lines->count = fits ? first.count / length : 0;
    for (int i = 0; i < num_views; i++) {
        lines->view[i] = views[i];
        lines->memory[i] = weft_in_one_panel(call, views[i]);
        fits = fits && call.views[views[i]].dtype == first.dtype && call.views[views[i]].count == first.count &&
               (lines->memory[i] != NULL || first_dim > 0);
    }
    return fits;
}

template <weft_dtype type>
__device__ weft_fast_line<type> weft_fast_line_at(const weft_device_call &call, const weft_fast_lines &lines, int tensor, int64_t number)
{
    if (number >= lines.count) {
        return weft_fast_line<type>();
    }
    const size_t size = sizeof(typename weft_element<type>::element);
    const int64_t first = number * lines.length;
    if (lines.memory[tensor] != NULL) {
        return weft_fast_line<type>(lines.memory[tensor] + (size_t)first * size, lines.length);
    }
    const weft_device_place begin = weft_place_of(call, lines.view[tensor], first);
    return weft_fast_line<type>(begin.memory + (size_t)begin.place * size, lines.length);
}

static inline int64_t weft_quotient_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t weft_in_packs(int64_t elements, weft_dtype type)
{
    return weft_quotient_up(elements, 16 / (int64_t)weft_dtype_size(type));
}

/* Threads for a line of so many packs, if each takes `each` of them: a power of two. */
static inline int weft_team_for(int64_t packs, int64_t each, int most)
{
    int team = 1;
    while (team < most && team * each < packs) {
        team *= 2;
    }
    return team;
}

static __device__ inline int64_t weft_first_of_block(int team)
{
    return (int64_t)blockIdx.x * (blockDim.x / team);
}

static __device__ inline int64_t weft_lines_step(int team)
{
    return (int64_t)gridDim.x * (blockDim.x / team);
}

/* A team for each of `count` lines. */
template <typename Work> static int weft_launch_teams(void (*kernel)(Work), int64_t count, int team, void *stream, const Work &work)
{
    const int threads = team > WEFT_WARP ? team : (int)WEFT_TEAM_BLOCK;
    const int64_t of_block = threads / team, most = 1 << 20, blocks = weft_quotient_up(count, of_block);
    return weft_launch_blocks(kernel, (unsigned)(blocks < most ? blocks : most), (unsigned)threads, stream, work);
}

/* The forms of a kernel on held lines: Kernel<type, packs, kept>::kernel(). */
template <template <weft_dtype, int, bool> class Kernel, weft_dtype type, typename Work>
static int weft_launch_held_of(Work *work, int64_t count, weft_cuda_queue *queue)
{
    enum { FEW = 4, MANY = 8 };
    weft_fast_lines *lines = &work->lines;
    const int64_t packs = weft_in_packs(lines->length, type);
    const bool few = packs <= FEW * WEFT_TEAM_MOST;
    lines->team = weft_team_for(packs, few ? FEW : MANY, WEFT_TEAM_MOST);
    auto kernel = few                              ? Kernel<type, FEW, true>::kernel()
                  : packs <= MANY * WEFT_TEAM_MOST ? Kernel<type, MANY, true>::kernel()
                                                   : Kernel<type, FEW, false>::kernel();
    return weft_launch_teams(kernel, count, lines->team, queue->stream, *work);
}

/* With `count` of work->lines. */
template <template <weft_dtype, int, bool> class Kernel, typename Work>
static int weft_launch_held(Work *work, int64_t count, weft_cuda_queue *queue)
{
    switch (work->lines.type) {
    case WEFT_F64:
        return weft_launch_held_of<Kernel, WEFT_F64>(work, count, queue);
    case WEFT_F32:
        return weft_launch_held_of<Kernel, WEFT_F32>(work, count, queue);
    case WEFT_BF16:
        return weft_launch_held_of<Kernel, WEFT_BF16>(work, count, queue);
    default:
        return weft_launch_held_of<Kernel, WEFT_F16>(work, count, queue);
    }
}

#endif
