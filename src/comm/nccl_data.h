/* The data table over NCCL. */
#ifndef WEFT_SRC_COMM_NCCL_DATA_H
#define WEFT_SRC_COMM_NCCL_DATA_H

#include "comm/nccl_library.h"
#include "comm/transport.h"

/* What a process brings. The library, the communicator and the table below belong to the table from then on. */
typedef struct weft_nccl_parts {
    weft_nccl_library nccl;
    ncclComm_t comm;
    int device, node;      /* CUDA's number; StarPU's memory node */
    int processes;
    int64_t round_bytes;   /* to or from one process in a round: the same on every process */
    int64_t granted_bytes; /* of panels on the device, at most */
} weft_nccl_parts;

/* Bytes of device memory that the table takes. */
int64_t weft_nccl_staging_bytes(int processes, int64_t round_bytes);
/* A cudaError_t; 0: *data is the table over what it was. */
int weft_nccl_data_open(const weft_nccl_parts *parts, weft_data *data);

#endif
