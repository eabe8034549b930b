/* Patterns of paths. */
#include "module/module.h"

bool weft_path_matches(const char *pattern, const char *path)
{
    if (pattern[0] == '\0') {
        return path[0] == '\0';
    }
    if (pattern[0] == '*') {
        bool any = pattern[1] == '*';
        const char *rest = pattern + (any ? 2 : 1);
        for (;; path++) {
            if (weft_path_matches(rest, path)) {
                return true;
            }
            if (path[0] == '\0' || (path[0] == '.' && !any)) {
                return false;
            }
        }
    }
    bool one = pattern[0] == '?' ? path[0] != '.' : path[0] == pattern[0];
    return path[0] != '\0' && one && weft_path_matches(pattern + 1, path + 1);
}
