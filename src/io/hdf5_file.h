/* One process's part of an HDF5 file, by serial libhdf5. Each function opens the file and closes it, so that
 * processes take turns. False with an outcome. */
#ifndef WEFT_SRC_IO_HDF5_FILE_H
#define WEFT_SRC_IO_HDF5_FILE_H

#include <weft/checkpoint.h>

#include "io/outcome.h"
#include "layout/layout.h"

/* A box of a dataset, and its memory, row-major. */
typedef struct weft_hdf5_part {
    const char *name;
    const weft_layout *layout; /* type and shape of the dataset */
    const int64_t *offset, *extent;
    void *memory;
} weft_hdf5_part;

/* A new file with a dataset for each tensor, without values; attributes: name, element type, layout. Stored by `options`, whose
 * chunk_bytes is 0 for datasets without chunks. */
bool weft_hdf5_create(const char *path, int n, const char *const names[], const weft_layout *const layouts[],
                      const weft_hdf5_options *options, weft_outcome *outcome);
/* Whether libhdf5 has gzip. */
bool weft_hdf5_compresses(void);
bool weft_hdf5_write(const char *path, int num_parts, const weft_hdf5_part parts[], weft_outcome *outcome);
/* The datasets have the types and shapes of the parts; `parts` may be empty boxes. Reads them. */
bool weft_hdf5_read(const char *path, int num_parts, const weft_hdf5_part parts[], weft_outcome *outcome);

#endif
