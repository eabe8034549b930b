#include "view_cases.h"

part any_part(int min, int max, int64_t size)
{
    part p = { .ndim = min + (int)below(max - min + 1) };
    for (int d = 0; d < p.ndim; d++) {
        p.extent[d] = below(25) == 0 ? 0 : 1 + below(size);
        p.offset[d] = below(3) == 0 ? below(5) : 0;
        p.shape[d] = p.offset[d] + p.extent[d] + (below(3) == 0 ? below(5) : 0);
    }
    return p;
}

part part_with(part from, int dim, int64_t size)
{
    from.extent[dim] = from.shape[dim] = size;
    from.offset[dim] = 0;
    return from;
}

part part_without(part from, int dim)
{
    from.ndim--;
    for (int d = dim; d < from.ndim; d++) {
        from.extent[d] = from.extent[d + 1];
        from.shape[d] = from.shape[d + 1];
        from.offset[d] = from.offset[d + 1];
    }
    return from;
}

int64_t part_count(const part *of)
{
    int64_t count = 1;
    for (int d = 0; d < of->ndim; d++) {
        count *= of->extent[d];
    }
    return count;
}

void begin_case(view_case *c, weft_kernel_id kernel)
{
    memset(c, 0, sizeof(*c));
    c->kernel = kernel;
    c->args = (weft_kernel_args *)(void *)c->memory;
    c->args->first = below(2) == 0;
    c->args->last = below(2) == 0;
    for (int i = 0; i < WEFT_MAX_SCALARS; i++) {
        c->scalars[i] = (double)below(1000) / 512;
    }
    for (int i = 0; i < MAX_PANELS; i++) {
        c->host[i] = memory.host[0]; /* of an output without elements, too */
    }
    memory.calm = below(3) > 0;
}

part any_matrices(const part *batch, int dims, int64_t rows, int64_t columns)
{
    part p = { .ndim = dims + 2 };
    for (int d = 0; d < dims; d++) {
        int own = batch->ndim - dims + d;
        bool repeats = batch->shape[own] > 1 && below(4) == 0;
        p.shape[d] = repeats ? 1 : batch->shape[own];
        p.extent[d] = repeats ? 1 : batch->extent[own];
        p.offset[d] = repeats ? 0 : batch->offset[own];
    }
    p.shape[dims] = p.extent[dims] = rows;
    p.shape[dims + 1] = p.extent[dims + 1] = columns;
    return p;
}

/* Panels in memory k, one after the other with gaps. */
static void place_panels(view_case *c, int k, weft_kernel_operand *operand, int64_t row_elements, size_t size)
{
    size_t place = (size_t)below(3) * size;
    int64_t first = operand->offset[0] + operand->row_shift, last = first + operand->extent[0];
    for (int64_t row = operand->ndim == 0 ? last - 1 : first, end; row < last; row = end) {
        end = operand->ndim == 0 ? last : row - row % operand->panel_rows + operand->panel_rows;
        end = end < last ? end : last;
        assert_true(c->num_panels < MAX_PANELS);
        c->host[c->num_panels] = memory.host[k] + place;
        c->device[c->num_panels++] = (char *)memory.device[k] + place;
        operand->num_panels++;
        place += (size_t)((end - row) * row_elements + below(4)) * size;
        assert_true(place < memory.bytes);
    }
}

static int add_view(view_case *c, weft_dtype dtype, const part *of, bool whole)
{
    int k = c->args->num_outputs + c->args->num_inputs;
    assert_true(k < NUM_MEMORIES);
    weft_kernel_operand *operand = &c->args->operands[k];
    *operand = (weft_kernel_operand){ .dtype = dtype, .ndim = of->ndim, .first_panel = c->num_panels };
    int64_t row_elements = 1;
    for (int d = 0; d < of->ndim; d++) {
        operand->shape[d] = of->shape[d];
        operand->offset[d] = of->offset[d];
        operand->extent[d] = of->extent[d];
        row_elements *= d > 0 ? of->extent[d] : 1;
    }
    operand->panel_rows = whole ? 1 << 20 : c->panel_rows > 0 ? c->panel_rows : 1 + below(of->extent[0] + 3);
    if (part_count(of) > 0) {
        place_panels(c, k, operand, row_elements, weft_dtype_size(dtype));
    }
    fill_at_random(k, dtype);
    return k;
}

int add_output(view_case *c, weft_dtype dtype, const part *of, bool whole)
{
    assert_int_equal(c->args->num_inputs, 0);
    int k = add_view(c, dtype, of, whole);
    c->args->base.dtype = k == 0 ? dtype : c->args->base.dtype;
    c->args->num_outputs++;
    return k;
}

int add_input(view_case *c, weft_dtype dtype, const part *of, bool whole)
{
    int k = add_view(c, dtype, of, whole);
    c->args->num_inputs++;
    return k;
}

void send_again(int k)
{
    assert_int_equal(cudaMemcpyAsync(memory.device[k], memory.host[k], memory.bytes, cudaMemcpyHostToDevice, memory.stream),
                     cudaSuccess);
}

void run_call(view_case *c)
{
    weft_task_run run = { .kernel = c->kernel, .arguments = c->args, .num_operands = c->num_panels };
    memcpy(run.scalars, c->scalars, sizeof(run.scalars));
    run_on_both(&run, c->host, c->device);
}

void run_case_near(view_case *c, double share)
{
    run_call(c);
    for (int o = 0; o < c->args->num_outputs; o++) {
        compare_near(weft_kernel_infos[c->kernel].name, o, c->args->operands[o].dtype, share);
    }
}

void run_case(view_case *c)
{
    run_call(c);
    for (int o = 0; o < c->args->num_outputs; o++) {
        compare(weft_kernel_infos[c->kernel].name, o, c->args->operands[o].dtype, 0);
    }
}
