/* Folders that tests make. */
#ifndef WEFT_TESTS_FOLDER_H
#define WEFT_TESTS_FOLDER_H

/* The folder with all that is in it; links are not followed. */
void remove_tree(const char *name);

#endif
