/* Tasks of the kernel attention. */
#include "codelets/cuda/dnn_operands.h"

bool weft_dnn_attention_task(const weft_task_run *run, weft_cuda_queue *queue)
{
    weft_dnn_task t;
    if (!weft_dnn_task_begin(&t, run, 0)) {
        return false;
    }
    const bool stores = t.call.num_outputs > 1;
    const weft_dnn_operand result = weft_dnn_operand_of(&t, 0, 2), log_sums = weft_dnn_operand_of(&t, stores ? 1 : 0, stores ? 1 : 2);
    const weft_dnn_operand *const outputs[] = { &result, &log_sums };
    if (result.view->dtype != t.q.view->dtype || (stores && log_sums.view->dtype != WEFT_F32) || !weft_dnn_is_whole(&t, &result, 2) ||
        !weft_dnn_is_whole(&t, &log_sums, stores ? 1 : 2)) {
        return false;
    }
    t.sizes.result_step = result.step;
    t.sizes.row_step = stores ? log_sums.step : t.sizes.rows;
    t.sizes.stores = stores;
    for (int64_t piece = 0, count; piece < t.pieces; piece += count) {
        count = weft_dnn_piece(&t, 2, outputs, piece);
        const weft_dnn_attention a = { .sizes = t.sizes,
                                       .shift = t.shift,
                                       .scale = t.call.scalars[0],
                                       .q = weft_dnn_place(&t.q, piece),
                                       .k = weft_dnn_place(&t.k, piece),
                                       .v = weft_dnn_place(&t.v, piece),
                                       .result = weft_dnn_place(&result, piece),
                                       .log_sums = stores ? weft_dnn_place(&log_sums, piece) : NULL };
        if (count == 0 || !weft_dnn_is_aligned(a.q) || !weft_dnn_is_aligned(a.k) || !weft_dnn_is_aligned(a.v) ||
            !weft_dnn_is_aligned(a.result) || !weft_dnn_attend(&a, queue)) {
            return false;
        }
    }
    return true;
}
