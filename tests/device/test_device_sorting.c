/* Lines sorted on the stand-in against a CPU: lengths around those that blocks sort (512, 2048, 4096 and 8192 values), whole lines
 * and the front of them, ties, NaN, infinities and signed zeros, lines that lie apart and lines across panels, with scratch memory
 * for all lines, for one and for a part of one. Equal bits. Without StarPU. */
#include <stdlib.h>

#include "codelets/half.h"
#include "codelets/kernel.h"
#include "codelets/sort_keys.h"
#include "device_support.h"

enum { LITTLE = 1 << 16, SOME = 3 * LITTLE, MOST_PANELS = 600 };

/* [before, length, after], sorted along dimension 1; [length] in panels where `panel_rows` is not 0. */
typedef struct row {
    int64_t before, length, behind, wanted, panel_rows;
    int distinct;   /* about so many different values; 0: many */
    int64_t scratch; /* bytes of scratch memory; 0: the device's share */
} row;

/* An operand in memory of its own, here and on the device. */
typedef struct operand {
    size_t bytes;
    unsigned char *here;
    void *there;
} operand;

typedef struct sorting {
    weft_kernel_args *args; /* in `arguments` */
    int64_t arguments[(sizeof(weft_kernel_args) + 3 * sizeof(weft_kernel_operand)) / sizeof(int64_t)];
    operand operands[3];
    int num_panels;
    void *host[MOST_PANELS], *device[MOST_PANELS];
} sorting;

/* ---- values ---------------------------------------------------------------------------------------------- */

static double any_real(int distinct)
{
    static const double special[] = { 0, -0.0, NAN, -NAN, INFINITY, -INFINITY, 1e-40, -1e-40, 65504, -1e300 };
    if (below(4) == 0) {
        return special[below((int64_t)(sizeof(special) / sizeof(special[0])))];
    }
    return distinct > 0 ? (double)below(distinct) - distinct / 2 : (double)(int64_t)prng_next(&memory.random) / 1e15;
}

static void fill(unsigned char *at, int64_t count, weft_dtype type, int distinct)
{
    size_t size = weft_dtype_size(type);
    for (int64_t i = 0; i < count; i++) {
        double number = any_real(distinct);
        float narrow = (float)number;
        uint16_t half = type == WEFT_BF16 ? weft_f32_to_bf16(narrow) : weft_f32_to_f16(narrow);
        uint64_t bits = prng_next(&memory.random);
        uint64_t whole = distinct > 0 ? bits % (uint64_t)distinct - (uint64_t)distinct / 2 : bits; /* little-endian */
        uint8_t truth = bits & 1;
        const void *value = type == WEFT_F64    ? (const void *)&number
                            : type == WEFT_F32  ? (const void *)&narrow
                            : type == WEFT_BOOL ? (const void *)&truth
                            : size == 2         ? (const void *)&half
                                                : (const void *)&whole;
        memcpy(at + (size_t)i * size, value, size);
    }
}

/* ---- operands -------------------------------------------------------------------------------------------- */

static void add_operand(sorting *s, weft_dtype type, const row *of, int64_t length)
{
    int k = s->args->num_outputs + s->args->num_inputs;
    bool panels = of->panel_rows > 0;
    int64_t rows = panels ? length : of->before, row_elements = panels ? 1 : length * of->behind;
    size_t row_bytes = (size_t)row_elements * weft_dtype_size(type);
    operand *o = &s->operands[k];
    *o = (operand){ .bytes = (size_t)rows * row_bytes };
    o->here = malloc(o->bytes + 1);
    assert_non_null(o->here);
    assert_int_equal(cudaMalloc(&o->there, o->bytes + 1), cudaSuccess);
    weft_kernel_operand *as = &s->args->operands[k];
    *as = (weft_kernel_operand){ .dtype = type, .ndim = panels ? 1 : 3, .first_panel = s->num_panels };
    const int64_t shape[] = { rows, length, of->behind };
    memcpy(as->shape, shape, (size_t)as->ndim * sizeof(int64_t));
    memcpy(as->extent, shape, (size_t)as->ndim * sizeof(int64_t));
    as->panel_rows = panels ? of->panel_rows : rows > 0 ? rows : 1;
    for (int64_t first = 0; first < rows; first += as->panel_rows, as->num_panels++) {
        assert_true(s->num_panels < MOST_PANELS);
        s->host[s->num_panels] = o->here + (size_t)first * row_bytes;
        s->device[s->num_panels++] = (char *)o->there + (size_t)first * row_bytes;
    }
}

/* In the kernels' stream: cudaMemcpy() may return before the bytes are there, and that stream does not wait for it. */
static void send(const operand *o)
{
    assert_int_equal(cudaMemcpyAsync(o->there, o->here, o->bytes, cudaMemcpyHostToDevice, memory.stream), cudaSuccess);
}

/* With the outputs' bytes set to a pattern on both sides. */
static void begin_sorting(sorting *s, weft_kernel_id kernel, weft_dtype type, const row *of, bool places)
{
    memset(s, 0, sizeof(*s));
    s->args = (weft_kernel_args *)(void *)s->arguments;
    s->args->base.dtype = type;
    s->args->numbers[0] = of->panel_rows > 0 ? 0 : 1;
    if (kernel == WEFT_KERNEL_sort) {
        add_operand(s, type, of, of->wanted);
        s->args->num_outputs++;
    }
    if (kernel == WEFT_KERNEL_order || places) {
        add_operand(s, WEFT_I64, of, of->wanted);
        s->args->num_outputs++;
    }
    int in = s->args->num_outputs;
    add_operand(s, type, of, of->length);
    s->args->num_inputs = 1;
    fill(s->operands[in].here, of->before * of->length * of->behind, type, of->distinct);
    for (int k = 0; k < in; k++) {
        memset(s->operands[k].here, 0x5a, s->operands[k].bytes);
    }
    for (int k = 0; k <= in; k++) {
        send(&s->operands[k]);
    }
}

static void end_sorting(sorting *s)
{
    for (int k = 0; k < s->args->num_outputs + s->args->num_inputs; k++) {
        free(s->operands[k].here);
        assert_int_equal(cudaFree(s->operands[k].there), cudaSuccess);
    }
}

/* ---- comparison ------------------------------------------------------------------------------------------ */

static weft_cuda_queue queue_of(const row *of)
{
    weft_cuda_queue queue = { .stream = memory.stream };
    if (of->scratch > 0) {
        queue.workspace_bytes = (size_t)of->scratch;
        assert_int_equal(cudaMalloc(&queue.workspace, 2 * queue.workspace_bytes), cudaSuccess);
    }
    return queue;
}

static void compare_outputs(const sorting *s, const row *of, weft_dtype type, bool descending)
{
    for (int k = 0; k < s->args->num_outputs; k++) {
        const operand *o = &s->operands[k];
        unsigned char *got = malloc(o->bytes + 1);
        assert_non_null(got);
        assert_int_equal(cudaMemcpy(got, o->there, o->bytes, cudaMemcpyDeviceToHost), cudaSuccess);
        if (memcmp(got, o->here, o->bytes) != 0) {
            size_t at = 0;
            while (got[at] == o->here[at]) {
                at++;
            }
            fail_msg("%s[%d][%d][%d], %d wanted, %s: output %d differs at byte %zu of %zu", weft_dtype_name(type), (int)of->before,
                     (int)of->length, (int)of->behind, (int)of->wanted, descending ? "descending" : "ascending", k, at, o->bytes);
        }
        free(got);
    }
}

static void check_row(const row *of, weft_kernel_id kernel, weft_dtype type, bool places, bool descending)
{
    static sorting s;
    begin_sorting(&s, kernel, type, of, places);
    s.args->numbers[1] = descending;
    weft_cuda_queue queue = queue_of(of);
    weft_kernel_error error = { .status = WEFT_OK };
    weft_task_run run = { .kernel = kernel, .cpu = &weft_cpu_kernels[kernel], .arguments = s.args, .num_operands = s.num_panels,
                          .operands = s.device, .function = "test", .error = &error };
    assert_int_equal(weft_cuda_kernels[kernel](&run, &queue), cudaSuccess);
    run.operands = s.host;
    run.cpu->run(&run);
    assert_int_equal(error.status, WEFT_OK);
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    compare_outputs(&s, of, type, descending);
    weft_cuda_queue_free(&queue);
    end_sorting(&s);
}

/* Every other type, and in the next call the rest, in either direction; each kernel, with and without the other output. */
static void check_types(const row *of)
{
    static int calls;
    for (int type = calls++ % 2; type < REAL_TYPES; type += 2) {
        int outputs = (int)below(3);
        check_row(of, outputs == 0 ? WEFT_KERNEL_order : WEFT_KERNEL_sort, (weft_dtype)type, outputs == 1, below(2) == 1);
    }
}

/* ---- tests ----------------------------------------------------------------------------------------------- */

/* All places and values of whole lines; many values, and few with many ties. */
static void test_lengths(void **state)
{
    (void)state;
    static const int64_t lengths[] = { 1, 2, 65, 511, 512, 513, 2047, 2048, 2049, 4096, 4097, 6145, 8192, 8193, 10007, 16385 };
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (int distinct = 0; distinct <= 5; distinct += 5) {
            const row of = { 1, lengths[i], 1, lengths[i], 0, distinct, 0 };
            check_types(&of);
        }
    }
}

static void test_long_line(void **state)
{
    (void)state;
    const row of = { 1, 70001, 1, 70001, 0, 300, 0 };
    check_row(&of, WEFT_KERNEL_sort, WEFT_F32, true, false);
    check_row(&of, WEFT_KERNEL_sort, WEFT_F64, true, true);
    check_row(&of, WEFT_KERNEL_sort, WEFT_U8, true, false);
    check_row(&of, WEFT_KERNEL_order, WEFT_I64, true, true);
}

/* Lines that lie one after the other, and apart. */
static void test_several_lines(void **state)
{
    (void)state;
    static const row rows[] = {
        { 3, 4097, 1, 4097, 0, 50, 0 }, { 1, 2500, 3, 2500, 0, 0, 0 }, { 2, 2049, 2, 2049, 0, 7, 0 },
        { 0, 4097, 2, 4097, 0, 0, 0 },  { 2, 5000, 0, 5000, 0, 0, 0 }, { 7, 2049, 1, 2049, 0, 9, LITTLE },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_types(&rows[i]);
    }
}

/* The first few of a line; none after them is written. */
static void test_front(void **state)
{
    (void)state;
    static const row rows[] = {
        { 1, 10007, 1, 1, 0, 4, 0 },     { 2, 10007, 1, 2048, 0, 0, 0 }, { 1, 10007, 1, 2049, 0, 6, 0 },
        { 1, 10007, 1, 5000, 0, 90, 0 }, { 1, 4097, 2, 3, 0, 0, 0 },     { 1, 10007, 1, 100, 0, 3, LITTLE },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_types(&rows[i]);
    }
}

/* Lines across panels, few and more than a launch's argument has room for. */
static void test_panels(void **state)
{
    (void)state;
    static const row rows[] = { { 1, 5000, 1, 5000, 1111, 0, 0 }, { 1, 5000, 1, 5000, 50, 20, 0 }, { 1, 9000, 1, 700, 100, 0, LITTLE } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_types(&rows[i]);
    }
}

/* Longer than scratch memory has room for: 4096 values at a time, or 12288. */
static void test_little_memory(void **state)
{
    (void)state;
    static const row rows[] = {
        { 1, 8192, 1, 8192, 0, 0, LITTLE }, { 1, 8193, 1, 8193, 0, 5, LITTLE }, { 2, 10007, 1, 10007, 0, 100, LITTLE },
        { 1, 12289, 2, 9000, 0, 0, LITTLE }, { 1, 24577, 1, 24577, 0, 2000, SOME },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_types(&rows[i]);
    }
}

/* A device sorts 16-bit types by the upper bits of their keys: these say the order of all values. */
static void test_upper_bits_of_narrow_keys(void **state)
{
    (void)state;
    static uint64_t known[1 << 19]; /* 1 + the key, by its upper bits */
    for (int type = WEFT_BF16; type <= WEFT_F16; type++) {
        memset(known, 0, sizeof(known));
        for (uint32_t bits = 0; bits < 1 << 16; bits++) {
            float value = type == WEFT_BF16 ? weft_bf16_to_f32((uint16_t)bits) : weft_f16_to_f32((uint16_t)bits);
            uint32_t key = weft_sort_key_of_float(value), upper = key >> (type == WEFT_BF16 ? 16 : 13);
            assert_true(known[upper] == 0 || known[upper] == 1 + (uint64_t)key);
            known[upper] = 1 + (uint64_t)key;
            assert_int_equal(key == UINT32_MAX, value != value);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths), cmocka_unit_test(test_long_line), cmocka_unit_test(test_several_lines),
        cmocka_unit_test(test_front),   cmocka_unit_test(test_panels),    cmocka_unit_test(test_little_memory),
        cmocka_unit_test(test_upper_bits_of_narrow_keys),
    };
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
