/* Kernels on complex numbers: a loop for each expression of complex.inc and each complex type; sums. */
#include "codelets/complex.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#undef I
#undef complex

#include "codelets/cpu/lines.h"
#include "codelets/cpu/vectors.h"
#include "codelets/elementwise.h"
#include "codelets/reductions.h"
#include "codelets/scalars.h"

/* ---- elementwise --------------------------------------------------------------------------------------- */

/* By the type of the parts. A macro of tgmath.h would lose the sign of a zero imaginary part where it multiplies by i. */
#define PAIR(x, y) __builtin_complex((P)(x), (P)(y))
#define REAL(z) __real__(z)
#define IMAG(z) __imag__(z)
#define OF_PARTS(x, single, whole) _Generic((x), float : single, default : whole)
#define HYPOT(x, y) OF_PARTS(x, hypotf, hypot)(x, y)
#define ATAN2(y, x) OF_PARTS(x, atan2f, atan2)(y, x)
#define SINE(x) OF_PARTS(x, sinf, sin)(x)
#define COSINE(x) OF_PARTS(x, cosf, cos)(x)
#define OF_TYPE(z, single, whole) _Generic((z), weft_c64 : single, default : whole)
#define csqrt(z) OF_TYPE(z, csqrtf, csqrt)(z)
#define cexp(z) OF_TYPE(z, cexpf, cexp)(z)
#define clog(z) OF_TYPE(z, clogf, clog)(z)
#define csin(z) OF_TYPE(z, csinf, csin)(z)
#define ccos(z) OF_TYPE(z, ccosf, ccos)(z)
#define ctanh(z) OF_TYPE(z, ctanhf, ctanh)(z)
#define ctan(z) OF_TYPE(z, ctanf, ctan)(z)
#define casin(z) OF_TYPE(z, casinf, casin)(z)
#define cacos(z) OF_TYPE(z, cacosf, cacos)(z)
#define catan(z) OF_TYPE(z, catanf, catan)(z)
#define csinh(z) OF_TYPE(z, csinhf, csinh)(z)
#define ccosh(z) OF_TYPE(z, ccoshf, ccosh)(z)
#define casinh(z) OF_TYPE(z, casinhf, casinh)(z)
#define cacosh(z) OF_TYPE(z, cacoshf, cacosh)(z)
#define catanh(z) OF_TYPE(z, catanhf, catanh)(z)
/* By the four products, as PyTorch and NumPy multiply: C's operator looks for infinities behind NaN. */
#define TIMES(x, y) PAIR(REAL(x) * REAL(y) - IMAG(x) * IMAG(y), REAL(x) * IMAG(y) + IMAG(x) * REAL(y))
#define POWER(x, y) OF_TYPE(x, power_c64, power_c128)(x, y)
#define POWER_REAL(x, y) OF_TYPE(x, power_real_c64, power_real_c128)(x, y)
#define SIGN(z) OF_TYPE(z, sign_c64, sign_c128)(z)
#define EXPM1(z) OF_TYPE(z, expm1_c64, expm1_c128)(z)
#define LOG1P(z) OF_TYPE(z, log1p_c64, log1p_c128)(z)

/* sgn: 0 of 0. expm1, log1p: small results are not differences of large numbers. z^w: 1 for w = 0, and 0 for z = 0 where w has a
 * positive real part; whole exponents of at most 64 by multiplications, so that powers of real numbers are real. */
#define DEFINE_FUNCTIONS(T, P_, name, cpow_)                                                                    \
    static T sign_##name(T z)                                                                                \
    {                                                                                                        \
        typedef P_ P;                                                                                        \
        const P size = HYPOT(REAL(z), IMAG(z));                                                                    \
        return size == 0 ? PAIR(0, 0) : PAIR(REAL(z) / size, IMAG(z) / size);                                \
    }                                                                                                        \
    static T expm1_##name(T z)                                                                               \
    {                                                                                                        \
        typedef P_ P;                                                                                        \
        const P x = REAL(z), y = IMAG(z), half = SINE(y / 2);                                                \
        return PAIR(OF_PARTS(x, expm1f, expm1)(x) * COSINE(y) - 2 * half * half,                             \
                    OF_PARTS(x, expf, exp)(x) * SINE(y));                                                    \
    }                                                                                                        \
    static T log1p_##name(T z)                                                                               \
    {                                                                                                        \
        typedef P_ P;                                                                                        \
        const P x = REAL(z), y = IMAG(z), size = HYPOT(x, y);                                                \
        const P real = size < (P)0.5 ? OF_PARTS(x, log1pf, log1p)(x * (x + 2) + y * y) / 2                   \
                                     : OF_PARTS(x, logf, log)(HYPOT(x + 1, y));                              \
        return PAIR(real, ATAN2(y, x + 1));                                                                  \
    }                                                                                                        \
    static T power_##name(T z, T w)                                                                          \
    {                                                                                                        \
        if (REAL(w) == 0 && IMAG(w) == 0) {                                                                  \
            return 1;                                                                                        \
        }                                                                                                    \
        if (REAL(z) == 0 && IMAG(z) == 0 && REAL(w) > 0) {                                                   \
            return 0;                                                                                        \
        }                                                                                                    \
        return cpow_(z, w);                                                                                  \
    }                                                                                                        \
    static T power_real_##name(T z, P_ exponent)                                                             \
    {                                                                                                        \
        typedef P_ P;                                                                                        \
        if (exponent != (int)exponent || exponent > 64 || exponent < -64) {                                  \
            return power_##name(z, PAIR(exponent, 0));                                                       \
        }                                                                                                    \
        T result = 1, factor = z;                                                                            \
        bool begun = false; /* 1 times an infinity is NaN */                                                 \
        for (int n = abs((int)exponent); n > 0; n >>= 1) {                                                   \
            if (n & 1) {                                                                                     \
                result = begun ? TIMES(result, factor) : factor;                                             \
                begun = true;                                                                                \
            }                                                                                                \
            factor = TIMES(factor, factor);                                                                  \
        }                                                                                                    \
        return exponent < 0 ? 1 / result : result;                                                           \
    }
DEFINE_FUNCTIONS(weft_c64, float, c64, cpowf)
DEFINE_FUNCTIONS(weft_c128, double, c128, cpow)

#define LOOP(name, T_, P_, R, count, expression)                                                             \
    static void name##_##T_(void *out, const void *pa, const void *pb, const void *pc, int64_t n,            \
                            const double scalars[])                                                          \
    {                                                                                                        \
        typedef T_ T;                                                                                        \
        typedef P_ P;                                                                                        \
        const P s = (P)scalars[0], t = (P)scalars[WEFT_SCALAR_RESTS];                                        \
        R *o = out;                                                                                          \
        const T *as = pa, *bs = (count) > 1 ? pb : pa, *cs = (count) > 2 ? pc : pa;                          \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const T a = as[i], b = bs[i], c = cs[i];                                                         \
            (void)a, (void)b, (void)c, (void)s, (void)t;                                                     \
            o[i] = (R)(expression);                                                                          \
        }                                                                                                    \
    }
#define COMPLEX(name, inputs, expression)                                                                    \
    LOOP(name, weft_c64, float, T, inputs, expression)                                                       \
    LOOP(name, weft_c128, double, T, inputs, expression)
#define COMPLEX_REAL(name, inputs, expression)                                                               \
    LOOP(name, weft_c64, float, P, inputs, expression)                                                       \
    LOOP(name, weft_c128, double, P, inputs, expression)
#define COMPLEX_TRUTH(name, inputs, expression)                                                              \
    LOOP(name, weft_c64, float, uint8_t, inputs, expression)                                                 \
    LOOP(name, weft_c128, double, uint8_t, inputs, expression)
#include "codelets/complex.inc"

#define ROW(name, real_)                                                                                     \
    [WEFT_KERNEL_##name - WEFT_KERNEL_ELEMENTWISE] = { name##_weft_c128, name##_weft_c64, real_ },
#define COMPLEX(name, inputs, expression) ROW(name, false)
#define COMPLEX_REAL(name, inputs, expression) ROW(name, true)
#define COMPLEX_TRUTH(name, inputs, expression) ROW(name, false)

const weft_complex_loops weft_complex_loops_table[WEFT_KERNEL_COUNT - WEFT_KERNEL_ELEMENTWISE] = {
#include "codelets/complex.inc"
};

/* ---- views --------------------------------------------------------------------------------------------- */

static int64_t row_bytes(const weft_view *view)
{
    return (view->ndim == 0 ? 1 : view->row_elements) * (int64_t)weft_dtype_size(view->dtype);
}

void weft_kernel_reinterpret(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0], *out = &call->output;
    int64_t in_bytes = row_bytes(in), out_bytes = row_bytes(out), size = out_bytes < in_bytes ? out_bytes : in_bytes;
    int64_t total = weft_view_rows(out) * out_bytes;
    for (int64_t byte = 0; byte < total; byte += size) {
        const char *from = weft_view_row(in, byte / in_bytes, NULL);
        char *to = weft_view_row(out, byte / out_bytes, NULL);
        memcpy(to + byte % out_bytes, from + byte % in_bytes, (size_t)size);
    }
}

/* ---- sums ---------------------------------------------------------------------------------------------- */

/* Strides of the results by the input's dimensions: 0 along those that are reduced. */
static void result_strides(const weft_kernel_call *call, int64_t strides[])
{
    const weft_view *in = &call->inputs[0];
    int64_t next = 1;
    for (int d = in->ndim - 1; d >= 0; d--) {
        bool reduced = call->numbers[0] >> d & 1;
        strides[d] = reduced ? 0 : next;
        next *= reduced ? 1 : in->extent[d];
    }
}

/* Adds row `row` of the input, or multiplies by it. */
static void add_row(const weft_view *in, const int64_t strides[], int64_t row, bool multiplies, weft_c128 results[])
{
    const char *from = weft_view_row(in, row, NULL);
    int64_t index[WEFT_MAX_DIMS] = { 0 }, place = in->ndim == 0 ? 0 : row * strides[0];
    int64_t count = in->ndim == 0 ? 1 : in->row_elements;
    for (int64_t i = 0; i < count; i++) {
        typedef double P;
        const weft_c128 value = in->dtype == WEFT_C64 ? ((const weft_c64 *)(const void *)from)[i]
                                                      : ((const weft_c128 *)(const void *)from)[i];
        results[place] = multiplies ? TIMES(results[place], value) : results[place] + value;
        for (int d = in->ndim - 1; d >= 1; d--) {
            place += strides[d];
            if (++index[d] < in->extent[d]) {
                break;
            }
            place -= in->extent[d] * strides[d];
            index[d] = 0;
        }
    }
}

void weft_complex_sum(const weft_kernel_call *call, bool multiplies)
{
    int64_t count = weft_view_count(&call->output), strides[WEFT_MAX_DIMS] = { 0 };
    weft_c128 *results = calloc((size_t)count + 1, sizeof(*results));
    if (results == NULL) {
        weft_kernel_lacks_memory(call, WEFT_PROBLEM_RESULTS, 0);
        return;
    }
    for (int64_t i = 0; i < count && multiplies; i++) {
        results[i] = 1;
    }
    if (!call->first) {
        weft_view_load(&call->output, WEFT_C128, results);
    }
    result_strides(call, strides);
    for (int64_t row = 0; row < weft_view_rows(&call->inputs[0]); row++) {
        add_row(&call->inputs[0], strides, row, multiplies, results);
    }
    for (int64_t i = 0; i < count && call->last && call->scalars[0] != 0; i++) {
        double scale = call->scalars[0];
        results[i] = __builtin_complex(__real__ results[i] * scale, __imag__ results[i] * scale);
    }
    weft_view_store(&call->output, WEFT_C128, results);
    free(results);
}

static void scan_line(const weft_lines *in, const weft_lines *out, int64_t outer, int64_t j, bool multiplies)
{
    typedef double P;
    const bool single = in->view->dtype == WEFT_C64;
    weft_c128 running = multiplies ? 1 : 0;
    for (int64_t k = 0, n; k < in->length; k += n) {
        int64_t in_together, out_together;
        const void *from = weft_line_at(in, outer, k, &in_together);
        void *to = weft_line_at(out, outer, k, &out_together);
        n = in_together < out_together ? in_together : out_together;
        for (int64_t i = j; i < n * in->inner; i += in->inner) {
            const weft_c128 value = single ? ((const weft_c64 *)from)[i] : ((const weft_c128 *)from)[i];
            running = multiplies ? TIMES(running, value) : running + value;
            if (single) {
                ((weft_c64 *)to)[i] = (weft_c64)running;
            } else {
                ((weft_c128 *)to)[i] = running;
            }
        }
    }
}

void weft_complex_scan(const weft_kernel_call *call, bool multiplies)
{
    const weft_lines in = weft_lines_of(&call->inputs[0], (int)call->numbers[0]), out = weft_lines_of(&call->output, (int)call->numbers[0]);
    for (int64_t outer = 0; outer < out.outer; outer++) {
        for (int64_t j = 0; j < out.inner; j++) {
            scan_line(&in, &out, outer, j, multiplies);
        }
    }
}
