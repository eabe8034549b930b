#include "machine/models.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine/folder.h"

/* The variables by which StarPU finds its folder; if the first is set, it also looks for models in
 * XDG_CACHE_HOME. */
enum { DIRECTORY, HOME, NUM_PLACES };
static const char *const places[NUM_PLACES] = { "STARPU_PERF_MODEL_DIR", "XDG_CACHE_HOME" };

/* Of the program, not of a world: an exit without weft_finalize() has to find it. */
static struct {
    char folder[PATH_MAX]; /* "": there is none */
    pid_t process;         /* the process that made it: children see it too */
    bool at_exit;          /* remove_at_exit() has been registered */
    bool changed;          /* the variables */
    char *before[NUM_PLACES];
} models_own;

/* ---- where StarPU looks -------------------------------------------------------------------------------- */

/* As _starpu_get_home_path(). */
static const char *home_path(void)
{
    static const char *const variables[] = {
        "XDG_CACHE_HOME", "STARPU_HOME", "HOME", "TMPDIR", "TEMP", "TMP"
    };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(variables); i++) {
        const char *path = getenv(variables[i]);
        if (path != NULL) {
            return path;
        }
    }
    return "/tmp";
}

bool weft_models_folder(char *folder, size_t size)
{
    const char *given = getenv(places[DIRECTORY]);
    bool direct = given != NULL && given[0] != '\0';
    return snprintf(folder, size, "%s%s", direct ? given : home_path(), direct ? "" : "/.starpu/sampling") <
           (int)size;
}

void weft_models_host(char *host, size_t size)
{
    enum { STARPU_LONGEST = 64 };
    const char *given = getenv("STARPU_HOSTNAME");
    if (given != NULL && given[0] != '\0') {
        snprintf(host, size, "%s", given);
    } else if (gethostname(host, size) != 0) {
        snprintf(host, size, "host");
    } else {
        host[size - 1] = '\0';
        host[strcspn(host, ".")] = '\0';
    }
    host[size > STARPU_LONGEST ? STARPU_LONGEST : size - 1] = '\0';
    for (char *c = host; *c != '\0'; c++) {
        *c = *c == '/' ? '-' : *c;
    }
}

/* ---- whether it can be used ---------------------------------------------------------------------------- */

static const char *const bus_endings[] = { "config",    "affinity",     "latency",
                                           "bandwidth", "platform.xml", "platform.v4.xml" };
enum { BUS_NAME_SIZE = 120 };

static void bus_name(char *name, size_t i)
{
    char host[80];
    weft_models_host(host, sizeof(host));
    snprintf(name, BUS_NAME_SIZE, "%s.%s", host, bus_endings[i]);
}

/* Opens the folder of buses; -1: there is none. */
static int open_buses(const char *models, mode_t mode)
{
    char folder[PATH_MAX];
    return snprintf(folder, sizeof(folder), "%s/bus", models) < (int)sizeof(folder)
               ? weft_folder_open(folder, mode)
               : -1;
}

/* Files that StarPU reads, and writes if the machine has changed. */
static bool files_are_usable(int buses)
{
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(bus_endings); i++) {
        char name[BUS_NAME_SIZE];
        struct stat entry;
        bus_name(name, i);
        if (fstatat(buses, name, &entry, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        int file = weft_folder_file(buses, name, O_RDWR);
        if (file < 0) {
            return false;
        }
        close(file);
    }
    return true;
}

static bool is_usable(const char *models)
{
    int buses = open_buses(models, S_IRWXU); /* as StarPU makes it */
    bool usable = buses >= 0 && files_are_usable(buses) && weft_folder_writable(buses);
    if (buses >= 0) {
        close(buses);
    }
    return usable;
}

/* ---- one of the process's own -------------------------------------------------------------------------- */

/* Buses have been measured, and nothing can be written: StarPU can use these figures. */
static void copy_file(int from, int to, const char *name)
{
    enum { MAX_BYTES = 1 << 20, BLOCK = 1 << 14 };
    char block[BLOCK];
    int source = weft_folder_file(from, name, O_RDONLY);
    int target = source < 0 ? -1 : weft_folder_file(to, name, O_RDWR | O_CREAT);
    struct stat found;
    bool fits = target >= 0 && fstat(source, &found) == 0 && found.st_size <= MAX_BYTES;
    for (ssize_t count = 1; fits && count > 0;) {
        count = read(source, block, sizeof(block));
        fits = count >= 0 && write(target, block, (size_t)count) == count;
    }
    if (source >= 0) {
        close(source);
    }
    if (target >= 0) {
        close(target);
        if (!fits) {
            unlinkat(to, name, 0);
        }
    }
}

static void copy_buses(const char *models)
{
    int from = open_buses(models, 0), to = open_buses(models_own.folder, S_IRWXU);
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(bus_endings) && from >= 0 && to >= 0; i++) {
        char name[BUS_NAME_SIZE];
        bus_name(name, i);
        copy_file(from, to, name);
    }
    if (from >= 0) {
        close(from);
    }
    if (to >= 0) {
        close(to);
    }
}

static bool make_own(void)
{
    const char *const candidates[] = { getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm" };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(candidates); i++) {
        const char *folder = candidates[i];
        bool fits = folder != NULL && snprintf(models_own.folder, sizeof(models_own.folder), "%s/weft-XXXXXX",
                                               folder) < (int)sizeof(models_own.folder);
        if (fits && mkdtemp(models_own.folder) != NULL) {
            models_own.process = getpid();
            if (is_usable(models_own.folder)) {
                return true;
            }
            weft_models_remove();
        }
    }
    models_own.folder[0] = '\0';
    return false;
}

void weft_models_remove(void)
{
    if (models_own.folder[0] != '\0' && models_own.process == getpid()) {
        weft_folder_remove(models_own.folder);
        models_own.folder[0] = '\0';
    }
}

static void remove_at_exit(void)
{
    weft_models_remove();
}

static bool point_to_own(void)
{
    bool set = true;
    for (int i = 0; i < NUM_PLACES; i++) {
        const char *before = getenv(places[i]);
        models_own.before[i] = before == NULL ? NULL : strdup(before);
        set = set && (before == NULL || models_own.before[i] != NULL);
    }
    models_own.changed = true;
    for (int i = 0; i < NUM_PLACES && set; i++) {
        set = setenv(places[i], models_own.folder, 1) == 0;
    }
    return set;
}

static weft_status refuse(weft_status status, const char *reason, char *why, size_t why_size)
{
    snprintf(why, why_size, "%s", reason);
    return status;
}

weft_status weft_models_prepare(bool warn, char *why, size_t why_size)
{
    char models[PATH_MAX];
    if (!weft_models_folder(models, sizeof(models))) {
        return refuse(WEFT_ERR_INVALID,
                      "the folder for StarPU's files (STARPU_HOME, ...) has too long a name", why, why_size);
    }
    if (is_usable(models)) {
        return WEFT_OK;
    }
    if (!make_own()) {
        snprintf(why, why_size,
                 "StarPU must keep files, and neither %s nor a folder in TMPDIR or /tmp can be written",
                 models);
        return WEFT_ERR_IO;
    }
    copy_buses(models);
    if (!models_own.at_exit) {
        models_own.at_exit = atexit(remove_at_exit) == 0;
    }
    if (!point_to_own()) {
        return refuse(WEFT_ERR_NOMEM, "no memory for environment variables", why, why_size);
    }
    if (warn) {
        fprintf(stderr,
                "weft: %s cannot be used: what is measured of this machine is not kept "
                "(STARPU_PERF_MODEL_DIR names another folder, WEFT_SILENT=1: no warnings)\n",
                models);
    }
    return WEFT_OK;
}

void weft_models_restore(void)
{
    for (int i = 0; i < NUM_PLACES && models_own.changed; i++) {
        if (models_own.before[i] != NULL) {
            setenv(places[i], models_own.before[i], 1);
        } else {
            unsetenv(places[i]);
        }
        free(models_own.before[i]);
        models_own.before[i] = NULL;
    }
    models_own.changed = false;
}
