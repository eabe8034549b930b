/* Copies, reductions and constants on the stand-in against those for CPUs: equal bits for all types, numbers of sources
 * and strides, which may be negative, and 0 for sources. Without StarPU. */
#include "codelets/constant.h"
#include "codelets/copy.h"
#include "device_support.h"

#define CASES share_of(300)

/* Strides of a box whose dimensions lie in any order, with gaps. Returns the first element's place, so that none lies
 * before the memory. */
static int64_t any_strides(const weft_strided_box *box, bool repeats, int64_t stride[])
{
    bool used[WEFT_MAX_DIMS] = { false }, sorted = below(2) == 0;
    int64_t step = 1 + (below(4) == 0), begin = 0;
    for (int i = 0; i < box->ndim; i++) {
        int d = box->ndim - 1 - i;
        while (!sorted && used[d = (int)below(box->ndim)]) {
        }
        used[d] = true;
        bool repeated = repeats && below(5) == 0, reversed = below(5) == 0;
        stride[d] = repeated ? 0 : reversed ? -step : step;
        begin += reversed && !repeated && box->extent[d] > 0 ? step * (box->extent[d] - 1) : 0;
        step *= repeated || box->extent[d] == 0 ? 1 : box->extent[d];
        step += below(5) == 0;
    }
    return begin;
}

static void any_extents(weft_strided_box *box)
{
    box->ndim = (int)below(5);
    for (int d = 0; d < box->ndim; d++) {
        box->extent[d] = below(12) == 0 ? below(2) : 1 + below(box->ndim == 1 ? 700 : 6);
    }
}

/* Operand k at an element's place in memory k. */
static void place_operand(int k, int64_t place, size_t size, void *host[], void *device[])
{
    size_t offset = (size_t)place * size;
    host[k] = memory.host[k] + offset;
    device[k] = (char *)memory.device[k] + offset;
}

static void test_copy(void **state)
{
    (void)state;
    static const weft_dtype by_size[] = { WEFT_U8, WEFT_BF16, WEFT_F32, WEFT_F64 };
    int64_t launches = launches_so_far();
    for (int i = 0; i < CASES; i++) {
        weft_dtype type = by_size[below(4)];
        size_t size = weft_dtype_size(type);
        weft_copy_args args = { .element_size = size, .streams = below(2) == 0 };
        weft_task_run run = { .kernel = WEFT_KERNEL_copy, .arguments = &args, .num_operands = 2 + (int)below(3) };
        void *host[NUM_MEMORIES], *device[NUM_MEMORIES];
        fill_at_random(0, type);
        place_operand(0, 0, size, host, device);
        for (int k = 1; k < run.num_operands; k++) {
            weft_strided_box *box = &args.boxes[k - 1];
            any_extents(box);
            fill_at_random(k, type);
            place_operand(k, any_strides(box, true, box->source_stride), size, host, device);
            args.target_offset[k - 1] = any_strides(box, false, box->target_stride) * (int64_t)size;
        }
        run_on_both(&run, host, device);
        compare("copy", 0, type, 0);
    }
    assert_true(launches_so_far() > launches + CASES); /* others are contiguous, or empty */
}

/* Strides of a box of three dimensions whose dimension `last` is contiguous, `first` the slowest. */
static void dense_strides(const weft_strided_box *box, int first, int last, int64_t gap, int64_t stride[])
{
    stride[last] = 1;
    stride[3 - first - last] = box->extent[last] + gap;
    stride[first] = (box->extent[last] + gap) * box->extent[3 - first - last];
}

/* Boxes as large as the memory, whose rows begin at any address and are gathered, cut into vectors, or transposed tile by tile. */
static void test_copy_dense(void **state)
{
    (void)state;
    enum { GAP = 17 };
    static const weft_dtype by_size[] = { WEFT_U8, WEFT_BF16, WEFT_F32, WEFT_F64 };
    static const int64_t gaps[] = { 0, 0, 1, 2, 3, 4, 8, 16 };
    for (int i = 0; i < CASES; i++) {
        weft_dtype type = by_size[i % 4];
        int64_t size = (int64_t)weft_dtype_size(type);
        weft_copy_args args = { .element_size = (size_t)size };
        weft_strided_box *box = &args.boxes[0];
        box->ndim = 3;
        do {
            box->extent[0] = 1 + below(3);
            box->extent[1] = 1 + below(150);
            box->extent[2] = 1 + below(150);
        } while (box->extent[0] * (box->extent[1] + GAP) * (box->extent[2] + GAP) > MEMORY_BYTES / size - 2 * GAP);
        int64_t aligned = below(2) == 0 ? 16 : 1;
        int last = 1 + (int)below(2);
        dense_strides(box, 0, 2, below(2) == 0 ? 0 : aligned > 1 ? 16 : gaps[below(8)], box->target_stride);
        dense_strides(box, 0, last, below(2) == 0 ? 0 : aligned > 1 ? 16 : gaps[below(8)], box->source_stride);
        weft_task_run run = { .kernel = WEFT_KERNEL_copy, .arguments = &args, .num_operands = 2 };
        void *host[2], *device[2];
        fill_at_random(0, type);
        fill_at_random(1, type);
        place_operand(0, 0, (size_t)size, host, device);
        place_operand(1, aligned * below(aligned > 1 ? 2 : GAP), (size_t)size, host, device);
        args.target_offset[0] = aligned * below(aligned > 1 ? 2 : GAP) * size;
        run_on_both(&run, host, device);
        compare("copy", 0, type, 0);
    }
}

static void reduce_case(weft_dtype type, weft_combine how)
{
    size_t size = weft_dtype_size(type);
    weft_reduce_args args = { .base.dtype = type,
                              .combine = how,
                              .accumulate = below(2) == 0,
                              .scale = type <= WEFT_F16 && below(3) == 0 ? 1.0 / 3 : 1 };
    weft_task_run run = { .kernel = WEFT_KERNEL_reduce, .arguments = &args, .num_operands = 2 + (int)below(7) };
    void *host[NUM_MEMORIES], *device[NUM_MEMORIES];
    any_extents(&args.boxes[0]);
    bool plain = below(3) == 0;
    fill_at_random(0, type);
    place_operand(0, any_strides(&args.boxes[0], false, args.boxes[0].target_stride), size, host, device);
    for (int k = 1; k < run.num_operands; k++) {
        weft_strided_box *box = &args.boxes[k - 1];
        if (k > 1) {
            *box = args.boxes[0];
        }
        fill_at_random(k, type);
        int64_t place = k > 1 && plain ? 0 : any_strides(box, true, box->source_stride);
        for (int d = 0; d < box->ndim && k > 1 && plain; d++) {
            place += args.boxes[0].source_stride[d] < 0 && box->extent[d] > 0
                         ? -args.boxes[0].source_stride[d] * (box->extent[d] - 1)
                         : 0;
        }
        place_operand(k, place, size, host, device);
    }
    run_on_both(&run, host, device);
    compare("reduce", 0, type, 0);
}

static void test_reduce(void **state)
{
    (void)state;
    static const weft_combine hows[] = { WEFT_COMBINE_SUM, WEFT_COMBINE_PROD, WEFT_COMBINE_MIN, WEFT_COMBINE_MAX };
    int64_t launches = launches_so_far();
    for (int type = 0; type < REAL_TYPES; type++) {
        for (int how = 0; how < 4; how++) {
            for (int i = 0; i < CASES / 30; i++) {
                reduce_case((weft_dtype)type, hows[how]);
            }
        }
    }
    assert_true(launches_so_far() > launches + 4 * (CASES / 30) * REAL_TYPES / 2);
}

static void test_constant(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        weft_dtype type = (weft_dtype)below(REAL_TYPES);
        bool floating = type <= WEFT_F16;
        weft_constant_args args = { .base.dtype = type,
                                    .count = below(2000),
                                    .value = floating ? any_number() : (double)(below(401) - 200) };
        weft_task_run run = { .kernel = WEFT_KERNEL_constant, .arguments = &args, .num_operands = 1 };
        size_t size = weft_dtype_size(type);
        void *host[1], *device[1];
        fill_at_random(0, type);
        place_operand(0, below(9), size, host, device);
        run_on_both(&run, host, device);
        compare("constant", 0, type, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_copy_dense),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_constant),
    };
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
