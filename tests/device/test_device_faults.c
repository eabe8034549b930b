/* Deliberate faults in the library's own code, each found on the stand-in: a barrier, an event and a stream that are not
 * there, host code that reads device memory, a workspace that is too small, memory that is freed while it is copied. Calls of the runtime are wrapped (--wrap), and one kernel is compiled again
 * without its barriers (faulty_kernels.cpp). Without StarPU. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faulty_kernels.h"
#include "view_cases.h"

static struct {
    bool no_events;      /* nothing waits for them */
    cudaStream_t stream; /* takes the place of the one that copies are given; NULL: none */
} fault;

cudaError_t __real_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event);
cudaError_t __wrap_cudaEventSynchronize(cudaEvent_t event)
{
    return fault.no_events ? cudaSuccess : __real_cudaEventSynchronize(event);
}

typedef enum cudaMemcpyKind copy_kind;
cudaError_t __real_cudaMemcpyAsync(void *target, const void *source, size_t size, copy_kind kind, cudaStream_t stream);
cudaError_t __wrap_cudaMemcpyAsync(void *target, const void *source, size_t size, copy_kind kind, cudaStream_t stream);
cudaError_t __wrap_cudaMemcpyAsync(void *target, const void *source, size_t size, copy_kind kind, cudaStream_t stream)
{
    return __real_cudaMemcpyAsync(target, source, size, kind, fault.stream == NULL ? stream : fault.stream);
}

/* ---- tables of panels: copied on a stream ------------------------------------------------------------- */

enum { CALLS = 12, ROWS = 70, COLUMNS = 3, ELEMENTS = ROWS * COLUMNS };

/* Copies an operand of ROWS panels of one row each, more than fit into a kernel's argument, CALLS times; nothing waits between
 * the calls. Each has its part of memory 0 and of memory 1. The number of wrong results. */
static int run_calls(void)
{
    static float got[CALLS * ELEMENTS];
    static view_case calls[CALLS];
    memory.calm = true;
    fill_at_random(1, WEFT_F32);
    assert_int_equal(cudaMemsetAsync(memory.device[0], 0, sizeof(got), memory.stream), cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(memory.stream), cudaSuccess);
    for (int i = 0; i < CALLS; i++) {
        view_case *c = &calls[i];
        memset(c, 0, sizeof(*c));
        c->args = (weft_kernel_args *)(void *)c->memory;
        *c->args = (weft_kernel_args){ .base.dtype = WEFT_F32, .num_outputs = 1, .num_inputs = 1, .numbers = { ROWS } };
        for (int k = 0; k < 2; k++) {
            c->args->operands[k] = (weft_kernel_operand){ .dtype = WEFT_F32, .ndim = 2, .shape = { ROWS, COLUMNS },
                                                          .extent = { ROWS, COLUMNS }, .panel_rows = 1,
                                                          .first_panel = k * ROWS, .num_panels = ROWS };
            for (int row = 0; row < ROWS; row++) {
                c->device[k * ROWS + row] = (float *)memory.device[k] + i * ELEMENTS + row * COLUMNS;
            }
        }
        weft_task_run run = { .kernel = WEFT_KERNEL_triu, .arguments = c->args, .num_operands = 2 * ROWS, .operands = c->device };
        c->args->numbers[0] = -ROWS; /* the whole matrix */
        assert_int_equal(weft_cuda_kernels[WEFT_KERNEL_triu](&run, &memory.queue), cudaSuccess);
    }
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    assert_int_equal(cudaMemcpy(got, memory.device[0], sizeof(got), cudaMemcpyDeviceToHost), cudaSuccess);
    int wrong = 0;
    for (int i = 0; i < CALLS; i++) {
        wrong += memcmp(got + i * ELEMENTS, memory.host[1] + (size_t)i * ELEMENTS * sizeof(float), ELEMENTS * sizeof(float)) != 0;
    }
    return wrong;
}

/* A fault of order shows in some of the runs. */
static int run_often(void)
{
    int wrong = 0;
    for (int i = 0; i < 20; i++) {
        wrong += run_calls();
    }
    return wrong;
}

static void test_without_a_fault(void **state)
{
    (void)state;
    assert_int_equal(run_often(), 0);
}

/* Tables are overwritten while they are copied. */
static void test_removed_event(void **state)
{
    (void)state;
    fault.no_events = true;
    assert_true(run_often() > 0);
    fault.no_events = false;
}

/* Tables are copied in another stream of the device than the one that their kernels wait in. */
static void test_wrong_stream(void **state)
{
    (void)state;
    assert_int_equal(run_calls(), 0); /* the queue has its memory */
    assert_int_equal(cudaStreamCreateWithFlags(&fault.stream, cudaStreamNonBlocking), cudaSuccess);
    assert_true(run_often() > 0);
    assert_int_equal(cudaStreamDestroy(fault.stream), cudaSuccess);
    fault.stream = NULL;
}

/* ---- barriers -------------------------------------------------------------------------------------------- */

/* Whether lines of values are sorted. */
enum { VALUES = 6000 };
static bool sorts(weft_cuda_run kernel, weft_cuda_queue *queue, int lines, int length)
{
    static double got[VALUES];
    view_case c;
    begin_case(&c, WEFT_KERNEL_sort);
    memory.calm = true;
    part of = { .ndim = 2, .shape = { lines, length }, .extent = { lines, length } };
    const int count = lines * length;
    assert_true(count <= VALUES);
    c.args->numbers[0] = 1;
    c.args->numbers[1] = 0;
    add_output(&c, WEFT_F64, &of, true);
    add_input(&c, WEFT_F64, &of, true);
    weft_task_run run = { .kernel = WEFT_KERNEL_sort, .arguments = c.args, .num_operands = c.num_panels, .operands = c.device };
    bool sorted = kernel(&run, queue) == cudaSuccess && cudaStreamSynchronize(memory.stream) == cudaSuccess &&
                  cudaMemcpy(got, c.device[0], (size_t)count * sizeof(got[0]), cudaMemcpyDeviceToHost) == cudaSuccess;
    for (int i = 0; i < count; i++) {
        sorted = sorted && (i % length == 0 || got[i - 1] <= got[i]);
    }
    return sorted;
}

static void test_removed_barriers(void **state)
{
    (void)state;
    assert_true(sorts(weft_cuda_sort, &memory.queue, 8, 100));
    assert_false(sorts(faulty_sort, &memory.queue, 8, 100));
}

/* ---- host code that reads device memory ------------------------------------------------------------------ */

/* A CPU's kernel is given a device's addresses: in a process of its own, which is ended. */
static void test_host_code(void **state)
{
    (void)state;
    view_case c;
    begin_case(&c, WEFT_KERNEL_triu);
    part of = { .ndim = 2, .shape = { 4, 4 }, .extent = { 4, 4 } };
    add_output(&c, WEFT_F32, &of, true);
    add_input(&c, WEFT_F32, &of, true);
    for (int reads = 0; reads < 2; reads++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL); /* cmocka's */
            weft_kernel_error error = { .status = WEFT_OK };
            void *operands[] = { c.host[0], reads ? c.device[1] : c.host[1] };
            weft_task_run run = { .kernel = c.kernel, .cpu = &weft_cpu_kernels[c.kernel], .arguments = c.args,
                                  .num_operands = 2, .operands = operands, .error = &error };
            run.cpu->run(&run);
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(reads ? WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* ---- memory that is too small, or gone: in programs of their own, which end ------------------------------------- */

/* A line whose parts are merged in scratch memory: the second half of the workspace, which a faulty queue does not have. */
static int sort_in_workspace(bool faulty)
{
    weft_cuda_queue queue = { .stream = memory.stream, .workspace_bytes = 1 << 18 };
    bool done = cudaMalloc(&queue.workspace, (faulty ? 1 : 2) * queue.workspace_bytes) == cudaSuccess &&
                sorts(weft_cuda_sort, &queue, 1, VALUES);
    return done && cudaFree(queue.workspace) == cudaSuccess ? 0 : 1;
}

/* The home of a tensor is freed before the copy to it has ended. */
static int free_home(bool faulty)
{
    enum { COPIES = 64 };
    void *home = NULL;
    bool done = cudaHostAlloc(&home, MEMORY_BYTES, cudaHostAllocDefault) == cudaSuccess;
    for (int i = 0; i < COPIES && done; i++) {
        done = cudaMemcpyAsync(home, memory.device[0], MEMORY_BYTES, cudaMemcpyDeviceToHost, memory.stream) == cudaSuccess;
    }
    done = done && (faulty || cudaStreamSynchronize(memory.stream) == cudaSuccess);
    return done && cudaFreeHost(home) == cudaSuccess ? 0 : 1;
}

static int run_fault(const char *name, bool faulty)
{
    signal(SIGABRT, SIG_DFL);
    set_up_memory(NULL);
    return strcmp(name, "workspace") == 0 ? sort_in_workspace(faulty) : free_home(faulty);
}

/* Whether the program, run again with these arguments, ends well. */
static bool ends_well(const char *name, const char *how)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("STAND_IN_DELAY_US", "1000", 1);
        execl("/proc/self/exe", "test-device_faults", name, how, (char *)NULL);
        _exit(2);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void test_wrong_workspace(void **state)
{
    (void)state;
    assert_true(ends_well("workspace", "right"));
    assert_false(ends_well("workspace", "wrong"));
}

static void test_freed_home(void **state)
{
    (void)state;
    assert_true(ends_well("home", "right"));
    assert_false(ends_well("home", "wrong"));
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        return run_fault(argv[1], strcmp(argv[2], "wrong") == 0);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_fault), cmocka_unit_test(test_removed_event), cmocka_unit_test(test_wrong_stream),
        cmocka_unit_test(test_removed_barriers), cmocka_unit_test(test_host_code),
        cmocka_unit_test(test_wrong_workspace), cmocka_unit_test(test_freed_home),
    };
    return cmocka_run_group_tests(tests, set_up_memory, tear_down_memory);
}
