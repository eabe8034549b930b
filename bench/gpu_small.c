/* Small things on a CUDA device, in microseconds: what a task costs beside its kernel, what waits and allocations cost.
 *
 *   calls        weft's: additions of 1,024 numbers, independent; a chain of them; the same chain in a captured graph
 *   cuda         a 4 KB memset as a kernel: launched, in a chain of two streams with events, in a CUDA graph of 64
 *   memory       allocations of 64 MB: device, pinned, pinned afterwards
 *   nccl         4 MB to oneself, alone and in a CUDA graph
 *   cudnn        attention of 16 heads of 128 rows in bf16: its host's time, and the device's
 *
 * NCCL is loaded when this runs; without it, or without a device, it says so. */
#include <dlfcn.h>

#include <cuda_runtime_api.h>
#include <string.h>
#ifdef WEFT_BENCH_NCCL
#include <nccl.h>
#endif

#include "bench.h"
#include "codelets/cuda/dnn.h"

enum { CALLS = 256, NODES = 64, NUMBERS = 1024 };

static const size_t large = (size_t)64 << 20;

static void must(int failed, const char *what)
{
    if (failed != 0) {
        fprintf(stderr, "bench: %s fails with %d\n", what, failed);
        exit(1);
    }
}

static void show(const char *name, double values[], double divisor)
{
    printf("{\"bench\": \"gpu_small\", \"case\": \"%s\", \"us\": %.2f}\n", name, bench_median(values, BENCH_REPETITIONS) / divisor);
    fflush(stdout);
}

/* ---- CUDA's own ------------------------------------------------------------------------------------------ */

typedef struct cuda_side {
    cudaStream_t streams[2];
    cudaEvent_t events[2];
    void *memory;
} cuda_side;

static void launches(const cuda_side *c)
{
    for (int i = 0; i < NODES; i++) {
        must((int)cudaMemsetAsync(c->memory, i, 4096, c->streams[0]), "cudaMemsetAsync()");
    }
}

/* Each waits for the one before, on the other stream. */
static void alternating(const cuda_side *c)
{
    for (int i = 0; i < NODES; i++) {
        must((int)cudaMemsetAsync(c->memory, i, 4096, c->streams[i % 2]), "cudaMemsetAsync()");
        must((int)cudaEventRecord(c->events[i % 2], c->streams[i % 2]), "cudaEventRecord()");
        must((int)cudaStreamWaitEvent(c->streams[(i + 1) % 2], c->events[i % 2], 0), "cudaStreamWaitEvent()");
    }
}

/* A host that looks for the end of each before it launches the next, as StarPU does between tasks. */
static void polled(const cuda_side *c)
{
    for (int i = 0; i < NODES; i++) {
        must((int)cudaMemsetAsync(c->memory, i, 4096, c->streams[0]), "cudaMemsetAsync()");
        must((int)cudaEventRecord(c->events[0], c->streams[0]), "cudaEventRecord()");
        while (cudaEventQuery(c->events[0]) == cudaErrorNotReady) {
        }
    }
}

static void measure_stream(const cuda_side *c, const char *name, void (*work)(const cuda_side *))
{
    double us[BENCH_REPETITIONS];
    for (int i = -1; i < BENCH_REPETITIONS; i++) {
        must((int)cudaDeviceSynchronize(), "cudaDeviceSynchronize()");
        double start = bench_now_us();
        work(c);
        must((int)cudaDeviceSynchronize(), "cudaDeviceSynchronize()");
        us[i < 0 ? 0 : i] = bench_now_us() - start;
    }
    show(name, us, NODES);
}

static cudaGraphExec_t captured(const cuda_side *c, void (*work)(const cuda_side *))
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    must((int)cudaStreamBeginCapture(c->streams[0], cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture()");
    work(c);
    must((int)cudaStreamEndCapture(c->streams[0], &graph), "cudaStreamEndCapture()");
    must((int)cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate()");
    must((int)cudaGraphDestroy(graph), "cudaGraphDestroy()");
    return exec;
}

static void measure_graph(const cuda_side *c, const char *name, void (*work)(const cuda_side *), double nodes)
{
    double us[BENCH_REPETITIONS];
    cudaGraphExec_t exec = captured(c, work);
    for (int i = -1; i < BENCH_REPETITIONS; i++) {
        must((int)cudaDeviceSynchronize(), "cudaDeviceSynchronize()");
        double start = bench_now_us();
        must((int)cudaGraphLaunch(exec, c->streams[0]), "cudaGraphLaunch()");
        must((int)cudaDeviceSynchronize(), "cudaDeviceSynchronize()");
        us[i < 0 ? 0 : i] = bench_now_us() - start;
    }
    must((int)cudaGraphExecDestroy(exec), "cudaGraphExecDestroy()");
    show(name, us, nodes);
}

static void measure_memory(void)
{
    double us[5][BENCH_REPETITIONS];
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        void *device, *pinned, *plain = NULL;
        double t[7];
        must(posix_memalign(&plain, 4096, large), "posix_memalign()");
        memset(plain, 0, large);
        t[0] = bench_now_us();
        must((int)cudaMalloc(&device, large), "cudaMalloc()");
        t[1] = bench_now_us();
        must((int)cudaFree(device), "cudaFree()");
        t[2] = bench_now_us();
        must((int)cudaHostAlloc(&pinned, large, cudaHostAllocPortable), "cudaHostAlloc()");
        t[3] = bench_now_us();
        must((int)cudaFreeHost(pinned), "cudaFreeHost()");
        t[4] = bench_now_us();
        must((int)cudaHostRegister(plain, large, cudaHostRegisterPortable), "cudaHostRegister()");
        t[5] = bench_now_us();
        must((int)cudaHostUnregister(plain), "cudaHostUnregister()");
        for (int k = 0; k < 5; k++) {
            us[k][i] = t[k + 1] - t[k];
        }
        free(plain);
    }
    static const char *const names[] = { "cudaMalloc, 64 MB", "cudaFree, 64 MB", "cudaHostAlloc, 64 MB", "cudaFreeHost, 64 MB",
                                         "cudaHostRegister, 64 MB of touched memory" };
    for (int k = 0; k < 5; k++) {
        show(names[k], us[k], 1);
    }
}

/* ---- NCCL, to oneself ------------------------------------------------------------------------------------ */

#ifdef WEFT_BENCH_NCCL
#define FUNCTIONS(each) each(GetUniqueId) each(CommInitRank) each(CommDestroy) each(GroupStart) each(GroupEnd) each(Send) each(Recv)

static struct {
#define POINTER(name) __typeof__(nccl##name) *name;
    FUNCTIONS(POINTER)
    ncclComm_t comm;
    char *from, *to;
} nccl;

static bool load_nccl(void)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW);
    bool found = library != NULL;
#define FIND(name) \
    found = found && (*(void **)&nccl.name = dlsym(library, "nccl" #name)) != NULL;
    FUNCTIONS(FIND)
    ncclUniqueId id;
    return found && nccl.GetUniqueId(&id) == ncclSuccess && nccl.CommInitRank(&nccl.comm, 1, id, 0) == ncclSuccess;
}

static void exchange(const cuda_side *c)
{
    const size_t bytes = 4 << 20;
    must((int)nccl.GroupStart(), "ncclGroupStart()");
    must((int)nccl.Send(nccl.from, bytes, ncclInt8, 0, nccl.comm, c->streams[0]), "ncclSend()");
    must((int)nccl.Recv(nccl.to, bytes, ncclInt8, 0, nccl.comm, c->streams[0]), "ncclRecv()");
    must((int)nccl.GroupEnd(), "ncclGroupEnd()");
}

static void exchange_often(const cuda_side *c)
{
    for (int i = 0; i < NODES; i++) {
        exchange(c);
    }
}

static void measure_nccl(const cuda_side *c)
{
    if (!load_nccl()) {
        printf("{\"bench\": \"gpu_small\", \"skipped\": \"NCCL does not start\"}\n");
        return;
    }
    must((int)cudaMalloc((void **)&nccl.from, 4 << 20), "cudaMalloc()");
    must((int)cudaMalloc((void **)&nccl.to, 4 << 20), "cudaMalloc()");
    measure_stream(c, "NCCL, 4 MB to oneself", exchange_often);
    measure_graph(c, "NCCL, 4 MB to oneself, in a CUDA graph of 64", exchange_often, NODES);
    cudaFree(nccl.from);
    cudaFree(nccl.to);
    nccl.CommDestroy(nccl.comm);
}
#else
static void measure_nccl(const cuda_side *c)
{
    (void)c;
    printf("{\"bench\": \"gpu_small\", \"skipped\": \"a build without NCCL\"}\n");
}
#endif

/* ---- cuDNN ----------------------------------------------------------------------------------------------- */

enum { HEADS = 16, LENGTH = 128, WIDTH = 64 };

static void measure_cudnn(const cuda_side *c)
{
    const int64_t head = (int64_t)LENGTH * WIDTH;
    weft_cuda_queue queue = { .stream = c->streams[0], .fast = true };
    weft_dnn_attention a = { .sizes = { .type = WEFT_BF16, .groups = HEADS, .shared = 1, .rows = LENGTH, .keys = LENGTH, .depth = WIDTH,
                                        .width = WIDTH, .q_step = head, .k_step = head, .v_step = head, .result_step = head,
                                        .row_step = LENGTH },
                             .scale = 0.125 };
    char *memory;
    double issued[BENCH_REPETITIONS], done[BENCH_REPETITIONS];
    const size_t size = (size_t)(HEADS * head) * sizeof(uint16_t);
    must((int)cudaMalloc((void **)&memory, 4 * size), "cudaMalloc()");
    must((int)cudaMemset(memory, 0, 4 * size), "cudaMemset()");
    a.q = memory, a.k = memory + size, a.v = memory + 2 * size, a.result = memory + 3 * size;
    if (!weft_dnn_attend(&a, &queue)) {
        printf("{\"bench\": \"gpu_small\", \"skipped\": \"cuDNN has no plan of attention\"}\n");
    } else {
        for (int i = 0; i < BENCH_REPETITIONS; i++) {
            must((int)cudaDeviceSynchronize(), "cudaDeviceSynchronize()");
            double start = bench_now_us();
            for (int k = 0; k < NODES; k++) {
                weft_dnn_attend(&a, &queue);
            }
            issued[i] = bench_now_us() - start;
            must((int)cudaDeviceSynchronize(), "cudaDeviceSynchronize()");
            done[i] = bench_now_us() - start;
        }
        show("attention by cuDNN, until it is launched", issued, NODES);
        show("attention by cuDNN, until it has ended", done, NODES);
    }
    weft_dnn_free(&queue);
    cudaFree(memory);
}

/* ---- weft's ---------------------------------------------------------------------------------------------- */

static weft_tensor *x, *heads;

static void independent(void)
{
    for (int i = 0; i < CALLS; i++) {
        weft_add(x, x);
    }
}

static weft_tensor *chain_of(weft_tensor *t)
{
    for (int i = 0; i < CALLS; i++) {
        t = weft_mul(t, x); /* stays finite */
    }
    return t;
}

static void chain(void)
{
    chain_of(x);
}

static void attentions(void)
{
    for (int i = 0; i < CALLS; i++) {
        weft_attention(heads, heads, heads, NULL);
    }
}

/* One call and the program that waits for it. */
static void waited(void)
{
    for (int i = 0; i < CALLS; i++) {
        weft_add(x, x);
        weft_wait();
    }
}

static void measure_calls(const char *name, void (*calls)(void))
{
    double us[BENCH_REPETITIONS];
    for (int i = -2; i < BENCH_REPETITIONS; i++) {
        weft_scope_begin();
        weft_wait();
        double start = bench_now_us();
        calls();
        weft_wait();
        us[i < 0 ? 0 : i] = bench_now_us() - start;
        weft_scope_end();
        bench_check();
    }
    show(name, us, CALLS);
}

int main(void)
{
    if (weft_cuda_count_devices() <= 0) {
        printf("{\"bench\": \"gpu_small\", \"skipped\": \"there is no CUDA device\"}\n");
        return 0;
    }
    cuda_side c;
    for (int i = 0; i < 2; i++) {
        must((int)cudaStreamCreateWithFlags(&c.streams[i], cudaStreamNonBlocking), "cudaStreamCreateWithFlags()");
        must((int)cudaEventCreateWithFlags(&c.events[i], cudaEventDisableTiming), "cudaEventCreateWithFlags()");
    }
    must((int)cudaMalloc(&c.memory, 4096), "cudaMalloc()");
    measure_stream(&c, "launches on one stream", launches);
    measure_stream(&c, "launches on two streams by turns, with events", alternating);
    measure_stream(&c, "launches, each after the host has seen the end of the last", polled);
    measure_graph(&c, "launches in a CUDA graph of 64", launches, NODES);
    measure_memory();
    measure_nccl(&c);
    measure_cudnn(&c);
    setenv("WEFT_DEVICES", "1", 0);
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.world = WEFT_WORLD_SELF;
    config.ranks = 1;
    weft_init(&config);
    bench_check();
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ 1 }, NULL));
    x = weft_rand(WEFT_F32, 1, (int64_t[]){ NUMBERS }, NULL, NULL);
    measure_calls("weft_add, independent", independent);
    measure_calls("weft_mul, a chain", chain);
    measure_calls("weft_add and weft_wait", waited);
    heads = weft_randn(WEFT_BF16, 4, (int64_t[]){ 1, HEADS, LENGTH, WIDTH }, NULL, NULL);
    measure_calls("weft_attention of bf16, independent", attentions);
    weft_finalize();
    return 0;
}
