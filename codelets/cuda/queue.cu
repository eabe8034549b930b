/* Launching kernels on views: tables of panels, and error words. */
#include <string.h>

#include "codelets/cuda/dnn.h"
#include "codelets/cuda/fourier.h"
#include "codelets/cuda/views.h"

namespace
{

const size_t table_bytes = WEFT_DEVICE_MAX_PANELS * sizeof(void *);

int allocate_tables(weft_cuda_queue *queue)
{
    cudaError_t failed = queue->table == NULL ? cudaMalloc((void **)&queue->table, table_bytes) : cudaSuccess;
    if (failed == cudaSuccess && queue->tables == NULL) {
        failed = cudaHostAlloc((void **)&queue->tables, WEFT_CUDA_TABLES * table_bytes, cudaHostAllocDefault);
    }
    for (int i = 0; i < WEFT_CUDA_TABLES && failed == cudaSuccess; i++) {
        failed = queue->copied[i] != NULL
                     ? cudaSuccess
                     : cudaEventCreateWithFlags((cudaEvent_t *)&queue->copied[i], cudaEventDisableTiming);
    }
    return (int)failed;
}

/* Copies the panels' addresses to the device. Its table is written after the former kernel, which is on the same
 * stream; only memory here is waited for. */
int send_table(weft_cuda_queue *queue, const weft_task_run *run)
{
    int failed = queue->copied[WEFT_CUDA_TABLES - 1] != NULL ? 0 : allocate_tables(queue);
    if (failed != 0) {
        return failed;
    }
    int number = queue->next_table;
    queue->next_table = (number + 1) % WEFT_CUDA_TABLES;
    cudaEvent_t copied = (cudaEvent_t)queue->copied[number];
    void **here = queue->tables + (size_t)number * WEFT_DEVICE_MAX_PANELS;
    size_t bytes = (size_t)run->num_operands * sizeof(void *);
    failed = (int)cudaEventSynchronize(copied);
    if (failed == 0) {
        memcpy(here, run->operands, bytes);
        failed = (int)cudaMemcpyAsync(queue->table, here, bytes, cudaMemcpyHostToDevice, (cudaStream_t)queue->stream);
    }
    return failed != 0 ? failed : (int)cudaEventRecord(copied, (cudaStream_t)queue->stream);
}

}

int weft_call_begin(weft_device_call *call, const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_device_call_fill(call, run);
    if (run->num_operands <= WEFT_DEVICE_PANELS) {
        return 0;
    }
    int failed = send_table(queue, run);
    call->table = (void *const *)queue->table;
    return failed;
}

int weft_cuda_queue_reserve(weft_cuda_queue *queue)
{
    queue->num_errors = queue->num_errors > 0 ? queue->num_errors : WEFT_CUDA_ERRORS;
    const size_t bytes = (size_t)queue->num_errors * sizeof(weft_device_error);
    cudaError_t failed = cudaSuccess;
    if (queue->device_errors == NULL) {
        failed = cudaMalloc((void **)&queue->device_errors, bytes);
    }
    if (failed == cudaSuccess && queue->errors == NULL) {
        failed = cudaHostAlloc((void **)&queue->errors, bytes, cudaHostAllocDefault);
    }
    return (int)failed;
}

void weft_cuda_queue_start(weft_cuda_queue *queue)
{
    const size_t fewest = 128 << 20; /* else panels need the tables' memory more */
    size_t unused, total = 0;
    int failed = weft_cuda_queue_reserve(queue);
    if (cudaMemGetInfo(&unused, &total) == cudaSuccess && total >= fewest && failed == 0) {
        failed = allocate_tables(queue);
    }
    if (failed != 0) {
        cudaGetLastError(); /* else the next launch would have it */
    }
    weft_cuda_products_start(queue);
}

int weft_error_begin(weft_device_error **error, weft_cuda_queue *queue)
{
    int failed = weft_cuda_queue_reserve(queue);
    if (failed != 0) {
        return failed;
    }
    *error = queue->device_errors + queue->next_error;
    return (int)cudaMemsetAsync(*error, 0, sizeof(**error), (cudaStream_t)queue->stream);
}

int weft_error_end(const weft_device_error *error, weft_cuda_queue *queue)
{
    queue->pending = queue->errors + queue->next_error;
    queue->next_error = (queue->next_error + 1) % queue->num_errors;
    return (int)cudaMemcpyAsync(queue->pending, error, sizeof(*error), cudaMemcpyDeviceToHost,
                                (cudaStream_t)queue->stream);
}

void weft_cuda_queue_free(weft_cuda_queue *queue)
{
    for (int i = 0; i < WEFT_CUDA_TABLES; i++) {
        if (queue->copied[i] != NULL) {
            cudaEventDestroy((cudaEvent_t)queue->copied[i]);
        }
    }
    weft_cuda_products_free(queue);
    weft_dnn_free(queue);
    weft_fourier_free(queue);
    cudaFree(queue->table); /* no memory: nothing */
    cudaFree(queue->device_errors);
    if (queue->tables != NULL) {
        cudaFreeHost(queue->tables);
    }
    if (queue->errors != NULL) {
        cudaFreeHost(queue->errors);
    }
}
