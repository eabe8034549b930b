/* Which kernels are a chain, where its values come from, and which of them are stored. */
#include "codelets/cuda/chain.h"

#include <string.h>

#include "codelets/elementwise.h"
#include "codelets/kernel.h"
#include "codelets/optimizers.h"

_Static_assert(WEFT_CHAIN_INPUTS == (int)WEFT_MAX_ELEMENTWISE_INPUTS, "all inputs of an elementwise kernel");

/* Bytes of memory. */
typedef struct range {
    const char *begin, *end;
} range;

/* An operand of an elementwise kernel. */
typedef struct operand {
    range bytes;
    char *at;
    weft_dtype type;
    const int64_t *stride;
} operand;

/* A chain while it is found. */
typedef struct finding {
    const weft_cuda_steps *steps;
    int first;
    weft_chain *chain;
    const weft_elementwise_args *box; /* all steps have these extents */
    bool unread[WEFT_CHAIN_STEPS];    /* by step: its output is written again */
} finding;

static bool overlap(range a, range b)
{
    return a.begin < b.end && b.begin < a.end;
}

static operand operand_of(const weft_task_run *run, int k)
{
    const weft_elementwise_args *args = run->arguments;
    operand own = { .at = run->operands[k], .type = args->types[k], .stride = args->stride[k] };
    int64_t size = (int64_t)weft_dtype_size(own.type), low = 0, high = 0;
    bool empty = false;
    for (int d = 0; d < args->ndim; d++) {
        int64_t span = (args->extent[d] - 1) * own.stride[d];
        *(span < 0 ? &low : &high) += span;
        empty = empty || args->extent[d] == 0;
    }
    own.bytes = (range){ own.at + low * size, empty ? own.at + low * size : own.at + (high + 1) * size };
    return own;
}

/* Whether each index of the box is the same element of both. */
static bool has_same_elements(const finding *f, const operand *a, const operand *b)
{
    bool same = a->at == b->at && a->type == b->type;
    for (int d = 0; d < f->box->ndim && same; d++) {
        same = f->box->extent[d] <= 1 || a->stride[d] == b->stride[d];
    }
    return same;
}

/* Whether writing an operand of the box `args` leaves none of these bytes as it was. A part of a row-major value has gaps in which
 * other elements of the same value lie. */
static bool covers(const weft_elementwise_args *args, const operand *own, range bytes)
{
    int64_t size = (int64_t)weft_dtype_size(own->type);
    for (int d = 0; d < args->ndim; d++) {
        size *= args->extent[d];
    }
    return own->bytes.end - own->bytes.begin == size && own->bytes.begin <= bytes.begin && bytes.end <= own->bytes.end;
}

static bool is_in_scratch(const weft_cuda_steps *steps, range bytes)
{
    return overlap(bytes, (range){ steps->scratch, steps->scratch + steps->scratch_bytes });
}

/* Number of a memory, which is added at its first use. -1: there are too many. */
static int add_memory(finding *f, const operand *own)
{
    weft_chain *chain = f->chain;
    const int ndim = f->box->ndim;
    size_t bytes = (size_t)ndim * sizeof(int64_t);
    for (int m = 0; m < chain->num_memories; m++) {
        if (chain->memories[m] == (void *)own->at && chain->types[m] == own->type && memcmp(chain->stride[m], own->stride, bytes) == 0) {
            return m;
        }
    }
    if (chain->num_memories == WEFT_CHAIN_MEMORIES) {
        return -1;
    }
    chain->memories[chain->num_memories] = own->at;
    chain->types[chain->num_memories] = (uint8_t)own->type;
    memcpy(chain->stride[chain->num_memories], own->stride, bytes);
    return chain->num_memories++;
}

static const weft_task_run *run_of(const finding *f, int step)
{
    return &f->steps->runs[f->first + step];
}

/* Where step `step` finds its input k. False: not in this chain. */
static bool find_input(finding *f, int step, int k)
{
    operand own = operand_of(run_of(f, step), 1 + k);
    int8_t *from = &f->chain->steps[step].inputs[k];
    for (int s = step - 1; s >= 0; s--) {
        operand written = operand_of(run_of(f, s), 0);
        if (overlap(own.bytes, written.bytes)) {
            *from = (int8_t)(-1 - s);
            return has_same_elements(f, &own, &written); /* else other threads compute elements of it */
        }
    }
    int memory = add_memory(f, &own);
    *from = (int8_t)memory;
    return memory >= 0;
}

/* Whether writing `own` leaves nothing of `written`, an earlier step's output. */
static bool writes_again(const finding *f, const operand *own, const operand *written)
{
    return has_same_elements(f, own, written) || (is_in_scratch(f->steps, written->bytes) && covers(f->box, own, written->bytes));
}

/* Whether step `step` may write while threads execute the steps before it: no other thread reads these bytes, or stores what the
 * step does not write again. */
static bool may_write(finding *f, int step)
{
    operand own = operand_of(run_of(f, step), 0);
    for (int s = 0; s <= step && step > 0; s++) {
        for (int k = 0; k < f->chain->steps[s].num_inputs; k++) {
            operand input = operand_of(run_of(f, s), 1 + k);
            if (f->chain->steps[s].inputs[k] >= 0 && overlap(own.bytes, input.bytes) && !has_same_elements(f, &own, &input)) {
                return false;
            }
        }
    }
    for (int s = 0; s < step; s++) {
        operand written = operand_of(run_of(f, s), 0);
        if (overlap(own.bytes, written.bytes) && !writes_again(f, &own, &written)) {
            return false;
        }
    }
    return true;
}

/* Step `step` belongs to the chain: what it writes again is not stored. */
static void note_written_again(finding *f, int step)
{
    operand own = operand_of(run_of(f, step), 0);
    for (int s = 0; s < step; s++) {
        f->unread[s] = f->unread[s] || overlap(own.bytes, operand_of(run_of(f, s), 0).bytes);
    }
}

static bool has_box_of(const finding *f, const weft_task_run *run)
{
    const weft_elementwise_args *args = run->arguments;
    return args->ndim == f->box->ndim && memcmp(args->extent, f->box->extent, (size_t)args->ndim * sizeof(int64_t)) == 0;
}

/* Adds the next kernel. False: it is not of this chain. */
static bool add_step(finding *f)
{
    int number = f->chain->num_steps;
    const weft_task_run *run = run_of(f, number);
    if (f->first + number == f->steps->count || !weft_kernel_is_elementwise(run->kernel) || !has_box_of(f, run)) {
        return false;
    }
    const weft_elementwise_args *args = run->arguments;
    weft_chain_step *step = &f->chain->steps[number];
    *step = (weft_chain_step){ .kernel = (uint16_t)run->kernel,
                               .num_inputs = (uint8_t)(run->num_operands - 1),
                               .arithmetic = (uint8_t)args->base.dtype,
                               .common = (uint8_t)args->common,
                               .converted = (uint8_t)args->converted };
    f->unread[number] = false;
    const int memories = f->chain->num_memories;
    bool fits = true;
    for (int k = 0; k < run->num_operands; k++) {
        step->types[k] = (uint8_t)args->types[k];
        fits = fits && (k == 0 || find_input(f, number, k - 1));
    }
    memcpy(f->chain->scalars[number], run->scalars, sizeof(run->scalars));
    fits = fits && may_write(f, number);
    if (fits) {
        note_written_again(f, number);
        f->chain->num_steps++;
    } else {
        f->chain->num_memories = memories;
    }
    return fits;
}

/* ---- values that are stored ------------------------------------------------------------------------------ */

/* Whether a part of the operands of a kernel on views lies in these bytes: no more than a panel has rows. */
static bool touches(const weft_task_run *run, range bytes)
{
    const weft_kernel_args *args = run->arguments;
    bool found = false;
    for (int i = 0; i < args->num_outputs + args->num_inputs && !found; i++) {
        weft_view view = weft_kernel_view(args, i);
        int64_t all = weft_view_rows(&view), rows = all < view.panel_rows ? all : view.panel_rows;
        for (int p = 0; p < args->operands[i].num_panels && !found; p++) {
            const char *at = run->operands[args->operands[i].first_panel + p];
            found = overlap(bytes, (range){ at, at + rows * view.row_elements * (int64_t)weft_dtype_size(view.dtype) });
        }
    }
    return found;
}

/* Whether a kernel from number `next` on reads these bytes before one has written all of them. */
static bool is_read(const weft_cuda_steps *steps, int next, range bytes)
{
    for (int n = next; n < steps->count; n++) {
        const weft_task_run *run = &steps->runs[n];
        if (weft_kernel_info_of(run->kernel)->form == WEFT_FORM_TASK ||
            (weft_kernel_info_of(run->kernel)->form == WEFT_FORM_VIEWS && touches(run, bytes))) {
            return true;
        }
        for (int k = 1; weft_kernel_is_elementwise(run->kernel) && k < run->num_operands; k++) {
            if (overlap(operand_of(run, k).bytes, bytes)) {
                return true;
            }
        }
        if (weft_kernel_is_elementwise(run->kernel)) {
            operand own = operand_of(run, 0);
            if (covers(run->arguments, &own, bytes)) {
                return false;
            }
        }
    }
    return false;
}

/* False: there are too many memories. */
static bool choose_stores(finding *f)
{
    weft_chain *chain = f->chain;
    bool done = true;
    for (int s = 0; s < chain->num_steps && done; s++) {
        operand own = operand_of(run_of(f, s), 0);
        bool stored = !f->unread[s] &&
                      (!is_in_scratch(f->steps, own.bytes) || is_read(f->steps, f->first + chain->num_steps, own.bytes));
        int memory = stored ? add_memory(f, &own) : -1;
        chain->steps[s].output = (int8_t)memory;
        done = !stored || memory >= 0;
    }
    return done;
}

/* ---- the box --------------------------------------------------------------------------------------------- */

/* Writes dimension d after the box's others: left out if its size is 1, merged with the last one if both are contiguous in
 * all memories. The strides are moved to their places. */
static void add_dimension(weft_chain *chain, int64_t extent, int d)
{
    int last = chain->ndim - 1;
    bool joins = last >= 0;
    for (int m = 0; m < chain->num_memories && joins; m++) {
        joins = chain->stride[m][last] == extent * chain->stride[m][d];
    }
    if (extent == 1) {
        return;
    }
    int place = joins ? last : chain->ndim++;
    chain->extent[place] = joins ? chain->extent[place] * extent : extent;
    for (int m = 0; m < chain->num_memories; m++) {
        chain->stride[m][place] = chain->stride[m][d];
    }
}

static bool find_up_to(finding *f, int most)
{
    f->chain->num_steps = f->chain->num_memories = f->chain->ndim = 0;
    while (f->chain->num_steps < most && add_step(f)) {
    }
    if (!choose_stores(f)) {
        return false;
    }
    f->chain->count = 1;
    for (int d = 0; d < f->box->ndim; d++) {
        f->chain->count *= f->box->extent[d];
        add_dimension(f->chain, f->box->extent[d], d);
    }
    return true;
}

void weft_chain_find(const weft_cuda_steps *steps, int first, weft_chain *chain)
{
    finding f = { .steps = steps, .first = first, .chain = chain, .box = steps->runs[first].arguments };
    int most = WEFT_CHAIN_STEPS;
    while (!find_up_to(&f, most)) { /* one step has no more than four memories */
        most = chain->num_steps - 1;
    }
}

/* ---- all kernels of a task ------------------------------------------------------------------------------- */

/* The elementwise kernels from number n on that differ in their tensors alone and write no scratch memory, if these are more than a chain
 * has; else 0. */
static int find_alike(const weft_cuda_steps *steps, int n, int in_chain, weft_alike *alike)
{
    const weft_task_run *run = &steps->runs[n];
    int last = n, most = n + WEFT_ALIKE_MOST < steps->count ? n + WEFT_ALIKE_MOST : steps->count;
    while (last < most && steps->runs[last].kernel == run->kernel && !is_in_scratch(steps, operand_of(&steps->runs[last], 0).bytes)) {
        last++;
    }
    int together = last - n > in_chain ? weft_alike_find(run, last - n, alike) : 0;
    return together > in_chain ? together : 0;
}

static bool any_in_scratch(const weft_cuda_steps *steps, int count, void *const memories[])
{
    bool any = false;
    for (int m = 0; m < count; m++) {
        const char *at = memories[m];
        any = any || is_in_scratch(steps, (range){ at, at + 1 });
    }
    return any;
}

bool weft_cuda_steps_use_scratch(const weft_cuda_steps *steps)
{
    bool use = false;
    for (int n = 0, next; n < steps->count && !use; n = next) {
        const weft_task_run *run = &steps->runs[n];
        next = n + 1;
        if (!weft_kernel_is_elementwise(run->kernel)) {
            use = any_in_scratch(steps, run->num_operands, run->operands);
            continue;
        }
        weft_chain chain;
        weft_alike alike;
        weft_chain_find(steps, n, &chain);
        const int together = find_alike(steps, n, chain.num_steps, &alike);
        next = n + (together > 0 ? together : chain.num_steps);
        use = together == 0 && any_in_scratch(steps, chain.num_memories, chain.memories);
        for (int i = 0; i < together; i++) {
            use = use || any_in_scratch(steps, alike.num_memories, alike.of[i].memories);
        }
    }
    return use;
}

static weft_cuda_run function_of(weft_kernel_id kernel)
{
    return kernel < WEFT_KERNEL_COUNT ? weft_cuda_kernels[kernel] : weft_cuda_views;
}

/* Launches the kernels from number n on that are one launch. Returns their number; *failed: a weft_cuda_run's result. */
static int launch_next(const weft_cuda_steps *steps, int n, weft_cuda_queue *queue, int *failed)
{
    const weft_task_run *run = &steps->runs[n];
    int together = 0;
    if (weft_kernel_is_step(run->kernel)) {
        *failed = weft_cuda_steps_together(run, steps->count - n, queue, &together);
    }
    if (!weft_kernel_is_elementwise(run->kernel)) {
        *failed = *failed != 0 || together > 0 ? *failed : function_of(run->kernel)(run, queue);
        return together > 0 ? together : 1;
    }
    weft_chain chain;
    weft_alike alike;
    weft_chain_find(steps, n, &chain);
    together = find_alike(steps, n, chain.num_steps, &alike);
    if (together > 0) {
        *failed = weft_alike_launch(&alike, queue);
    } else if (chain.num_steps > 1) {
        *failed = weft_chain_launch(&chain, queue);
    } else if (chain.steps[0].output >= 0) { /* a value that nothing reads may have no memory */
        *failed = function_of(run->kernel)(run, queue);
    }
    return together > 0 ? together : chain.num_steps;
}

int weft_cuda_launch_steps(const weft_cuda_steps *steps, weft_cuda_queue *queue, weft_device_error *found[])
{
    int failed = 0;
    for (int n = 0, next; n < steps->count && failed == 0; n = next) {
        queue->pending = NULL;
        next = n + launch_next(steps, n, queue, &failed);
        memset(&found[n], 0, (size_t)(next - n) * sizeof(found[0]));
        found[n] = queue->pending;
    }
    queue->pending = NULL;
    return failed;
}
