/* Tests call weft_sweep_for_tests() before each public function: sweeping.py writes the calls. */
#include <time.h>

#include "runtime/runtime.h"
#include "tensor/tensor.h"

void weft_sweep_for_tests(void);

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* After a second of sweeps a quarter of the time, so that tests with 100,000 tensors end. */
void weft_sweep_for_tests(void)
{
    static double began_s, swept_s;
    if (!weft_may_call() || !weft_runtime.initialized || !weft_is_between_calls()) {
        return;
    }
    double start_s = now_s();
    began_s = began_s == 0 ? start_s : began_s;
    if (swept_s < 1 + (start_s - began_s) / 4) {
        weft_runtime.sweep_layouts();
        swept_s += now_s() - start_s;
    }
}
