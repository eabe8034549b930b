#include "codelets/cuda/fourier.h"

#include <cuda_runtime_api.h>
#include <cufft.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/complex.h"
#include "codelets/cuda/products.h"
#include "codelets/fft.h"
#include "codelets/kernel.h"

/* ---- the library --------------------------------------------------------------------------------------- */

#define FUNCTIONS(each)                                                                                      \
    each(Create) each(Destroy) each(SetAutoAllocation) each(SetStream) each(SetWorkArea) each(MakePlanMany64) \
    each(ExecC2C) each(ExecZ2Z) each(ExecR2C) each(ExecD2Z) each(ExecC2R) each(ExecZ2D)

#define TEXT(words) #words
#define FILE_OF(major) "libcufft.so." TEXT(major)

/* Opened once, and kept: it has threads' variables. */
static struct library {
    void *handle;
#define POINTER(name) __typeof__(cufft##name) *name;
    FUNCTIONS(POINTER)
#undef POINTER
} cufft;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    cufft.handle = dlopen(FILE_OF(CUFFT_VER_MAJOR), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *found = cufft.handle;
    /* a function's address is an object's, by POSIX alone */
#define FIND(name)                                                                                           \
    found = found == NULL ? NULL : dlsym(cufft.handle, "cufft" #name);                                       \
    memcpy(&cufft.name, &found, sizeof(found));
    FUNCTIONS(FIND)
#undef FIND
    if (found == NULL && cufft.handle != NULL) {
        dlclose(cufft.handle);
        cufft.handle = NULL;
    }
}

bool weft_fourier_is_there(void)
{
    pthread_once(&opened, open_library);
    return cufft.handle != NULL;
}

static int of_result(cufftResult result)
{
    return result == CUFFT_SUCCESS ? 0 : WEFT_CUDA_CUFFT + (int)result;
}

/* ---- plans --------------------------------------------------------------------------------------------- */

enum { PLANS = 32 };

/* How some lines of a kind are transformed. Elements and lines lie as weft_fourier_copy says. */
typedef struct plan {
    int64_t n, lines;
    cufftType type;
    bool columns;
    cufftHandle handle;
    size_t bytes; /* of its work area */
} plan;

typedef struct fourier {
    plan plans[PLANS];
    int num_plans, oldest;
    int64_t made;
    int device;
    void *own; /* for what the queue's workspace does not hold; NULL: none */
    size_t own_bytes;
} fourier;

static fourier *fourier_of(weft_cuda_queue *queue)
{
    if (queue->fourier == NULL) {
        fourier *f = calloc(1, sizeof(*f));
        if (f != NULL && cudaGetDevice(&f->device) != cudaSuccess) {
            free(f);
            f = NULL;
        }
        queue->fourier = f;
    }
    return queue->fourier;
}

int64_t weft_fourier_count_plans(const weft_cuda_queue *queue)
{
    return queue->fourier == NULL ? 0 : ((const fourier *)queue->fourier)->made;
}

void weft_fourier_free(weft_cuda_queue *queue)
{
    fourier *f = queue->fourier;
    int before = 0;
    if (f != NULL && cudaGetDevice(&before) == cudaSuccess) {
        cudaSetDevice(f->device);
        for (int i = 0; i < f->num_plans; i++) {
            cufft.Destroy(f->plans[i].handle);
        }
        cudaFree(f->own);
        cudaSetDevice(before);
    }
    free(f);
    queue->fourier = NULL;
}

static int make(plan *p)
{
    const bool from_real = p->type == CUFFT_R2C || p->type == CUFFT_D2Z, to_real = p->type == CUFFT_C2R || p->type == CUFFT_Z2D;
    long long n = p->n, in = to_real ? n / 2 + 1 : n, out = from_real ? n / 2 + 1 : n;
    const long long step = p->columns ? p->lines : 1;
    int failed = of_result(cufft.Create(&p->handle));
    if (failed != 0) {
        return failed;
    }
    failed = of_result(cufft.SetAutoAllocation(p->handle, 0));
    failed = failed != 0 ? failed
                         : of_result(cufft.MakePlanMany64(p->handle, 1, &n, &in, step, p->columns ? 1 : in, &out, step,
                                                          p->columns ? 1 : out, p->type, p->lines, &p->bytes));
    if (failed != 0) {
        cufft.Destroy(p->handle);
    }
    return failed;
}

/* The plan for these lines, made if it is not kept: then it takes the oldest one's place, if there are too many. */
static int find_plan(fourier *f, plan wanted, plan **found)
{
    for (int i = 0; i < f->num_plans; i++) {
        plan *p = &f->plans[i];
        if (p->n == wanted.n && p->lines == wanted.lines && p->type == wanted.type && p->columns == wanted.columns) {
            *found = p;
            return 0;
        }
    }
    int failed = make(&wanted);
    if (failed != 0) {
        return failed;
    }
    *found = &f->plans[f->num_plans < PLANS ? f->num_plans : f->oldest];
    if (f->num_plans < PLANS) {
        f->num_plans++;
    } else {
        cufft.Destroy((*found)->handle);
        f->oldest = (f->oldest + 1) % PLANS;
    }
    **found = wanted;
    f->made++;
    return 0;
}

/* Memory of the queue's own, of at least so many bytes; kernels that use what it replaces have ended when that is freed. */
static int grow(fourier *f, size_t bytes)
{
    if (f->own_bytes >= bytes) {
        return 0;
    }
    cudaFree(f->own);
    f->own = NULL;
    f->own_bytes = 0;
    cudaError_t failed = cudaMalloc(&f->own, bytes);
    if (failed != cudaSuccess) {
        cudaGetLastError(); /* else the next launch would have it */
        return (int)failed;
    }
    f->own_bytes = bytes;
    return 0;
}

static int execute(const plan *p, weft_fft_kind kind, void *from, void *to)
{
    const int direction = kind == WEFT_FFT_INVERSE_KIND ? CUFFT_INVERSE : CUFFT_FORWARD;
    switch (p->type) {
    case CUFFT_C2C:
        return of_result(cufft.ExecC2C(p->handle, from, to, direction));
    case CUFFT_Z2Z:
        return of_result(cufft.ExecZ2Z(p->handle, from, to, direction));
    case CUFFT_R2C:
        return of_result(cufft.ExecR2C(p->handle, from, to));
    case CUFFT_D2Z:
        return of_result(cufft.ExecD2Z(p->handle, from, to));
    case CUFFT_C2R:
        return of_result(cufft.ExecC2R(p->handle, from, to));
    default:
        return of_result(cufft.ExecZ2D(p->handle, from, to));
    }
}

/* ---- tasks --------------------------------------------------------------------------------------------- */

typedef struct job {
    const weft_task_run *run;
    weft_cuda_queue *queue;
    fourier *f;
    weft_view in, out;
    weft_fft_kind kind;
    int dim;
    int64_t n, bins, lines; /* lines: of the view */
    weft_dtype part;
    bool columns, weighted;
    double scale;
    size_t in_bytes, out_bytes; /* of a line in scratch memory */
} job;

static const int64_t *numbers_of(const weft_task_run *run)
{
    return ((const weft_kernel_args *)run->arguments)->numbers;
}

bool weft_fourier_serves(const weft_task_run *run)
{
    const int64_t *numbers = numbers_of(run);
    return numbers[WEFT_FFT_KIND] <= WEFT_FFT_HALF_KIND && numbers[WEFT_FFT_LINE] == 0 && run->num_operands <= WEFT_DEVICE_MAX_PANELS;
}

static bool is_real(weft_fft_kind kind)
{
    return kind == WEFT_FFT_REAL_KIND || kind == WEFT_FFT_HALF_KIND;
}

static cufftType type_of(const job *j)
{
    const bool single = j->part == WEFT_F32;
    return j->kind == WEFT_FFT_REAL_KIND   ? (single ? CUFFT_R2C : CUFFT_D2Z)
           : j->kind == WEFT_FFT_HALF_KIND ? (single ? CUFFT_C2R : CUFFT_Z2D)
           : single                        ? CUFFT_C2C
                                           : CUFFT_Z2Z;
}

static void describe(job *j, const weft_task_run *run, weft_cuda_queue *queue)
{
    const int64_t *numbers = numbers_of(run);
    *j = (job){ .run = run,
                .queue = queue,
                .out = weft_kernel_view(run->arguments, 0),
                .in = weft_kernel_view(run->arguments, 1),
                .kind = (weft_fft_kind)numbers[WEFT_FFT_KIND],
                .dim = (int)numbers[WEFT_FFT_DIM],
                .n = numbers[WEFT_FFT_SIZE],
                .weighted = numbers[WEFT_FFT_WEIGHTED] != 0,
                .scale = run->scalars[WEFT_FFT_SCALE],
                .lines = 1 };
    int64_t inner = 1;
    for (int d = 0; d < j->out.ndim; d++) {
        j->lines *= d == j->dim ? 1 : j->out.extent[d];
        inner *= d > j->dim ? j->out.extent[d] : 1;
    }
    j->columns = inner > 1;
    j->bins = j->n / 2 + 1;
    j->part = weft_part_type(j->out.dtype);
    const size_t size = weft_dtype_size(j->part);
    j->in_bytes = size * (size_t)(j->kind == WEFT_FFT_REAL_KIND ? j->n : 2 * (j->kind == WEFT_FFT_HALF_KIND ? j->bins : j->n));
    j->out_bytes = !is_real(j->kind) ? 0 : size * (size_t)(j->kind == WEFT_FFT_REAL_KIND ? 2 * j->bins : j->n);
}

/* All of a view in one piece, whose address is *memory. */
static bool is_one(const job *j, const weft_view *view, int number, void **memory)
{
    const weft_kernel_args *args = j->run->arguments;
    *memory = j->run->operands[args->operands[number].first_panel];
    return view->first_rows >= view->extent[0] && weft_view_count(view) == view->extent[0] * view->row_elements;
}

/* Complex results of whole lines without gaps, which follow each other, or are columns beside each other: cuFFT leaves such values as they
 * are, but for those of HALF. */
static bool is_direct(const job *j, void **from, void **to)
{
    return j->kind != WEFT_FFT_HALF_KIND && !j->weighted && weft_dtype_is_complex(j->in.dtype) != (j->kind == WEFT_FFT_REAL_KIND) &&
           j->in.extent[j->dim] == j->n && j->out.extent[j->dim] == (j->kind == WEFT_FFT_REAL_KIND ? j->bins : j->n) &&
           (!j->columns || j->dim == 0) && is_one(j, &j->out, 0, to) && is_one(j, &j->in, 1, from);
}

/* Transforms lines from one place to another, with the work area at `area`, which holds so many bytes; NULL: its own memory, which may
 * have to grow. */
static int transform(job *j, int64_t lines, void *from, void *to)
{
    plan *p;
    const plan wanted = { .n = j->n, .lines = lines, .type = type_of(j), .columns = j->columns };
    int failed = find_plan(j->f, wanted, &p);
    void *area = j->queue->workspace;
    if (failed == 0 && p->bytes > j->queue->workspace_bytes) {
        failed = grow(j->f, p->bytes);
        area = j->f->own;
    }
    failed = failed != 0 ? failed : of_result(cufft.SetStream(p->handle, j->queue->stream));
    failed = failed != 0 ? failed : of_result(cufft.SetWorkArea(p->handle, area));
    return failed != 0 ? failed : execute(p, j->kind, from, to);
}

static weft_fourier_copy values_of(const job *j, int64_t first, int64_t lines, void *memory)
{
    const bool half = j->kind == WEFT_FFT_HALF_KIND;
    return (weft_fourier_copy){ .part = j->part,
                                .view = 1,
                                .dim = j->dim,
                                .first = first,
                                .lines = lines,
                                .elements = half ? j->bins : j->n,
                                .bins = half && j->weighted ? (j->n + 1) / 2 : 0,
                                .real = half ? (j->n % 2 == 0 ? j->n / 2 : 0) : -1,
                                .columns = j->columns,
                                .complex = j->kind != WEFT_FFT_REAL_KIND,
                                .scale = 1,
                                .twice = 0.5,
                                .memory = memory };
}

static weft_fourier_copy results_of(const job *j, int64_t first, int64_t lines, void *memory)
{
    const bool real = j->kind == WEFT_FFT_REAL_KIND;
    return (weft_fourier_copy){ .part = j->part,
                                .view = 0,
                                .dim = j->dim,
                                .first = first,
                                .lines = lines,
                                .elements = real ? j->bins : j->n,
                                .bins = real && j->weighted ? (j->n + 1) / 2 : 0,
                                .real = -1,
                                .columns = j->columns,
                                .complex = j->kind != WEFT_FFT_HALF_KIND,
                                .scale = j->scale,
                                .twice = 2,
                                .memory = memory };
}

static int transform_directly(job *j, void *from, void *to)
{
    int failed = transform(j, j->lines, from, to);
    const weft_fourier_copy scaled = results_of(j, 0, j->lines, NULL);
    return failed != 0 || j->scale == 1 ? failed : weft_fourier_store(&scaled, j->run, j->queue);
}

/* As many lines at once as scratch memory holds; one longer than that in memory of its own. */
static int transform_copies(job *j, char *scratch, size_t bytes)
{
    const size_t aligned = 256, line = j->in_bytes + j->out_bytes;
    int64_t most = (int64_t)((bytes - aligned) / line);
    int failed = 0;
    if (most == 0) {
        size_t work = 0;
        plan *p;
        failed = find_plan(j->f, (plan){ .n = j->n, .lines = 1, .type = type_of(j), .columns = j->columns }, &p);
        work = failed == 0 ? p->bytes : 0;
        /* The work area is at the beginning of that memory. */
        work = work > j->queue->workspace_bytes ? (work + aligned - 1) / aligned * aligned : 0;
        failed = failed != 0 ? failed : grow(j->f, work + line + aligned);
        scratch = (char *)j->f->own + work;
        most = 1;
    }
    for (int64_t first = 0, lines; first < j->lines && failed == 0; first += lines) {
        lines = j->lines - first < most ? j->lines - first : most;
        char *to = j->out_bytes == 0 ? scratch : scratch + ((size_t)lines * j->in_bytes + aligned - 1) / aligned * aligned;
        const weft_fourier_copy values = values_of(j, first, lines, scratch), results = results_of(j, first, lines, to);
        failed = weft_fourier_load(&values, j->run, j->queue);
        failed = failed != 0 ? failed : transform(j, lines, scratch, to);
        failed = failed != 0 ? failed : weft_fourier_store(&results, j->run, j->queue);
    }
    return failed;
}

int weft_cuda_fft(const weft_task_run *run, weft_cuda_queue *queue)
{
    job j;
    void *scratch, *from, *to;
    size_t bytes;
    describe(&j, run, queue);
    if (weft_view_count(&j.out) == 0) {
        return 0;
    }
    int failed = weft_fourier_is_there() ? weft_cuda_scratch(queue, &scratch, &bytes) : WEFT_CUDA_CUFFT + CUFFT_SETUP_FAILED;
    j.f = failed == 0 ? fourier_of(queue) : NULL;
    if (failed == 0 && j.f == NULL) {
        failed = (int)cudaErrorMemoryAllocation;
    }
    return failed != 0              ? failed
           : is_direct(&j, &from, &to) ? transform_directly(&j, from, to)
                                       : transform_copies(&j, scratch, bytes);
}
