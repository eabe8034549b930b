/* The flight record: the last public calls of this process, for reports of a world that broke. A ring that
 * the submitting thread writes with a few stores a call, and that any thread may read meanwhile. */
#ifndef WEFT_SRC_COMM_FLIGHT_H
#define WEFT_SRC_COMM_FLIGHT_H

#include "comm/check_spmd.h"

/* Calls that are kept. */
enum { WEFT_FLIGHT_CALLS = 256 };

typedef struct weft_flight weft_flight;

weft_flight *weft_flight_new(void); /* NULL: no memory */
void weft_flight_free(weft_flight *flight);

/* The call with the next number, from 1 on; `digest` is that of all calls up to it. Layouts and the
 * function's name live as long as the world. */
void weft_flight_note(weft_flight *flight, const weft_call_signature *call, uint64_t number, uint64_t digest);

/* The number of the last call; 0: none. */
uint64_t weft_flight_last(const weft_flight *flight);
/* 0: it is not kept any more, or has not been made. */
uint64_t weft_flight_digest(const weft_flight *flight, uint64_t number);
/* "weft_add(f32[8] [S0] on 4, f32[8] [S0] on 4)" and how many seconds ago it was made (may be NULL). False,
 * and an empty text: it is not kept. */
bool weft_flight_text(const weft_flight *flight, uint64_t number, char *text, size_t size, double *age_s);

#endif
