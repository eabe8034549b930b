#define _GNU_SOURCE /* RTLD_NEXT */
#include "fault.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <mpi.h>

/* The C library's functions, under their second names. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

/* Bounds of this program's code, with weft's (a static library); defined by the linker. */
extern char __executable_start, etext;

static struct {
    char name[32]; /* "": nothing */
    fault_moment moment;
    long number;
    int process;
    int pipe;                 /* to the one that wakes this process; -1: none */
    _Atomic bool happened;    /* said */
    _Atomic bool failing;     /* allocations fail */
    bool all_fail;            /* also those of other libraries */
    _Atomic long left;        /* allocations, or threads, that there still are */
    _Atomic bool few_threads; /* pthread_create() counts */
    int calls;
    _Atomic int kernels;
} fault = { .pipe = -1 };

static const char *const moment_names[NUM_MOMENTS] = {
    [BEFORE] = "before",      [IN_MPI] = "mpi",           [IN_INIT] = "init",
    [AT_CALL] = "call",       [IN_KERNEL] = "kernel",     [IN_WAIT] = "wait",
    [IN_TO_HOST] = "to_host", [IN_FINALIZE] = "finalize", [AFTER] = "after",
};

static fault_moment moment_of(const char *name)
{
    fault_moment m = BEFORE;
    while (m < NUM_MOMENTS && strcmp(name, moment_names[m]) != 0) {
        m++;
    }
    return m;
}

void say(int process, const char *format, ...)
{
    char text[4096];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int length = snprintf(text, sizeof(text), "process %d ", process);
    va_list values;
    va_start(values, format);
    length += vsnprintf(text + length, sizeof(text) - 64 - (size_t)length, format, values);
    va_end(values);
    length = length > (int)sizeof(text) - 64 ? (int)sizeof(text) - 64 : length;
    length += snprintf(text + length, 64, " at %.3f\n", (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    if (write(1, text, (size_t)length) < 0) {
        _exit(5);
    }
}

static bool is(const char *name)
{
    return strcmp(fault.name, name) == 0;
}

static void say_once(void)
{
    if (!atomic_exchange(&fault.happened, true)) {
        say(fault.process, "does %s", fault.name);
    }
}

/* ---- what goes wrong ----------------------------------------------------------------------------------- */

/* Limits the address space to its present size and a little more. */
static void tighten(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    struct rlimit limit;
    if (file != NULL && fscanf(file, "%ld", &pages) == 1 && getrlimit(RLIMIT_AS, &limit) == 0) {
        limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)1 << 20);
        setrlimit(RLIMIT_AS, &limit);
    }
    if (file != NULL) {
        fclose(file);
    }
}

static void nap(long milliseconds)
{
    struct timespec left = { milliseconds / 1000, milliseconds % 1000 * 1000000 };
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* "NAME:MILLISECONDS" */
static long milliseconds(void)
{
    const char *colon = strchr(fault.name, ':');
    return colon == NULL ? 0 : atol(colon + 1);
}

static void stop(void)
{
    if (fault.pipe >= 0 && write(fault.pipe, "", 1) != 1) {
        _exit(5);
    }
    kill(getpid(), SIGSTOP);
}

/* Wakes the process after a while. Before MPI, so that it is a small process that forks. */
static void start_waker(long after_ms)
{
    int ends[2];
    if (pipe(ends) != 0) {
        _exit(5);
    }
    pid_t parent = getpid(), waker = fork();
    if (waker == 0) {
        char byte;
        for (int i = 0; i < 1024; i++) { /* the launcher waits for the end of all outputs */
            if (i != ends[0]) {
                close(i);
            }
        }
        if (read(ends[0], &byte, 1) == 1) {
            nap(after_ms);
            kill(parent, SIGCONT);
        }
        _exit(0);
    }
    close(ends[0]);
    fault.pipe = ends[1];
}

/* In a handler as well, but for the exits, which are of the program's own functions. */
static void happen(void)
{
    say_once();
    if (is("kill")) {
        kill(getpid(), SIGKILL);
    } else if (is("abort")) {
        abort();
    } else if (is("quit")) {
        _exit(3);
    } else if (is("exit0") || is("exit3")) {
        exit(is("exit3") ? 3 : 0);
    } else if (is("stop") || strncmp(fault.name, "pause:", 6) == 0) {
        stop();
    } else if (strncmp(fault.name, "slow:", 5) == 0) {
        nap(milliseconds());
    } else if (is("address")) {
        tighten();
    }
}

static void on_alarm(int signal_number)
{
    (void)signal_number;
    int error = errno;
    happen();
    errno = error;
}

/* From here on, after so many that succeed. */
static bool begin_to_fail(long count)
{
    if (is("memory") || is("exhausted") || is("memory_once")) {
        fault.all_fail = is("exhausted");
        atomic_store(&fault.left, count);
        atomic_store(&fault.failing, true);
        return true;
    }
    if (is("threads")) {
        atomic_store(&fault.left, count);
        atomic_store(&fault.few_threads, true);
        return true;
    }
    return false;
}

/* ---- when ---------------------------------------------------------------------------------------------- */

void fault_read(char *argv[], int process)
{
    fault.process = process;
    if (atoi(argv[0]) != process) {
        return;
    }
    snprintf(fault.name, sizeof(fault.name), "%s", argv[1]);
    fault.moment = moment_of(argv[2]);
    fault.number = atol(argv[3]);
    signal(SIGALRM, on_alarm);
    if (strncmp(fault.name, "pause:", 6) == 0) {
        start_waker(milliseconds());
    }
}

void fault_moment_begins(fault_moment moment)
{
    if (fault.name[0] == '\0' || moment != fault.moment || begin_to_fail(fault.number)) {
        return;
    }
    if (moment == BEFORE || moment == AFTER) {
        happen();
        return;
    }
    fault.moment = NUM_MOMENTS; /* weft_wait() and weft_to_host() come again */
    struct itimerval once = { .it_value = { .tv_sec = fault.number / 1000000,
                                            .tv_usec = fault.number % 1000000 + 1 } };
    setitimer(ITIMER_REAL, &once, NULL);
}

divergence fault_turn(void)
{
    static const char *const names[] = {
        [OTHER_OPERATION] = "operation", [OTHER_SHAPE] = "shape",    [OTHER_TYPE] = "type",
        [OTHER_ATTRIBUTE] = "attribute", [MISSING_CALL] = "missing", [EXTRA_CALL] = "extra",
        [BAD_ARGUMENT] = "argument",     [EARLY_RETURN] = "return",
    };
    if (fault.name[0] == '\0' || fault.moment != AT_CALL || ++fault.calls != fault.number) {
        return NO_DIVERGENCE;
    }
    if (begin_to_fail(0)) {
        return NO_DIVERGENCE;
    }
    for (divergence d = OTHER_OPERATION; d <= EARLY_RETURN; d++) {
        if (is(names[d])) {
            say_once();
            return d;
        }
    }
    happen();
    return NO_DIVERGENCE;
}

/* ---- what is replaced ---------------------------------------------------------------------------------- */

static bool refuses(const void *caller)
{
    if (!atomic_load_explicit(&fault.failing, memory_order_relaxed)) {
        return false;
    }
    const char *place = caller;
    if (!fault.all_fail && (place < &__executable_start || place >= &etext)) {
        return false;
    }
    long left = atomic_fetch_sub(&fault.left, 1);
    if (left > 0 || (left < 0 && is("memory_once"))) {
        return false;
    }
    if (!atomic_exchange(&fault.happened, true)) {
        say(fault.process, "does %s: refused at %#tx", fault.name,
            place - &__executable_start); /* addr2line */
    }
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return refuses(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return refuses(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    return refuses(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return refuses(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    if (refuses(__builtin_return_address(0))) {
        return ENOMEM;
    }
    *memory = __libc_memalign(alignment, size);
    return *memory == NULL ? ENOMEM : 0;
}

typedef struct thread_start {
    void *(*run)(void *);
    void *argument;
    bool counts;
} thread_start;

static void give_back(void *counts)
{
    if (counts != NULL) {
        atomic_fetch_add(&fault.left, 1);
    }
}

static void *run_thread(void *memory)
{
    thread_start start = *(thread_start *)memory;
    free(memory);
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL); /* the program's thread takes it */
    void *result;
    pthread_cleanup_push(give_back, start.counts ? &fault : NULL);
    result = start.run(start.argument);
    pthread_cleanup_pop(1);
    return result;
}

/* Limits the number of threads, those of StarPU, of MPI and of weft. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    bool counts = atomic_load(&fault.few_threads);
    if (counts && atomic_fetch_sub(&fault.left, 1) <= 0) {
        atomic_fetch_add(&fault.left, 1);
        say_once();
        return EAGAIN;
    }
    void *found = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&create, &found, sizeof(create));
    thread_start *start = __libc_malloc(sizeof(*start));
    if (start == NULL) {
        return EAGAIN;
    }
    *start = (thread_start){ run, argument, counts };
    return create(thread, attributes, run_thread, start);
}

int MPI_Init_thread(int *count, char ***arguments, int required, int *provided)
{
    bool here = fault.name[0] != '\0' && fault.moment == IN_MPI;
    if (here && fault.number % 2 == 0 && !is("threads")) {
        happen();
    }
    int error = PMPI_Init_thread(count, arguments, required, provided);
    if (here && !begin_to_fail(fault.number) && fault.number % 2 != 0) {
        happen();
    }
    return error;
}

void fault_kernel(void)
{
    if (fault.name[0] != '\0' && fault.moment == IN_KERNEL &&
        atomic_fetch_add(&fault.kernels, 1) + 1 == fault.number && !begin_to_fail(0)) {
        happen();
    }
}
