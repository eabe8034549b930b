/* The startup handshake: all processes start, or none does. */
#ifndef WEFT_SRC_COMM_HANDSHAKE_H
#define WEFT_SRC_COMM_HANDSHAKE_H

#include "comm/comm.h"

/* `status`: how far this process has come, settings and runtime; an error of it is kept. Returns that error,
 * or else keeps and returns the one of a process that has failed, or WEFT_ERR_MISMATCH where settings differ
 * that must be the same on every process. All processes then get an error, and the transport can be closed as
 * usual. BLOCKS; collective. Where a process does not come within the time-out the world is broken and the
 * transport abandoned. */
weft_status weft_handshake(const char *function, weft_status status, const weft_settings *settings,
                           const weft_transport *transport);

#endif
