#include "comm/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* A handler can reach lock-free atomics alone. */
static struct {
    atomic_bool noted;
    atomic_int process; /* that watches: a forked child inherits the handler, and has no thread that looks */
} sigterm;

/* The disposition is the default again (SA_RESETHAND). */
static void note(int number)
{
    if (getpid() != sigterm.process) {
        raise(number); /* delivered when this function returns */
        return;
    }
    sigterm.noted = true;
}

/* Whether the disposition is this one. */
static bool is_handled_by(void (*handler)(int))
{
    struct sigaction action;
    return sigaction(SIGTERM, NULL, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == handler;
}

void weft_sigterm_watch(void)
{
    sigterm.noted = false;
    sigterm.process = (int)getpid();
    if (is_handled_by(SIG_DFL)) {
        struct sigaction action;
        memset(&action, 0, sizeof(action));
        action.sa_handler = note;
        action.sa_flags = (int)SA_RESETHAND | SA_RESTART;
        sigaction(SIGTERM, &action, NULL);
    }
}

bool weft_sigterm_noted(void)
{
    return sigterm.noted;
}

void weft_sigterm_leave(void)
{
    if (is_handled_by(note)) {
        signal(SIGTERM, SIG_DFL);
    }
}
