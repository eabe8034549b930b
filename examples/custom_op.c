/* Operations of the program's own: heat spreads over a plate, step by step.
 *
 *     custom_op [STEPS]        alone, or under mpirun with any number of processes
 *
 * The plate is a tensor [BLOCKS, ROWS, WIDTH], sharded by blocks of rows. A step needs the rows above and
 * below each block. Three operations, each with its rule:
 *
 *   edge   "b[m][w]->b[w]"              a row of each block, the first or the last one: no communication
 *   shift  "[b][w]->c[w]"               the same rows, each given to the next block: all blocks' edges are
 *                                       gathered, BLOCKS rows, not the plate
 *   heat   "b[m][w],b[w],b[w]->b[m][w]" the mean of the four neighbours: no communication
 *
 * The output is the same bit for bit on any number of ranks, because every rank computes its part in the
 * same way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

enum { BLOCKS = 8, ROWS = 16, WIDTH = 64 };

/* ---- kernels ------------------------------------------------------------------------------------------- */

/* numbers[0]: the row in each block. A block is one "row" of the view: row_elements is ROWS * WIDTH. */
static void edge_kernel(const weft_kernel_call *call)
{
    const weft_view *plate = &call->inputs[0];
    const int64_t width = plate->extent[2];
    for (int64_t block = 0; block < weft_view_rows(&call->output); block++) {
        const float *rows = weft_view_row(plate, block, NULL);
        memcpy(weft_view_row(&call->output, block, NULL), rows + call->numbers[0] * width,
               (size_t)width * sizeof(float));
    }
}

/* numbers[0]: 1 gives each block the row of the block above it, -1 of the block below. scalars[0]: the
 * temperature outside the plate. The view's row numbers are global. */
static void shift_kernel(const weft_kernel_call *call)
{
    const weft_view *rows = &call->inputs[0], *out = &call->output;
    const int64_t width = out->extent[1];
    for (int64_t i = 0; i < weft_view_rows(out); i++) {
        float *target = weft_view_row(out, i, NULL);
        int64_t from = out->offset[0] + i - call->numbers[0];
        if (from >= 0 && from < rows->shape[0]) {
            memcpy(target, weft_view_row(rows, from, NULL), (size_t)width * sizeof(float));
            continue;
        }
        for (int64_t w = 0; w < width; w++) {
            target[w] = (float)call->scalars[0];
        }
    }
}

/* One row from those above and below it; scalars[0]: the temperature outside the plate. */
static void heat_row(float *out, const float *up, const float *row, const float *down, int64_t width,
                     float outside)
{
    for (int64_t w = 0; w < width; w++) {
        float left = w > 0 ? row[w - 1] : outside, right = w + 1 < width ? row[w + 1] : outside;
        out[w] = 0.25f * (up[w] + down[w] + left + right);
    }
}

static void heat_kernel(const weft_kernel_call *call)
{
    const weft_view *plate = &call->inputs[0], *above = &call->inputs[1], *below = &call->inputs[2];
    const int64_t height = plate->extent[1], width = plate->extent[2];
    for (int64_t block = 0; block < weft_view_rows(&call->output); block++) {
        float *out = weft_view_row(&call->output, block, NULL);
        const float *in = weft_view_row(plate, block, NULL);
        for (int64_t m = 0; m < height; m++) {
            const float *up = m > 0 ? in + (m - 1) * width : weft_view_row(above, block, NULL);
            const float *down = m + 1 < height ? in + (m + 1) * width : weft_view_row(below, block, NULL);
            heat_row(out + m * width, up, in + m * width, down, width, (float)call->scalars[0]);
        }
    }
}

/* ---- the operations ------------------------------------------------------------------------------------ */

typedef struct operations {
    const weft_operation *edge, *shift, *heat;
} operations;

static operations register_operations(void)
{
    const unsigned f32 = WEFT_TYPE_BIT(WEFT_F32);
    operations all;
    all.edge = weft_operation_register(&(weft_operation_description){ .name = "edge",
                                                                      .rule = "b[m][w]->b[w]",
                                                                      .inputs = { { "plate", f32, false } },
                                                                      .kernel = edge_kernel });
    all.shift = weft_operation_register(&(weft_operation_description){ .name = "shift",
                                                                       .rule = "[b][w]->c[w]",
                                                                       .inputs = { { "rows", f32, false } },
                                                                       .kernel = shift_kernel });
    all.heat = weft_operation_register(&(weft_operation_description){
        .name = "heat",
        .rule = "b[m][w],b[w],b[w]->b[m][w]",
        .inputs = { { "plate", f32, false }, { "above", f32, false }, { "below", f32, false } },
        .kernel = heat_kernel });
    return all;
}

/* The row next to each block, of the block above it (`from` 1) or below it (-1). */
static weft_tensor *border(const operations *all, weft_tensor *plate, int64_t from, double outside)
{
    weft_tensor *edges =
        weft_apply(all->edge, 1, &plate,
                   &(weft_apply_options){ .num_numbers = 1, .numbers = { from > 0 ? ROWS - 1 : 0 } });
    return weft_apply(all->shift, 1, &edges,
                      &(weft_apply_options){ .num_numbers = 1,
                                             .numbers = { from },
                                             .num_scalars = 1,
                                             .scalars = { outside },
                                             .num_sizes = 1,
                                             .sizes = { BLOCKS } });
}

static weft_tensor *step(const operations *all, weft_tensor *plate, double outside)
{
    weft_tensor *inputs[] = { plate, border(all, plate, 1, outside), border(all, plate, -1, outside) };
    return weft_apply(all->heat, 3, inputs,
                      &(weft_apply_options){ .num_scalars = 1, .scalars = { outside } });
}

/* ---- the program --------------------------------------------------------------------------------------- */

/* A plate at 100 degrees in a room at 20. */
static weft_tensor *simulate(int steps)
{
    operations all = register_operations();
    weft_placement by_blocks = weft_shard(0);
    weft_tensor *plate = weft_full(WEFT_F32, 3, (int64_t[]){ BLOCKS, ROWS, WIDTH }, 100, NULL, &by_blocks);
    for (int i = 0; i < steps; i++) {
        weft_scope_open();
        weft_tensor *next = step(&all, plate, 20);
        if (next != NULL) {
            weft_scope_keep(next);
        }
        weft_scope_close();
        weft_tensor_release(plate); /* memory stays until tasks have read it */
        plate = next;
    }
    return plate;
}

int main(int argc, char *argv[])
{
    int steps = argc > 1 ? atoi(argv[1]) : 100;
    if (weft_init(NULL) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
        return 1;
    }
    weft_mesh_push(weft_mesh_create(1, (int64_t[]){ weft_world_size() }, NULL));
    static float values[BLOCKS * ROWS][WIDTH];
    weft_status status = weft_to_host(simulate(steps), values, sizeof(values));
    if (status == WEFT_OK && weft_process_index() == 0) {
        double sum = 0;
        for (int i = 0; i < BLOCKS * ROWS * WIDTH; i++) {
            sum += (double)values[i / WIDTH][i % WIDTH];
        }
        printf("after %d steps: %.9f degrees on average, %.6f at the corner\n", steps,
               sum / (BLOCKS * ROWS * WIDTH), (double)values[0][0]);
    }
    if (status != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
    }
    return weft_finalize() != WEFT_OK || status != WEFT_OK;
}
