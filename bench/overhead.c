/* The cost of an operation beside its arithmetic: the sum of two tiny tensors on meshes of one rank and of
 * two, alternating with the same tasks submitted to StarPU directly. Takes the minimum over several runs,
 * because other programs disturb. Also the time of a cache hit for the layouts of a call (with the checks
 * of inputs).
 *
 * With "recorded" one of the tensors requires a gradient; "backward" is the pass over such an addition.
 *
 *   us_per_op      microseconds per call, from the first call to the end of the last task
 *   submit_us      of these, processor time of the calling thread */
#include <starpu.h>
#include <string.h>

#include "bench.h"
#include "dispatch/cache.h"
#include "ops/ops.h"

enum { OPERATIONS = 20000, ELEMENTS = 4, MAX_RANKS = 2 };

typedef struct times {
    double us, submit_us; /* per operation */
} times;

static double thread_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static void keep_least(times *least, double us, double submit_us)
{
    least->us = us < least->us ? us : least->us;
    least->submit_us = submit_us < least->submit_us ? submit_us : least->submit_us;
}

/* `recorded`: on a tape, which forgets each addition with its result. */
static void run_weft(weft_mesh *mesh, int ranks, bool recorded, times *least)
{
    int64_t shape[] = { ELEMENTS * ranks };
    weft_placement split = weft_shard(0);
    weft_scope_begin();
    weft_tensor *a = weft_ones(WEFT_F32, 1, shape, mesh, &split),
                *b = weft_ones(WEFT_F32, 1, shape, mesh, &split);
    weft_set_requires_grad(b, recorded);
    weft_wait();
    double start = bench_now_us(), thread = thread_us();
    for (int i = 0; i < OPERATIONS; i++) {
        weft_scope_begin();
        weft_add(a, b);
        weft_scope_end();
    }
    double submit_us = thread_us() - thread;
    weft_wait();
    double us = bench_now_us() - start;
    weft_scope_end();
    bench_check();
    keep_least(least, us / OPERATIONS, submit_us / OPERATIONS);
}

/* A chain of additions, and the pass back over it: its gradients are computed by no task, as that of a sum is the
 * gradient itself. */
static void run_backward(weft_mesh *mesh, int ranks, times *least)
{
    enum { CHAIN = OPERATIONS / 10 };
    int64_t shape[] = { ELEMENTS * ranks };
    weft_placement split = weft_shard(0);
    weft_scope_begin();
    weft_tensor *a = weft_ones(WEFT_F32, 1, shape, mesh, &split), *b = weft_ones_like(a), *sum = b;
    weft_set_requires_grad(b, true);
    for (int i = 0; i < CHAIN; i++) {
        sum = weft_add(a, sum);
    }
    weft_wait();
    const weft_backward_options options = { .output_gradient = a };
    double start = bench_now_us(), thread = thread_us();
    weft_backward(sum, &options);
    double submit_us = thread_us() - thread;
    weft_wait();
    double us = bench_now_us() - start;
    weft_scope_end();
    bench_check();
    keep_least(least, us / CHAIN, submit_us / CHAIN);
}

static void show_tape(weft_mesh *mesh, int ranks)
{
    times recorded = { 1e9, 1e9 }, plain = { 1e9, 1e9 }, back = { 1e9, 1e9 };
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        run_weft(mesh, ranks, false, &plain);
        run_weft(mesh, ranks, true, &recorded);
        run_backward(mesh, ranks, &back);
    }
    printf("{\"bench\": \"overhead\", \"case\": \"add, %d rank%s, recorded\", \"us_per_op\": %.3f, "
           "\"vs_unrecorded\": %.3f, \"submit_us\": %.3f, \"unrecorded_submit_us\": %.3f, "
           "\"backward_us_per_op\": %.3f}\n",
           ranks, ranks == 1 ? "" : "s", recorded.us, recorded.us / plain.us, recorded.submit_us, plain.submit_us,
           back.submit_us);
}

static void add(void *buffers[], void *argument)
{
    (void)argument;
    float *out = (float *)STARPU_VARIABLE_GET_PTR(buffers[0]);
    const float *a = (const float *)STARPU_VARIABLE_GET_PTR(buffers[1]);
    const float *b = (const float *)STARPU_VARIABLE_GET_PTR(buffers[2]);
    for (int i = 0; i < ELEMENTS; i++) {
        out[i] = a[i] + b[i];
    }
}

static struct starpu_codelet add_codelet = { .cpu_funcs = { add },
                                             .nbuffers = 3,
                                             .modes = { STARPU_W, STARPU_R, STARPU_R } };

static void run_by_hand(int ranks, times *least)
{
    static float memory[MAX_RANKS][3][ELEMENTS];
    starpu_data_handle_t handles[MAX_RANKS][3];
    for (int rank = 0; rank < ranks; rank++) {
        for (int i = 0; i < 3; i++) {
            starpu_variable_data_register(&handles[rank][i], STARPU_MAIN_RAM, (uintptr_t)memory[rank][i],
                                          sizeof(memory[rank][i]));
        }
    }
    double start = bench_now_us(), thread = thread_us();
    for (int i = 0; i < OPERATIONS; i++) {
        for (int rank = 0; rank < ranks; rank++) {
            struct starpu_task *task = starpu_task_create();
            task->cl = &add_codelet;
            for (int k = 0; k < 3; k++) {
                task->handles[k] = handles[rank][k];
            }
            if (starpu_task_submit(task) != 0) {
                exit(1);
            }
        }
    }
    double submit_us = thread_us() - thread;
    starpu_task_wait_for_all();
    double us = bench_now_us() - start;
    for (int rank = 0; rank < ranks; rank++) {
        for (int i = 0; i < 3; i++) {
            starpu_data_unregister(handles[rank][i]);
        }
    }
    keep_least(least, us / OPERATIONS, submit_us / OPERATIONS);
}

/* ---- the dispatcher's cache ---------------------------------------------------------------------------- */

static const weft_operation *find_operation(const char *name)
{
    for (const weft_operation *const *const *family = weft_operation_families; *family != NULL; family++) {
        for (const weft_operation *const *operation = *family; *operation != NULL; operation++) {
            if (strcmp((*operation)->name, name) == 0) {
                return *operation;
            }
        }
    }
    fprintf(stderr, "there is no operation %s\n", name);
    exit(1);
}

/* The layouts that a call is dispatched with, after the checks of its inputs. */
static bool look_up(const weft_call *call)
{
    weft_tensor_impl *inputs[WEFT_MAX_INPUTS];
    weft_sharding own;
    weft_cached_call *cached = NULL;
    int guessed;
    bool live = true;
    for (int i = 0; i < call->num_inputs && live; i++) {
        inputs[i] = weft_check_tensor(call->function, call->operation->inputs[i].name, call->inputs[i]);
        live = inputs[i] != NULL;
    }
    bool found = live && weft_obtain_layouts(call, inputs, &own, &guessed, &cached) != NULL;
    weft_cache_release(cached);
    return found;
}

/* Nanoseconds of a repeated call. */
static double time_hit(const weft_call *call)
{
    enum { LOOKUPS = 200000 };
    double start = bench_now_us();
    for (int i = 0; i < LOOKUPS; i++) {
        if (!look_up(call)) {
            exit(1);
        }
    }
    return (bench_now_us() - start) * 1e3 / LOOKUPS;
}

static void show_hit(const char *name, const weft_call *call)
{
    double ns[BENCH_REPETITIONS];
    look_up(call);
    uint64_t misses = weft_runtime.counters.dispatch_misses;
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        ns[i] = time_hit(call);
    }
    bench_check();
    printf("{\"bench\": \"overhead\", \"case\": \"cache hit, %s\", \"ns\": %.0f, \"misses\": %llu}\n", name,
           bench_median(ns, BENCH_REPETITIONS),
           (unsigned long long)(weft_runtime.counters.dispatch_misses - misses));
}

/* Among as many other entries as a program with many layers and shapes has. */
static void show_hits(weft_mesh *mesh)
{
    enum { OTHERS = 1000, SIDE = 2 * OTHERS };
    int64_t shape[] = { SIDE, SIDE };
    weft_placement split = weft_shard(0);
    weft_scope_begin();
    weft_tensor *a = weft_ones(WEFT_F32, 2, shape, mesh, &split),
                *b = weft_ones(WEFT_F32, 2, shape, mesh, &split), *row = weft_slice(b, 0, 0, 1, 1);
    for (int i = 0; i < OTHERS; i++) {
        weft_slice(a, 1, i, i + OTHERS / 2, 1);
    }
    weft_wait();
    bench_check();
    show_hit("add", &(weft_call){ .function = "bench",
                                  .operation = find_operation("add"),
                                  .num_inputs = 2,
                                  .inputs = { a, b } });
    show_hit("where, broadcasting", &(weft_call){ .function = "bench",
                                                  .operation = find_operation("where"),
                                                  .num_inputs = 3,
                                                  .inputs = { weft_gt(a, b), row, b } });
    show_hit("permute", &(weft_call){ .function = "bench",
                                      .operation = find_operation("permute"),
                                      .num_inputs = 1,
                                      .inputs = { a },
                                      .attributes = { .num_numbers = 2, .numbers = { 1, 0 } } });
    weft_scope_end();
}

static void show(int ranks)
{
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.world = WEFT_WORLD_SELF;
    config.ranks = ranks;
    weft_init(&config);
    bench_check();
    int64_t size = ranks;
    weft_mesh *mesh = weft_mesh_create(1, &size, NULL);
    times ours = { 1e9, 1e9 }, raw = { 1e9, 1e9 };
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        run_weft(mesh, ranks, false, &ours);
        run_by_hand(ranks, &raw);
    }
    const char *tunables = getenv("GLIBC_TUNABLES");
    printf("{\"bench\": \"overhead\", \"case\": \"add, %d rank%s%s%s\", \"us_per_op\": %.3f, "
           "\"raw_us_per_op\": %.3f, "
           "\"vs_raw_starpu\": %.3f, \"submit_us\": %.3f, \"raw_submit_us\": %.3f}\n",
           ranks, ranks == 1 ? "" : "s", tunables == NULL ? "" : ", ", tunables == NULL ? "" : tunables,
           ours.us, raw.us, ours.us / raw.us, ours.submit_us, raw.submit_us);
    show_tape(mesh, ranks);
    if (ranks == MAX_RANKS) {
        show_hits(mesh);
    }
    if (weft_finalize() != WEFT_OK) {
        exit(1);
    }
}

int main(void)
{
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++) {
        show(ranks);
    }
    return 0;
}
