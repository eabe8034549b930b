/* Before main(): a machine without a GPU skips the test (meson knows 77). */
#include <stdio.h>
#include <stdlib.h>

#include "codelets/cuda/kernels.h"

static void __attribute__((constructor)) skip_without_gpu(void)
{
    if (weft_cuda_count_devices() <= 0) {
        printf("skipped: there is no GPU\n");
        exit(77);
    }
}
