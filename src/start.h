/* src: library start and stop, and sweeps of layouts. weft_init() over a transport that is given, for tests. */
#ifndef WEFT_SRC_START_H
#define WEFT_SRC_START_H

#include "comm/transport.h"

/* Opens a transport; an error is kept. */
typedef struct weft_opener {
    weft_status (*open)(const char *function, const weft_settings *settings, const void *argument,
                        weft_transport *transport);
    const void *argument;
    bool expects_all; /* number of processes started by a launcher; a lone one is warned */
} weft_opener;

/* weft_init() over that transport, in a world of WEFT_WORLD_MPI. NULL: the one that config and the environment name. */
weft_status weft_init_over(const char *function, const weft_opener *opener, const weft_config *config);

/* weft_runtime.sweep_layouts (sweep.c). */
void weft_sweep_layouts(void);

#endif
