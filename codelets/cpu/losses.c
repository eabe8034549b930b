#include "codelets/losses.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cpu/clones.h"
#include "codelets/convert.h"
#include "codelets/functions.h"
#include "codelets/cpu/line_sums.h"
#include "codelets/cpu/vectors.h"

/* ---- targets ------------------------------------------------------------------------------------------- */

enum { NO_CLASS = -1 };

/* The class of a target, or NO_CLASS. */
static int64_t class_of(const weft_kernel_call *call, const weft_view *targets, int64_t target, bool reports)
{
    int64_t classes = call->numbers[WEFT_LOSS_CLASSES];
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

static int64_t target_of(const weft_kernel_call *call, const weft_view *targets, int64_t row, bool reports)
{
    return class_of(call, targets, weft_view_whole(targets, row), reports);
}

/* The optional input `part`, or NULL. */
static const weft_view *part_of(const weft_kernel_call *call, int64_t part)
{
    static const int64_t order[] = { WEFT_LOSS_HAS_STATISTICS, WEFT_LOSS_HAS_MEAN, WEFT_LOSS_HAS_LOG_SUMS,
                                     WEFT_LOSS_HAS_GRADIENT, WEFT_LOSS_HAS_COUNT };
    if (!(call->numbers[WEFT_LOSS_PARTS] & part)) {
        return NULL;
    }
    int place = 2;
    for (int i = 0; order[i] != part; i++) {
        bool there = call->numbers[WEFT_LOSS_PARTS] & order[i];
        place += !there ? 0 : order[i] == WEFT_LOSS_HAS_STATISTICS ? 2 : 1;
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

/* ---- cross-entropy ------------------------------------------------------------------------------------- */

/* Rows whose targets, losses and log-sums are loaded and stored at a time. */
enum { ROWS = 64 };

typedef struct row_values {
    int64_t first, count, targets[ROWS]; /* targets: classes, or NO_CLASS */
    double most[ROWS], sums[ROWS]; /* of the rows, of e^(logit - most) */
    double wanted[ROWS], totals[ROWS]; /* the target's logit; the sum of all of them, where labels are smoothed */
    double losses[ROWS], log_sums[ROWS];
} row_values;

static double value_at(weft_dtype type, const void *line, int64_t i)
{
    return type == WEFT_F64 ? ((const double *)line)[i] : (double)((const float *)line)[i];
}

/* From whole rows. `buffer`: for one of them. */
static void find_rows(const weft_kernel_call *call, const weft_vectors *lines, row_values *rows, void *buffer)
{
    weft_dtype type = weft_float_arithmetic(lines->view->dtype);
    bool smoothes = call->scalars[WEFT_LOSS_SMOOTHING] != 0, asked = call->num_outputs > 1;
    int64_t n = lines->length;
    for (int64_t r = 0; r < rows->count; r++) {
        int64_t target = rows->targets[r];
        if (target == NO_CLASS && !asked) {
            continue;
        }
        const void *line = weft_vector_load(lines, type, rows->first + r, buffer);
        rows->most[r] = weft_line_max(type, line, n);
        rows->sums[r] = weft_line_sum_exp_short(type, line, rows->most[r], n);
        rows->wanted[r] = target == NO_CLASS ? 0 : value_at(type, line, target);
        rows->totals[r] = smoothes ? weft_line_sum(type, line, n) : 0;
    }
}

/* From what was found of sharded rows. */
static void load_rows(const weft_kernel_call *call, row_values *rows)
{
    const weft_view *statistics = part_of(call, WEFT_LOSS_HAS_STATISTICS), *mean = part_of(call, WEFT_LOSS_HAS_MEAN);
    weft_view_load_part(&call->inputs[0], WEFT_F64, rows->first, rows->count, rows->wanted);
    weft_view_load_part(&statistics[0], WEFT_F64, rows->first, rows->count, rows->most);
    weft_view_load_part(&statistics[1], WEFT_F64, rows->first, rows->count, rows->sums);
    if (mean != NULL) {
        weft_view_load_part(mean, WEFT_F64, rows->first, rows->count, rows->totals);
    }
}

/* log(sum(exp(row))) - (1 - smoothing) row[target] - smoothing mean(row), relative to the row's maximum. */
static void combine(const weft_kernel_call *call, double scale, row_values *rows)
{
    double smoothing = call->scalars[WEFT_LOSS_SMOOTHING], classes = (double)call->numbers[WEFT_LOSS_CLASSES];
    bool asked = call->num_outputs > 1;
    for (int64_t r = 0; r < rows->count; r++) {
        bool counts = rows->targets[r] != NO_CLASS;
        double most = rows->most[r], logarithm = counts || asked ? log(rows->sums[r]) : 0;
        double loss = logarithm - (1 - smoothing) * (rows->wanted[r] - most);
        loss -= smoothing == 0 ? 0 : smoothing * (rows->totals[r] / classes - most);
        rows->losses[r] = scale * (counts ? loss : 0); /* NaN where no row counts in a mean */
        rows->log_sums[r] = most == -INFINITY ? most : most + logarithm;
    }
}

void weft_kernel_cross_entropy(const weft_kernel_call *call)
{
    const weft_view *targets = &call->inputs[1];
    bool parts = call->numbers[WEFT_LOSS_PARTS] & WEFT_LOSS_HAS_STATISTICS;
    weft_vectors lines = weft_vectors_along(&call->inputs[0], 1, 1);
    double scale = scale_of(call);
    void *line = malloc((size_t)lines.length * sizeof(double) + 1);
    row_values rows = { .most = { 0 } };
    if (line == NULL) {
        weft_kernel_lacks_memory(call, WEFT_PROBLEM_ROW, 0);
        return;
    }
    for (int64_t count = weft_view_rows(targets); rows.first < count; rows.first += ROWS) {
        rows.count = count - rows.first < ROWS ? count - rows.first : ROWS;
        weft_view_load_part(targets, WEFT_I64, rows.first, rows.count, rows.targets);
        for (int64_t r = 0; r < rows.count; r++) {
            rows.targets[r] = class_of(call, targets, rows.targets[r], !parts);
        }
        if (parts) {
            load_rows(call, &rows);
        } else {
            find_rows(call, &lines, &rows, line);
        }
        combine(call, scale, &rows);
        weft_view_store_part(&call->output, WEFT_F64, rows.first, rows.count, rows.losses);
        if (call->num_outputs > 1) {
            weft_view_store_part(&call->outputs[1], WEFT_F64, rows.first, rows.count, rows.log_sums);
        }
    }
    free(line);
}

/* ---- values of targets --------------------------------------------------------------------------------- */

static double value_of_target(const weft_kernel_call *call, int64_t row)
{
    const weft_view *values = &call->inputs[0];
    bool reports = values->offset[1] == 0 && (values->extent[1] > 0 || values->shape[1] == 0);
    int64_t column = target_of(call, &call->inputs[1], row, reports) - values->offset[1];
    return column >= 0 && column < values->extent[1]
               ? weft_view_value(values, row * values->extent[1] + column)
               : 0;
}

/* Summed, or one for each row. */
void weft_kernel_pick(const weft_kernel_call *call)
{
    double scale = scale_of(call), total = 0;
    bool adds = call->output.ndim == 0;
    for (int64_t row = 0, rows = weft_view_rows(&call->inputs[1]); row < rows; row++) {
        double value = value_of_target(call, row);
        total += adds ? value : 0;
        if (!adds) {
            weft_view_set(&call->output, row, scale * value);
        }
    }
    if (adds) {
        weft_view_set(&call->output, 0,
                      (call->first ? 0 : weft_view_value(&call->output, 0)) + scale * total);
    }
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

/* values = factor (values / sum - spread). Or, of logits: factor e^(logit - log_sum) - spread. */
#define SCALE_EXPONENTIALS(T, exponential)                                                                   \
    WEFT_CLONES static void scale_##T(T *values, T factor, T inverse, T spread, int64_t n)                   \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            values[i] = factor * (values[i] * inverse - spread);                                             \
        }                                                                                                    \
    }                                                                                                        \
    WEFT_CLONES static void softmax_##T(T *out, const T *logits, T log_sum, T factor, T spread, int64_t n)   \
    {                                                                                                        \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            out[i] = factor * exponential(logits[i] - log_sum) - spread;                                     \
        }                                                                                                    \
    }
SCALE_EXPONENTIALS(float, weft_exp_short_f32)
SCALE_EXPONENTIALS(double, weft_exp_f64)

/* A row's logits, or this rank's part of them, and what their gradient is computed from. */
typedef struct gradient_row {
    weft_dtype type;
    const void *logits;
    void *out;
    int64_t count;
    double factor;  /* the gradient by the row's loss */
    int64_t target; /* in this part; else out of its range */
} gradient_row;

static void put_value(weft_dtype type, void *line, int64_t i, double value)
{
    if (type == WEFT_F64) {
        ((double *)line)[i] = value;
    } else {
        ((float *)line)[i] = (float)value;
    }
}

/* The probability of the target, which gets its own gradient: in double precision, because most of it may be 1. */
static void put_target(const gradient_row *row, double probability, double smoothing, double spread)
{
    put_value(row->type, row->out, row->target, row->factor * (probability - spread - (1 - smoothing)));
}

static bool has_target(const gradient_row *row)
{
    return row->target >= 0 && row->target < row->count;
}

/* An infinite factor is multiplied by differences: the difference of its products would be NaN. */
static bool serves(weft_dtype type, double factor, double log_sum)
{
    return (type == WEFT_F64 ? isfinite(factor) && fabs(log_sum) <= WEFT_LOSS_MAX_LOG_SUM_F64
                             : isfinite((float)factor) && fabs(log_sum) <= WEFT_LOSS_MAX_LOG_SUM_F32);
}

static void backward_of_log_sum(const weft_kernel_call *call, const gradient_row *row, double log_sum)
{
    double smoothing = call->scalars[WEFT_LOSS_SMOOTHING], spread = smoothing / (double)call->numbers[WEFT_LOSS_CLASSES];
    double wanted = has_target(row) ? value_at(row->type, row->logits, row->target) : 0;
    double rest = row->factor * spread;
    if (row->type == WEFT_F64) {
        softmax_double(row->out, row->logits, log_sum, row->factor, rest, row->count);
    } else {
        float high = (float)log_sum; /* its low bits count in the factor */
        float factor = (float)(row->factor * exp((double)high - log_sum));
        softmax_float(row->out, row->logits, high, factor, (float)rest, row->count);
    }
    if (has_target(row)) {
        put_target(row, exp(wanted - log_sum), smoothing, spread);
    }
}

/* `statistics`: of the whole row, whose parts are on several ranks; NULL: the row has one part. */
static void backward_line(const weft_kernel_call *call, const gradient_row *row, const weft_view *statistics,
                          int64_t number)
{
    double smoothing = call->scalars[WEFT_LOSS_SMOOTHING], spread = smoothing / (double)call->numbers[WEFT_LOSS_CLASSES];
    double wanted = has_target(row) ? value_at(row->type, row->logits, row->target) : 0, most, sum;
    if (statistics != NULL) {
        most = weft_view_value(&statistics[0], number);
        sum = weft_view_value(&statistics[1], number);
        weft_line_exp(row->type, row->out, row->logits, most, row->count);
    } else {
        most = weft_line_max(row->type, row->logits, row->count);
        sum = weft_line_exp_below_and_sum(row->type, row->out, row->logits, most, row->count);
    }
    if (row->type == WEFT_F64) {
        scale_double(row->out, row->factor, 1 / sum, spread, row->count);
    } else {
        scale_float(row->out, (float)row->factor, (float)(1 / sum), (float)spread, row->count);
    }
    if (has_target(row)) {
        put_target(row, exp(wanted - most) / sum, smoothing, spread);
    }
}

/* The rows from `first` on. */
typedef struct gradient_rows {
    int64_t targets[ROWS];
    double gradients[ROWS], log_sums[ROWS];
} gradient_rows;

static void load_gradient_rows(const weft_kernel_call *call, int64_t first, int64_t count, gradient_rows *rows)
{
    const weft_view *gradient = part_of(call, WEFT_LOSS_HAS_GRADIENT), *log_sums = part_of(call, WEFT_LOSS_HAS_LOG_SUMS);
    weft_view_load_part(&call->inputs[1], WEFT_I64, first, count, rows->targets);
    if (gradient != NULL && gradient->ndim > 0) {
        weft_view_load_part(gradient, WEFT_F64, first, count, rows->gradients);
    } else {
        double same = gradient_of(gradient, 0);
        for (int64_t r = 0; r < count; r++) {
            rows->gradients[r] = same;
        }
    }
    if (log_sums != NULL) {
        weft_view_load_part(log_sums, WEFT_F64, first, count, rows->log_sums);
    }
}

void weft_kernel_cross_entropy_backward(const weft_kernel_call *call)
{
    const weft_view *logits = &call->inputs[0], *targets = &call->inputs[1];
    const weft_view *statistics = part_of(call, WEFT_LOSS_HAS_STATISTICS);
    bool has_log_sums = part_of(call, WEFT_LOSS_HAS_LOG_SUMS) != NULL, reports = logits->offset[1] == 0;
    weft_dtype type = weft_float_arithmetic(logits->dtype);
    weft_vectors in = weft_vectors_along(logits, 1, 1), out = weft_vectors_along(&call->output, 1, 1);
    size_t line = (size_t)in.length * weft_dtype_size(type);
    char *memory = malloc(2 * line + 1);
    if (memory == NULL) {
        weft_kernel_lacks_memory(call, WEFT_PROBLEM_ROW, 0);
        return;
    }
    double scale = scale_of(call);
    gradient_rows rows;
    for (int64_t v = 0; v < out.count; v++) {
        int64_t r = v % ROWS;
        if (r == 0) {
            load_gradient_rows(call, v, out.count - v < ROWS ? out.count - v : ROWS, &rows);
        }
        int64_t target = class_of(call, targets, rows.targets[r], reports);
        gradient_row row = { .type = type,
                             .out = weft_vector_target(&out, type, v, memory + line),
                             .count = in.length,
                             .factor = scale * rows.gradients[r],
                             .target = target - logits->offset[1] };
        if (target == NO_CLASS) {
            memset(row.out, 0, line);
        } else {
            row.logits = weft_vector_load(&in, type, v, memory);
            if (has_log_sums && serves(type, row.factor, rows.log_sums[r])) {
                backward_of_log_sum(call, &row, rows.log_sums[r]);
            } else {
                backward_line(call, &row, statistics, v);
            }
        }
        weft_vector_store(&out, type, v, row.out);
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
