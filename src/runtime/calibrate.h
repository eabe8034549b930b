/* What this machine can do: measured, and kept in a file where StarPU keeps its performance models. */
#ifndef WEFT_SRC_RUNTIME_CALIBRATE_H
#define WEFT_SRC_RUNTIME_CALIBRATE_H

#include "plan/machine.h"

/* The values of weft_runtime.machine_source. */
extern const char weft_machine_builtin[], weft_machine_kept[], weft_machine_measured[];

/* ---- the file (machine_file.c) ------------------------------------------------------------------------- */

/* Where the figures of this machine are kept: weft/HOST in StarPU's folder (runtime/models.h). False: they are
 * not. */
bool weft_machine_path(char *path, size_t size);

/* Only one process of the machine measures at a time, as far as its file system can tell. A number for the
 * latter; waits a second at most. */
int weft_machine_lock(void);
void weft_machine_unlock(int lock);

/* False: there is no file, or not a whole one. */
bool weft_machine_load(weft_machine *machine);
/* Replaces the file in one step. Silent when it cannot be written: the next start measures again. */
void weft_machine_keep(const weft_machine *machine);

/* ---- measuring (calibrate.c) --------------------------------------------------------------------------- */

/* BLOCKS, for about 0.1 s: a task, a copy and a product on a worker. False: not all of them could be
 * measured, and the figures are not to be kept. */
bool weft_machine_measure(weft_machine *machine);

#endif
