/* Every file that weft opens by a name from the program: whole reads and writes at an offset, and the steps that make
 * a new file take a former one's place. Opening never waits, and never follows a link at a name that weft has made up.
 *
 * Functions that return a text return NULL, or the step that failed ("write"), with errno; errno 0: the text says why.
 * Thread-safe. */
#ifndef WEFT_SRC_BASE_DISK_H
#define WEFT_SRC_BASE_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Opens a regular file for reading; *size: its bytes. */
const char *weft_disk_open(const char *path, int *file, int64_t *size);
/* A digest that changes where another file takes the place of an open one, or somebody writes to it. */
uint64_t weft_disk_stamp(int file);
/* All `count` bytes. Fails where the file ends before. */
const char *weft_disk_read(int file, void *bytes, int64_t count, int64_t offset);
/* For a name that weft has made up. Opens or creates a regular file for writing; an old one keeps its contents. */
const char *weft_disk_create(const char *path, int *file);
/* The same, and removes an old one before. */
const char *weft_disk_create_new(const char *path, int *file);
const char *weft_disk_write(int file, const void *bytes, int64_t count, int64_t offset);
/* The file is on disk, and closed; closes it in any case. */
const char *weft_disk_finish(int file);
/* `from` becomes `to`, at once, and durably. Refuses to replace anything but a regular file. *renamed may be true with a failure: `to`
 * is the new file, but a crash of the machine may bring the old one back. */
const char *weft_disk_rename(const char *from, const char *to, bool *renamed);
/* The same, and fails with EEXIST where `to` is the name of anything. */
const char *weft_disk_rename_new(const char *from, const char *to, bool *renamed);
/* Exchanges two names, at once. False with errno: EINVAL or ENOSYS where the file system cannot. */
bool weft_disk_exchange(const char *one, const char *other);
/* The entries of a folder are on disk. False with errno. */
bool weft_disk_sync_folder(const char *path);
/* The same of the folder that a path lies in: a failure after a rename. */
const char *weft_disk_sync_folder_of(const char *path);
/* Whether a name is that of anything, also of a link that leads nowhere. */
bool weft_disk_is_taken(const char *path);
/* After a failure: removes what weft_disk_create() has made, and nothing that stood in its way. */
void weft_disk_remove(const char *path);
/* "write: No space left on device": a step that failed, with errno. Returns `text`. */
const char *weft_disk_failure(const char *step, char *text, size_t size);

/* A regular file as a stream for reading. NULL with why. */
FILE *weft_disk_stream(const char *path, char *why, size_t size);
/* A stream for writing to what the program names: a file, which is emptied or continued (append), or a pipe that
 * somebody reads. NULL with errno. */
FILE *weft_disk_stream_to(const char *path, bool append);

#endif
