#include "runtime/background.h"

#include <math.h>
#include <signal.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

bool weft_background_start(pthread_t *thread, void *(*run)(void *argument), void *argument)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT }; /* of the thread itself */
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        sigdelset(&all, faults[i]);
    }
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread, NULL, run, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

bool weft_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0) {
        return false;
    }
    bool done = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 && pthread_cond_init(cond, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return done;
}

struct timespec weft_time_after(double us)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    const double longest_us = 1e15; /* 31 years */
    us = fmin(us, longest_us);
    double seconds = floor(us / 1e6), ns = (double)time.tv_nsec + (us - seconds * 1e6) * 1e3;
    time.tv_sec += (time_t)seconds + (ns >= 1e9);
    time.tv_nsec = (long)(ns >= 1e9 ? ns - 1e9 : ns);
    return time;
}

void weft_background_wake_on_time(void)
{
#ifdef PR_SET_TIMERSLACK
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* nanoseconds; 0 would be the default */
#endif
}
