/* Rounds of a group, for the NCCL transport (nccl_data.c).
 *
 * A group is carried out in rounds, so that staging buffers are bounded: a round takes of each pair of processes as many
 * messages as fit, which both sides count alike. Messages that are contiguous in device memory leave from and arrive in their
 * panels; others are packed and unpacked by kernels. A round is put into the stream as a whole (packing, one ncclGroup,
 * unpacking, an event), so rounds use the same buffers without any wait, and nothing but the event is looked at. Panels that
 * lie in main memory pass through pinned memory of the round. */
#ifndef WEFT_SRC_COMM_NCCL_ROUND_H
#define WEFT_SRC_COMM_NCCL_ROUND_H

#include <cuda_runtime_api.h>
#include <pthread.h>

#include "codelets/cuda/kernels.h"
#include "comm/nccl_data.h"

/* Pinned memory, in use by a round or kept for the next. */
typedef struct weft_pinned {
    struct weft_pinned *next;
    char *memory;
    size_t size;
} weft_pinned;

/* A message on its way through staging buffers. */
typedef struct weft_staged {
    const weft_group_message *message;
    char *device; /* packed */
    char *host;   /* packed, of a panel in main memory; NULL: the panel is on the device */
} weft_staged;

typedef struct weft_nccl_round {
    struct weft_nccl_round *next;
    cudaEvent_t end;
    weft_pinned *pinned;
    bool issued;
    int count, reported; /* messages */
    weft_staged messages[];
} weft_nccl_round;

typedef struct weft_nccl_data {
    weft_data below;
    weft_nccl_parts parts;
    cudaStream_t stream;
    weft_cuda_queue queue; /* for kernels on the stream */
    char *staging;         /* of sends, then of receives */
    int64_t half;          /* bytes of each */
    weft_pinned *spare;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex; /* guards all below, and spare */
    pthread_cond_t wake;
    weft_nccl_round *first, *last, *next; /* next: to be issued */
    bool stopping;
    ncclResult_t failed;
    int device_failed; /* a cudaError_t */
} weft_nccl_data;

/* Bytes of a message in staging buffers. */
static inline int64_t weft_nccl_rounded(int64_t bytes)
{
    enum { ALIGNMENT = 16 };
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The rounds of a group, linked in their order. NULL: no memory. */
weft_nccl_round *weft_nccl_rounds_new(weft_nccl_data *data, int count, const weft_group_message messages[]);
/* A list of rounds that are not under way, or never will be. */
void weft_nccl_rounds_free(weft_nccl_data *data, weft_nccl_round *first);
/* The issuing thread: puts a round into the stream, and notes whether NCCL or the device has failed. */
void weft_nccl_round_issue(weft_nccl_data *data, weft_nccl_round *round);
/* After its end: what arrived for panels in main memory. */
void weft_nccl_round_write(const weft_nccl_round *round);

#endif
