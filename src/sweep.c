/* Sweeps of layouts: those that nothing holds are freed (layout/layout.h). Every level meets the layouts that it keeps from one
 * public call to the next; those of a call under way are met by nobody, so a sweep runs between two calls of the program. */
#include "start.h"

#include "arrays/arrays.h"
#include "autograd/tape.h"
#include "comm/comm.h"
#include "dispatch/dispatch.h"
#include "graph/auto/auto.h"
#include "tensor/tensor.h"

void weft_sweep_layouts(void)
{
    weft_tensors_meet_layouts();
    weft_arrays_meet_layouts();
    weft_dispatch_meet_layouts();
    weft_autograd_meet_layouts();
    weft_graphs_meet_layouts();
    weft_auto_meet_layouts();
    if (weft_runtime.comm != NULL) {
        weft_comm_sweep_layouts(weft_runtime.comm);
    } else {
        weft_layout_table_sweep(weft_runtime.layouts);
    }
}
