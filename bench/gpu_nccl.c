/* Redistributions between processes with a CUDA device each, relative to NCCL's own collectives of the same bytes between the
 * same processes, alternating:
 *
 *   all_gather      [S0] to [R]      ncclAllGather()
 *   reduce_scatter  [P] to [S0]      ncclReduceScatter()
 *   all_reduce      [P] to [R]       ncclAllReduce()
 *   all_to_all      [S0] to [S1]     ncclSend() and ncclRecv() between all
 *
 * Started by mpirun. Argument: rows and columns of the matrix in single precision (8192). Says so where there is no device. A time
 * is that of the slowest process. NCCL is loaded when this runs. */
#include <dlfcn.h>

#include <cuda_runtime_api.h>
#include <mpi.h>
#include <nccl.h>

#include "bench.h"
#include "codelets/cuda/kernels.h"

#define FUNCTIONS(each)                                                                                                      \
    each(GetUniqueId) each(CommInitRankConfig) each(CommGetAsyncError) each(CommDestroy) each(GroupStart) each(GroupEnd)    \
    each(Send) each(Recv) each(AllGather) each(ReduceScatter) each(AllReduce)

typedef struct nccl_side {
#define POINTER(name) __typeof__(nccl##name) *name;
    FUNCTIONS(POINTER)
#undef POINTER
    ncclComm_t comm;
    cudaStream_t stream;
    float *from, *to;
    int processes, process;
    size_t count; /* elements of the matrix */
} nccl_side;

typedef struct collective {
    const char *name, *from, *to;
    ncclResult_t (*run)(const nccl_side *nccl);
} collective;

static void stop(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- NCCL's own ------------------------------------------------------------------------------------------ */

static void load(nccl_side *nccl)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW);
    if (library == NULL) {
        stop("there is no libnccl.so.2");
    }
#define FIND(name)                                                                                                           \
    *(void **)&nccl->name = dlsym(library, "nccl" #name);                                                                    \
    if (nccl->name == NULL) {                                                                                                \
        stop("NCCL has no nccl" #name "()");                                                                                 \
    }
    FUNCTIONS(FIND)
#undef FIND
}

/* The communicator does not block: a call is over when NCCL has put it into the stream. */
static void finish(const nccl_side *nccl, ncclResult_t result)
{
    while (result == ncclInProgress) {
        nccl->CommGetAsyncError(nccl->comm, &result);
    }
    if (result != ncclSuccess) {
        stop("NCCL fails");
    }
}

static void start_nccl(nccl_side *nccl, int64_t rows, int devices)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    load(nccl);
    MPI_Comm_rank(MPI_COMM_WORLD, &nccl->process);
    MPI_Comm_size(MPI_COMM_WORLD, &nccl->processes);
    nccl->count = (size_t)(rows * rows);
    if (rows % nccl->processes != 0) {
        stop("the number of rows is no multiple of the number of processes");
    }
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    size_t bytes = nccl->count * sizeof(float);
    if (cudaSetDevice((local == NULL ? nccl->process : atoi(local)) % devices) != cudaSuccess ||
        cudaMalloc((void **)&nccl->from, bytes) != cudaSuccess || cudaMalloc((void **)&nccl->to, bytes) != cudaSuccess ||
        cudaMemset(nccl->from, 0, bytes) != cudaSuccess ||
        cudaStreamCreateWithFlags(&nccl->stream, cudaStreamNonBlocking) != cudaSuccess) {
        stop("the device has too little memory");
    }
    if (nccl->process == 0 && nccl->GetUniqueId(&id) != ncclSuccess) {
        stop("ncclGetUniqueId() fails");
    }
    MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
    config.blocking = 0;
    finish(nccl, nccl->CommInitRankConfig(&nccl->comm, nccl->processes, id, nccl->process, &config));
}

static ncclResult_t all_gather(const nccl_side *nccl)
{
    return nccl->AllGather(nccl->from, nccl->to, nccl->count / (size_t)nccl->processes, ncclFloat, nccl->comm, nccl->stream);
}

static ncclResult_t reduce_scatter(const nccl_side *nccl)
{
    return nccl->ReduceScatter(nccl->from, nccl->to, nccl->count / (size_t)nccl->processes, ncclFloat, ncclSum, nccl->comm,
                               nccl->stream);
}

static ncclResult_t all_reduce(const nccl_side *nccl)
{
    return nccl->AllReduce(nccl->from, nccl->to, nccl->count, ncclFloat, ncclSum, nccl->comm, nccl->stream);
}

static ncclResult_t all_to_all(const nccl_side *nccl)
{
    size_t part = nccl->count / (size_t)nccl->processes / (size_t)nccl->processes;
    ncclResult_t result = nccl->GroupStart();
    for (int p = 0; p < nccl->processes && result == ncclSuccess; p++) {
        if (p != nccl->process) {
            nccl->Send(nccl->from + part * (size_t)p, part * sizeof(float), ncclUint8, p, nccl->comm, nccl->stream);
            result = nccl->Recv(nccl->to + part * (size_t)p, part * sizeof(float), ncclUint8, p, nccl->comm, nccl->stream);
        }
    }
    ncclResult_t ended = nccl->GroupEnd();
    return result == ncclSuccess ? ended : result;
}

/* ---- both ------------------------------------------------------------------------------------------------ */

static double begin(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return bench_now_us();
}

static double slowest(double start)
{
    double us = bench_now_us() - start, most = us;
    MPI_Allreduce(&us, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static double nccl_us(const nccl_side *nccl, const collective *c)
{
    double start = begin();
    finish(nccl, c->run(nccl));
    if (cudaStreamSynchronize(nccl->stream) != cudaSuccess) {
        stop("a collective fails");
    }
    return slowest(start);
}

static double weft_us(weft_tensor *tensor, const weft_placement *to)
{
    weft_scope_begin();
    double start = begin();
    weft_redistribute(tensor, NULL, to);
    weft_wait();
    double us = slowest(start);
    weft_scope_end();
    bench_check();
    return us;
}

static void measure(const nccl_side *nccl, const collective *c, int64_t rows)
{
    double ours[BENCH_REPETITIONS], own[BENCH_REPETITIONS];
    weft_placement from, to;
    weft_placements_parse(c->from, 1, &from);
    weft_placements_parse(c->to, 1, &to);
    size_t local = from.kind == WEFT_PARTIAL ? nccl->count : nccl->count / (size_t)nccl->processes;
    float *memory = calloc(local, sizeof(float));
    weft_tensor *tensor = weft_from_local(WEFT_F32, 2, (int64_t[]){ rows, rows }, (void *[]){ memory }, NULL, &from, 0);
    bench_check();
    for (int i = 0; i < 2; i++) { /* it is in device memory then */
        weft_us(tensor, &to);
        nccl_us(nccl, c);
    }
    for (int i = 0; i < BENCH_REPETITIONS; i++) {
        ours[i] = weft_us(tensor, &to);
        own[i] = nccl_us(nccl, c);
    }
    weft_tensor_release(tensor);
    weft_wait();
    free(memory);
    double us = bench_median(ours, BENCH_REPETITIONS), theirs = bench_median(own, BENCH_REPETITIONS);
    if (nccl->process == 0) {
        printf("{\"bench\": \"gpu-nccl\", \"case\": \"%s\", \"processes\": %d, \"mb\": %.1f, \"ms\": %.3f, \"nccl_ms\": %.3f, "
               "\"fraction_of_nccl\": %.3f}\n",
               c->name, nccl->processes, (double)nccl->count * sizeof(float) * 1e-6, us * 1e-3, theirs * 1e-3, theirs / us);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static const collective collectives[] = {
        { "all_gather", "S0", "R", all_gather },
        { "reduce_scatter", "P", "S0", reduce_scatter },
        { "all_reduce", "P", "R", all_reduce },
        { "all_to_all", "S0", "S1", all_to_all },
    };
    int devices = weft_cuda_count_devices(), provided;
    if (devices <= 0) {
        printf("{\"bench\": \"gpu-nccl\", \"skipped\": \"there is no CUDA device\"}\n");
        return 0;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    int64_t rows = argc > 1 ? atoll(argv[1]) : 8192;
    nccl_side nccl = { .comm = NULL };
    start_nccl(&nccl, rows, devices); /* before StarPU takes the memory */
    setenv("WEFT_DEVICES", "1", 1);
    setenv("WEFT_NCCL", "1", 1); /* or an error says why not */
    weft_init(NULL);
    bench_check();
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ nccl.processes }, NULL));
    for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++) {
        measure(&nccl, &collectives[i], rows);
    }
    weft_finalize();
    nccl.CommDestroy(nccl.comm);
    MPI_Finalize();
    return 0;
}
