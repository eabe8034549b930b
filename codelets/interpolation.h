/* Which elements of a line the elements of an interpolated line are made from. */
#ifndef WEFT_CODELETS_INTERPOLATION_H
#define WEFT_CODELETS_INTERPOLATION_H

#include <weft/kernel.h>

/* Scalars. Element i lies at i STEP in a line of SIZE elements; if CENTRES is set, at (i + 1/2) STEP from the edge of its
 * first element. It is the element there, or the weighted sum of the 2 or 4 (TAPS) around it, of which TAP counts. If
 * SINGLE is set, positions are computed in WEFT_F32, otherwise in WEFT_F64. */
enum {
    WEFT_INTERPOLATION_STEP,
    WEFT_INTERPOLATION_SIZE,
    WEFT_INTERPOLATION_CENTRES,
    WEFT_INTERPOLATION_TAPS,
    WEFT_INTERPOLATION_TAP,
    WEFT_INTERPOLATION_SINGLE
};

/* One dimension: the index of each element's tap, WEFT_I64, or its weight, WEFT_F32 or WEFT_F64. The first and the last
 * element stand for those outside the line. */
void weft_kernel_interpolation(const weft_kernel_call *call);

#endif
