/* From where weft may be called: from the thread that called weft_init(), in the process in which it did. */
#ifndef WEFT_SRC_RUNTIME_THREAD_H
#define WEFT_SRC_RUNTIME_THREAD_H

#include <stdbool.h>

#include "runtime/runtime.h"

/* The calling thread becomes the one that may call. An error, kept, where another one is, or where this
 * process was forked from one in which weft runs. */
weft_status weft_thread_claim(const char *function);
/* None may any more. */
void weft_thread_leave(void);
/* weft does not run here, nor did it when this process was forked: what only tells something tells nothing,
 * and no error. */
bool weft_thread_none(void);
/* This process was forked from one in which weft ran: that one's threads, and what it had locked, are not to
 * be waited for. */
bool weft_thread_forked(void);

#endif
