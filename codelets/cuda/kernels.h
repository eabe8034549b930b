/* Kernels for CUDA devices, launched on a stream. */
#ifndef WEFT_CODELETS_CUDA_KERNELS_H
#define WEFT_CODELETS_CUDA_KERNELS_H

#include "codelets/cuda/call.h"

WEFT_BEGIN_DECLS

/* Error words of one task, at most, and of a queue whose owner does not say how many. */
enum { WEFT_CUDA_TASK_ERRORS = 32, WEFT_CUDA_ERRORS = 2 * WEFT_CUDA_TASK_ERRORS };
enum { WEFT_CUDA_TABLES = 4, WEFT_CUDA_CUBLAS = 1 << 16, WEFT_CUDA_NO_CUBLAS = 1 << 17, WEFT_CUDA_NO_THREAD, WEFT_CUDA_CUFFT = 1 << 18 };

/* A stream, and memory for what its kernels need beside their operands: begins with the stream and zeros; used by one
 * thread, with the stream's device as the current one. */
typedef struct weft_cuda_queue {
    void *stream; /* a cudaStream_t */
    /* Panels' addresses on their way to the device: pinned memory used in turn, each with the event after its copy. */
    void **tables, *table;
    void *copied[WEFT_CUDA_TABLES];
    int next_table;
    /* Error words in device memory, used in turn, and pinned memory to which they are copied after their kernels. There are enough
     * for all tasks on the stream whose end has not been noted: as many as StarPU launches before it knows the end of the first. */
    weft_device_error *device_errors, *errors;
    int next_error;
    int num_errors; /* set by the owner, before the first kernel; 0: WEFT_CUDA_ERRORS */
    /* Set by a launch whose kernel can find invalid values: that kernel's error, to be read after the stream's work. */
    weft_device_error *pending;
    /* For products: cuBLAS and its handle, opened and created with the first one; its stream and device; and memory (products.h). */
    void *blas, *blas_stream, *workspace;
    size_t workspace_bytes;
    int device;
    bool tf32; /* set by the owner: products in single precision may round their operands to TF32 */
    /* Set by the owner. Kernels may add in an order of their own, contract products and sums, and call libraries. Equal calls still
     * give equal bits on one model of device. false: the CPU's order and bits wherever a kernel can have them. */
    bool fast;
    void *dnn; /* for fast operations: what it has of cuDNN's (dnn.h) */
    void *fourier; /* likewise of cuFFT's (fourier.h) */
} weft_cuda_queue;

/* Allocates the error words, on the queue's device, before panels have filled its memory. A cudaError_t; if it is not 0 the first
 * kernel that needs them tries again. */
int weft_cuda_queue_reserve(weft_cuda_queue *queue);
/* On the queue's thread, with its stream set: allocates and creates all that kernels would else allocate and create when they first
 * need it, as that waits for the whole device. What fails is tried again by the first kernel that needs it. */
void weft_cuda_queue_start(weft_cuda_queue *queue);
/* Likewise for products: the handle. */
void weft_cuda_products_start(weft_cuda_queue *queue);
/* Gives the memory back, after the stream's last kernel. */
void weft_cuda_queue_free(weft_cuda_queue *queue);
/* The part of it that products.cu has allocated. */
void weft_cuda_products_free(weft_cuda_queue *queue);

/* Launches the kernel of a task whose operands are addresses in the device's memory; does not wait. Returns a
 * cudaError_t, or WEFT_CUDA_CUBLAS and a cublasStatus_t, or WEFT_CUDA_CUFFT and a cufftResult, or WEFT_CUDA_NO_CUBLAS; 0 if it was launched. The task's arguments are
 * read before it returns; run->error is not written. */
typedef int (*weft_cuda_run)(const weft_task_run *run, weft_cuda_queue *queue);

/* NULL: the kernel runs on CPUs only. All are NULL in a build without CUDA (none.c). */
extern const weft_cuda_run weft_cuda_kernels[WEFT_KERNEL_COUNT];
/* Runs a kernel that the program has registered: its CUDA function is run->cpu->cuda_views. */
int weft_cuda_views(const weft_task_run *run, weft_cuda_queue *queue);

/* Devices of this machine, 0 without a driver; -1: a build without CUDA. */
int weft_cuda_count_devices(void);
/* Bytes of memory of a device, in use or not; 0: CUDA does not say. */
int64_t weft_cuda_device_bytes(int device);
/* The device whose memory it is; -1: none, the host reads it. */
int weft_cuda_device_of(const void *memory);
/* BLOCKS until all work that was given to the device before has ended, that of the program's own streams too. It becomes the thread's
 * current device. A cudaError_t. */
int weft_cuda_synchronize(int device);
/* To be called once on the thread that asks for streams' status: its questions do not end other threads' captures of CUDA
 * graphs. */
void weft_cuda_watch_begin(void);
/* Status of a device's stream: 0 (idle, busy, or CUDA does not say), or the cudaError_t. Any thread. */
int weft_cuda_stream_status(int device, void *stream);
/* The name that CUDA or cuBLAS has for the result of a weft_cuda_run; of WEFT_CUDA_NO_THREAD (runtime/cuda.h), too. */
const char *weft_cuda_error_name(int failed);

#define WEFT_TASK_KERNEL(name, color, cuda) int weft_cuda_##name(const weft_task_run *run, weft_cuda_queue *queue);
#define WEFT_VIEW_KERNEL(name, color, cuda) WEFT_TASK_KERNEL(name, color, cuda)
#include "codelets/kernels.inc"
#include "codelets/kernels_end.inc"
int weft_cuda_elementwise(const weft_task_run *run, weft_cuda_queue *queue);
/* Launches as many of `count` runs, from the first on, as can be one launch; the first one is a step of an optimiser. Sets *launched to
 * their number, or 0: its tensors do not lie in one piece each. The second: of rows of optimizers.inc. */
int weft_cuda_steps_together(const weft_task_run runs[], int count, weft_cuda_queue *queue, int *launched);
int weft_cuda_rows_together(const weft_task_run runs[], int count, weft_cuda_queue *queue, int *launched);

WEFT_END_DECLS

#endif
