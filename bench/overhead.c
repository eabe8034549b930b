/* What an operation costs beside its arithmetic: the sum of two tiny tensors on a mesh of two ranks, and the
 * same tasks submitted to StarPU by hand. */
#include <starpu.h>

#include "bench.h"

enum { OPERATIONS = 20000, ELEMENTS = 4, RANKS = 2 };

static double run_weft(weft_mesh *mesh)
{
    int64_t shape[] = { ELEMENTS * RANKS };
    weft_placement split = weft_shard(0);
    weft_scope_open();
    weft_tensor *a = weft_ones(WEFT_F32, 1, shape, mesh, &split),
                *b = weft_ones(WEFT_F32, 1, shape, mesh, &split);
    weft_wait();
    double start = bench_now_us();
    for (int i = 0; i < OPERATIONS; i++) {
        weft_scope_open();
        weft_add(a, b);
        weft_scope_close();
    }
    weft_wait();
    double us = bench_now_us() - start;
    weft_scope_close();
    bench_check();
    return us;
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

static double run_by_hand(void)
{
    static float memory[RANKS][3][ELEMENTS];
    starpu_data_handle_t handles[RANKS][3];
    for (int rank = 0; rank < RANKS; rank++) {
        for (int i = 0; i < 3; i++) {
            starpu_variable_data_register(&handles[rank][i], STARPU_MAIN_RAM, (uintptr_t)memory[rank][i],
                                          sizeof(memory[rank][i]));
        }
    }
    double start = bench_now_us();
    for (int i = 0; i < OPERATIONS; i++) {
        for (int rank = 0; rank < RANKS; rank++) {
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
    starpu_task_wait_for_all();
    double us = bench_now_us() - start;
    for (int rank = 0; rank < RANKS; rank++) {
        for (int i = 0; i < 3; i++) {
            starpu_data_unregister(handles[rank][i]);
        }
    }
    return us;
}

int main(void)
{
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.world = WEFT_WORLD_SELF;
    config.ranks = RANKS;
    weft_init(&config);
    bench_check();
    int64_t size = RANKS;
    weft_mesh *mesh = weft_mesh_create(1, &size, NULL);
    double ours[BENCH_REPETITIONS], raw[BENCH_REPETITIONS];
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        ours[i] = run_weft(mesh) / OPERATIONS;
        raw[i] = run_by_hand() / OPERATIONS;
    }
    double us = bench_median(ours, BENCH_REPETITIONS), raw_us = bench_median(raw, BENCH_REPETITIONS);
    const char *tunables = getenv("GLIBC_TUNABLES");
    printf("{\"bench\": \"overhead\", \"case\": \"add%s%s\", \"us_per_op\": %.3f, \"raw_us_per_op\": %.3f, "
           "\"vs_raw_starpu\": %.3f}\n",
           tunables == NULL ? "" : ", ", tunables == NULL ? "" : tunables, us, raw_us, us / raw_us);
    return weft_finalize() == WEFT_OK ? 0 : 1;
}
