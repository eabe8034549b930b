/* Files: whole reads and writes at an offset, and the steps that make a new file take a former one's place. Each
 * returns NULL, or the step that failed ("write"), with errno. Thread-safe. */
#ifndef WEFT_SRC_IO_DISK_H
#define WEFT_SRC_IO_DISK_H

#include <stdint.h>

/* Opens a regular file for reading; *size: its bytes. */
const char *weft_disk_open(const char *path, int *file, int64_t *size);
/* All `count` bytes. errno 0: the file ends before. */
const char *weft_disk_read(int file, void *bytes, int64_t count, int64_t offset);
/* Opens or creates a file for writing; an old one keeps its contents. */
const char *weft_disk_create(const char *path, int *file);
const char *weft_disk_write(int file, const void *bytes, int64_t count, int64_t offset);
/* The file is on disk, and closed; closes it in any case. */
const char *weft_disk_finish(int file);
/* `from` becomes `to`, at once, and durably. */
const char *weft_disk_rename(const char *from, const char *to);

#endif
