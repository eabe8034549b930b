/* An MPI program with arrays of its own, as users have them: N numbers, N / p on each process and one more on the first
 * N % p. weft adds them up and doubles them in place. Prints one line, and ends with 1 if anything is wrong. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/mpi.h>
#include <weft/weft.h>

enum { N = 1001 };

static double sum_of(weft_tensor *array)
{
    double sum = 0;
    weft_tensor_item(weft_redistribute(weft_sum(array, 0, false), NULL, NULL), &sum);
    return sum;
}

static double doubled_sum(int process, int processes, double *before)
{
    int64_t rows = N / processes + (process < N % processes);
    int64_t first = (int64_t)process * (N / processes) + (process < N % processes ? process : N % processes);
    double *mine = malloc((size_t)(rows > 0 ? rows : 1) * sizeof(*mine));
    for (int64_t i = 0; i < rows; i++) {
        mine[i] = (double)(first + i);
    }
    const weft_subarray part = { .box = { .offset = { first }, .extent = { rows } }, .data = mine };
    weft_placement by_rows;
    weft_placements_parse("S0", 1, &by_rows);
    weft_tensor *all = weft_from_boxes(WEFT_F64, 1, (int64_t[]){ N }, 1, &part, NULL, &by_rows);
    *before = sum_of(all);
    weft_to_boxes(weft_add(all, all), 1, &part);
    weft_tensor_release(all);
    weft_wait();
    double here = 0, sum = 0;
    for (int64_t i = 0; i < rows; i++) {
        here += mine[i];
    }
    MPI_Allreduce(&here, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    free(mine);
    return sum;
}

int main(int argc, char **argv)
{
    int provided, process, processes;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    double before = 0, after = 0;
    if (weft_init_mpi(MPI_COMM_WORLD, NULL) == WEFT_OK) {
        weft_mesh_push(weft_mesh_create(1, (int64_t[]){ processes }, NULL));
        after = doubled_sum(process, processes, &before);
    }
    const double expected = (double)N * (N - 1) / 2;
    int wrong = weft_last_status() != WEFT_OK || before != expected || after != 2 * expected;
    if (wrong) {
        fprintf(stderr, "process %d: %g and %g, %s\n", process, before, after, weft_last_error());
    } else if (process == 0) {
        printf("%d processes: sum %.0f, doubled %.0f, weft %s\n", processes, before, after, weft_version());
    }
    weft_finalize();
    MPI_Finalize();
    return wrong;
}
