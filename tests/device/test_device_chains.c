/* Chains of elementwise kernels, compiled for the stand-in, against the kernels one by one on a CPU: equal bits, for random
 * kernels, types, broadcasting, changes in place, and values in scratch memory, which share it. Likewise steps of several parameters
 * in one launch. Without StarPU. */
#include "codelets/cuda/chain.h"
#include "codelets/elementwise.h"
#include "codelets/kernel.h"
#include "codelets/optimizers.h"
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

/* ---- steps of optimisers --------------------------------------------------------------------------------- */

enum { MANY = 70, LARGEST = 40 };

/* Steps of parameters of different sizes, all of a kernel with the same scalars: tensors of parameter i lie at PLACE * i of each memory. */
enum { PLACE = 4 * LARGEST * (int)sizeof(double) };
typedef struct stepping {
    int64_t args[MANY][(sizeof(weft_kernel_args) + 4 * sizeof(weft_kernel_operand)) / sizeof(int64_t)];
    weft_task_run runs[MANY];
    void *on_device[MANY][4], *on_host[MANY][4];
} stepping;

static void add_stepping(stepping *s, int i, weft_kernel_id kernel, weft_dtype type, int place)
{
    static const double adam[WEFT_MAX_SCALARS] = { 0.9, 0.99, 0.01, 1e-2, 1e-8, 1.5, 1 };
    static const double momentum[WEFT_MAX_SCALARS] = { 0.9, 1, 0.1, 0.01, 0.9 };
    const int tensors = kernel == WEFT_KERNEL_adam ? 4 : 3;
    weft_kernel_args *args = (weft_kernel_args *)(void *)s->args[i];
    memset(s->args[i], 0, sizeof(s->args[i]));
    args->base.dtype = weft_arithmetic_type(type);
    args->num_outputs = tensors - 1;
    args->num_inputs = 1;
    int64_t count = place % 7 == 3 ? 0 : 1 + place * 5 % LARGEST;
    for (int k = 0; k < tensors; k++) {
        args->operands[k] = (weft_kernel_operand){ .dtype = type, .ndim = 1, .first_panel = k, .num_panels = 1, .shape = { count },
                                                   .extent = { count }, .panel_rows = count > 0 ? count : 1 };
        s->on_device[i][k] = (char *)memory.device[k] + (size_t)PLACE * (size_t)place;
        s->on_host[i][k] = memory.host[k] + (size_t)PLACE * (size_t)place;
    }
    s->runs[i] = (weft_task_run){ .kernel = kernel, .cpu = &weft_cpu_kernels[kernel], .arguments = args, .num_operands = tensors };
    memcpy(s->runs[i].scalars, kernel == WEFT_KERNEL_adam ? adam : momentum, sizeof(adam));
}

/* Launches, and computes the same on a CPU. Returns the number of launches. */
static int64_t launch_stepping(stepping *s, int count)
{
    static weft_device_error *found[MANY];
    for (int i = 0; i < count; i++) {
        s->runs[i].operands = s->on_device[i];
    }
    const weft_cuda_steps steps = { count, s->runs, (char *)4096, 1 };
    int64_t before = launches_so_far();
    assert_int_equal(weft_cuda_launch_steps(&steps, &memory.queue, found), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    int64_t launched = launches_so_far() - before;
    for (int i = 0; i < count; i++) {
        assert_null(found[i]);
        s->runs[i].operands = s->on_host[i];
        s->runs[i].cpu->run(&s->runs[i]);
    }
    return launched;
}

static int64_t run_stepping(stepping *s, int count, weft_dtype type)
{
    const int64_t launched = launch_stepping(s, count);
    for (int k = 0; k < 4; k++) {
        compare("steps", k, type, 0);
    }
    return launched;
}

static void fill_all(weft_dtype type)
{
    for (int k = 0; k < 4; k++) {
        fill_at_random(k, type);
    }
}

/* Up to 64 parameters in one launch; none of an empty one, which ends it. */
static void test_steps_together(void **state)
{
    (void)state;
    static stepping s;
    static const weft_kernel_id kernels[] = { WEFT_KERNEL_adam, WEFT_KERNEL_sgd_momentum };
    for (int c = 0; c < 4; c++) {
        const weft_dtype type = c < 2 ? WEFT_F32 : WEFT_F64;
        const int whole[] = { 4, 5, 6, 7, 8, 9 }; /* no empty one */
        fill_all(type);
        for (int i = 0; i < 6; i++) {
            add_stepping(&s, i, kernels[c % 2], type, whole[i]);
        }
        assert_int_equal(run_stepping(&s, 6, type), 1);
        fill_all(type);
        for (int i = 0; i < 14; i++) { /* 0 to 2, 4 to 9, 11 to 13 */
            add_stepping(&s, i, kernels[c % 2], type, i);
        }
        assert_int_equal(run_stepping(&s, 14, type), 3);
    }
}

/* Steps of the same parameter follow each other; others, of other scalars or types, have launches of their own. */
static void test_steps_apart(void **state)
{
    (void)state;
    static stepping s;
    fill_all(WEFT_F32);
    for (int i = 0; i < 4; i++) {
        add_stepping(&s, i, WEFT_KERNEL_adam, WEFT_F32, 4 + i % 2);
    }
    assert_int_equal(run_stepping(&s, 4, WEFT_F32), 2);
    fill_all(WEFT_F32);
    for (int i = 0; i < 4; i++) {
        add_stepping(&s, i, i < 2 ? WEFT_KERNEL_adam : WEFT_KERNEL_sgd_momentum, WEFT_F32, 4 + i / 3 + i);
    }
    s.runs[1].scalars[3] = 0.5;
    assert_int_equal(run_stepping(&s, 4, WEFT_F32), 3);
    fill_all(WEFT_BF16);
    for (int i = 0; i < 2; i++) {
        add_stepping(&s, i, WEFT_KERNEL_adam, WEFT_BF16, 4 + i);
    }
    assert_int_equal(run_stepping(&s, 2, WEFT_BF16), 1);
}

/* A row of optimizers.inc, whose parameters and gradients have other types than the states; several panels are steps of their own. */
static void test_rows_together(void **state)
{
    (void)state;
    static stepping s;
    static const weft_dtype types[][3] = { { WEFT_F32, WEFT_F32, WEFT_F32 }, { WEFT_BF16, WEFT_F32, WEFT_BF16 }, { WEFT_F64, WEFT_F32, WEFT_F16 } };
    static const double scalars[WEFT_MAX_SCALARS] = { 0.01, 1e-2, 0.1, 0.9, 0.1, 0.5, 0.25, 0.75 };
    for (int row = 0; row < WEFT_NUM_OPTIMIZER_ROWS; row++) {
        for (size_t c = 0; c < 3 && (row == WEFT_ROW_rmsprop || row == WEFT_ROW_adagrad || row == WEFT_ROW_lion); c++) {
            for (int k = 0; k < 3; k++) {
                fill_at_random(k, types[c][k]);
            }
            for (int i = 0; i < 6; i++) {
                add_stepping(&s, i, WEFT_KERNEL_optimizer, WEFT_F32, 4 + i);
                weft_kernel_args *args = (weft_kernel_args *)(void *)s.args[i];
                args->numbers[0] = row;
                args->numbers[1] = i % 2 == 0 && c == 1 ? 0 : 1; /* others by turns */
                memcpy(s.runs[i].scalars, scalars, sizeof(scalars));
                for (int k = 0; k < 3; k++) {
                    args->operands[k].dtype = types[c][k];
                }
            }
            assert_int_equal(launch_stepping(&s, 6), c == 1 ? 6 : 1);
            for (int k = 0; k < 3; k++) {
                compare("rows", k, types[c][k], 0);
            }
        }
    }
}

/* ---- one kernel on several tensors ------------------------------------------------------------------------ */

enum { PLACE_OF_SET = (LARGEST + 8) * (int)sizeof(double) };
typedef struct sets {
    weft_elementwise_args args[MANY];
    weft_task_run runs[MANY];
    void *on_device[MANY][3], *on_host[MANY][3];
} sets;

/* target = target * b or a * b, elements of types[]; `one`: b is the same element for all of them. */
static void add_set(sets *s, int i, const weft_dtype types[3], bool in_place, bool one, int64_t count)
{
    s->args[i] = (weft_elementwise_args){ .base.dtype = weft_arithmetic_type(types[0]), .ndim = 1, .common = weft_arithmetic_type(types[0]),
                                          .extent = { count }, .types = { types[0], types[1], types[2] }, .stride = { { 1 }, { 1 }, { !one } } };
    for (int k = 0; k < 3; k++) {
        const int from = k == 1 && in_place ? 0 : k;
        const size_t offset = k == 2 && one ? 0 : (size_t)PLACE_OF_SET * (size_t)i + (size_t)(i % 5) * weft_dtype_size(types[from]);
        s->on_device[i][k] = (char *)memory.device[from] + offset;
        s->on_host[i][k] = memory.host[from] + offset;
    }
    s->runs[i] = (weft_task_run){ .kernel = WEFT_KERNEL_mul, .cpu = &weft_cpu_kernels[WEFT_KERNEL_mul], .arguments = &s->args[i],
                                  .num_operands = 3 };
}

static int64_t run_sets(sets *s, int count, const weft_dtype types[3])
{
    static weft_device_error *found[MANY];
    for (int i = 0; i < count; i++) {
        s->runs[i].operands = s->on_device[i];
    }
    const weft_cuda_steps steps = { count, s->runs, (char *)4096, 1 };
    int64_t before = launches_so_far();
    assert_false(weft_cuda_steps_use_scratch(&steps));
    assert_int_equal(weft_cuda_launch_steps(&steps, &memory.queue, found), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    int64_t launched = launches_so_far() - before;
    for (int i = 0; i < count; i++) {
        s->runs[i].operands = s->on_host[i];
        s->runs[i].cpu->run(&s->runs[i]);
    }
    for (int k = 0; k < 3; k++) {
        compare("alike", k, types[k], 0);
    }
    return launched;
}

static void fill_sets(const weft_dtype types[3])
{
    for (int k = 0; k < 3; k++) {
        fill_at_random(k, types[k]);
    }
}

/* Tensors of different sizes at any addresses: 64 in a launch. */
static void test_alike(void **state)
{
    (void)state;
    static sets s;
    static const weft_dtype all[][3] = { { WEFT_F32, WEFT_F32, WEFT_F32 }, { WEFT_BF16, WEFT_BF16, WEFT_F32 }, { WEFT_F32, WEFT_F16, WEFT_BF16 },
                                         { WEFT_F64, WEFT_F64, WEFT_F64 }, { WEFT_I32, WEFT_I32, WEFT_I64 }, { WEFT_F16, WEFT_F16, WEFT_F16 } };
    for (int c = 0; c < 24; c++) {
        const weft_dtype *types = all[c / 4];
        const bool in_place = c & 1 && types[0] == types[1], one = c & 2;
        fill_sets(types);
        for (int i = 0; i < MANY; i++) {
            add_set(&s, i, types, in_place, one, 2 + i * 7 % (LARGEST - 8));
        }
        assert_int_equal(run_sets(&s, MANY, types), 2);
    }
}

/* A tensor that is changed twice, or read after it was changed, has launches of its own; so have other types and scalars. */
static void test_not_alike(void **state)
{
    (void)state;
    static sets s;
    static const weft_dtype types[] = { WEFT_F32, WEFT_F32, WEFT_F32 };
    fill_sets(types);
    for (int i = 0; i < 6; i++) {
        add_set(&s, i, types, true, false, 2 + i);
    }
    for (int k = 0; k < 3; k++) { /* 0 to 2, 3 to 5: with another box, so that they are no chain */
        s.on_device[3][k] = s.on_device[1][k];
        s.on_host[3][k] = s.on_host[1][k];
    }
    assert_int_equal(run_sets(&s, 6, types), 2);
    fill_sets(types);
    for (int i = 0; i < 4; i++) {
        add_set(&s, i, types, false, false, 2 + i);
    }
    s.on_device[2][1] = s.on_device[0][0];
    s.on_host[2][1] = s.on_host[0][0];
    assert_int_equal(run_sets(&s, 4, types), 2);
    fill_sets(types);
    for (int i = 0; i < 4; i++) {
        add_set(&s, i, types, false, false, 2 + i);
    }
    s.args[1].extent[0] = 0; /* empty: nothing is launched for it */
    assert_in_range(run_sets(&s, 4, types), 2, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_chains),
        cmocka_unit_test(test_one_launch),
        cmocka_unit_test(test_values_that_nothing_reads),
        cmocka_unit_test(test_values_written_again_in_part),
        cmocka_unit_test(test_values_in_pieces),
        cmocka_unit_test(test_steps_together),
        cmocka_unit_test(test_steps_apart),
        cmocka_unit_test(test_rows_together),
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_not_alike),
    };
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
