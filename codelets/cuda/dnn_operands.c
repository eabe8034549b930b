#include "codelets/cuda/dnn_operands.h"

#include <string.h>

enum { LEAST_SCORES = 1 << 16, MOST_COLUMNS = 256, MOST_HEADS = 65535, MOST_ROWS = 1 << 30, ALIGNMENT = 16 };

/* ---- memory -------------------------------------------------------------------------------------------- */

static int64_t first_place(const weft_device_view *view)
{
    return view->ndim == 0 ? 0 : view->offset[0] + view->row_shift;
}

static void *address_of(const weft_dnn_operand *of, int64_t row)
{
    const weft_device_view *view = of->view;
    int64_t first = first_place(view), panel = (first + row) / view->panel_rows - first / view->panel_rows;
    int64_t begin = panel == 0 ? 0 : (first / view->panel_rows + panel) * view->panel_rows - first;
    return (char *)of->panels[view->first_panel + panel] +
           (size_t)((row - begin) * view->row_elements) * weft_dtype_size(view->dtype);
}

/* Rows that follow each other in memory from `row` on. */
static int64_t rows_together(const weft_device_view *view, int64_t row)
{
    int64_t place = first_place(view) + row, last = first_place(view) + view->extent[0];
    int64_t end = (place / view->panel_rows + 1) * view->panel_rows;
    return (end < last ? end : last) - place;
}

/* How many of the result's batch dimensions come before the first one along which an operand repeats one matrix. -1: a later
 * dimension is one along which it does not, or the operand has another part of the batch. `dims`: dimensions after the batch's. */
static int leading_dims(const weft_device_view *view, const weft_device_view *result, int dims)
{
    int batch = result->ndim - 2, missing = batch - (view->ndim - dims), leading = batch;
    if (missing < 0) {
        return -1;
    }
    for (int d = 0; d < batch; d++) {
        int own = d - missing;
        bool repeats = own < 0 || (view->shape[own] == 1 && result->shape[d] != 1);
        if (result->extent[d] == 1) {
            continue;
        }
        if (!repeats && (leading < batch || view->extent[own] != result->extent[d] || view->offset[own] != result->offset[d])) {
            return -1;
        }
        leading = repeats && leading == batch ? d : leading;
    }
    return leading;
}

static int64_t step_of(const weft_device_view *view, int dims)
{
    int batch = view->ndim - dims; /* number of dimensions */
    for (int d = 0; d + 1 < view->ndim; d++) {
        if (d != batch - 1 && view->strides[d] != view->extent[d + 1] * view->strides[d + 1]) {
            return 0;
        }
    }
    return batch > 0 ? view->strides[batch - 1] : view->extent[0] * view->strides[0];
}

weft_dnn_operand weft_dnn_operand_of(const weft_dnn_task *task, int number, int dims)
{
    const weft_device_view *view = &task->call.views[number], *result = &task->call.views[0];
    weft_dnn_operand of = { view, task->run->operands, false, view->ndim < dims ? 0 : step_of(view, dims) };
    of.moves = view->ndim > dims && view->ndim - dims == result->ndim - 2 && !(view->shape[0] == 1 && result->shape[0] != 1);
    return of;
}

bool weft_dnn_is_whole(const weft_dnn_task *task, const weft_dnn_operand *operand, int dims)
{
    const weft_device_view *result = &task->call.views[0];
    return operand->step > 0 && leading_dims(operand->view, result, dims) == result->ndim - 2;
}

/* ---- tasks --------------------------------------------------------------------------------------------- */

static bool is_narrow(weft_dtype type)
{
    return type == WEFT_BF16 || type == WEFT_F16;
}

static bool fits(int64_t columns)
{
    return columns > 0 && columns % 8 == 0 && columns <= MOST_COLUMNS;
}

/* Rows and keys that count. */
static int64_t rows_of(const weft_device_call *call, const weft_dnn_operand *of, int number)
{
    bool counts = (call->numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_COUNTS) != 0;
    return counts ? call->numbers[number] : of->view->extent[of->view->ndim - 2];
}

static bool find_batch(weft_dnn_task *t)
{
    const weft_device_view *result = &t->call.views[0];
    int batch = result->ndim - 2;
    t->leading = leading_dims(t->k.view, result, 2);
    if (!weft_dnn_is_whole(t, &t->q, 2) || t->k.step == 0 || t->v.step == 0 || t->leading < 0 ||
        leading_dims(t->v.view, result, 2) != t->leading) {
        return false;
    }
    t->inner_groups = t->inner_shared = 1;
    for (int d = 1; d < batch; d++) {
        *(d < t->leading ? &t->inner_groups : &t->inner_shared) *= result->extent[d];
    }
    t->pieces = batch == 0 ? 1 : result->extent[0];
    return true;
}

static void find_sizes(weft_dnn_task *t)
{
    const weft_device_view *q = t->q.view, *k = t->k.view, *v = t->v.view;
    t->shift = t->call.numbers[WEFT_ATTENTION_CAUSAL] == 0 ? 0 : q->offset[q->ndim - 2] - k->offset[k->ndim - 2];
    t->sizes.type = q->dtype;
    t->sizes.rows = rows_of(&t->call, &t->q, WEFT_ATTENTION_ROWS);
    t->sizes.keys = rows_of(&t->call, &t->k, WEFT_ATTENTION_KEYS);
    t->sizes.depth = q->extent[q->ndim - 1];
    t->sizes.width = v->extent[v->ndim - 1];
    t->sizes.causal = t->call.numbers[WEFT_ATTENTION_CAUSAL] != 0;
    t->sizes.shifted = t->shift != 0;
    t->sizes.q_step = t->q.step;
    t->sizes.k_step = t->k.step;
    t->sizes.v_step = t->v.step;
}

bool weft_dnn_task_begin(weft_dnn_task *t, const weft_task_run *run, int first)
{
    memset(t, 0, sizeof(*t));
    t->run = run;
    weft_device_call_fill(&t->call, run);
    const int q = t->call.num_outputs + first;
    t->q = weft_dnn_operand_of(t, q, 2);
    t->k = weft_dnn_operand_of(t, q + 1, 2);
    t->v = weft_dnn_operand_of(t, q + 2, 2);
    const weft_dtype type = t->q.view->dtype;
    if (!is_narrow(type) || t->k.view->dtype != type || t->v.view->dtype != type || !find_batch(t) ||
        (t->call.numbers[WEFT_ATTENTION_PARTS] & WEFT_ATTENTION_HAS_MASK) != 0) {
        return false;
    }
    find_sizes(t);
    const weft_dnn_sizes *s = &t->sizes;
    return fits(s->depth) && fits(s->width) && t->shift >= 0 && t->shift <= MOST_ROWS && s->rows > 0 && s->keys > 0 &&
           s->rows <= MOST_ROWS && s->keys <= MOST_ROWS &&
           (double)s->rows * (double)s->keys * (double)(t->pieces * t->inner_groups * t->inner_shared) >= LEAST_SCORES;
}

/* ---- pieces -------------------------------------------------------------------------------------------- */

/* Indices of the first dimension that lie in one panel of this operand too, from `piece` on; 0: a matrix does not. */
static int64_t limit(const weft_dnn_operand *of, int64_t piece, int64_t count)
{
    int64_t together = rows_together(of->view, of->moves ? piece : 0);
    if (!of->moves) {
        return together < of->view->extent[0] ? 0 : count;
    }
    return together < count ? together : count;
}

int64_t weft_dnn_piece(weft_dnn_task *task, int count, const weft_dnn_operand *const operands[], int64_t piece)
{
    const weft_dnn_operand *const inputs[] = { &task->q, &task->k, &task->v };
    int64_t together = task->pieces - piece;
    for (int i = 0; i < count + 3; i++) {
        together = limit(i < 3 ? inputs[i] : operands[i - 3], piece, together);
    }
    task->sizes.groups = task->inner_groups * (task->leading > 0 ? together : 1);
    task->sizes.shared = task->inner_shared * (task->leading > 0 ? 1 : together);
    return task->sizes.groups * task->sizes.shared > MOST_HEADS ? 0 : together;
}

void *weft_dnn_place(const weft_dnn_operand *of, int64_t piece)
{
    return address_of(of, of->moves ? piece : 0);
}

bool weft_dnn_is_aligned(const void *address)
{
    return (uintptr_t)address % ALIGNMENT == 0;
}
