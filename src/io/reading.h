/* The header of a file on disk. */
#ifndef WEFT_SRC_IO_READING_H
#define WEFT_SRC_IO_READING_H

#include "io/saving.h"

/* Opens a file and parses its header. *digest: of the header and the size of the file. False with an outcome:
 * nothing is open, the header is empty. */
bool weft_read_header(const char *path, int *file, weft_file_header *header, uint64_t *digest, weft_outcome *outcome);

#endif
