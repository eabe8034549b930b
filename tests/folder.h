/* Folders of tests. */
#ifndef WEFT_TESTS_FOLDER_H
#define WEFT_TESTS_FOLDER_H

/* Removes the folder with its contents; does not follow links. */
void remove_tree(const char *name);

#endif
