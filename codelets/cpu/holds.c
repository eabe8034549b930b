#include "codelets/cpu/holds.h"

#include "codelets/cpu/clones.h"

#define HOLDS(T)                                                                                             \
    WEFT_CLONES static bool holds_##T(const void *from, int64_t n, double value)                             \
    {                                                                                                        \
        const T *x = from, sought = (T)value;                                                                \
        int found = 0;                                                                                       \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            found |= x[i] == sought || (x[i] != x[i] && sought != sought);                                   \
        }                                                                                                    \
        return found != 0;                                                                                   \
    }
HOLDS(float)
HOLDS(double)

bool weft_may_hold(weft_dtype type, const void *from, int64_t n, double value)
{
    return type == WEFT_F32 ? holds_float(from, n, value) : type != WEFT_F64 || holds_double(from, n, value);
}
