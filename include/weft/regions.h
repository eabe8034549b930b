/** \file
 * Regions: give a name to the calls between weft_region_begin() and weft_region_end(). weft counts their
 * communication under that name, and can print or refuse implicit redistributions inside. (PyTorch: CommDebugMode,
 * ExplicitRedistributionContext.)
 *
 *     weft_region_begin("attention", WEFT_REGION_PRINT);
 *     scores = weft_matmul(q, k);
 *     weft_region_end();
 *     weft_print_regions(stdout); */
#ifndef WEFT_REGIONS_H
#define WEFT_REGIONS_H

#include <stdio.h>

#include <weft/base.h>

WEFT_BEGIN_DECLS

/** Flags of weft_region_begin(). They also apply to the regions inside. */
enum {
    /** Refuse implicit redistributions: an operation that would redistribute an input or an intermediate tensor is
     * WEFT_ERR_LAYOUT. The message names the tensor and both layouts. The call fails on every process, before
     * anything is submitted. These are allowed: Replicate to Shard, any change along mesh dimensions of one rank,
     * weft_redistribute(), and calls whose name says that they gather (weft_to_host(), weft_equal(), ...). Halos and
     * shifted blocks count as moved: those of convolutions, of attention in a ring, of slices along a sharded
     * dimension, and of user-defined operations ("~"). */
    WEFT_REGION_STRICT = 1,
    /** Process 0 prints a line to standard error for each redistribution, explicit or implicit: the public function,
     * both layouts (for a halo, the input's), the stages and the predicted time. */
    WEFT_REGION_PRINT = 2,
    /** Allow halos and shifted blocks in a strict region. */
    WEFT_REGION_ALLOW_HALOS = 4
};

/** Begin and end a region. Regions nest: inside "step", "attention" is counted as "step/attention". The name is
 * copied. Counting begins with the first region; calls outside all regions are counted as region "". Every process
 * must begin and end regions at the same points. WEFT_ERR_INVALID if the name is NULL, empty or longer than 63 bytes,
 * or there are other flags; WEFT_ERR_STATE from weft_region_end() if no region is open. \{ */
WEFT_API weft_status weft_region_begin(const char *name, unsigned flags);
WEFT_API weft_status weft_region_end(void);
/** \} */

/** Says where in the program the calls that follow are, until the next weft_here(): messages of errors, listings of graphs
 * (weft_graph_print()), failed guards, and the names of tasks in StarPU's tools then name the line. Nothing compares it,
 * and a graph shows the lines of its capture. The name is copied; NULL: the calls are nowhere any more.
 *
 *     WEFT_HERE;
 *     scores = weft_matmul(q, k);
 *
 * WEFT_ERR_INVALID if the line is negative; WEFT_ERR_STATE, WEFT_ERR_NOMEM. */
WEFT_API weft_status weft_here(const char *file, int line);
/** The line of the program where it stands. */
#define WEFT_HERE ((void)weft_here(__FILE__, __LINE__))

/** Counters of one public function in one region on this process. */
typedef struct weft_region_counters {
    const char *region;   /**< "step/attention"; valid until weft_finalize() */
    const char *function; /**< "weft_matmul" */
    uint64_t calls;
    uint64_t failed;      /**< how many of these calls failed */
    uint64_t tasks;       /**< StarPU tasks submitted */
    uint64_t stages;      /**< stages of redistributions and halos */
    uint64_t transfers;   /**< boxes that hosted ranks received from other ranks */
    uint64_t bytes;       /**< bytes of these boxes */
    uint64_t messages;    /**< how many of these boxes came from other processes */
} weft_region_counters;

/** Copies at most `max` counters, in the order in which they were first counted. Returns how many there are; -1 on
 * error: WEFT_ERR_INVALID, WEFT_ERR_STATE before weft_init(). */
WEFT_API int weft_region_counts(int max, weft_region_counters counters[]);
/** Prints the counters as a table. WEFT_ERR_INVALID if `file` is NULL, WEFT_ERR_IO, WEFT_ERR_STATE. */
WEFT_API weft_status weft_print_regions(FILE *file);

WEFT_END_DECLS

#endif
