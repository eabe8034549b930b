#include "runtime/background.h"

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

void weft_background_wake_on_time(void)
{
#ifdef PR_SET_TIMERSLACK
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* nanoseconds; 0 would be the default */
#endif
}
