/* Folders of tests. */
#ifndef WEFT_TESTS_FOLDER_H
#define WEFT_TESTS_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* Makes a new folder in TMPDIR, or in /tmp, and writes its path, "" where there is none. */
bool make_temporary_folder(char path[], size_t size);
/* Removes the folder with its contents; does not follow links. */
void remove_tree(const char *name);

#endif
