/* The startup handshake: all processes start, or none does. */
#ifndef WEFT_SRC_COMM_HANDSHAKE_H
#define WEFT_SRC_COMM_HANDSHAKE_H

#include "comm/comm.h"

/* `status`: the state of this process's settings and runtime; an error of its own is kept. Returns that
 * error, or else keeps and returns the error of a process that failed, or WEFT_ERR_MISMATCH where settings
 * differ that must be equal on all processes. All processes then get an error, and the transport can be
 * closed as usual. If a process does not come within the time-out the world is broken and the transport
 * abandoned. BLOCKS; collective. */
weft_status weft_handshake(const char *function, weft_status status, const weft_settings *settings,
                           const weft_transport *transport);

#endif
