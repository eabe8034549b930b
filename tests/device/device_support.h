/* Memory of a stand-in device beside memory of this process, for tests that run a kernel on both and compare. */
#ifndef WEFT_TESTS_DEVICE_SUPPORT_H
#define WEFT_TESTS_DEVICE_SUPPORT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#include "codelets/cuda/kernels.h"
#include "prng.h"
#include "stand_in.h"

/* WEFT_TEST_GPU: the tests are compiled for a GPU (script/test --gpu), and run on its first device. On the stand-in they run on
 * its second, so that a kernel on a device that nobody chose is seen. */
#ifdef WEFT_TEST_GPU
enum { TEST_DEVICE = 0 };
#else
enum { TEST_DEVICE = 1 };
#endif

enum { MEMORY_BYTES = 1 << 16, MOST_MEMORY_BYTES = 1 << 18, NUM_MEMORIES = 8 };

typedef struct test_memory {
    void *device[NUM_MEMORIES];
    unsigned char host[NUM_MEMORIES][MOST_MEMORY_BYTES];
    size_t bytes; /* of each */
    cudaStream_t stream; /* of TEST_DEVICE */
    weft_cuda_queue queue;
    prng random;
    bool calm; /* numbers are neither special nor large */
    weft_dtype arithmetic; /* of the kernel that runs, where it is less precise than its operands; WEFT_F64: it is not */
} test_memory;

extern test_memory memory;

/* A group's set-up and tear-down: the memory and the stream. */
int set_up_memory(void **state);
int tear_down_memory(void **state);
/* Between cases: MEMORY_BYTES, as at first, or up to MOST_MEMORY_BYTES. */
void resize_memory(size_t bytes);

/* Kernels that weft's code has launched on the device. */
int64_t launches_so_far(void);
/* That the device and a CPU have the same bits of this kernel: on the stand-in of each. */
bool runs_exactly(weft_kernel_id kernel);

int64_t below(int64_t n);
/* Small numbers, and special ones unless memory.calm. */
double any_number(void);
/* Fills memory number k on both sides with values of a type. */
void fill_at_random(int k, weft_dtype dtype);
/* Launches the kernel on the device, and runs it here afterwards; `host` and `device` are its operands' addresses. Both find
 * the same errors. */
void run_on_both(const weft_task_run *run, void *host[], void *device[]);
/* A number of a floating type, and one that is rounded to it. */
double number_at(weft_dtype dtype, const unsigned char *at);
void set_number_at(weft_dtype dtype, unsigned char *at, double number);
/* What memory number k has on the device, until the next call. */
const unsigned char *fetch_memory(int k);
/* The numbers of memory k on both sides differ by no more than a share of the expected one and an absolute bound: of floating types. NaN and
 * infinities are equal. */
void compare_within(const char *name, int k, weft_dtype dtype, double relative, double absolute);
/* The numbers of memory k on both sides differ by no more than `share` of the largest one: of floating types. All of it. */
void compare_near(const char *name, int k, weft_dtype dtype, double share);
/* That memory number k has equal bits on both sides, from element 0 of the first `shift` bytes on. All of it, so that a
 * write beside a box is seen too. All NaN are alike. On a GPU results of a kernel that does not run exactly may differ by some units in the
 * last place: how much is printed. */
void compare(const char *name, int k, weft_dtype dtype, size_t shift);

#endif
