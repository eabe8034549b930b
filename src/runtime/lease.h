/* Memory of buffers that code outside of the library reads: on any thread, at any time, also after weft_finalize(). While a
 * lease is in use its buffer has one more reference, so that nothing writes to it and it is not reused. */
#ifndef WEFT_SRC_RUNTIME_LEASE_H
#define WEFT_SRC_RUNTIME_LEASE_H

#include "runtime/pool.h"

typedef struct weft_lease weft_lease;

/* Takes a reference of the buffer's lease, which is new if it has none. NULL: no memory. */
weft_lease *weft_lease_take(weft_buffer *buffer);
/* Releases one reference. Thread-safe. */
void weft_lease_give_back(weft_lease *lease);
/* Releases the buffers of leases that are not in use any more. BLOCKS until kernels on devices where their panels stay have ended; a lease
 * whose device does not tell waits for a later call. */
void weft_leases_collect(void);
/* Has the values of one of the buffer's panels stay in the memory of a device until the lease is released: weft_cuda_hold(). BLOCKS.
 * Returns their address there. NULL: no memory. */
void *weft_lease_hold(weft_lease *lease, starpu_data_handle_t handle, int number, int *node);
/* Bytes of all panels that stay so. */
int64_t weft_lease_held_bytes(void);
/* Whether this one does: it must not be acquired for writing then. NULL: no lease. */
bool weft_lease_holds(const weft_lease *lease, starpu_data_handle_t handle);
/* The buffer ends, and with it its panels in the memory of devices. BLOCKS until kernels that read them have ended. NULL: no lease. */
void weft_lease_let_go(weft_lease *lease);
/* The pool ends, and with it the buffer. True: its memory is in use, and the lease's from now on. `freeable`: by free(); else
 * it stays until the process ends. */
bool weft_lease_outlives(weft_lease *lease, bool freeable);

#endif
