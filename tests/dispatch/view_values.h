/* Elements of views, f32 and f64 alike: for the kernels of tests, with the public headers alone. */
#ifndef WEFT_TESTS_VIEW_VALUES_H
#define WEFT_TESTS_VIEW_VALUES_H

#include <weft/weft.h>

static inline double get(const weft_view *view, const void *row, int64_t i)
{
    return view->dtype == WEFT_F64 ? ((const double *)row)[i] : (double)((const float *)row)[i];
}

static inline void set(const weft_view *view, void *row, int64_t i, double value)
{
    if (view->dtype == WEFT_F64) {
        ((double *)row)[i] = value;
    } else {
        ((float *)row)[i] = (float)value;
    }
}

static inline double row_value(const weft_view *view, int64_t row, int64_t column)
{
    return get(view, weft_view_row(view, row, NULL), column);
}

#endif
