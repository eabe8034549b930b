/* The files of a save to an index. While they are written they are PATH-1.tmp and so on; the commit gives them names that nothing
 * in the folder has, then replaces the index at once, then removes the former checkpoint's files, and temporary ones that a killed
 * save of more files has left. So the index
 * names a whole checkpoint at any moment. Process 0 alone decides on names. */
#ifndef WEFT_SRC_IO_PARTS_H
#define WEFT_SRC_IO_PARTS_H

#include "io/header.h"
#include "io/outcome.h"

/* The name under which file `part` of `count` is written: PATH.tmp without an index. NULL: no memory. To be freed. */
char *weft_part_temporary(const char *path, int part);

/* The files are on disk: gives them their names, writes the index and replaces the former one. An outcome may be a failure though the
 * index has been replaced (weft_disk_rename()). */
void weft_parts_commit(const char *path, int count, const weft_file_header headers[], char *const temporaries[],
                       weft_outcome *outcome);

#endif
