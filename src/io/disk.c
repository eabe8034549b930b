#include "io/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* POSIX leaves larger ones undefined (SSIZE_MAX); Linux cuts them. */
static const int64_t LARGEST = 1 << 30;

/* Not a pipe or a device, whose opening or reading would wait. */
const char *weft_disk_open(const char *path, int *file, int64_t *size)
{
    *file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (*file < 0) {
        return "open";
    }
    struct stat about;
    const char *step = fstat(*file, &about) != 0 ? "fstat" : NULL;
    if (step == NULL && !S_ISREG(about.st_mode)) {
        errno = S_ISDIR(about.st_mode) ? EISDIR : EINVAL;
        step = "open";
    }
    if (step != NULL) {
        int reason = errno;
        close(*file);
        errno = reason;
        return step;
    }
    *size = about.st_size;
    return NULL;
}

const char *weft_disk_read(int file, void *bytes, int64_t count, int64_t offset)
{
    for (int64_t done = 0; done < count;) {
        int64_t left = count - done;
        ssize_t part = pread(file, (char *)bytes + done, (size_t)(left < LARGEST ? left : LARGEST), offset + done);
        if (part == 0) {
            errno = 0;
        }
        if (part == 0 || (part < 0 && errno != EINTR)) {
            return "read";
        }
        done += part > 0 ? part : 0;
    }
    return NULL;
}

const char *weft_disk_create(const char *path, int *file)
{
    *file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    return *file < 0 ? "open" : NULL;
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

/* Some file systems cannot sync a folder, and say EINVAL. */
static const char *sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    char *folder = malloc(length + 2);
    if (folder == NULL) {
        return "open";
    }
    memcpy(folder, length == 0 ? "." : path, length == 0 ? 1 : length);
    folder[length == 0 ? 1 : length] = '\0';
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    if (file < 0) {
        return "open the folder";
    }
    bool failed = fsync(file) != 0 && errno != EINVAL;
    int reason = errno;
    close(file);
    errno = reason;
    return failed ? "fsync of the folder" : NULL;
}

const char *weft_disk_rename(const char *from, const char *to)
{
    return rename(from, to) != 0 ? "rename" : sync_folder_of(to);
}
