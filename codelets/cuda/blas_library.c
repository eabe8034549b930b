#include "codelets/cuda/blas_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* A function of a library, and where its address goes. */
typedef struct named {
    const char *name;
    void *function;
} named;

static bool load(void **handle, const char *file, const named functions[], size_t count)
{
    /* Stays in memory: cuBLAS opens cuBLASLt, which is slow to load. */
    *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    bool complete = *handle != NULL;
    for (size_t i = 0; i < count && complete; i++) {
        void *found = dlsym(*handle, functions[i].name);
        memcpy(functions[i].function, &found, sizeof(found)); /* a function's address is an object's, by POSIX alone */
        complete = found != NULL;
    }
    if (!complete) {
        weft_blas_close(handle);
    }
    return complete;
}

bool weft_blas_load(weft_blas_library *library)
{
#define NAMED(name) { "cublas" #name, (void *)&library->name },
    const named functions[] = { WEFT_BLAS_FUNCTIONS(NAMED) };
#undef NAMED
    return load(&library->handle, WEFT_BLAS_NAME, functions, sizeof(functions) / sizeof(functions[0]));
}

bool weft_lt_load(weft_lt_library *library)
{
#define NAMED(name) { "cublasLt" #name, (void *)&library->name },
    const named functions[] = { WEFT_LT_FUNCTIONS(NAMED) };
#undef NAMED
    return load(&library->handle, WEFT_LT_NAME, functions, sizeof(functions) / sizeof(functions[0]));
}

void weft_blas_close(void **handle)
{
    if (*handle != NULL) {
        dlclose(*handle);
        *handle = NULL;
    }
}
