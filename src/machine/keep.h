/* The file in which the figures of this machine are kept: weft/HOST in StarPU's folder (models.h). */
#ifndef WEFT_SRC_MACHINE_KEEP_H
#define WEFT_SRC_MACHINE_KEEP_H

#include "machine/machine.h"

/* False: they are not kept. */
bool weft_machine_path(char *path, size_t size);

/* Only one process of the machine measures at a time, as far as its file system can tell. Returns a
 * descriptor to give back later; waits a second at most. */
int weft_machine_lock(void);
void weft_machine_unlock(int lock);

/* False: there is no file, or a damaged one. */
bool weft_machine_load(weft_machine *machine);
/* Replaces the file atomically. Silent if it cannot be written: the next start measures again. */
void weft_machine_keep(const weft_machine *machine);

#endif
