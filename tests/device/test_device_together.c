/* Steps of optimisers for several parameters, and an elementwise kernel on several tensors, as one launch: compiled for the stand-in,
 * against the kernels one by one on a CPU. Without StarPU. */
#include "codelets/cuda/chain.h"
#include "codelets/elementwise.h"
#include "codelets/kernel.h"
#include "codelets/optimizers.h"
#include "device_support.h"

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
        cmocka_unit_test(test_steps_together),
        cmocka_unit_test(test_steps_apart),
        cmocka_unit_test(test_rows_together),
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_not_alike),
    };
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
