/* A program of several processes, one of which loses its device: run by test_device_lost.c.
 *
 * usage: lost_program WHO WAY AFTER, each process with a device: on process WHO a kernel
 *   WAY     illegal  uses a null pointer
 *           killed   ends the devices
 * and so many calls follow (AFTER). Then all wait for their results.
 *
 * Each process prints, in one line each, "process P has begun", and "process P ends: STATUS MESSAGE" if it gets that far. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

#include "own_kernels.h"

static void say(const char *what, const char *message)
{
    printf("process %d %s%s\n", weft_process_index(), what, message);
    fflush(stdout);
}

static weft_status run(weft_cuda_kernel cuda, int after)
{
    weft_operation_description d;
    weft_operation_description_init(&d);
    d.name = "loses";
    d.rule = "A->A";
    d.inputs[0] = (weft_operation_input){ .name = "a", .types = WEFT_TYPE_BIT(WEFT_F32) };
    d.kernel = own_affine;
    d.cuda = cuda;
    const weft_operation *operation = weft_operation_register(&d);
    weft_apply_options options;
    weft_apply_options_init(&options);
    options.num_scalars = 2;
    weft_placement by_rows = weft_shard(0), by_columns = weft_shard(1);
    int64_t ranks = weft_world_size();
    weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
    weft_tensor *a = weft_ones(WEFT_F32, 2, (int64_t[]){ 64, 64 }, NULL, &by_rows);
    weft_wait();
    say("has begun", "");
    a = weft_apply(operation, 1, &a, &options);
    for (int i = 0; i < after && a != NULL; i++) {
        a = weft_add(a, a);
        weft_ones(WEFT_F32, 2, (int64_t[]){ 64, 64 }, NULL, &by_rows);
    }
    a = a == NULL ? NULL : weft_redistribute(a, NULL, &by_columns);
    weft_status status = weft_wait();
    return status != WEFT_OK ? status : weft_last_status();
}

int main(int argc, char *argv[])
{
    if (argc != 4 || weft_init(NULL) != WEFT_OK) {
        return 2;
    }
    weft_cuda_kernel loses = strcmp(argv[2], "killed") == 0 ? own_killing_cuda : own_illegal_cuda;
    weft_status status = run(weft_process_index() == atoi(argv[1]) ? loses : own_affine_cuda, atoi(argv[3]));
    say("ends: ", weft_last_error());
    weft_finalize();
    return status == WEFT_OK ? 0 : 3;
}
