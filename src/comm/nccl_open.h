/* The NCCL transport: carries the messages of stages between processes that all compute on devices, in groups of ncclSend()
 * and ncclRecv(), and leaves all else to the transport below. */
#ifndef WEFT_SRC_COMM_NCCL_OPEN_H
#define WEFT_SRC_COMM_NCCL_OPEN_H

#include "comm/transport.h"

/* After StarPU's start and weft_runtime_configure(). Collective: puts NCCL over the data table if all processes can have it
 * and none sets WEFT_NCCL=0. Errors are kept, the same on every process: WEFT_NCCL=1 on one, and it cannot be had; or
 * NCCL has failed. A build without NCCL changes nothing, and refuses WEFT_NCCL=1. *told: every process knows of the error,
 * and closes the transport as usual. */
weft_status weft_nccl_open(const char *function, const weft_settings *settings, weft_transport *transport, bool *told);

#endif
