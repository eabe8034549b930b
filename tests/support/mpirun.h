/* The launcher of the MPI that this build uses, with the options that tests need, and what it tells its processes. */
#ifndef WEFT_TESTS_MPIRUN_H
#define WEFT_TESTS_MPIRUN_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpirun_config.h" /* of tests/meson.build */

enum { MPIRUN_MAX_WORDS = 12 };

/* Writes the launcher and its options, up to the program, and returns how many words that are, at most MPIRUN_MAX_WORDS.
 * `count`: the number of processes as text. `recovers`: it leaves the others alone when one is killed. */
static inline int mpirun_words(const char *words[], const char *count, int recovers)
{
    static const char *const all[] = { MPIRUN_WORDS NULL }, *const quiet[] = { MPIRUN_QUIET NULL },
                             *const recovery[] = { MPIRUN_RECOVERS NULL }, *const around[] = { MPIRUN_AROUND NULL };
    int used = 0;
    for (const char *const *word = all; *word != NULL; word++) {
        words[used++] = *word;
    }
    for (const char *const *more = recovers ? recovery : quiet; *more != NULL; more++) {
        words[used++] = *more;
    }
    words[used++] = "-n";
    words[used++] = count;
    for (const char *const *more = around; recovers && *more != NULL; more++) {
        words[used++] = *more;
    }
    return used;
}

/* The same as one text for a shell, "" for no process. */
static inline void mpirun_text(char *text, size_t size, int processes)
{
    const char *words[MPIRUN_MAX_WORDS];
    char count[16];
    size_t length = 0;
    snprintf(count, sizeof(count), "%d", processes);
    int num_words = processes > 0 ? mpirun_words(words, count, 0) : 0;
    text[0] = '\0';
    for (int i = 0; i < num_words && length < size; i++) {
        length += (size_t)snprintf(text + length, size - length, "%s ", words[i]);
    }
}

/* The number in one of two variables, Open MPI's or that of MPICH's launcher; `otherwise` without a launcher. */
static inline int mpirun_number(const char *of_open_mpi, const char *of_mpich, int otherwise)
{
    const char *text = getenv(of_open_mpi) != NULL ? getenv(of_open_mpi) : getenv(of_mpich);
    return text == NULL ? otherwise : atoi(text);
}

/* This process, and how many there are, before weft or MPI has started. Without a launcher -1, and 1. */
static inline int mpirun_process(void)
{
    return mpirun_number("OMPI_COMM_WORLD_RANK", "PMI_RANK", -1);
}

static inline int mpirun_processes(void)
{
    return mpirun_number("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", 1);
}

#endif
