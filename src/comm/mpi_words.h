/* Words that the progress threads of an MPI world send each other beside the messages:
 * weft_transport.send_words and .take_words. */
#ifndef WEFT_SRC_COMM_MPI_WORDS_H
#define WEFT_SRC_COMM_MPI_WORDS_H

#include <mpi.h>

#include "base/base.h"

/* What has been sent; zero-initialise it. */
typedef struct weft_mpi_words {
    weft_vec sent; /* of mpi_words.c */
} weft_mpi_words;

/* Does nothing where there is no memory, or where too many are under way already: a process that does not
 * take them must not fill the memory of the others. */
void weft_mpi_words_send(weft_mpi_words *words, MPI_Comm comm, int tag, int process, const void *text,
                         size_t size);
/* Returns the size, 0: none are there. */
size_t weft_mpi_words_take(MPI_Comm comm, int tag, int *process, void *text, size_t size);
/* What is under way keeps its memory. */
void weft_mpi_words_close(weft_mpi_words *words);

#endif
