#include "runtime/calibrate.h"

#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <starpu.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/linear.h"
#include "runtime/runtime.h"

const char weft_machine_builtin[] = "built in", weft_machine_kept[] = "kept",
           weft_machine_measured[] = "measured";

/* ---- measuring ----------------------------------------------------------------------------------------- */

/* As many as the time allows, but several: a machine that is shared may stand still during one. */
enum { FEWEST_REPETITIONS = 3, MAX_REPETITIONS = 9 };
static const double max_us = 50e3;

/* Of the time of once(argument), the shortest, in microseconds: what disturbs a machine only slows it down,
 * and the next start should find the same. */
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

/* As weft's own tasks: two panels each, and no more. */
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
    for (int i = 0; i < NUM_PANELS; i++) { /* not for all tasks: StarPU may have some of the program */
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
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, a, N, b, N, 0, c, N);
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

/* ---- for the reader ------------------------------------------------------------------------------------ */

static void print_figure(FILE *file, const char *name, double measured, double used, const char *unit)
{
    fprintf(file, "  %-26s %10.4g %-8s taken for %.4g\n", name, measured, unit, used);
}

static void print_link(FILE *file, const char *name, const weft_link *measured, const weft_link *used)
{
    if (!weft_link_known(measured)) {
        fprintf(file, "  %s: not known\n", name);
        return;
    }
    fprintf(file, "  %s:\n", name);
    print_figure(file, "  latency", measured->latency_us, used->latency_us, "us");
    print_figure(file, "  a message", measured->message_us, used->message_us, "us");
    print_figure(file, "  rate", measured->bytes_per_us, used->bytes_per_us, "MB/s");
}

static void print_consequences(FILE *file)
{
    const weft_panel_policy *p = &weft_runtime.panels;
    if (p->forced_rows > 0) {
        fprintf(file, "panels: of %lld rows (WEFT_PANEL_ROWS)\n", (long long)p->forced_rows);
    } else if (p->target_bytes > 0) {
        fprintf(file, "panels: of at least %lld bytes (WEFT_PANEL_BYTES), at most about %lld per shard\n",
                (long long)p->target_bytes, (long long)p->max_panels);
    } else {
        fprintf(file,
                "panels: sqrt(bytes x %.4g us / %.4g us) per shard, at most about %lld; of at least %lld "
                "bytes, and %lld "
                "rows or a quarter of the shard\n",
                p->byte_us, p->panel_us, (long long)p->max_panels, (long long)p->min_bytes,
                (long long)p->min_rows);
    }
    fprintf(file, "messages: of at most %lld bytes, about %lld of them under way to a process\n",
            (long long)weft_runtime.messages.max_bytes, (long long)weft_runtime.messages.window_bytes);
}

weft_status weft_print_machine(FILE *file)
{
    weft_status status = weft_require_init("weft_print_machine");
    if (status != WEFT_OK) {
        return status;
    }
    if (file == NULL) {
        return weft_fail(WEFT_ERR_INVALID, "weft_print_machine", "file is NULL");
    }
    const weft_machine *measured = &weft_runtime.machine;
    bool builtin = weft_runtime.machine_source == weft_machine_builtin;
    weft_machine used = builtin ? *measured : weft_machine_rounded(measured);
    char path[PATH_MAX];
    bool has_path = !builtin && weft_runtime.process == 0 && weft_machine_path(path, sizeof(path));
    fprintf(file, "machine (%s%s%s)\n", weft_runtime.machine_source, has_path ? ": " : "",
            has_path ? path : "");
    print_figure(file, "a task", measured->task_us, used.task_us, "us");
    print_figure(file, "a copy by one worker", measured->copy_bytes_per_us, used.copy_bytes_per_us, "MB/s");
    print_figure(file, "a product by one worker", measured->product_flops_per_us, used.product_flops_per_us,
                 "MFLOP/s");
    print_link(file, "between two processes of one machine", &measured->near, &used.near);
    print_link(file, "between two machines", &measured->far, &used.far);
    fprintf(file, "world: %d processes, %d machines\n", weft_runtime.spread.processes,
            weft_runtime.spread.machines);
    print_consequences(file);
    return WEFT_OK;
}
