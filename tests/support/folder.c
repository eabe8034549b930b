#include "folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool make_temporary_folder(char path[], size_t size)
{
    const char *top = getenv("TMPDIR");
    bool made = snprintf(path, size, "%s/weft-XXXXXX", top == NULL || top[0] == '\0' ? "/tmp" : top) < (int)size &&
                mkdtemp(path) != NULL;
    if (!made) {
        path[0] = '\0';
    }
    return made;
}

void remove_tree(const char *name)
{
    DIR *directory = opendir(name);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            char inner[1024];
            struct stat found;
            snprintf(inner, sizeof(inner), "%s/%s", name, entry->d_name);
            if (lstat(inner, &found) == 0 && S_ISDIR(found.st_mode)) {
                remove_tree(inner);
            } else {
                unlink(inner);
            }
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    rmdir(name);
}
