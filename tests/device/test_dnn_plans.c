/* cuDNN, without a GPU: from the description of an H100 it makes plans of weft's graphs for the sizes of bench/gpu.c and of
 * examples/transformer_lm, and others. Skipped where libcudnn.so.9 or NVRTC, which compiles its kernels, are missing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "codelets/cuda/dnn_attention.h"
#include "codelets/cuda/dnn_convolution.h"

static const char h100[] =
    "{\"cudaDeviceId\":0,\"deviceVer\":900,\"driverVer\":13000,\"totalGlobalMem\":85029158912,"
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
    "\"multiProcessorCount\":132,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
    "\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":1980000,"
    "\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800,\"deviceName\":\"NVIDIA H100 80GB HBM3\"}";

enum { MOST_BYTES = 1 << 30 };

/* cuDNN and NVRTC keep memory that nothing points to once they are unloaded, and LeakSanitizer cannot name modules that are gone. The
 * stand-in's cuDNN (cudnn.cpp) runs the same calls with the leak check on. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

static weft_dnn_library library;

static int load_library(void **state)
{
    char why[200] = "";
    (void)state;
    if (!weft_dnn_load(&library, why, sizeof(why))) {
        printf("skipped: %s\n", why);
    }
    return 0;
}

static int unload_library(void **state)
{
    (void)state;
    weft_dnn_unload(&library);
    return 0;
}

typedef struct heads {
    int64_t type, groups, shared, rows, keys, depth, width, causal, shifted, stores;
} heads;

static weft_dnn_sizes sizes_of(const heads *h)
{
    return (weft_dnn_sizes){ .type = h->type,
                             .groups = h->groups,
                             .shared = h->shared,
                             .rows = h->rows,
                             .keys = h->keys,
                             .depth = h->depth,
                             .width = h->width,
                             .q_step = h->rows * h->depth,
                             .k_step = h->keys * h->depth,
                             .v_step = h->keys * h->width,
                             .result_step = h->rows * h->width,
                             .row_step = h->rows,
                             .causal = h->causal,
                             .shifted = h->shifted,
                             .stores = h->stores };
}

static void check_plans(const heads all[], size_t count, void (*describe)(weft_dnn_graph *graph, const void *sizes))
{
    if (library.handle == NULL) {
        skip();
    }
    for (size_t i = 0; i < count; i++) {
        const heads *h = &all[i];
        const weft_dnn_target target = { .device = h100 };
        const weft_dnn_sizes sizes = sizes_of(h);
        static weft_dnn_graph graph;
        weft_dnn_begin(&graph, &library);
        describe(&graph, &sizes);
        cudnnStatus_t status = weft_dnn_plan(&graph, &target, MOST_BYTES);
        if (status != CUDNN_STATUS_SUCCESS) {
            fail_msg("%lld x %lld heads, %lld rows, %lld keys, %lld and %lld columns, causal %lld: status %d", (long long)h->groups,
                     (long long)h->shared, (long long)h->rows, (long long)h->keys, (long long)h->depth, (long long)h->width,
                     (long long)h->causal, (int)status);
        }
        printf("# %lld x %lld heads, %lld rows, %lld keys, %lld and %lld columns: %lld bytes of workspace\n", (long long)h->groups,
               (long long)h->shared, (long long)h->rows, (long long)h->keys, (long long)h->depth, (long long)h->width,
               (long long)graph.workspace_bytes);
        weft_dnn_end(&graph);
    }
}

/* Each takes seconds: NVRTC. */
static void test_forward_plans(void **state)
{
    static const heads all[] = {
        { WEFT_BF16, 16, 1, 2048, 2048, 64, 64, 0, 0, 0 }, /* bench/gpu.c */
        { WEFT_BF16, 256, 1, 256, 256, 64, 64, 1, 0, 1 },  /* examples/transformer_lm */
        { WEFT_F16, 2, 3, 77, 2047, 40, 128, 1, 1, 1 },    /* rows from another one on; shared heads; odd sizes */
        { WEFT_BF16, 8, 1, 1, 4096, 128, 128, 0, 0, 1 },   /* one row */
    };
    (void)state;
    check_plans(all, sizeof(all) / sizeof(all[0]), weft_dnn_forward_graph);
}

static void test_backward_plans(void **state)
{
    static const heads all[] = {
        { WEFT_BF16, 16, 1, 2048, 2048, 64, 64, 0, 0, 0 },
        { WEFT_BF16, 256, 1, 256, 256, 64, 64, 1, 0, 0 },
        { WEFT_F16, 2, 3, 77, 2047, 40, 128, 1, 1, 0 },
        { WEFT_BF16, 4, 2, 256, 256, 128, 128, 1, 0, 0 },
    };
    (void)state;
    check_plans(all, sizeof(all) / sizeof(all[0]), weft_dnn_backward_graph);
}

/* Of equal sizes in h and w: images, channels, their size; features, taps; stride, padding, groups. */
typedef struct convolution {
    int64_t type, images, channels, size, features, taps, stride, padding, groups;
} convolution;

static weft_dnn_convolution_sizes sizes_of_convolution(const convolution *c, weft_dnn_convolved computed)
{
    const int64_t size = (c->size + 2 * c->padding - c->taps) / c->stride + 1;
    return (weft_dnn_convolution_sizes){ .computed = (int64_t)computed,
                                         .type = c->type,
                                         .narrow = c->type != WEFT_F32 && computed != WEFT_DNN_CONVOLVE_FORWARD,
                                         .x = { c->images, c->channels, c->size, c->size },
                                         .weights = { c->features, c->channels / c->groups, c->taps, c->taps },
                                         .result = { c->images, c->features, size, size },
                                         .filter = { { c->stride, c->stride }, { c->padding, c->padding }, { 1, 1 } } };
}

static void check_convolution(const convolution *c, weft_dnn_convolved computed)
{
    const weft_dnn_target target = { .device = h100 };
    const weft_dnn_convolution_sizes sizes = sizes_of_convolution(c, computed);
    static weft_dnn_graph graph;
    weft_dnn_begin(&graph, &library);
    weft_dnn_convolution_graph(&graph, &sizes);
    cudnnStatus_t status = weft_dnn_plan(&graph, &target, MOST_BYTES);
    printf("# convolution %d, type %lld, %lld x %lld x %lld, %lld features of %lld taps: status %d, %lld bytes of workspace\n", (int)computed,
           (long long)c->type, (long long)c->images, (long long)c->channels, (long long)c->size, (long long)c->features,
           (long long)c->taps, (int)status, (long long)graph.workspace_bytes);
    weft_dnn_end(&graph);
    assert_int_equal(status, CUDNN_STATUS_SUCCESS);
}

static void test_convolution_plans(void **state)
{
    static const convolution all[] = {
        { WEFT_F32, 32, 128, 56, 128, 3, 1, 1, 1 },  /* bench/gpu.c */
        { WEFT_BF16, 32, 128, 56, 128, 3, 1, 1, 1 },
        { WEFT_F32, 8, 3, 32, 16, 3, 1, 1, 1 },
        { WEFT_F16, 16, 64, 28, 128, 1, 2, 0, 1 },
        { WEFT_F32, 4, 32, 19, 32, 5, 2, 2, 4 },     /* groups; odd sizes */
    };
    (void)state;
    if (library.handle == NULL) {
        skip();
    }
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        check_convolution(&all[i], WEFT_DNN_CONVOLVE_FORWARD);
        check_convolution(&all[i], WEFT_DNN_CONVOLVE_BACKWARD_DATA);
        if (all[i].type == WEFT_F32) {
            check_convolution(&all[i], WEFT_DNN_CONVOLVE_BACKWARD_FILTER);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_forward_plans), cmocka_unit_test(test_backward_plans),
                                        cmocka_unit_test(test_convolution_plans) };
    return cmocka_run_group_tests(tests, load_library, unload_library);
}
