/* SIGTERM, by which batch systems end processes. At its default a process would vanish, and the others would learn of it from a
 * time-out. (SIGINT goes to all processes alike, and StarPU catches it.) */
#ifndef WEFT_SRC_COMM_SIGNALS_H
#define WEFT_SRC_COMM_SIGNALS_H

#include <stdbool.h>

/* From here on SIGTERM, where the program leaves it at its default, is noted instead of ending this process at once. A second
 * one ends it at once. */
void weft_sigterm_watch(void);
/* Whether it has come. Any thread. */
bool weft_sigterm_noted(void);
/* The default again, where the disposition has not been changed meanwhile. */
void weft_sigterm_leave(void);

#endif
