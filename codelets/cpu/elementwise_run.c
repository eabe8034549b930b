/* Runs elementwise kernels over boxes of any strides and types: in blocks that stay in the first-level
 * cache, converted to the type of the arithmetic if they have another type or are not contiguous. */
#include "codelets/elementwise.h"

#include "codelets/complex.h"
#include "codelets/cpu/boxes.h"
#include "codelets/cpu/clones.h"
#include "codelets/convert.h"

enum { BLOCK = 512, MAX_OPERANDS = 1 + WEFT_MAX_ELEMENTWISE_INPUTS };
/* Bytes of non-temporal stores at a time. Longer bursts wait for the memory while no input is read: 64 MB + 64 MB take
 * 5.4 to 6 ms with bursts of 2 KB, 2.8 to 4.1 with these, and 4.0 to 5.4 without. Shorter rows are stored as usual. */
enum { BURST = 512 };

weft_dtype weft_arithmetic_type(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_F64:
    case WEFT_C64:
    case WEFT_C128:
    case WEFT_U64:
        return dtype;
    case WEFT_F32:
    case WEFT_BF16:
    case WEFT_F16:
    case WEFT_F8_E4M3:
    case WEFT_F8_E5M2:
        return WEFT_F32;
    default:
        return WEFT_I64;
    }
}

/* Bits of integers, or of floating significands. */
static int precision_of(weft_dtype type)
{
    static const int precision[WEFT_DTYPE_COUNT] = {
        [WEFT_F64] = 53, [WEFT_F32] = 24,  [WEFT_BF16] = 8, [WEFT_F16] = 11, [WEFT_I64] = 64, [WEFT_I32] = 32,
        [WEFT_U8] = 8,   [WEFT_BOOL] = 1,  [WEFT_C64] = 24, [WEFT_C128] = 53, [WEFT_I8] = 8,  [WEFT_I16] = 16,
        [WEFT_U16] = 16, [WEFT_U32] = 32,  [WEFT_U64] = 64, [WEFT_F8_E4M3] = 4, [WEFT_F8_E5M2] = 3,
    };
    return precision[type];
}

/* Whether both are integer types, and `type` has numbers that `common` lacks. */
static bool range_matters(weft_dtype type, weft_dtype common)
{
    int64_t least, least_common;
    uint64_t most, most_common;
    return weft_whole_range(type, &least, &most) && weft_whole_range(common, &least_common, &most_common) &&
           (least < least_common || most > most_common);
}

bool weft_conversion_matters(weft_dtype type, weft_dtype common)
{
    if (type == common || common == weft_arithmetic_type(common)) {
        return false;
    }
    bool halves = weft_dtype_size(type) == 2 && weft_dtype_size(common) == 2; /* ranges differ */
    return halves || precision_of(type) > precision_of(common) || range_matters(type, common);
}

/* ---- index space --------------------------------------------------------------------------------------- */

/* Rows along the last dimension of the merged box. */
typedef struct rows {
    weft_elementwise_box box;
    int64_t index[WEFT_MAX_DIMS], place[MAX_OPERANDS]; /* of the current row; elements */
} rows;

static rows begin_rows(const weft_elementwise_args *args, int num_operands)
{
    rows r;
    weft_elementwise_merge(&r.box, args, num_operands);
    for (int d = 0; d < r.box.ndim; d++) {
        r.index[d] = 0;
    }
    for (int k = 0; k < num_operands; k++) {
        r.place[k] = 0;
    }
    return r;
}

static bool next_row(rows *r)
{
    for (int d = r->box.ndim - 2; d >= 0; d--) {
        bool more = ++r->index[d] < r->box.extent[d];
        int64_t steps = more ? 1 : 1 - r->box.extent[d];
        for (int k = 0; k < r->box.num_operands; k++) {
            r->place[k] += steps * r->box.stride[k][d];
        }
        if (more) {
            return true;
        }
        r->index[d] = 0;
    }
    return false;
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

typedef union block {
    double f64[BLOCK];
    float f32[BLOCK];
    int64_t i64[BLOCK];
    uint8_t truth[BLOCK];
    weft_c64 c64[BLOCK];
    weft_c128 c128[BLOCK];
} block;

typedef struct runner {
    const weft_elementwise_args *args;
    weft_elementwise_loop loop;
    const double *scalars;
    const uint16_t *table;   /* of weft_elementwise_look_up(), else NULL */
    weft_dtype type, result; /* of the loop's inputs, and of its output */
    char *pointers[MAX_OPERANDS];
    int64_t sizes[MAX_OPERANDS]; /* of an element */
    block inputs[WEFT_MAX_ELEMENTWISE_INPUTS], output;
} runner;

/* Whether input k can be passed to the loop without conversion. */
static bool has_loop_type(const runner *run, int k)
{
    return run->args->types[k] == run->type && !(run->args->converted & (1u << k));
}

/* `n` elements of input k in the current row, from element `first` on. A repeated value is filled in once
 * per row. */
static const void *load(runner *run, const rows *r, int k, int64_t first, int64_t n)
{
    const weft_elementwise_args *args = run->args;
    int64_t stride = r->box.stride[k][r->box.ndim - 1];
    const char *source = run->pointers[k] + (r->place[k] + first * stride) * run->sizes[k];
    if (has_loop_type(run, k) && (stride == 1 || n == 1)) {
        return source;
    }
    block *buffer = &run->inputs[k - 1];
    if (stride != 0 || first == 0) {
        weft_load(args->base.dtype, buffer, args->types[k], source, stride, n);
        if (args->converted & (1u << k)) {
            weft_narrow(args->common, buffer, n);
        }
    }
    return buffer;
}

static void run_row(runner *run, const rows *r)
{
    const weft_elementwise_args *args = run->args;
    int64_t length = r->box.extent[r->box.ndim - 1], stride = r->box.stride[0][r->box.ndim - 1];
    bool direct = args->types[0] == run->result && (stride == 1 || length == 1);
    bool converts = !direct;
    for (int k = 1; k < r->box.num_operands && !converts; k++) {
        converts = !has_loop_type(run, k) || (r->box.stride[k][r->box.ndim - 1] != 1 && length > 1);
    }
    bool streams = direct && args->streams && length * run->sizes[0] >= BURST;
    int64_t step = streams ? BURST / run->sizes[0] : converts ? BLOCK : length;
    for (int64_t first = 0, n; first < length; first += n) {
        n = length - first < step ? length - first : step;
        const void *inputs[WEFT_MAX_ELEMENTWISE_INPUTS] = { NULL, run->table, NULL };
        for (int k = 1; k < r->box.num_operands; k++) {
            inputs[k - 1] = load(run, r, k, first, n);
        }
        char *target = run->pointers[0] + (r->place[0] + first * stride) * run->sizes[0];
        bool in_place = direct && !streams;
        run->loop(in_place ? (void *)target : &run->output, inputs[0], inputs[1], inputs[2], n, run->scalars);
        if (streams) {
            const char *results = (const char *)&run->output;
            size_t bytes = (size_t)(n * run->sizes[0]);
            weft_cpu_stream_row(target, results, results + bytes, bytes);
        } else if (!direct) {
            weft_store(args->types[0], target, stride, run->result, &run->output, n);
        }
    }
}

/* Whether all operands are contiguous and of one type, in which f32 is computed. */
static bool have_type(const weft_elementwise_args *args, const weft_elementwise_box *box, weft_dtype type)
{
    bool have = args->base.dtype == WEFT_F32 && args->converted == 0;
    for (int k = 0; k < box->num_operands; k++) {
        have = have && args->types[k] == type && box->stride[k][box->ndim - 1] == 1;
    }
    return have;
}

static int64_t count_of(const weft_elementwise_box *box)
{
    int64_t count = 1;
    for (int d = 0; d < box->ndim; d++) {
        count *= box->extent[d];
    }
    return count;
}

static void choose_complex_loop(runner *run, weft_kernel_id kernel)
{
    const weft_complex_loops *loops = &weft_complex_loops_table[kernel - WEFT_KERNEL_ELEMENTWISE];
    run->type = run->args->base.dtype;
    run->loop = run->type == WEFT_C128 ? loops->c128 : loops->c64;
    run->table = NULL;
    run->result = weft_kernel_infos[kernel].truth ? WEFT_BOOL : loops->real ? weft_part_type(run->type) : run->type;
}

static void choose_loop(runner *run, weft_kernel_id kernel, const weft_elementwise_box *box)
{
    if (weft_dtype_is_complex(run->args->base.dtype)) {
        choose_complex_loop(run, kernel);
        return;
    }
    const weft_elementwise_loops *loops = &weft_elementwise_loops_table[kernel - WEFT_KERNEL_ELEMENTWISE];
    weft_elementwise_loop bf16 = weft_elementwise_bf16_loops[kernel - WEFT_KERNEL_ELEMENTWISE];
    run->type = run->args->base.dtype;
    run->loop = run->type == WEFT_F64 ? loops->f64 : run->type == WEFT_F32 ? loops->f32 : loops->i64;
    if (run->type == WEFT_U64 && weft_unsigned_loops_table[kernel - WEFT_KERNEL_ELEMENTWISE] != NULL) {
        run->loop = weft_unsigned_loops_table[kernel - WEFT_KERNEL_ELEMENTWISE];
    }
    weft_dtype stored = run->args->types[0];
    bool one_type = have_type(run->args, box, stored);
    run->table = one_type ? weft_elementwise_table(kernel, stored, count_of(box)) : NULL;
    if (run->table != NULL) {
        run->type = stored;
        run->loop = weft_elementwise_look_up;
    } else if (bf16 != NULL && one_type && stored == WEFT_BF16) {
        run->type = WEFT_BF16;
        run->loop = bf16;
    }
    run->result = weft_kernel_infos[kernel].truth ? WEFT_BOOL : run->type;
}

void weft_cpu_elementwise(const weft_task_run *run)
{
    const weft_elementwise_args *args = run->arguments;
    for (int d = 0; d < args->ndim; d++) {
        if (args->extent[d] == 0) {
            return;
        }
    }
    runner own;
    own.args = args;
    own.scalars = run->scalars;
    for (int k = 0; k < run->num_operands; k++) {
        own.pointers[k] = run->operands[k];
        own.sizes[k] = (int64_t)weft_dtype_size(args->types[k]);
    }
    rows r = begin_rows(args, run->num_operands);
    choose_loop(&own, run->kernel, &r.box);
    do {
        run_row(&own, &r);
    } while (next_row(&r));
    if (args->streams) {
        end_stream();
    }
}
