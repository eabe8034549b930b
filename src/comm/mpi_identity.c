#include "comm/mpi_identity.h"

#include <stdio.h>
#include <string.h>

#include "runtime/runtime.h"

/* MPI_MAX_LIBRARY_VERSION_STRING is 256 for one MPI and 8192 for another one: whose library answers is the question. */
enum { LONGEST_VERSION = 1 << 14 };

#define TEXT_OF(number) #number
#define NUMBER(number) TEXT_OF(number)

#if defined(OPEN_MPI)
static const char compiled_for[] = "Open MPI " NUMBER(OMPI_MAJOR_VERSION) "." NUMBER(OMPI_MINOR_VERSION) "." NUMBER(
    OMPI_RELEASE_VERSION);
#elif defined(I_MPI_VERSION)
static const char compiled_for[] = "Intel MPI " I_MPI_VERSION;
#elif defined(MVAPICH_VERSION)
static const char compiled_for[] = "MVAPICH " MVAPICH_VERSION;
#elif defined(MVAPICH2_VERSION)
static const char compiled_for[] = "MVAPICH2 " MVAPICH2_VERSION;
#elif defined(MPICH_VERSION)
static const char compiled_for[] = "MPICH " MPICH_VERSION;
#else
static const char compiled_for[] = "an MPI without a name";
#endif

const char *weft_mpi_compiled_for(void)
{
    return compiled_for;
}

/* The first line, up to a comma. */
void weft_mpi_running(char *text, size_t size)
{
    char version[LONGEST_VERSION] = "";
    int length = 0;
    if (MPI_Get_library_version(version, &length) != MPI_SUCCESS) {
        version[0] = '\0';
    }
    version[strcspn(version, ",\n")] = '\0';
    for (char *tab = version; (tab = strchr(tab, '\t')) != NULL;) {
        *tab = ' ';
    }
    snprintf(text, size, "%s", version);
}

/* By what a library says of itself; "" where it is not one of these. */
static const char *interface_of(const char *running)
{
    static const char *const names[][2] = {
        { "Open MPI", "Open MPI" }, { "Spectrum MPI", "Open MPI" }, { "MPICH", "MPICH" },
        { "Intel(R) MPI", "MPICH" }, { "MVAPICH", "MPICH" },
    };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(names); i++) {
        if (strstr(running, names[i][0]) != NULL) {
            return names[i][1];
        }
    }
    return "";
}

/* An interface without a name may be any. That of the standard is any library's that has it. */
static bool differs(const char *interface)
{
    return interface[0] != '\0' && WEFT_MPI_INTERFACE[0] != '\0' && strcmp(interface, WEFT_MPI_INTERFACE) != 0;
}

#define REMEDY "compile the program by the mpicc of weft's MPI, or weft with -Dmpi_compiler=MPICC of the program's"

weft_status weft_mpi_check_running(const char *function)
{
#if defined(MPI_ABI_VERSION)
    (void)function;
    return WEFT_OK;
#else
    char running[128];
    weft_mpi_running(running, sizeof(running));
    if (!differs(interface_of(running))) {
        return WEFT_OK;
    }
    return weft_fail(WEFT_ERR_UNSUPPORTED, function, "this process runs %s, but weft is compiled for %s: " REMEDY, running,
                     compiled_for);
#endif
}

weft_status weft_mpi_check_program(const char *function, const weft_communicator *communicator)
{
    static const char filled_in[] = "weft_init_communicator";
    if (communicator == NULL) {
        return weft_fail(WEFT_ERR_INVALID, filled_in, "communicator is NULL");
    }
    if (communicator->size != sizeof(*communicator)) {
        return weft_fail(WEFT_ERR_INVALID, filled_in, "communicator->size is %zu, expected %zu", communicator->size,
                         sizeof(*communicator));
    }
    if (communicator->handle == NULL || communicator->interface == NULL) {
        return weft_fail(WEFT_ERR_INVALID, filled_in, "communicator->%s is NULL",
                         communicator->handle == NULL ? "handle" : "interface");
    }
    if (differs(communicator->interface)) {
        return weft_fail(WEFT_ERR_UNSUPPORTED, function,
                         "the program is compiled for an MPI with the interface of %s, but weft for %s: " REMEDY,
                         communicator->interface, compiled_for);
    }
    if (communicator->handle_size != sizeof(MPI_Comm)) {
        return weft_fail(WEFT_ERR_UNSUPPORTED, function,
                         "the program's MPI_Comm has %zu bytes, that of weft's MPI (%s) has %zu: " REMEDY,
                         communicator->handle_size, compiled_for, sizeof(MPI_Comm));
    }
    return WEFT_OK;
}
