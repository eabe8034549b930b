#define _GNU_SOURCE /* O_PATH: a folder that may be passed through need not be readable */
#include "machine/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- the way to a folder ------------------------------------------------------------------------------- */

enum { MAX_LINKS = 40 };

/* A position on the path: the folder that has been reached, and the rest of the path. */
typedef struct walk {
    int folder;
    mode_t mode;
    int links;
    size_t given; /* characters at the end of the rest that do not come from a link */
    char rest[PATH_MAX];
} walk;

/* Entries that other users may have created. */
static bool is_trusted(const struct stat *folder, const struct stat *entry)
{
    return (folder->st_mode & S_IWOTH) == 0 || entry->st_uid == geteuid() || entry->st_uid == 0;
}

/* Of a folder and its entry, without following a link. */
static bool look(int folder, const char *name, struct stat *entry)
{
    struct stat own;
    return fstat(folder, &own) == 0 && fstatat(folder, name, entry, AT_SYMLINK_NOFOLLOW) == 0 &&
           is_trusted(&own, entry);
}

static bool move_to(walk *w, int folder)
{
    close(w->folder);
    w->folder = folder;
    return folder >= 0;
}

static bool enter(walk *w, const char *name)
{
    struct stat entry, opened;
    int folder = openat(w->folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* The entry may have been replaced since it was examined. */
    bool same = folder >= 0 && fstat(folder, &opened) == 0 && look(w->folder, name, &entry) &&
                entry.st_ino == opened.st_ino && entry.st_dev == opened.st_dev;
    if (folder >= 0 && !same) {
        close(folder);
        folder = -1;
    }
    return move_to(w, folder);
}

/* The link's text goes before the rest of the path. */
static bool follow(walk *w, const char *name)
{
    char target[PATH_MAX], rest[PATH_MAX];
    ssize_t length = readlinkat(w->folder, name, target, sizeof(target) - 1);
    if (length < 0 || ++w->links > MAX_LINKS) {
        return false;
    }
    target[length] = '\0';
    int used = snprintf(rest, sizeof(rest), "%s/%s", target, w->rest);
    if (used < 0 || used >= (int)sizeof(rest)) {
        return false;
    }
    w->given = strlen(w->rest) < w->given ? strlen(w->rest) : w->given;
    strcpy(w->rest, rest);
    return target[0] != '/' || move_to(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

/* Descends by one name. */
static bool step(walk *w)
{
    char name[NAME_MAX + 1];
    char *begin = w->rest + strspn(w->rest, "/");
    size_t length = strcspn(begin, "/");
    if (length >= sizeof(name)) {
        return false;
    }
    memcpy(name, begin, length);
    name[length] = '\0';
    memmove(w->rest, begin + length, strlen(begin + length) + 1);
    if (length == 0 || strcmp(name, ".") == 0) {
        return true;
    }
    if (strcmp(name, "..") == 0) { /* nobody can create it */
        return move_to(w, openat(w->folder, name, O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
    struct stat entry;
    bool may_make =
        w->mode != 0 && strlen(w->rest) < w->given; /* nothing is created at the end of a dangling link */
    if (may_make && fstatat(w->folder, name, &entry, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT) {
        mkdirat(w->folder, name, w->mode);
    }
    if (!look(w->folder, name, &entry)) {
        return false;
    }
    return S_ISLNK(entry.st_mode) ? follow(w, name) : enter(w, name);
}

int weft_folder_open(const char *path, mode_t mode)
{
    walk w = { .mode = mode, .given = strlen(path) };
    int used = snprintf(w.rest, sizeof(w.rest), "%s", path);
    w.folder = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool found = w.folder >= 0 && used > 0 && used < (int)sizeof(w.rest);
    while (found && w.rest[0] != '\0') {
        found = step(&w);
    }
    if (!found && w.folder >= 0) {
        close(w.folder);
    }
    return found ? w.folder : -1;
}

/* ---- files --------------------------------------------------------------------------------------------- */

int weft_folder_file(int folder, const char *name, int flags)
{
    struct stat entry, own;
    bool there = fstatat(folder, name, &entry, AT_SYMLINK_NOFOLLOW) == 0;
    /* Opening a device may already have effects. */
    if (there ? !S_ISREG(entry.st_mode) : (flags & O_CREAT) == 0) {
        return -1;
    }
    int file = openat(folder, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (file < 0 || (fstat(file, &entry) == 0 && S_ISREG(entry.st_mode) && fstat(folder, &own) == 0 &&
                     is_trusted(&own, &entry))) {
        return file;
    }
    close(file);
    return -1;
}

int weft_folder_new_file(int folder, char *name, size_t size)
{
    enum { TRIES = 100 };
    size_t length = strlen(name);
    int file = -1;
    for (int i = 0; i < TRIES; i++) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(name + length, size - length, ".%lx-%lx", (long)getpid(), now.tv_nsec + i);
        file = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file >= 0 || errno != EEXIST) {
            break;
        }
    }
    return file;
}

bool weft_folder_writable(int folder)
{
    static const char some[8192] = { 0 };
    char name[64] = ".weft-trial";
    int file = weft_folder_new_file(folder, name, sizeof(name));
    if (file < 0) {
        return false;
    }
    bool written = write(file, some, sizeof(some)) == (ssize_t)sizeof(some);
    written = close(file) == 0 && written;
    return unlinkat(folder, name, 0) == 0 && written;
}

/* The folder's descriptor is closed. */
static void empty(int folder)
{
    DIR *entries = fdopendir(folder);
    if (entries == NULL) {
        close(folder);
        return;
    }
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        int inner = openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner >= 0) {
            empty(inner);
        }
        unlinkat(folder, entry->d_name, inner >= 0 ? AT_REMOVEDIR : 0);
    }
    closedir(entries);
}

void weft_folder_remove(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder >= 0) {
        empty(folder);
        rmdir(path);
    }
}
