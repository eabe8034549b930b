/* Folders that weft writes as a whole: a tree beside the one that it replaces. Functions return as those of base/disk.h. None follows a
 * link inside of a tree. */
#ifndef WEFT_SRC_BASE_TREES_H
#define WEFT_SRC_BASE_TREES_H

#include <stdbool.h>

/* A new folder, or one that is there already; no link. */
const char *weft_tree_make(const char *path);
bool weft_tree_exists(const char *path);
/* Whether a folder has nothing but perhaps an entry of this name. */
bool weft_tree_has_only(const char *path, const char *name);
/* A folder with all that is in it, last the entry of this name: by it a folder can be known whose removal was killed. */
const char *weft_tree_remove(const char *path, const char *last);
/* All folders of the tree: their entries are on disk. */
const char *weft_tree_sync(const char *path);
/* `from` becomes `to`, durably. A former folder at `to` is at `from` then, exchanged at once; where the file system cannot do that, at
 * `aside`, and after a crash perhaps there while nothing is at `to`. *done may be true with a failure, as in weft_disk_rename(). */
const char *weft_tree_replace(const char *from, const char *to, const char *aside, bool *done);

#endif
