#include "folder.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
