/* An operation of one's own: heat spreads over a plate, step by step.
 *
 *     custom_op [STEPS]        alone, or under mpirun with any number of processes
 *
 * The plate is a tensor [HEIGHT, WIDTH], of whose rows each rank has some. A step takes the mean of the four neighbours:
 *
 *   heat   "h~w~->hw,h"   "~": the kernel reads a place's neighbours as well, one on each side. The ranks give each
 *                         other their border rows. Two outputs: the plate after the step, and the largest change of
 *                         each row. Were the plate sharded by columns, the changes would be Partial(max).
 *
 * Each element is computed in the same way however many ranks there are, so the output is the same, bit for bit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

enum { HEIGHT = 128, WIDTH = 64 };

/* The temperature at a global place; scalars[0]: outside. */
static float at(const weft_kernel_call *call, int64_t h, int64_t w)
{
    const weft_view *plate = &call->inputs[0];
    if (h < 0 || h >= plate->shape[0] || w < 0 || w >= plate->shape[1]) {
        return (float)call->scalars[0];
    }
    const float *row = weft_view_row(plate, h - plate->offset[0], NULL);
    return row[w - plate->offset[1]];
}

static void heat_kernel(const weft_kernel_call *call)
{
    const weft_view *next = &call->outputs[0], *change = &call->outputs[1];
    for (int64_t i = 0; i < weft_view_rows(change); i++) {
        float *row = weft_view_row(next, i, NULL), *largest = weft_view_row(change, i, NULL);
        *largest = 0;
        for (int64_t j = 0; j < next->extent[1]; j++) {
            int64_t h = next->offset[0] + i, w = next->offset[1] + j;
            row[j] = 0.25f * (at(call, h - 1, w) + at(call, h + 1, w) + at(call, h, w - 1) + at(call, h, w + 1));
            *largest = fmaxf(*largest, fabsf(row[j] - at(call, h, w)));
        }
    }
}

static const weft_operation *register_heat(void)
{
    return weft_operation_register(&(weft_operation_description){
        .name = "heat",
        .rule = "h~w~->hw,h",
        .inputs = { { "plate", WEFT_TYPE_BIT(WEFT_F32), false } },
        .halos = { { .letter = 'h', .before = 1, .after = 1 }, { .letter = 'w', .before = 1, .after = 1 } },
        .outputs[1].linear.contracts = WEFT_MAX,
        .kernel = heat_kernel });
}

/* A plate at 100 degrees in a room at 20, after some steps; *change: the largest of the last step. Both belong to the
 * caller's scope. */
static weft_tensor *simulate(int steps, weft_tensor **change)
{
    const weft_operation *heat = register_heat();
    const weft_apply_options options = { .num_scalars = 1, .scalars = { 20 } };
    weft_placement by_rows = weft_shard(0);
    weft_tensor *plate = weft_full(WEFT_F32, 100, 2, (int64_t[]){ HEIGHT, WIDTH }, NULL, &by_rows);
    for (int i = 0; i < steps; i++) {
        weft_tensor *outputs[2];
        weft_apply_all(heat, 1, &plate, &options, 2, outputs);
        weft_tensor_release(plate); /* tasks that still read it keep its memory */
        weft_tensor_release(*change);
        plate = outputs[0];
        *change = outputs[1];
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
    weft_tensor *change = weft_zeros(WEFT_F32, 1, (int64_t[]){ 1 }, NULL, NULL);
    weft_tensor *plate = simulate(steps, &change);
    double average = 0, largest = 0;
    weft_tensor_item(weft_mean(plate, WEFT_ALL_DIMS, false), &average);
    weft_tensor_item(weft_max(change, WEFT_ALL_DIMS, false), &largest);
    weft_status status = weft_last_status();
    if (status != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
    } else if (weft_process_index() == 0) {
        printf("after %d steps: %.3f degrees on average, the last one changed %.6f at most\n", steps, average, largest);
    }
    return weft_finalize() != WEFT_OK || status != WEFT_OK;
}
