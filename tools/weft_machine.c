/* weft-machine: prints weft's figures of this machine. */
#include <stdio.h>
#include <string.h>

#include <weft/build.h>
#include <weft/weft.h>

#if WEFT_HAVE_MPI
#include "comm/mpi_identity.h"
#endif
#include "machine/model.h"
#include "runtime/cuda.h"
#include "runtime/runtime.h"

static const char usage[] =
    "usage: weft-machine [--figures]\n"
    "Prints the measured figures of this machine, and the same rounded to powers of two, as panel heights, plans\n"
    "and messages use them; and the CUDA devices that are used (WEFT_DEVICES). Under mpirun, with one process on each of some machines or several on one, it\n"
    "measures the links as well. WEFT_CALIBRATE=again measures all anew; docs/machine.md says where the figures\n"
    "are kept.\n"
    "--figures: as a file that weft-predict reads, with the rates of kernels that follow from them, to be changed.\n";

/* The MPI that weft is built with, and what the library that is there says of itself. */
static void print_mpi(FILE *file)
{
#if WEFT_HAVE_MPI
    char running[128];
    weft_mpi_running(running, sizeof(running));
    fprintf(file, "MPI: %s, running %s\n", weft_mpi_compiled_for(), running);
#else
    fprintf(file, "MPI: none (built without)\n");
#endif
}

int main(int argc, char **argv)
{
    bool figures = argc == 2 && strcmp(argv[1], "--figures") == 0;
    if (argc > 1 && !figures) {
        bool asked = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
        fputs(usage, asked ? stdout : stderr);
        return asked ? 0 : 2;
    }
    if (weft_init(NULL) == WEFT_OK) {
        if (weft_process_index() == 0) {
            weft_machine_model model = weft_machine_model_of(&weft_runtime.machine);
            if (!figures) {
                weft_print_machine(stdout);
                print_mpi(stdout);
                printf("built with:\n%s", weft_build_info());
                weft_cuda_print(stdout);
            } else if (!weft_machine_model_write(&model, stdout)) {
                fprintf(stderr, "weft-machine: the figures cannot be written\n");
            }
        }
        weft_finalize();
    }
    if (weft_last_status() != WEFT_OK) {
        fprintf(stderr, "weft-machine: %s\n", weft_last_error());
        return 1;
    }
    return 0;
}
