/* Pooling and ranges on the stand-in against those for CPUs: equal bits. Without StarPU. */
#include "codelets/pooling.h"
#include "codelets/pooling_windows.h"
#include "codelets/ranges.h"
#include "view_cases.h"

#define CASES share_of(80)

/* ---- pooling ------------------------------------------------------------------------------------------- */

static weft_pooling_axis any_axis(bool adaptive)
{
    weft_pooling_axis a = { .kernel = adaptive ? 0 : 1 + below(4), .stride = 1 + below(3), .dilation = 1 + below(2) };
    a.padding = adaptive ? 0 : below(a.kernel / 2 + 1);
    a.size = a.dilation * (a.kernel - 1) + 1 + below(6);
    a.size = a.size < 1 ? 1 + below(6) : a.size;
    a.count = adaptive ? 1 + below(5) : (a.size + 2 * a.padding - a.dilation * (a.kernel - 1) - 1) / a.stride + 1;
    return a;
}

/* Sets dimension `dim` to [first, last) of `size`. */
static void set_range(part *of, int dim, int64_t first, int64_t last, int64_t size)
{
    of->shape[dim] = size;
    of->offset[dim] = first;
    of->extent[dim] = last - first;
}

/* Some of the windows, and the elements that they have. */
static void set_forward(const weft_pooling_axis *a, int dim, part *image, part *pooled)
{
    int64_t first = below(a->count), last = first + 1 + below(a->count - first), low = a->size, high = 0;
    for (int64_t i = first; i < last; i++) {
        weft_pooling_range r = weft_pooling_window(a, i);
        low = r.first < low ? r.first : low;
        high = r.last > high ? r.last : high;
    }
    low = low < high ? below(low + 1) : 0;
    set_range(image, dim, low, low < high ? high + below(a->size - high + 1) : 0, a->size);
    set_range(pooled, dim, first, last, a->count);
}

/* Some of the elements, and at least the windows that have them. */
static void set_backward(const weft_pooling_axis *a, int dim, part *image, part *pooled)
{
    int64_t first = below(a->size), last = first + 1 + below(a->size - first), low = a->count, high = 0;
    for (int64_t x = first; x < last; x++) {
        weft_pooling_range r = weft_pooling_windows_with(a, x);
        low = r.first < low ? r.first : low;
        high = r.last > high ? r.last : high;
    }
    low = low < high ? below(low + 1) : 0;
    set_range(image, dim, first, last, a->size);
    set_range(pooled, dim, low, low < high ? high + below(a->count - high + 1) : 0, a->count);
}

/* The last `dims` dimensions of `image` and `pooled` become those of a call. */
static void set_geometry(view_case *c, weft_pooling_axis axes[WEFT_POOLING_AXES], int dims, bool backward, part *image, part *pooled)
{
    int64_t *numbers = c->args->numbers;
    bool adaptive = below(4) == 0;
    for (int d = 0; d < WEFT_POOLING_AXES; d++) {
        int own = image->ndim - WEFT_POOLING_AXES + d;
        weft_pooling_axis a = { .kernel = 1, .stride = 1, .dilation = 1, .size = 1, .count = 1 };
        if (d >= WEFT_POOLING_AXES - dims) {
            a = any_axis(adaptive);
            (backward ? set_backward : set_forward)(&a, own, image, pooled);
        }
        numbers[WEFT_POOLING_KERNEL + d] = a.kernel;
        numbers[WEFT_POOLING_STRIDE + d] = a.stride;
        numbers[WEFT_POOLING_PADDING + d] = a.padding;
        numbers[WEFT_POOLING_DILATION + d] = a.dilation;
        axes[d] = a;
    }
    numbers[WEFT_POOLING_DIMS] = dims;
    numbers[WEFT_POOLING_DIVISOR] = adaptive ? -1 : below(3) - 1;
}

/* An element of window (at[0], at[1], at[2]), or -1. */
static int64_t any_index(const weft_pooling_axis axes[], const int64_t at[])
{
    int64_t index = 0;
    for (int d = 0; d < WEFT_POOLING_AXES; d++) {
        weft_pooling_range r = weft_pooling_window(&axes[d], at[d]);
        int64_t count = (r.last - r.first + r.step - 1) / r.step;
        if (count <= 0 || below(9) == 0) {
            return -1;
        }
        index = index * axes[d].size + r.first + below(count) * r.step;
    }
    return index;
}

/* Input 1, of a part `of` the windows. */
static void fill_indices(view_case *c, const weft_pooling_axis axes[], int dims, const part *of)
{
    weft_task_run run = { .cpu = &weft_cpu_kernels[c->kernel], .arguments = c->args, .num_operands = c->num_panels, .operands = c->host };
    weft_kernel_call call;
    weft_views_call(&run, &call);
    const weft_view *view = &call.inputs[1];
    for (int64_t row = 0; row < weft_view_rows(view); row++) {
        int64_t *indices = weft_view_row(view, row, NULL);
        for (int64_t i = 0; i < view->row_elements; i++) {
            int64_t at[WEFT_POOLING_AXES] = { 0, 0, 0 }, rest = i;
            for (int d = WEFT_POOLING_AXES - 1, own = of->ndim - 1; d >= WEFT_POOLING_AXES - dims; d--, own--) {
                at[d] = of->offset[own] + rest % of->extent[own];
                rest /= of->extent[own];
            }
            indices[i] = any_index(axes, at);
        }
    }
    send_again(c->args->num_outputs + 1);
}

static void check_pooling(weft_kernel_id kernel, bool backward, bool indices)
{
    view_case c;
    begin_case(&c, kernel);
    int dims = 1 + (int)below(WEFT_POOLING_AXES);
    part image = any_part(dims + 1, dims + 1 + (int)below(2), 3), pooled = image;
    weft_pooling_axis axes[WEFT_POOLING_AXES];
    set_geometry(&c, axes, dims, backward, &image, &pooled);
    weft_dtype type = (weft_dtype)below(WEFT_F16 + 1);
    c.args->first = c.args->last = true;
    add_output(&c, type, backward ? &image : &pooled, false);
    if (kernel == WEFT_KERNEL_max_pool && below(2) == 0) {
        add_output(&c, WEFT_I64, &pooled, false);
    }
    add_input(&c, type, backward ? &pooled : &image, false);
    if (indices) {
        add_input(&c, WEFT_I64, &pooled, false);
        fill_indices(&c, axes, dims, &pooled);
    }
    run_case(&c);
}

static void test_pooling(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        check_pooling(WEFT_KERNEL_max_pool, false, false);
        check_pooling(WEFT_KERNEL_avg_pool, false, false);
        check_pooling(WEFT_KERNEL_max_pool_pick, false, true);
        check_pooling(WEFT_KERNEL_max_pool_backward, true, true);
        check_pooling(WEFT_KERNEL_avg_pool_backward, true, false);
    }
}

/* ---- ranges -------------------------------------------------------------------------------------------- */

static void test_range(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        view_case c;
        begin_case(&c, WEFT_KERNEL_range);
        weft_dtype type = (weft_dtype)below(WEFT_BOOL);
        part of = any_part(1, 1, 700);
        bool floating = type < WEFT_I64;
        c.scalars[WEFT_RANGE_FIRST] = floating ? any_number() : (double)(below(200) - 100);
        c.scalars[WEFT_RANGE_STEP] = floating ? any_number() : (double)(below(20) - 10);
        c.scalars[WEFT_RANGE_LAST] = c.scalars[WEFT_RANGE_FIRST] + c.scalars[WEFT_RANGE_STEP] * (double)of.shape[0];
        c.scalars[WEFT_RANGE_TURN] = (double)(of.shape[0] / 2);
        add_output(&c, type, &of, false);
        run_case(&c);
    }
}

static void test_eye(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        view_case c;
        begin_case(&c, WEFT_KERNEL_eye);
        part of = any_part(2, 2, 40);
        add_output(&c, (weft_dtype)below(REAL_TYPES), &of, false);
        run_case(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pooling),
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_eye),
    };
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
