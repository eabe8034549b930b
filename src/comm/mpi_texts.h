/* Texts that the progress threads of an MPI world send each other beside the messages: weft_control.send() and
 * .receive(). */
#ifndef WEFT_SRC_COMM_MPI_TEXTS_H
#define WEFT_SRC_COMM_MPI_TEXTS_H

#include <mpi.h>

#include "base/base.h"

/* What has been sent; zero-initialise it. */
typedef struct weft_mpi_texts {
    weft_vec sent; /* of mpi_texts.c */
} weft_mpi_texts;

/* Does nothing where there is no memory, or where too many are under way already: a process that does not
 * take them must not fill the memory of the others. */
void weft_mpi_texts_send(weft_mpi_texts *texts, MPI_Comm comm, int tag, int process, const void *text,
                         size_t size);
/* Returns the size, 0: none are there. */
size_t weft_mpi_texts_take(MPI_Comm comm, int tag, int *process, void *text, size_t size);
/* What is under way keeps its memory. */
void weft_mpi_texts_close(weft_mpi_texts *texts);

#endif
