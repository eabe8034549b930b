/* The table of kernels: PURE, see kernels.h. */
#include "codelets/kernels.h"

#include "codelets/accesses.h"
#include "codelets/complex.h"
#include "codelets/constant.h"
#include "codelets/copy.h"
#include "codelets/elementwise.h"
#include "codelets/kernel.h"
#include "codelets/linear.h"
#include "codelets/local.h"
#include "codelets/lookup.h"
#include "codelets/rearrange.h"

_Static_assert(WEFT_KERNEL_NUMBERS >= WEFT_MAX_NUMBERS, "operations of the program's use the same kernel arguments");

#define WEFT_TASK_KERNEL(name_, color_, cuda)                                                                \
    [WEFT_KERNEL_##name_] = { .name = #name_,                                                                \
                              .color = WEFT_COLOR_##color_,                                                  \
                              .form = WEFT_FORM_TASK,                                                        \
                              .on_devices = sizeof(#cuda) != sizeof("NULL"),                                 \
                              .footprint = weft_##name_##_footprint,                                        \
                              .accesses = weft_##name_##_accesses },
#define WEFT_VIEW_KERNEL(name_, color_, cuda)                                                                \
    [WEFT_KERNEL_##name_] = { .name = #name_,                                                                \
                              .color = WEFT_COLOR_##color_,                                                  \
                              .form = WEFT_FORM_VIEWS,                                                       \
                              .on_devices = sizeof(#cuda) != sizeof("NULL"),                                 \
                              .footprint = weft_views_footprint,                                             \
                              .accesses = weft_kernel_call_accesses },
#define ELEMENTWISE(name_, inputs, truth_, integers_, floats_)                                               \
    [WEFT_KERNEL_##name_] = { .name = #name_,                                                                \
                              .color = WEFT_COLOR_OTHER,                                                     \
                              .form = WEFT_FORM_ELEMENTWISE,                                                 \
                              .on_devices = true,                                                            \
                              .footprint = weft_elementwise_footprint,                                       \
                              .accesses = weft_elementwise_accesses,                                       \
                              .num_inputs = inputs,                                                          \
                              .truth = truth_,                                                               \
                              .integers = integers_,                                                         \
                              .floats = floats_ },
#define WEFT_FLOATING(name, inputs, expression) ELEMENTWISE(name, inputs, false, false, true)
#define WEFT_NUMBER(name, inputs, expression, integer) ELEMENTWISE(name, inputs, false, true, true)
#define WEFT_TRUTH(name, inputs, expression) ELEMENTWISE(name, inputs, true, true, true)
#define WEFT_WHOLE(name, inputs, expression) ELEMENTWISE(name, inputs, false, true, false)

const weft_kernel_info weft_kernel_infos[WEFT_KERNEL_COUNT] = {
#include "codelets/elementwise.inc"
#include "codelets/kernels.inc"
};

/* Complex, or a type after those. */
static bool is_for_cpus(weft_dtype dtype)
{
    return dtype >= WEFT_C64;
}

bool weft_task_is_for_cpus(weft_kernel_form form, const void *arguments, int num_operands)
{
    bool found = false;
    if (form == WEFT_FORM_ELEMENTWISE) {
        const weft_elementwise_args *args = arguments;
        for (int k = 0; k < num_operands && k <= WEFT_MAX_ELEMENTWISE_INPUTS; k++) {
            found |= is_for_cpus(args->types[k]);
        }
    } else if (form == WEFT_FORM_VIEWS) {
        const weft_kernel_args *args = arguments;
        for (int k = 0; k < args->num_outputs + args->num_inputs; k++) {
            found |= is_for_cpus(args->operands[k].dtype);
        }
    } else {
        found = is_for_cpus(((const weft_task_args *)arguments)->dtype);
    }
    return found;
}

const weft_kernel_info *weft_kernel_info_of(weft_kernel_id kernel)
{
    static const weft_kernel_info own = { .name = "kernel of the program",
                                          .color = WEFT_COLOR_OTHER,
                                          .form = WEFT_FORM_VIEWS,
                                          .footprint = weft_views_footprint,
                                          .accesses = weft_kernel_call_accesses };
    return kernel < WEFT_KERNEL_COUNT ? &weft_kernel_infos[kernel] : &own;
}
