/* Texts between the progress threads of an MPI world, beside the messages: weft_control.send() and
 * .receive(). */
#ifndef WEFT_SRC_COMM_MPI_TEXTS_H
#define WEFT_SRC_COMM_MPI_TEXTS_H

#include <mpi.h>

#include "base/base.h"

/* Sent texts; zero-initialise. */
typedef struct weft_mpi_texts {
    weft_vec sent; /* defined in mpi_texts.c */
} weft_mpi_texts;

/* Sends nothing without memory, or with too many texts under way: a process that does not read them must
 * not fill the memory of the others. */
void weft_mpi_texts_send(weft_mpi_texts *texts, MPI_Comm comm, int tag, int process, const void *text,
                         size_t size);
/* Returns the size; 0: none has arrived. */
size_t weft_mpi_texts_take(MPI_Comm comm, int tag, int *process, void *text, size_t size);
/* Unfinished sends keep their memory. */
void weft_mpi_texts_close(weft_mpi_texts *texts);

#endif
