#include "fast_cases.h"

#include <float.h>

#include "codelets/losses.h"
#include "codelets/norms.h"
#include "view_cases.h"

static const weft_dtype types[] = { WEFT_F32, WEFT_BF16, WEFT_F16, WEFT_F64 };
/* Of one thread to several rounds of a block. */
static const int64_t lengths[] = { 1, 31, 33, 64, 1000, 4096, 4097, 8195, 20000 };
enum { TYPES = sizeof(types) / sizeof(types[0]), LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

/* The distance of numbers of a type, relative to them. */
static double unit(weft_dtype type)
{
    return type == WEFT_F64 ? 0x1p-52 : type == WEFT_F32 ? 0x1p-23 : type == WEFT_BF16 ? 0x1p-7 : 0x1p-10;
}

/* Of the type's arithmetic. */
static double arithmetic_unit(weft_dtype type)
{
    return type == WEFT_F64 ? 0x1p-52 : 0x1p-23;
}

/* The largest finite number of an operand's memory, at least 1. */
static double largest_of(int k, weft_dtype type)
{
    double largest = 1;
    const size_t size = weft_dtype_size(type);
    for (size_t i = 0; i + size <= memory.bytes; i += size) {
        double number = fabs(number_at(type, memory.host[k] + i));
        largest = number > largest && number <= DBL_MAX ? number : largest;
    }
    return largest;
}

void run_fast_twice(view_case *c, run_and_compare *run, const void *context)
{
    static unsigned char before[WEFT_MAX_KERNEL_OUTPUTS][MOST_MEMORY_BYTES], first[WEFT_MAX_KERNEL_OUTPUTS][MOST_MEMORY_BYTES];
    const int outputs = c->args->num_outputs;
    for (int k = 0; k < outputs; k++) {
        memcpy(before[k], memory.host[k], memory.bytes);
    }
    memory.queue.fast = true;
    run(c, context);
    for (int k = 0; k < outputs; k++) {
        memcpy(first[k], fetch_memory(k), memory.bytes);
        memcpy(memory.host[k], before[k], memory.bytes);
        send_again(k);
    }
    run_call(c);
    memory.queue.fast = false;
    for (int k = 0; k < outputs; k++) {
        if (memcmp(first[k], fetch_memory(k), memory.bytes) != 0) {
            fail_msg("%s: two equal calls give other bits", weft_kernel_infos[c->kernel].name);
        }
    }
}

typedef struct bounds {
    double relative, absolute;
} bounds;

static void run_within(view_case *c, const void *context)
{
    const bounds *most = context;
    run_call(c);
    for (int k = 0; k < c->args->num_outputs; k++) {
        const weft_dtype type = c->args->operands[k].dtype;
        compare_within(weft_kernel_infos[c->kernel].name, k, type, fmax(most->relative, unit(type)), most->absolute);
    }
}

void run_fast(view_case *c, double relative, double absolute)
{
    run_fast_twice(c, run_within, &(bounds){ relative, absolute });
}

/* As many lines of such a length as there is room for, up to `most`. */
static int64_t lines_of(int64_t length, weft_dtype type, int64_t most)
{
    const int64_t room = (int64_t)(memory.bytes - 4096) / (length * (int64_t)weft_dtype_size(type));
    return 1 + below(room < most ? room : most);
}

static part part_of(int ndim, const int64_t sizes[])
{
    part p = { .ndim = ndim };
    for (int d = 0; d < ndim; d++) {
        p.shape[d] = p.extent[d] = sizes[d];
    }
    return p;
}

/* ---- reductions ---------------------------------------------------------------------------------------- */

/* Lines, columns, all, and dimensions between others, around one of `length`. */
static part reduced_case(view_case *c, int64_t length, weft_dtype type, int form)
{
    static const int64_t masks[] = { 2, 3, 1, 2, 5, 13, 1, 6, 3 };
    static const int dims[] = { 2, 2, 2, 3, 3, 4, 1, 3, 2 };
    const int64_t few = lines_of(length, type, 7), wide = lines_of(length, type, 200), half = (length + 1) / 2;
    const int64_t sizes[][4] = { { few, length }, { few, length }, { length, wide }, { 2, half, 1 + (few - 1) % 3 }, { few, 2, half },
                                 { few, 2, 1, half }, { length }, { few, 1, length }, { length, few } };
    c->args->numbers[0] = masks[form];
    c->args->numbers[1] = below(2);
    return part_of(dims[form], sizes[form]);
}

static part reduced_part(part of, int64_t mask, bool keeps)
{
    for (int d = of.ndim - 1; d >= 0; d--) {
        if (mask >> d & 1) {
            of = keeps ? part_with(of, d, 1) : part_without(of, d);
        }
    }
    return of;
}

/* Products: close to 1, whose products of all orders are numbers. */
static void fill_around_one(int k, weft_dtype type)
{
    const size_t size = weft_dtype_size(type);
    for (size_t i = 0; i + size <= memory.bytes; i += size) {
        set_number_at(type, memory.host[k] + i, (below(2) == 0 ? 1 : -1) * (1 + (double)(below(65) - 32) / 65536));
    }
    send_again(k);
}

void test_fast_reductions(void **state)
{
    (void)state;
    static const weft_kernel_id kernels[] = { WEFT_KERNEL_sum, WEFT_KERNEL_sum_abs, WEFT_KERNEL_sum_square, WEFT_KERNEL_max, WEFT_KERNEL_min,
                                              WEFT_KERNEL_prod, WEFT_KERNEL_max_abs, WEFT_KERNEL_sum_square_difference };
    enum { KERNELS = sizeof(kernels) / sizeof(kernels[0]), FORMS = 9 };
    resize_memory(MOST_MEMORY_BYTES);
    for (int i = 0; i < LENGTHS * FORMS * 2; i++) {
        view_case c;
        begin_case(&c, kernels[i % 3 == 0 ? 0 : i % KERNELS]);
        const weft_dtype type = types[below(TYPES)];
        const part of = reduced_case(&c, lengths[i % LENGTHS], type, i / LENGTHS % FORMS), kept = reduced_part(of, c.args->numbers[0], true);
        const part result = c.args->numbers[1] != 0 ? kept : reduced_part(of, c.args->numbers[0], false);
        c.scalars[0] *= (double)below(2);
        if (of.extent[0] > 900) { /* no more panels than there is room for */
            c.panel_rows = 500 + below(30000);
        }
        add_output(&c, below(2) == 0 ? type : types[below(TYPES)], &result, true);
        const int k = add_input(&c, type, &of, below(2) == 0);
        if (c.kernel == WEFT_KERNEL_sum_square_difference) {
            add_input(&c, WEFT_F64, &kept, true);
        }
        if (c.kernel == WEFT_KERNEL_prod) {
            fill_around_one(k, type);
        }
        const double terms = (double)part_count(&of) / (double)(part_count(&result) > 0 ? part_count(&result) : 1);
        const double most = 2 * largest_of(k, type), most_term = 4 * (most > DBL_MIN && most < 1e150 ? most * most : DBL_MAX);
        run_fast(&c, terms * 0x1p-51, c.kernel == WEFT_KERNEL_prod ? 0 : terms * terms * 0x1p-52 * most_term);
    }
    resize_memory(MEMORY_BYTES);
}

/* ---- softmax ------------------------------------------------------------------------------------------- */

/* Lines along the last dimension, in random panels. */
static part any_lines(int64_t length, weft_dtype type)
{
    const int64_t count = lines_of(length, type, 9);
    const int64_t sizes[] = { count % 2 == 0 ? count / 2 : count, count % 2 == 0 ? 2 : 1, length };
    return length % 2 == 0 || below(2) == 0 ? part_of(3, sizes) : part_of(2, (int64_t[]){ count, length });
}

void test_fast_softmax(void **state)
{
    (void)state;
    static const weft_kernel_id kernels[] = { WEFT_KERNEL_softmax, WEFT_KERNEL_log_softmax, WEFT_KERNEL_softmax_backward,
                                              WEFT_KERNEL_log_softmax_backward };
    resize_memory(MOST_MEMORY_BYTES);
    for (int i = 0; i < LENGTHS * TYPES * 4; i++) {
        view_case c;
        begin_case(&c, kernels[i / LENGTHS % 4]);
        const weft_dtype type = types[i / LENGTHS / 4];
        const int64_t length = lengths[i % LENGTHS];
        const part of = below(8) == 0 ? part_of(1, &length) : any_lines(length, type);
        const bool backward = c.kernel == WEFT_KERNEL_softmax_backward || c.kernel == WEFT_KERNEL_log_softmax_backward;
        memory.calm = backward || below(4) > 0;
        c.args->numbers[0] = of.ndim - 1;
        if (of.ndim == 1) {
            c.panel_rows = 100 + below(length);
        }
        add_output(&c, type, &of, below(2) == 0);
        for (int k = 0; k <= backward; k++) {
            add_input(&c, type, &of, below(2) == 0);
        }
        /* Gradients: the sum of so many terms has an error of its type's arithmetic, and factors of it are below 64. */
        const double one = arithmetic_unit(type), sum = 25 * (8 + 8 * sqrt((double)length));
        run_fast(&c, 8 * one, backward ? 64 * one * sum : c.kernel == WEFT_KERNEL_softmax ? 1e-37 : 64 * one);
    }
    resize_memory(MEMORY_BYTES);
}

/* ---- norms --------------------------------------------------------------------------------------------- */

static void fill_between(int k, weft_dtype type, double least, double most)
{
    const size_t size = weft_dtype_size(type);
    for (size_t i = 0; i + size <= memory.bytes; i += size) {
        set_number_at(type, memory.host[k] + i, least + (most - least) * (double)below(1024) / 1024);
    }
    send_again(k);
}

/* The optional inputs after the first one or two. */
static void add_norm_parts(view_case *c, weft_dtype type, const part *vector, const part *statistics, bool backward)
{
    int64_t *numbers = c->args->numbers;
    const weft_dtype wide = type == WEFT_F64 || below(2) == 0 ? type : WEFT_F32;
    if (below(3) == 0) {
        numbers[WEFT_NORM_PARTS] |= WEFT_NORM_HAS_STATISTICS | (below(2) == 0 ? WEFT_NORM_HAS_RSTD : 0);
        for (int i = numbers[WEFT_NORM_CENTRED] != 0 ? 0 : 1; i < 2; i++) {
            const int k = add_input(c, WEFT_F64, statistics, below(2) == 0);
            fill_between(k, WEFT_F64, i == 0 ? -1 : 0.25, 1);
        }
    }
    if (c->kernel == WEFT_KERNEL_norm_backward && below(3) == 0) {
        const part sums = part_with(*statistics, statistics->ndim - 1, 2);
        numbers[WEFT_NORM_PARTS] |= WEFT_NORM_HAS_SUMS;
        add_input(c, WEFT_F64, &sums, below(2) == 0);
    }
    if (below(3) > 0) {
        numbers[WEFT_NORM_PARTS] |= WEFT_NORM_HAS_GAIN;
        add_input(c, wide, vector, below(4) > 0);
    }
    if (!backward && below(2) == 0) {
        numbers[WEFT_NORM_PARTS] |= WEFT_NORM_HAS_BIAS;
        add_input(c, wide, vector, below(4) > 0);
    }
}

static void run_norm_case(weft_kernel_id kernel, int64_t length, weft_dtype type)
{
    view_case c;
    begin_case(&c, kernel);
    const bool gain = kernel == WEFT_KERNEL_norm_gain_backward;
    const part of = gain ? part_of(2, (int64_t[]){ lines_of(length, type, 300), length }) : any_lines(length, type);
    part statistics = part_with(of, of.ndim - 1, 1), vector = part_of(1, &length), result = of;
    for (int d = 0; d < of.ndim - 1; d++) {
        result = gain ? part_with(result, d, 1) : result;
    }
    memory.calm = kernel != WEFT_KERNEL_norm || below(4) > 0;
    c.args->numbers[WEFT_NORM_FIRST] = of.ndim - 1;
    c.args->numbers[WEFT_NORM_CENTRED] = below(2);
    if (length > 900) {
        c.panel_rows = 500 + below(30000); /* of the gain */
    } else {
        c.panel_rows = 2 + below(60);
    }
    add_output(&c, gain ? WEFT_F64 : type, &result, below(2) == 0);
    for (int64_t more = kernel == WEFT_KERNEL_norm ? below(3) : 0; more > 0; more--) {
        add_output(&c, WEFT_F64, &statistics, below(2) == 0);
    }
    for (int64_t k = kernel == WEFT_KERNEL_norm ? 1 : 0; k < 2; k++) {
        add_input(&c, type, &of, below(2) == 0);
    }
    add_norm_parts(&c, type, &vector, &statistics, kernel != WEFT_KERNEL_norm);
    /* Normal values are below 32, gains, gradients and biases below 4; what they are multiplied with is below 32, too. */
    const double one = arithmetic_unit(type);
    run_fast(&c, 16 * one, (kernel == WEFT_KERNEL_norm ? 1024 : gain ? 1024 * (double)of.extent[0] : 4096) * one);
}

void test_fast_norms(void **state)
{
    (void)state;
    static const weft_kernel_id kernels[] = { WEFT_KERNEL_norm, WEFT_KERNEL_norm_backward, WEFT_KERNEL_norm, WEFT_KERNEL_norm_gain_backward };
    resize_memory(MOST_MEMORY_BYTES);
    for (int i = 0; i < LENGTHS * TYPES * 4; i++) {
        run_norm_case(kernels[i / LENGTHS % 4], lengths[i % LENGTHS], types[i / LENGTHS / 4]);
    }
    resize_memory(MEMORY_BYTES);
}

/* ---- losses -------------------------------------------------------------------------------------------- */

/* Targets below `classes`, of which few are not. */
static void add_targets(view_case *c, const part *rows, int64_t classes, bool wrong)
{
    const weft_dtype type = below(2) == 0 ? WEFT_I64 : WEFT_I32;
    const int k = add_input(c, type, rows, below(2) == 0);
    const size_t size = weft_dtype_size(type);
    for (size_t i = 0; i + size <= memory.bytes; i += size) {
        const int64_t target = wrong && below(8) == 0 ? below(3) - 2 + classes * below(2) : below(classes);
        memcpy(memory.host[k] + i, &target, size); /* little-endian */
    }
    send_again(k);
}

/* `calm`: no logit is far above what is given as the logarithm of the sum of exponentials. */
static void add_loss_parts(view_case *c, const part *rows, bool backward, bool calm)
{
    const part none = { .ndim = 0 }, column = part_of(2, (int64_t[]){ rows->extent[0], 1 });
    int64_t *parts = &c->args->numbers[WEFT_LOSS_PARTS];
    if (backward && calm && below(3) == 0) {
        *parts |= WEFT_LOSS_HAS_STATISTICS;
        add_input(c, WEFT_F64, &column, false);
        fill_between(add_input(c, WEFT_F64, &column, false), WEFT_F64, 1, 9);
    } else if (backward && calm && below(2) == 0) {
        *parts |= WEFT_LOSS_HAS_LOG_SUMS;
        const int k = add_input(c, WEFT_F64, rows, false);
        if (below(3) == 0) { /* rarely so large that the kernel looks for its own */
            fill_between(k, WEFT_F64, 0, 130000);
        }
    }
    if (backward && below(2) == 0) {
        *parts |= WEFT_LOSS_HAS_GRADIENT;
        add_input(c, types[below(TYPES)], below(2) == 0 ? rows : &none, false);
    }
    if (below(2) == 0) {
        *parts |= WEFT_LOSS_HAS_COUNT;
        fill_between(add_input(c, WEFT_F64, &none, false), WEFT_F64, 1, 2);
    }
}

static void run_loss_case(weft_kernel_id kernel, int64_t length, weft_dtype type)
{
    const bool backward = kernel == WEFT_KERNEL_cross_entropy_backward, picks = kernel == WEFT_KERNEL_pick;
    view_case c;
    begin_case(&c, kernel);
    const part none = { .ndim = 0 };
    part logits = part_of(2, (int64_t[]){ lines_of(length, type, 40), length });
    const part rows = part_without(logits, 1);
    if (backward && below(2) == 0) { /* columns of one rank */
        logits.offset[1] = below(3);
        logits.shape[1] += logits.offset[1] + below(3);
    }
    c.panel_rows = 1 + below(9);
    memory.calm = picks || below(4) > 0; /* sums of infinities depend on their order */
    c.args->numbers[WEFT_LOSS_CLASSES] = logits.shape[1];
    c.args->numbers[WEFT_LOSS_IGNORES] = below(2);
    c.args->numbers[WEFT_LOSS_IGNORED] = below(2) == 0 ? -1 : 0;
    c.scalars[WEFT_LOSS_SMOOTHING] *= 0.1 * (double)below(2);
    if (backward) {
        add_output(&c, type, &logits, below(2) == 0);
    } else {
        add_output(&c, type == WEFT_F16 ? WEFT_F32 : type, picks ? &none : &rows, false);
        if (!picks && below(2) == 0) {
            add_output(&c, WEFT_F64, &rows, false);
        }
    }
    add_input(&c, type, &logits, below(2) == 0);
    add_targets(&c, &rows, logits.shape[1], below(3) == 0);
    const bool calm = memory.calm;
    memory.calm = true;
    add_loss_parts(&c, &rows, backward, calm);
    /* Factors are below 8; the logarithm of a sum of exponentials has as many units as these. */
    const double one = arithmetic_unit(type);
    run_fast(&c, 64 * one, backward ? 512 * one : 64 * one * (double)rows.extent[0]);
}

void test_fast_losses(void **state)
{
    (void)state;
    static const weft_kernel_id kernels[] = { WEFT_KERNEL_cross_entropy, WEFT_KERNEL_cross_entropy_backward, WEFT_KERNEL_pick,
                                              WEFT_KERNEL_cross_entropy_backward };
    resize_memory(MOST_MEMORY_BYTES);
    for (int i = 0; i < LENGTHS * TYPES * 4 * 2; i++) {
        run_loss_case(kernels[i / LENGTHS % 4], lengths[i % LENGTHS], types[i / LENGTHS / 4 % TYPES]);
    }
    resize_memory(MEMORY_BYTES);
}
