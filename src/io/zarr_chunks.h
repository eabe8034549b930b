/* One process's parts of the arrays of a Zarr store: files of chunks. Any process may write and read beside the others, because each
 * chunk is a file of its own. */
#ifndef WEFT_SRC_IO_ZARR_CHUNKS_H
#define WEFT_SRC_IO_ZARR_CHUNKS_H

#include "io/boxes.h"
#include "io/zarr_metadata.h"

/* All of a small file, to be freed; NULL with an outcome, or, if there is no such file and `may_lack`, without. */
char *weft_zarr_read_text(const char *path, bool may_lack, int64_t *length, weft_outcome *outcome);
/* Each part is whole chunks of the array that zarr.json describes already, but at the array's end. */
void weft_zarr_write(const char *path, int num_parts, const weft_box_part parts[], weft_outcome *outcome);
/* The arrays have the types and shapes of the parts, which may be empty. Each chunk that parts need is read once. */
void weft_zarr_read(const char *path, int num_parts, const weft_box_part parts[], weft_outcome *outcome);

#endif
