/* Chooses the processing units that this process computes on, by hwloc. */
#include <hwloc.h>

#include "runtime/runtime.h"

/* Cores that this process may use, in hwloc's order: neighbours share caches and NUMA nodes. */
static int allowed_cores(hwloc_topology_t topology, hwloc_cpuset_t allowed, hwloc_obj_t cores[], int max)
{
    int depth = hwloc_get_type_or_below_depth(topology, HWLOC_OBJ_CORE);
    int total = hwloc_get_nbobjs_by_depth(topology, depth);
    int count = 0;
    for (int i = 0; i < total && count < max; i++) {
        hwloc_obj_t core = hwloc_get_obj_by_depth(topology, depth, (unsigned)i);
        if (hwloc_bitmap_intersects(core->cpuset, allowed)) {
            cores[count++] = core;
        }
    }
    return count;
}

/* The first usable unit of a core: a second hardware thread adds little to dense kernels. */
static unsigned first_unit(hwloc_topology_t topology, hwloc_obj_t core, hwloc_cpuset_t allowed)
{
    hwloc_bitmap_t usable = hwloc_bitmap_alloc();
    hwloc_bitmap_and(usable, core->cpuset, allowed);
    hwloc_obj_t unit = hwloc_get_pu_obj_by_os_index(topology, (unsigned)hwloc_bitmap_first(usable));
    hwloc_bitmap_free(usable);
    return unit == NULL ? 0 : unit->logical_index;
}

/* If the launcher has bound each process to its own cores, all are ours; if the processes of this machine
 * see the same cores, each takes its part. */
static void own_part(int cores, bool bound_by_launcher, weft_process_place place, int *first, int *count)
{
    *first = 0;
    *count = cores;
    if (!bound_by_launcher && place.node_processes > 1) {
        *first = (int)((int64_t)cores * place.node_process / place.node_processes);
        *count = (int)((int64_t)cores * (place.node_process + 1) / place.node_processes) - *first;
    }
}

/* Bytes of the largest shared cache; 0: unknown. Virtual machines often show the host's whole cache (two cores: 260 MB), which the
 * host's other cores use too. At most 16 MB count for each core that is seen. */
static int64_t largest_cache(hwloc_topology_t topology)
{
    enum { MOST_OF_CORE = 16 << 20 };
    int64_t largest = 0, cores = weft_max_i64(1, hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE));
    for (int type = HWLOC_OBJ_L1CACHE; type <= HWLOC_OBJ_L5CACHE; type++) {
        hwloc_obj_t cache = hwloc_get_obj_by_type(topology, (hwloc_obj_type_t)type, 0);
        if (cache != NULL) {
            largest = weft_max_i64(largest, (int64_t)cache->attr->cache.size);
        }
    }
    return weft_min_i64(largest, cores * MOST_OF_CORE);
}

int weft_devices_choose(int wanted, weft_process_place place, unsigned units[], int max, bool *bind)
{
    enum { MAX_CORES = 1024 };
    *bind = false;
    units[0] = 0;
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) {
        return wanted > 0 ? wanted : 1;
    }
    hwloc_topology_load(topology);
    weft_runtime.last_cache_bytes = largest_cache(topology);
    hwloc_cpuset_t allowed = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology));
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    bool bound_by_launcher = hwloc_get_cpubind(topology, bound, HWLOC_CPUBIND_PROCESS) == 0 &&
                             !hwloc_bitmap_iszero(bound) && !hwloc_bitmap_isincluded(allowed, bound);
    if (bound_by_launcher) {
        hwloc_bitmap_and(allowed, allowed, bound);
    }
    hwloc_obj_t cores[MAX_CORES];
    int num_cores = allowed_cores(topology, allowed, cores, MAX_CORES);
    int first, count;
    own_part(num_cores, bound_by_launcher, place, &first, &count);
    int workers = wanted > 0 ? wanted : count > 0 ? count : 1;
    workers = workers > max ? max : workers;
    if (workers <= count) {
        *bind = true;
        for (int i = 0; i < workers; i++) {
            units[i] = first_unit(topology, cores[first + i], allowed);
        }
    }
    hwloc_bitmap_free(bound);
    hwloc_bitmap_free(allowed);
    hwloc_topology_destroy(topology);
    return workers;
}
