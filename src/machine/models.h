/* The folder in which StarPU keeps its performance models, and those of buses, which it measures at its first
 * start on a machine. It ends the program where it cannot write them. */
#ifndef WEFT_SRC_MACHINE_MODELS_H
#define WEFT_SRC_MACHINE_MODELS_H

#include "base/base.h"

/* As StarPU finds it: STARPU_PERF_MODEL_DIR, or .starpu/sampling in XDG_CACHE_HOME, STARPU_HOME, HOME, ... False:
 * too long. */
bool weft_models_folder(char *folder, size_t size);
/* How StarPU calls this machine there. */
void weft_models_host(char *host, size_t size);

/* Before starpu_init(): where StarPU could not use that folder, makes one of this process's own, which lasts until
 * weft_models_remove(), and lets StarPU's variables say so until weft_models_restore(). `warn`: says so on
 * standard error. An error with its reason in `why`. */
weft_status weft_models_prepare(bool warn, char *why, size_t why_size);
/* After starpu_init(): the variables are what they were. */
void weft_models_restore(void);
/* After starpu_shutdown(). */
void weft_models_remove(void);

#endif
