/* src/io: checkpoints. A tensor is cut into row shards over its own mesh, and each process writes or reads the
 * rows that its ranks have, at their place in the file:
 *
 *     header.h      what a safetensors file says, as values; json.h, crc32c.h below it
 *     index.h       what an index of several files says; parts.h gives the files their names
 *     base/disk.h   reads, writes and renames
 *     rows.h        tensors as row shards: snapshots, and the pieces of the file that each rank has
 *     collection.h  agreement of threads that write in the background
 *     saving.h      a save: a snapshot, a thread, the commit
 *     boxes.h       tensors as boxes, for HDF5 (hdf5_file.h) and Zarr (zarr_chunks.h; zarr_metadata.h, zarr_codecs.h)
 *
 * The public functions are in save.c, load.c, contents.c, hooks.c, hdf5.c and zarr.c. Nothing here depends on operations. */
#ifndef WEFT_SRC_IO_ROWS_H
#define WEFT_SRC_IO_ROWS_H

#include "tensor/tensor.h"

/* The layout on the same mesh with all mesh dimensions sharding the rows, one inside the other: rank after rank,
 * in the mesh's order, has the next rows. Without dimensions: on the first rank of the mesh alone. NULL with the
 * error kept: no memory. */
const weft_layout *weft_rows_layout(const char *function, const weft_layout *layout);

/* What the rank at a mesh index has of the bytes of a tensor in a layout of weft_rows_layout(): contiguous, and
 * the next index goes on where it ends. */
typedef struct weft_rows_piece {
    int rank;
    int64_t begin, bytes;
} weft_rows_piece;
weft_rows_piece weft_rows_piece_at(const weft_layout *rows, int64_t index);

/* The values of now as a tensor of its own, on the same memory if possible, which is then copied on write; the
 * same in row shards. Belongs to the innermost scope. NULL with the error kept. */
weft_tensor_impl *weft_snapshot(const char *function, weft_tensor_impl *tensor);
weft_tensor_impl *weft_rows_snapshot(const char *function, weft_tensor_impl *tensor);

/* Checksums travel in a row of numbers for each process, of which a tensor has weft_most_local_ranks(): one for
 * each hosted rank's piece. weft_join_checksums: that of the whole tensor, whose numbers begin at `place` in each
 * row of `count`. */
uint32_t weft_join_checksums(const weft_layout *rows, const int64_t all[], int64_t count, int64_t place);

/* The memory of a hosted shard: `bytes` of weft_rows_piece_at(), contiguous. */
char *weft_rows_memory(const weft_local_shard *shard);
/* BLOCKS until the tasks that write the shard have ended; with `write`, also those that read it. Any thread, but no
 * worker. */
void weft_rows_await(const weft_local_shard *shard, bool write);

#endif
