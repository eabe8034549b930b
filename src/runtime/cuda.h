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
/* Lets StarPU run the codelet's tasks on devices, if it has a CUDA function and StarPU drives devices. */
void weft_cuda_fill_in(weft_codelet *codelet);
/* A panel is about to be granted in memory node `granted`, to be written in whole, once its dependencies are fulfilled: frees
 * its memory on devices, where that is scarce. StarPU does not evict a panel that is granted so, not even the copies that hold
 * former values: many messages that wait for their peers would keep all memory from the tasks that the peers wait for. Any
 * thread. */
void weft_cuda_free_stale(starpu_data_handle_t handle, int granted);
/* The memory node of the device with CUDA's number `device`; -1: this process does not compute on it. */
int weft_cuda_node_of(int device);
/* BLOCKS until the handle's values are in a device's memory, where they stay until weft_cuda_let_go(): a device that has them
 * already, else the one with this number among those of the process. Nothing may write to the handle meanwhile. Returns the
 * device's memory node, and writes the values' address there. */
int weft_cuda_hold(starpu_data_handle_t handle, int number, void **memory);
/* Where they lie in a node that holds them. */
void *weft_cuda_held(starpu_data_handle_t handle, int node);
/* BLOCKS until all kernels that were launched before on the node's device have ended, the program's own too. A number for
 * weft_cuda_error_name(); 0: they have. */
int weft_cuda_wait(int node);
/* They need not stay there: no kernel reads them any more. */
void weft_cuda_let_go(starpu_data_handle_t handle, int node);
/* The devices that StarPU drives, a line each, with the rates that it has measured; or that there are none. */
void weft_cuda_print(FILE *file);
/* After the last task, before starpu_shutdown(). */
void weft_cuda_stop(void);

#endif
