#include "codelets/cuda/dnn_plans.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cuda/dnn_convolution.h"

/* Plans of a queue, for each kind; blocks of workspace, each twice as large as the one before. */
enum { MAX_PLANS = 256, MAX_BLOCKS = 32 };

_Static_assert(sizeof(weft_dnn_sizes) <= WEFT_DNN_MOST_SIZES * sizeof(int64_t) &&
                   sizeof(weft_dnn_convolution_sizes) <= WEFT_DNN_MOST_SIZES * sizeof(int64_t),
               "a plan's sizes fit");

typedef struct kept_plan {
    int64_t sizes[WEFT_DNN_MOST_SIZES];
    size_t bytes; /* of these */
    weft_dnn_graph graph; /* without a plan: cuDNN has none for these sizes */
} kept_plan;

typedef struct kept_plans {
    kept_plan *plans[MAX_PLANS];
    int count;
} kept_plans;

struct weft_dnn {
    weft_dnn_library library;
    cudnnHandle_t handle; /* NULL: cuDNN cannot be used */
    void *stream;         /* the handle's */
    int device;
    kept_plans kept[WEFT_DNN_KINDS]; /* attention's sizes leave convolutions their room */
    int64_t runs;
    weft_dnn_trust trust[2]; /* in gradients of bf16, of f16 */
    /* Workspace. Earlier blocks stay until the queue ends: freeing one would wait for the device. */
    void *blocks[MAX_BLOCKS];
    int num_blocks;
    size_t bytes, most_bytes; /* of the last block; that a plan may ask for */
};

static bool begin(weft_dnn *dnn)
{
    char why[160];
    size_t unused, total;
    if (!weft_dnn_load(&dnn->library, why, sizeof(why))) {
        return false;
    }
    if (cudaGetDevice(&dnn->device) != cudaSuccess || cudaMemGetInfo(&unused, &total) != cudaSuccess ||
        dnn->library.Create(&dnn->handle) != CUDNN_STATUS_SUCCESS) {
        cudaGetLastError(); /* else the next launch would have it */
        dnn->handle = NULL;
        weft_dnn_unload(&dnn->library);
        return false;
    }
    dnn->most_bytes = total / 32;
    return true;
}

weft_dnn *weft_dnn_of(weft_cuda_queue *queue)
{
    weft_dnn *dnn = queue->dnn;
    if (dnn == NULL) {
        dnn = calloc(1, sizeof(*dnn));
        queue->dnn = dnn;
        if (dnn == NULL || !begin(dnn)) {
            return NULL;
        }
    }
    return dnn->handle == NULL ? NULL : dnn;
}

static void free_plans(const kept_plans *kept)
{
    for (int i = 0; i < kept->count; i++) {
        weft_dnn_end(&kept->plans[i]->graph);
        free(kept->plans[i]);
    }
}

void weft_dnn_free(weft_cuda_queue *queue)
{
    weft_dnn *dnn = queue->dnn;
    int before = 0;
    if (dnn == NULL) {
        return;
    }
    if (dnn->handle != NULL && cudaGetDevice(&before) == cudaSuccess) {
        cudaSetDevice(dnn->device);
        for (int kind = 0; kind < WEFT_DNN_KINDS; kind++) {
            free_plans(&dnn->kept[kind]);
        }
        dnn->library.Destroy(dnn->handle);
        weft_dnn_unload(&dnn->library);
        cudaSetDevice(before);
    }
    for (int i = 0; i < dnn->num_blocks; i++) {
        cudaFree(dnn->blocks[i]);
    }
    free(dnn);
    queue->dnn = NULL;
}

/* ---- plans --------------------------------------------------------------------------------------------- */

static kept_plan *find_plan(const kept_plans *kept, const weft_dnn_asked *asked)
{
    for (int i = 0; i < kept->count; i++) {
        kept_plan *plan = kept->plans[i];
        if (plan->bytes == asked->bytes && memcmp(plan->sizes, asked->sizes, asked->bytes) == 0) {
            return plan;
        }
    }
    return NULL;
}

const weft_dnn_graph *weft_dnn_plan_of(weft_dnn *dnn, const weft_dnn_asked *asked)
{
    kept_plans *kept = &dnn->kept[asked->kind];
    kept_plan *plan = find_plan(kept, asked);
    if (plan == NULL && kept->count < MAX_PLANS && (plan = malloc(sizeof(*plan))) != NULL) {
        const weft_dnn_target target = { .handle = dnn->handle };
        plan->bytes = asked->bytes;
        memcpy(plan->sizes, asked->sizes, asked->bytes);
        weft_dnn_begin(&plan->graph, &dnn->library);
        asked->describe(&plan->graph, asked->sizes);
        if (weft_dnn_plan(&plan->graph, &target, (int64_t)dnn->most_bytes) != CUDNN_STATUS_SUCCESS) {
            weft_dnn_end(&plan->graph);
            plan->graph.plan = NULL;
            cudaGetLastError();
        }
        kept->plans[kept->count++] = plan;
    }
    return plan == NULL || plan->graph.plan == NULL ? NULL : &plan->graph;
}

weft_dnn_trust *weft_dnn_trust_of(weft_dnn *dnn, int64_t type)
{
    return &dnn->trust[type == WEFT_F16];
}

void weft_dnn_set_runs(weft_dnn *dnn, int64_t runs)
{
    dnn->runs = runs;
}

size_t weft_dnn_version(const weft_dnn *dnn)
{
    return dnn->library.GetVersion();
}

size_t weft_dnn_most_bytes(const weft_dnn *dnn)
{
    return dnn->most_bytes;
}

void *weft_dnn_workspace(weft_dnn *dnn, size_t bytes)
{
    const size_t least = 1 << 20;
    bytes = bytes > 0 ? bytes : 1; /* then, too, there is a block whose address can be given */
    if (bytes > dnn->bytes) {
        void *block = NULL;
        size_t wanted = 2 * dnn->bytes > least ? 2 * dnn->bytes : least;
        wanted = wanted > bytes ? wanted : bytes;
        if (dnn->num_blocks == MAX_BLOCKS || cudaMalloc(&block, wanted) != cudaSuccess) {
            cudaGetLastError();
            return NULL;
        }
        dnn->blocks[dnn->num_blocks++] = block;
        dnn->bytes = wanted;
    }
    return dnn->blocks[dnn->num_blocks - 1];
}

bool weft_dnn_run(weft_dnn *dnn, weft_cuda_queue *queue, const weft_dnn_graph *plan, const weft_dnn_arguments *arguments, void *workspace)
{
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (dnn->stream != queue->stream) {
        status = dnn->library.SetStream(dnn->handle, (cudaStream_t)queue->stream);
        dnn->stream = status == CUDNN_STATUS_SUCCESS ? queue->stream : NULL;
    }
    if (status == CUDNN_STATUS_SUCCESS) {
        status = weft_dnn_execute(plan, dnn->handle, arguments, workspace);
    }
    if (status != CUDNN_STATUS_SUCCESS) {
        cudaGetLastError();
        return false;
    }
    dnn->runs++;
    return true;
}

int64_t weft_dnn_count_runs(const weft_cuda_queue *queue)
{
    const weft_dnn *dnn = queue->dnn;
    return dnn == NULL ? 0 : dnn->runs;
}

void weft_dnn_describe(char *text, size_t size)
{
    weft_dnn_library library;
    char why[160];
    if (!weft_dnn_load(&library, why, sizeof(why))) {
        snprintf(text, size, "not used: %s", why);
        return;
    }
    size_t version = library.GetVersion();
    snprintf(text, size, "%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
    weft_dnn_unload(&library);
}
