#include "comm/launcher.h"

#include <stdlib.h>

#include "base/base.h"

bool weft_launched_for_mpi(void)
{
    static const char *const variables[] = {
        "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE"
    };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(variables); i++) {
        if (getenv(variables[i]) != NULL) {
            return true;
        }
    }
    return false;
}

#if WEFT_HAVE_MPI
static const char remedy[] = "start it with the mpirun, or by the PMI, of the MPI that weft is built with";
#else
static const char remedy[] = "this weft is built without MPI";
#endif

void weft_launcher_warn(FILE *file)
{
    static const char *const numbers[] = {
        "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",           "MV2_COMM_WORLD_SIZE",  "MPI_LOCALNRANKS",
        "FLUX_JOB_SIZE",        "JSM_NAMESPACE_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
    };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(numbers); i++) {
        const char *text = getenv(numbers[i]);
        char *end = NULL;
        long processes = text == NULL ? 0 : strtol(text, &end, 10);
        if (processes > 1 && *end == '\0') {
            fprintf(file,
                    "weft: %s is %ld, but this process is a world of its own and computes everything alone: "
                    "%s. Set WEFT_WORLD=self if that is meant (WEFT_SILENT=1: no warnings)\n",
                    numbers[i], processes, remedy);
            return;
        }
    }
}
