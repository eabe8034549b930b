/* The flight record: the last public calls of this process, for reports of a broken world. A ring that the
 * submitting thread writes with a few stores per call, and that any thread may read at the same time. */
#ifndef WEFT_SRC_COMM_FLIGHT_H
#define WEFT_SRC_COMM_FLIGHT_H

#include "comm/check_spmd.h"

/* Number of recorded calls. */
enum { WEFT_FLIGHT_CALLS = 256 };

typedef struct weft_flight weft_flight;

weft_flight *weft_flight_new(void); /* NULL: no memory */
void weft_flight_free(weft_flight *flight);

/* Records the next call (numbers count from 1); `digest` covers all calls up to it. The function's name lives as long as the
 * world. */
void weft_flight_note(weft_flight *flight, const weft_call_signature *call, uint64_t number, uint64_t digest);

/* The submitting thread: meets the layouts of the recorded calls, and ends the sweep. Waits for readers, which read layouts
 * that a sweep could free. */
void weft_flight_sweep_layouts(weft_flight *flight);

/* Number of the last call; 0: none. */
uint64_t weft_flight_last(const weft_flight *flight);
/* Digest after this call; 0: not recorded (too old, or not made yet). */
uint64_t weft_flight_digest(const weft_flight *flight, uint64_t number);
/* Text of a call, "weft_add(f32[8] [S0] on 4, f32[8] [S0] on 4)", and its age in seconds (may be NULL).
 * False, and an empty text: not recorded. */
bool weft_flight_text(weft_flight *flight, uint64_t number, char *text, size_t size, double *age_s);

#endif
