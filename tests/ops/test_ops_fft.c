/* Fourier transforms on random shapes, sizes, meshes and placements against sums of C's long double, with panels of several heights; in
 * one process that hosts all ranks, or in several. */
#include "complex_operand.h"

#include "codelets/cpu/fft_library.h"
#include "runtime/runtime.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the reference ------------------------------------------------------------------------------------- */

/* e^(sign 2 pi i k / n) */
static long double _Complex unit(int64_t k, int64_t n, int sign)
{
    const long double pi = 3.14159265358979323846264338327950288L;
    long double angle = 2 * pi * (long double)(k % n) / (long double)n;
    return __builtin_complex(cosl(angle), (long double)sign * sinl(angle));
}

/* The factor of norm 0 (backward), 1 (ortho), 2 (forward). */
static double factor_of(int sign, int64_t n, int norm)
{
    bool divides = norm == 0 ? sign > 0 : sign < 0;
    return norm == 1 ? 1 / sqrt((double)n) : divides ? 1 / (double)n : 1;
}

/* A dense array of numbers, and its transforms along a dimension. */
typedef struct dense {
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    number *values;
} dense;

static dense dense_of(const complex_operand *x)
{
    dense d = { .ndim = x->ndim };
    memcpy(d.shape, x->shape, sizeof(d.shape));
    d.values = malloc(((size_t)x->count + 1) * sizeof(number));
    memcpy(d.values, x->dense, (size_t)x->count * sizeof(number));
    return d;
}

typedef enum kind { FFT, IFFT, RFFT, IRFFT, HFFT, IHFFT } kind;

/* Element j of a line of m values, as the transform of size n sees it. */
static number given(kind how, const number *line, int64_t inner, int64_t m, int64_t n, int64_t j)
{
    if (how != IRFFT && how != HFFT) {
        return j < m ? line[j * inner] : 0;
    }
    bool mirrored = j > n / 2;
    int64_t k = mirrored ? n - j : j;
    number value = k < m ? line[k * inner] : 0;
    value = k == 0 || 2 * k == n ? creal(value) : value;
    return mirrored ? conj(value) : value;
}

/* Replaces the array by its transform along a dimension. */
static void transform(dense *d, kind how, int dim, int64_t n, int norm)
{
    int64_t inner = 1, outer = 1, m = d->shape[dim], bins = how == RFFT || how == IHFFT ? n / 2 + 1 : n;
    for (int i = 0; i < d->ndim; i++) {
        inner *= i > dim ? d->shape[i] : 1;
        outer *= i < dim ? d->shape[i] : 1;
    }
    int sign = how == FFT || how == RFFT || how == HFFT ? -1 : 1;
    double factor = factor_of(sign, n, norm);
    number *result = malloc((size_t)(outer * bins * inner + 1) * sizeof(*result));
    for (int64_t i = 0; i < outer * bins * inner; i++) {
        int64_t k = i / inner % bins;
        const number *line = d->values + i / (bins * inner) * m * inner + i % inner;
        long double _Complex sum = 0;
        for (int64_t j = 0; j < n; j++) {
            sum += (long double _Complex)given(how, line, inner, m, n, j) * unit(j * k, n, sign);
        }
        result[i] = (number)(sum * (long double)factor);
    }
    free(d->values);
    d->values = result;
    d->shape[dim] = bins;
}

static weft_dtype result_type(kind how, weft_dtype type)
{
    bool wide = type == WEFT_F64 || type == WEFT_C128, real = how == IRFFT || how == HFFT;
    return real ? (wide ? WEFT_F64 : WEFT_F32) : wide ? WEFT_C128 : WEFT_C64;
}

/* ---- one dimension ------------------------------------------------------------------------------------- */

static const char *const names[] = { "fft", "ifft", "rfft", "irfft", "hfft", "ihfft" };

static weft_tensor *call(kind how, weft_tensor *a, int64_t n, int dim, int norm)
{
    static weft_tensor *(*const all[])(weft_tensor *a, int64_t n, int dim, weft_fft_norm norm) = { weft_fft,   weft_ifft, weft_rfft,
                                                                                                  weft_irfft, weft_hfft, weft_ihfft };
    return all[how](a, n, dim, (weft_fft_norm)norm);
}

static int64_t any_length(void)
{
    static const int64_t sizes[] = { 1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 19, 24, 30, 34, 64, 77 };
    return below(2) ? sizes[below(sizeof(sizes) / sizeof(sizes[0]))] : 1 + below(40);
}

static void case_one_dimension(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = 1 + random_shape(&source, 2, 6, shape), dim = (int)below(ndim), norm = (int)below(3);
    kind how = (kind)below(6);
    shape[ndim - 1] = below(7);
    shape[dim] = below(12) == 0 ? 0 : any_length();
    weft_dtype type = how == RFFT || how == IHFFT ? any_float() : below(3) == 0 ? any_float() : any_complex();
    complex_operand a = make_complex(any_mesh(), type, ndim, shape, false);
    int64_t by_default = how == IRFFT || how == HFFT ? 2 * (shape[dim] - 1) : shape[dim];
    int64_t n = by_default < 1 || below(2) ? any_length() : 0, size = n == 0 ? by_default : n;
    dense expected = dense_of(&a);
    transform(&expected, how, dim, size, norm);
    char what[400];
    snprintf(what, sizeof(what), "%s(%s %s, n %d, dim %d, norm %d)", names[how], weft_dtype_name(type), describe_complex(&a), (int)n,
             dim, norm);
    double magnitude = 12 * sqrt((double)size) * factor_of(how == FFT || how == RFFT || how == HFFT ? -1 : 1, size, norm) + 1e-3;
    weft_tensor *result = call(how, a.tensor, n, below(2) ? dim : dim - ndim, norm);
    check_complex(result, result_type(how, type), ndim, expected.shape, expected.values, 300, magnitude, what);
    free(expected.values);
    release_complex(&a);
}

/* ---- lines that ranks share ------------------------------------------------------------------------------ */

static int shared_lines; /* results of the four-step algorithm */

/* Operations take long from now on, so that whole lines on each rank never pay; or again as long as they do. */
static void slow_down(bool slow)
{
    static double usual;
    usual = slow ? weft_runtime.planned.product_flops_per_us : usual;
    weft_runtime.planned.product_flops_per_us = slow ? 1e-6 : usual;
    weft_lru_clear(&weft_runtime.call_cache);
}

/* Whether parts are several runs, as the algorithm leaves them. */
static bool has_period(const weft_tensor *a)
{
    bool has = false;
    for (int m = 0; m < weft_mesh_ndim(weft_tensor_mesh(a)); m++) {
        const weft_placement p = weft_tensor_placements(a)[m];
        has |= p.kind == WEFT_SHARD && (p.period > 0 || p.cut == WEFT_CUT_CYCLIC);
    }
    return has;
}

/* Of one line, or of fewer lines than ranks; and, of two transforms, the second one of the first one's result. */
static void case_shared_line(void)
{
    static const int64_t sizes[] = { 36, 64, 72, 96, 100, 128, 144, 210, 256, 61, 194, 125, 90, 343, 16, 192 };
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    int64_t shape[] = { 1 + below(2), 1 + below(2), 1 + below(2) };
    int ndim = 1 + (int)below(3), dim = (int)below(ndim), norm = (int)below(3);
    kind how = (kind)below(6);
    bool half = how == IRFFT || how == HFFT;
    int64_t n = sizes[below(SIZES)];
    shape[dim] = below(3) ? (half ? n / 2 + 1 : n) : 1 + below(300);
    weft_dtype type = how == RFFT || how == IHFFT ? any_float() : below(3) == 0 ? any_float() : any_complex();
    complex_operand a = make_complex(random_mesh(&source, 2 + (int)below(MAX_RANKS - 1)), type, ndim, shape, false);
    dense expected = dense_of(&a);
    transform(&expected, how, dim, n, norm);
    char what[400];
    snprintf(what, sizeof(what), "shared %s(%s %s, n %d, dim %d, norm %d)", names[how], weft_dtype_name(type), describe_complex(&a),
             (int)n, dim, norm);
    double magnitude = 12 * sqrt((double)n) * factor_of(how == FFT || how == RFFT || how == HFFT ? -1 : 1, n, norm) + 1e-3;
    slow_down(true);
    weft_tensor *result = call(how, a.tensor, n, dim, norm);
    assert_no_error();
    shared_lines += has_period(result);
    check_complex(result, result_type(how, type), ndim, expected.shape, expected.values, 400, magnitude, what);
    if (how == FFT || how == IFFT) {
        transform(&expected, (kind)(IFFT - how), dim, n, norm);
        magnitude *= sqrt((double)n) * factor_of(how == IFFT ? -1 : 1, n, norm);
        check_complex(call((kind)(IFFT - how), result, 0, dim, norm), result_type(how, type), ndim, expected.shape, expected.values, 600,
                      magnitude + 1e-3, what);
    }
    slow_down(false);
    free(expected.values);
    release_complex(&a);
}

/* ---- several dimensions -------------------------------------------------------------------------------- */

static weft_tensor *call_of_dims(kind how, weft_tensor *a, int num_dims, const int64_t s[], const int dims[], int norm)
{
    static weft_tensor *(*const all[])(weft_tensor *a, int num_dims, const int64_t s[], const int dims[], weft_fft_norm norm) = {
        weft_fftn, weft_ifftn, weft_rfftn, weft_irfftn
    };
    bool two = num_dims == 2 && how <= IFFT && below(2);
    return two ? (how == FFT ? weft_fft2 : weft_ifft2)(a, s, dims, (weft_fft_norm)norm)
               : all[how](a, num_dims, s, dims, (weft_fft_norm)norm);
}

static void case_dimensions(void)
{
    int64_t shape[WEFT_MAX_DIMS], s[WEFT_MAX_DIMS];
    int ndim = 1 + (int)below(3), num_dims = 1 + (int)below(ndim), dims[WEFT_MAX_DIMS], norm = (int)below(3);
    bool given_dims = below(2), given_sizes = below(2);
    for (int d = 0; d < ndim; d++) {
        shape[d] = 2 + below(9);
    }
    for (int i = 0; i < num_dims; i++) { /* the last ones, or any */
        dims[i] = given_dims ? (i * 2 + 1) % ndim : ndim - num_dims + i;
        for (int j = 0; j < i && given_dims; j++) {
            dims[i] = dims[i] == dims[j] ? (dims[i] + 1) % ndim : dims[i];
        }
        s[i] = below(3) == 0 ? 0 : 1 + below(11);
    }
    for (int i = 0; i < num_dims; i++) {
        for (int j = 0; j < i; j++) {
            given_dims &= dims[i] != dims[j];
        }
    }
    for (int i = 0; i < num_dims; i++) {
        dims[i] = given_dims ? dims[i] : ndim - num_dims + i;
    }
    kind how = (kind)below(4);
    weft_dtype type = how == RFFT ? any_float() : any_complex();
    complex_operand a = make_complex(any_mesh(), type, ndim, shape, false);
    dense expected = dense_of(&a);
    double magnitude = 12;
    for (int step = 0; step < num_dims; step++) { /* rfftn begins with the last one, irfftn ends with it */
        int i = how == RFFT ? num_dims - 1 - step : step;
        bool last = i == num_dims - 1;
        kind own = how == RFFT ? (last ? RFFT : FFT) : how == IRFFT ? (last ? IRFFT : IFFT) : how;
        int64_t size = given_sizes && s[i] > 0 ? s[i] : own == IRFFT ? 2 * (shape[dims[i]] - 1) : shape[dims[i]];
        magnitude *= sqrt((double)size) * factor_of(own == FFT || own == RFFT ? -1 : 1, size, norm);
        transform(&expected, own, dims[i], size, norm);
    }
    char what[400];
    snprintf(what, sizeof(what), "%sn(%s %s, %d dims %s sizes, norm %d)", names[how], weft_dtype_name(type), describe_complex(&a),
             num_dims, given_sizes ? "with" : "without", norm);
    weft_tensor *result = call_of_dims(how, a.tensor, num_dims, given_sizes ? s : NULL, given_dims ? dims : NULL, norm);
    check_complex(result, result_type(how, type), ndim, expected.shape, expected.values, 400, magnitude + 1e-3, what);
    free(expected.values);
    release_complex(&a);
}

/* There and back. */
static void case_inverse(void)
{
    int64_t shape[] = { 1 + below(12), 1 + below(30), 1 + below(5) }, s[3];
    bool real = below(2);
    int norm = (int)below(3);
    memcpy(s, shape, sizeof(s));
    complex_operand a = make_complex(any_mesh(), real ? any_float() : any_complex(), 3, shape, false);
    weft_tensor *spectrum = (real ? weft_rfftn : weft_fftn)(a.tensor, 3, NULL, NULL, (weft_fft_norm)norm);
    weft_tensor *back = (real ? weft_irfftn : weft_ifftn)(spectrum, 3, s, NULL, (weft_fft_norm)norm);
    char what[400];
    snprintf(what, sizeof(what), "ifftn(fftn(%s %s))", weft_dtype_name(a.dtype), describe_complex(&a));
    check_complex(back, a.dtype, 3, shape, a.dense, 400, 12, what);
    release_complex(&a);
}

static void case_shift(void)
{
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = 1 + random_shape(&source, 2, 7, shape), dims[] = { ndim - 1 };
    shape[ndim - 1] = below(9);
    bool back = below(2), all = below(2);
    complex_operand a = make_complex(any_mesh(), any_complex(), ndim, shape, false);
    number *expected = malloc(((size_t)a.count + 1) * sizeof(*expected));
    for (int64_t i = 0; i < a.count; i++) {
        int64_t place = 0, step = 1, rest = i;
        for (int d = ndim - 1; d >= 0; d--) {
            int64_t index = rest % shape[d], half = back ? (shape[d] + 1) / 2 : shape[d] / 2;
            place += (all || d == ndim - 1 ? (index + half) % shape[d] : index) * step;
            step *= shape[d];
            rest /= shape[d];
        }
        expected[place] = a.dense[i];
    }
    char what[400];
    snprintf(what, sizeof(what), "fftshift(%s %s), %d", weft_dtype_name(a.dtype), describe_complex(&a), back);
    weft_tensor *result = (back ? weft_ifftshift : weft_fftshift)(a.tensor, 1, all ? NULL : dims);
    check_complex(result, a.dtype, ndim, shape, expected, 200, 40, what);
    free(expected);
    release_complex(&a);
}

static void case_frequencies(void)
{
    int64_t n = 1 + below(30), bins = below(2) ? n / 2 + 1 : n;
    double spacing = 0.5 + (double)below(9);
    weft_mesh *mesh = any_mesh();
    weft_placement placements[3];
    random_placements(&source, mesh, 1, false, placements);
    bool half = bins != n || n == 1;
    double *expected = malloc((size_t)n * sizeof(*expected) + 8);
    for (int64_t i = 0; i < bins; i++) {
        expected[i] = (double)(half || i < (n + 1) / 2 ? i : i - n) / ((double)n * spacing);
    }
    weft_tensor *result = (half ? weft_rfftfreq : weft_fftfreq)(WEFT_F64, n, spacing, mesh, placements);
    check(result, WEFT_F64, 1, (const int64_t[]){ bins }, expected, 4, 1, "frequencies");
    free(expected);
}

/* ---- cosines and sines --------------------------------------------------------------------------------- */

/* Row k and column j of the matrix of a cosine or sine transform: with a factor of 2, or the orthogonal one. */
static double wave(bool sine, int type, bool orthogonal, int64_t k, int64_t j, int64_t n)
{
    const long double pi = 3.14159265358979323846264338327950288L;
    const int64_t odd_j = 2 * j + 1, odd_k = 2 * k + 1, end = sine ? n - 1 : 0, next = sine;
    const int64_t factors[4][2] = { { j + next, k + next }, { odd_j, k + next }, { j + next, odd_k }, { odd_j, odd_k } };
    const int64_t periods[4] = { n + (sine ? 1 : -1), 2 * n, 2 * n, 4 * n };
    const long double angle =
        pi * (long double)(factors[type - 1][0] * factors[type - 1][1] % (2 * periods[type - 1])) / (long double)periods[type - 1];
    bool j_ends = type == 1 ? !sine && (j == 0 || j == n - 1) : type == 3 && j == end;
    bool k_ends = type == 1 ? !sine && (k == 0 || k == n - 1) : type == 2 && k == end;
    long double value = sine ? sinl(angle) : cosl(angle);
    if (orthogonal) {
        value *= sqrtl(2 / (long double)(type == 1 ? periods[0] : n)) * sqrtl(j_ends ? 0.5L : 1) * sqrtl(k_ends ? 0.5L : 1);
    } else {
        value *= j_ends ? 1 : 2;
    }
    return (double)value;
}

static void transform_by_waves(dense *d, bool sine, int type, int dim, int64_t n, int norm)
{
    int64_t inner = 1, outer = 1, m = d->shape[dim], period = 2 * (n + (type > 1 ? 0 : sine ? 1 : -1));
    for (int i = 0; i < d->ndim; i++) {
        inner *= i > dim ? d->shape[i] : 1;
        outer *= i < dim ? d->shape[i] : 1;
    }
    number *result = malloc((size_t)(outer * n * inner + 1) * sizeof(*result));
    for (int64_t i = 0; i < outer * n * inner; i++) {
        int64_t k = i / inner % n;
        const number *line = d->values + i / (n * inner) * m * inner + i % inner;
        number sum = 0;
        for (int64_t j = 0; j < n && j < m; j++) {
            sum += line[j * inner] * wave(sine, type, norm == 1, k, j, n);
        }
        result[i] = sum / (norm == 2 ? (double)period : 1);
    }
    free(d->values);
    d->values = result;
    d->shape[dim] = n;
}

/* Against sums, or there and back. */
static void case_cosines(void)
{
    static weft_tensor *(*const forwards[])(weft_tensor *a, int type, int64_t n, int dim, weft_fft_norm norm) = { weft_dct, weft_dst };
    static weft_tensor *(*const inverses[])(weft_tensor *a, int type, int64_t n, int dim, weft_fft_norm norm) = { weft_idct, weft_idst };
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = 1 + random_shape(&source, 2, 6, shape), dim = (int)below(ndim), norm = (int)below(3), type = 1 + (int)below(4);
    bool sine = below(2), back = below(3) == 0;
    shape[ndim - 1] = below(7);
    shape[dim] = any_length();
    int64_t least = type == 1 && !sine ? 2 : 1, n = shape[dim] < least || below(3) == 0 ? any_length() + least - 1 : 0;
    int64_t size = n == 0 ? shape[dim] : n;
    complex_operand a = make_complex(any_mesh(), below(2) ? any_float() : any_complex(), ndim, shape, false);
    weft_dtype result = a.dtype == WEFT_BF16 || a.dtype == WEFT_F16 ? WEFT_F32 : a.dtype;
    dense expected = dense_of(&a);
    transform_by_waves(&expected, sine, type, dim, size, norm);
    char what[400];
    snprintf(what, sizeof(what), "%s(%s %s, type %d, n %d, dim %d, norm %d), %d", sine ? "dst" : "dct", weft_dtype_name(a.dtype),
             describe_complex(&a), type, (int)n, dim, norm, back);
    weft_tensor *transformed = forwards[sine](a.tensor, type, n, below(2) ? dim : dim - ndim, (weft_fft_norm)norm);
    double magnitude = 24 * sqrt((double)size) * (norm == 0 ? 1 : norm == 1 ? 1 / sqrt((double)size) : 1 / (double)size) + 1e-3;
    if (back && (n == 0 || n == shape[dim])) {
        transformed = inverses[sine](transformed, type, 0, dim, (weft_fft_norm)norm);
        check_complex(transformed, result, ndim, shape, a.dense, 400, 24, what);
    } else {
        check_complex(transformed, result, ndim, expected.shape, expected.values, 300, magnitude, what);
    }
    free(expected.values);
    release_complex(&a);
}

static const family families[] = {
    { "one", case_one_dimension }, { "shared", case_shared_line },      { "dimensions", case_dimensions }, { "inverse", case_inverse },
    { "shift", case_shift },       { "frequencies", case_frequencies }, { "cosines", case_cosines },
};

static const suite operations = { families, sizeof(families) / sizeof(families[0]), 60, 1, NULL };

/* ---- accuracy ------------------------------------------------------------------------------------------ */

static bool has_large_prime(int64_t n)
{
    static const int64_t small[] = { 2, 3, 5, 7, 11, 13 };
    for (int i = 0; i < 6; i++) {
        while (n % small[i] == 0) {
            n /= small[i];
        }
    }
    return n > 1;
}

/* The error's norm relative to the result's. */
static double relative_error(const number *line, const number *found, int64_t n, const long double _Complex *units)
{
    long double error = 0, whole = 0;
    for (int64_t k = 0; k < n; k++) {
        long double _Complex sum = 0;
        for (int64_t j = 0, place = 0; j < n; j++, place = place + k >= n ? place + k - n : place + k) {
            sum += (long double _Complex)line[j] * units[place];
        }
        long double _Complex gap = sum - (long double _Complex)found[k];
        error += creall(gap * conjl(gap));
        whole += creall(sum * conjl(sum));
    }
    return (double)sqrtl(error / whole);
}

static void check_accuracy(weft_mesh *mesh, int64_t n, weft_dtype type)
{
    const weft_placement shared = weft_shard(0);
    number *line = malloc((size_t)n * sizeof(*line)), *found = malloc((size_t)n * sizeof(*found));
    float _Complex *narrow = malloc((size_t)n * sizeof(*narrow));
    long double _Complex *units = malloc((size_t)n * sizeof(*units));
    for (int64_t j = 0; j < n; j++) {
        line[j] = number_of((double)(float)((double)below(20001) / 10000 - 1), (double)(float)((double)below(20001) / 10000 - 1));
        narrow[j] = (float _Complex)line[j];
        units[j] = unit(j, n, -1);
    }
    bool single = type == WEFT_C64;
    weft_tensor *a = weft_distribute(type, 1, &n, single ? (void *)narrow : (void *)line, mesh, &shared);
    weft_tensor *spectrum = weft_fft(a, 0, 0, WEFT_FFT_BACKWARD);
    assert_no_error();
    assert_int_equal(weft_to_host(spectrum, single ? (void *)narrow : (void *)found, (size_t)n * weft_dtype_size(type)), WEFT_OK);
    for (int64_t k = 0; k < n && single; k++) {
        found[k] = narrow[k];
    }
    double eps = single ? 0x1p-24 : 0x1p-53, allowed = (has_large_prime(n) ? 40 : 4) * eps * log2((double)n + 1);
    double error = relative_error(line, found, n, units);
    if (!(error <= allowed)) {
        fail_msg("fft of %d %s: the relative error is %.3g, allowed %.3g", (int)n, weft_dtype_name(type), error, allowed);
    }
    free(line);
    free(found);
    free(narrow);
    free(units);
}

static void test_accuracy(void)
{
    static const int64_t sizes[] = { 1,   2,   3,   4,   5,    7,    11,   13,   16,   27,   49,   121,  128,  169, 243, 343,
                                     625, 720, 997, 1001, 1024, 1331, 1500, 1009, 2048, 2187, 1594, 3000, 83,  17,  37, 1536, 2039, 4096 };
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 1 }, NULL);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        check_accuracy(mesh, sizes[i], WEFT_C64);
        check_accuracy(mesh, sizes[i], WEFT_C128);
    }
}

/* Bytes that this process's ranks receive. */
static uint64_t moved(void)
{
    weft_counters counters;
    assert_int_equal(weft_wait(), WEFT_OK);
    assert_int_equal(weft_get_counters(&counters, sizeof(counters)), WEFT_OK);
    return counters.bytes_moved;
}

/* Of a line that all ranks share: two exchanges of all elements but a rank's own, one where the line comes from the other direction.
 * Otherwise the errors are those of whole lines. */
static void test_shared_lines(void)
{
    static const int64_t lengths[] = { 1024, 3136, 1600, 2304, 4096 };
    const int64_t ranks = MAX_RANKS, n = 192 * ranks * ranks;
    weft_mesh *mesh = weft_mesh_create(1, &ranks, NULL);
    const weft_placement shared = weft_shard(0);
    const uint64_t own = (uint64_t)(weft_local_ranks() * n / ranks * (ranks - 1) / ranks);
    slow_down(true);
    weft_tensor *a = weft_ones(WEFT_C128, 1, &n, mesh, &shared), *real = weft_ones(WEFT_F64, 1, &n, mesh, &shared);
    const uint64_t begin = moved();
    weft_tensor *spectrum = weft_fft(a, 0, 0, WEFT_FFT_BACKWARD);
    const uint64_t forward = moved();
    weft_tensor *back = weft_ifft(spectrum, 0, 0, WEFT_FFT_BACKWARD);
    const uint64_t inverse = moved();
    weft_tensor *bins = weft_rfft(real, 0, 0, WEFT_FFT_BACKWARD);
    const uint64_t to_bins = moved();
    weft_tensor *values = weft_irfft(bins, n, 0, WEFT_FFT_BACKWARD);
    const uint64_t from_bins = moved();
    assert_no_error();
    assert_true(has_period(spectrum) && has_period(back) && !has_period(bins) && has_period(values));
    assert_int_equal(forward - begin, 2 * own * sizeof(number));
    assert_int_equal(inverse - forward, own * sizeof(number));
    assert_true((double)(to_bins - inverse) < 1.9 * (double)own * sizeof(number));
    assert_true((double)(from_bins - to_bins) < 1.5 * (double)own * sizeof(number));
    print_message("# %d of the random lines were shared\n", shared_lines);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        check_accuracy(mesh, lengths[i], WEFT_C64);
        check_accuracy(mesh, lengths[i], WEFT_C128);
    }
    slow_down(false);
}

/* A number that is not finite in a line does not reach the others. */
static void test_lines_apart(void)
{
    enum { LINES = 20, N = 12 };
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 1 }, NULL);
    double values[LINES][N];
    for (int i = 0; i < LINES * N; i++) {
        values[i / N][i % N] = i == 5 * N + 3 ? NAN : (double)(i % 7);
    }
    weft_tensor *a = weft_distribute(WEFT_F64, 2, (const int64_t[]){ LINES, N }, values, mesh, NULL);
    number spectrum[LINES][N / 2 + 1];
    assert_int_equal(weft_to_host(weft_rfft(a, 0, 1, WEFT_FFT_BACKWARD), spectrum, sizeof(spectrum)), WEFT_OK);
    for (int i = 0; i < LINES; i++) {
        assert_int_equal(isnan(creal(spectrum[i][1]) + cimag(spectrum[i][1])) != 0, i == 5);
    }
}

static void test_refusals(void)
{
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    weft_tensor *z = weft_ones(WEFT_C64, 2, (const int64_t[]){ 3, 1 }, mesh, NULL);
    weft_tensor *none = weft_ones(WEFT_C64, 1, (const int64_t[]){ 0 }, mesh, NULL);
    assert_null(weft_rfft(z, 0, 0, WEFT_FFT_BACKWARD));
    assert_error(WEFT_ERR_DTYPE, "a is c64");
    assert_null(weft_fft(z, 0, 2, WEFT_FFT_BACKWARD));
    assert_error(WEFT_ERR_INVALID, "dim");
    assert_null(weft_fft(z, -1, 0, WEFT_FFT_BACKWARD));
    assert_error(WEFT_ERR_SHAPE, "n is -1");
    assert_null(weft_fft(none, 0, 0, WEFT_FFT_BACKWARD));
    assert_error(WEFT_ERR_SHAPE, "size 0");
    assert_null(weft_irfft(z, 0, 1, WEFT_FFT_BACKWARD));
    assert_error(WEFT_ERR_SHAPE, "size 1");
    assert_null(weft_fft(z, 0, 0, (weft_fft_norm)3));
    assert_error(WEFT_ERR_INVALID, "norm is 3");
    assert_null(weft_fftn(z, 2, NULL, (const int[]){ 1, 1 }, WEFT_FFT_BACKWARD));
    assert_error(WEFT_ERR_INVALID, "twice");
    assert_null(weft_fftn(z, 3, NULL, NULL, WEFT_FFT_BACKWARD));
    assert_error(WEFT_ERR_INVALID, "num_dims is 3");
    assert_null(weft_dct(z, 1, 0, 1, WEFT_FFT_BACKWARD));
    assert_error(WEFT_ERR_SHAPE, "weft_dct: n is 1, expected at least 2");
    assert_null(weft_idst(z, 5, 0, 0, WEFT_FFT_BACKWARD));
    assert_error(WEFT_ERR_INVALID, "weft_idst: type is 5");
    assert_null(weft_dst(z, 2, 0, 0, (weft_fft_norm)-1));
    assert_error(WEFT_ERR_INVALID, "weft_dst: norm is -1");
    assert_null(weft_fftfreq(WEFT_I64, 4, 1, mesh, NULL));
    assert_error(WEFT_ERR_DTYPE, "i64");
    assert_null(weft_fftfreq(WEFT_F64, 0, 1, mesh, NULL));
    assert_error(WEFT_ERR_SHAPE, "n is 0");
}

static void test_single_calls(void **state)
{
    (void)state;
    static void (*const calls[])(void) = { test_accuracy, test_shared_lines, test_lines_apart, test_refusals };
    run_single_calls(5, sizeof(calls) / sizeof(calls[0]), calls);
}

/* With the argument "library": linked with codelets/cpu/fftw.c. */
int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "library") == 0 && !weft_fft_has_library()) {
        fprintf(stderr, "the kernels do not use the library\n");
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_calls),
    };
    return run_suite(&operations, tests, sizeof(tests) / sizeof(tests[0]));
}
