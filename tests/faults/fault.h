/* Faults in one process of a program, and their moments: the program announces moments, and the fault
 * happens there. fault.c replaces malloc() and its like, pthread_create() and MPI_Init_thread(), so that
 * they can fail. */
#ifndef WEFT_TESTS_FAULT_H
#define WEFT_TESTS_FAULT_H

#include <stdbool.h>

/* Moments of a program. NUMBER, an argument beside the moment, is for CALL and KERNEL the number of the
 * call, for IN_MPI whether MPI_Init_thread() has done its work (odd), for the others microseconds after
 * the beginning of the moment. BEFORE and AFTER happen at once. */
typedef enum fault_moment {
    BEFORE,    /* weft_init() */
    IN_MPI,    /* MPI_Init_thread() */
    IN_INIT,   /* weft_init() */
    AT_CALL,   /* of weft's functions, by the program */
    IN_KERNEL, /* of the program's own operation */
    IN_WAIT,
    IN_TO_HOST,
    IN_FINALIZE,
    AFTER, /* weft_finalize() */
    NUM_MOMENTS
} fault_moment;

/* The program's divergence at one call. */
typedef enum divergence {
    NO_DIVERGENCE,
    OTHER_OPERATION,
    OTHER_SHAPE,
    OTHER_TYPE,
    OTHER_ATTRIBUTE,
    MISSING_CALL,
    EXTRA_CALL,
    BAD_ARGUMENT,
    EARLY_RETURN
} divergence;

/* argv: PROCESS FAULT MOMENT NUMBER. Nothing happens in a process that has another number. */
void fault_read(char *argv[], int process);
/* The program comes to a moment. */
void fault_moment_begins(fault_moment moment);
/* Before each call of the program. */
divergence fault_turn(void);
/* In each call of the program's kernel, by a worker. */
void fault_kernel(void);

/* Writes one whole line at once, with the time: "process P TEXT at SECONDS". mpirun mixes the lines of
 * all. */
void say(int process, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
