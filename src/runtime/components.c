#include "runtime/components.h"

#include <stdlib.h>

/* hwloc reads it whenever a topology is loaded. weft_devices_choose() does so, and StarPU and MPI do as well: their
 * topologies cannot be reached by hwloc_topology_set_components(). Names that hwloc does not know are ignored. `cuda`
 * is not among them: it tells StarPU which cores are near a device. */
static const char variable[] = "HWLOC_COMPONENTS";

bool weft_components_limit(void)
{
    return getenv(variable) == NULL && setenv(variable, "-gl,-opencl,-levelzero,-rsmi", 0) == 0;
}

void weft_components_restore(bool limited)
{
    if (limited) {
        unsetenv(variable);
    }
}
