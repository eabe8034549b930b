/* CUDA devices: their number, and the kernels that run on them. */
#ifndef WEFT_SRC_RUNTIME_CUDA_H
#define WEFT_SRC_RUNTIME_CUDA_H

#include <stdio.h>

#include "runtime/codelets.h"

/* Before starpu_init(): sets the devices of this process (settings->devices). WEFT_ERR_UNSUPPORTED, kept, if there
 * are fewer on this machine. */
weft_status weft_cuda_choose(const char *function, const weft_settings *settings, weft_process_place place,
                             struct starpu_conf *conf);
/* After starpu_init(): notes how much memory the devices have. WEFT_ERR_UNSUPPORTED, kept, if StarPU does not drive
 * as many as were set. */
weft_status weft_cuda_started(const char *function, const weft_settings *settings, const struct starpu_conf *conf);
/* Gives a codelet the CUDA function of its kernel, if it has one and StarPU drives devices. */
void weft_cuda_fill_in(struct starpu_codelet *codelet, weft_kernel_id kernel);
/* The devices that StarPU drives, a line each, with the rates that it has measured; or that there are none. */
void weft_cuda_print(FILE *file);
/* Behind the last task, before starpu_shutdown(). */
void weft_cuda_stop(void);

#endif
