/* Which of hwloc's components look at the machine while weft starts. */
#ifndef WEFT_SRC_RUNTIME_COMPONENTS_H
#define WEFT_SRC_RUNTIME_COMPONENTS_H

#include <stdbool.h>

/* Until weft_components_restore(), hwloc leaves out the components that weft needs nothing of, in StarPU and MPI too:
 * `gl` opens X displays, over the network if they are forwarded, and asks the name server for localhost where no file
 * has it; the others start drivers of devices that weft does not use. A program's HWLOC_COMPONENTS is left as it is.
 * Returns whether there is something to restore. */
bool weft_components_limit(void);
void weft_components_restore(bool limited);

#endif
