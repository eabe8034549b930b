/* Reductions, norms, look-ups, scans on the stand-in against those for CPUs: equal bits, and the same errors. Without
 * StarPU. */
#include <stdlib.h>

#include "codelets/indexing.h"
#include "codelets/lookup.h"
#include "codelets/losses.h"
#include "codelets/norms.h"
#include "codelets/rotary.h"
#include "fast_cases.h"
#include "view_cases.h"

#define CASES share_of(60)

static const weft_dtype whole_types[] = { WEFT_I64, WEFT_I32, WEFT_U8, WEFT_BOOL };

static weft_dtype any_float(void)
{
    return (weft_dtype)below(WEFT_F16 + 1);
}

static weft_dtype any_whole(void)
{
    return whole_types[below(4)];
}

/* ---- reductions ---------------------------------------------------------------------------------------- */

/* The part of the result: `keeps` reduced dimensions with size 1, or drops them. */
static part reduced_part(const part *of, int64_t mask, bool keeps)
{
    part result = *of;
    for (int d = of->ndim - 1; d >= 0; d--) {
        if (mask >> d & 1) {
            result = keeps ? part_with(result, d, 1) : part_without(result, d);
        }
    }
    return result;
}

static part any_reduced_part(view_case *c)
{
    part of = any_part(0, 4, below(4) == 0 ? 2 : 4);
    if (of.ndim > 0 && below(3) == 0) {
        int dim = (int)below(of.ndim);
        of.extent[dim] = 1 + below(of.ndim == 1 ? 1500 : 100);
        of.shape[dim] = of.offset[dim] + of.extent[dim] + below(3);
    }
    c->args->numbers[0] = below(16) & ((1 << of.ndim) - 1);
    c->args->numbers[1] = below(2);
    c->scalars[0] *= (double)below(2);
    return of;
}

/* Sometimes with too little scratch memory for what the kernel would keep there. */
static void run_with_scratch(view_case *c)
{
    const size_t bytes = memory.queue.workspace_bytes;
    memory.queue.workspace_bytes = below(3) == 0 && bytes > 0 ? (size_t)16 << below(8) : bytes;
    run_case(c);
    memory.queue.workspace_bytes = bytes > 0 ? bytes : memory.queue.workspace_bytes;
}

static void test_reductions(void **state)
{
    (void)state;
    const int kinds = WEFT_KERNEL_sum_pow_scaled - WEFT_KERNEL_sum + 1;
    for (int i = 0; i < kinds * CASES; i++) {
        view_case c;
        begin_case(&c, (weft_kernel_id)(WEFT_KERNEL_sum + i % kinds));
        bool floating = c.kernel >= WEFT_KERNEL_sum_pow || below(2) == 0;
        bool truth = c.kernel == WEFT_KERNEL_any || c.kernel == WEFT_KERNEL_all;
        part of = any_reduced_part(&c), kept = reduced_part(&of, c.args->numbers[0], true);
        part result = c.args->numbers[1] != 0 ? kept : reduced_part(&of, c.args->numbers[0], false);
        add_output(&c, truth ? WEFT_BOOL : floating ? any_float() : any_whole(), &result, true);
        add_input(&c, floating ? any_float() : any_whole(), &of, false);
        if (c.kernel >= WEFT_KERNEL_sum_square_difference) {
            add_input(&c, any_float(), &kept, false);
        }
        run_case(&c);
    }
}

/* Runs of more than one group of values, and many short ones. */
static void test_long_reductions(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = { { 1, 8191 }, { 1, 8192 }, { 1, 8193 }, { 1, 12000 }, { 1, 16000 }, { 30, 513 },
                                        { 170, 95 }, { 500, 32 }, { 1000, 16 }, { 5000, 3 } };
    static const weft_dtype types[] = { WEFT_F32, WEFT_I32, WEFT_BF16 };
    const int kinds = WEFT_KERNEL_sum_square - WEFT_KERNEL_sum + 1, num_sizes = sizeof(sizes) / sizeof(sizes[0]);
    memory.calm = true;
    for (int i = 0; i < kinds * num_sizes; i++) {
        view_case c;
        begin_case(&c, (weft_kernel_id)(WEFT_KERNEL_sum + i % kinds));
        const int64_t rows = sizes[i / kinds][0], columns = sizes[i / kinds][1];
        part of = { .ndim = 2, .shape = { rows, columns }, .extent = { rows, columns } };
        if (rows == 1) {
            of = (part){ .ndim = 1, .shape = { columns }, .extent = { columns } };
        }
        const bool truth = c.kernel == WEFT_KERNEL_any || c.kernel == WEFT_KERNEL_all;
        const weft_dtype type = types[i % kinds % 3];
        c.args->numbers[0] = rows == 1 ? 1 : 3;
        part result = reduced_part(&of, c.args->numbers[0], false);
        add_output(&c, truth ? WEFT_BOOL : type == WEFT_I32 ? WEFT_I64 : WEFT_F64, &result, true);
        add_input(&c, type, &of, below(3) > 0);
        run_with_scratch(&c);
    }
    memory.calm = false;
}

static void test_places(void **state)
{
    (void)state;
    static const weft_kernel_id kernels[] = { WEFT_KERNEL_place, WEFT_KERNEL_max_with_indices, WEFT_KERNEL_min_with_indices };
    for (int i = 0; i < 3 * CASES; i++) {
        view_case c;
        begin_case(&c, kernels[i % 3]);
        weft_dtype type = (weft_dtype)below(REAL_TYPES);
        part of = any_reduced_part(&c), kept = reduced_part(&of, c.args->numbers[0], true);
        part result = c.args->numbers[1] != 0 ? kept : reduced_part(&of, c.args->numbers[0], false);
        c.scalars[0] = 0;
        if (c.kernel == WEFT_KERNEL_place) {
            add_output(&c, WEFT_I64, &result, true);
            add_input(&c, type, &of, false);
            add_input(&c, type, &kept, true);
        } else {
            c.args->first = c.args->last = true;
            add_output(&c, type, &result, true);
            if (below(3) > 0) {
                add_output(&c, WEFT_I64, &result, true);
            }
            add_input(&c, type, &of, false);
        }
        run_case(&c);
    }
}

/* ---- norms --------------------------------------------------------------------------------------------- */

static void add_norm_parts(view_case *c, const part *of, bool backward)
{
    int64_t *numbers = c->args->numbers;
    int first = (int)numbers[WEFT_NORM_FIRST];
    part statistics = *of, vector = { .ndim = of->ndim - first };
    for (int d = first; d < of->ndim; d++) {
        statistics = part_with(statistics, d, 1);
        vector.extent[d - first] = vector.shape[d - first] = of->extent[d];
    }
    part sums = part_with(statistics, of->ndim - 1, 2);
    if (below(2) == 0) {
        numbers[WEFT_NORM_PARTS] |= WEFT_NORM_HAS_STATISTICS | (below(2) == 0 ? WEFT_NORM_HAS_RSTD : 0);
        for (int i = numbers[WEFT_NORM_CENTRED] != 0 ? 0 : 1; i < 2; i++) {
            add_input(c, WEFT_F64, &statistics, false);
        }
    }
    if (c->kernel == WEFT_KERNEL_norm_backward && below(3) == 0) {
        numbers[WEFT_NORM_PARTS] |= WEFT_NORM_HAS_SUMS;
        add_input(c, WEFT_F64, &sums, false);
    }
    if (below(2) == 0) {
        numbers[WEFT_NORM_PARTS] |= WEFT_NORM_HAS_GAIN;
        add_input(c, any_float(), &vector, false);
    }
    if (!backward && below(2) == 0) {
        numbers[WEFT_NORM_PARTS] |= WEFT_NORM_HAS_BIAS;
        add_input(c, any_float(), &vector, false);
    }
}

static void test_norms(void **state)
{
    (void)state;
    static const weft_kernel_id kernels[] = { WEFT_KERNEL_norm, WEFT_KERNEL_norm_backward, WEFT_KERNEL_norm_sums,
                                              WEFT_KERNEL_norm_gain_backward };
    for (int i = 0; i < 6 * CASES; i++) {
        view_case c;
        begin_case(&c, kernels[i % 4]);
        part of = any_part(1, 4, 5);
        int first = (int)below(of.ndim);
        of = part_with(of, of.ndim - 1, 1 + below(60));
        if (of.ndim == 2 && below(2) == 0) { /* more vectors than a block adds in a round */
            first = 1;
            of = part_with(part_with(of, 0, 60 + below(140)), 1, 1 + below(40));
        }
        part statistics = of, gain = of;
        for (int d = 0; d < of.ndim; d++) {
            statistics = d >= first ? part_with(statistics, d, 1) : statistics;
            gain = d < first ? part_with(gain, d, 1) : gain;
        }
        part sums = part_with(statistics, of.ndim - 1, 2);
        c.args->numbers[WEFT_NORM_FIRST] = first;
        c.args->numbers[WEFT_NORM_CENTRED] = below(2);
        weft_dtype type = any_float();
        bool adds = c.kernel == WEFT_KERNEL_norm_sums || c.kernel == WEFT_KERNEL_norm_gain_backward;
        add_output(&c, adds ? WEFT_F64 : type,
                   c.kernel == WEFT_KERNEL_norm_sums ? &sums : c.kernel == WEFT_KERNEL_norm_gain_backward ? &gain : &of, false);
        for (int64_t more = c.kernel == WEFT_KERNEL_norm ? below(3) : 0; more > 0; more--) {
            add_output(&c, WEFT_F64, &statistics, false);
        }
        add_input(&c, type, &of, false);
        if (c.kernel != WEFT_KERNEL_norm) {
            add_input(&c, any_float(), &of, false);
        }
        add_norm_parts(&c, &of, c.kernel != WEFT_KERNEL_norm);
        run_with_scratch(&c);
    }
}

/* ---- indices ------------------------------------------------------------------------------------------- */

/* Mostly below `size`. */
static void fill_with_indices(int k, weft_dtype type, int64_t size, bool wrong)
{
    size_t bytes = weft_dtype_size(type);
    for (size_t i = 0; i + bytes <= memory.bytes; i += bytes) {
        int64_t index = wrong && below(30) == 0 ? below(20) - 10 + size * below(2) : size > 0 ? below(size) : 0;
        memcpy(memory.host[k] + i, &index, bytes); /* little-endian */
    }
    send_again(k);
}

static void add_indices(view_case *c, const part *of, int64_t size, bool wrong)
{
    weft_dtype type = below(2) == 0 ? WEFT_I64 : WEFT_I32;
    fill_with_indices(add_input(c, type, of, false), type, size, wrong);
}

static void test_lookups(void **state)
{
    (void)state;
    int invalid = 0;
    for (int i = 0; i < 6 * CASES; i++) {
        view_case c;
        bool scatters = i % 2 == 0;
        begin_case(&c, scatters ? WEFT_KERNEL_scatter : WEFT_KERNEL_lookup);
        part table = any_part(1, 4, 5);
        int dim = (int)below(table.ndim);
        part many = part_with(table, dim, 1 + below(12)), line = { .ndim = 1, .shape = { 0 } };
        line = part_with(line, 0, many.extent[dim]);
        bool together = below(2) == 0, wrong = below(3) == 0;
        c.args->numbers[WEFT_INDEXED_DIM] = dim;
        c.args->numbers[WEFT_INDEXED_TOGETHER] = together;
        weft_dtype type = (weft_dtype)below(REAL_TYPES);
        if (scatters) {
            add_output(&c, type == WEFT_BF16 || type == WEFT_F16 ? WEFT_F32 : type, &table, true);
            add_input(&c, type, &many, false);
        } else {
            add_output(&c, type, &many, true);
            add_input(&c, type, &table, false);
        }
        add_indices(&c, together ? &line : &many, table.shape[dim], wrong);
        run_case(&c);
        invalid += memory.queue.pending != NULL && memory.queue.pending->error.status != WEFT_OK;
    }
    assert_true(invalid > CASES / 4);
}

/* One line, or two, of few and of many elements, some of them elsewhere: sums of integers, and others in the order of the indices. */
static void test_counts(void **state)
{
    (void)state;
    const int64_t bins[] = { 1, 10, 300, 2048, 2049, 5000 };
    int invalid = 0;
    for (int i = 0; i < 30; i++) {
        view_case c;
        begin_case(&c, WEFT_KERNEL_scatter);
        const weft_dtype types[] = { WEFT_I64, WEFT_F32, WEFT_I32, WEFT_F64, WEFT_U8, WEFT_BOOL }, type = types[i % 6];
        /* The others' time is bins times elements. */
        const bool counted = type == WEFT_I64 || type == WEFT_I32;
        part out = part_with((part){ .ndim = 1 }, 0, bins[below(counted ? 6 : 3)]), source = part_with((part){ .ndim = 1 }, 0, below(3000));
        part indices = source;
        if (i % 4 == 0 && out.shape[0] <= 2049) {
            out.ndim = source.ndim = 2;
            out = part_with(out, 1, 2);
            source = part_with(source, 1, 2);
        }
        c.args->numbers[WEFT_SCATTER_OP] = i % 3 == 0 ? (int64_t[]){ WEFT_SUM, WEFT_PROD, WEFT_MIN, WEFT_MAX }[below(4)] : WEFT_SUM;
        const int64_t size = out.shape[0];
        if (size > 1 && below(2) == 0) {
            out.offset[0] = below(size);
            out.extent[0] = 1 + below(size - out.offset[0]);
        }
        c.panel_rows = 300 + below(3000);
        c.args->numbers[WEFT_INDEXED_TOGETHER] = true;
        add_output(&c, type, &out, true);
        add_input(&c, type, &source, false);
        add_indices(&c, &indices, size, i % 5 == 0);
        run_case(&c);
        invalid += memory.queue.pending != NULL && memory.queue.pending->error.status != WEFT_OK;
    }
    assert_true(invalid > 0);
}

static void test_indices_alone(void **state)
{
    (void)state;
    int invalid = 0;
    for (int i = 0; i < 6 * CASES; i++) {
        view_case c;
        begin_case(&c, i % 2 == 0 ? WEFT_KERNEL_one_hot : WEFT_KERNEL_check_indices);
        part indices = any_part(0, 3, 5), out = indices;
        int64_t size = 1 + below(9);
        if (c.kernel == WEFT_KERNEL_one_hot) {
            out.ndim++;
            out.extent[out.ndim - 1] = size - below(2);
            out.offset[out.ndim - 1] = size - out.extent[out.ndim - 1];
            out.shape[out.ndim - 1] = size;
        }
        c.args->numbers[0] = size;
        add_output(&c, c.kernel == WEFT_KERNEL_one_hot ? WEFT_I64 : WEFT_BOOL, &out, true);
        add_indices(&c, &indices, size, below(3) == 0);
        run_case(&c);
        invalid += memory.queue.pending != NULL && memory.queue.pending->error.status != WEFT_OK;
    }
    assert_true(invalid > 0);
}

enum { MAX_ROWS = 9, MAX_OPERANDS = 2 + MAX_ROWS };

/* The indices, and the table in memory 1 as its panels; returns the number of operands. */
static int place_table(const weft_embedding_args *args, void *host[], void *device[])
{
    int count = 2;
    for (int64_t row = 0, rows; row < args->num_rows; row += rows) {
        size_t offset = (size_t)(row * args->table_stride) * weft_dtype_size(args->base.dtype);
        rows = args->panel_rows - (args->first_row + row) % args->panel_rows;
        host[count] = memory.host[1] + offset;
        device[count++] = (char *)memory.device[1] + offset;
    }
    host[1] = memory.host[2];
    device[1] = memory.device[2];
    return count;
}

static void test_embeddings(void **state)
{
    (void)state;
    int invalid = 0;
    for (int i = 0; i < 2 * CASES; i++) {
        bool backward = i % 2 == 0, wide = below(2) == 0;
        weft_dtype index_type = below(2) == 0 ? WEFT_I64 : WEFT_I32;
        weft_dtype type = !backward ? (weft_dtype)below(REAL_TYPES) : wide ? WEFT_F64 : WEFT_F32;
        weft_dtype gradient = !backward ? type : wide ? WEFT_F64 : (weft_dtype)(WEFT_F32 + below(3));
        weft_embedding_args args = { .base.dtype = type,
                                     .index_type = index_type,
                                     .gradient_type = gradient,
                                     .count = below(36),
                                     .width = below(2) == 0 ? 30 + below(150) : below(12), /* a warp for each row of a gradient */
                                     .first_row = below(3),
                                     .num_rows = below(MAX_ROWS),
                                     .first = below(2) == 0,
                                     .checks = below(3) > 0 };
        args.total_rows = args.first_row + args.num_rows + below(4);
        args.panel_rows = 1 + below(12);
        const bool aligned = below(2) == 0; /* rows of whole vectors */
        args.width = aligned ? (args.width + 15) / 16 * 16 : args.width;
        args.output_stride = args.width + (aligned ? 16 * below(2) : below(3));
        args.table_stride = args.width + (aligned ? 16 * below(2) : below(3));
        memory.calm = below(2) == 0;
        fill_at_random(0, type);
        fill_at_random(1, gradient);
        fill_with_indices(2, index_type, args.total_rows, below(3) == 0);
        void *host[MAX_OPERANDS] = { memory.host[0], memory.host[1], memory.host[2] };
        void *device[MAX_OPERANDS] = { memory.device[0], memory.device[1], memory.device[2] };
        weft_task_run run = { .kernel = backward ? WEFT_KERNEL_embedding_backward : WEFT_KERNEL_embedding,
                              .arguments = &args,
                              .num_operands = backward ? 3 : place_table(&args, host, device) };
        const size_t begin = (size_t)(aligned ? 0 : below(9)) * weft_dtype_size(type);
        host[0] = (char *)host[0] + begin;
        device[0] = (char *)device[0] + begin;
        run_on_both(&run, host, device);
        compare("embedding", 0, type, 0);
        invalid += memory.queue.pending != NULL && memory.queue.pending->error.status != WEFT_OK;
    }
    assert_true(invalid > 0);
}

/* Logits and targets, and what a loss or its gradient needs beside them. */
static void add_loss_parts(view_case *c, const part *logits)
{
    int64_t *numbers = c->args->numbers;
    part none = { .ndim = 0 }, rows = part_without(*logits, 1), column = part_with(*logits, 1, 1);
    bool backward = c->kernel == WEFT_KERNEL_cross_entropy_backward || c->kernel == WEFT_KERNEL_pick_backward;
    bool statistics = c->kernel != WEFT_KERNEL_pick && c->kernel != WEFT_KERNEL_pick_backward && below(2) == 0;
    numbers[WEFT_LOSS_CLASSES] = logits->shape[1];
    numbers[WEFT_LOSS_IGNORES] = below(2);
    numbers[WEFT_LOSS_IGNORED] = below(5) - 1;
    c->scalars[WEFT_LOSS_SMOOTHING] *= 0.1 * (double)below(2);
    add_input(c, any_float(), statistics && !backward ? &column : logits, false);
    add_indices(c, &rows, logits->shape[1], below(3) == 0);
    if (statistics) {
        numbers[WEFT_LOSS_PARTS] |= WEFT_LOSS_HAS_STATISTICS;
        add_input(c, WEFT_F64, &column, false);
        add_input(c, WEFT_F64, &column, false);
        if (below(2) == 0) {
            numbers[WEFT_LOSS_PARTS] |= WEFT_LOSS_HAS_MEAN;
            add_input(c, WEFT_F64, &column, false);
        }
    }
    if (c->kernel == WEFT_KERNEL_cross_entropy_backward && !statistics && below(2) == 0) {
        numbers[WEFT_LOSS_PARTS] |= WEFT_LOSS_HAS_LOG_SUMS;
        add_input(c, WEFT_F64, &rows, false);
    }
    if (backward && below(2) == 0) {
        numbers[WEFT_LOSS_PARTS] |= WEFT_LOSS_HAS_GRADIENT;
        add_input(c, any_float(), below(2) == 0 ? &rows : &none, false);
    }
    if (below(2) == 0) {
        numbers[WEFT_LOSS_PARTS] |= WEFT_LOSS_HAS_COUNT;
        add_input(c, WEFT_F64, &none, false);
    }
}

/* Rows for a warp each, as many as there is room for. */
static part long_rows(part of)
{
    of.extent[1] = 64 + below(below(4) == 0 ? 600 : 100);
    of.shape[1] = of.offset[1] + of.extent[1] + below(3);
    of.extent[0] = of.extent[0] < 11 ? of.extent[0] : 11;
    return of;
}

static void test_losses(void **state)
{
    (void)state;
    static const weft_kernel_id kernels[] = { WEFT_KERNEL_cross_entropy, WEFT_KERNEL_pick,          WEFT_KERNEL_cross_entropy,
                                              WEFT_KERNEL_count_targets, WEFT_KERNEL_cross_entropy, WEFT_KERNEL_sum_square_distance };
    int invalid = 0;
    for (int i = 0; i < 8 * CASES; i++) {
        view_case c;
        begin_case(&c, kernels[i % 6]);
        part of = any_part(2, 2, 30), none = { .ndim = 0 };
        if (below(4) == 0) { /* more rows than a block has threads */
            of = part_with(part_with(of, 1, 1 + below(12)), 0, 257 + below(50));
            c.panel_rows = 16;
        }
        if (below(3) == 0) {
            of = long_rows(of);
        }
        of = c.kernel == WEFT_KERNEL_cross_entropy ? part_with(of, 1, of.extent[1]) : of; /* whole rows */
        part rows = part_without(of, 1);
        bool is_scalar = c.kernel == WEFT_KERNEL_count_targets || c.kernel == WEFT_KERNEL_sum_square_distance;
        bool together = is_scalar || (c.kernel == WEFT_KERNEL_pick && below(2) == 0);
        add_output(&c, any_float(), together ? &none : &rows, false);
        if (c.kernel == WEFT_KERNEL_cross_entropy && below(2) == 0) {
            add_output(&c, WEFT_F64, &rows, false); /* log-sums */
        }
        if (c.kernel == WEFT_KERNEL_count_targets) {
            c.args->numbers[WEFT_LOSS_IGNORED] = 3;
            add_indices(&c, &rows, 6, false);
        } else if (c.kernel == WEFT_KERNEL_sum_square_distance) {
            part same = below(3) == 0 ? any_part(0, 4, 5) : of;
            add_input(&c, any_float(), &same, false);
            add_input(&c, any_float(), &same, false);
        } else {
            add_loss_parts(&c, &of);
        }
        /* Rarely less scratch memory than the rows have losses. */
        run_with_scratch(&c);
        invalid += memory.queue.pending != NULL && memory.queue.pending->error.status != WEFT_OK;
    }
    assert_true(invalid > 0);
}

static void test_gradients_of_losses(void **state)
{
    (void)state;
    int invalid = 0;
    for (int i = 0; i < 4 * CASES; i++) {
        view_case c;
        begin_case(&c, i % 2 == 0 ? WEFT_KERNEL_cross_entropy_backward : WEFT_KERNEL_pick_backward);
        part logits = any_part(2, 2, 20);
        if (below(3) == 0) {
            logits = long_rows(logits);
        }
        add_output(&c, any_float(), &logits, false);
        add_loss_parts(&c, &logits);
        run_case(&c);
        invalid += memory.queue.pending != NULL && memory.queue.pending->error.status != WEFT_OK;
    }
    assert_true(invalid > 0);
}

/* ---- triangles and scans ------------------------------------------------------------------------------- */

static void test_triangles(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        view_case c;
        begin_case(&c, i % 2 == 0 ? WEFT_KERNEL_tril : WEFT_KERNEL_triu);
        part of = any_part(2, 4, 6);
        weft_dtype type = (weft_dtype)below(REAL_TYPES);
        c.args->numbers[0] = below(13) - 6;
        add_output(&c, type, &of, false);
        add_input(&c, type, &of, false);
        run_case(&c);
    }
}

static void test_scans(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * CASES; i++) {
        view_case c;
        begin_case(&c, i % 2 == 0 ? WEFT_KERNEL_cumsum : WEFT_KERNEL_cumprod);
        part of = any_part(1, 4, 6);
        int dim = (int)below(of.ndim);
        of = part_with(of, dim, 1 + below(30));
        if (below(2) == 0) { /* lines for a block, or with loads ahead; rarely longer than a block loads at once */
            of = any_part(1, 3, 4);
            dim = below(3) == 0 ? (int)below(of.ndim) : of.ndim - 1;
            of = part_with(of, dim, 64 + below(below(3) == 0 ? 400 : 50));
            of = of.ndim == 1 ? part_with(of, dim, 64 + below(4200)) : of;
            c.panel_rows = dim == 0 ? 10 + below(1500) : 0;
        }
        weft_dtype type = (weft_dtype)below(REAL_TYPES - 1); /* not WEFT_BOOL */
        c.args->numbers[0] = dim;
        add_output(&c, type, &of, false);
        add_input(&c, type, &of, false);
        run_case(&c);
    }
}

/* ---- sorting, rotary positions ------------------------------------------------------------------------- */

static void test_sorting(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * CASES; i++) {
        view_case c;
        begin_case(&c, i % 2 == 0 ? WEFT_KERNEL_order : WEFT_KERNEL_sort);
        part in = any_part(1, 4, 3);
        int dim = (int)below(in.ndim);
        /* Rarely longer than a block sorts together. */
        in = part_with(in, dim, 1 + below(30));
        if (i % 30 == 0) {
            in = (part){ .ndim = 1 };
            dim = 0;
            in = part_with(in, 0, i % 60 == 0 ? 100 + below(500) : 2049 + below(100));
            c.panel_rows = 50;
        }
        part out = part_with(in, dim, below(2) == 0 ? in.extent[dim] : 1 + below(in.extent[dim]));
        weft_dtype type = (weft_dtype)below(REAL_TYPES);
        c.args->numbers[0] = dim;
        c.args->numbers[1] = below(2);
        if (c.kernel == WEFT_KERNEL_sort) {
            add_output(&c, type, &out, false);
        }
        if (c.kernel == WEFT_KERNEL_order || below(2) == 0) {
            add_output(&c, WEFT_I64, &out, false);
        }
        add_input(&c, type, &in, false);
        run_case(&c);
    }
}

static void test_rotary(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        view_case c;
        begin_case(&c, WEFT_KERNEL_rotary);
        part of = any_part(2, 4, 5);
        int64_t width = 2 * (1 + below(below(8) == 0 ? 80 : 6));
        of = part_with(of, of.ndim - 1, width);
        if (below(2) == 0) {
            of.extent[of.ndim - 2] = 1 + below(of.ndim == 2 ? 60 : 20);
            of.offset[of.ndim - 2] = below(40);
            of.shape[of.ndim - 2] = of.offset[of.ndim - 2] + of.extent[of.ndim - 2];
        }
        weft_dtype type = any_float();
        c.scalars[WEFT_ROTARY_THETA] = 10000;
        c.scalars[WEFT_ROTARY_FIRST] = (double)below(100);
        c.scalars[WEFT_ROTARY_SIGN] = below(2) == 0 ? 1 : -1;
        add_output(&c, type, &of, false);
        add_input(&c, type, &of, false);
        run_case(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_reductions),
        cmocka_unit_test(test_reductions), cmocka_unit_test(test_places),        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_lookups), cmocka_unit_test(test_counts),    cmocka_unit_test(test_indices_alone), cmocka_unit_test(test_triangles),
        cmocka_unit_test(test_scans),      cmocka_unit_test(test_embeddings),    cmocka_unit_test(test_gradients_of_losses),
        cmocka_unit_test(test_losses),     cmocka_unit_test(test_sorting),       cmocka_unit_test(test_rotary),
        cmocka_unit_test(test_fast_reductions), cmocka_unit_test(test_fast_softmax), cmocka_unit_test(test_fast_norms),
        cmocka_unit_test(test_fast_losses),
    };
    cmocka_set_test_filter(getenv("WEFT_TEST_FILTER"));
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
