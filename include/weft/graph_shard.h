/** \file
 * Automatic shardings: weft chooses the layouts of a captured graph's tensors for the least predicted time.
 *
 *     weft_graph_call(graph, inputs, scalars, outputs);                    // captures
 *     weft_graph_shard(graph, &(weft_graph_shard_options){ .table = stdout });
 *     weft_graph_call(graph, inputs, scalars, outputs);                    // executes with the chosen layouts
 *
 * It considers all calls of the newest run together, forward and backward: which layouts each could work on, by its
 * rule; how long that takes, by the machine's figures (<weft/runtime.h>, weft_print_machine()); and what the
 * redistributions between them cost. Your own redistributions are hints, which the choice may drop. Nothing changes
 * for your program: tensors that it sees have the layouts of the capture, and if the chosen layouts differ, the graph
 * redistributes. Sums over ranks may be rounded differently, as with any other layouts.
 *
 * Inputs keep their layouts, because they belong to your program. But weft also chooses layouts for the inputs that
 * you declare movable, and weft_graph_get_placements() returns them. If you lay out your parameters accordingly, the
 * graph captures another trace, and a second weft_graph_shard() applies the rest. In a fake world (WEFT_WORLD=fake)
 * you can plan a program for any mesh in this way, without executing anything. */
#ifndef WEFT_GRAPH_SHARD_H
#define WEFT_GRAPH_SHARD_H

#include <stdio.h>

#include <weft/graph.h>
#include <weft/mesh.h>
#include <weft/placement.h>

WEFT_BEGIN_DECLS

/** A pin: "this tensor is Shard(0) on dp." */
typedef struct weft_graph_pin {
    weft_tensor *tensor;   /**< must have taken part in the newest run */
    const char *mesh_dim;  /**< name of a dimension of its mesh; NULL: every dimension */
    weft_placement placement;
} weft_graph_pin;

/** Options of weft_graph_shard(). Fields that are zero have their defaults. */
typedef struct weft_graph_shard_options {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    /** Limit on the bytes of a rank for inputs and intermediate tensors, at the point where most of them are live.
     * Shared memory counts once; what tasks need in addition does not count. 0: no limit. */
    int64_t max_bytes;
    int num_pins;
    const weft_graph_pin *pins;
    /** Inputs of the newest run, including parameters, that you are willing to move. */
    int num_movable;
    weft_tensor *const *movable;
    /** A file with the figures of the machine to choose for, in weft's format (docs/machine.md). NULL: this world's
     * figures. In a fake world each rank counts as a machine of its own. */
    const char *machine;
    /** Receives a table of the tensors: the layout of each in the capture, its layout now, and how much more the best
     * other layout would cost. If other tensors must have the same layout (a weight and its optimiser's moments),
     * that is the cost for all of them together. NULL: no table. */
    FILE *table;
} weft_graph_shard_options;

/** Sets all fields to 0, and `size`. */
static inline void weft_graph_shard_options_init(weft_graph_shard_options *options)
{
    const weft_graph_shard_options all = { sizeof(all), 0, 0, NULL, 0, NULL, NULL, NULL };
    *options = all;
}

/** Chooses layouts for the traces of the newest run. `options` NULL: defaults. It is local, but all processes make the
 * same call. The search is exact, unless the graph is too wide for that; then the table says "not proved". The result
 * replaces that of an earlier call for these traces.
 *
 * WEFT_ERR_INVALID if a tensor took no part in the newest run, or is movable but not an input; if a pin names no
 * dimension of its mesh, or pins an input that is not movable to another layout; if max_bytes is negative, or no
 * layouts fit into it (the message gives the least possible number); if `machine` is not such a file. WEFT_ERR_STATE
 * if you call it from within the graph's function, or before its first run. WEFT_ERR_NOMEM. On error nothing
 * changes. */
WEFT_API weft_status weft_graph_shard(weft_graph *graph, const weft_graph_shard_options *options);

/** Returns the best layout that weft_graph_shard() found for a tensor of the newest run: placements[] receives one
 * entry for each dimension of its mesh. WEFT_ERR_INVALID if the tensor took no part; WEFT_ERR_STATE before
 * weft_graph_shard(). */
WEFT_API weft_status weft_graph_get_placements(const weft_graph *graph, const weft_tensor *tensor,
                                               weft_placement placements[]);

/** Predictions of weft_graph_shard() for the traces of the newest run, in microseconds and bytes. */
typedef struct weft_graph_shard_info {
    double us, recorded_us;         /**< time with the chosen layouts; with those of the capture (negative: pins
                                         exclude these) */
    int64_t bytes, recorded_bytes;  /**< bytes of a rank at the point where most are live */
    bool proved;                    /**< it is proved that no other layouts are predicted to take less time */
    bool moves_inputs;              /**< a movable input would be better in another layout; replays keep the captured
                                         layouts */
    int64_t tables, reused;         /**< computed in the search, and found again: repeated blocks are solved once */
} weft_graph_shard_info;

/** Copies the predictions. `size` is sizeof(*info). WEFT_ERR_STATE before weft_graph_shard(). */
WEFT_API weft_status weft_graph_get_shard_info(const weft_graph *graph, weft_graph_shard_info *info, size_t size);

WEFT_END_DECLS

#endif
