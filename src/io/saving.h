/* A save of a checkpoint: a snapshot, and the writing of it by a thread of each process.
 *
 *     submitting threads          snapshot, messages of the collection; start the threads
 *     threads                     wait for the tasks that compute the values; write own rows to PATH.tmp; fsync
 *     thread of process 0         collects status and checksums of all; writes the header; fsync; rename; fsync of the
 *                                 folder; answers
 *
 * Until the rename the former file stands under PATH, afterwards the new one, each whole. */
#ifndef WEFT_SRC_IO_SAVING_H
#define WEFT_SRC_IO_SAVING_H

#include <weft/checkpoint.h>

#include "io/header.h"
#include "io/outcome.h"
#include "io/rows.h"

typedef struct weft_saving weft_saving;

/* Begins to save the tensors to files of these headers, whose tensors and data have places: to the first file as many of the
 * first tensors as it has, and so on. One file, or any number if the path is an index's. Takes over the headers' contents. BLOCKS
 * until earlier saves have ended. Every process calls it, after all checks. NULL with the error kept. In the background: the
 * thread leaves the cores to the workers. */
weft_saving *weft_saving_start(const char *function, const char *path, int num_parts, weft_file_header headers[],
                               weft_tensor *const tensors[], bool in_background);
/* Whether its thread has ended. */
bool weft_saving_has_ended(const weft_saving *saving);
/* BLOCKS until the thread has ended, and releases the snapshot. */
void weft_saving_join(weft_saving *saving);
/* After weft_saving_join(). */
const weft_outcome *weft_saving_outcome(const weft_saving *saving);
void weft_saving_delete(weft_saving *saving);

/* All saves of this world: BLOCKS until they have ended. */
void weft_savings_join(void);
/* The end of all, after weft_savings_join(). */
void weft_savings_stop(void);

#endif
