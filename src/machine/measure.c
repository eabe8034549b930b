#include "machine/measure.h"

#include <math.h>
#include <starpu.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/linear.h"

/* As many as the time allows, but several: a shared machine may stand still during one. */
enum { FEWEST_REPETITIONS = 3, MAX_REPETITIONS = 9 };
static const double max_us = 50e3;

/* The shortest time of once(argument), in microseconds: disturbances only slow a machine down, and the
 * next start should find the same. */
static double shortest_us(void (*once)(void *), void *argument)
{
    double shortest = INFINITY, begin = starpu_timing_now(), now = begin;
    for (int i = 0; i < MAX_REPETITIONS && (i < FEWEST_REPETITIONS || now - begin < max_us); i++) {
        double before = starpu_timing_now();
        once(argument);
        now = starpu_timing_now();
        shortest = now - before < shortest ? now - before : shortest;
    }
    return shortest;
}

static void do_nothing(void *buffers[], void *argument)
{
    (void)buffers;
    (void)argument;
}

static struct starpu_codelet nothing_codelet = { .cpu_funcs = { do_nothing },
                                                 .nbuffers = 2,
                                                 .modes = { STARPU_RW, STARPU_R },
                                                 .name = "weft_calibrate_task" };

/* Like weft's own tasks: two panels each. */
enum { NUM_PANELS = 8, NUM_TASKS = 256 };

typedef struct task_probe {
    starpu_data_handle_t panels[NUM_PANELS + 1]; /* the last one is read by all */
    bool failed;
} task_probe;

static void run_tasks(void *argument)
{
    task_probe *probe = argument;
    for (int i = 0; i < NUM_TASKS && !probe->failed; i++) {
        struct starpu_task *task = starpu_task_create();
        task->cl = &nothing_codelet;
        task->handles[0] = probe->panels[i % NUM_PANELS];
        task->handles[1] = probe->panels[NUM_PANELS];
        if (starpu_task_submit(task) != 0) {
            task->destroy = 0;
            starpu_task_destroy(task);
            probe->failed = true;
        }
    }
    for (int i = 0; i < NUM_PANELS; i++) { /* the program may have tasks of its own */
        starpu_data_acquire(probe->panels[i], STARPU_R);
        starpu_data_release(probe->panels[i]);
    }
}

static bool measure_task(weft_machine *machine)
{
    task_probe probe = { .failed = false };
    float memory[NUM_PANELS + 1] = { 0 };
    for (int i = 0; i <= NUM_PANELS; i++) {
        starpu_variable_data_register(&probe.panels[i], STARPU_MAIN_RAM, (uintptr_t)&memory[i],
                                      sizeof(memory[i]));
    }
    run_tasks(&probe);
    double us = shortest_us(run_tasks, &probe) / NUM_TASKS;
    for (int i = 0; i <= NUM_PANELS; i++) {
        starpu_data_unregister(probe.panels[i]);
    }
    machine->task_us = us;
    return !probe.failed;
}

/* Larger than most caches, and touched in 0.02 s. */
static const size_t copy_bytes = (size_t)32 << 20;
enum { PRODUCT_SIZE = 512 };

static void copy_once(void *argument)
{
    char *memory = argument;
    memcpy(memory, memory + copy_bytes, copy_bytes);
}

static void multiply_once(void *argument)
{
    enum { N = PRODUCT_SIZE };
    float *a = argument, *b = a + N * N, *c = b + N * N;
    const weft_gemm product = { .dtype = WEFT_F32, .m = N, .n = N, .k = N, .lda = N, .ldb = N, .ldc = N, .alpha = 1 };
    weft_multiply(&product, a, b, c);
}

typedef struct rates_probe {
    weft_machine *machine;
    bool measured;
} rates_probe;

/* On a worker. */
static void measure_rates(void *buffers[], void *argument)
{
    (void)buffers;
    rates_probe *probe = *(rates_probe **)argument;
    weft_machine *machine = probe->machine;
    char *memory = malloc(2 * copy_bytes);
    if (memory == NULL) {
        return;
    }
    memset(memory, 0, 2 * copy_bytes);
    machine->copy_bytes_per_us = (double)copy_bytes / shortest_us(copy_once, memory);
    multiply_once(memory);
    machine->product_flops_per_us =
        2.0 * PRODUCT_SIZE * PRODUCT_SIZE * PRODUCT_SIZE / shortest_us(multiply_once, memory);
    free(memory);
    probe->measured = true;
}

static struct starpu_codelet rates_codelet = { .cpu_funcs = { measure_rates },
                                               .name = "weft_calibrate_rates" };

bool weft_machine_measure(weft_machine *machine)
{
    weft_blas_use_one_thread();
    bool task_measured = measure_task(machine);
    rates_probe rates = { .machine = machine };
    rates_probe *argument = &rates;
    struct starpu_task *task = starpu_task_create();
    task->cl = &rates_codelet;
    task->cl_arg = &argument;
    task->cl_arg_size = sizeof(argument);
    task->synchronous = 1;
    if (starpu_task_submit(task) != 0) {
        task->destroy = 0;
        starpu_task_destroy(task);
    }
    return task_measured && rates.measured && weft_machine_possible(machine);
}
