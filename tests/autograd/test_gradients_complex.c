/* Gradients of functions of complex numbers, and of Fourier transforms, against central differences in both parts; second derivatives
 * likewise. With a weight w of the result y the loss is the real part of the sum of conj(w) y, whose gradient by y is w. */
#include <complex.h>
#undef I

#include "complex_gradients.h"
#include "ops/ops.h"
#include "runtime/runtime.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef double _Complex number;
enum { MAX_ELEMENTS = 64, MAX_INPUTS = 2 };

/* ---- the functions ------------------------------------------------------------------------------------- */

static const weft_scalar factor = { WEFT_C128, 0.5, -1.5, 0 };

#define FUNCTION(name, ...)                                                                                  \
    static weft_tensor *name(weft_tensor *a, weft_tensor *b)                                                 \
    {                                                                                                        \
        (void)b;                                                                                             \
        return __VA_ARGS__;                                                                                  \
    }
FUNCTION(real, weft_real(a))
FUNCTION(imag, weft_imag(a))
FUNCTION(conjugate, weft_conj(a))
FUNCTION(angle, weft_angle(a))
FUNCTION(from_parts, weft_complex(a, b))
FUNCTION(polar, weft_polar(a, b))
FUNCTION(as_real, weft_view_as_real(a))
FUNCTION(as_complex, weft_view_as_complex(a))
FUNCTION(norm, weft_norm(a, 2, WEFT_ALL_DIMS, false))
FUNCTION(norm_of_rows, weft_norm(a, 3, 0, false))
FUNCTION(size, weft_abs(a))
FUNCTION(sign, weft_sgn(a))
FUNCTION(variance, weft_var(a, 1, 1, false))
FUNCTION(deviation, weft_std(a, WEFT_ALL_DIMS, 0, false))
FUNCTION(covariance, weft_cov(a, 1))
FUNCTION(log_of_sum, weft_logsumexp(a, 1, false))
FUNCTION(tangent, weft_tan(a))
FUNCTION(arcs, weft_add(weft_asin(a), weft_acos(weft_scale(a, 2))))
FUNCTION(arc_tangent, weft_atan(a))
FUNCTION(hyperbolic_sines, weft_mul(weft_sinh(a), weft_cosh(weft_square(a))))
FUNCTION(area_sine, weft_asinh(a))
FUNCTION(area_cosine, weft_acosh(weft_neg(a)))
FUNCTION(area_tangent, weft_atanh(a))
FUNCTION(logarithms, weft_add(weft_log2(a), weft_log10(weft_square(a))))
FUNCTION(near_0, weft_mul(weft_log1p(a), weft_expm1(weft_scale(a, 0.5))))
FUNCTION(power_of_2, weft_exp2(a))
FUNCTION(convolution, weft_conv1d(weft_unsqueeze(a, 0), weft_reshape(b, 3, (const int64_t[]){ 2, 3, 2 }), NULL, NULL))
FUNCTION(transposed_convolution, weft_conv_transpose1d(weft_unsqueeze(a, 0), weft_reshape(b, 3, (const int64_t[]){ 3, 2, 2 }),
                                                       weft_slice(weft_select(b, 0, 0), 0, 0, 2, 1), NULL, NULL))
FUNCTION(add, weft_add(a, b))
FUNCTION(sub, weft_sub(a, b))
FUNCTION(mul, weft_mul(a, b))
FUNCTION(divide, weft_div(a, b))
FUNCTION(power, weft_pow(a, b))
FUNCTION(scaled, weft_scale(a, -1.5))
FUNCTION(turned, weft_scale(weft_add_scalar(a, factor), factor))
FUNCTION(add_scaled, weft_add_scaled(a, b, CMPLX(0.5, -0.25)))
FUNCTION(addcmul, weft_addcmul(a, b, a, CMPLX(0.5, -0.25)))
FUNCTION(addcdiv, weft_addcdiv(a, a, b, CMPLX(0.5, -0.25)))
FUNCTION(negative, weft_neg(a))
FUNCTION(square, weft_square(a))
FUNCTION(inverse, weft_reciprocal(a))
FUNCTION(inverse_root, weft_rsqrt(a))
FUNCTION(logistic, weft_sigmoid(a))
FUNCTION(between, weft_lerp(a, b, 0.3))
FUNCTION(between_by, weft_lerp_tensor(a, b, weft_scale(b, 0.5)))
FUNCTION(products, weft_prod(a, 0, false))
FUNCTION(sums_so_far, weft_cumsum(a, 1))
FUNCTION(products_so_far, weft_cumprod(a, 0))
FUNCTION(einsum, weft_einsum("ij,kj->ik", 2, (weft_tensor *[]){ a, b }))
FUNCTION(root, weft_sqrt(a))
FUNCTION(exponential, weft_exp(a))
FUNCTION(logarithm, weft_log(a))
FUNCTION(sine, weft_sin(a))
FUNCTION(cosine, weft_cos(a))
FUNCTION(hyperbolic, weft_tanh(a))
FUNCTION(cube, weft_pow_scalar(a, 3))
FUNCTION(rooted, weft_pow_scalar(a, 0.3))
FUNCTION(sum, weft_sum(a, 0, true))
FUNCTION(mean, weft_mean(a, WEFT_ALL_DIMS, false))
FUNCTION(product, weft_matmul(a, b))
FUNCTION(product_tt, weft_matmul_ex(a, true, b, true))
FUNCTION(product_nt, weft_matmul_ex(a, false, a, true))
FUNCTION(linear, weft_linear(a, b, NULL))
FUNCTION(outer, weft_outer(weft_select(a, 0, 0), weft_select(b, 0, 1)))
FUNCTION(where, weft_where(weft_gt_scalar(weft_real(a), 0), a, b))
FUNCTION(slice, weft_slice(weft_transpose(a, 0, 1), 0, 1, 3, 1))
FUNCTION(widened, weft_to_type(a, WEFT_C128))
FUNCTION(mixed, weft_mul(a, weft_complex(b, weft_square(b))))
FUNCTION(fft, weft_fft(a, 0, 0, WEFT_FFT_BACKWARD))
FUNCTION(fft_cut, weft_fft(a, 2, 1, WEFT_FFT_ORTHO))
FUNCTION(fft_padded, weft_ifft(a, 7, 1, WEFT_FFT_FORWARD))
FUNCTION(ifft, weft_ifft(a, 0, 1, WEFT_FFT_BACKWARD))
FUNCTION(rfft, weft_rfft(a, 0, 1, WEFT_FFT_BACKWARD))
FUNCTION(rfft_odd, weft_rfft(a, 5, 1, WEFT_FFT_ORTHO))
FUNCTION(rfft_cut, weft_rfft(a, 2, 1, WEFT_FFT_FORWARD))
FUNCTION(irfft, weft_irfft(a, 0, 1, WEFT_FFT_BACKWARD))
FUNCTION(irfft_odd, weft_irfft(a, 7, 1, WEFT_FFT_ORTHO))
FUNCTION(irfft_padded, weft_irfft(a, 12, 1, WEFT_FFT_FORWARD))
FUNCTION(irfft_cut, weft_irfft(a, 3, 1, WEFT_FFT_BACKWARD))
FUNCTION(fft_line, weft_fft(a, 16, 1, WEFT_FFT_ORTHO))
FUNCTION(hfft, weft_hfft(a, 0, 1, WEFT_FFT_BACKWARD))
FUNCTION(ihfft, weft_ihfft(a, 0, 1, WEFT_FFT_BACKWARD))
FUNCTION(fftn, weft_fftn(a, 2, NULL, NULL, WEFT_FFT_ORTHO))
FUNCTION(ifftn, weft_ifftn(a, 2, (const int64_t[]){ 2, 5 }, NULL, WEFT_FFT_BACKWARD))
FUNCTION(rfftn, weft_rfftn(a, 2, NULL, NULL, WEFT_FFT_BACKWARD))
FUNCTION(irfftn, weft_irfftn(a, 2, NULL, NULL, WEFT_FFT_BACKWARD))
FUNCTION(dct_1, weft_dct(a, 1, 0, 1, WEFT_FFT_ORTHO))
FUNCTION(dct_2, weft_dct(a, 2, 5, 1, WEFT_FFT_BACKWARD))
FUNCTION(dct_3, weft_idct(a, 2, 2, 1, WEFT_FFT_ORTHO))
FUNCTION(dct_4, weft_dct(a, 4, 0, 0, WEFT_FFT_FORWARD))
FUNCTION(dst_1, weft_dst(a, 1, 0, 1, WEFT_FFT_BACKWARD))
FUNCTION(dst_2, weft_dst(a, 2, 0, 1, WEFT_FFT_ORTHO))
FUNCTION(dst_3, weft_dst(a, 3, 6, 1, WEFT_FFT_FORWARD))
FUNCTION(dst_4, weft_idst(a, 4, 0, 1, WEFT_FFT_ORTHO))
FUNCTION(fftshift, weft_fftshift(a, 1, (const int[]){ 1 }))
FUNCTION(convolved, weft_irfft(weft_mul(weft_rfft(a, 6, 1, WEFT_FFT_BACKWARD), weft_rfft(b, 6, 1, WEFT_FFT_BACKWARD)), 6, 1,
                               WEFT_FFT_BACKWARD))

/* A batch of 3 x 3 matrices that are far from singular ones; Hermitian ones; positive-definite ones. */
static weft_tensor *squares(weft_tensor *a)
{
    weft_tensor *unit = weft_eye(WEFT_F64, 3, 3, weft_tensor_mesh(a), NULL);
    return weft_add_scaled(weft_reshape(a, 3, (const int64_t[]){ weft_tensor_size(a, 0) / 3, 3, 3 }),
                           weft_to_type(unit, weft_tensor_dtype(a)), 4);
}

static weft_tensor *conjugated(weft_tensor *a)
{
    return weft_tensor_dtype(a) == WEFT_F64 ? a : weft_conj(a);
}

static weft_tensor *adjoint(weft_tensor *a)
{
    return weft_transpose(conjugated(a), -2, -1);
}

static weft_tensor *hermitian(weft_tensor *a)
{
    return weft_add(a, adjoint(a));
}

static weft_tensor *positive(weft_tensor *a)
{
    weft_tensor *b = squares(a);
    return weft_add(weft_matmul(b, adjoint(b)), weft_eye(WEFT_F64, 3, 3, weft_tensor_mesh(a), NULL));
}

/* Vectors times the conjugate of their first element: of any sign or phase. */
static weft_tensor *without_phases(weft_tensor *columns)
{
    return weft_mul(columns, conjugated(weft_slice(columns, -2, 0, 1, 1)));
}

static weft_tensor *qr_both(weft_tensor *a)
{
    weft_tensor *r, *q = weft_qr(a, &r);
    return weft_matmul(weft_matmul(adjoint(weft_slice(q, -1, 0, 2, 1)), weft_square(q)), weft_square(r));
}

static weft_tensor *eigenvectors(weft_tensor *a)
{
    weft_tensor *vectors, *values = weft_eigh(hermitian(squares(a)), false, &vectors);
    return weft_mul(without_phases(vectors), weft_unsqueeze(values, -2));
}

/* Sums over the eigenvalues, which are in no order, of numbers without phases. */
static weft_tensor *any_eigenvectors(weft_tensor *a)
{
    weft_tensor *vectors, *values = weft_eig(squares(a), &vectors);
    weft_tensor *sizes = weft_square(weft_abs(vectors));
    return weft_matmul(weft_complex(sizes, weft_zeros_like(sizes)), weft_unsqueeze(weft_square(values), -1));
}

/* The phases of a pair of vectors cancel. */
static weft_tensor *singular_vectors(weft_tensor *a)
{
    weft_tensor *u, *vh, *s = weft_svd(a, &u, &vh);
    return weft_matmul(weft_mul(u, weft_unsqueeze(weft_exp(weft_scale(s, 0.25)), -2)), vh);
}

static weft_tensor *left_vectors(weft_tensor *a)
{
    weft_tensor *u;
    weft_svd(a, &u, NULL);
    return without_phases(u);
}

static weft_tensor *logarithm_of_det(weft_tensor *a, bool sign)
{
    weft_tensor *logarithm, *of_sign = weft_slogdet(squares(a), &logarithm);
    return sign ? weft_mul(of_sign, logarithm) : logarithm;
}

/* Its rows are exchanged, whatever the small changes. */
static weft_tensor *turned_squares(weft_tensor *a)
{
    return weft_flip(squares(a), 1, (const int[]){ -2 });
}

/* The pivots are those of other matrices. */
static weft_tensor *solve_factored(weft_tensor *a, weft_tensor *b, bool adjoint)
{
    weft_tensor *pivots;
    weft_lu_factor(turned_squares(a), &pivots);
    return weft_lu_solve(squares(a), pivots, b, adjoint);
}

static weft_tensor *product_of_factors(weft_tensor *a)
{
    weft_tensor *l, *u, *p = weft_lu(turned_squares(a), &l, &u);
    return weft_matmul(weft_matmul(p, weft_square(l)), weft_exp(weft_scale(u, 0.25)));
}

FUNCTION(lu_factor, weft_lu_factor(turned_squares(a), NULL))
FUNCTION(lu_factor_any, weft_lu_factor(a, NULL))
FUNCTION(lu_both, product_of_factors(a))
FUNCTION(lu_solve, solve_factored(a, b, false))
FUNCTION(lu_solve_adjoint, solve_factored(a, b, true))
FUNCTION(cholesky, weft_cholesky(positive(a), false))
FUNCTION(cholesky_upper, weft_cholesky(positive(a), true))
FUNCTION(cholesky_solve, weft_cholesky_solve(b, weft_tril(squares(a), 0), false))
FUNCTION(cholesky_solve_upper, weft_cholesky_solve(b, weft_triu(squares(a), 0), true))
FUNCTION(triangle, weft_triangular_solve(squares(a), b, false, true, false))
FUNCTION(triangle_right, weft_triangular_solve(squares(a), weft_transpose(b, 0, 1), true, false, true))
FUNCTION(solve, weft_solve(squares(a), b))
FUNCTION(solve_vector, weft_solve(squares(a), weft_select(b, 1, 0)))
FUNCTION(inverse_matrix, weft_inverse(squares(a)))
FUNCTION(det, weft_det(squares(a)))
FUNCTION(slogdet, logarithm_of_det(a, true))
FUNCTION(log_det, logarithm_of_det(a, false))
FUNCTION(qr, qr_both(a))
FUNCTION(qr_q, weft_qr(a, NULL))
FUNCTION(eigenvalues, weft_eigh(hermitian(squares(a)), true, NULL))
FUNCTION(vectors, eigenvectors(a))
FUNCTION(any_eigenvalues, weft_sum(weft_square(weft_eig(squares(a), NULL)), -1, false))
FUNCTION(any_vectors, any_eigenvectors(a))
FUNCTION(condition, weft_cond(squares(a)))
FUNCTION(singular_values, weft_svd(a, NULL, NULL))
FUNCTION(both_vectors, singular_vectors(a))
FUNCTION(left, left_vectors(a))
FUNCTION(pseudo_inverse, weft_pinv(a, -1))
FUNCTION(least_squares, weft_lstsq(weft_reshape(a, 2, (const int64_t[]){ 3, 6 }), b, -1))
FUNCTION(matrix_power, weft_matrix_power(squares(a), -3))
FUNCTION(matrix_exp, weft_matrix_exp(weft_scale(squares(a), 0.25)))

typedef struct row {
    row_place place;
    const char *operation;
    weft_tensor *(*call)(weft_tensor *a, weft_tensor *b);
    int num_inputs;
    bool real[MAX_INPUTS];
    int64_t shape[MAX_INPUTS][2];
} row;

#define C1(operation, call) { THIS_ROW, operation, call, 1, { false, false }, { { 3, 4 }, { 0 } } }
#define R1(operation, call) { THIS_ROW, operation, call, 1, { true, false }, { { 3, 4 }, { 0 } } }
#define C2(operation, call) { THIS_ROW, operation, call, 2, { false, false }, { { 3, 4 }, { 3, 4 } } }
#define R2(operation, call) { THIS_ROW, operation, call, 2, { true, true }, { { 3, 4 }, { 3, 4 } } }
/* Lines that ranks share: fft_shared.c. */
#define LINE(operation, call, n, real) { THIS_ROW, operation, call, 1, { real, false }, { { 1, n }, { 0 } } }
#define MATRIX(operation, call, m, n)                                                                        \
    { THIS_ROW, operation, call, 1, { false, false }, { { m, n }, { 0 } } },                                 \
    { THIS_ROW, operation, call, 1, { true, false }, { { m, n }, { 0 } } }
#define MATRICES(operation, call) MATRIX(operation, call, 6, 3)
#define SYSTEMS(operation, call)                                                                             \
    { THIS_ROW, operation, call, 2, { false, false }, { { 6, 3 }, { 3, 2 } } },                              \
    { THIS_ROW, operation, call, 2, { true, true }, { { 6, 3 }, { 3, 2 } } }
/* clang-format off */
static const row rows[] = {
    C1("real", real), C1("imag", imag), C1("conj", conjugate), C1("angle", angle), R2("complex", from_parts), R2("polar", polar),
    C1("view_as_real", as_real), { THIS_ROW, "view_as_complex", as_complex, 1, { true, false }, { { 3, 2 }, { 0 } } },
    C1("complex_norm", norm), C1("complex_norm", norm_of_rows), C1("abs", size), C1("sgn", sign),
    C1("complex_var", variance), C1("complex_std", deviation), C1("cov", covariance), C1("logsumexp", log_of_sum), C1("tan", tangent),
    C1("asin", arcs), C1("atan", arc_tangent), C1("sinh", hyperbolic_sines), C1("asinh", area_sine), C1("acosh", area_cosine),
    C1("atanh", area_tangent), C1("log2", logarithms), C1("log1p", near_0), C1("exp2", power_of_2), C2("complex_convolution", convolution),
    C2("complex_convolution", transposed_convolution),
    C2("add", add), C2("sub", sub), C2("mul", mul), C2("div", divide), C2("pow", power), C1("scale", scaled),
    C1("scale", turned),
    { THIS_ROW, "mul", mul, 2, { true, false }, { { 3, 4 }, { 3, 4 } } },
    { THIS_ROW, "mul", mul, 2, { false, true }, { { 3, 4 }, { 1, 4 } } },
    { THIS_ROW, "div", divide, 2, { true, false }, { { 3, 4 }, { 3, 1 } } },
    { THIS_ROW, "div", divide, 2, { false, true }, { { 3, 4 }, { 3, 4 } } },
    { THIS_ROW, "add", add, 2, { true, false }, { { 3, 4 }, { 1, 4 } } },
    { THIS_ROW, "pow", power, 2, { false, true }, { { 3, 4 }, { 3, 4 } } },
    C2("add_scaled", add_scaled), C2("addcmul", addcmul), C2("addcdiv", addcdiv), C1("neg", negative), C1("square", square),
    C1("rsqrt", inverse_root), C1("sigmoid", logistic), C2("lerp", between), C2("lerp_tensor", between_by), C1("prod", products),
    C1("cumsum", sums_so_far), C1("cumprod", products_so_far),
    C2("einsum", einsum),
    C1("reciprocal", inverse), C1("sqrt", root), C1("exp", exponential), C1("log", logarithm), C1("sin", sine), C1("cos", cosine),
    C1("tanh", hyperbolic), C1("pow_scalar", cube), C1("pow_scalar", rooted), C1("sum", sum), C1("mean", mean),
    { THIS_ROW, "matmul", product, 2, { false, false }, { { 3, 4 }, { 4, 2 } } },
    { THIS_ROW, "matmul", product_tt, 2, { false, false }, { { 4, 3 }, { 2, 4 } } },
    C1("matmul", product_nt), { THIS_ROW, "linear", linear, 2, { false, false }, { { 3, 4 }, { 2, 4 } } },
    C2("outer", outer), C2("where", where), C1("slice", slice), R1("to_type", widened),
    { THIS_ROW, "complex", mixed, 2, { false, true }, { { 3, 4 }, { 3, 4 } } },
    C1("fft", fft), R1("fft", fft), C1("fft", fft_cut), C1("fft", fft_padded), R1("fft", fft_padded), C1("fft", ifft),
    C1("dct", dct_1), C1("dct", dct_2), R1("dct", dct_3), R1("dct", dct_4), C1("dst", dst_1), C1("dst", dst_2), R1("dst", dst_3),
    R1("dst", dst_4), R1("rfft", rfft), R1("rfft", rfft_odd), R1("rfft", rfft_cut), C1("irfft", irfft), C1("irfft", irfft_odd), R1("irfft", irfft),
    C1("irfft", irfft_padded), C1("irfft", irfft_cut), C1("hfft", hfft), R1("ihfft", ihfft), C1("fftn", fftn), C1("fftn", ifftn),
    MATRICES("cholesky", cholesky), MATRICES("cholesky", cholesky_upper), MATRICES("inverse", inverse_matrix), MATRICES("det", det),
    MATRICES("slogdet", slogdet), MATRICES("slogdet", log_det), MATRICES("eigh", eigenvalues), MATRICES("eigh", vectors),
    MATRICES("eig", any_eigenvalues), MATRICES("eig", any_vectors), MATRICES("cond", condition),
    SYSTEMS("cholesky_solve", cholesky_solve), SYSTEMS("cholesky_solve", cholesky_solve_upper), SYSTEMS("triangular_solve", triangle),
    SYSTEMS("triangular_solve", triangle_right), SYSTEMS("solve", solve), SYSTEMS("solve_vector", solve_vector),
    MATRICES("lu_factor", lu_factor), MATRIX("lu_factor", lu_factor_any, 3, 5), MATRIX("lu_factor", lu_factor_any, 5, 3),
    MATRICES("lu", lu_both), SYSTEMS("lu_solve", lu_solve), SYSTEMS("lu_solve", lu_solve_adjoint),
    MATRIX("qr", qr, 4, 3), MATRIX("qr", qr, 3, 3), MATRIX("qr", qr, 3, 5), MATRIX("qr", qr_q, 4, 3), MATRIX("qr", qr_q, 3, 5),
    MATRIX("pinv", pseudo_inverse, 3, 4), MATRIX("pinv", pseudo_inverse, 4, 3), SYSTEMS("lstsq", least_squares),
    MATRICES("matrix_power", matrix_power), MATRICES("matrix_exp", matrix_exp),
    MATRIX("svd", singular_values, 3, 4), MATRIX("svd", both_vectors, 3, 3), MATRIX("svd", both_vectors, 3, 4),
    MATRIX("svd", both_vectors, 4, 3), MATRIX("svd", left, 4, 3), MATRIX("svd", left, 3, 4),
    LINE("fft", fft_line, 16, false), LINE("fft", ifft, 16, false), LINE("fft", fft_line, 13, true), LINE("rfft", rfft, 16, true),
    LINE("irfft", irfft, 9, false), LINE("irfft", irfft, 10, true),
    R1("rfftn", rfftn), C1("irfftn", irfftn), C1("fftshift", fftshift), R2("fft", convolved),
};
/* clang-format on */
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* ---- values -------------------------------------------------------------------------------------------- */

static prng source;
static int compared;

static int64_t below(int64_t n)
{
    return prng_below(&source, n);
}

/* Away from 0, and from the negative real numbers. */
static double any_part(void)
{
    double value = 0.5 + (double)below(1000) / 1000;
    return value;
}

static int64_t elements_of(const row *r, int input)
{
    return r->shape[input][0] * r->shape[input][1];
}

static weft_tensor *tensor_of(const row *r, int input, const number values[], weft_mesh *mesh, const weft_placement *placements)
{
    double parts[MAX_ELEMENTS];
    for (int64_t i = 0; i < elements_of(r, input) && r->real[input]; i++) {
        parts[i] = creal(values[i]);
    }
    return weft_distribute(r->real[input] ? WEFT_F64 : WEFT_C128, 2, r->shape[input], r->real[input] ? (const void *)parts : values,
                           mesh, placements);
}

/* The elements of a real or complex tensor; their number. */
static int64_t numbers_of(weft_tensor *tensor, number values[])
{
    int64_t count = weft_tensor_num_elements(tensor);
    double parts[MAX_ELEMENTS];
    bool real = weft_tensor_dtype(tensor) == WEFT_F64;
    assert_true(count <= MAX_ELEMENTS);
    void *memory = real ? (void *)parts : (void *)values;
    assert_int_equal(weft_to_host(tensor, memory, (size_t)count * weft_dtype_size(weft_tensor_dtype(tensor))), WEFT_OK);
    for (int64_t i = 0; i < count && real; i++) {
        values[i] = parts[i];
    }
    return count;
}

/* The same weight for element i of any tensor. */
static number weight_of(int64_t i, int salt)
{
    return __builtin_complex((double)((i * 5 + salt) % 7) - 2.5, (double)((i * 3 + salt) % 5) - 1.5);
}

static weft_tensor *weights_like(weft_tensor *like, int salt)
{
    number weights[MAX_ELEMENTS];
    double parts[MAX_ELEMENTS];
    int64_t shape[WEFT_MAX_DIMS];
    for (int64_t i = 0; i < weft_tensor_num_elements(like); i++) {
        weights[i] = weight_of(i, salt);
        parts[i] = creal(weights[i]);
    }
    for (int d = 0; d < weft_tensor_ndim(like); d++) {
        shape[d] = weft_tensor_size(like, d);
    }
    bool real = weft_tensor_dtype(like) == WEFT_F64;
    return weft_distribute(weft_tensor_dtype(like), weft_tensor_ndim(like), shape, real ? (const void *)parts : weights,
                           weft_tensor_mesh(like), NULL);
}

/* The real part of the sum of conj(w) y. */
static double weighted(weft_tensor *y, int salt)
{
    number values[MAX_ELEMENTS];
    double sum = 0;
    for (int64_t i = 0, count = numbers_of(y, values); i < count; i++) {
        number w = weight_of(i, salt);
        sum += creal(w) * creal(values[i]) + cimag(w) * cimag(values[i]);
    }
    return sum;
}

/* ---- comparisons --------------------------------------------------------------------------------------- */

typedef struct scene {
    const row *r;
    weft_mesh *mesh;
    weft_placement placements[MAX_INPUTS][3];
    number values[MAX_INPUTS][MAX_ELEMENTS];
} scene;

/* The gradients of the weighted result; their own weighted sum with `again`, else NULL. */
static void gradients_of(const scene *s, bool again, weft_tensor *inputs[], weft_tensor *gradients[])
{
    for (int i = 0; i < s->r->num_inputs; i++) {
        inputs[i] = tensor_of(s->r, i, s->values[i], s->mesh, s->placements[i]);
        assert_int_equal(weft_set_requires_grad(inputs[i], true), WEFT_OK);
    }
    weft_tensor *y = s->r->call(inputs[0], inputs[1]);
    assert_no_error();
    weft_tensor *weights = weights_like(y, 0);
    assert_int_equal(weft_gradients(1, &y, &weights, s->r->num_inputs, inputs, again, gradients), WEFT_OK);
}

/* The function whose derivative is compared: the weighted result, or the weighted gradients. */
static double loss_of(const scene *s, bool second)
{
    weft_tensor *inputs[MAX_INPUTS] = { NULL }, *gradients[MAX_INPUTS] = { NULL };
    double loss = 0;
    weft_scope_begin();
    if (second) {
        gradients_of(s, false, inputs, gradients);
        for (int i = 0; i < s->r->num_inputs; i++) {
            loss += gradients[i] == NULL ? 0 : weighted(gradients[i], 1 + i);
        }
    } else {
        for (int i = 0; i < s->r->num_inputs; i++) {
            inputs[i] = tensor_of(s->r, i, s->values[i], s->mesh, s->placements[i]);
        }
        loss = weighted(s->r->call(inputs[0], inputs[1]), 0);
    }
    weft_scope_end();
    return loss;
}

static double difference(scene *s, int input, int64_t element, number step, bool second)
{
    number own = s->values[input][element];
    s->values[input][element] = own + step;
    double above = loss_of(s, second);
    s->values[input][element] = own - step;
    double under = loss_of(s, second);
    s->values[input][element] = own;
    return (above - under) / (2 * cabs(step));
}

static void compare(scene *s, int input, weft_tensor *gradient, bool second)
{
    number found[MAX_ELEMENTS] = { 0 };
    const double h = 2e-5;
    if (gradient != NULL) {
        assert_int_equal(weft_tensor_dtype(gradient), s->r->real[input] ? WEFT_F64 : WEFT_C128);
        assert_int_equal(numbers_of(gradient, found), elements_of(s->r, input));
    }
    for (int64_t i = 0; i < elements_of(s->r, input); i++) {
        number expected = difference(s, input, i, h, second);
        if (!s->r->real[input]) {
            expected = __builtin_complex(creal(expected), difference(s, input, i, __builtin_complex(0.0, h), second));
        }
        if (!(cabs(found[i] - expected) <= 2e-6 * (1 + cabs(expected)))) {
            fail_msg("%s, %s derivative by element %d of input %d: %.9g%+.9gi, central differences give %.9g%+.9gi", s->r->operation,
                     second ? "second" : "first", (int)i, input, creal(found[i]), cimag(found[i]), creal(expected), cimag(expected));
        }
        compared++;
    }
}

static void check_row(const row *r, bool second)
{
    scene s = { .r = r, .mesh = random_mesh(&source, 4) };
    for (int i = 0; i < r->num_inputs; i++) {
        random_placements(&source, s.mesh, 2, false, s.placements[i]);
        for (int64_t e = 0; e < elements_of(r, i); e++) {
            s.values[i][e] = __builtin_complex(any_part(), r->real[i] ? 0.0 : any_part());
        }
    }
    weft_tensor *inputs[MAX_INPUTS] = { NULL }, *gradients[MAX_INPUTS] = { NULL }, *again[MAX_INPUTS] = { NULL };
    weft_scope_begin();
    gradients_of(&s, second, inputs, gradients);
    if (!second) {
        for (int i = 0; i < r->num_inputs; i++) {
            compare(&s, i, gradients[i], false);
        }
    } else {
        weft_tensor *outputs[MAX_INPUTS], *weights[MAX_INPUTS];
        int count = 0;
        for (int i = 0; i < r->num_inputs; i++) {
            if (gradients[i] != NULL && weft_requires_grad(gradients[i])) { /* others do not depend on the inputs */
                weights[count] = weights_like(gradients[i], 1 + i);
                outputs[count++] = gradients[i];
            }
        }
        if (count > 0) {
            assert_int_equal(weft_gradients(count, outputs, weights, r->num_inputs, inputs, false, again), WEFT_OK);
        }
        for (int i = 0; i < r->num_inputs; i++) {
            compare(&s, i, again[i], true);
        }
    }
    weft_scope_end();
    assert_no_error();
}

static void check_rows(bool second, int rounds)
{
    WORLD(4);
    weft_runtime.planned.product_flops_per_us = 1e-6; /* so that ranks share lines */
    source = prng_start(second ? 11 : 7);
    for (int i = 0; i < rounds; i++) {
        for (int r = 0; r < ROWS; r++) {
            enter_row(rows[r].place, second ? "second derivatives" : "first derivatives");
            check_row(&rows[r], second);
        }
    }
    leave_rows();
    assert_int_equal(weft_finalize(), WEFT_OK);
    print_message("# %d parts of derivatives compared\n", compared);
}

static void test_first(void **state)
{
    (void)state;
    check_rows(false, 2);
}

static void test_second(void **state)
{
    (void)state;
    check_rows(true, 1);
}

static void test_list(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(complex_gradients) / sizeof(complex_gradients[0]); i++) {
        bool found = false;
        for (int r = 0; r < ROWS; r++) {
            found |= strcmp(rows[r].operation, complex_gradients[i]) == 0;
        }
        if (!found) {
            fail_msg("no row compares the gradient of %s", complex_gradients[i]);
        }
    }
}

/* A pass begins with a gradient where its output is complex. */
static void test_complex_loss(void **state)
{
    (void)state;
    WORLD(2);
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 2 }, NULL);
    weft_tensor *z = weft_ones(WEFT_C64 | WEFT_WITH_GRAD, 1, (const int64_t[]){ 1 }, mesh, NULL);
    assert_no_error();
    assert_int_equal(weft_backward(weft_square(z), NULL), WEFT_ERR_DTYPE);
    assert_error(WEFT_ERR_DTYPE, "needs a gradient");
    assert_int_equal(weft_backward(weft_sum(weft_real(weft_square(z)), WEFT_ALL_DIMS, false), NULL), WEFT_OK);
    assert_int_equal(weft_tensor_dtype(weft_grad(z)), WEFT_C64);
    assert_int_equal(weft_finalize(), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_complex_loss),
        cmocka_unit_test(test_first),
        cmocka_unit_test(test_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
