/* The delay of training steps by asynchronous saves. A step is the forward and backward pass of an MLP and AdamW
 * on its parameters, in place; a save takes parameters and both moments. Times of steps without a save and of
 * those during which one is under way alternate in one run; then blocking saves, for comparison.
 *
 *     bench-checkpoint [LAYERS WIDTH BATCH]
 *     {"bench": "checkpoint", "mbytes": ..., "step_ms": ..., "step_during_save_ms": ..., "delay_percent": ...,
 *      "save_ms": ..., "call_ms": ..., "blocking_save_ms": ...} */
#include <unistd.h>

#include "bench.h"

enum { MAX_LAYERS = 32, STATES = 3, SAVES = 7, QUIET_STEPS = 6 };

static int layers = 6;
static int64_t width = 1024, batch = 2048;
static weft_tensor *parameters[MAX_LAYERS], *first[MAX_LAYERS], *second[MAX_LAYERS], *x, *dy;
static int64_t steps;

static void step(void)
{
    const weft_adam_options options = WEFT_ADAMW_DEFAULT;
    weft_tensor *inputs[MAX_LAYERS + 1] = { x }, *gradients[MAX_LAYERS], *d = dy;
    weft_scope_begin();
    for (int i = 0; i < layers; i++) {
        inputs[i + 1] = weft_relu(weft_matmul(inputs[i], parameters[i]));
    }
    for (int i = layers - 1; i >= 0; i--) {
        gradients[i] = weft_matmul_ex(inputs[i], true, d, false);
        d = weft_matmul_ex(d, false, parameters[i], true);
    }
    steps++;
    weft_adamw(layers, parameters, gradients, first, second, steps, &options);
    weft_scope_end();
    weft_wait();
    bench_check();
}

static double time_step(void)
{
    double begin = bench_now_us();
    step();
    return (bench_now_us() - begin) * 1e-3;
}

static void make(void)
{
    const int64_t shape[] = { width, width }, rows[] = { batch, width };
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ weft_world_size() }, NULL);
    const weft_placement by_rows[] = { weft_shard(0) };
    weft_mesh_push(mesh);
    for (int i = 0; i < layers; i++) {
        parameters[i] = weft_scale_inplace(weft_randn(WEFT_F32, 2, shape, mesh, NULL), 0.02);
        first[i] = weft_zeros_like(parameters[i]);
        second[i] = weft_zeros_like(parameters[i]);
    }
    x = weft_randn(WEFT_F32, 2, rows, mesh, by_rows);
    dy = weft_scale_inplace(weft_randn(WEFT_F32, 2, rows, mesh, by_rows), 1e-3);
    bench_check();
}

int main(int argc, char *argv[])
{
    static char names[STATES * MAX_LAYERS][24];
    static const char *name_list[STATES * MAX_LAYERS];
    weft_tensor *tensors[STATES * MAX_LAYERS];
    double quiet[SAVES * QUIET_STEPS], saves[SAVES], calls[SAVES], blocking[SAVES], *busy = NULL;
    size_t num_busy = 0;
    if (argc > 3) {
        layers = atoi(argv[1]) < MAX_LAYERS ? atoi(argv[1]) : MAX_LAYERS;
        width = atol(argv[2]);
        batch = atol(argv[3]);
    }
    if (weft_init(NULL) != WEFT_OK) {
        bench_check();
    }
    make();
    char path[64];
    snprintf(path, sizeof(path), "weft-bench-%d.safetensors", (int)getppid());
    int count = 0;
    for (int i = 0; i < layers; i++) {
        weft_tensor *const states[STATES] = { parameters[i], first[i], second[i] };
        for (int k = 0; k < STATES; k++, count++) {
            snprintf(names[count], sizeof(names[count]), "%d.%d", i, k);
            name_list[count] = names[count];
            tensors[count] = states[k];
        }
    }
    for (int i = 0; i < 3; i++) {
        step();
    }
    for (int s = 0; s < SAVES; s++) {
        for (int i = 0; i < QUIET_STEPS; i++) {
            quiet[s * QUIET_STEPS + i] = time_step();
        }
        double begin = bench_now_us();
        weft_checkpoint_saving *saving = weft_checkpoint_save_async(path, count, name_list, tensors, NULL);
        calls[s] = (bench_now_us() - begin) * 1e-3;
        for (bool ended = false; !ended; weft_checkpoint_test(saving, &ended)) {
            busy = realloc(busy, (num_busy + 1) * sizeof(*busy));
            busy[num_busy++] = time_step();
        }
        saves[s] = (bench_now_us() - begin) * 1e-3;
        weft_checkpoint_wait(saving);
        begin = bench_now_us();
        weft_checkpoint_save(path, count, name_list, tensors, NULL);
        blocking[s] = (bench_now_us() - begin) * 1e-3;
        bench_check();
    }
    double total = 0;
    for (size_t i = 0; i < num_busy; i++) {
        total += busy[i] / (double)num_busy;
    }
    double step_ms = bench_median(quiet, SAVES * QUIET_STEPS), busy_ms = bench_median(busy, num_busy);
    if (weft_process_index() == 0) {
        printf("{\"bench\": \"checkpoint\", \"mbytes\": %.0f, \"step_ms\": %.1f, \"step_during_save_ms\": %.1f, "
               "\"mean_step_during_save_ms\": %.1f, \"delay_percent\": %.1f, \"mean_delay_percent\": %.1f, \"steps_per_save\": %.1f, "
               "\"save_ms\": %.0f, \"call_ms\": %.2f, \"blocking_save_ms\": %.0f}\n",
               (double)(count * width * width) * 4e-6, step_ms, busy_ms, total, 100 * (busy_ms / step_ms - 1),
               100 * (total / step_ms - 1), (double)num_busy / SAVES, bench_median(saves, SAVES), bench_median(calls, SAVES),
               bench_median(blocking, SAVES));
        remove(path);
    }
    free(busy);
    return weft_finalize() == WEFT_OK ? 0 : 1;
}
