#include "comm/mpi_texts.h"

#include <stdlib.h>
#include <string.h>

typedef struct sent {
    MPI_Request request;
    void *text;
} sent;

/* Removes ended sends. */
static void sweep(weft_mpi_texts *texts)
{
    sent *all = texts->sent.items;
    size_t kept = 0;
    for (size_t i = 0; i < texts->sent.count; i++) {
        int ended = 0;
        MPI_Test(&all[i].request, &ended, MPI_STATUS_IGNORE);
        if (ended) {
            free(all[i].text);
        } else {
            all[kept++] = all[i];
        }
    }
    texts->sent.count = kept;
}

void weft_mpi_texts_send(weft_mpi_texts *texts, MPI_Comm comm, int tag, int process, const void *text,
                         size_t size)
{
    int processes = 0;
    MPI_Comm_size(comm, &processes);
    sweep(texts);
    if (texts->sent.count > 4 * (size_t)processes) {
        return;
    }
    void *copy = malloc(size);
    sent *new = copy == NULL ? NULL : weft_vec_push(&texts->sent, sizeof(*new));
    if (new == NULL) {
        free(copy);
        return;
    }
    memcpy(copy, text, size);
    new->text = copy;
    if (MPI_Isend(copy, (int)size, MPI_BYTE, process, tag, comm, &new->request) != MPI_SUCCESS) {
        texts->sent.count--;
        free(copy);
    }
}

size_t weft_mpi_texts_take(MPI_Comm comm, int tag, int *process, void *text, size_t size)
{
    int there = 0, count = 0;
    MPI_Message message;
    MPI_Status status;
    if (MPI_Improbe(MPI_ANY_SOURCE, tag, comm, &there, &message, &status) != MPI_SUCCESS || !there) {
        return 0;
    }
    MPI_Get_count(&status, MPI_BYTE, &count);
    *process = status.MPI_SOURCE;
    if (MPI_Mrecv(text, (int)size, MPI_BYTE, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        return 0;
    }
    return (size_t)count <= size ? (size_t)count : 0;
}

void weft_mpi_texts_close(weft_mpi_texts *texts)
{
    sweep(texts);
    weft_vec_free(&texts->sent);
}
