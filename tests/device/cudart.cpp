/* The part of the CUDA runtime that StarPU's driver and weft call. Streams are threads; a call that CUDA runs
 * asynchronously returns at once here too. */
#include <cuda_runtime_api.h>

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "device_process.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

using device_process::memory_of;

namespace
{

enum { ALIGNMENT = 256, GAP = 256, UNTOUCHED = 0xcb, FREED = 0xdd, GUARD = 0x5a };

/* ---- settings ------------------------------------------------------------------------------------------ */

struct settings {
    size_t bytes = 256u << 20;
    unsigned delay = 0;
    int direction = 1;
    uint64_t seed = 0;

    settings()
    {
        auto number = [](const char *name, uint64_t otherwise) {
            const char *text = std::getenv(name);
            return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
        };
        bytes = number("STAND_IN_BYTES", bytes);
        delay = static_cast<unsigned>(number("STAND_IN_DELAY_US", 0));
        seed = number("STAND_IN_SEED", 0);
        const char *order = std::getenv("STAND_IN_ORDER");
        std::string name = order == nullptr ? "forwards" : order;
        direction = name == "backwards" ? -1 : name == "shuffled" ? 0 : 1;
    }
};

const settings &set()
{
    static const settings one;
    return one;
}

/* ---- errors -------------------------------------------------------------------------------------------- */

thread_local int current_device = 0;
thread_local int64_t choices = 0; /* calls of cudaSetDevice() */
thread_local cudaError_t latest = cudaSuccess;
std::atomic<int> lost{ cudaSuccess }; /* a kernel has crashed: every call from then on fails */

cudaError_t result(cudaError_t error)
{
    if (error == cudaSuccess) {
        error = static_cast<cudaError_t>(lost.load());
    }
    if (error != cudaSuccess) {
        latest = error;
    }
    return error;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

struct block {
    size_t size;
};

struct device {
    std::mutex mutex;
    std::map<char *, block> blocks; /* in use; device addresses */
    size_t used = 0;
    char *next = nullptr; /* where the search for free addresses begins: those freed last come last */
    stand_in_counts counts = {};
    std::set<cudaStream_t> streams;
    cudaStream_t null_stream = nullptr;
};

device devices[STAND_IN_MAX_DEVICES];

std::mutex pinned_mutex;
std::map<const char *, size_t> pinned;
std::multimap<const char *, size_t> copied; /* pinned memory that copies under way read or write */
stand_in_calls calls; /* guarded by pinned_mutex */

void count_call(int64_t stand_in_calls::*member, int64_t more = 1)
{
    std::lock_guard<std::mutex> lock(pinned_mutex);
    calls.*member += more;
}

size_t rounded(size_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

char *view_of(int number, char *address)
{
    const device_process::memory &memory = memory_of(number);
    return memory.view + (address - memory.base);
}

/* The device whose addresses these are; -1: host memory. */
int device_of(const void *pointer)
{
    const char *at = static_cast<const char *>(pointer);
    for (int i = 0; i < device_process::count_devices(); i++) {
        const device_process::memory &memory = memory_of(i);
        if (at >= memory.base && at < memory.base + memory.size) {
            return i;
        }
    }
    return -1;
}

/* Whether a range lies in memory that is in use. */
bool is_allocated(int number, const void *pointer, size_t size)
{
    device &d = devices[number];
    char *at = static_cast<char *>(const_cast<void *>(pointer));
    std::lock_guard<std::mutex> lock(d.mutex);
    auto after = d.blocks.upper_bound(at);
    if (after == d.blocks.begin()) {
        return false;
    }
    --after;
    return at + size <= after->first + after->second.size;
}

bool is_pinned(const void *pointer, size_t size)
{
    const char *at = static_cast<const char *>(pointer);
    std::lock_guard<std::mutex> lock(pinned_mutex);
    auto after = pinned.upper_bound(at);
    if (after == pinned.begin()) {
        return false;
    }
    --after;
    return at + size <= after->first + after->second;
}

/* The first free addresses from `from` on, with a gap behind; NULL: none. The mutex is held. */
char *find_free(device &d, int number, char *from, size_t size)
{
    const device_process::memory &memory = memory_of(number);
    auto above = d.blocks.lower_bound(from);
    if (above != d.blocks.begin()) {
        auto below = std::prev(above);
        char *end = below->first + rounded(below->second.size) + GAP;
        from = end > from ? end : from;
    }
    for (; above != d.blocks.end(); ++above) {
        if (from + rounded(size) + GAP <= above->first) {
            return from;
        }
        from = above->first + rounded(above->second.size) + GAP;
    }
    return from + rounded(size) + GAP <= memory.base + memory.size ? from : nullptr;
}

/* ---- streams ------------------------------------------------------------------------------------------- */

}

struct CUstream_st {
    int device;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> waiting;
    uint64_t pushed = 0, done = 0;
    bool stops = false;
    std::minstd_rand random;
    std::thread thread;

    explicit CUstream_st(int number) : device(number)
    {
        static std::atomic<unsigned> streams{ 0 };
        random.seed(static_cast<unsigned>(set().seed) * 1000u + ++streams);
        thread = std::thread([this] { work(); });
    }

    ~CUstream_st()
    {
        {
            std::lock_guard<std::mutex> lock(mutex);
            stops = true;
        }
        changed.notify_all();
        thread.join();
    }

    void work()
    {
        std::unique_lock<std::mutex> lock(mutex);
        for (;;) {
            changed.wait(lock, [this] { return stops || !waiting.empty(); });
            if (waiting.empty()) {
                return;
            }
            std::function<void()> next = std::move(waiting.front());
            waiting.pop_front();
            lock.unlock();
            if (set().delay > 0 && random() % 4 == 0) {
                usleep(static_cast<useconds_t>(random() % (set().delay + 1)));
            }
            next();
            lock.lock();
            done++;
            changed.notify_all();
        }
    }

    void push(std::function<void()> work)
    {
        {
            std::lock_guard<std::mutex> lock(mutex);
            waiting.push_back(std::move(work));
            pushed++;
        }
        changed.notify_all();
    }

    void wait()
    {
        std::unique_lock<std::mutex> lock(mutex);
        uint64_t last = pushed;
        changed.wait(lock, [this, last] { return done >= last; });
    }
};

struct CUevent_st {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t recorded = 0, reached = 0;
};

namespace
{

cudaStream_t new_stream(int number)
{
    cudaStream_t stream = new CUstream_st(number);
    std::lock_guard<std::mutex> lock(devices[number].mutex);
    devices[number].streams.insert(stream);
    return stream;
}

/* The stream of an argument; NULL stands for a stream of its own of the current device. */
cudaStream_t stream_of(cudaStream_t given)
{
    if (given != nullptr && given != cudaStreamLegacy && given != cudaStreamPerThread) {
        return given;
    }
    static std::mutex mutex;
    std::lock_guard<std::mutex> lock(mutex);
    device &d = devices[current_device];
    if (d.null_stream == nullptr) {
        d.null_stream = new_stream(current_device);
    }
    return d.null_stream;
}

void wait_for_device(int number)
{
    std::vector<cudaStream_t> all;
    {
        std::lock_guard<std::mutex> lock(devices[number].mutex);
        all.assign(devices[number].streams.begin(), devices[number].streams.end());
    }
    for (cudaStream_t stream : all) {
        stream->wait();
    }
}

/* ---- copies -------------------------------------------------------------------------------------------- */

bool kind_fits(cudaMemcpyKind kind, bool from_device, bool to_device)
{
    switch (kind) {
    case cudaMemcpyHostToHost:
        return !from_device && !to_device;
    case cudaMemcpyHostToDevice:
        return !from_device && to_device;
    case cudaMemcpyDeviceToHost:
        return from_device && !to_device;
    case cudaMemcpyDeviceToDevice:
        return from_device && to_device;
    default:
        return true;
    }
}

/* Host memory of a copy, until it is over; NULL: none. */
void note_copy(const void *pointer, size_t size)
{
    std::lock_guard<std::mutex> lock(pinned_mutex);
    if (pointer != nullptr) {
        copied.emplace(static_cast<const char *>(pointer), size);
    }
}

void forget_copy(const void *pointer, size_t size)
{
    std::lock_guard<std::mutex> lock(pinned_mutex);
    auto all = copied.equal_range(static_cast<const char *>(pointer));
    for (auto at = all.first; at != all.second; ++at) {
        if (at->second == size) {
            copied.erase(at);
            return;
        }
    }
}

/* Ends the program if a copy under way uses memory that is to be unpinned, after which it may be gone. The mutex is held. */
void expect_no_copy(const char *pointer, size_t size)
{
    for (const auto &one : copied) {
        if (one.first < pointer + size && pointer < one.first + one.second) {
            std::fprintf(stderr, "stand-in: host memory is freed or unpinned while it is copied\n");
            std::abort();
        }
    }
}

/* A copy of `rows` rows; checks both sides and then puts it into the stream. Copies with pageable host memory are
 * over when the call returns. */
cudaError_t copy(void *target, size_t target_pitch, const void *source, size_t source_pitch, size_t width,
                 size_t rows, cudaMemcpyKind kind, cudaStream_t given, bool waits)
{
    if (width == 0 || rows == 0) {
        return result(cudaSuccess);
    }
    int to = device_of(target), from = device_of(source);
    size_t target_size = (rows - 1) * target_pitch + width, source_size = (rows - 1) * source_pitch + width;
    if (!kind_fits(kind, from >= 0, to >= 0) || (to >= 0 && !is_allocated(to, target, target_size)) ||
        (from >= 0 && !is_allocated(from, source, source_size))) {
        return result(cudaErrorInvalidValue);
    }
    bool pageable = (to < 0 && !is_pinned(target, target_size)) || (from < 0 && !is_pinned(source, source_size));
    char *target_at = to < 0 ? static_cast<char *>(target) : view_of(to, static_cast<char *>(target));
    const char *source_at = from < 0 ? static_cast<const char *>(source)
                                     : view_of(from, static_cast<char *>(const_cast<void *>(source)));
    cudaStream_t stream = stream_of(given);
    if (pageable) {
        count_call(&stand_in_calls::pageable_bytes, static_cast<int64_t>(width * rows));
    }
    note_copy(to < 0 ? target : nullptr, target_size);
    note_copy(from < 0 ? source : nullptr, source_size);
    stream->push([=] {
        for (size_t row = 0; row < rows; row++) {
            std::memcpy(target_at + row * target_pitch, source_at + row * source_pitch, width);
        }
        int64_t bytes = static_cast<int64_t>(width * rows);
        if (to >= 0) {
            std::lock_guard<std::mutex> lock(devices[to].mutex);
            (from < 0 ? devices[to].counts.bytes_in : devices[to].counts.bytes_peer) += from == to ? 0 : bytes;
        } else if (from >= 0) {
            std::lock_guard<std::mutex> lock(devices[from].mutex);
            devices[from].counts.bytes_out += bytes;
        }
        forget_copy(to < 0 ? target : nullptr, target_size);
        forget_copy(from < 0 ? source : nullptr, source_size);
    });
    if (waits || pageable) {
        stream->wait();
    }
    return result(cudaSuccess);
}

}

namespace
{

/* Whether kernels are loaded with their device, as CUDA_MODULE_LOADING says at the first call. */
bool loads_early()
{
    static const char *const text = std::getenv("CUDA_MODULE_LOADING");
    static const bool early = text != nullptr && std::strcmp(text, "EAGER") == 0;
    return early;
}

/* A kernel that is not there yet: waits for all that the device does. */
void load(int device, void (*kernel)(void))
{
    static std::mutex mutex;
    static std::set<std::pair<int, void (*)(void)>> loaded;
    {
        std::lock_guard<std::mutex> lock(mutex);
        if (loads_early() || !loaded.insert({ device, kernel }).second) {
            return;
        }
    }
    count_call(&stand_in_calls::late_loads);
    wait_for_device(device);
}

}

/* ---- devices ------------------------------------------------------------------------------------------- */

EXPORTED cudaError_t cudaGetDeviceCount(int *count)
{
    loads_early();
    *count = device_process::count_devices();
    return result(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

EXPORTED cudaError_t cudaSetDevice(int number)
{
    if (number < 0 || number >= device_process::count_devices()) {
        return result(cudaErrorInvalidDevice);
    }
    current_device = number;
    choices++;
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaGetDevice(int *number)
{
    *number = current_device;
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaDeviceReset(void)
{
    wait_for_device(current_device);
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaDeviceSynchronize(void)
{
    const char *captures = std::getenv("STAND_IN_CAPTURES");
    count_call(&stand_in_calls::synchronizations);
    if (captures != nullptr && captures[0] == '1') {
        return result(cudaErrorStreamCaptureUnsupported);
    }
    wait_for_device(current_device);
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int)
{
    *value = 0;
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int number)
{
    std::memset(properties, 0, sizeof(*properties));
    std::snprintf(properties->name, sizeof(properties->name), "stand-in %d", number);
    properties->totalGlobalMem = set().bytes;
    properties->major = 9;
    properties->warpSize = 32;
    properties->multiProcessorCount = 1;
    properties->concurrentKernels = 1;
    properties->asyncEngineCount = 2;
    properties->maxThreadsPerBlock = 1024;
    properties->pciBusID = number + 1;
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaDeviceCanAccessPeer(int *can, int, int)
{
    *can = 1;
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaDeviceEnablePeerAccess(int, unsigned)
{
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaGetLastError(void)
{
    cudaError_t error = latest;
    latest = cudaSuccess;
    return error;
}

EXPORTED const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaErrorIllegalAddress           ? "cudaErrorIllegalAddress"
           : error == cudaErrorMemoryAllocation       ? "cudaErrorMemoryAllocation"
           : error == cudaErrorInvalidResourceHandle ? "cudaErrorInvalidResourceHandle"
           : error == cudaErrorInvalidValue           ? "cudaErrorInvalidValue"
           : error == cudaErrorStreamCaptureUnsupported ? "cudaErrorStreamCaptureUnsupported"
                                                     : "cudaErrorUnknown";
}

EXPORTED const char *cudaGetErrorString(cudaError_t error)
{
    static thread_local char text[64];
    std::snprintf(text, sizeof(text), "the stand-in's error %d", static_cast<int>(error));
    return text;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

EXPORTED cudaError_t cudaMalloc(void **pointer, size_t size)
{
    wait_for_device(current_device);
    count_call(&stand_in_calls::mallocs);
    device &d = devices[current_device];
    std::lock_guard<std::mutex> lock(d.mutex);
    *pointer = nullptr;
    if (size == 0) {
        return result(cudaSuccess);
    }
    char *base = memory_of(current_device).base;
    char *found = nullptr;
    if (d.used + size <= set().bytes) {
        found = find_free(d, current_device, d.next == nullptr ? base : d.next, size);
        found = found == nullptr ? find_free(d, current_device, base, size) : found;
    }
    if (found == nullptr) {
        return result(cudaErrorMemoryAllocation);
    }
    d.blocks[found] = { size };
    d.used += size;
    d.next = found + rounded(size) + GAP;
    d.counts.peak_bytes = std::max(d.counts.peak_bytes, static_cast<int64_t>(d.used));
    std::memset(view_of(current_device, found), UNTOUCHED, size);
    std::memset(view_of(current_device, found) + size, GUARD, rounded(size) + GAP - size);
    *pointer = found;
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaFree(void *pointer)
{
    if (pointer == nullptr) {
        return result(cudaSuccess);
    }
    int number = device_of(pointer);
    if (number < 0) {
        return result(cudaErrorInvalidValue);
    }
    wait_for_device(number);
    count_call(&stand_in_calls::frees);
    device &d = devices[number];
    std::lock_guard<std::mutex> lock(d.mutex);
    auto found = d.blocks.find(static_cast<char *>(pointer));
    if (found == d.blocks.end()) {
        return result(cudaErrorInvalidValue);
    }
    size_t size = found->second.size;
    char *view = view_of(number, found->first);
    for (size_t i = size; i < rounded(size) + GAP; i++) {
        if (view[i] != GUARD) {
            std::fprintf(stderr, "stand-in: %zu bytes behind %zu bytes of device memory were written\n", i - size + 1,
                         size);
            std::abort();
        }
    }
    std::memset(view, FREED, size);
    d.used -= size;
    d.blocks.erase(found);
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    std::lock_guard<std::mutex> lock(devices[current_device].mutex);
    *total = set().bytes;
    *available = set().bytes - devices[current_device].used;
    return result(cudaSuccess);
}

namespace
{

/* Memory that is pinned twice, in part or as a whole, is an error, as CUDA has it. */
cudaError_t pin_host(void *pointer, size_t size, int64_t stand_in_calls::*counter)
{
    char *at = static_cast<char *>(pointer);
    std::lock_guard<std::mutex> lock(pinned_mutex);
    auto above = pinned.lower_bound(at);
    bool overlaps = above != pinned.end() && above->first < at + size;
    if (above != pinned.begin()) {
        auto below = std::prev(above);
        overlaps = overlaps || below->first + below->second > at;
    }
    calls.*counter += 1;
    if (overlaps) {
        return result(cudaErrorHostMemoryAlreadyRegistered);
    }
    pinned[at] = size;
    calls.pinned_bytes += static_cast<int64_t>(size);
    return result(cudaSuccess);
}

cudaError_t unpin_host(void *pointer, int64_t stand_in_calls::*counter)
{
    std::lock_guard<std::mutex> lock(pinned_mutex);
    calls.*counter += 1;
    auto found = pinned.find(static_cast<char *>(pointer));
    if (found == pinned.end()) {
        return result(cudaErrorHostMemoryNotRegistered);
    }
    expect_no_copy(found->first, found->second);
    calls.pinned_bytes -= static_cast<int64_t>(found->second);
    pinned.erase(found);
    return result(cudaSuccess);
}

}

EXPORTED cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned)
{
    return pin_host(pointer, size, &stand_in_calls::registers);
}

EXPORTED cudaError_t cudaHostUnregister(void *pointer)
{
    return unpin_host(pointer, &stand_in_calls::unregisters);
}

EXPORTED cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned)
{
    *pointer = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    return *pointer == nullptr ? result(cudaErrorMemoryAllocation) : pin_host(*pointer, size, &stand_in_calls::host_allocs);
}

EXPORTED cudaError_t cudaFreeHost(void *pointer)
{
    cudaError_t error = unpin_host(pointer, &stand_in_calls::host_frees);
    std::free(pointer);
    return error;
}

EXPORTED cudaError_t cudaHostGetDevicePointer(void **, void *, unsigned)
{
    return result(cudaErrorNotSupported); /* host memory is not mapped on these devices */
}

EXPORTED cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *pointer)
{
    std::memset(attributes, 0, sizeof(*attributes));
    int number = device_of(pointer);
    if (number >= 0) {
        attributes->type = cudaMemoryTypeDevice;
        attributes->device = number;
        attributes->devicePointer = const_cast<void *>(pointer);
    } else {
        attributes->type = is_pinned(pointer, 1) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
        attributes->hostPointer = const_cast<void *>(pointer);
    }
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaMemsetAsync(void *pointer, int value, size_t size, cudaStream_t given)
{
    int number = device_of(pointer);
    cudaStream_t stream = stream_of(given);
    if (number < 0 || !is_allocated(number, pointer, size)) {
        return result(cudaErrorInvalidValue);
    }
    char *at = view_of(number, static_cast<char *>(pointer));
    stream->push([=] { std::memset(at, value, size); });
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaMemset(void *pointer, int value, size_t size)
{
    cudaError_t error = cudaMemsetAsync(pointer, value, size, nullptr);
    stream_of(nullptr)->wait();
    return error == cudaSuccess ? result(cudaSuccess) : error;
}

/* ---- copies -------------------------------------------------------------------------------------------- */

EXPORTED cudaError_t cudaMemcpy(void *target, const void *source, size_t size, cudaMemcpyKind kind)
{
    return copy(target, size, source, size, size, 1, kind, nullptr, true);
}

EXPORTED cudaError_t cudaMemcpyAsync(void *target, const void *source, size_t size, cudaMemcpyKind kind,
                                     cudaStream_t stream)
{
    return copy(target, size, source, size, size, 1, kind, stream, false);
}

EXPORTED cudaError_t cudaMemcpy2D(void *target, size_t target_pitch, const void *source, size_t source_pitch,
                                  size_t width, size_t height, cudaMemcpyKind kind)
{
    return copy(target, target_pitch, source, source_pitch, width, height, kind, nullptr, true);
}

EXPORTED cudaError_t cudaMemcpy2DAsync(void *target, size_t target_pitch, const void *source, size_t source_pitch,
                                       size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy(target, target_pitch, source, source_pitch, width, height, kind, stream, false);
}

EXPORTED cudaError_t cudaMemcpyPeer(void *target, int to, const void *source, int from, size_t size)
{
    bool right = device_of(target) == to && device_of(source) == from;
    return right ? copy(target, size, source, size, size, 1, cudaMemcpyDeviceToDevice, nullptr, true)
                 : result(cudaErrorInvalidValue);
}

EXPORTED cudaError_t cudaMemcpyPeerAsync(void *target, int to, const void *source, int from, size_t size,
                                         cudaStream_t stream)
{
    bool right = device_of(target) == to && device_of(source) == from;
    return right ? copy(target, size, source, size, size, 1, cudaMemcpyDeviceToDevice, stream, false)
                 : result(cudaErrorInvalidValue);
}

/* StarPU has them for interfaces of three dimensions, which weft does not use. */
EXPORTED cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms *)
{
    return result(cudaErrorNotSupported);
}

EXPORTED cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms *, cudaStream_t)
{
    return result(cudaErrorNotSupported);
}

/* ---- streams and events -------------------------------------------------------------------------------- */

EXPORTED cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    *stream = new_stream(current_device);
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithFlags(stream, 0);
}

EXPORTED cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    {
        std::lock_guard<std::mutex> lock(devices[stream->device].mutex);
        devices[stream->device].streams.erase(stream);
    }
    delete stream; /* after what is in it */
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    stream_of(stream)->wait();
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *)
{
    return cudaSuccess;
}

EXPORTED cudaError_t cudaStreamQuery(cudaStream_t given)
{
    cudaStream_t stream = stream_of(given);
    std::lock_guard<std::mutex> lock(stream->mutex);
    cudaError_t lost_now = result(cudaSuccess);
    return lost_now != cudaSuccess ? lost_now : stream->done >= stream->pushed ? cudaSuccess : cudaErrorNotReady;
}

EXPORTED cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    *event = new CUevent_st;
    return result(cudaSuccess);
}

/* CUDA frees an event that is under way when it is reached; so it must not be freed here. */
EXPORTED cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    std::unique_lock<std::mutex> lock(event->mutex);
    event->changed.wait(lock, [event] { return event->reached >= event->recorded; });
    lock.unlock();
    delete event;
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    uint64_t number;
    {
        std::lock_guard<std::mutex> lock(event->mutex);
        number = ++event->recorded;
    }
    stream_of(stream)->push([event, number] {
        std::lock_guard<std::mutex> lock(event->mutex);
        event->reached = std::max(event->reached, number);
        event->changed.notify_all();
    });
    return result(cudaSuccess);
}

EXPORTED cudaError_t cudaEventQuery(cudaEvent_t event)
{
    std::lock_guard<std::mutex> lock(event->mutex);
    cudaError_t lost_now = result(cudaSuccess);
    return lost_now != cudaSuccess ? lost_now : event->reached >= event->recorded ? cudaSuccess : cudaErrorNotReady;
}

EXPORTED cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    std::unique_lock<std::mutex> lock(event->mutex);
    uint64_t number = event->recorded;
    event->changed.wait(lock, [event, number] { return event->reached >= number; });
    return result(cudaSuccess);
}

/* ---- kernels ------------------------------------------------------------------------------------------- */

EXPORTED int stand_in_launch(stand_in_runner runner, void (*kernel)(void), const void *argument, size_t size,
                             unsigned blocks, unsigned threads, void *given)
{
    enum { MAX_THREADS = 1024 };
    if (kernel == nullptr || blocks == 0 || threads == 0 || threads > MAX_THREADS || size > STAND_IN_MAX_ARGUMENT) {
        return result(cudaErrorInvalidValue);
    }
    cudaStream_t stream = stream_of(static_cast<cudaStream_t>(given));
    if (stream->device != current_device) {
        return result(cudaErrorInvalidResourceHandle); /* a stream of another device */
    }
    load(stream->device, kernel);
    cudaError_t before = result(cudaSuccess); /* an error of this kernel is seen later */
    std::string bytes(static_cast<const char *>(argument), size);
    static std::atomic<uint64_t> launches{ 0 };
    stand_in_order order = { set().direction, set().seed * 1000003u + ++launches };
    stream->push([=] {
        if (lost == cudaSuccess &&
            !device_process::run(runner, kernel, bytes.data(), size, blocks, threads, order)) {
            lost = cudaErrorIllegalAddress;
        }
        std::lock_guard<std::mutex> lock(devices[stream->device].mutex);
        devices[stream->device].counts.launches++;
    });
    return before;
}

EXPORTED stand_in_counts stand_in_device_counts(int number)
{
    std::lock_guard<std::mutex> lock(devices[number].mutex);
    return devices[number].counts;
}

EXPORTED int64_t stand_in_choices(void)
{
    return choices;
}

EXPORTED stand_in_calls stand_in_counted_calls(void)
{
    std::lock_guard<std::mutex> lock(pinned_mutex);
    return calls;
}

/* ---- for the stand-in of NCCL -------------------------------------------------------------------------- */

EXPORTED void stand_in_push(void *stream, void (*work)(void *), void *argument)
{
    static_cast<cudaStream_t>(stream)->push([=] { work(argument); });
}

EXPORTED int stand_in_device_of(void *stream)
{
    return static_cast<cudaStream_t>(stream)->device;
}

EXPORTED void *stand_in_view(int number, const void *pointer, size_t size)
{
    if (device_of(pointer) != number || !is_allocated(number, pointer, size)) {
        return nullptr;
    }
    return view_of(number, static_cast<char *>(const_cast<void *>(pointer)));
}
