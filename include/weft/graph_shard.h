/** \file
 * Automatic shardings: layouts of a captured graph's tensors, chosen for the least predicted time.
 *
 *     weft_graph_call(graph, inputs, scalars, outputs);                    // captures
 *     weft_graph_shard(graph, &(weft_graph_shard_options){ .table = stdout });
 *     weft_graph_call(graph, inputs, scalars, outputs);                    // executes with the chosen layouts
 *
 * All calls of the newest run are considered together, forward and backward: which layouts each could work on, by its rule;
 * how long that takes, by the machine's figures (<weft/runtime.h>, weft_print_machine()); and what the redistributions
 * between them cost. The program's own redistributions are hints that the choice may drop. Nothing changes for the
 * program: tensors that it sees have the layouts of the capture, and where the chosen ones differ the graph redistributes.
 * Sums over ranks may be rounded differently, as with any other layouts.
 *
 * Inputs stay where they are, because they are the program's. Layouts of movable inputs are chosen too:
 * weft_graph_get_placements() tells the best one of each. A program that lays its parameters out accordingly captures
 * another trace, to which a second weft_graph_shard() applies the rest. In a fake world (WEFT_WORLD=fake) this plans
 * a program for any mesh, without executing anything. */
#ifndef WEFT_GRAPH_SHARD_H
#define WEFT_GRAPH_SHARD_H

#include <stdio.h>

#include <weft/graph.h>
#include <weft/mesh.h>
#include <weft/placement.h>

WEFT_BEGIN_DECLS

/** "This tensor is Shard(0) on dp." */
typedef struct weft_graph_pin {
    weft_tensor *tensor;   /**< that took part in the newest run */
    const char *mesh_dim;  /**< name of a dimension of its mesh; NULL: every dimension */
    weft_placement placement;
} weft_graph_pin;

/** Zero is the default. */
typedef struct weft_graph_shard_options {
    /** Bytes of a rank: of the tensors that are inputs, and of the intermediate ones, where most of them are live. Shares of
     * memory count once; what tasks need besides does not. 0: any. */
    int64_t max_bytes;
    int num_pins;
    const weft_graph_pin *pins;
    /** Inputs of the newest run, also parameters, that the program would move. */
    int num_movable;
    weft_tensor *const *movable;
    /** A file of figures of the machine to choose for, as weft keeps one (docs/machine.md); NULL: this world's figures. In a
     * fake world each rank is taken to be a machine of its own. */
    const char *machine;
    /** Receives the table of tensors: where each was in the capture, where it is now, and what the best other layout would
     * cost more, of it alone or, where others must lie alike (a weight and its optimiser's moments), of these together. NULL:
     * none. */
    FILE *table;
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
} weft_graph_shard_options;

/** Sets all fields to 0, and `size`. */
static inline void weft_graph_shard_options_init(weft_graph_shard_options *options)
{
    const weft_graph_shard_options all = { 0, 0, NULL, 0, NULL, NULL, NULL, 0 };
    *options = all;
    options->size = sizeof(*options);
}

/** Chooses for the traces of the newest run; local, but all processes make the same call. options: NULL: defaults. The
 * search is exact, unless the graph is too wide for it: then the table says "not proved". Replaces what an earlier call has
 * chosen for these traces.
 * WEFT_ERR_INVALID: a tensor took no part in the newest run, or is movable and no input; a pin names no dimension of its mesh,
 * or an input that is not movable lies elsewhere; max_bytes is negative, or no layouts lie within it (the message says the
 * least that is possible); machine is no such file. WEFT_ERR_STATE: called from within the graph's function, or before
 * its first run. WEFT_ERR_NOMEM. On error nothing changes. */
WEFT_API weft_status weft_graph_shard(weft_graph *graph, const weft_graph_shard_options *options);

/** Where a tensor that took part in the newest run lies best, as weft_graph_shard() has found: placements[] gets one for
 * each dimension of its mesh. WEFT_ERR_INVALID: it took no part; WEFT_ERR_STATE: before weft_graph_shard(). */
WEFT_API weft_status weft_graph_get_placements(const weft_graph *graph, const weft_tensor *tensor,
                                               weft_placement placements[]);

/** Predictions of weft_graph_shard() for the traces of the newest run, in microseconds and bytes. */
typedef struct weft_graph_shard_info {
    double us, recorded_us;         /**< with the chosen layouts; with those of the capture (negative: pins exclude these) */
    int64_t bytes, recorded_bytes;  /**< of a rank, where most are live */
    bool proved;                    /**< no other layouts are predicted to take less */
    bool moves_inputs;              /**< some movable input lies better elsewhere: replays keep the captured layouts */
    int64_t tables, reused;         /**< computed in the search, and found again: blocks that repeat are solved once */
} weft_graph_shard_info;

/** WEFT_ERR_STATE before weft_graph_shard(). */
WEFT_API weft_status weft_graph_get_shard_info(const weft_graph *graph, weft_graph_shard_info *info, size_t size);

WEFT_END_DECLS

#endif
