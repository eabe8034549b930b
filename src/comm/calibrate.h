/* What the machines of a world can do, in the same figures on every process. */
#ifndef WEFT_SRC_COMM_CALIBRATE_H
#define WEFT_SRC_COMM_CALIBRATE_H

#include "comm/comm.h"

/* Sets weft_runtime.machine, its source and weft_runtime.spread. Process 0 reads, or measures, the figures of
 * its machine and of its links to a process of the same machine and to one of another, keeps what is new, and
 * tells all. Where something cannot be measured the built-in figures are taken, and nothing is kept. The
 * transport must have no messages, and no thread yet. BLOCKS; collective. Errors are kept: the transport is
 * then given up. */
weft_status weft_calibrate(const char *function, const weft_settings *settings,
                           const weft_transport *transport);

#endif
