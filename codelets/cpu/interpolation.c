/* Interpolation: indices and weights of neighbours. */
#include "codelets/interpolation.h"

#include <math.h>

/* The result of one operation on numbers of WEFT_F32 in double precision is that of WEFT_F32 after this. */
static double rounded(const double scalars[], double value)
{
    return scalars[WEFT_INTERPOLATION_SINGLE] != 0 ? (double)(float)value : value;
}

/* In units of the line's elements, from the centre of the first one; from its edge for a single tap. */
static double position_of(const double scalars[], int64_t i)
{
    double step = rounded(scalars, scalars[WEFT_INTERPOLATION_STEP]), index = rounded(scalars, (double)i);
    if (scalars[WEFT_INTERPOLATION_CENTRES] == 0) {
        return rounded(scalars, index * step);
    }
    double from_edge = rounded(scalars, rounded(scalars, index + 0.5) * step);
    if (scalars[WEFT_INTERPOLATION_TAPS] == 1) {
        return from_edge;
    }
    double position = rounded(scalars, from_edge - 0.5);
    return scalars[WEFT_INTERPOLATION_TAPS] == 2 ? fmax(position, 0) : position;
}

/* The cubic convolution of slope -3/4, at distances of at most 1, and of 1 to 2. */
static double near_weight(double x)
{
    return (1.25 * x - 2.25) * x * x + 1;
}

static double far_weight(double x)
{
    return ((-0.75 * x + 3.75) * x - 6) * x + 3;
}

/* `beyond`: the distance from the last tap that is not after the position, 0 to 1. */
static double weight_of(int taps, int tap, double beyond)
{
    const int middle = taps / 2 - 1;
    double distance = fabs(tap - middle - beyond);
    return taps == 2 ? 1 - distance : distance <= 1 ? near_weight(distance) : far_weight(distance);
}

void weft_kernel_interpolation(const weft_kernel_call *call)
{
    const weft_view *out = &call->output;
    const double *scalars = call->scalars, last = scalars[WEFT_INTERPOLATION_SIZE] - 1;
    const int taps = (int)scalars[WEFT_INTERPOLATION_TAPS], tap = (int)scalars[WEFT_INTERPOLATION_TAP], middle = taps / 2 - 1;
    for (int64_t row = 0; row < weft_view_rows(out); row++) {
        void *target = weft_view_row(out, row, NULL);
        double position = position_of(scalars, out->offset[0] + row), before = fmin(floor(position), last);
        if (out->dtype == WEFT_I64) {
            double index = taps == 1 ? before : before + tap - middle;
            *(int64_t *)target = (int64_t)fmin(fmax(index, 0), last);
            continue;
        }
        double weight = weight_of(taps, tap, fmin(position - before, 1));
        if (out->dtype == WEFT_F64) {
            *(double *)target = weight;
        } else {
            *(float *)target = (float)weight;
        }
    }
}
