#include "codelets/flops.h"

#include "codelets/attention.h"
#include "codelets/kernel.h"
#include "codelets/linear.h"

static double elements(const weft_kernel_operand *operand)
{
    double count = 1;
    for (int d = 0; d < operand->ndim; d++) {
        count *= (double)operand->extent[d];
    }
    return count;
}

static double last_extent(const weft_kernel_operand *operand, int from_end)
{
    return operand->ndim >= from_end ? (double)operand->extent[operand->ndim - from_end] : 1;
}

/* Products of rows of queries with keys, forwards two, backwards three to seven; with a causal mask half of them. */
static double attention_flops(weft_kernel_id kernel, const weft_kernel_args *args)
{
    bool backward = kernel != WEFT_KERNEL_attention && kernel != WEFT_KERNEL_attention_state;
    const weft_kernel_operand *inputs = args->operands + args->num_outputs + backward;
    double products = kernel == WEFT_KERNEL_attention || kernel == WEFT_KERNEL_attention_state ? 2
                      : kernel == WEFT_KERNEL_attention_backward_q                              ? 3
                      : kernel == WEFT_KERNEL_attention_backward_kv                             ? 4
                                                                                                : 5;
    double pairs = elements(&inputs[0]) * last_extent(&inputs[1], 2);
    return 2 * products * pairs * (args->numbers[WEFT_ATTENTION_CAUSAL] != 0 ? 0.5 : 1);
}

/* Kernels of factorizations.h take about so many operations for each element of a matrix and each of its columns. */
static double factorization_flops(weft_kernel_id kernel, const weft_kernel_args *args)
{
    const weft_kernel_operand *x = &args->operands[0], *a = &args->operands[args->num_outputs];
    const double n = last_extent(a, 1);
    if (n == 0 || kernel == WEFT_KERNEL_determinant) {
        return 0;
    }
    if (kernel == WEFT_KERNEL_cholesky_update || kernel == WEFT_KERNEL_lu_update) { /* half of the columns are after the diagonal */
        return elements(x) * last_extent(a, 2);
    }
    if (kernel == WEFT_KERNEL_qr_update) {
        return 2 * elements(x) * last_extent(a, 2);
    }
    double each = kernel == WEFT_KERNEL_cholesky           ? 1.0 / 3
                  : kernel == WEFT_KERNEL_lu_factor        ? 2.0 / 3
                  : kernel == WEFT_KERNEL_triangular_solve ? last_extent(x, 1) / n
                  : kernel == WEFT_KERNEL_lu_solve         ? 2 * last_extent(x, 1) / n
                  : kernel == WEFT_KERNEL_cholesky_panel   ? last_extent(a, 2) / n
                  : kernel == WEFT_KERNEL_lu_panel         ? last_extent(a, 2) / n
                  : kernel == WEFT_KERNEL_qr_panel         ? 2 * last_extent(a, 2) / n
                  : kernel == WEFT_KERNEL_inverse          ? 2
                  : kernel == WEFT_KERNEL_qr               ? 4
                  : kernel == WEFT_KERNEL_eigh             ? 9
                  : kernel == WEFT_KERNEL_matrix_exp       ? 20
                                                           : 25; /* singular values and vectors */
    return each * elements(a) * n;
}

/* Each element of the largest operand meets as many weights as one channel has. */
static double convolution_flops(const weft_kernel_args *args)
{
    double most = 0, fewest = 0;
    for (int i = 0; i < args->num_outputs + args->num_inputs; i++) {
        double count = elements(&args->operands[i]);
        most = count > most ? count : most;
        fewest = fewest == 0 || count < fewest ? count : fewest;
    }
    return fewest == 0 ? 0 : 2 * most * fewest / last_extent(&args->operands[0], 1);
}

double weft_kernel_flops(weft_kernel_id kernel, const void *arguments)
{
    const weft_kernel_args *args = arguments;
    const weft_gemm_args *product = arguments;
    switch (kernel) {
    case WEFT_KERNEL_matmul:
        return 2.0 * (double)product->gemm.m * (double)product->gemm.n * (double)product->gemm.k;
    case WEFT_KERNEL_bmm:
        return 2 * elements(&args->operands[args->num_outputs]) * last_extent(&args->operands[0], 1);
    case WEFT_KERNEL_attention:
    case WEFT_KERNEL_attention_state:
    case WEFT_KERNEL_attention_backward_q:
    case WEFT_KERNEL_attention_backward_kv:
    case WEFT_KERNEL_attention_backward_all:
        return attention_flops(kernel, args);
    case WEFT_KERNEL_convolution:
    case WEFT_KERNEL_convolution_backward_input:
    case WEFT_KERNEL_convolution_backward_weight:
        return convolution_flops(args);
    default:
        return kernel < WEFT_KERNEL_cholesky || kernel > WEFT_KERNEL_svd ? 0 : factorization_flops(kernel, args);
    }
}
