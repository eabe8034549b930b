#include "device_process.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace
{

enum { NUM_LINES = 8 }; /* kernels at once */

struct request {
    stand_in_runner runner;
    void (*kernel)(void);
    size_t size;
    unsigned blocks, threads;
    stand_in_order order;
    char argument[STAND_IN_MAX_ARGUMENT];
};

int num_devices;
device_process::memory memories[STAND_IN_MAX_DEVICES];

std::mutex lines_mutex;
std::condition_variable line_is_free;
std::vector<int> free_lines;

void stop(const char *why)
{
    std::perror(why);
    std::abort();
}

bool transfer(bool sends, int socket, void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        char *at = static_cast<char *>(data) + done;
        ssize_t n = sends ? send(socket, at, size - done, MSG_NOSIGNAL) : recv(socket, at, size - done, 0);
        if (n <= 0) {
            return false;
        }
        done += static_cast<size_t>(n);
    }
    return true;
}

/* In the devices' process: runs what comes, until the other process has ended. */
void serve(int socket)
{
    static thread_local request next;
    char done = 1;
    while (transfer(false, socket, &next, sizeof(next))) {
        next.runner(next.kernel, next.argument, next.blocks, next.threads, next.order);
        if (!transfer(true, socket, &done, 1)) {
            break;
        }
    }
    _exit(0);
}

[[noreturn]] void be_devices(const int sockets[])
{
    std::signal(SIGINT, SIG_IGN); /* it ends with the other process */
    for (int i = 0; i < num_devices; i++) {
        munmap(memories[i].view, memories[i].size);
        if (mprotect(memories[i].base, memories[i].size, PROT_READ | PROT_WRITE) != 0) {
            stop("mprotect");
        }
    }
    std::vector<std::thread> servers;
    for (int i = 0; i < NUM_LINES; i++) {
        servers.emplace_back(serve, sockets[i]);
    }
    for (std::thread &server : servers) {
        server.join();
    }
    _exit(0);
}

size_t setting(const char *name, size_t otherwise)
{
    const char *text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

void map_memory(device_process::memory &memory, size_t size)
{
    int here = setting("STAND_IN_MAPPED", 0) == 1 ? PROT_READ | PROT_WRITE : PROT_NONE;
    int file = memfd_create("device memory", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) {
        stop("device memory");
    }
    memory.size = size;
    memory.base = static_cast<char *>(mmap(nullptr, size, here, MAP_SHARED, file, 0));
    memory.view = static_cast<char *>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    if (memory.base == MAP_FAILED || memory.view == MAP_FAILED) {
        stop("device memory");
    }
    close(file);
}

int fork_devices()
{
    size_t wanted = setting("STAND_IN_DEVICES", 0);
    num_devices = static_cast<int>(std::min<size_t>(wanted, STAND_IN_MAX_DEVICES));
    if (num_devices == 0) {
        return 0;
    }
    /* Addresses in abundance: memory that is never touched costs nothing, and freed memory is not used again soon. */
    size_t bytes = (setting("STAND_IN_BYTES", 256u << 20) + 4095) / 4096 * 4096;
    for (int i = 0; i < num_devices; i++) {
        map_memory(memories[i], 4 * bytes + (64u << 20));
    }
    int here[NUM_LINES], there[NUM_LINES];
    for (int i = 0; i < NUM_LINES; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
            stop("socketpair");
        }
        here[i] = pair[0];
        there[i] = pair[1];
    }
    pid_t process = fork();
    if (process < 0) {
        stop("fork");
    }
    if (process == 0) {
        for (int socket : here) {
            close(socket);
        }
        be_devices(there);
    }
    for (int socket : there) {
        close(socket);
    }
    free_lines.assign(here, here + NUM_LINES);
    return num_devices;
}

/* When the library is loaded, and behind the variables above. */
const int forked = fork_devices();

}

int device_process::count_devices()
{
    return forked;
}

const device_process::memory &device_process::memory_of(int device)
{
    return memories[device];
}

bool device_process::run(stand_in_runner runner, void (*kernel)(void), const void *argument, size_t size,
                         unsigned blocks, unsigned threads, stand_in_order order)
{
    request sent = { runner, kernel, size, blocks, threads, order, {} };
    std::memcpy(sent.argument, argument, size);
    std::unique_lock<std::mutex> lock(lines_mutex);
    line_is_free.wait(lock, [] { return !free_lines.empty(); });
    int line = free_lines.back();
    free_lines.pop_back();
    lock.unlock();
    char done = 0;
    bool ran = transfer(true, line, &sent, sizeof(sent)) && transfer(false, line, &done, 1);
    lock.lock();
    free_lines.push_back(line);
    lock.unlock();
    line_is_free.notify_one();
    return ran;
}
