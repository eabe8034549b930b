/* Kernels of convolutions on parts of tensors, large enough for oneDNN's: against sums in f64. WEFT_TEST_CASES says how
 * many cases of each. */
#include "kernel_support.h"

#include <math.h>
#include <stdio.h>

#include "codelets/convert.h"
#include "codelets/convolution.h"
#include "codelets/cpu/onednn_convolution.h"
#if defined WEFT_HAVE_ONEDNN
#include "codelets/cpu/onednn_versions.h"
#endif

/* ---- parts of tensors ---------------------------------------------------------------------------------- */

/* [samples, channels, rows, columns]: a part, whose samples are in panels, with gaps between rows and columns if it has a halo. */
typedef struct part {
    weft_view view;
    int64_t size[4], first[4], extent[4]; /* of the tensor, and the part in it */
    double *values;                       /* of the tensor */
    char *memory;
    void **panels;
} part;

static int64_t count_of(const int64_t extent[4])
{
    return extent[0] * extent[1] * extent[2] * extent[3];
}

static part make_part(prng *random, weft_dtype dtype, const int64_t size[4], const int64_t first[4],
                      const int64_t extent[4], bool gaps)
{
    part p = { 0 };
    int64_t room[4];
    for (int d = 0; d < 4; d++) {
        p.size[d] = size[d];
        p.first[d] = first[d];
        p.extent[d] = room[d] = extent[d];
        room[d] += gaps && d > 1 ? prng_below(random, 3) : 0;
        p.view.shape[d] = size[d];
        p.view.offset[d] = first[d];
        p.view.extent[d] = extent[d];
    }
    p.view.dtype = dtype;
    p.view.ndim = 4;
    p.view.strides[3] = 1;
    p.view.strides[2] = room[3];
    p.view.strides[1] = room[2] * room[3];
    p.view.strides[0] = p.view.row_elements = room[1] * room[2] * room[3];
    p.view.panel_rows = 1 + prng_below(random, 4);
    size_t row = (size_t)p.view.row_elements * weft_dtype_size(dtype);
    p.values = calloc((size_t)count_of(size) + 1, sizeof(double));
    p.memory = malloc((size_t)extent[0] * row + 1);
    p.panels = calloc((size_t)extent[0] + 1, sizeof(void *));
    assert_non_null(p.values);
    assert_non_null(p.memory);
    assert_non_null(p.panels);
    /* Panels in the reverse order: they do not follow each other. */
    int64_t row_of_part = 0;
    for (int panel = 0; row_of_part < extent[0]; panel++) {
        int64_t place = first[0] + row_of_part, rows = p.view.panel_rows - place % p.view.panel_rows;
        rows = rows < extent[0] - row_of_part ? rows : extent[0] - row_of_part;
        row_of_part += rows;
        p.panels[panel] = p.memory + (size_t)(extent[0] - row_of_part) * row;
    }
    p.view.panels = p.panels;
    return p;
}

static void free_part(part *p)
{
    free(p->values);
    free(p->memory);
    free(p->panels);
}

static char *address(const part *p, const int64_t at[4])
{
    int64_t place = 0;
    for (int d = 1; d < 4; d++) {
        place += (at[d] - p->first[d]) * p->view.strides[d];
    }
    return (char *)weft_view_row(&p->view, at[0] - p->first[0], NULL) +
           (size_t)place * weft_dtype_size(p->view.dtype);
}

static double *value(const part *p, const int64_t at[4])
{
    return &p->values[((at[0] * p->size[1] + at[1]) * p->size[2] + at[2]) * p->size[3] + at[3]];
}

static bool next_index(int64_t at[4], const int64_t first[4], const int64_t extent[4])
{
    for (int d = 3; d >= 0; d--) {
        if (++at[d] < first[d] + extent[d]) {
            return true;
        }
        at[d] = first[d];
    }
    return false;
}

/* Random values, the same in the tensor and its part; outside the part the tensor is 0. */
static void fill(prng *random, part *p)
{
    int64_t at[4];
    memcpy(at, p->first, sizeof at);
    if (count_of(p->extent) == 0) {
        return;
    }
    do {
        float number_here = (float)number(random);
        weft_store(p->view.dtype, address(p, at), 1, WEFT_F32, &number_here, 1);
        *value(p, at) = read_as(p->view.dtype, address(p, at), 0);
    } while (next_index(at, p->first, p->extent));
}

/* ---- a convolution ------------------------------------------------------------------------------------- */

typedef struct problem {
    int64_t stride[2], padding[2], dilation[2], groups, kernel[2];
    part x, weight, y; /* of one task: y's part of rows and columns, x's with its halo */
    double bias[128];
    bool adds;
} problem;

/* Adds each product's share: y from x and weight, or one of the others. sizes: of the sums of absolute values. */
static void add_products(const problem *p, const part *to, double *sums, double *sizes)
{
    int64_t per_group = p->weight.size[1], features = p->y.size[1] / p->groups, y[4];
    memcpy(y, p->y.first, sizeof y);
    do {
        int64_t group = y[1] / features;
        for (int64_t c = 0; c < per_group; c++) {
            for (int64_t i = 0; i < p->kernel[0]; i++) {
                for (int64_t j = 0; j < p->kernel[1]; j++) {
                    const int64_t x[4] = { y[0], group * per_group + c,
                                           y[2] * p->stride[0] - p->padding[0] + i * p->dilation[0],
                                           y[3] * p->stride[1] - p->padding[1] + j * p->dilation[1] };
                    const int64_t w[4] = { y[1], c, i, j };
                    if (x[2] < 0 || x[2] >= p->x.size[2] || x[3] < 0 || x[3] >= p->x.size[3]) {
                        continue;
                    }
                    const part *a = to == &p->x ? &p->y : &p->x, *b = to == &p->weight ? &p->y : &p->weight;
                    double product = *value(a, a == &p->y ? y : x) * *value(b, b == &p->y ? y : w);
                    int64_t place = value(to, to == &p->y ? y : to == &p->x ? x : w) - to->values;
                    sums[place] += product;
                    sizes[place] += fabs(product);
                }
            }
        }
    } while (next_index(y, p->y.first, p->y.extent));
}

/* `before`: what the output had, if the task adds to it. */
static void check(const problem *p, const part *to, const double *before)
{
    size_t count = (size_t)count_of(to->size) + 1;
    double *sums = calloc(count, sizeof *sums), *sizes = calloc(count, sizeof *sizes);
    assert_non_null(sums);
    assert_non_null(sizes);
    add_products(p, to, sums, sizes);
    int64_t at[4];
    memcpy(at, to->first, sizeof at);
    do {
        int64_t place = value(to, at) - to->values;
        double bias = to == &p->y && p->adds ? p->bias[at[1]] : 0, more = before == NULL ? 0 : before[place];
        double got = read_as(WEFT_F32, address(to, at), 0),
               bound = 4e-6 * (sizes[place] + fabs(bias) + fabs(more));
        if (!(fabs(got - sums[place] - bias - more) <= bound)) {
            print_error("[%lld, %lld, %lld, %lld]: %.9g, expected %.9g\n", (long long)at[0], (long long)at[1],
                        (long long)at[2], (long long)at[3], got, sums[place] + bias + more);
            fail();
        }
    } while (next_index(at, to->first, to->extent));
    free(sums);
    free(sizes);
}

enum { RESULT, GRADIENT_OF_X, GRADIENT_OF_WEIGHT, KINDS };

static void write_numbers(const problem *p, int64_t numbers[WEFT_CONVOLUTION_NUMBERS])
{
    for (int d = 0; d < 2; d++) {
        numbers[WEFT_CONVOLUTION_STRIDE + d] = p->stride[d];
        numbers[WEFT_CONVOLUTION_PADDING + d] = p->padding[d];
        numbers[WEFT_CONVOLUTION_DILATION + d] = p->dilation[d];
        numbers[WEFT_CONVOLUTION_TAPS + d] = p->kernel[d];
    }
    numbers[WEFT_CONVOLUTION_GROUPS] = p->groups;
    numbers[WEFT_CONVOLUTION_ADDS] = p->adds;
}

static void run_kernel(const problem *p, int kind, bool first)
{
    static float bias[128];
    void *bias_panel = bias;
    for (int64_t i = 0; i < p->y.size[1]; i++) {
        bias[i] = (float)p->bias[i];
    }
    int64_t numbers[WEFT_CONVOLUTION_NUMBERS];
    write_numbers(p, numbers);
    weft_kernel_error error = { WEFT_OK };
    weft_kernel_call call = {
        .num_outputs = 1, .num_inputs = 2, .first = first, .last = true, .numbers = numbers, .error = &error
    };
    call.output = kind == RESULT ? p->y.view : kind == GRADIENT_OF_X ? p->x.view : p->weight.view;
    call.inputs[0] = kind == RESULT ? p->x.view : p->y.view;
    call.inputs[1] = kind == GRADIENT_OF_WEIGHT ? p->x.view : p->weight.view;
    if (kind == RESULT && p->adds) {
        call.num_inputs = 3;
        call.inputs[2] = (weft_view){ .dtype = WEFT_F32,
                                      .ndim = 1,
                                      .shape = { p->y.size[1] },
                                      .extent = { p->y.size[1] },
                                      .row_elements = 1,
                                      .strides = { 1 },
                                      .panel_rows = p->y.size[1],
                                      .panels = &bias_panel };
    }
    (kind == RESULT          ? weft_kernel_convolution
     : kind == GRADIENT_OF_X ? weft_kernel_convolution_backward_input
                             : weft_kernel_convolution_backward_weight)(&call);
    assert_int_equal(error.status, WEFT_OK);
}

/* ---- random ones --------------------------------------------------------------------------------------- */

/* The part of x that a part of y reads, or all of it. */
static void choose_parts(prng *random, problem *p, const int64_t x[4], const int64_t y[4], int64_t x_first[4],
                         int64_t x_extent[4], int64_t y_first[4], int64_t y_extent[4], bool cut)
{
    for (int d = 0; d < 4; d++) {
        x_first[d] = y_first[d] = 0;
        x_extent[d] = x[d];
        y_extent[d] = y[d];
        if (d < 2 || !cut) {
            continue;
        }
        y_first[d] = prng_below(random, y[d]);
        y_extent[d] = 1 + prng_below(random, y[d] - y_first[d]);
        int64_t reach = p->dilation[d - 2] * (p->kernel[d - 2] - 1),
                low = y_first[d] * p->stride[d - 2] - p->padding[d - 2];
        int64_t high = (y_first[d] + y_extent[d] - 1) * p->stride[d - 2] - p->padding[d - 2] + reach + 1;
        low = low < 0 ? 0 : low < x[d] ? low : x[d] - 1;
        high = high > x[d] ? x[d] : high > low ? high : low + 1;
        x_first[d] = low;
        x_extent[d] = high - low;
    }
}

/* False: no output has these sizes. */
static bool choose(prng *random, problem *p, weft_dtype dtype, int kind)
{
    int64_t per_group, features;
    switch (prng_below(random, 4)) {
    case 0: /* depthwise */
        p->groups = 16 + prng_below(random, 40);
        per_group = features = 1;
        break;
    case 1:
        p->groups = 2;
        per_group = 16 + prng_below(random, 10);
        features = 16 + prng_below(random, 10);
        break;
    default:
        p->groups = 1;
        per_group = 14 + prng_below(random, 40);
        features = 14 + prng_below(random, 40);
    }
    int64_t x[4] = { 1 + prng_below(random, 7), p->groups * per_group },
            y[4] = { x[0], p->groups * features };
    for (int d = 0; d < 2; d++) {
        p->kernel[d] = 1 + prng_below(random, 5);
        p->stride[d] = prng_below(random, 2) ? 1 : 1 + prng_below(random, 3);
        p->padding[d] = prng_below(random, 4);
        p->dilation[d] = prng_below(random, 4) ? 1 : 1 + prng_below(random, 3);
        x[2 + d] = 1 + prng_below(random, 40);
        int64_t span = x[2 + d] + 2 * p->padding[d] - p->dilation[d] * (p->kernel[d] - 1) - 1;
        if (span < 0) {
            return false;
        }
        y[2 + d] = span / p->stride[d] + 1;
    }
    const int64_t w[4] = { y[1], per_group, p->kernel[0], p->kernel[1] };
    int64_t x_first[4], x_extent[4], y_first[4], y_extent[4], w_first[4] = { 0 }, w_extent[4] = { w[0], w[1], w[2], w[3] };
    if (kind == GRADIENT_OF_WEIGHT && prng_below(random, 2)) { /* some features, in groups also whole ones */
        int64_t whole = prng_below(random, 2) ? features : 1;
        w_first[0] = prng_below(random, y[1] / whole) * whole;
        w_extent[0] = (1 + prng_below(random, (y[1] - w_first[0]) / whole)) * whole;
    }
    /* x's gradient has a part of its own, and needs all of y. */
    choose_parts(random, p, x, y, x_first, x_extent, y_first, y_extent,
                 kind != GRADIENT_OF_X && prng_below(random, 2));
    if (kind == GRADIENT_OF_X && prng_below(random, 2)) {
        for (int d = 2; d < 4; d++) {
            x_first[d] = prng_below(random, x[d]);
            x_extent[d] = 1 + prng_below(random, x[d] - x_first[d]);
        }
    }
    p->x = make_part(random, kind == GRADIENT_OF_X ? WEFT_F32 : dtype, x, x_first, x_extent,
                     kind != GRADIENT_OF_X);
    p->y = make_part(random, kind == RESULT ? WEFT_F32 : dtype, y, y_first, y_extent, kind == GRADIENT_OF_X);
    p->weight = make_part(random, kind == GRADIENT_OF_WEIGHT ? WEFT_F32 : dtype, w, w_first, w_extent, false);
    p->adds = kind == RESULT && prng_below(random, 2);
    for (int64_t i = 0; i < y[1]; i++) {
        p->bias[i] = number(random);
    }
    return true;
}

static void convolution_case(prng *random, weft_dtype dtype, int kind)
{
    problem p = { 0 };
    if (!choose(random, &p, dtype, kind)) {
        return;
    }
    part *to = kind == RESULT ? &p.y : kind == GRADIENT_OF_X ? &p.x : &p.weight;
    bool adds_to = kind == GRADIENT_OF_WEIGHT && prng_below(random, 2);
    fill(random, &p.x);
    fill(random, &p.y);
    fill(random, &p.weight);
    size_t bytes = (size_t)(to->extent[0] * to->view.row_elements) * sizeof(float);
    void *before = malloc(bytes + 1), *once = malloc(bytes + 1);
    assert_non_null(before);
    assert_non_null(once);
    memcpy(before, to->memory, bytes);
    run_kernel(&p, kind, !adds_to);
    memcpy(once, to->memory, bytes);
    check(&p, to, adds_to ? to->values : NULL);
    memcpy(to->memory, before, bytes);
    run_kernel(&p, kind, !adds_to);
    assert_memory_equal(once, to->memory, bytes);
    free(before);
    free(once);
    free_part(&p.x);
    free_part(&p.y);
    free_part(&p.weight);
}

static void run_cases(weft_dtype dtype, int kind)
{
    prng random = prng_start((uint64_t)(7 + kind));
    int cases = cases_to_run(40);
    for (int i = 0; i < cases; i++) {
        convolution_case(&random, dtype, kind);
    }
}

/* Samples that are computed in several turns, because they do not fit into the memory for one. */
static void many_samples(void **state)
{
    (void)state;
    prng random = prng_start(19);
    const int64_t x[4] = { 48, 16, 40, 40 }, w[4] = { 16, 16, 3, 1 }, zero[4] = { 0 };
    for (int kind = 0; kind < KINDS; kind++) {
        problem p = { .stride = { 1, 1 }, .padding = { 1, 0 }, .dilation = { 1, 1 }, .groups = 1, .kernel = { 3, 1 } };
        p.x = make_part(&random, WEFT_F32, x, zero, x, false);
        p.y = make_part(&random, WEFT_F32, x, zero, x, false);
        p.weight = make_part(&random, WEFT_F32, w, zero, w, false);
        fill(&random, &p.x);
        fill(&random, &p.y);
        fill(&random, &p.weight);
        run_kernel(&p, kind, true);
        check(&p, kind == RESULT ? &p.y : kind == GRADIENT_OF_X ? &p.x : &p.weight, NULL);
        free_part(&p.x);
        free_part(&p.y);
        free_part(&p.weight);
    }
}

static void results(void **state)
{
    (void)state;
    run_cases(WEFT_F32, RESULT);
    run_cases(WEFT_BF16, RESULT);
}

static void gradients_of_x(void **state)
{
    (void)state;
    run_cases(WEFT_F32, GRADIENT_OF_X);
    run_cases(WEFT_BF16, GRADIENT_OF_X);
}

static void gradients_of_weights(void **state)
{
    (void)state;
    run_cases(WEFT_F32, GRADIENT_OF_WEIGHT);
    run_cases(WEFT_BF16, GRADIENT_OF_WEIGHT);
}

/* Whether oneDNN is given one of a few channels more than its vectors have. */
static bool is_given(prng *random, weft_dtype dtype, int kind)
{
    const int64_t x[4] = { 4, 20, 14, 14 }, y[4] = { 4, 24, 14, 14 }, zero[4] = { 0 };
    problem p = {
        .stride = { 1, 1 }, .padding = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1, .kernel = { 3, 3 }
    };
    p.x = make_part(random, kind == GRADIENT_OF_X ? WEFT_F32 : dtype, x, zero, x, false);
    p.y = make_part(random, kind == RESULT ? WEFT_F32 : dtype, y, zero, y, false);
    fill(random, &p.x);
    fill(random, &p.y);
    static float weight[24 * 20 * 3 * 3];
    weft_image x_image = weft_image_of(&p.x.view), y_image = weft_image_of(&p.y.view),
               w_image = { .extent = { 24, 20, 3, 3 } };
    int64_t numbers[WEFT_CONVOLUTION_NUMBERS];
    write_numbers(&p, numbers);
    weft_geometry g = weft_geometry_of(numbers, WEFT_F32, &w_image, 20, 24);
    const weft_convolution_task task = {
        .geometry = &g, .x = &x_image, .y = &y_image, .groups = 1, .weight = weight, .sums = weight
    };
    bool done = kind == RESULT          ? weft_onednn_convolve(&task)
                : kind == GRADIENT_OF_X ? weft_onednn_convolve_backward_input(&task)
                                        : weft_onednn_convolve_backward_weight(&task);
    free_part(&p.x);
    free_part(&p.y);
    return done;
}

/* Where oneDNN is, they are its if the processor has instructions for them, and it is not kept from these. */
static void given(void **state)
{
    (void)state;
    prng random = prng_start(3);
    for (int kind = 0; kind < KINDS; kind++) {
        bool f32 = is_given(&random, WEFT_F32, kind), bf16 = is_given(&random, WEFT_BF16, kind);
#if defined WEFT_HAVE_ONEDNN && defined __x86_64__
        __builtin_cpu_init();
        bool limited = getenv("ONEDNN_MAX_CPU_ISA") != NULL || getenv("DNNL_MAX_CPU_ISA") != NULL || !weft_dnnl_has_one_thread();
        assert_true(limited || !__builtin_cpu_supports("avx2") || f32);
        assert_true(limited || !__builtin_cpu_supports("avx512bw") || bf16);
#else
        assert_false(f32);
        assert_false(bf16);
#endif
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results),
        cmocka_unit_test(gradients_of_x),
        cmocka_unit_test(gradients_of_weights),
        cmocka_unit_test(many_samples),
        cmocka_unit_test(given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
