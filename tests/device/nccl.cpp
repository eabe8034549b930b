/* The part of NCCL that weft calls, between threads or processes of one machine, on the stand-in's streams. Ranks share a
 * segment of memory with a pipe for each ordered pair.
 *
 * A group is one piece of work in its stream: all its messages at once, and nothing behind it until all have ended. So groups
 * in different orders wait for each other for ever, as on devices. Besides each message says in which group of its pair it
 * was sent, and how long it is: one that meets another is reported, and fails both communicators. A stream takes few groups
 * at once; the others, and some at random, are put into it later: until then the communicator is "in progress", and what
 * the caller puts into the stream comes before them. */
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "stand_in.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace
{

enum { MAX_RANKS = 8, PIPE_BYTES = 1 << 15, GROUPS_AT_ONCE = 4 };

/* From one rank to another. */
struct pipe_memory {
    std::atomic<uint64_t> written, read;
    char bytes[PIPE_BYTES];
};

struct segment {
    std::atomic<int> joined, failed;
    pipe_memory pipes[MAX_RANKS][MAX_RANKS]; /* [from][to] */
};

/* Before the bytes of a message. */
struct header {
    uint64_t group, bytes;
};

struct operation {
    bool receives;
    int peer;
    char *view;
    header own, met; /* met: as it comes */
    uint64_t done = 0; /* bytes, of the header too */
};

std::mutex counts_mutex;
stand_in_nccl_counts counts;

}

struct ncclComm {
    segment *shared;
    int ranks, rank, device;
    std::atomic<int> under_way{ 0 };
    std::atomic<bool> aborted{ false };
    uint64_t groups_with[MAX_RANKS] = {};
    /* Not yet in its stream. */
    std::unique_ptr<struct group> waiting;
    cudaStream_t stream = nullptr;
    int looks = 0;
    std::minstd_rand random;
};

struct group {
    ncclComm_t comm;
    std::vector<operation> operations;
    std::function<void()> after; /* when all have ended */
};

namespace
{

thread_local int depth = 0;
thread_local ncclComm_t current = nullptr;
thread_local cudaStream_t current_stream = nullptr;
thread_local std::vector<operation> open_operations;
thread_local std::function<void()> open_after;

/* ---- in the stream ------------------------------------------------------------------------------------- */

/* Moves what can be moved now; false: nothing. */
bool through_pipe(pipe_memory &pipe, bool receives, char *at, uint64_t size, uint64_t *moved)
{
    uint64_t written = pipe.written, read = pipe.read;
    uint64_t room = receives ? written - read : PIPE_BYTES - (written - read);
    uint64_t place = (receives ? read : written) % PIPE_BYTES;
    uint64_t part = std::min({ size, room, PIPE_BYTES - place });
    if (part == 0) {
        return false;
    }
    if (receives) {
        std::memcpy(at, pipe.bytes + place, part);
        pipe.read = read + part;
    } else {
        std::memcpy(pipe.bytes + place, at, part);
        pipe.written = written + part;
    }
    *moved += part;
    return true;
}

bool is_over(const operation &o)
{
    return o.done == sizeof(header) + o.own.bytes;
}

void report_mismatch(ncclComm_t comm, const operation &o)
{
    std::fprintf(stderr,
                 "stand-in nccl: rank %d waits in its group %llu with rank %d for %llu bytes, and meets group %llu, %llu bytes: "
                 "groups were issued in different orders\n",
                 comm->rank, (unsigned long long)o.own.group, o.peer, (unsigned long long)o.own.bytes,
                 (unsigned long long)o.met.group, (unsigned long long)o.met.bytes);
    comm->shared->failed = 1;
    std::lock_guard<std::mutex> lock(counts_mutex);
    counts.mismatches++;
}

bool step(ncclComm_t comm, operation &o)
{
    pipe_memory &pipe = o.receives ? comm->shared->pipes[o.peer][comm->rank] : comm->shared->pipes[comm->rank][o.peer];
    if (o.done < sizeof(header)) {
        char *at = reinterpret_cast<char *>(o.receives ? &o.met : &o.own) + o.done;
        if (!through_pipe(pipe, o.receives, at, sizeof(header) - o.done, &o.done)) {
            return false;
        }
        if (o.receives && o.done == sizeof(header) && std::memcmp(&o.met, &o.own, sizeof(header)) != 0) {
            report_mismatch(comm, o);
        }
        return true;
    }
    uint64_t at = o.done - sizeof(header);
    return through_pipe(pipe, o.receives, o.view + at, o.own.bytes - at, &o.done);
}

/* Messages of a pair go one after the other, those of different pairs together. False: nothing has moved. */
bool step_all(group &g, bool &over)
{
    bool moved = false, busy[2][MAX_RANKS] = {};
    over = true;
    for (operation &o : g.operations) {
        if (!is_over(o) && !busy[o.receives][o.peer]) {
            busy[o.receives][o.peer] = true;
            moved = step(g.comm, o) || moved;
        }
        over = over && is_over(o);
    }
    return moved;
}

void run(void *argument)
{
    std::unique_ptr<group> g(static_cast<group *>(argument));
    ncclComm_t comm = g->comm;
    for (bool over = false; !over && !comm->aborted && !comm->shared->failed;) {
        if (!step_all(*g, over)) {
            usleep(50);
        }
    }
    if (g->after && !comm->aborted && !comm->shared->failed) {
        g->after();
    }
    /* After a mismatch a stream hangs, as a device's, until the communicator is given up. */
    while (comm->shared->failed && !comm->aborted) {
        usleep(1000);
    }
    comm->under_way--;
}

/* ---- issuing ------------------------------------------------------------------------------------------- */

/* Puts the waiting group into its stream, unless it has to wait longer. */
ncclResult_t advance(ncclComm_t comm)
{
    if (comm->shared->failed) {
        return ncclInvalidUsage;
    }
    if (comm->shared->joined < comm->ranks) {
        return ncclInProgress;
    }
    if (comm->waiting != nullptr) {
        if (comm->under_way >= GROUPS_AT_ONCE || comm->looks-- > 0) {
            return ncclInProgress;
        }
        comm->under_way++;
        stand_in_push(comm->stream, run, comm->waiting.release());
    }
    return ncclSuccess;
}

ncclResult_t add(bool receives, const void *memory, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                 cudaStream_t stream)
{
    if (type != ncclUint8 || peer < 0 || peer >= comm->ranks || peer == comm->rank || depth == 0 ||
        (current != nullptr && (current != comm || current_stream != stream))) {
        return ncclInvalidArgument;
    }
    char *view = static_cast<char *>(stand_in_view(comm->device, memory, count));
    if (view == nullptr || stand_in_device_of(stream) != comm->device) {
        return ncclInvalidUsage; /* memory or stream of another device, or of the host */
    }
    current = comm;
    current_stream = stream;
    operation o = {};
    o.receives = receives;
    o.peer = peer;
    o.view = view;
    o.own.bytes = count;
    open_operations.push_back(o);
    return ncclSuccess;
}

}

EXPORTED ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static std::atomic<int> made{ 0 };
    std::memset(id, 0, sizeof(*id));
    std::snprintf(id->internal, sizeof(id->internal), "/weft-nccl-%d-%d", static_cast<int>(getpid()), made++);
    int file = shm_open(id->internal, O_RDWR | O_CREAT | O_EXCL, 0600);
    bool made_it = file >= 0 && ftruncate(file, sizeof(segment)) == 0;
    close(file);
    return made_it ? ncclSuccess : ncclSystemError;
}

EXPORTED ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    int device = 0;
    *comm = nullptr;
    if (ranks > MAX_RANKS || rank < 0 || rank >= ranks || config->blocking != 0 || cudaGetDevice(&device) != cudaSuccess) {
        return ncclInvalidArgument;
    }
    int file = shm_open(id.internal, O_RDWR, 0600);
    void *mapped = file < 0 ? MAP_FAILED : mmap(nullptr, sizeof(segment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED) {
        return ncclSystemError;
    }
    ncclComm_t made = new ncclComm;
    made->shared = static_cast<segment *>(mapped);
    made->ranks = ranks;
    made->rank = rank;
    made->device = device;
    made->random.seed(static_cast<unsigned>(rank) + 1);
    if (++made->shared->joined == ranks) {
        shm_unlink(id.internal);
    }
    *comm = made;
    std::lock_guard<std::mutex> lock(counts_mutex);
    counts.communicators++;
    return ncclInProgress;
}

EXPORTED ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result)
{
    *result = advance(comm);
    return ncclSuccess;
}

EXPORTED const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess         ? "no error"
           : result == ncclInProgress    ? "in progress"
           : result == ncclInvalidUsage  ? "the stand-in's invalid usage"
           : result == ncclInvalidArgument ? "the stand-in's invalid argument"
                                         : "the stand-in's error";
}

EXPORTED ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclGroupEnd(void)
{
    if (--depth > 0 || current == nullptr) {
        return ncclSuccess;
    }
    ncclComm_t comm = current;
    current = nullptr;
    if (comm->waiting != nullptr) {
        open_operations.clear();
        open_after = nullptr;
        return ncclInvalidUsage; /* the caller has not waited for the group before it */
    }
    comm->waiting.reset(new group{ comm, std::move(open_operations), std::move(open_after) });
    comm->stream = current_stream;
    comm->looks = static_cast<int>(comm->random() % 4) - 1;
    open_operations.clear();
    open_after = nullptr;
    bool with[MAX_RANKS] = {};
    std::lock_guard<std::mutex> lock(counts_mutex);
    counts.groups++;
    for (operation &o : comm->waiting->operations) {
        comm->groups_with[o.peer] += !with[o.peer];
        with[o.peer] = true;
        o.own.group = comm->groups_with[o.peer];
        counts.messages += !o.receives;
        counts.bytes += o.receives ? 0 : static_cast<int64_t>(o.own.bytes);
    }
    return advance(comm);
}

EXPORTED ncclResult_t ncclSend(const void *memory, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                               cudaStream_t stream)
{
    return add(false, memory, count, type, peer, comm, stream);
}

EXPORTED ncclResult_t ncclRecv(void *memory, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                               cudaStream_t stream)
{
    return add(true, memory, count, type, peer, comm, stream);
}

/* ---- collectives, of bench/gpu_nccl.c alone: messages between all, added up in the order of ranks ------------------------ */

namespace
{

operation message(bool receives, int peer, char *view, size_t bytes)
{
    operation o = {};
    o.receives = receives;
    o.peer = peer;
    o.view = view;
    o.own.bytes = bytes;
    return o;
}

/* Each rank sends `bytes` to each other one, from `from` and `step` times the other's number; what all have sent, one behind the
 * other, is given to `take`. */
ncclResult_t exchange_all(const void *from, size_t from_bytes, size_t step, const void *to, size_t to_bytes, size_t bytes,
                          ncclComm_t comm, cudaStream_t stream, const std::function<void(const char *all, char *to)> &take)
{
    char *source = static_cast<char *>(stand_in_view(comm->device, from, from_bytes));
    char *target = static_cast<char *>(stand_in_view(comm->device, to, to_bytes));
    if (source == nullptr || target == nullptr || depth > 0 || stand_in_device_of(stream) != comm->device) {
        return ncclInvalidUsage;
    }
    auto all = std::make_shared<std::vector<char>>(bytes * static_cast<size_t>(comm->ranks));
    ncclGroupStart();
    for (int p = 0; p < comm->ranks; p++) {
        if (p != comm->rank) {
            open_operations.push_back(message(false, p, source + step * static_cast<size_t>(p), bytes));
            open_operations.push_back(message(true, p, all->data() + bytes * static_cast<size_t>(p), bytes));
        }
    }
    size_t rank = static_cast<size_t>(comm->rank);
    open_after = [=] {
        std::memcpy(all->data() + bytes * rank, source + step * rank, bytes);
        take(all->data(), target);
    };
    current = comm;
    current_stream = stream;
    return ncclGroupEnd();
}

void add_up(const char *all, char *to, size_t count, int ranks)
{
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (int p = 0; p < ranks; p++) {
            float value;
            std::memcpy(&value, all + (static_cast<size_t>(p) * count + i) * sizeof(value), sizeof(value));
            sum += value;
        }
        std::memcpy(to + i * sizeof(sum), &sum, sizeof(sum));
    }
}

}

EXPORTED ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                                    cudaStream_t stream)
{
    size_t bytes = count * sizeof(float), total = bytes * static_cast<size_t>(comm->ranks);
    return type != ncclFloat ? ncclInvalidArgument
                             : exchange_all(from, bytes, 0, to, total, bytes, comm, stream,
                                            [=](const char *all, char *at) { std::memcpy(at, all, total); });
}

EXPORTED ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                        ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * sizeof(float);
    int ranks = comm->ranks;
    return type != ncclFloat || op != ncclSum
               ? ncclInvalidArgument
               : exchange_all(from, bytes * static_cast<size_t>(ranks), bytes, to, bytes, bytes, comm, stream,
                              [=](const char *all, char *at) { add_up(all, at, count, ranks); });
}

EXPORTED ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                    ncclComm_t comm, cudaStream_t stream)
{
    size_t bytes = count * sizeof(float);
    int ranks = comm->ranks;
    return type != ncclFloat || op != ncclSum ? ncclInvalidArgument
                                              : exchange_all(from, bytes, 0, to, bytes, bytes, comm, stream,
                                                             [=](const char *all, char *at) { add_up(all, at, count, ranks); });
}

EXPORTED ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    comm->aborted = true;
    return ncclCommDestroy(comm);
}

EXPORTED ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    while (comm->under_way > 0) {
        usleep(100);
    }
    munmap(comm->shared, sizeof(segment));
    delete comm;
    return ncclSuccess;
}

EXPORTED stand_in_nccl_counts stand_in_nccl_counted(void)
{
    std::lock_guard<std::mutex> lock(counts_mutex);
    return counts;
}
