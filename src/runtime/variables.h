/* The environment variables of weft: one list, for the readers of settings and for the warning about
 * misspelt names. */
#ifndef WEFT_SRC_RUNTIME_VARIABLES_H
#define WEFT_SRC_RUNTIME_VARIABLES_H

#include <stdbool.h>
#include <stdio.h>

/* Adding a variable is adding a line; it is read with weft_variable_text(WEFT_VARIABLE_NAME). */
/* clang-format off */
#define WEFT_VARIABLES(each) \
    each(AUTOGRAPH) \
    each(BITS) \
    each(CALIBRATE) \
    each(CHECK) \
    each(FAKE_PROCESSES) \
    each(DEVICES) \
    each(FAKE_SIZE) \
    each(GRAPH_PASSES) \
    each(LOCAL_RANKS) \
    each(MACHINE) \
    each(MAX_PENDING_TASKS) \
    each(MEMORY_BYTES) \
    each(MPI_DEVICES) \
    each(NCCL) \
    each(ON_ERROR) \
    each(PACK_BYTES) \
    each(PANEL_BYTES) \
    each(PANEL_ROWS) \
    each(PLAN) \
    each(POOL_BYTES) \
    each(CACHE_BYTES) \
    each(PREDICT) \
    each(RANKS) \
    each(REPORT) \
    each(SEED) \
    each(SIGNALS) \
    each(SILENT) \
    each(TASK_CACHE) \
    each(TF32) \
    each(TIMEOUT_S) \
    each(WORKERS) \
    each(WORLD)
/* clang-format on */

#define WEFT_VARIABLE_OF(name) WEFT_VARIABLE_##name,
typedef enum weft_variable { WEFT_VARIABLES(WEFT_VARIABLE_OF) WEFT_VARIABLE_COUNT } weft_variable;
#undef WEFT_VARIABLE_OF

/* "WEFT_SEED" */
const char *weft_variable_name(weft_variable variable);
/* Its value; NULL: unset or empty. */
const char *weft_variable_text(weft_variable variable);
/* Warns of each variable that begins with WEFT_ and is not in the list, naming the nearest one that is.
 * Variables of the tests and scripts of weft itself (WEFT_TEST_, WEFT_BENCH_, WEFT_PEERS_) and of the Python package
 * (WEFT_TENSORS_) are left out. */
void weft_variables_warn(FILE *file);

/* Whether StarPU measures its models, and keeps them: STARPU_CALIBRATE is above 0. */
bool weft_starpu_measures(void);

#endif
