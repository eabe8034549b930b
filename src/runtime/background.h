/* Threads beside the program's: all but the workers', which StarPU starts, and the progress thread. */
#ifndef WEFT_SRC_RUNTIME_BACKGROUND_H
#define WEFT_SRC_RUNTIME_BACKGROUND_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* Starts a thread that takes no signals but faults of its own: handlers of the program's run on its own threads. The caller joins it. False: there is no
 * thread. */
bool weft_background_start(pthread_t *thread, void *(*run)(void *argument), void *argument);

/* A condition whose timed waits count by a clock that nobody sets: they end in time even if the machine's time is set back.
 * False: there is no memory for it. */
bool weft_cond_init(pthread_cond_t *cond);

/* The time on that clock in so many microseconds, for pthread_cond_timedwait(). */
struct timespec weft_time_after(double us);

/* From now on the calling thread's sleeps end on time, within some microseconds: the kernel adds 50 to others. */
void weft_background_wake_on_time(void);

#endif
