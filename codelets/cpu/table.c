/* The table of kernels for CPUs. */
#include "codelets/attention.h"
#include "codelets/complex.h"
#include "codelets/constant.h"
#include "codelets/convolution.h"
#include "codelets/copy.h"
#include "codelets/counts.h"
#include "codelets/elementwise.h"
#include "codelets/factorizations.h"
#include "codelets/fft.h"
#include "codelets/indexing.h"
#include "codelets/interpolation.h"
#include "codelets/kernel.h"
#include "codelets/linear.h"
#include "codelets/local.h"
#include "codelets/lookup.h"
#include "codelets/losses.h"
#include "codelets/norms.h"
#include "codelets/optimizers.h"
#include "codelets/pooling.h"
#include "codelets/random.h"
#include "codelets/ranges.h"
#include "codelets/rearrange.h"
#include "codelets/reductions.h"
#include "codelets/rotary.h"
#include "codelets/scans.h"
#include "codelets/shapes.h"
#include "codelets/softmax.h"
#include "codelets/sorting.h"
#include "codelets/stencil.h"

#define WEFT_TASK_KERNEL(name, color, cuda) [WEFT_KERNEL_##name] = { weft_cpu_##name, NULL },
#define WEFT_VIEW_KERNEL(name, color, cuda) [WEFT_KERNEL_##name] = { weft_cpu_views, weft_kernel_##name },
#define WEFT_FLOATING(name, inputs, expression) [WEFT_KERNEL_##name] = { weft_cpu_elementwise, NULL },
#define WEFT_NUMBER(name, inputs, expression, integer) [WEFT_KERNEL_##name] = { weft_cpu_elementwise, NULL },
#define WEFT_TRUTH(name, inputs, expression) [WEFT_KERNEL_##name] = { weft_cpu_elementwise, NULL },
#define WEFT_WHOLE(name, inputs, expression) [WEFT_KERNEL_##name] = { weft_cpu_elementwise, NULL },

const weft_cpu_kernel weft_cpu_kernels[WEFT_KERNEL_COUNT] = {
#include "codelets/elementwise.inc"
#include "codelets/kernels.inc"
};
