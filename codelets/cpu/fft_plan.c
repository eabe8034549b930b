/* Plans of Fourier transforms. */
#include "codelets/cpu/fft_plan.h"

#include <math.h>
#include <stdlib.h>

/* ---- numbers ------------------------------------------------------------------------------------------- */

/* e^(2 pi i k / n), 0 <= k < n: the angle is reduced to an eighth of a turn in integers, so that C's functions get exact
 * arguments of at most pi / 4, and symmetric numbers have the same bits. */
void weft_fft_unit(int64_t k, int64_t n, double *cosine, double *sine)
{
    const double pi = 3.14159265358979323846;
    bool below = 2 * k > n; /* the lower half plane */
    k = below ? n - k : k;
    bool left = 4 * k > n;
    int64_t twice = left ? n - 2 * k : 2 * k; /* the angle is pi twice / n, at most pi / 2 */
    bool steep = 4 * twice > n;
    double angle = steep ? pi * (double)(n - 2 * twice) / (2 * (double)n) : pi * (double)twice / (double)n;
    double c = steep ? sin(angle) : cos(angle), s = steep ? cos(angle) : sin(angle);
    *cosine = left ? -c : c;
    *sine = below ? -s : s;
}

static bool table_make(weft_fft_table *table, int64_t count)
{
    table->f64 = malloc((size_t)count * 2 * sizeof(double) + 1);
    table->f32 = malloc((size_t)count * 2 * sizeof(float) + 1);
    table->count = count;
    return table->f64 != NULL && table->f32 != NULL;
}

static void table_free(weft_fft_table *table)
{
    free(table->f64);
    free(table->f32);
}

static void table_set(weft_fft_table *table, int64_t place, double real, double imag)
{
    table->f64[2 * place] = real;
    table->f64[2 * place + 1] = imag;
    table->f32[2 * place] = (float)real;
    table->f32[2 * place + 1] = (float)imag;
}

/* e^(-2 pi i k / n) */
static void table_set_unit(weft_fft_table *table, int64_t place, int64_t k, int64_t n)
{
    double cosine, sine;
    weft_fft_unit(k, n, &cosine, &sine);
    table_set(table, place, cosine, -sine);
}

static const weft_fft_plan *obtain(int64_t n, bool part);

/* ---- passes -------------------------------------------------------------------------------------------- */

static const int radices[] = { 8, 4, 2, 3, 5, 7, 11, 13 };
enum { RADICES = sizeof(radices) / sizeof(radices[0]) };

/* The largest divisor of n without those radices: 1 if n is a product of them; else Bluestein's algorithm is needed. */
static int64_t rest_of(int64_t n)
{
    for (int i = 2; i < RADICES; i++) {
        while (n % radices[i] == 0) {
            n /= radices[i];
        }
    }
    return n;
}

/* Factors of the size, in the order of passes; returns their number. */
static int factor(int64_t n, bool part, int factors[])
{
    int count = 0, even = 0;
    for (int i = 0; i < RADICES; i++) {
        /* 16 is 4 times 4 */
        for (; n % radices[i] == 0 && !(radices[i] == 8 && n % 16 == 0 && n % 32 != 0); n /= radices[i]) {
            factors[count++] = radices[i];
            even += radices[i] % 2 == 0;
        }
    }
    if (part && even == 1) { /* a part begins and ends with an even one: 8 and odd ones */
        factors[0] = 4;
        factors[count++] = 2;
    } else if (part && even < count) {
        const int last = factors[even - 1];
        factors[even - 1] = factors[count - 1];
        factors[count - 1] = last;
    }
    return count;
}

/* Passes, and the twiddles of each. False: no memory. */
static bool make_passes(weft_fft_plan *plan)
{
    int64_t left = plan->n, count = 0;
    int factors[WEFT_FFT_MAX_PASSES];
    plan->num_passes = factor(plan->n, plan->part, factors);
    for (int i = 0; i < plan->num_passes; i++) {
        plan->passes[i] = (weft_fft_pass){ factors[i], left, plan->n / left, count };
        count += left / factors[i] * (factors[i] - 1);
        left /= factors[i];
    }
    if (!table_make(&plan->twiddles, count)) {
        return false;
    }
    for (int i = 0; i < plan->num_passes; i++) {
        const weft_fft_pass *pass = &plan->passes[i];
        int64_t place = pass->twiddles;
        for (int64_t p = 0; p < pass->length / pass->radix; p++) {
            for (int64_t k = 1; k < pass->radix; k++) {
                table_set_unit(&plan->twiddles, place++, p * k, pass->length);
            }
        }
    }
    return true;
}

/* Two sizes, as nearly equal as possible, for lines that a near cache does not hold; 0: there are none, or it does. Several vectors of
 * columns divide both, and each has two passes or more. */
static int64_t half_of(int64_t n, bool part)
{
    enum { LONG = 512, LONG_PART = 4096, COLUMNS = WEFT_FFT_COLUMNS, RATIO = 16 };
    int64_t half = 0;
    for (int64_t size = 2 * COLUMNS; n >= (part ? LONG_PART : LONG) && size * size <= n; size += COLUMNS) {
        half = n % size == 0 && n / size % COLUMNS == 0 && n / size / size < RATIO ? size : half;
    }
    return half;
}

/* False: no memory. */
static bool make_halves(weft_fft_plan *plan, int64_t half)
{
    const int64_t n = plan->n, columns = n / half;
    plan->first = obtain(half, true);
    plan->second = obtain(columns, true);
    if (plan->first == NULL || plan->second == NULL || !table_make(&plan->turns, n)) {
        return false;
    }
    for (int64_t place = 0; place < n; place++) {
        double cosine, sine;
        weft_fft_unit(place / columns * (place % columns), n, &cosine, &sine);
        const int64_t one = place / WEFT_FFT_LANES_F64 * WEFT_FFT_LANES_F64 + weft_fft_order_f64[place % WEFT_FFT_LANES_F64];
        const int64_t other = place / WEFT_FFT_LANES_F32 * WEFT_FFT_LANES_F32 + weft_fft_order_f32[place % WEFT_FFT_LANES_F32];
        plan->turns.f64[one] = cosine;
        plan->turns.f64[n + one] = -sine;
        plan->turns.f32[other] = (float)cosine;
        plan->turns.f32[n + other] = (float)-sine;
    }
    return true;
}

static bool make_units(weft_fft_plan *plan)
{
    if (!table_make(&plan->units, plan->n / 2 + 1)) {
        return false;
    }
    for (int64_t k = 0; k <= plan->n / 2; k++) {
        table_set_unit(&plan->units, k, k, plan->n);
    }
    return true;
}

/* ---- Bluestein's algorithm ----------------------------------------------------------------------------- */

/* The next size for a convolution: a product of 2, 3 and 5. */
static int64_t padded_size(int64_t least)
{
    int64_t best = 1;
    while (best < least) {
        best *= 2;
    }
    for (int64_t fives = 1; fives < best; fives *= 5) {
        for (int64_t size = fives; size < best; size *= 3) {
            int64_t filled = size;
            while (filled < least) {
                filled *= 2;
            }
            best = filled < best ? filled : best;
        }
    }
    return best;
}

/* The transform, in double precision, of the conjugates of the chirp, which wrap around. */
static bool make_spectrum(weft_fft_plan *plan)
{
    enum { LANES = WEFT_FFT_LANES_F64 };
    int64_t m = plan->padded, room = weft_fft_room(plan->convolution);
    double *memory = calloc((size_t)(room * LANES) * 4, sizeof(*memory)), *buffers[4];
    if (memory == NULL || !table_make(&plan->spectrum, m)) {
        free(memory);
        return false;
    }
    for (int i = 0; i < 4; i++) {
        buffers[i] = memory + i * room * LANES;
    }
    for (int64_t j = 0; j < plan->n; j++) {
        int64_t mirror = j == 0 ? 0 : m - j;
        buffers[0][LANES * j] = buffers[0][LANES * mirror] = plan->chirp.f64[2 * j];
        buffers[1][LANES * j] = buffers[1][LANES * mirror] = -plan->chirp.f64[2 * j + 1];
    }
    weft_fft_execute_f64(plan->convolution, LANES, buffers);
    for (int64_t k = 0; k < m; k++) {
        table_set(&plan->spectrum, k, buffers[0][LANES * k] / (double)m, buffers[1][LANES * k] / (double)m);
    }
    free(memory);
    return true;
}

/* L. I. Bluestein, "A linear filtering approach to the computation of discrete Fourier transform", IEEE Transactions on Audio and
 * Electroacoustics 18 (1970): j k = (j^2 + k^2 - (k - j)^2) / 2 makes a transform of any size a convolution. */
static bool make_bluestein(weft_fft_plan *plan)
{
    plan->padded = padded_size(2 * plan->n - 1);
    plan->convolution = weft_fft_plan_obtain(plan->padded);
    if (plan->convolution == NULL || !table_make(&plan->chirp, plan->n)) {
        return false;
    }
    int64_t square = 0; /* j^2 modulo 2 n */
    for (int64_t j = 0; j < plan->n; j++) {
        table_set_unit(&plan->chirp, j, square, 2 * plan->n);
        square = (square + 2 * j + 1) % (2 * plan->n);
    }
    return make_spectrum(plan);
}

/* ---- plans --------------------------------------------------------------------------------------------- */

static int64_t bytes_of(const weft_fft_plan *plan)
{
    const int64_t count = plan->twiddles.count + plan->units.count + plan->turns.count + plan->chirp.count + plan->spectrum.count;
    return (int64_t)sizeof(*plan) + count * (int64_t)(2 * (sizeof(double) + sizeof(float)));
}

static void destroy(weft_fft_kept *kept)
{
    weft_fft_plan *plan = (weft_fft_plan *)kept;
    table_free(&plan->twiddles);
    table_free(&plan->units);
    table_free(&plan->turns);
    table_free(&plan->chirp);
    table_free(&plan->spectrum);
    const weft_fft_plan *const parts[] = { plan->convolution, plan->first, plan->second };
    for (int i = 0; i < 3; i++) {
        if (parts[i] != NULL) {
            weft_fft_plan_release(parts[i]);
        }
    }
    free(plan);
}

static weft_fft_kept *make(const void *wanted)
{
    const weft_fft_plan *size = wanted;
    const int64_t n = size->n;
    const bool part = size->part;
    weft_fft_plan *plan = calloc(1, sizeof(*plan));
    if (plan == NULL) {
        return NULL;
    }
    plan->n = n;
    plan->part = part;
    const bool smooth = rest_of(n) == 1;
    const int64_t half = smooth ? half_of(n, part) : 0;
    if (!make_units(plan) || !(half > 0 ? make_halves(plan, half) : smooth ? make_passes(plan) : make_bluestein(plan))) {
        destroy(&plan->kept);
        return NULL;
    }
    plan->kept.bytes = bytes_of(plan);
    return &plan->kept;
}

static bool is_same(const weft_fft_kept *kept, const void *wanted)
{
    const weft_fft_plan *plan = (const weft_fft_plan *)kept;
    const weft_fft_plan *size = wanted;
    return plan->n == size->n && plan->part == size->part;
}

static const weft_fft_maker own_plans = { is_same, make, destroy };

static const weft_fft_plan *obtain(int64_t n, bool part)
{
    return (const weft_fft_plan *)weft_fft_obtain(&own_plans, &(weft_fft_plan){ .n = n, .part = part });
}

const weft_fft_plan *weft_fft_plan_obtain(int64_t n)
{
    return obtain(n, false);
}

void weft_fft_plan_release(const weft_fft_plan *plan)
{
    weft_fft_release((weft_fft_kept *)(uintptr_t)plan);
}

int64_t weft_fft_room(const weft_fft_plan *plan)
{
    if (plan->first != NULL) { /* the line, and one of its parts */
        const int64_t first = weft_fft_room(plan->first), second = weft_fft_room(plan->second);
        return plan->n + (first > second ? first : second);
    }
    return plan->padded > 0 ? weft_fft_room(plan->convolution) : plan->n;
}
