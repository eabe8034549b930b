/* The part of cuFFT that weft calls, on the stand-in's streams: sums of products, in long double precision. Stricter than the real one:
 * plans allocate nothing, a work area has to be as large as was said, and is written to, and values of real results are lost. */
#include <cuda_runtime_api.h>
#include <cufft.h>

#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "stand_in.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace
{

struct plan {
    int device;
    bool allocates, made;
    cufftType type;
    int64_t n, batch, in_step, in_apart, out_step, out_apart;
    size_t bytes; /* of the work area */
    void *area;
    cudaStream_t stream;
};

struct work {
    plan how;
    bool inverse;
    void *from, *to;
};

std::mutex lock;
std::map<cufftHandle, plan> plans;
int last;

plan *find(cufftHandle handle)
{
    auto found = plans.find(handle);
    return found == plans.end() ? nullptr : &found->second;
}

bool is_single(cufftType type)
{
    return type == CUFFT_C2C || type == CUFFT_R2C || type == CUFFT_C2R;
}

bool has_real_values(cufftType type)
{
    return type == CUFFT_R2C || type == CUFFT_D2Z;
}

bool has_real_results(cufftType type)
{
    return type == CUFFT_C2R || type == CUFFT_Z2D;
}

template <typename T> void transform(const work &w)
{
    typedef std::complex<long double> number;
    const plan &how = w.how;
    const int64_t n = how.n, given = has_real_results(how.type) ? n / 2 + 1 : n, wanted = has_real_values(how.type) ? n / 2 + 1 : n;
    const bool inverse = w.inverse || has_real_results(how.type);
    std::vector<number> units(static_cast<size_t>(n)), x(static_cast<size_t>(n));
    for (int64_t k = 0; k < n; k++) {
        const long double turn = 2 * 3.14159265358979323846264338327950288L * static_cast<long double>(k) / static_cast<long double>(n);
        units[static_cast<size_t>(k)] = std::polar(1.0L, inverse ? turn : -turn);
    }
    std::memset(how.area, 0xff, how.bytes);
    for (int64_t line = 0; line < how.batch; line++) {
        T *from = static_cast<T *>(w.from) + line * how.in_apart * (has_real_values(how.type) ? 1 : 2);
        T *to = static_cast<T *>(w.to) + line * how.out_apart * (has_real_results(how.type) ? 1 : 2);
        for (int64_t k = 0; k < given; k++) {
            T *at = from + k * how.in_step * (has_real_values(how.type) ? 1 : 2);
            x[static_cast<size_t>(k)] = has_real_values(how.type) ? number(at[0]) : number(at[0], at[1]);
            if (has_real_results(how.type)) {
                x[static_cast<size_t>(k == 0 ? 0 : n - k)] = std::conj(x[static_cast<size_t>(k)]);
                at[0] = at[1] = NAN;
            }
        }
        for (int64_t k = 0; k < wanted; k++) {
            number sum = 0;
            for (int64_t j = 0; j < n; j++) {
                sum += x[static_cast<size_t>(j)] * units[static_cast<size_t>(j * k % n)];
            }
            T *at = to + k * how.out_step * (has_real_results(how.type) ? 1 : 2);
            at[0] = static_cast<T>(sum.real());
            if (!has_real_results(how.type)) {
                at[1] = static_cast<T>(sum.imag());
            }
        }
    }
}

/* A stand_in_runner: all threads at once. */
void run_transform(void (*)(void), const void *argument, unsigned, unsigned, stand_in_order)
{
    work w;
    std::memcpy(static_cast<void *>(&w), argument, sizeof(w));
    (is_single(w.how.type) ? transform<float> : transform<double>)(w);
}

void all_transforms()
{
}

size_t bytes_of(const plan &p, bool values)
{
    const bool real = values ? has_real_values(p.type) : has_real_results(p.type);
    const bool half = values ? has_real_results(p.type) : has_real_values(p.type);
    const int64_t elements = half ? p.n / 2 + 1 : p.n, step = values ? p.in_step : p.out_step, apart = values ? p.in_apart : p.out_apart;
    return static_cast<size_t>((elements - 1) * step + (p.batch - 1) * apart + 1) * (real ? 1 : 2) * (is_single(p.type) ? 4 : 8);
}

cufftResult execute(cufftHandle handle, cufftType type, void *from, void *to, int direction)
{
    std::lock_guard<std::mutex> guard(lock);
    plan *p = find(handle);
    if (p == nullptr || !p->made || p->type != type) {
        return CUFFT_INVALID_PLAN;
    }
    const int device = stand_in_device_of(p->stream);
    if (device != p->device || stand_in_view(device, p->area, p->bytes) == nullptr) {
        return CUFFT_NO_WORKSPACE;
    }
    if (stand_in_view(device, from, bytes_of(*p, true)) == nullptr || stand_in_view(device, to, bytes_of(*p, false)) == nullptr ||
        reinterpret_cast<uintptr_t>(to) % (is_single(type) ? 8 : 16) != 0) {
        return CUFFT_INVALID_VALUE;
    }
    const work w = { *p, direction == CUFFT_INVERSE, from, to };
    const int failed = stand_in_launch(run_transform, all_transforms, &w, sizeof(w), 1, 1, p->stream);
    return failed == cudaSuccess ? CUFFT_SUCCESS : CUFFT_EXEC_FAILED;
}

template <typename Change> cufftResult change(cufftHandle handle, Change changed)
{
    std::lock_guard<std::mutex> guard(lock);
    plan *p = find(handle);
    if (p != nullptr) {
        changed(p);
    }
    return p == nullptr ? CUFFT_INVALID_PLAN : CUFFT_SUCCESS;
}

}

EXPORTED cufftResult cufftCreate(cufftHandle *handle)
{
    std::lock_guard<std::mutex> guard(lock);
    plan p = {};
    p.allocates = true;
    if (cudaGetDevice(&p.device) != cudaSuccess) {
        return CUFFT_SETUP_FAILED;
    }
    *handle = ++last;
    plans[*handle] = p;
    return CUFFT_SUCCESS;
}

EXPORTED cufftResult cufftDestroy(cufftHandle handle)
{
    std::lock_guard<std::mutex> guard(lock);
    return plans.erase(handle) == 1 ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

EXPORTED cufftResult cufftSetAutoAllocation(cufftHandle handle, int allocates)
{
    return change(handle, [&](plan *p) { p->allocates = allocates != 0; });
}

EXPORTED cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream)
{
    return change(handle, [&](plan *p) { p->stream = stream; });
}

EXPORTED cufftResult cufftSetWorkArea(cufftHandle handle, void *area)
{
    return change(handle, [&](plan *p) { p->area = area; });
}

EXPORTED cufftResult cufftMakePlanMany64(cufftHandle handle, int rank, long long *n, long long *in, long long in_step,
                                         long long in_apart, long long *out, long long out_step, long long out_apart, cufftType type,
                                         long long batch, size_t *bytes)
{
    const char *more = std::getenv("STAND_IN_FFT_BYTES");
    std::lock_guard<std::mutex> guard(lock);
    plan *p = find(handle);
    if (p == nullptr || p->made || p->allocates) {
        return CUFFT_INVALID_PLAN;
    }
    if (rank != 1 || n[0] < 1 || batch < 1 || in == nullptr || out == nullptr) {
        return CUFFT_INVALID_SIZE;
    }
    p->made = true;
    p->type = type;
    p->n = n[0];
    p->batch = batch;
    p->in_step = in_step;
    p->in_apart = in_apart;
    p->out_step = out_step;
    p->out_apart = out_apart;
    p->bytes = *bytes = static_cast<size_t>(64 + 16 * n[0]) + (more == nullptr ? 0 : std::strtoull(more, nullptr, 10));
    return CUFFT_SUCCESS;
}

EXPORTED cufftResult cufftExecC2C(cufftHandle handle, cufftComplex *from, cufftComplex *to, int direction)
{
    return execute(handle, CUFFT_C2C, from, to, direction);
}

EXPORTED cufftResult cufftExecZ2Z(cufftHandle handle, cufftDoubleComplex *from, cufftDoubleComplex *to, int direction)
{
    return execute(handle, CUFFT_Z2Z, from, to, direction);
}

EXPORTED cufftResult cufftExecR2C(cufftHandle handle, cufftReal *from, cufftComplex *to)
{
    return execute(handle, CUFFT_R2C, from, to, CUFFT_FORWARD);
}

EXPORTED cufftResult cufftExecD2Z(cufftHandle handle, cufftDoubleReal *from, cufftDoubleComplex *to)
{
    return execute(handle, CUFFT_D2Z, from, to, CUFFT_FORWARD);
}

EXPORTED cufftResult cufftExecC2R(cufftHandle handle, cufftComplex *from, cufftReal *to)
{
    return execute(handle, CUFFT_C2R, from, to, CUFFT_INVERSE);
}

EXPORTED cufftResult cufftExecZ2D(cufftHandle handle, cufftDoubleComplex *from, cufftDoubleReal *to)
{
    return execute(handle, CUFFT_Z2D, from, to, CUFFT_INVERSE);
}
