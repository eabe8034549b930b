/* The table of kernels: numbers and names are unique, every operation's kernel is in it, each has a codelet
 * and a performance model of its own; and StarPU sees them: tasks are of the kernel's codelet, calibrated
 * models have its name. */
#include "support.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codelets/cuda/kernels.h"
#include "codelets/elementwise.h"
#include "codelets/kernel.h"
#include "codelets/linear.h"
#include "ops/ops.h"
#include "runtime/codelets.h"

static void start(void)
{
    WORLD(1, .world = WEFT_WORLD_SELF);
    int64_t size = 1;
    assert_int_equal(weft_mesh_push(weft_mesh_create(1, &size, NULL)), WEFT_OK);
}

static void test_rows_are_complete(void **state)
{
    (void)state;
    for (weft_kernel_id i = WEFT_KERNEL_NONE + 1; i < WEFT_KERNEL_COUNT; i++) {
        const weft_kernel_info *info = &weft_kernel_infos[i];
        assert_non_null(info->name);
        assert_true(info->color != 0);
        assert_non_null(info->footprint);
        assert_non_null(info->accesses);
        assert_non_null(weft_cpu_kernels[i].run);
        assert_true((info->form == WEFT_FORM_VIEWS) == (weft_cpu_kernels[i].views != NULL));
        assert_true((info->form == WEFT_FORM_ELEMENTWISE) == weft_kernel_is_elementwise(i));
        assert_ptr_equal(weft_kernel_info_of(i), info);
        for (weft_kernel_id k = i + 1; k < WEFT_KERNEL_COUNT; k++) {
            assert_string_not_equal(info->name, weft_kernel_infos[k].name);
        }
    }
}

/* All elementwise kernels have a CUDA function in a build with CUDA, and none has one in another. */
static void test_cuda_functions(void **state)
{
    (void)state;
    bool built = weft_cuda_count_devices() >= 0;
    for (weft_kernel_id i = WEFT_KERNEL_NONE + 1; i < WEFT_KERNEL_COUNT; i++) {
        if (weft_kernel_is_elementwise(i) || !built) {
            assert_true((weft_cuda_kernels[i] != NULL) == built);
        }
    }
    assert_null(weft_cuda_kernels[WEFT_KERNEL_NONE]);
}

static void test_operations_have_kernels(void **state)
{
    (void)state;
    int operations = 0;
    for (const weft_operation *const *const *family = weft_operation_families; *family != NULL; family++) {
        for (const weft_operation *const *o = *family; *o != NULL; o++, operations++) {
            bool known = (*o)->kernel > WEFT_KERNEL_NONE && (*o)->kernel < WEFT_KERNEL_COUNT;
            if (!known && (*o)->lower == NULL && (*o)->expand == NULL) {
                fail_msg("%s has kernel %u, and no lowering or expansion of its own", (*o)->name, (*o)->kernel);
            }
        }
    }
    assert_true(operations > 100);
}

static void test_codelets_and_models(void **state)
{
    (void)state;
    start();
    for (weft_kernel_id i = WEFT_KERNEL_NONE + 1; i < WEFT_KERNEL_COUNT; i++) {
        const weft_codelet *codelet = weft_codelet_of(i);
        assert_string_equal(codelet->starpu.name, weft_kernel_infos[i].name);
        assert_int_equal(codelet->starpu.color, weft_kernel_infos[i].color);
        assert_ptr_equal(codelet->starpu.model, &codelet->model);
        assert_int_equal(codelet->model.type, STARPU_HISTORY_BASED);
        char symbol[100];
        snprintf(symbol, sizeof(symbol), "weft_%s", weft_kernel_infos[i].name);
        assert_string_equal(codelet->model.symbol, symbol);
    }
    assert_int_equal(weft_finalize(), WEFT_OK);
}

/* ---- footprints ---------------------------------------------------------------------------------------- */

static uint32_t footprint(weft_kernel_id kernel, const void *arguments, int num_operands)
{
    weft_task_run run = { .kernel = kernel, .arguments = arguments, .num_operands = num_operands };
    return weft_kernel_infos[kernel].footprint(&run);
}

/* The same for tasks of equal sizes, another for other sizes. */
static void test_footprints(void **state)
{
    (void)state;
    weft_gemm_args product = { .base.dtype = WEFT_F32, .input_type = WEFT_F32 };
    product.gemm = (weft_gemm){ .dtype = WEFT_F32, .m = 3, .n = 4, .k = 5, .lda = 5, .ldb = 4, .ldc = 4 };
    uint32_t first = footprint(WEFT_KERNEL_matmul, &product, 3);
    product.gemm.alpha = 2; /* takes no longer */
    assert_int_equal(footprint(WEFT_KERNEL_matmul, &product, 3), first);
    product.gemm.m = 4;
    assert_int_not_equal(footprint(WEFT_KERNEL_matmul, &product, 3), first);

    weft_elementwise_args sum = { .base.dtype = WEFT_F32, .ndim = 1, .extent = { 7 } };
    first = footprint(WEFT_KERNEL_add, &sum, 3);
    sum.extent[1] = 9; /* beyond ndim */
    assert_int_equal(footprint(WEFT_KERNEL_add, &sum, 3), first);
    sum.extent[0] = 8;
    assert_int_not_equal(footprint(WEFT_KERNEL_add, &sum, 3), first);

    weft_kernel_args *rows = calloc(1, weft_kernel_args_size(2, 0));
    assert_non_null(rows);
    rows->num_outputs = 1;
    rows->num_inputs = 1;
    rows->operands[0] =
        (weft_kernel_operand){ .dtype = WEFT_F32, .ndim = 1, .shape = { 64 }, .extent = { 8 } };
    rows->operands[1] = rows->operands[0];
    first = footprint(WEFT_KERNEL_softmax, rows, 2);
    rows->operands[0].offset[0] = 16; /* another part of the tensor */
    assert_int_equal(footprint(WEFT_KERNEL_softmax, rows, 2), first);
    rows->operands[0].extent[0] = 9;
    assert_int_not_equal(footprint(WEFT_KERNEL_softmax, rows, 2), first);
    free(rows);
}

/* ---- as StarPU sees them ------------------------------------------------------------------------------- */

static void twice(const weft_kernel_call *call)
{
    double *out = weft_view_row(&call->output, 0, NULL);
    const double *in = weft_view_row(&call->inputs[0], 0, NULL);
    for (int64_t i = 0; i < weft_view_count(&call->output); i++) {
        out[i] = 2 * in[i];
    }
}

static void call_some(void)
{
    weft_placement whole = weft_replicate();
    int64_t square[] = { 4, 4 };
    const weft_operation *own =
        weft_operation_register(&(weft_operation_description){ .name = "times two/of mine",
                                                               .rule = "A->A",
                                                               .inputs = { { "a", WEFT_TYPES_ALL, false } },
                                                               .kernel = twice });
    assert_non_null(own);
    weft_scope_begin();
    weft_tensor *a = weft_ones(WEFT_F64, 2, square, NULL, &whole);
    weft_tensor *indices = weft_zeros(WEFT_I64, 1, (int64_t[]){ 3 }, NULL, &whole);
    for (int i = 0; i < 3; i++) {
        weft_add(a, a);
        weft_matmul(a, a);
        weft_softmax(a, 1);
        weft_embedding(a, indices);
        weft_apply(own, 1, (weft_tensor *[]){ a }, NULL);
    }
    weft_scope_end();
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_int_equal(weft_last_status(), WEFT_OK);
}

static const char *const called[] = { "constant", "add", "matmul", "softmax", "embedding" };

/* StarPU counts the tasks of each codelet. */
static void test_tasks_are_of_their_kernels(void **state)
{
    (void)state;
    start();
    call_some();
    for (weft_kernel_id i = WEFT_KERNEL_NONE + 1; i <= WEFT_KERNEL_COUNT; i++) {
        const struct starpu_codelet *codelet = &weft_codelet_of(i)->starpu;
        bool expected = i == WEFT_KERNEL_COUNT; /* the program's own */
        for (size_t k = 0; k < sizeof(called) / sizeof(called[0]); k++) {
            expected = expected || strcmp(called[k], codelet->name) == 0;
        }
        unsigned long tasks = 0;
        for (unsigned w = 0; w < starpu_worker_get_count(); w++) {
            tasks += codelet->per_worker_stats[w];
        }
        if ((tasks > 0) != expected) {
            fail_msg("%s: %lu tasks", codelet->name, tasks);
        }
    }
    assert_string_equal(weft_codelet_of(WEFT_KERNEL_COUNT)->starpu.name, "times two/of mine");
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static bool has_model(const char *symbol)
{
    char path[4096] = "";
    starpu_perfmodel_get_model_path(symbol, path, sizeof(path));
    return path[0] != '\0' && access(path, R_OK) == 0;
}

/* With STARPU_CALIBRATE StarPU writes a model for each kernel that ran, under its name. */
static void test_models_are_kept(void **state)
{
    (void)state;
    char folder[] = "/tmp/weft-kernels-XXXXXX", command[100];
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("STARPU_PERF_MODEL_DIR", folder, 1), 0);
    assert_int_equal(setenv("STARPU_CALIBRATE", "1", 1), 0);
    start();
    call_some();
    assert_int_equal(weft_finalize(), WEFT_OK);
    start(); /* StarPU says where models are while it runs */
    for (size_t k = 0; k < sizeof(called) / sizeof(called[0]); k++) {
        char symbol[100];
        snprintf(symbol, sizeof(symbol), "weft_%s", called[k]);
        if (!has_model(symbol)) {
            fail_msg("no model %s in %s", symbol, folder);
        }
    }
    assert_true(has_model("weft_times_two_of_mine"));
    assert_false(has_model("weft_gelu"));
    assert_int_equal(weft_finalize(), WEFT_OK);
    assert_int_equal(unsetenv("STARPU_CALIBRATE"), 0);
    assert_int_equal(unsetenv("STARPU_PERF_MODEL_DIR"), 0);
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_complete),          cmocka_unit_test(test_cuda_functions),
        cmocka_unit_test(test_operations_have_kernels),
        cmocka_unit_test(test_codelets_and_models),        cmocka_unit_test(test_footprints),
        cmocka_unit_test(test_tasks_are_of_their_kernels), cmocka_unit_test(test_models_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
