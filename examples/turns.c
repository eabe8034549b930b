#include "turns.h"

#include <stdio.h>

#include <mpi.h>

#include <weft/mpi.h>
#include <weft/weft.h>

bool turns_all(bool good)
{
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_C_BOOL, MPI_LAND, MPI_COMM_WORLD);
    return good;
}

/* ---- turns ----------------------------------------------------------------------------------------------- */

/* Seconds of the slowest process. */
static double seconds_of(void (*take)(void *context, bool by_weft), void *context, bool by_weft)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime();
    take(context, by_weft);
    seconds = MPI_Wtime() - seconds;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return seconds;
}

turns_seconds turns_measure(int64_t turns, void *context, void (*start)(void *context, bool by_weft),
                            void (*take)(void *context, bool by_weft))
{
    double fastest[2] = { 0, 0 };
    for (int64_t turn = 0; turn < 2 * turns; turn++) {
        const bool by_weft = turn % 2 != 0;
        start(context, by_weft);
        double seconds = seconds_of(take, context, by_weft);
        fastest[by_weft] = turn < 2 || seconds < fastest[by_weft] ? seconds : fastest[by_weft];
    }
    return (turns_seconds){ fastest[0], fastest[1] };
}

static double milliseconds(const turns_report *r, double seconds)
{
    return 1e3 * seconds / (double)r->steps;
}

void turns_print(const turns_report *r, const char *processes)
{
    for (int d = 0; d < r->ndim; d++) {
        printf(d == 0 ? "%lld" : " x %lld", (long long)r->size[d]);
    }
    printf(" points%s: %.3f ms per %s with MPI, %.3f with weft: %.2f times; ", processes, milliseconds(r, r->seconds.plain), r->step,
           milliseconds(r, r->seconds.weft), r->seconds.weft / r->seconds.plain);
}

void turns_print_json(const turns_program *program, const turns_report *r)
{
    printf("{\"example\": \"%s\", \"size\": [", program->name);
    for (int d = 0; d < r->ndim; d++) {
        printf(d == 0 ? "%lld" : ", %lld", (long long)r->size[d]);
    }
    printf("], \"processes\": %d, \"%ss\": %lld, \"mpi_ms\": %.4f, \"weft_ms\": %.4f, \"ratio\": %.3f", weft_num_processes(), r->step,
           (long long)r->steps, milliseconds(r, r->seconds.plain), milliseconds(r, r->seconds.weft),
           r->seconds.weft / r->seconds.plain);
}

/* ---- the program ----------------------------------------------------------------------------------------- */

bool turns_end(const turns_program *program, bool good)
{
    good = good && weft_last_status() == WEFT_OK;
    if (weft_last_status() != WEFT_OK) {
        fprintf(stderr, "%s: %s\n", program->name, weft_last_error());
    }
    return weft_finalize() == WEFT_OK && good;
}

int turns_main(const turns_program *program, int argc, char *argv[])
{
    int provided, code = arguments_read(program->num_arguments, program->arguments, program->introduction, argc, argv);
    if (code >= 0) {
        return code;
    }
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    const weft_config config = { .local_ranks = 1, .workers = program->workers };
    if (weft_init_mpi(MPI_COMM_WORLD, &config) != WEFT_OK) {
        fprintf(stderr, "%s: %s\n", program->name, weft_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (weft_local_ranks() != 1) {
        fprintf(stderr, "%s: a process has one %s, and so one rank: unset WEFT_RANKS and WEFT_LOCAL_RANKS\n", program->name,
                program->part);
        weft_finalize();
        MPI_Finalize();
        return 2;
    }
    bool good = program->run();
    MPI_Finalize();
    return good ? 0 : 1;
}
