#define _XOPEN_SOURCE 700 /* nftw() */
#include "base/trees.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/disk.h"

enum { OPEN_FOLDERS = 16 };

bool weft_tree_exists(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

bool weft_tree_has_only(const char *path, const char *name)
{
    DIR *folder = opendir(path);
    bool only = folder != NULL;
    for (const struct dirent *entry; only && (entry = readdir(folder)) != NULL;) {
        only = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 || strcmp(entry->d_name, name) == 0;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return only;
}

const char *weft_tree_make(const char *path)
{
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && weft_tree_exists(path))) {
        return NULL;
    }
    return "mkdir";
}

static bool remove_path(const char *path);

static bool remove_entry(const char *folder, const char *name)
{
    const size_t length = strlen(folder) + strlen(name) + 2;
    char *path = malloc(length);
    if (path == NULL) {
        return false;
    }
    snprintf(path, length, "%s/%s", folder, name);
    bool done = remove_path(path);
    free(path);
    return done;
}

/* All entries but one. Some file systems skip entries after others have been removed, so that they are read again until there are none. */
static bool remove_entries(const char *path, const char *kept)
{
    DIR *folder = opendir(path);
    bool done = folder != NULL, found = done;
    while (done && found) {
        found = false;
        rewinddir(folder);
        for (const struct dirent *entry; done && (entry = readdir(folder)) != NULL;) {
            const char *name = entry->d_name;
            if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && (kept == NULL || strcmp(name, kept) != 0)) {
                done = remove_entry(path, name);
                found = true;
            }
        }
    }
    const int reason = errno;
    if (folder != NULL) {
        closedir(folder);
    }
    errno = reason;
    return done;
}

static bool remove_path(const char *path)
{
    return weft_tree_exists(path) ? remove_entries(path, NULL) && rmdir(path) == 0 : unlink(path) == 0;
}

const char *weft_tree_remove(const char *path, const char *last)
{
    return remove_entries(path, last) && remove_path(path) ? NULL : "remove";
}

static int sync_entry(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about;
    (void)place;
    return kind != FTW_D || weft_disk_sync_folder(path) ? 0 : -1;
}

const char *weft_tree_sync(const char *path)
{
    return nftw(path, sync_entry, OPEN_FOLDERS, FTW_PHYS) == 0 ? NULL : "fsync of a folder";
}

/* Where the file system cannot exchange names. */
static bool replace_in_steps(const char *from, const char *to, const char *aside)
{
    if (rename(to, aside) != 0) {
        return false;
    }
    bool done = rename(from, to) == 0;
    if (!done) {
        const int reason = errno;
        (void)(rename(aside, to) == 0); /* else it stays aside, as after a crash */
        errno = reason;
    }
    return done;
}

const char *weft_tree_replace(const char *from, const char *to, const char *aside, bool *done)
{
    if (weft_tree_exists(to)) {
        *done = weft_disk_exchange(from, to) || ((errno == EINVAL || errno == ENOSYS) && replace_in_steps(from, to, aside));
    } else {
        *done = rename(from, to) == 0;
    }
    return *done ? weft_disk_sync_folder_of(to) : "rename";
}
