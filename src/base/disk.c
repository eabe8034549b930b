#define _DEFAULT_SOURCE /* syscall() */
#include "base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"

/* POSIX leaves larger ones undefined (SSIZE_MAX); Linux cuts them. */
static const int64_t LARGEST = 1 << 30;

/* NULL for a regular file that has no other name; else what it is, with errno 0. */
static const char *why_not(const struct stat *about)
{
    mode_t mode = about->st_mode;
    errno = 0;
    return S_ISREG(mode)    ? NULL
           : S_ISDIR(mode)  ? "it is a directory, expected a regular file"
           : S_ISLNK(mode)  ? "it is a symbolic link, expected a regular file"
           : S_ISFIFO(mode) ? "it is a pipe, expected a regular file"
           : S_ISSOCK(mode) ? "it is a socket, expected a regular file"
                            : "it is a device, expected a regular file";
}

/* Closes the file after a failed step. */
static const char *give_up(int *file, const char *step)
{
    int reason = errno;
    if (*file >= 0) {
        close(*file);
    }
    *file = -1;
    errno = reason;
    return step;
}

/* Opening a pipe would wait, and opening some devices has effects: so it is examined before, and what was opened after. */
const char *weft_disk_open(const char *path, int *file, int64_t *size)
{
    struct stat about;
    const char *wrong = stat(path, &about) == 0 ? why_not(&about) : NULL;
    *file = -1;
    if (wrong != NULL) {
        return wrong;
    }
    *file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (*file < 0) {
        return "open";
    }
    wrong = fstat(*file, &about) != 0 ? "fstat" : why_not(&about);
    *size = about.st_size;
    return wrong == NULL ? NULL : give_up(file, wrong);
}

uint64_t weft_disk_stamp(int file)
{
    struct stat about;
    if (fstat(file, &about) != 0) {
        return 0;
    }
    const uint64_t parts[] = { (uint64_t)about.st_dev, (uint64_t)about.st_ino, (uint64_t)about.st_size,
                               (uint64_t)about.st_mtim.tv_sec, (uint64_t)about.st_mtim.tv_nsec };
    return weft_hash_bytes(parts, sizeof(parts), 0);
}

const char *weft_disk_read(int file, void *bytes, int64_t count, int64_t offset)
{
    for (int64_t done = 0; done < count;) {
        int64_t left = count - done;
        ssize_t part = pread(file, (char *)bytes + done, (size_t)(left < LARGEST ? left : LARGEST), offset + done);
        if (part == 0) {
            errno = 0;
            return "read: the file ends there";
        }
        if (part < 0 && errno != EINTR) {
            return "read";
        }
        done += part > 0 ? part : 0;
    }
    return NULL;
}

/* A file with a second name is somebody else's too: writing would change that one. */
static const char *why_not_ours(const struct stat *about)
{
    const char *wrong = why_not(about);
    return wrong == NULL && about->st_nlink > 1 ? "it is a file of several names (hard links), expected a new one"
                                                : wrong;
}

static const char *create(const char *path, int flags, int *file)
{
    struct stat about;
    const char *wrong = lstat(path, &about) == 0 ? why_not_ours(&about) : NULL;
    *file = -1;
    if (wrong != NULL) {
        return wrong;
    }
    *file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0666);
    if (*file < 0) {
        return "open";
    }
    wrong = fstat(*file, &about) != 0 ? "fstat" : why_not_ours(&about);
    return wrong == NULL ? NULL : give_up(file, wrong);
}

const char *weft_disk_create(const char *path, int *file)
{
    return create(path, 0, file);
}

const char *weft_disk_create_new(const char *path, int *file)
{
    struct stat about;
    *file = -1;
    if (lstat(path, &about) == 0 && S_ISREG(about.st_mode) && unlink(path) != 0) {
        return "unlink";
    }
    return create(path, O_EXCL, file);
}

const char *weft_disk_write(int file, const void *bytes, int64_t count, int64_t offset)
{
    for (int64_t done = 0; done < count;) {
        int64_t left = count - done;
        ssize_t part =
            pwrite(file, (const char *)bytes + done, (size_t)(left < LARGEST ? left : LARGEST), offset + done);
        if (part < 0 && errno != EINTR) {
            return "write";
        }
        done += part > 0 ? part : 0;
    }
    return NULL;
}

const char *weft_disk_finish(int file)
{
    const char *step = fsync(file) != 0 ? "fsync" : NULL;
    int reason = errno;
    if (close(file) != 0 && step == NULL) {
        return "close";
    }
    errno = reason;
    return step;
}

#define NOT_DURABLE "renamed, but a crash of the machine may undo it: "

/* Some file systems cannot sync a folder, and say EINVAL. */
bool weft_disk_exchange(const char *one, const char *other)
{
    enum { EXCHANGE = 2 /* RENAME_EXCHANGE of Linux */ };
    return syscall(SYS_renameat2, AT_FDCWD, one, AT_FDCWD, other, EXCHANGE) == 0;
}

bool weft_disk_sync_folder(const char *path)
{
    int file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    bool done = fsync(file) == 0 || errno == EINVAL;
    int reason = errno;
    close(file);
    errno = reason;
    return done;
}

const char *weft_disk_sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    char *folder = malloc(length + 2);
    if (folder == NULL) {
        return NOT_DURABLE "open the folder";
    }
    memcpy(folder, length == 0 ? "." : path, length == 0 ? 1 : length);
    folder[length == 0 ? 1 : length] = '\0';
    bool done = weft_disk_sync_folder(folder);
    int reason = errno;
    free(folder);
    errno = reason;
    return done ? NULL : NOT_DURABLE "fsync of the folder";
}

const char *weft_disk_rename(const char *from, const char *to, bool *renamed)
{
    struct stat about;
    const char *wrong = stat(to, &about) == 0 ? why_not(&about) : NULL;
    *renamed = wrong == NULL && rename(from, to) == 0;
    return *renamed ? weft_disk_sync_folder_of(to) : wrong != NULL ? wrong : "rename";
}

/* An empty file of its own takes the name first, because rename() would replace another's. */
const char *weft_disk_rename_new(const char *from, const char *to, bool *renamed)
{
    int file = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *renamed = false;
    if (file < 0) {
        return "rename";
    }
    close(file);
    const char *failed = weft_disk_rename(from, to, renamed);
    if (!*renamed) {
        int reason = errno;
        unlink(to);
        errno = reason;
    }
    return failed;
}

bool weft_disk_is_taken(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0;
}

static const char *reason_of(int error, char *text, size_t size)
{
    if (strerror_r(error, text, size) != 0) {
        snprintf(text, size, "error %d", error);
    }
    return text;
}

void weft_disk_remove(const char *path)
{
    struct stat about;
    if (lstat(path, &about) == 0 && why_not_ours(&about) == NULL) {
        unlink(path);
    }
}

const char *weft_disk_failure(const char *step, char *text, size_t size)
{
    char reason[80];
    int error = errno;
    bool said = error == 0;
    snprintf(text, size, "%s%s%s", step, said ? "" : ": ", said ? "" : reason_of(error, reason, sizeof(reason)));
    return text;
}

FILE *weft_disk_stream(const char *path, char *why, size_t size)
{
    int file;
    int64_t bytes;
    const char *failed = weft_disk_open(path, &file, &bytes);
    FILE *stream = failed == NULL ? fdopen(file, "rb") : NULL;
    if (stream == NULL) {
        failed = failed == NULL ? give_up(&file, "fdopen") : failed;
        if (errno != 0) {
            reason_of(errno, why, size);
        } else {
            snprintf(why, size, "%s", failed);
        }
    }
    return stream;
}

FILE *weft_disk_stream_to(const char *path, bool append)
{
    int flags = O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (append ? O_APPEND : O_TRUNC);
    int file = open(path, flags, 0666);
    /* Only opening must not wait: a reader that is slow still gets everything. */
    FILE *stream = file >= 0 && fcntl(file, F_SETFL, append ? O_APPEND : 0) == 0 ? fdopen(file, append ? "a" : "w") : NULL;
    if (stream == NULL) {
        give_up(&file, "open");
    }
    return stream;
}
