/* Numbers of all processes, at process 0, and its answer: from thread to thread of processes that write a file in
 * the background, while the submitting threads go on. The messages are submitted at the beginning, where all
 * processes make one call, on handles that the threads release later. Nothing else in weft sends outside the
 * submitting thread. */
#ifndef WEFT_SRC_IO_COLLECTION_H
#define WEFT_SRC_IO_COLLECTION_H

#include "comm/comm.h"

typedef struct weft_collection weft_collection;

/* Every process: `count` numbers of each, `num_answers` back. NULL with the error kept: no memory, which breaks a
 * world of several processes. */
weft_collection *weft_collection_new(const char *function, int64_t count, int64_t num_answers);
/* When the thread has ended. NULL: nothing. */
void weft_collection_delete(weft_collection *collection);

/* ---- the threads: in this order, each once ---------------------------------------------------------------- */

/* This process's numbers, to be filled in, and its entry among all of process 0. */
int64_t *weft_collection_mine(weft_collection *collection);
/* Sends them. Process 0: BLOCKS until all have come, and returns them, process by process; NULL: the world is broken.
 * Others: returns NULL at once. */
const int64_t *weft_collection_gather(weft_collection *collection);
/* The answer: process 0 has filled it in, and sends it. Others BLOCK until it has come. NULL: the world is broken. */
int64_t *weft_collection_to_answer(weft_collection *collection);
const int64_t *weft_collection_answer(weft_collection *collection);

#endif
