#include "runtime/memory_limit.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* Version 1 says "no limit" by the largest multiple of a page. */
static const int64_t NO_LIMIT = (int64_t)1 << 60;

/* The number in a file; "max", and a file that is not there or has no number: INT64_MAX. */
static int64_t read_limit(const char *path)
{
    char text[64] = "", *end = text;
    FILE *file = fopen(path, "r");
    bool came = file != NULL && fgets(text, sizeof(text), file) != NULL;
    if (file != NULL) {
        fclose(file);
    }
    errno = 0;
    long long bytes = came ? strtoll(text, &end, 10) : 0;
    return end == text || errno != 0 || bytes < 0 || bytes >= NO_LIMIT ? INT64_MAX : bytes;
}

/* The least limit of the group `path` ("/a/b") and all above it, at `mount`. In a container the path may be that of the
 * host, and the container's own group the topmost one: a folder that is not there has no limit. */
static int64_t least_limit(const char *root, const char *mount, const char *path, const char *name)
{
    char group[PATH_MAX], file[PATH_MAX];
    int64_t least = INT64_MAX;
    snprintf(group, sizeof(group), "%s", strcmp(path, "/") == 0 ? "" : path);
    for (bool above = true; above;) {
        if (snprintf(file, sizeof(file), "%s/%s%s/%s", root, mount, group, name) < (int)sizeof(file)) {
            least = weft_min_i64(least, read_limit(file));
        }
        char *last = strrchr(group, '/');
        above = last != NULL;
        if (above) {
            *last = '\0';
        }
    }
    return least;
}

/* "memory" in "cpu,memory" */
static bool has_memory(const char *controllers)
{
    static const char name[] = "memory";
    for (const char *at = strstr(controllers, name); at != NULL; at = strstr(at + 1, name)) {
        char before = at == controllers ? ',' : at[-1], behind = at[sizeof(name) - 1];
        if (before == ',' && (behind == ',' || behind == '\0')) {
            return true;
        }
    }
    return false;
}

/* A line of proc/self/cgroup is "number:controllers:path"; version 2 has the number 0 and no controllers. */
static int64_t limit_of_line(const char *root, char *line)
{
    char *controllers = strchr(line, ':'), *path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (path == NULL) {
        return INT64_MAX;
    }
    *path++ = '\0';
    *controllers++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    if (*controllers == '\0') {
        return weft_min_i64(least_limit(root, "sys/fs/cgroup", path, "memory.max"),
                            least_limit(root, "sys/fs/cgroup/unified", path, "memory.max"));
    }
    return has_memory(controllers) ? least_limit(root, "sys/fs/cgroup/memory", path, "memory.limit_in_bytes") : INT64_MAX;
}

int64_t weft_memory_limit(const char *root)
{
    char line[PATH_MAX + 128], path[PATH_MAX];
    int64_t least = INT64_MAX;
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        least = weft_min_i64(least, limit_of_line(root, line));
    }
    if (file != NULL) {
        fclose(file);
    }
    return least;
}
