/* Which thread may call weft: the one that called weft_init(), in that process. */
#ifndef WEFT_SRC_RUNTIME_THREAD_H
#define WEFT_SRC_RUNTIME_THREAD_H

#include <stdbool.h>

#include "runtime/runtime.h"

/* The calling thread becomes the one that may call. WEFT_ERR_STATE, kept: another thread is, or this
 * process was forked from one in which weft runs. */
weft_status weft_thread_claim(const char *function);
/* No thread may call any more. */
void weft_thread_leave(void);
/* Calls a function of the program's in the midst of a call of weft's. Meanwhile no thread may call weft. */
void weft_thread_call_barred(void (*function)(void *argument), void *argument);
/* weft does not run here, and did not when this process was forked: functions that only print then print
 * nothing, without an error. */
bool weft_thread_none(void);
/* This process was forked from one in which weft ran: threads and locks of that process must not be waited
 * for. */
bool weft_thread_forked(void);

#endif
