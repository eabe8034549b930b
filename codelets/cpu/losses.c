#include "codelets/losses.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cpu/clones.h"
#include "codelets/convert.h"
#include "codelets/functions.h"
#include "codelets/cpu/line_sums.h"
#include "codelets/cpu/vectors.h"
#include "codelets/problems.h"

/* ---- targets ------------------------------------------------------------------------------------------- */

enum { NO_CLASS = -1 };

/* The target class of row `row`, or NO_CLASS. */
static int64_t target_of(const weft_kernel_call *call, const weft_view *targets, int64_t row, bool reports)
{
    int64_t target = weft_view_whole(targets, row), classes = call->numbers[WEFT_LOSS_CLASSES];
    if (call->numbers[WEFT_LOSS_IGNORES] && target == call->numbers[WEFT_LOSS_IGNORED]) {
        return NO_CLASS;
    }
    if (target >= 0 && target < classes) {
        return target;
    }
    if (reports) {
        weft_problem_range(call->error, (int)(targets - call->inputs), target, classes - 1);
    }
    return NO_CLASS;
}

/* The optional input `part`, or NULL. */
static const weft_view *part_of(const weft_kernel_call *call, int64_t part)
{
    if (!(call->numbers[WEFT_LOSS_PARTS] & part)) {
        return NULL;
    }
    int place = 2;
    for (int64_t before = 1; before < part; before *= 2) {
        bool there = call->numbers[WEFT_LOSS_PARTS] & before;
        place += !there ? 0 : before == WEFT_LOSS_HAS_STATISTICS ? 2 : 1;
    }
    return &call->inputs[place];
}

/* Factor of a row's loss, or gradient. */
static double scale_of(const weft_kernel_call *call)
{
    const weft_view *count = part_of(call, WEFT_LOSS_HAS_COUNT);
    return count == NULL ? call->scalars[WEFT_LOSS_SCALE]
                         : call->scalars[WEFT_LOSS_SCALE] / weft_view_value(count, 0);
}

static double gradient_of(const weft_view *gradient, int64_t row)
{
    return gradient == NULL ? 1 : weft_view_value(gradient, gradient->ndim == 0 ? 0 : row);
}

/* ---- sums over rows, or one value for each ------------------------------------------------------------- */

/* The loss of a row. */
typedef double (*row_function)(const weft_kernel_call *call, const weft_vectors *lines, int64_t row,
                               void *line);

static void run_rows(const weft_kernel_call *call, row_function function)
{
    const weft_view *values = &call->inputs[0];
    weft_vectors lines = weft_vectors_along(values, 1, 1);
    double scale = scale_of(call), total = 0;
    void *line = malloc((size_t)lines.length * sizeof(double) + 1);
    if (line == NULL) {
        weft_problem_memory(call->error, WEFT_PROBLEM_ROW, 0);
        return;
    }
    bool adds = call->output.ndim == 0;
    int64_t rows = weft_view_rows(&call->inputs[1]);
    for (int64_t row = 0; row < rows; row++) {
        double loss = function(call, &lines, row, line);
        total += adds ? loss : 0;
        if (!adds) {
            weft_view_set(&call->output, row, scale * loss);
        }
    }
    if (adds) {
        weft_view_set(&call->output, 0,
                      (call->first ? 0 : weft_view_value(&call->output, 0)) + scale * total);
    }
    free(line);
}

/* log(sum(exp(row))) - (1 - smoothing) row[target] - smoothing mean(row), relative to the row's maximum. */
static double combine(const weft_kernel_call *call, double most, double sum, double wanted, double total)
{
    double smoothing = call->scalars[WEFT_LOSS_SMOOTHING];
    double loss = log(sum) - (1 - smoothing) * (wanted - most);
    return smoothing == 0 ? loss
                          : loss - smoothing * (total / (double)call->numbers[WEFT_LOSS_CLASSES] - most);
}

static double value_at(weft_dtype type, const void *line, int64_t i)
{
    return type == WEFT_F64 ? ((const double *)line)[i] : (double)((const float *)line)[i];
}

static double loss_of_line(const weft_kernel_call *call, const weft_vectors *lines, int64_t row, void *buffer)
{
    int64_t target = target_of(call, &call->inputs[1], row, true), n = lines->length;
    if (target == NO_CLASS) {
        return 0;
    }
    weft_dtype type = weft_float_arithmetic(lines->view->dtype);
    const void *line = weft_vector_load(lines, type, row, buffer);
    double most = weft_line_max(type, line, n), sum = weft_line_sum_exp_below(type, line, most, n);
    double wanted = value_at(type, line, target);
    double total = call->scalars[WEFT_LOSS_SMOOTHING] == 0 ? 0 : weft_line_sum(type, line, n);
    return combine(call, most, sum, wanted, total);
}

static double loss_of_statistics(const weft_kernel_call *call, const weft_vectors *lines, int64_t row,
                                 void *buffer)
{
    (void)lines, (void)buffer;
    if (target_of(call, &call->inputs[1], row, false) == NO_CLASS) {
        return 0;
    }
    const weft_view *statistics = part_of(call, WEFT_LOSS_HAS_STATISTICS),
                    *mean = part_of(call, WEFT_LOSS_HAS_MEAN);
    return combine(call, weft_view_value(&statistics[0], row), weft_view_value(&statistics[1], row),
                   weft_view_value(&call->inputs[0], row), mean == NULL ? 0 : weft_view_value(mean, row));
}

void weft_kernel_cross_entropy(const weft_kernel_call *call)
{
    bool parts = call->numbers[WEFT_LOSS_PARTS] & WEFT_LOSS_HAS_STATISTICS;
    run_rows(call, parts ? loss_of_statistics : loss_of_line);
}

static double value_of_target(const weft_kernel_call *call, const weft_vectors *lines, int64_t row,
                              void *buffer)
{
    (void)buffer;
    const weft_view *values = lines->view;
    bool reports = values->offset[1] == 0 && (values->extent[1] > 0 || values->shape[1] == 0);
    int64_t column = target_of(call, &call->inputs[1], row, reports) - values->offset[1];
    return column >= 0 && column < values->extent[1]
               ? weft_view_value(values, row * values->extent[1] + column)
               : 0;
}

void weft_kernel_pick(const weft_kernel_call *call)
{
    run_rows(call, value_of_target);
}

void weft_kernel_count_targets(const weft_kernel_call *call)
{
    const weft_view *targets = &call->inputs[0];
    double count = call->first ? 0 : weft_view_value(&call->output, 0);
    for (int64_t row = 0; row < weft_view_rows(targets); row++) {
        count += weft_view_whole(targets, row) != call->numbers[WEFT_LOSS_IGNORED];
    }
    weft_view_set(&call->output, 0, count);
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* values = factor (values / sum - spread). */
#define SCALE_EXPONENTIALS(T)                                                                                \
    WEFT_CLONES static void scale_##T(T *values, T factor, T inverse, T spread, int64_t n)                   \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            values[i] = factor * (values[i] * inverse - spread);                                             \
        }                                                                                                    \
    }
SCALE_EXPONENTIALS(float)
SCALE_EXPONENTIALS(double)

/* The gradient by a row's logits, or by this rank's part of them. `factor`: the gradient by the row's loss.
 * `target`: in this part; else out of its range. `statistics`: of the whole row, whose parts are on several
 * ranks; NULL: the row has one part. */
static void backward_line(const weft_kernel_call *call, weft_dtype type, int64_t row, double factor,
                          int64_t target, const weft_view *statistics, void *out, const void *line, int64_t n)
{
    double smoothing = call->scalars[WEFT_LOSS_SMOOTHING];
    double spread = smoothing / (double)call->numbers[WEFT_LOSS_CLASSES], most, sum;
    bool here = target >= 0 && target < n;
    double wanted = here ? value_at(type, line, target) : 0;
    if (statistics != NULL) {
        most = weft_view_value(&statistics[0], row);
        sum = weft_view_value(&statistics[1], row);
        weft_line_exp(type, out, line, most, n);
    } else {
        most = weft_line_max(type, line, n);
        sum = weft_line_exp_below_and_sum(type, out, line, most, n);
    }
    double own = factor * (exp(wanted - most) / sum - spread - (1 - smoothing));
    if (type == WEFT_F64) {
        double *result = out;
        scale_double(result, factor, 1 / sum, spread, n);
        if (here) {
            result[target] = own;
        }
    } else {
        float *result = out;
        scale_float(result, (float)factor, (float)(1 / sum), (float)spread, n);
        if (here) {
            result[target] = (float)own;
        }
    }
}

void weft_kernel_cross_entropy_backward(const weft_kernel_call *call)
{
    const weft_view *logits = &call->inputs[0], *targets = &call->inputs[1];
    const weft_view *statistics = part_of(call, WEFT_LOSS_HAS_STATISTICS),
                    *gradient = part_of(call, WEFT_LOSS_HAS_GRADIENT);
    weft_dtype type = weft_float_arithmetic(logits->dtype);
    weft_vectors in = weft_vectors_along(logits, 1, 1), out = weft_vectors_along(&call->output, 1, 1);
    size_t line = (size_t)in.length * weft_dtype_size(type);
    char *memory = malloc(2 * line + 1);
    if (memory == NULL) {
        weft_problem_memory(call->error, WEFT_PROBLEM_ROW, 0);
        return;
    }
    double scale = scale_of(call);
    bool reports = logits->offset[1] == 0;
    for (int64_t row = 0; row < out.count; row++) {
        int64_t target = target_of(call, targets, row, reports);
        void *result = weft_vector_target(&out, type, row, memory + line);
        if (target == NO_CLASS) {
            memset(result, 0, line);
        } else {
            const void *values = weft_vector_load(&in, type, row, memory);
            backward_line(call, type, row, scale * gradient_of(gradient, row), target - logits->offset[1],
                          statistics, result, values, in.length);
        }
        weft_vector_store(&out, type, row, result);
    }
    free(memory);
}

void weft_kernel_pick_backward(const weft_kernel_call *call)
{
    const weft_view *out = &call->output, *gradient = part_of(call, WEFT_LOSS_HAS_GRADIENT);
    double scale = scale_of(call);
    int64_t columns = out->extent[1];
    for (int64_t row = 0; row < out->extent[0]; row++) {
        memset(weft_view_row(out, row, NULL), 0, (size_t)columns * weft_dtype_size(out->dtype));
        int64_t target = target_of(call, &call->inputs[1], row, out->offset[1] == 0) - out->offset[1];
        if (target >= 0 && target < columns) {
            weft_view_set(out, row * columns + target, scale * gradient_of(gradient, row));
        }
    }
}

/* ---- distances ----------------------------------------------------------------------------------------- */

enum { BLOCK = 512 };

static double square_distance(const weft_view *a, const weft_view *b)
{
    double total = 0, differences[BLOCK], others[BLOCK];
    for (int64_t row = 0, rows; row < weft_view_rows(a); row += rows) {
        int64_t rows_a, rows_b;
        const char *from_a = weft_view_row(a, row, &rows_a), *from_b = weft_view_row(b, row, &rows_b);
        rows = rows_a < rows_b ? rows_a : rows_b;
        int64_t count = rows * a->row_elements;
        for (int64_t first = 0, n; first < count; first += n) {
            n = count - first < BLOCK ? count - first : BLOCK;
            weft_load(WEFT_F64, differences, a->dtype, from_a + (size_t)first * weft_dtype_size(a->dtype), 1,
                      n);
            weft_load(WEFT_F64, others, b->dtype, from_b + (size_t)first * weft_dtype_size(b->dtype), 1, n);
            for (int64_t i = 0; i < n; i++) {
                differences[i] -= others[i];
            }
            total += weft_line_sum_square(WEFT_F64, differences, 0, n);
        }
    }
    return total;
}

void weft_kernel_sum_square_distance(const weft_kernel_call *call)
{
    double before = call->first ? 0 : weft_view_value(&call->output, 0);
    double sum =
        weft_view_count(&call->inputs[0]) == 0 ? 0 : square_distance(&call->inputs[0], &call->inputs[1]);
    weft_view_set(&call->output, 0, before + call->scalars[0] * sum);
}
