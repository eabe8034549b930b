/* A program of tests/tools/test_trace.py: a backward pass of which one task waits until the gradient of the last layer's
 * weights has been reduced over all ranks. If reductions ran after the backward pass, both would wait for each other. One
 * rank in each process. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/weft.h>

enum { COLUMNS = 8, ROWS_EACH = 4, GIVES_UP_S = 30 };

/* Kernels have no argument for it. */
static atomic_int reduced, gave_up;
static const weft_operation *awaits, *marks;

static void copy_rows(const weft_kernel_call *call)
{
    for (int64_t i = 0; i < weft_view_rows(&call->output); i++) {
        memcpy(weft_view_row(&call->output, i, NULL), weft_view_row(&call->inputs[0], i, NULL), COLUMNS * sizeof(double));
    }
}

static void await_reduction(const weft_kernel_call *call)
{
    const struct timespec pause = { .tv_nsec = 1000000 };
    const time_t begin = time(NULL);
    while (atomic_load(&reduced) == 0 && atomic_load(&gave_up) == 0) {
        nanosleep(&pause, NULL);
        if (time(NULL) - begin > GIVES_UP_S) {
            atomic_store(&gave_up, 1);
        }
    }
    copy_rows(call);
}

static void mark_reduced(const weft_kernel_call *call)
{
    copy_rows(call);
    atomic_store(&reduced, 1);
}

static weft_status await_in_gradient(const weft_gradient_request *request, weft_tensor *gradients[])
{
    gradients[0] = weft_apply(awaits, 1, (weft_tensor *const[]){ request->output_gradients[0] }, NULL);
    return weft_last_status();
}

/* The hook of the last weights: their gradient is whole. */
static weft_status mark(weft_tensor *leaf, weft_tensor *gradient, void *context)
{
    (void)leaf;
    (void)context;
    weft_apply(marks, 1, (weft_tensor *const[]){ gradient }, NULL);
    return weft_last_status();
}

static const weft_operation *of_rows(const char *name, weft_kernel kernel, weft_operation_gradient gradient)
{
    return weft_operation_register(&(weft_operation_description){ .name = name,
                                                                  .rule = "a[b]->a[b]",
                                                                  .inputs = { { "a", WEFT_TYPE_BIT(WEFT_F64), false } },
                                                                  .kernel = kernel,
                                                                  .gradient = gradient });
}

static bool is_everywhere(weft_tensor *tensor, double expected)
{
    double values[COLUMNS * COLUMNS];
    bool right = weft_to_host(tensor, values, sizeof(values)) == WEFT_OK;
    for (int i = 0; i < COLUMNS * COLUMNS && right; i++) {
        right = values[i] == expected;
    }
    return right;
}

static bool compute(void)
{
    int64_t ranks = weft_world_size(), rows = ROWS_EACH * ranks;
    const int64_t inputs[] = { rows, COLUMNS }, weights[] = { COLUMNS, COLUMNS };
    const weft_placement by_rows[] = { weft_shard(0) };
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    const weft_operation *passes = of_rows("pass_rows", copy_rows, await_in_gradient);
    awaits = of_rows("await_reduction", await_reduction, NULL);
    marks = of_rows("mark_reduced", mark_reduced, NULL);
    weft_tensor *x = weft_ones(WEFT_F64, 2, inputs, mesh, by_rows);
    weft_tensor *first = weft_ones(WEFT_F64, 2, weights, mesh, NULL), *last = weft_ones(WEFT_F64, 2, weights, mesh, NULL);
    weft_set_requires_grad(first, true);
    weft_set_requires_grad(last, true);
    weft_set_grad_hook(last, mark, NULL);
    weft_tensor *hidden = weft_apply(passes, 1, (weft_tensor *const[]){ weft_matmul(x, first) }, NULL);
    weft_tensor *loss = weft_sum(weft_matmul(hidden, last), WEFT_ALL_DIMS, false);
    return weft_backward(loss, NULL) == WEFT_OK && is_everywhere(weft_grad(last), (double)(rows * COLUMNS)) &&
           is_everywhere(weft_grad(first), (double)(rows * COLUMNS));
}

int main(void)
{
    /* The waiting task keeps one worker busy. */
    weft_config config = { .workers = 3 };
    if (weft_init(&config) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
        return EXIT_FAILURE;
    }
    weft_scope_begin();
    bool right = compute() && atomic_load(&gave_up) == 0;
    if (!right) {
        fprintf(stderr, "%s%s\n", weft_last_error(), atomic_load(&gave_up) ? "nothing was reduced in the backward pass" : "");
    }
    weft_scope_end();
    return weft_finalize() == WEFT_OK && right ? EXIT_SUCCESS : EXIT_FAILURE;
}
