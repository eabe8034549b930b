/* Folders that other users may write to (/tmp, a group's folder), and files in them. In a folder that
 * everybody may write to, only entries of this user or root are used. A link is followed only on the way
 * to a folder, under the same condition. Only regular files are opened, and nothing is waited for. */
#ifndef WEFT_SRC_MACHINE_FOLDER_H
#define WEFT_SRC_MACHINE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A descriptor of the folder, for the functions below and for openat() and the like; to be closed. Missing
 * folders on the way are created if `mode` is not 0. -1: no usable folder. */
int weft_folder_open(const char *path, mode_t mode);
/* A regular file in the folder. `flags`: O_RDONLY, or O_RDWR | O_CREAT. -1: none, or the entry of that
 * name is unusable. */
int weft_folder_file(int folder, const char *name, int flags);
/* A new file, of this user alone. Its name begins with `name`, which receives the rest: `size` must leave
 * room for 32 more characters. -1: it cannot be created. */
int weft_folder_new_file(int folder, char *name, size_t size);
/* Whether a file of some kilobytes can be written there. */
bool weft_folder_writable(int folder);
/* Removes the folder and everything in it that is this user's. */
void weft_folder_remove(const char *path);

#endif
