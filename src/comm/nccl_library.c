#include "comm/nccl_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static bool find(const weft_nccl_library *library, const char *name, void *function, char *why, size_t size)
{
    void *found = dlsym(library->handle, name);
    if (found == NULL) {
        snprintf(why, size, "the NCCL library has no %s()", name);
        return false;
    }
    memcpy(function, &found, sizeof(found)); /* a function's address is an object's, by POSIX alone */
    return true;
}

bool weft_nccl_load(weft_nccl_library *library, char *why, size_t size)
{
    library->handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library->handle == NULL) {
        snprintf(why, size, "%s", dlerror());
        return false;
    }
    bool complete = true;
#define FIND(name) complete = complete && find(library, "nccl" #name, &library->name, why, size);
    WEFT_NCCL_FUNCTIONS(FIND)
#undef FIND
    return complete;
}

void weft_nccl_unload(weft_nccl_library *library)
{
    if (library->handle != NULL) {
        dlclose(library->handle);
        library->handle = NULL;
    }
}
