#include "codelets/cuda/blas_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static bool find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof(found)); /* a function's address is an object's, by POSIX alone */
    return found != NULL;
}

bool weft_blas_load(weft_blas_library *library)
{
    /* Stays in memory: it opens cuBLASLt, which is slow to load. */
    library->handle = dlopen(WEFT_BLAS_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library->handle == NULL) {
        return false;
    }
    bool complete = true;
#define FIND(name) complete = complete && find(library->handle, "cublas" #name, &library->name);
    WEFT_BLAS_FUNCTIONS(FIND)
#undef FIND
    if (!complete) {
        weft_blas_unload(library);
    }
    return complete;
}

void weft_blas_unload(weft_blas_library *library)
{
    if (library->handle != NULL) {
        dlclose(library->handle);
        library->handle = NULL;
    }
}

bool weft_lt_load(weft_lt_library *library)
{
    library->handle = dlopen(WEFT_LT_NAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library->handle == NULL) {
        return false;
    }
    bool complete = true;
#define FIND(name) complete = complete && find(library->handle, "cublasLt" #name, &library->name);
    WEFT_LT_FUNCTIONS(FIND)
#undef FIND
    if (!complete) {
        weft_lt_unload(library);
    }
    return complete;
}

void weft_lt_unload(weft_lt_library *library)
{
    if (library->handle != NULL) {
        dlclose(library->handle);
        library->handle = NULL;
    }
}
