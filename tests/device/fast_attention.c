#include "fast_attention.h"

#include <stdlib.h>

#include "codelets/attention.h"
#include "codelets/cuda/dnn.h"
#include "codelets/half.h"
#include "codelets/kernel.h"
#include "device_support.h"

/* Batch [batch, groups, shared] of q. Dimensions of 1 are left out, but for a batch of 1 where panels have 8 rows. */
typedef struct sizes {
    weft_dtype type;
    int64_t batch, groups, shared, rows, keys, depth, width;
    bool causal, stores; /* stores: log-sums */
    int64_t first_row, panel_rows;
    bool adds;           /* gradients of q, or of k and v, to what is there */
    double of_gradients; /* factor; 0: 1 */
} sizes;

/* Outputs and inputs of the four kernels. */
enum { OUTPUT, LOG_SUMS, OF_Q, OF_K, OF_V, OF_KV, GRADIENT, Q, K, V, STATISTICS, OPERANDS, PANELS = 64 };

static const float before_adding = 0.5f;

/* Operands here and on the device. */
typedef struct fast_case {
    sizes of;
    int number[OPERANDS]; /* of the view; -1: the kernel has none */
    weft_kernel_args *args;
    weft_task_run run;
    weft_cuda_queue queue;
    void *panels[PANELS];
    int num_panels;
    void *device[OPERANDS], *host[OPERANDS];
    size_t bytes[OPERANDS];
    double *values[OPERANDS]; /* of inputs, and expected ones */
} fast_case;

static bool has_keys(int k)
{
    return k == K || k == V || k == OF_K || k == OF_V || k == OF_KV;
}

static int64_t columns_of(const fast_case *c, int k)
{
    const sizes *s = &c->of;
    const int64_t columns[] = { s->width, 1, s->depth, s->depth, s->width, s->depth + s->width, s->width, s->depth, s->depth, s->width, 2 };
    return columns[k];
}

static int64_t rows_of(const fast_case *c, int k)
{
    return has_keys(k) ? c->of.keys : c->of.rows;
}

/* Heads of q for one of an operand. */
static int64_t shared_by(const fast_case *c, int k)
{
    return k == K || k == V ? 1 : c->of.shared;
}

static int64_t count_of(const fast_case *c, int k)
{
    return c->of.batch * c->of.groups * shared_by(c, k) * rows_of(c, k) * columns_of(c, k);
}

static weft_dtype type_of(const fast_case *c, int k)
{
    return k == OUTPUT || k == GRADIENT || k == Q || k == K || k == V ? c->of.type : WEFT_F32;
}

static double as_double(weft_dtype type, const void *from, int64_t i)
{
    return (double)(type == WEFT_F32    ? ((const float *)from)[i]
                    : type == WEFT_BF16 ? weft_bf16_to_f32(((const uint16_t *)from)[i])
                                        : weft_f16_to_f32(((const uint16_t *)from)[i]));
}

/* ---- operands ------------------------------------------------------------------------------------------ */

/* Panels lie 1 KB apart. */
static void place_operand(fast_case *c, int k)
{
    weft_kernel_operand *operand = &c->args->operands[c->number[k]];
    const sizes *s = &c->of;
    const int64_t all[] = { s->batch, s->groups, shared_by(c, k), rows_of(c, k), columns_of(c, k) };
    const bool left_out[] = { s->batch == 1 && (s->panel_rows < 8 || s->groups * s->shared == 1), s->groups == 1 && s->shared == 1, s->shared == 1, false, k == LOG_SUMS };
    int64_t row_elements = 1;
    *operand = (weft_kernel_operand){ .dtype = type_of(c, k), .first_panel = c->num_panels, .panel_rows = s->panel_rows };
    for (int d = 0; d < 5; d++) {
        if (!left_out[d]) {
            const bool shifts = d == 3 && !has_keys(k);
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
    const weft_kernel_operand *operand = &c->args->operands[c->number[k]];
    size_t panel = c->bytes[k] / (size_t)operand->extent[0] * (size_t)(operand->panel_rows < operand->extent[0] ? operand->panel_rows : operand->extent[0]);
    for (int i = 0; i < operand->num_panels; i++) {
        size_t at = (size_t)i * panel, bytes = at + panel <= c->bytes[k] ? panel : c->bytes[k] - at;
        void *here = (char *)c->host[k] + at, *there = c->panels[operand->first_panel + i];
        assert_int_equal(cudaMemcpyAsync(to_device ? there : here, to_device ? here : there, bytes,
                                         to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, memory.stream),
                         cudaSuccess);
    }
}

/* The views of a kernel, in their order. Returns how many are outputs. */
static int list_views(fast_case *c, weft_kernel_id kernel)
{
    static const int forward[] = { OUTPUT, LOG_SUMS, Q, K, V }, backward[] = { GRADIENT, Q, K, V, STATISTICS };
    int used = 0, outputs;
    for (int k = 0; k < OPERANDS; k++) {
        c->number[k] = -1;
    }
    if (kernel == WEFT_KERNEL_attention) {
        for (int i = 0; i < 5; i++) {
            c->number[forward[i]] = forward[i] == LOG_SUMS && !c->of.stores ? -1 : used++;
        }
        return c->of.stores ? 2 : 1;
    }
    if (kernel == WEFT_KERNEL_attention_backward_kv) {
        c->number[OF_KV] = used++;
    } else {
        for (int k = OF_Q; k <= (kernel == WEFT_KERNEL_attention_backward_all ? OF_V : OF_Q); k++) {
            c->number[k] = used++;
        }
    }
    outputs = used;
    for (int i = 0; i < 5; i++) {
        c->number[backward[i]] = used++;
    }
    return outputs;
}

static void expect(const fast_case *c);

static void fill_operand(fast_case *c, int k)
{
    const int64_t count = count_of(c, k);
    const size_t size = weft_dtype_size(type_of(c, k));
    for (int64_t i = 0; i < count; i++) {
        float value = k == STATISTICS ? (float)c->values[k][i] : (float)below(4001) / 1000 - 2;
        value *= k == GRADIENT && c->of.of_gradients != 0 ? (float)c->of.of_gradients : 1.0f;
        uint16_t half = c->of.type == WEFT_BF16 ? weft_f32_to_bf16(value) : weft_f32_to_f16(value);
        memcpy((char *)c->host[k] + (size_t)i * size, size == 4 ? (const void *)&value : (const void *)&half, size);
        c->values[k][i] = as_double(type_of(c, k), c->host[k], i);
    }
}

static void begin(fast_case *c, const sizes *of, weft_kernel_id kernel)
{
    memset(c, 0, sizeof(*c));
    c->of = *of;
    c->args = calloc(1, weft_kernel_args_size(OPERANDS, 0));
    c->queue = (weft_cuda_queue){ .stream = memory.stream, .fast = true };
    c->args->num_outputs = list_views(c, kernel);
    c->args->num_inputs = kernel == WEFT_KERNEL_attention ? 3 : 5;
    c->args->first = true;
    c->args->base.dtype = kernel == WEFT_KERNEL_attention ? of->type : WEFT_F32;
    c->args->numbers[WEFT_ATTENTION_CAUSAL] = of->causal;
    c->args->numbers[WEFT_ATTENTION_PARTS] = WEFT_ATTENTION_HAS_V | WEFT_ATTENTION_HAS_K_GRADIENT | WEFT_ATTENTION_HAS_V_GRADIENT |
                                             (of->adds ? WEFT_ATTENTION_CONTINUES : 0);
    c->run = (weft_task_run){ .kernel = kernel, .arguments = c->args, .operands = c->panels, .function = "test", .cpu = &weft_cpu_kernels[kernel] };
    c->run.scalars[0] = 1 / sqrt((double)of->depth);
    for (int k = 0; k < OPERANDS; k++) {
        c->bytes[k] = (size_t)count_of(c, k) * weft_dtype_size(type_of(c, k));
        c->host[k] = malloc(c->bytes[k]);
        c->values[k] = malloc((size_t)count_of(c, k) * sizeof(double));
        if (k >= GRADIENT && k < STATISTICS) {
            fill_operand(c, k);
        }
    }
    expect(c);
    fill_operand(c, STATISTICS);
    for (int number = 0, k = 0; k < OPERANDS; k = number < c->args->num_outputs + c->args->num_inputs && k + 1 == OPERANDS ? 0 : k + 1) {
        if (c->number[k] == number) { /* panels are in the order of views */
            assert_int_equal(cudaMalloc(&c->device[k], c->bytes[k] + 1024 * PANELS), cudaSuccess);
            place_operand(c, k);
            number++;
        }
    }
    c->run.num_operands = c->num_panels;
    for (int k = GRADIENT; k < OPERANDS; k++) {
        if (c->number[k] >= 0) {
            copy_operand(c, k, true);
        }
    }
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

static int64_t seen(const sizes *s, int64_t row)
{
    return s->causal && s->first_row + row + 1 < s->keys ? s->first_row + row + 1 : s->keys;
}

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static void add_to(double *sum, double factor, const double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        sum[i] += factor * values[i];
    }
}

/* A row's result and its gradients, which are added to those of the keys. */
static void expect_row(const fast_case *c, int64_t head, int64_t row, double *weights)
{
    const sizes *s = &c->of;
    const int64_t line = head * s->rows + row, keys = seen(s, row), first_key = head / s->shared * s->keys;
    const double *q = c->values[Q] + line * s->depth, *k = c->values[K] + first_key * s->depth, *v = c->values[V] + first_key * s->width;
    const double *gradient = c->values[GRADIENT] + line * s->width;
    double *result = c->values[OUTPUT] + line * s->width, largest = -INFINITY, sum = 0;
    for (int64_t x = 0; x < keys; x++) {
        weights[x] = c->run.scalars[0] * dot(q, k + x * s->depth, s->depth);
        largest = fmax(largest, weights[x]);
    }
    for (int64_t x = 0; x < keys; x++) {
        weights[x] = exp(weights[x] - largest);
        sum += weights[x];
    }
    for (int64_t x = 0; x < keys; x++) {
        add_to(result, weights[x] / sum, v + x * s->width, s->width);
    }
    c->values[LOG_SUMS][line] = c->values[STATISTICS][2 * line] = largest + log(sum);
    const double product = c->values[STATISTICS][2 * line + 1] = dot(gradient, result, s->width);
    for (int64_t x = 0; x < keys; x++) {
        const double weight = weights[x] / sum, slope = c->run.scalars[0] * weight * (dot(gradient, v + x * s->width, s->width) - product);
        add_to(c->values[OF_Q] + line * s->depth, slope, k + x * s->depth, s->depth);
        add_to(c->values[OF_K] + (head * s->keys + x) * s->depth, slope, q, s->depth);
        add_to(c->values[OF_V] + (head * s->keys + x) * s->width, weight, gradient, s->width);
    }
}

static void expect(const fast_case *c)
{
    const sizes *s = &c->of;
    const int64_t heads = s->batch * s->groups * s->shared;
    double *weights = malloc((size_t)s->keys * sizeof(double));
    for (int k = OUTPUT; k <= OF_KV; k++) {
        memset(c->values[k], 0, (size_t)count_of(c, k) * sizeof(double));
    }
    for (int64_t line = 0; line < heads * s->rows; line++) {
        expect_row(c, line / s->rows, line % s->rows, weights);
    }
    for (int64_t line = 0; line < heads * s->keys; line++) {
        double *both = c->values[OF_KV] + line * (s->depth + s->width);
        add_to(both, 1, c->values[OF_K] + line * s->depth, s->depth);
        add_to(both + s->depth, 1, c->values[OF_V] + line * s->width, s->width);
    }
    free(weights);
}

static void compare_output(const fast_case *c, int k, double share)
{
    static const char *const names[] = { "result", "log-sums", "gradient of q", "gradient of k", "gradient of v", "gradients of k and v" };
    const sizes *s = &c->of;
    double largest = 0;
    for (int64_t i = 0; i < count_of(c, k); i++) {
        largest = fmax(largest, fabs(c->values[k][i]));
    }
    for (int64_t i = 0; i < count_of(c, k); i++) {
        double got = as_double(type_of(c, k), c->host[k], i) - (s->adds ? (double)before_adding : 0);
        if (!(fabs(got - c->values[k][i]) <= share * largest)) {
            fail_msg("%s, %lld x %lld x %lld heads, %lld rows, %lld keys, %lld and %lld columns%s: %s, element %lld is %.7g, expected %.7g within %.3g",
                     weft_dtype_name(s->type), (long long)s->batch, (long long)s->groups, (long long)s->shared, (long long)s->rows,
                     (long long)s->keys, (long long)s->depth, (long long)s->width, s->causal ? ", causal" : "",
                     names[k], (long long)i, got, c->values[k][i], share * largest);
        }
    }
}

/* ---- running ------------------------------------------------------------------------------------------- */

/* Outputs of other values than expected; or, if the kernel adds to them, what it adds to. */
static void prepare_outputs(fast_case *c)
{
    for (int k = 0; k < GRADIENT; k++) {
        if (c->number[k] >= 0) {
            assert_int_equal(cudaMemsetAsync(c->device[k], 0xff, c->bytes[k] + 1024 * PANELS, memory.stream), cudaSuccess);
            for (int64_t i = 0; i < count_of(c, k) && c->of.adds; i++) {
                ((float *)c->host[k])[i] = before_adding;
            }
            if (c->of.adds) {
                copy_operand(c, k, true);
            }
        }
    }
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
}

/* Runs it, and fetches the outputs. Returns whether cuDNN computed all of it. */
static bool run_once(fast_case *c)
{
    prepare_outputs(c);
    const int64_t runs = weft_dnn_count_runs(&c->queue), launches = launches_so_far();
    assert_int_equal(weft_cuda_kernels[c->run.kernel](&c->run, &c->queue), 0);
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    const bool forward = c->run.kernel == WEFT_KERNEL_attention, by_dnn = weft_dnn_count_runs(&c->queue) > runs;
    assert_true(!forward || (launches_so_far() == launches) == by_dnn);
    for (int k = 0; k < GRADIENT; k++) {
        if (c->number[k] >= 0) {
            memset(c->host[k], 0, c->bytes[k]);
            copy_operand(c, k, false);
        }
    }
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    return by_dnn;
}

/* Compares with double precision. Weights and results are rounded to 16 bits, and the gradients' factors too. */
static void check(const fast_case *c)
{
    const double share = c->of.type == WEFT_BF16 ? 0x1.8p-8 : 0x1p-9;
    for (int k = 0; k < GRADIENT; k++) {
        if (c->number[k] >= 0) {
            compare_output(c, k, k == LOG_SUMS ? 1e-4 : k == OUTPUT ? share : 2 * share);
        }
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

static void check_by_dnn(const sizes *of, weft_kernel_id kernel)
{
    fast_case c;
    void *first[GRADIENT] = { NULL };
    begin(&c, of, kernel);
    if (!run_once(&c)) {
        check(&c); /* weft's own kernel */
        end(&c);
        if (of->rows == 1) { /* not all versions have plans of single rows */
            printf("# cuDNN has no plan of %s of one row\n", weft_kernel_infos[kernel].name);
            return;
        }
        fail_msg("cuDNN did not compute %s of %lld x %lld x %lld heads, %lld rows, %lld keys, %lld and %lld columns%s",
                 weft_kernel_infos[kernel].name, (long long)of->batch, (long long)of->groups, (long long)of->shared, (long long)of->rows,
                 (long long)of->keys, (long long)of->depth, (long long)of->width, of->causal ? ", causal" : "");
    }
    check(&c);
    for (int k = 0; k < GRADIENT; k++) {
        first[k] = malloc(c.bytes[k]);
        memcpy(first[k], c.host[k], c.number[k] >= 0 ? c.bytes[k] : 0);
    }
    assert_true(run_once(&c));
    for (int k = 0; k < GRADIENT; k++) {
        assert_memory_equal(first[k], c.host[k], c.number[k] >= 0 ? c.bytes[k] : 0);
        free(first[k]);
    }
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

static void check_all_by_dnn(weft_kernel_id kernel)
{
    if (!has_dnn()) {
        skip();
    }
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        check_by_dnn(&some[i], kernel);
    }
    if (kernel != WEFT_KERNEL_attention) {
        sizes large = some[1];
        large.of_gradients = 8192; /* products beyond the range of float16 */
        check_by_dnn(&large, kernel);
    }
    if (kernel == WEFT_KERNEL_attention_backward_q || kernel == WEFT_KERNEL_attention_backward_kv) {
        sizes adding = some[5];
        adding.adds = true;
        check_by_dnn(&adding, kernel);
    }
#ifdef WEFT_TEST_GPU
    for (size_t i = 0; i < sizeof(long_ones) / sizeof(long_ones[0]); i++) {
        check_by_dnn(&long_ones[i], kernel);
    }
#endif
}

void test_fast_attention(void **state)
{
    (void)state;
    check_all_by_dnn(WEFT_KERNEL_attention);
}

void test_fast_gradients_of_q(void **state)
{
    (void)state;
    check_all_by_dnn(WEFT_KERNEL_attention_backward_q);
}

void test_fast_gradients_of_kv(void **state)
{
    (void)state;
    check_all_by_dnn(WEFT_KERNEL_attention_backward_kv);
}

void test_fast_gradients_all(void **state)
{
    (void)state;
    check_all_by_dnn(WEFT_KERNEL_attention_backward_all);
}

/* ---- what cuDNN does not compute ----------------------------------------------------------------------- */

static void check_by_weft(const sizes *of, weft_kernel_id kernel)
{
    fast_case c;
    begin(&c, of, kernel);
    assert_false(run_once(&c));
    check(&c);
    assert_false(run_once(&c)); /* a refusal that is remembered */
    end(&c);
}

/* All memory of the device is taken. */
static void check_without_memory(const sizes *of, weft_kernel_id kernel)
{
    enum { MOST = 256 };
    void *taken[MOST];
    int count = 0;
    fast_case c;
    begin(&c, of, kernel);
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
    check(&c);
    end(&c);
}

static void check_refusals(weft_kernel_id kernel)
{
    sizes of = some[1];
    of.rows = 64; /* too few */
    check_by_weft(&of, kernel);
    of = some[1];
    of.depth = 60; /* no multiple of 8 */
    check_by_weft(&of, kernel);
    if (kernel == WEFT_KERNEL_attention_backward_q) {
        of = some[1]; /* adds, in two pieces: the first one could not be taken back */
        of.adds = true;
        check_by_weft(&of, kernel);
    }
    of = some[1];
    check_without_memory(&of, kernel);
#ifndef WEFT_TEST_GPU
    static const char *const variables[] = { "STAND_IN_NO_CUDNN", "STAND_IN_NO_PLANS", "STAND_IN_FAILING_CUDNN" };
    for (int i = 0; i < 3; i++) {
        setenv(variables[i], "1", 1);
        check_by_weft(&of, kernel);
        unsetenv(variables[i]);
    }
#endif
}

void test_fast_attention_refused(void **state)
{
    (void)state;
    check_refusals(WEFT_KERNEL_attention);
}

#ifndef WEFT_TEST_GPU
/* A cuDNN that computes other gradients is found before its results are used. */
static void check_wrong_dnn(const sizes *of)
{
    if (has_dnn()) {
        setenv("STAND_IN_DNN_WRONG", "1", 1);
        check_by_weft(of, WEFT_KERNEL_attention_backward_all);
        unsetenv("STAND_IN_DNN_WRONG");
        check_by_dnn(of, WEFT_KERNEL_attention_backward_all);
    }
}
#endif

void test_fast_gradients_refused(void **state)
{
    (void)state;
#ifndef WEFT_TEST_GPU
    check_wrong_dnn(&some[0]);
    check_wrong_dnn(&some[1]);
#endif
    check_refusals(WEFT_KERNEL_attention_backward_q);
    check_refusals(WEFT_KERNEL_attention_backward_kv);
    check_refusals(WEFT_KERNEL_attention_backward_all);
}
