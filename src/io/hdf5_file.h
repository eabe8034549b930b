/* One process's part of an HDF5 file, by serial libhdf5. Each function opens the file and closes it, so that
 * processes take turns. False with an outcome. */
#ifndef WEFT_SRC_IO_HDF5_FILE_H
#define WEFT_SRC_IO_HDF5_FILE_H

#include <weft/checkpoint.h>

#include "io/boxes.h"

/* A new file with a dataset for each tensor, without values; attributes: name, element type, layout. Stored by `options`, whose
 * chunk_bytes is 0 for datasets without chunks. */
bool weft_hdf5_create(const char *path, int n, const char *const names[], const weft_layout *const layouts[],
                      const weft_hdf5_options *options, weft_outcome *outcome);
/* Whether libhdf5 has gzip. */
bool weft_hdf5_compresses(void);
/* All processes at once: datasets without chunks, whose places in the file are known. */
void weft_hdf5_write_places(const char *path, int num_parts, const weft_box_part parts[], weft_outcome *outcome);
/* One process after the other: datasets of any kind. */
void weft_hdf5_write(const char *path, int num_parts, const weft_box_part parts[], weft_outcome *outcome);
/* The datasets have the types and shapes of the parts; `parts` may be empty boxes. Reads them. */
void weft_hdf5_read(const char *path, int num_parts, const weft_box_part parts[], weft_outcome *outcome);

#endif
