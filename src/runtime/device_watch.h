/* Notices lost devices: those that answer every call with an error from some kernel on. */
#ifndef WEFT_SRC_RUNTIME_DEVICE_WATCH_H
#define WEFT_SRC_RUNTIME_DEVICE_WATCH_H

#include <stdbool.h>

typedef struct weft_device_watch weft_device_watch;

/* NULL: no memory. */
weft_device_watch *weft_device_watch_new(void);
/* Tasks that StarPU launches on a device before it knows the end of the first (STARPU_CUDA_PIPELINE), at most. */
int weft_device_watch_tasks(const weft_device_watch *watch);
/* On the thread of a device's worker: watches its stream. */
void weft_device_watch_add(weft_device_watch *watch, int device, void *stream);
/* Call it after weft_device_watch_add() of all devices. `signals`: installs a handler of SIGABRT. False: no thread. */
bool weft_device_watch_start(weft_device_watch *watch, bool signals);
/* On the thread of a device's worker: notes the kernel that is launched next, and the public function that it belongs to.
 * Keeps the two texts' addresses. */
void weft_device_watch_launch(weft_device_watch *watch, const char *kernel, const char *function);
/* All tasks have ended: the communication engine and the operations, whose names it has, may be deleted. NULL: nothing. */
void weft_device_watch_leave(weft_device_watch *watch);
/* Before starpu_shutdown(). NULL: nothing. */
void weft_device_watch_stop(weft_device_watch *watch);

#endif
