/* device: a stand-in for CUDA devices, test code only. Libraries that take the place of libcudart (cudart.cpp) and of
 * libcublas (cublas.cpp), a process that stands for the devices (device_process.cpp), and the header by which the C++
 * compiler compiles kernels (stand_in_kernels.h).
 *
 * Device memory is mapped at the same addresses in this process, where it cannot be read or written, and in the
 * devices' process, which was forked before main(): a pointer to host memory made later means nothing there. So host
 * code that touches device memory, and kernels that are given host pointers, crash, as with a device.
 *
 *     STAND_IN_DEVICES    their number, 0 to 8 (0)
 *     STAND_IN_BYTES      memory of each (268435456)
 *     STAND_IN_MAPPED     1: this process reads and writes device memory as well, as a device-aware MPI does (0)
 *     STAND_IN_DELAY_US   each stream waits at random before what it does, at most so long (0)
 *     STAND_IN_ORDER      of the threads of a kernel: forwards, backwards, shuffled (forwards)
 *     STAND_IN_SEED       of the two (0)
 *     STAND_IN_NO_CUBLAS  1: cuBLAS gives no handle (0)
 *     STAND_IN_FAILING_LT 1: cuBLASLt launches nothing, and leaves an error of the runtime (0)
 *     STAND_IN_FFT_BYTES  what plans of cuFFT want more of a work area (0)
 *     STAND_IN_CAPTURES   1: cudaDeviceSynchronize() fails as while a stream is captured (0)
 *     STAND_IN_NOTE       a cudnnBackendNumericalNote_t that each of cuDNN's engines has (none) */
#ifndef WEFT_TESTS_STAND_IN_H
#define WEFT_TESTS_STAND_IN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* WEFT_DEVICES of tests that use more than one, if there are: compiled for GPUs (WEFT_TEST_GPU) they run where there is one. */
#ifdef WEFT_TEST_GPU
#define TEST_ALL_DEVICES "1"
#else
#define TEST_ALL_DEVICES "2"
#endif

enum { STAND_IN_MAX_DEVICES = 8, STAND_IN_MAX_ARGUMENT = 4096 }; /* bytes of a kernel's arguments, as CUDA's limit */

/* What a device has done. */
typedef struct stand_in_counts {
    int64_t launches;
    int64_t bytes_in, bytes_out; /* copied from and to host memory */
    int64_t bytes_peer;          /* received from other devices */
    int64_t peak_bytes;          /* memory in use at once */
} stand_in_counts;

stand_in_counts stand_in_device_counts(int device);

/* Calls of this process, and memory of the host. */
typedef struct stand_in_calls {
    int64_t mallocs, frees;                  /* device memory */
    int64_t host_allocs, host_frees;         /* pinned memory */
    int64_t registers, unregisters;          /* memory pinned later */
    int64_t pinned_bytes;                    /* now, of both kinds */
    int64_t pageable_bytes;                  /* copied between devices and memory that is not pinned: the call waits */
    int64_t synchronizations;                /* cudaDeviceSynchronize() */
    int64_t late_loads;                      /* kernels that their first launch loaded, and waited for the device */
} stand_in_calls;

stand_in_calls stand_in_counted_calls(void);
/* cudaSetDevice() on this thread. */
int64_t stand_in_choices(void);

/* ---- between the parts of the stand-in ----------------------------------------------------------------- */

typedef struct stand_in_order {
    int direction; /* 1: forwards, -1: backwards, 0: shuffled */
    uint64_t seed;
} stand_in_order;

/* Goes through all threads of a kernel, in the devices' process. */
typedef void (*stand_in_runner)(void (*kernel)(void), const void *argument, unsigned blocks, unsigned threads,
                                stand_in_order order);

/* Puts a kernel into a stream. A cudaError_t. */
int stand_in_launch(stand_in_runner runner, void (*kernel)(void), const void *argument, size_t size, unsigned blocks,
                    unsigned threads, void *stream);

/* Puts a function into a stream. */
void stand_in_push(void *stream, void (*work)(void *), void *argument);
int stand_in_device_of(void *stream);
/* Where the stand-in itself reads and writes memory of a device; NULL: not all of it is in use there. */
void *stand_in_view(int device, const void *pointer, size_t size);

/* ---- NCCL (nccl.cpp) ----------------------------------------------------------------------------------- */

/* What the communicators of this process have done. */
typedef struct stand_in_nccl_counts {
    int64_t groups, messages, bytes; /* begun; sent */
    int64_t mismatches;              /* messages that met one of another group or size */
    int64_t communicators;           /* made so far */
} stand_in_nccl_counts;

/* Of libnccl's stand-in, found with dlsym(). */
stand_in_nccl_counts stand_in_nccl_counted(void);

#ifdef __cplusplus
}
#endif

#endif
