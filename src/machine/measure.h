/* Measuring this machine, on a worker of StarPU. */
#ifndef WEFT_SRC_MACHINE_MEASURE_H
#define WEFT_SRC_MACHINE_MEASURE_H

#include "machine/machine.h"

/* BLOCKS for about 0.1 s: a task, a copy and a product. False: not all of them could be measured, and the
 * figures must not be kept. */
bool weft_machine_measure(weft_machine *machine);

#endif
