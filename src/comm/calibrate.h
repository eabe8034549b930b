/* Figures of the machine, the same on every process. */
#ifndef WEFT_SRC_COMM_CALIBRATE_H
#define WEFT_SRC_COMM_CALIBRATE_H

#include "comm/comm.h"

/* Sets weft_runtime.machine, its source and weft_runtime.spread. Process 0 reads or measures the figures
 * of its machine and of its links to a process of the same machine and to one of another machine, stores
 * new figures, and broadcasts them. If a measurement fails, the built-in figures are used and nothing is
 * stored. To be called before the first message and the first thread of the transport. BLOCKS; collective.
 * On an error (kept) the caller gives up the transport. */
weft_status weft_calibrate(const char *function, const weft_settings *settings,
                           const weft_transport *transport);

#endif
