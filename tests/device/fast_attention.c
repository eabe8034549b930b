#include "fast_attention.h"

#include <stdlib.h>

#include "codelets/attention.h"
#include "codelets/cuda/dnn.h"
#include "codelets/half.h"
#include "codelets/kernel.h"
#include "device_support.h"

/* Batch [batch, groups, shared] of q: 0 or 1 leave dimensions out. */
typedef struct sizes {
    weft_dtype type;
    int64_t batch, groups, shared, rows, keys, depth, width;
    bool causal, stores; /* stores: log-sums */
    int64_t first_row, panel_rows;
} sizes;

enum { OUTPUT, LOG_SUMS, Q, K, V, OPERANDS, PANELS = 64 };

/* Operands here and on the device. */
typedef struct fast_case {
    sizes of;
    weft_kernel_args *args;
    weft_task_run run;
    weft_cuda_queue queue;
    void *panels[PANELS];
    int num_panels;
    void *device[OPERANDS], *host[OPERANDS];
    size_t bytes[OPERANDS];
    double *values[OPERANDS]; /* of inputs, and expected ones */
} fast_case;

static int64_t count_of(const fast_case *c, int k)
{
    const sizes *s = &c->of;
    int64_t groups = s->batch * s->groups, heads = groups * s->shared;
    const int64_t counts[] = { heads * s->rows * s->width, heads * s->rows, heads * s->rows * s->depth, groups * s->keys * s->depth,
                               groups * s->keys * s->width };
    return counts[k];
}

static weft_dtype type_of(const fast_case *c, int k)
{
    return k == LOG_SUMS ? WEFT_F32 : c->of.type;
}

static double as_double(weft_dtype type, const void *from, int64_t i)
{
    return (double)(type == WEFT_F32    ? ((const float *)from)[i]
                    : type == WEFT_BF16 ? weft_bf16_to_f32(((const uint16_t *)from)[i])
                                        : weft_f16_to_f32(((const uint16_t *)from)[i]));
}

/* ---- operands ------------------------------------------------------------------------------------------ */

/* Panels lie 1 KB apart. */
static void place_operand(fast_case *c, int number, int k)
{
    weft_kernel_operand *operand = &c->args->operands[number];
    const sizes *s = &c->of;
    const int64_t rows = k == K || k == V ? s->keys : s->rows, columns = k == OUTPUT || k == V ? s->width : s->depth;
    const int64_t all[] = { s->batch, s->groups, k == K || k == V ? 1 : s->shared, rows, columns };
    const bool left_out[] = { s->batch == 1 && s->groups == 1 && s->shared == 1, s->groups == 1 && s->shared == 1, s->shared == 1, false, k == LOG_SUMS };
    int64_t row_elements = 1;
    *operand = (weft_kernel_operand){ .dtype = type_of(c, k), .first_panel = c->num_panels, .panel_rows = s->panel_rows };
    for (int d = 0; d < 5; d++) {
        if (!left_out[d]) {
            const bool shifts = d == 3 && k != K && k != V;
            operand->offset[operand->ndim] = shifts ? s->first_row : 0;
            operand->extent[operand->ndim] = all[d];
            operand->shape[operand->ndim++] = all[d] + (shifts ? s->first_row : 0);
        }
    }
    for (int d = 1; d < operand->ndim; d++) {
        row_elements *= operand->extent[d];
    }
    operand->panel_rows = operand->ndim == 2 && k != LOG_SUMS ? 1 << 20 : operand->panel_rows;
    const size_t row_bytes = (size_t)row_elements * weft_dtype_size(operand->dtype), apart = 1024;
    const int64_t of_panel = operand->panel_rows < operand->extent[0] ? operand->panel_rows : operand->extent[0];
    for (int64_t row = 0; row < operand->extent[0]; row += of_panel) {
        assert_true(c->num_panels < PANELS);
        c->panels[c->num_panels++] = (char *)c->device[k] + (size_t)(row / of_panel) * ((size_t)of_panel * row_bytes + apart) / 16 * 16;
        operand->num_panels++;
    }
}

/* Whether panels are parts of the tensor without gaps: then one copy moves all. */
static void copy_operand(fast_case *c, int k, bool to_device)
{
    int number = k >= Q ? c->args->num_outputs + k - Q : k;
    const weft_kernel_operand *operand = &c->args->operands[number];
    size_t panel = c->bytes[k] / (size_t)operand->extent[0] * (size_t)(operand->panel_rows < operand->extent[0] ? operand->panel_rows : operand->extent[0]);
    for (int i = 0; i < operand->num_panels; i++) {
        size_t at = (size_t)i * panel, bytes = at + panel <= c->bytes[k] ? panel : c->bytes[k] - at;
        void *here = (char *)c->host[k] + at, *there = c->panels[operand->first_panel + i];
        assert_int_equal(cudaMemcpyAsync(to_device ? there : here, to_device ? here : there, bytes,
                                         to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, memory.stream),
                         cudaSuccess);
    }
}

static void begin(fast_case *c, const sizes *of)
{
    memset(c, 0, sizeof(*c));
    c->of = *of;
    c->args = calloc(1, weft_kernel_args_size(OPERANDS, 0));
    c->queue = (weft_cuda_queue){ .stream = memory.stream, .fast = true };
    c->args->num_outputs = of->stores ? 2 : 1;
    c->args->num_inputs = 3;
    c->args->first = true;
    c->args->base.dtype = of->type;
    c->args->numbers[WEFT_ATTENTION_CAUSAL] = of->causal;
    c->args->numbers[WEFT_ATTENTION_PARTS] = WEFT_ATTENTION_HAS_V;
    for (int k = 0, number = 0; k < OPERANDS; k++) {
        const int64_t count = count_of(c, k);
        const size_t size = weft_dtype_size(type_of(c, k));
        c->bytes[k] = (size_t)count * size;
        c->host[k] = malloc(c->bytes[k]);
        c->values[k] = malloc((size_t)count * sizeof(double));
        assert_int_equal(cudaMalloc(&c->device[k], c->bytes[k] + 1024 * PANELS), cudaSuccess);
        for (int64_t i = 0; i < count && k >= Q; i++) {
            float value = (float)below(4001) / 1000 - 2;
            uint16_t half = of->type == WEFT_BF16 ? weft_f32_to_bf16(value) : weft_f32_to_f16(value);
            memcpy((char *)c->host[k] + (size_t)i * size, &half, size);
            c->values[k][i] = as_double(of->type, c->host[k], i);
        }
        if (k != LOG_SUMS || of->stores) {
            place_operand(c, number++, k);
        }
        if (k >= Q) {
            copy_operand(c, k, true);
        }
    }
    c->run = (weft_task_run){ .kernel = WEFT_KERNEL_attention, .arguments = c->args, .num_operands = c->num_panels, .operands = c->panels,
                              .function = "test", .cpu = &weft_cpu_kernels[WEFT_KERNEL_attention] };
    c->run.scalars[0] = 1 / sqrt((double)of->depth);
}

static void end(fast_case *c)
{
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    weft_cuda_queue_free(&c->queue);
    for (int k = 0; k < OPERANDS; k++) {
        free(c->host[k]);
        free(c->values[k]);
        assert_int_equal(cudaFree(c->device[k]), cudaSuccess);
    }
    free(c->args);
}

/* ---- expected values ----------------------------------------------------------------------------------- */

static void expect_row(const fast_case *c, int64_t head, int64_t row, double *weights)
{
    const sizes *s = &c->of;
    const double *q = c->values[Q] + (head * s->rows + row) * s->depth, *k = c->values[K] + head / s->shared * s->keys * s->depth;
    const double *v = c->values[V] + head / s->shared * s->keys * s->width;
    double *result = c->values[OUTPUT] + (head * s->rows + row) * s->width, largest = -INFINITY, sum = 0;
    int64_t keys = s->causal && s->first_row + row + 1 < s->keys ? s->first_row + row + 1 : s->keys;
    for (int64_t x = 0; x < keys; x++) {
        weights[x] = 0;
        for (int64_t i = 0; i < s->depth; i++) {
            weights[x] += q[i] * k[x * s->depth + i];
        }
        weights[x] *= c->run.scalars[0];
        largest = weights[x] > largest ? weights[x] : largest;
    }
    memset(result, 0, (size_t)s->width * sizeof(double));
    for (int64_t x = 0; x < keys; x++) {
        double weight = exp(weights[x] - largest);
        sum += weight;
        for (int64_t i = 0; i < s->width; i++) {
            result[i] += weight * v[x * s->width + i];
        }
    }
    for (int64_t i = 0; i < s->width; i++) {
        result[i] /= sum;
    }
    c->values[LOG_SUMS][head * s->rows + row] = largest + log(sum);
}

static void expect(const fast_case *c)
{
    const sizes *s = &c->of;
    double *weights = malloc((size_t)s->keys * sizeof(double));
    for (int64_t head = 0; head < s->batch * s->groups * s->shared; head++) {
        for (int64_t row = 0; row < s->rows; row++) {
            expect_row(c, head, row, weights);
        }
    }
    free(weights);
}

static void compare_output(const fast_case *c, int k, double share)
{
    const sizes *s = &c->of;
    double largest = 0;
    for (int64_t i = 0; i < count_of(c, k); i++) {
        largest = fmax(largest, fabs(c->values[k][i]));
    }
    for (int64_t i = 0; i < count_of(c, k); i++) {
        double got = as_double(type_of(c, k), c->host[k], i);
        if (!(fabs(got - c->values[k][i]) <= share * largest)) {
            fail_msg("%s, %lld x %lld x %lld heads, %lld rows, %lld keys, %lld and %lld columns%s: %s %lld is %.7g, expected %.7g within %.3g",
                     weft_dtype_name(s->type), (long long)s->batch, (long long)s->groups, (long long)s->shared, (long long)s->rows,
                     (long long)s->keys, (long long)s->depth, (long long)s->width, s->causal ? ", causal" : "",
                     k == OUTPUT ? "element" : "log-sum", (long long)i, got, c->values[k][i], share * largest);
        }
    }
}

/* ---- running ------------------------------------------------------------------------------------------- */

/* Runs it, and fetches the outputs. Returns whether cuDNN computed it: weft launched no kernel of its own. */
static bool run_once(fast_case *c)
{
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    int64_t before = launches_so_far();
    for (int k = 0; k < Q; k++) {
        assert_int_equal(cudaMemsetAsync(c->device[k], 0xff, c->bytes[k], memory.stream), cudaSuccess);
    }
    assert_int_equal(weft_cuda_kernels[WEFT_KERNEL_attention](&c->run, &c->queue), 0);
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    bool by_dnn = launches_so_far() == before;
    for (int k = 0; k < c->args->num_outputs; k++) {
        memset(c->host[k], 0, c->bytes[k]);
        copy_operand(c, k, false);
    }
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    return by_dnn;
}

/* Compares with double precision. Weights and results are rounded to 16 bits. */
static void check(fast_case *c)
{
    compare_output(c, OUTPUT, c->of.type == WEFT_BF16 ? 0x1.8p-8 : 0x1p-9);
    if (c->of.stores) {
        compare_output(c, LOG_SUMS, 1e-4);
    }
}

static bool has_dnn(void)
{
    char text[200];
    weft_dnn_describe(text, sizeof(text));
    if (strncmp(text, "not used", 8) == 0) {
        printf("# cuDNN is %s\n", text);
        return false;
    }
    return true;
}

static void check_by_dnn(const sizes *of)
{
    fast_case c;
    begin(&c, of);
    bool by_dnn = run_once(&c);
    if (!by_dnn) {
        fail_msg("cuDNN did not compute %lld x %lld x %lld heads, %lld rows, %lld keys, %lld and %lld columns%s", (long long)of->batch,
                 (long long)of->groups, (long long)of->shared, (long long)of->rows, (long long)of->keys, (long long)of->depth,
                 (long long)of->width, of->causal ? ", causal" : "");
    }
    expect(&c);
    check(&c);
    void *first = malloc(c.bytes[OUTPUT]);
    memcpy(first, c.host[OUTPUT], c.bytes[OUTPUT]);
    assert_true(run_once(&c));
    assert_memory_equal(first, c.host[OUTPUT], c.bytes[OUTPUT]);
    free(first);
    end(&c);
}

/* Each has 65,536 scores at least: fewer are left to weft's own kernel. */
static const sizes some[] = {
    { WEFT_BF16, 1, 1, 1, 256, 256, 64, 64, true, false, 0, 1 },    /* no batch */
    { WEFT_F16, 1, 4, 1, 128, 128, 64, 64, false, true, 0, 3 },     /* panels of 3 and 1 heads */
    { WEFT_BF16, 3, 2, 1, 77, 150, 32, 40, true, true, 0, 2 },      /* odd sizes; panels of 2 and 1 */
    { WEFT_BF16, 2, 2, 3, 77, 77, 40, 32, true, true, 0, 1 },       /* shared heads */
    { WEFT_F16, 1, 1, 12, 77, 77, 8, 16, false, true, 0, 8 },       /* one head of keys for all */
    { WEFT_BF16, 1, 2, 1, 130, 260, 128, 128, true, true, 100, 8 }, /* rows from 100 on */
    { WEFT_BF16, 2, 256, 1, 1, 128, 64, 64, false, true, 0, 8 },    /* one row */
};

#ifdef WEFT_TEST_GPU
static const sizes long_ones[] = {
    { WEFT_BF16, 1, 2, 1, 2047, 2047, 64, 64, true, true, 0, 8 },     { WEFT_F16, 1, 2, 1, 2047, 2047, 64, 64, false, false, 0, 8 },
    { WEFT_BF16, 1, 1, 2, 2047, 2047, 128, 128, true, true, 0, 8 },   { WEFT_F16, 2, 1, 1, 2048, 1024, 32, 32, false, true, 0, 8 },
    { WEFT_BF16, 1, 2, 1, 1, 40000, 128, 128, false, true, 0, 8 },    { WEFT_BF16, 32, 8, 1, 256, 256, 64, 64, true, true, 0, 8 },
    { WEFT_BF16, 1, 16, 1, 2048, 2048, 64, 64, false, true, 0, 8 },
};
#endif

void test_fast_attention(void **state)
{
    (void)state;
    if (!has_dnn()) {
        skip();
    }
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        check_by_dnn(&some[i]);
    }
#ifdef WEFT_TEST_GPU
    for (size_t i = 0; i < sizeof(long_ones) / sizeof(long_ones[0]); i++) {
        check_by_dnn(&long_ones[i]);
    }
#endif
}

/* ---- what cuDNN does not compute ----------------------------------------------------------------------- */

static void check_by_weft(const sizes *of)
{
    fast_case c;
    begin(&c, of);
    assert_false(run_once(&c));
    expect(&c);
    check(&c);
    assert_false(run_once(&c)); /* a refusal that is remembered */
    end(&c);
}

/* All memory of the device is taken. */
static void check_without_memory(const sizes *of)
{
    enum { MOST = 256 };
    void *taken[MOST];
    int count = 0;
    fast_case c;
    begin(&c, of);
    for (size_t bytes = (size_t)1 << 36; bytes >= 4096 && count < MOST;) {
        if (cudaMalloc(&taken[count], bytes) == cudaSuccess) {
            count++;
        } else {
            cudaGetLastError();
            bytes /= 2;
        }
    }
    assert_false(run_once(&c));
    while (count > 0) {
        assert_int_equal(cudaFree(taken[--count]), cudaSuccess);
    }
    expect(&c);
    check(&c);
    end(&c);
}

void test_fast_attention_refused(void **state)
{
    (void)state;
    sizes of = some[1];
    of.rows = 64; /* too few */
    check_by_weft(&of);
    of = some[1];
    of.depth = 60; /* no multiple of 8 */
    check_by_weft(&of);
    of = some[1];
    check_without_memory(&of);
#ifndef WEFT_TEST_GPU
    static const char *const variables[] = { "STAND_IN_NO_CUDNN", "STAND_IN_NO_PLANS", "STAND_IN_FAILING_CUDNN" };
    for (int i = 0; i < 3; i++) {
        setenv(variables[i], "1", 1);
        check_by_weft(&of);
        unsetenv(variables[i]);
    }
#endif
}
