#include "codelets/cuda/dnn_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Descriptions of devices came with 9.8; 9.10.0 and 9.10.1 have known faults in attention. */
enum { OLDEST = 90800, FAULTY_FIRST = 91000, FAULTY_LAST = 91001 };

static bool find(const weft_dnn_library *library, const char *name, void *function, char *why, size_t size)
{
    void *found = dlsym(library->handle, name);
    if (found == NULL) {
        snprintf(why, size, "the cuDNN library has no %s()", name);
        return false;
    }
    memcpy(function, &found, sizeof(found)); /* a function's address is an object's, by POSIX alone */
    return true;
}

bool weft_dnn_load(weft_dnn_library *library, char *why, size_t size)
{
    /* Stays in memory: it opens libraries of its own, with threads' variables. */
    library->handle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library->handle == NULL) {
        snprintf(why, size, "%s", dlerror());
        return false;
    }
    bool complete = true;
#define FIND(name) complete = complete && find(library, "cudnn" #name, &library->name, why, size);
    WEFT_DNN_FUNCTIONS(FIND)
#undef FIND
    size_t version = complete ? library->GetVersion() : 0;
    if (complete && (version < OLDEST || (version >= FAULTY_FIRST && version <= FAULTY_LAST))) {
        snprintf(why, size, "cuDNN is version %zu.%zu.%zu, expected 9.8 or later, except 9.10.0 and 9.10.1", version / 10000,
                 version / 100 % 100, version % 100);
        complete = false;
    }
    if (!complete) {
        weft_dnn_unload(library);
    }
    return complete;
}

void weft_dnn_unload(weft_dnn_library *library)
{
    if (library->handle != NULL) {
        dlclose(library->handle);
        library->handle = NULL;
    }
}
