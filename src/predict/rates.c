/* Times of kernels by a machine's rates: arithmetic where there is much of it, else the bytes that are read and written. */
#include "codelets/flops.h"
#include "codelets/linear.h"
#include "predict/predict.h"

static void add_bytes(void *context, const weft_kernel_access *access)
{
    double *bytes = context, count = (double)access->element;
    for (int d = 0; d < access->ndim; d++) {
        count *= access->stride[d] == 0 ? 1 : (double)access->extent[d];
    }
    *bytes += access->kind == WEFT_KERNEL_UPDATE ? 2 * count : count;
}

/* The rate of a kernel's arithmetic. */
static double flops_per_us(const weft_machine_model *rates, weft_kernel_id kernel, const void *arguments)
{
    const weft_gemm_args *product = arguments;
    switch (kernel) {
    case WEFT_KERNEL_matmul:
        return product->gemm.dtype == WEFT_F64                 ? rates->f64_flops_per_us
               : product->input_type != product->gemm.dtype ? rates->f16_flops_per_us
                                                               : rates->machine.product_flops_per_us;
    case WEFT_KERNEL_bmm:
        return rates->machine.product_flops_per_us;
    case WEFT_KERNEL_attention:
    case WEFT_KERNEL_attention_state:
    case WEFT_KERNEL_attention_backward_q:
    case WEFT_KERNEL_attention_backward_kv:
    case WEFT_KERNEL_attention_backward_all:
        return rates->attention_flops_per_us;
    case WEFT_KERNEL_convolution:
    case WEFT_KERNEL_convolution_backward_input:
    case WEFT_KERNEL_convolution_backward_weight:
        return rates->convolution_flops_per_us;
    default:
        return rates->f64_flops_per_us;
    }
}

static double byte_rate(const weft_machine_model *rates, weft_kernel_id kernel, const weft_kernel_info *info)
{
    if (weft_kernel_is_elementwise(kernel)) {
        return rates->elementwise_bytes_per_us;
    }
    if (kernel >= WEFT_KERNEL_uniform && kernel <= WEFT_KERNEL_bernoulli) {
        return rates->random_bytes_per_us;
    }
    bool moves = info->color == WEFT_COLOR_MOVE || info->color == WEFT_COLOR_FILL || info->color == WEFT_COLOR_PRODUCT;
    return moves ? 2 * rates->machine.copy_bytes_per_us : rates->row_bytes_per_us;
}

double weft_rated_us(const weft_machine_model *rates, weft_kernel_id kernel, const void *arguments, int num_operands)
{
    const weft_kernel_info *info = weft_kernel_info_of(kernel);
    double bytes = 0, arithmetic = weft_kernel_flops(kernel, arguments) / flops_per_us(rates, kernel, arguments);
    if (info->accesses != NULL) {
        info->accesses(arguments, num_operands, add_bytes, &bytes);
    }
    double memory = bytes / byte_rate(rates, kernel, info);
    return arithmetic > memory ? arithmetic : memory;
}
