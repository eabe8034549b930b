/* Around a test's main(), in each of several processes that mpirun has started, on devices: linked with
 * -Wl,--wrap=weft_finalize,--wrap=main. Before each world ends its processes compare, in pairs, the order in which they
 * have begun the groups with each other. WEFT_TEST_FILTER: the names of the tests to run, with *. WEFT_TEST_DEVICES: digits,
 * WEFT_DEVICES of each process. At the end the program fails unless it had groups, or, with WEFT_NCCL=0, had
 * none; and unless transfers lay in device memory where NCCL or MPI (WEFT_MPI_DEVICES=1) take them there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "stand_in.h"

int __real_main(int argc, char **argv);
int __wrap_main(int argc, char **argv);
weft_status __real_weft_finalize(void);
weft_status __wrap_weft_finalize(void);

enum { MAX_PROCESSES = 16 };

static int differences;
static uint64_t on_devices; /* transfers */

/* All processes. */
static void compare_orders(weft_comm *comm)
{
    uint64_t mine[MAX_PROCESSES][2] = { { 0 } }, theirs[MAX_PROCESSES][2];
    int processes = 0, process = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &processes);
    MPI_Comm_rank(MPI_COMM_WORLD, &process);
    for (int p = 0; p < processes; p++) {
        mine[p][0] = weft_comm_group_order(comm, p, &mine[p][1]);
    }
    MPI_Alltoall(mine, 2, MPI_UINT64_T, theirs, 2, MPI_UINT64_T, MPI_COMM_WORLD);
    for (int p = 0; p < processes; p++) {
        if (memcmp(mine[p], theirs[p], sizeof(mine[p])) != 0) {
            fprintf(stderr, "processes %d and %d have begun their groups in different orders (%llu and %llu)\n", process, p,
                    (unsigned long long)mine[p][1], (unsigned long long)theirs[p][1]);
            differences++;
        }
    }
}

weft_status __wrap_weft_finalize(void)
{
    int processes = 0;
    if (weft_runtime.initialized && weft_runtime.comm != NULL && !weft_is_broken() && weft_runtime.num_processes > 1) {
        MPI_Comm_size(MPI_COMM_WORLD, &processes);
        if (processes == weft_runtime.num_processes && weft_wait() == WEFT_OK) {
            compare_orders(weft_runtime.comm);
            on_devices += weft_comm_on_devices(weft_runtime.comm);
        }
    }
    return __real_weft_finalize();
}

static stand_in_nccl_counts nccl_counts(void)
{
    stand_in_nccl_counts none = { 0 };
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    void *found = library == NULL ? NULL : dlsym(library, "stand_in_nccl_counted");
    stand_in_nccl_counts (*counted)(void);
    memcpy(&counted, &found, sizeof(counted));
    return found == NULL ? none : counted();
}

static void choose_devices(void)
{
    const char *all = getenv("WEFT_TEST_DEVICES"), *process = getenv("OMPI_COMM_WORLD_RANK");
    if (all != NULL && process != NULL && (size_t)atoi(process) < strlen(all)) {
        setenv("WEFT_DEVICES", (char[]){ all[atoi(process)], '\0' }, 1);
    }
}

int __wrap_main(int argc, char **argv)
{
    choose_devices();
    const char *setting = getenv("WEFT_NCCL");
    bool expected = setting != NULL && strcmp(setting, "1") == 0;
    dlopen("libnccl.so.2", RTLD_NOW); /* so that its counts outlive the world */
    const char *filter = getenv("WEFT_TEST_FILTER");
    if (filter != NULL) {
        cmocka_set_test_filter(filter);
    }
    int failed = __real_main(argc, argv);
    stand_in_nccl_counts counts = nccl_counts();
    if ((counts.groups > 0) != expected || counts.mismatches > 0) {
        fprintf(stderr, "%lld groups of messages, %lld messages that met others\n", (long long)counts.groups,
                (long long)counts.mismatches);
        failed++;
    }
    setting = getenv("WEFT_MPI_DEVICES");
    if ((on_devices > 0) != (expected || (setting != NULL && strcmp(setting, "1") == 0))) {
        fprintf(stderr, "%llu transfers between devices\n", (unsigned long long)on_devices);
        failed++;
    }
    if (getenv("STAND_IN_TELL") != NULL) {
        fprintf(stderr, "%lld communicators, %lld groups, %lld messages, %lld bytes\n", (long long)counts.communicators,
                (long long)counts.groups, (long long)counts.messages, (long long)counts.bytes);
    }
    return failed + differences;
}
