/* Chains of elementwise kernels, compiled for the stand-in, against the kernels one by one on a CPU: equal bits, for random
 * kernels, types, broadcasting, changes in place, and values in scratch memory, which share it. Without StarPU. */
#include "codelets/cuda/chain.h"
#include "codelets/elementwise.h"
#include "codelets/kernel.h"
#include "device_support.h"

/* Memories 0 to 4 hold tensors, the last one scratch memory. */
enum { STEPS = 30, OPERANDS = 1 + WEFT_MAX_ELEMENTWISE_INPUTS, TENSORS = 5, SCRATCH = NUM_MEMORIES - 1, AREAS = 6, AREA = 1 << 13 };

/* A tensor, or a part of the scratch memory: the type of its elements, and whether it has any value. */
typedef struct area {
    int memory;
    size_t offset;
    weft_dtype type;
    bool written;
} area;

typedef struct scene {
    int ndim;
    int64_t extent[WEFT_MAX_DIMS];
    area areas[TENSORS + AREAS];
    weft_elementwise_args args[STEPS];
    weft_task_run runs[STEPS];
    void *on_host[STEPS][OPERANDS], *on_device[STEPS][OPERANDS];
} scene;

static scene at;

static weft_dtype any_type(void)
{
    static const weft_dtype usual[] = { WEFT_F32, WEFT_F32, WEFT_F64, WEFT_BF16 };
    return below(3) > 0 ? usual[below(4)] : (weft_dtype)below(REAL_TYPES);
}

static void full_strides(int64_t stride[])
{
    int64_t size = 1;
    for (int d = at.ndim - 1; d >= 0; d--) {
        stride[d] = size;
        size *= at.extent[d];
    }
}

/* Strides of an input: sometimes repeated along some dimensions, or in another order of them. */
static void any_strides(int64_t stride[])
{
    full_strides(stride);
    if (below(5) > 0) {
        return;
    }
    for (int d = 0; d < at.ndim; d++) {
        stride[d] = below(2) == 0 ? 0 : stride[d];
    }
}

static void begin_scene(void)
{
    memset(&at, 0, sizeof(at));
    at.ndim = 1 + (int)below(3);
    for (int d = 0; d < at.ndim; d++) {
        at.extent[d] = below(15) == 0 ? below(2) : 1 + below(at.ndim == 1 ? 600 : at.ndim == 2 && d == 1 ? 70 : 8);
    }
    for (int i = 0; i < TENSORS; i++) {
        at.areas[i] = (area){ .memory = i, .type = any_type(), .written = true };
        at.areas[i].offset = (size_t)(below(2) * below(17)) * weft_dtype_size(at.areas[i].type); /* vectors begin anywhere */
        fill_at_random(i, at.areas[i].type);
    }
    for (int i = 0; i < AREAS; i++) { /* some overlap */
        at.areas[TENSORS + i] = (area){ .memory = SCRATCH, .offset = (size_t)i * AREA - (size_t)(below(2) * (i > 0) * 64) };
    }
    fill_at_random(SCRATCH, WEFT_F64);
}

static const area *any_written(void)
{
    const area *chosen;
    do {
        chosen = &at.areas[below(TENSORS + AREAS)];
    } while (!chosen->written);
    return chosen;
}

static void bind(int step, int k, const area *from)
{
    at.on_host[step][k] = memory.host[from->memory] + from->offset;
    at.on_device[step][k] = (char *)memory.device[from->memory] + from->offset;
    at.args[step].types[k] = from->type;
}

static size_t bytes_of(const area *one)
{
    size_t count = 1;
    for (int d = 0; d < at.ndim; d++) {
        count *= (size_t)at.extent[d];
    }
    return count * weft_dtype_size(one->type);
}

/* The areas that a step writes: none of its inputs, unless it has the same elements. Others that lie there are lost. */
static area *any_output(int step, int inputs)
{
    for (;;) {
        area *own = &at.areas[below(3) == 0 ? below(TENSORS) : TENSORS + below(AREAS)], former = *own;
        bool clashes = false;
        own->type = own->memory == SCRATCH && below(2) == 0 ? any_type() : own->written ? own->type : any_type();
        char *begin = (char *)memory.device[own->memory] + own->offset, *end = begin + bytes_of(own);
        int64_t full[WEFT_MAX_DIMS] = { 0 };
        full_strides(full);
        for (int k = 1; k <= inputs; k++) {
            char *input = at.on_device[step][k];
            size_t bytes = 1;
            for (int d = 0; d < at.ndim; d++) {
                bytes *= (size_t)at.extent[d];
            }
            bytes *= weft_dtype_size(at.args[step].types[k]);
            bool same = input == begin && at.args[step].types[k] == own->type &&
                        memcmp(full, at.args[step].stride[k], (size_t)at.ndim * sizeof(int64_t)) == 0;
            clashes = clashes || (!same && input < end && begin < input + bytes);
        }
        if (clashes) {
            *own = former;
            continue;
        }
        for (int i = TENSORS; i < TENSORS + AREAS && own->memory == SCRATCH; i++) {
            char *other = (char *)memory.device[SCRATCH] + at.areas[i].offset;
            at.areas[i].written = at.areas[i].written && !(other < end && begin < other + bytes_of(&at.areas[i]));
        }
        own->written = true;
        return own;
    }
}

static weft_kernel_id any_kernel(void)
{
    weft_kernel_id kernel;
    do {
        kernel = (weft_kernel_id)(WEFT_KERNEL_ELEMENTWISE + below(WEFT_KERNEL_COUNT - WEFT_KERNEL_ELEMENTWISE));
    } while (!runs_exactly(kernel));
    return kernel;
}

static void add_step(int step)
{
    weft_elementwise_args *args = &at.args[step];
    weft_kernel_id kernel = any_kernel();
    const weft_kernel_info *info = &weft_kernel_infos[kernel];
    static const weft_dtype arithmetics[] = { WEFT_F32, WEFT_F64, WEFT_I64 };
    args->base.dtype = info->floats ? arithmetics[below(info->integers ? 3 : 2)] : WEFT_I64;
    args->ndim = at.ndim;
    memcpy(args->extent, at.extent, sizeof(at.extent));
    do {
        args->common = (weft_dtype)below(REAL_TYPES);
    } while (weft_arithmetic_type(args->common) != args->base.dtype);
    for (int k = 1; k <= info->num_inputs; k++) {
        bind(step, k, any_written());
        args->converted |= weft_conversion_matters(args->types[k], args->common) ? 1u << k : 0;
        any_strides(args->stride[k]);
    }
    bind(step, 0, any_output(step, info->num_inputs));
    full_strides(args->stride[0]);
    at.runs[step] = (weft_task_run){ .kernel = kernel,
                                     .cpu = &weft_cpu_kernels[kernel],
                                     .arguments = args,
                                     .num_operands = 1 + info->num_inputs };
    for (int i = 0; i < WEFT_MAX_SCALARS; i++) {
        at.runs[step].scalars[i] = any_number();
    }
}

static void run_scene(int64_t *launched, int64_t *steps)
{
    begin_scene();
    int count = 1 + (int)below(STEPS);
    weft_device_error *found[STEPS];
    for (int i = 0; i < count; i++) {
        add_step(i);
        at.runs[i].operands = at.on_device[i];
    }
    const weft_cuda_steps all = { count, at.runs, memory.device[SCRATCH], MEMORY_BYTES };
    int64_t before = launches_so_far();
    assert_int_equal(weft_cuda_launch_steps(&all, &memory.queue, found), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    *launched += launches_so_far() - before;
    *steps += count;
    weft_kernel_error error = { .status = WEFT_OK };
    for (int i = 0; i < count; i++) {
        assert_null(found[i]);
        at.runs[i].operands = at.on_host[i];
        at.runs[i].error = &error;
        at.runs[i].cpu->run(&at.runs[i]);
    }
    for (int i = 0; i < TENSORS; i++) {
        compare("chain", i, at.areas[i].type, 0);
    }
}

static void test_random_chains(void **state)
{
    (void)state;
    int64_t launched = 0, steps = 0;
    for (int i = 0; i < 150; i++) {
        run_scene(&launched, &steps);
    }
    printf("# %lld kernels in %lld launches\n", (long long)steps, (long long)launched);
    assert_true(launched < steps / 2);
}

enum { N = 300 };

/* y = tanh(2 (a + b)), in bf16 between: one launch, which stores y alone, and needs no scratch memory. */
static void test_one_launch(void **state)
{
    (void)state;
    static const weft_kernel_id kernels[] = { WEFT_KERNEL_add, WEFT_KERNEL_scale, WEFT_KERNEL_tanh };
    char *nowhere = (char *)4096;
    void *operands[3][OPERANDS] = { { nowhere, memory.device[0], memory.device[1] }, { nowhere + AREA, nowhere },
                                    { memory.device[2], nowhere + AREA } };
    weft_elementwise_args args[3];
    weft_task_run runs[3];
    fill_at_random(0, WEFT_F32);
    fill_at_random(1, WEFT_F32);
    fill_at_random(2, WEFT_F32);
    for (int i = 0; i < 3; i++) {
        args[i] = (weft_elementwise_args){ .base.dtype = WEFT_F32, .ndim = 1, .common = WEFT_F32, .extent = { N },
                                           .types = { i < 2 ? WEFT_BF16 : WEFT_F32, i > 0 ? WEFT_BF16 : WEFT_F32, WEFT_F32 },
                                           .stride = { { 1 }, { 1 }, { 1 } } };
        runs[i] = (weft_task_run){ .kernel = kernels[i], .arguments = &args[i], .num_operands = i == 0 ? 3 : 2,
                                   .operands = operands[i], .scalars = { 2 } };
    }
    weft_cuda_steps steps = { 3, runs, nowhere, 2 * AREA };
    weft_device_error *found[3];
    int64_t before = launches_so_far();
    assert_false(weft_cuda_steps_use_scratch(&steps));
    assert_int_equal(weft_cuda_launch_steps(&steps, &memory.queue, found), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    assert_int_equal(launches_so_far() - before, 1);
    /* A reader in another order of the elements waits for the launch, and reads memory. */
    args[2].ndim = args[1].ndim = args[0].ndim = 2;
    for (int i = 0; i < 3; i++) {
        args[i].extent[0] = 10;
        args[i].extent[1] = 30;
        for (int k = 0; k < OPERANDS; k++) {
            args[i].stride[k][0] = i == 2 && k == 1 ? 1 : 30;
            args[i].stride[k][1] = i == 2 && k == 1 ? 10 : 1;
        }
    }
    assert_true(weft_cuda_steps_use_scratch(&steps));
    weft_chain chain;
    weft_chain_find(&steps, 0, &chain);
    assert_int_equal(chain.num_steps, 2);
    assert_int_equal(chain.num_memories, 3);
    assert_true(chain.steps[0].output == -1 && chain.steps[1].output >= 0);
}

/* Kernels that scale N numbers, each by its own operands: output, input. */
enum { MOST = 3 };
typedef struct scaling {
    weft_elementwise_args args[MOST];
    weft_task_run runs[MOST];
} scaling;

static weft_cuda_steps scale_all(scaling *s, int count, void *operands[][2], char *scratch)
{
    for (int i = 0; i < count; i++) {
        s->args[i] = (weft_elementwise_args){ .base.dtype = WEFT_F32, .ndim = 1, .common = WEFT_F32, .extent = { N },
                                              .types = { WEFT_F32, WEFT_F32 }, .stride = { { 1 }, { 1 } } };
        s->runs[i] = (weft_task_run){ .kernel = WEFT_KERNEL_scale, .cpu = &weft_cpu_kernels[WEFT_KERNEL_scale], .arguments = &s->args[i], .num_operands = 2,
                                      .operands = operands[i], .scalars = { 2 + i } };
    }
    return (weft_cuda_steps){ count, s->runs, scratch, AREA };
}

/* A value that nothing reads needs no memory: that kernel is not launched, alone or after another box. */
static void test_values_that_nothing_reads(void **state)
{
    (void)state;
    char *nowhere = (char *)4096;
    void *operands[][2] = { { memory.device[2], memory.device[0] }, { nowhere, memory.device[1] } };
    scaling s;
    weft_device_error *found[MOST];
    weft_cuda_steps steps = scale_all(&s, 2, operands, nowhere);
    s.args[1].extent[0] = N - 1;
    assert_false(weft_cuda_steps_use_scratch(&steps));
    int64_t before = launches_so_far();
    assert_int_equal(weft_cuda_launch_steps(&steps, &memory.queue, found), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    assert_int_equal(launches_so_far() - before, 1);
}

/* The third kernel writes all elements of the first but one, so it cannot be of the chain: the first is stored. */
static void test_values_written_again_in_part(void **state)
{
    (void)state;
    char *target = memory.device[2];
    void *operands[][2] = { { target, memory.device[0] }, { memory.device[3], memory.device[1] }, { target + sizeof(float), memory.device[1] } };
    scaling s;
    weft_cuda_steps steps = scale_all(&s, 3, operands, (char *)4096);
    weft_chain chain;
    weft_chain_find(&steps, 0, &chain);
    assert_int_equal(chain.num_steps, 2);
    assert_true(chain.steps[0].output >= 0 && chain.steps[1].output >= 0);
}

/* A matrix is written in two pieces of columns, whose bytes overlap though their elements do not, and then read as a whole: both
 * pieces are stored. */
static void test_values_in_pieces(void **state)
{
    (void)state;
    enum { ROWS = 15, COLUMNS = 20 };
    static const int64_t cuts[] = { COLUMNS / 2, 7, 19 };
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        char *scratch = memory.device[SCRATCH], *here = (char *)memory.host[SCRATCH];
        size_t behind = (size_t)cuts[i] * sizeof(float);
        void *there[][2] = { { scratch, memory.device[0] }, { scratch + behind, (char *)memory.device[0] + behind }, { memory.device[2], scratch } };
        void *own[][2] = { { here, memory.host[0] }, { here + behind, memory.host[0] + behind }, { memory.host[2], here } };
        fill_at_random(0, WEFT_F32);
        fill_at_random(2, WEFT_F32);
        fill_at_random(SCRATCH, WEFT_F32);
        scaling s;
        weft_cuda_steps steps = scale_all(&s, 3, there, scratch);
        for (int k = 0; k < 3; k++) {
            s.args[k].ndim = 2;
            s.args[k].extent[0] = ROWS;
            s.args[k].extent[1] = k == 0 ? cuts[i] : k == 1 ? COLUMNS - cuts[i] : COLUMNS;
            for (int o = 0; o < 2; o++) {
                s.args[k].stride[o][0] = COLUMNS;
                s.args[k].stride[o][1] = 1;
            }
        }
        weft_device_error *found[MOST];
        assert_int_equal(weft_cuda_launch_steps(&steps, &memory.queue, found), cudaSuccess);
        assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
        for (int k = 0; k < 3; k++) {
            s.runs[k].operands = own[k];
            weft_cpu_kernels[s.runs[k].kernel].run(&s.runs[k]);
        }
        compare("pieces", 2, WEFT_F32, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_chains),
        cmocka_unit_test(test_one_launch),
        cmocka_unit_test(test_values_that_nothing_reads),
        cmocka_unit_test(test_values_written_again_in_part),
        cmocka_unit_test(test_values_in_pieces),
    };
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
