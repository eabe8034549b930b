/** \file
 * Regions: calls between weft_region_begin() and weft_region_end() have a name, under which their
 * communication is counted; implicit redistributions inside can be printed or refused. (PyTorch:
 * CommDebugMode, ExplicitRedistributionContext.)
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

/** Flags of weft_region_begin(). They apply to the regions inside as well. */
enum {
    /** An operation that would bring an input into another layout, or an intermediate tensor, is WEFT_ERR_LAYOUT: the
     * message names the tensor and both layouts. It fails on every process, before anything is submitted.
     * Replicate to Shard, and any change along mesh dimensions of one rank, is allowed; so are weft_redistribute() and
     * calls that say by their name that they gather (weft_to_host(), weft_equal(), ...). Halos and shifted
     * blocks count as moved: those of convolutions, attention in a ring, slices along a sharded dimension, the
     * program's own operations ("~"). */
    WEFT_REGION_STRICT = 1,
    /** Process 0 prints a line to standard error for each redistribution, asked for or not: the public function, both
     * layouts (of a halo, the input's), the stages, the predicted time. */
    WEFT_REGION_PRINT = 2,
    /** In a strict region: halos and shifted blocks are allowed. */
    WEFT_REGION_ALLOW_HALOS = 4
};

/** Regions nest: inside "step", "attention" is counted as "step/attention". The name is copied. Counting begins with the
 * first region; calls outside of all of them are counted as region "". Every process begins and ends them at
 * the same place. WEFT_ERR_INVALID for a name that is NULL, empty or longer than 63 bytes, or other flags;
 * WEFT_ERR_STATE from weft_region_end() where none has begun. \{ */
WEFT_API weft_status weft_region_begin(const char *name, unsigned flags);
WEFT_API weft_status weft_region_end(void);
/** \} */

/** Counters of one public function in one region on this process. */
typedef struct weft_region_counters {
    const char *region;   /**< "step/attention"; valid until weft_finalize() */
    const char *function; /**< "weft_matmul" */
    uint64_t calls;
    uint64_t failed;      /**< of these */
    uint64_t tasks;       /**< StarPU tasks submitted */
    uint64_t stages;      /**< of redistributions and halos */
    uint64_t transfers;   /**< boxes that hosted ranks got from other ranks */
    uint64_t bytes;       /**< of these boxes */
    uint64_t messages;    /**< of these boxes, those from other processes */
} weft_region_counters;

/** Copies at most `max` of them, in the order in which they were first counted. Returns how many there are; -1 on
 * error: WEFT_ERR_INVALID, WEFT_ERR_STATE before weft_init(). */
WEFT_API int weft_region_counts(int max, weft_region_counters counters[]);
/** Prints them as a table. */
WEFT_API weft_status weft_print_regions(FILE *file);
/** The same into a buffer, as weft_tensor_print_text() does. WEFT_ERR_INVALID, WEFT_ERR_NOMEM, WEFT_ERR_STATE. */
WEFT_API weft_status weft_print_regions_text(char *text, size_t size, size_t *length);

WEFT_END_DECLS

#endif
