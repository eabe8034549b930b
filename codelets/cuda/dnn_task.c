/* Tasks of attention's kernels. */
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

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* The outputs for the gradients of q, k and v; NULL: the caller does not want it. The gradients of k and v may lie side by side in
 * one operand. */
typedef struct gradient_outputs {
    weft_dnn_operand outputs[3];
    const weft_dnn_operand *of_q, *of_k, *of_v;
    int64_t v_column; /* where the columns of v's begin */
} gradient_outputs;

static void find_outputs(const weft_dnn_task *t, bool of_q, gradient_outputs *out)
{
    const int64_t parts = t->call.numbers[WEFT_ATTENTION_PARTS];
    *out = (gradient_outputs){ .of_q = NULL };
    for (int i = 0; i < t->call.num_outputs; i++) {
        out->outputs[i] = weft_dnn_operand_of(t, i, 2);
    }
    if (!of_q) {
        out->of_k = (parts & WEFT_ATTENTION_HAS_K_GRADIENT) != 0 ? &out->outputs[0] : NULL;
        out->of_v = (parts & WEFT_ATTENTION_HAS_V_GRADIENT) != 0 ? &out->outputs[0] : NULL;
        out->v_column = out->of_k != NULL ? t->sizes.depth : 0;
    } else {
        out->of_q = &out->outputs[0];
        out->of_k = t->call.num_outputs == 3 ? &out->outputs[1] : NULL;
        out->of_v = t->call.num_outputs == 3 ? &out->outputs[2] : NULL;
    }
}

static int64_t row_of(const weft_dnn_operand *of)
{
    return of == NULL ? 0 : of->view->extent[of->view->ndim - 1];
}

static bool can_use(const weft_dnn_task *t, const gradient_outputs *out, const weft_dnn_operand *gradient, const weft_dnn_operand *statistics)
{
    bool can = gradient->view->dtype == t->q.view->dtype && statistics->view->dtype == WEFT_F32 && weft_dnn_is_whole(t, gradient, 2) &&
               weft_dnn_is_whole(t, statistics, 2);
    for (int i = 0; i < t->call.num_outputs; i++) {
        can = can && out->outputs[i].view->dtype == WEFT_F32 && weft_dnn_is_whole(t, &out->outputs[i], 2);
    }
    return can;
}

static float *output_at(const weft_dnn_operand *of, int64_t piece, int64_t column)
{
    return of == NULL ? NULL : (float *)weft_dnn_place(of, piece) + column;
}

static bool all_aligned(const weft_dnn_gradients *g)
{
    const void *const all[] = { g->q, g->k, g->v, g->gradient, g->of_q, g->of_k, g->of_v };
    bool aligned = true;
    for (int i = 0; i < 7; i++) {
        aligned = aligned && weft_dnn_is_aligned(all[i]);
    }
    return aligned;
}

bool weft_dnn_gradients_task(const weft_task_run *run, bool of_q, weft_cuda_queue *queue, int *failed)
{
    *failed = 0;
    weft_dnn_task t;
    gradient_outputs out;
    if (!weft_dnn_task_begin(&t, run, 1)) {
        return false;
    }
    const int first = t.call.num_outputs;
    const weft_dnn_operand gradient = weft_dnn_operand_of(&t, first, 2), statistics = weft_dnn_operand_of(&t, first + 4, 2);
    find_outputs(&t, of_q, &out);
    if (!can_use(&t, &out, &gradient, &statistics)) {
        return false;
    }
    const weft_dnn_operand *const others[] = { &gradient, &statistics, &out.outputs[0], &out.outputs[1], &out.outputs[2] };
    t.sizes.result_step = gradient.step;
    t.sizes.row_step = statistics.step;
    for (int64_t piece = 0, count; piece < t.pieces; piece += count) {
        count = weft_dnn_piece(&t, 2 + t.call.num_outputs, others, piece);
        const weft_dnn_gradients g = { .sizes = t.sizes,
                                       .shift = t.shift,
                                       .scale = t.call.scalars[0],
                                       .q = weft_dnn_place(&t.q, piece),
                                       .k = weft_dnn_place(&t.k, piece),
                                       .v = weft_dnn_place(&t.v, piece),
                                       .gradient = weft_dnn_place(&gradient, piece),
                                       .statistics = weft_dnn_place(&statistics, piece),
                                       .of_q = output_at(out.of_q, piece, 0),
                                       .of_k = output_at(out.of_k, piece, 0),
                                       .of_v = output_at(out.of_v, piece, out.v_column),
                                       .of_q_step = out.outputs[0].step,
                                       .of_k_step = out.of_k == NULL ? 0 : out.of_k->step,
                                       .of_v_step = out.of_v == NULL ? 0 : out.of_v->step,
                                       .of_k_row = row_of(out.of_k),
                                       .of_v_row = row_of(out.of_v),
                                       .adds = (t.call.numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_CONTINUES) != 0,
                                       .failed = failed };
        if (count == 0 || (g.adds && count < t.pieces) || !all_aligned(&g) || !weft_dnn_attend_backward(&g, queue)) {
            return false;
        }
        if (*failed != 0) {
            return true;
        }
    }
    return true;
}
