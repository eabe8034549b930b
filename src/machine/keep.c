/* The file that keeps this machine's figures, beside StarPU's performance models. Other users may write to
 * that folder too: machine/folder.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "machine/folder.h"
#include "machine/keep.h"
#include "machine/models.h"

enum { MAX_BYTES = 1 << 16, HOST_SIZE = 80, NAME_SIZE = HOST_SIZE + 40 };

/* The folder, for functions of machine/folder.h; -1: there is none. */
static int open_folder(mode_t mode)
{
    char models[PATH_MAX], folder[PATH_MAX];
    if (!weft_models_folder(models, sizeof(models)) ||
        snprintf(folder, sizeof(folder), "%s/weft", models) >= (int)sizeof(folder)) {
        return -1;
    }
    return weft_folder_open(folder, mode);
}

int weft_machine_lock(void)
{
    enum { TRIES = 100, PAUSE_NS = 10 * 1000 * 1000 };
    char name[NAME_SIZE];
    weft_models_host(name, HOST_SIZE);
    strcat(name, ".lock");
    int folder = open_folder(0777);
    if (folder < 0) {
        return -1;
    }
    int file = weft_folder_file(folder, name, O_RDWR | O_CREAT);
    close(folder);
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    for (int i = 0; file >= 0 && i < TRIES; i++) {
        if (fcntl(file, F_SETLK, &whole) == 0 || (errno != EACCES && errno != EAGAIN)) {
            break;
        }
        nanosleep(&(struct timespec){ 0, PAUSE_NS }, NULL);
    }
    return file;
}

void weft_machine_unlock(int lock)
{
    if (lock >= 0) {
        close(lock);
    }
}

/* Opens the file; -1: there is none. */
static int open_file(void)
{
    char host[HOST_SIZE];
    weft_models_host(host, sizeof(host));
    int folder = open_folder(0);
    int file = folder < 0 ? -1 : weft_folder_file(folder, host, O_RDONLY);
    if (folder >= 0) {
        close(folder);
    }
    return file;
}

bool weft_machine_path(char *path, size_t size)
{
    char models[PATH_MAX], host[HOST_SIZE];
    weft_models_host(host, sizeof(host));
    int file = open_file();
    if (file < 0) {
        return false;
    }
    close(file);
    return weft_models_folder(models, sizeof(models)) &&
           snprintf(path, size, "%s/weft/%s", models, host) < (int)size;
}

static bool read_figures(int descriptor, weft_machine *machine)
{
    struct stat found;
    FILE *file =
        fstat(descriptor, &found) == 0 && found.st_size <= MAX_BYTES ? fdopen(descriptor, "r") : NULL;
    if (file == NULL) {
        close(descriptor);
        return false;
    }
    bool whole = weft_machine_read(file, machine);
    fclose(file);
    return whole;
}

bool weft_machine_load(weft_machine *machine)
{
    int file = open_file();
    return file >= 0 && read_figures(file, machine);
}

/* Whether all figures are there. */
static bool write_figures(int descriptor, const weft_machine *machine)
{
    FILE *file = fdopen(descriptor, "w");
    if (file == NULL) {
        close(descriptor);
        return false;
    }
    fchmod(descriptor, 0644); /* the figures are the machine's, not the user's */
    bool written = weft_machine_write(machine, file);
    return fclose(file) == 0 && written;
}

/* The name belongs to another kind of entry, which stays. */
static bool is_taken(int folder, const char *host)
{
    struct stat entry;
    return fstatat(folder, host, &entry, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(entry.st_mode);
}

static void keep_in(int folder, const weft_machine *machine)
{
    char host[HOST_SIZE], fresh[NAME_SIZE];
    weft_models_host(host, sizeof(host));
    strcpy(fresh, host);
    int file = is_taken(folder, host) ? -1 : weft_folder_new_file(folder, fresh, sizeof(fresh));
    if (file >= 0 && (!write_figures(file, machine) || renameat(folder, fresh, folder, host) != 0)) {
        unlinkat(folder, fresh, 0);
    }
}

void weft_machine_keep(const weft_machine *machine)
{
    int folder = open_folder(0777);
    if (folder >= 0) {
        keep_in(folder, machine);
        close(folder);
    }
}
