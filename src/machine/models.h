/* The folder of StarPU's performance models and bus figures, which it measures at its first start on a
 * machine. It ends the program if it cannot write them. */
#ifndef WEFT_SRC_MACHINE_MODELS_H
#define WEFT_SRC_MACHINE_MODELS_H

#include "base/base.h"

/* The path as StarPU finds it: STARPU_PERF_MODEL_DIR, or .starpu/sampling in XDG_CACHE_HOME, STARPU_HOME,
 * HOME, ... False: too long. */
bool weft_models_folder(char *folder, size_t size);
/* StarPU's name for this machine there. */
void weft_models_host(char *host, size_t size);

/* Before starpu_init(): if StarPU could not use that folder, creates one of this process's own, which
 * lasts until weft_models_remove(), and points StarPU's variables to it until weft_models_restore().
 * `warn`: with a message on standard error. An error with its reason in `why`. */
weft_status weft_models_prepare(bool warn, char *why, size_t why_size);
/* After starpu_init(): resets the variables. */
void weft_models_restore(void);
/* After starpu_shutdown(). */
void weft_models_remove(void);

#endif
