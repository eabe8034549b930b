/* Folders that others may write to as well (/tmp, one that a group shares), and files in them. What lies in a
 * folder that everybody may write to is used only where it is this user's or root's; a link is followed only
 * on the way to a folder, and only where it can be trusted likewise; nothing is opened that is no regular
 * file, and nothing is waited for. */
#ifndef WEFT_SRC_MACHINE_FOLDER_H
#define WEFT_SRC_MACHINE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A descriptor of the folder, for the functions below and for openat() and its kin; to be closed. Folders on
 * the way that are missing are made where `mode` is not 0. -1: there is none that can be used. */
int weft_folder_open(const char *path, mode_t mode);
/* A regular file in it. `flags`: O_RDONLY, or O_RDWR | O_CREAT. -1: there is none, or what has the name cannot
 * be used. */
int weft_folder_file(int folder, const char *name, int flags);
/* A new file, of this user alone, whose name begins with `name`, which gets the rest: `size` must leave room
 * for 32 characters more. -1: it cannot be made. */
int weft_folder_new_file(int folder, char *name, size_t size);
/* Whether a file can be made there, and some kilobytes be written to it. */
bool weft_folder_writable(int folder);
/* Removes the folder with all that is in it. Of this user alone. */
void weft_folder_remove(const char *path);

#endif
