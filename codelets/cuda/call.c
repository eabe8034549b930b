#include "codelets/cuda/call.h"

#include <string.h>

#include "codelets/cuda/kernels.h"
#include "codelets/kernel.h"

_Static_assert(WEFT_DEVICE_MAX_PANELS == (int)WEFT_KERNEL_MAX_PANELS, "all panels fit into a table");

static void fill_view(weft_device_view *view, const weft_kernel_args *args, int number)
{
    weft_view from = weft_kernel_view(args, number);
    view->dtype = from.dtype;
    view->ndim = from.ndim;
    view->first_panel = args->operands[number].first_panel;
    memcpy(view->shape, from.shape, sizeof(view->shape));
    memcpy(view->offset, from.offset, sizeof(view->offset));
    memcpy(view->extent, from.extent, sizeof(view->extent));
    memcpy(view->strides, from.strides, sizeof(view->strides));
    view->row_elements = from.row_elements;
    view->rows = weft_view_rows(&from);
    view->count = weft_view_count(&from);
    view->panel_rows = from.panel_rows;
    view->row_shift = from.row_shift;
}

void weft_device_call_fill(weft_device_call *call, const weft_task_run *run)
{
    const weft_kernel_args *args = run->arguments;
    call->num_outputs = args->num_outputs;
    call->num_inputs = args->num_inputs;
    call->first = args->first;
    call->last = args->last;
    memcpy(call->numbers, args->numbers, sizeof(call->numbers));
    memcpy(call->scalars, run->scalars, sizeof(call->scalars));
    for (int i = 0; i < args->num_outputs + args->num_inputs; i++) {
        fill_view(&call->views[i], args, i);
    }
    call->error = NULL;
    call->table = NULL;
    for (int i = 0; i < run->num_operands && i < WEFT_DEVICE_PANELS; i++) {
        call->panels[i] = run->operands[i];
    }
}

int weft_cuda_views(const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_kernel_call call;
    weft_views_call(run, &call);
    call.error = NULL;
    return run->cpu->cuda_views(&call, queue->stream);
}
