/* The passes, and what they share. */
#ifndef WEFT_SRC_GRAPH_PASSES_PASS_H
#define WEFT_SRC_GRAPH_PASSES_PASS_H

#include "graph/passes/body.h"

weft_graph_pass_function weft_pass_moves, weft_pass_redundant, weft_pass_common, weft_pass_dead, weft_pass_bucket,
    weft_pass_unread, weft_pass_stencil;
/* The calls on chosen layouts: nothing where the trace has no sharding. */
weft_graph_pass_function weft_pass_shard;

/* ---- shared (pass.c) ------------------------------------------------------------------------------------- */

/* Nothing is known of the node: it is the program's operation, or has tensors without data among others. */
bool weft_pass_leaves_alone(const weft_graph_node *node);
/* A redistribution of one value to another one. */
bool weft_pass_is_move(const weft_graph_node *node);
/* A call weft_redistribute() from one value to another, before a node. False: no memory. */
bool weft_pass_insert_move(weft_graph_body *body, size_t before, int from, int to);

/* The layouts that a call of an operation works on, if its inputs have these. False: it is no such call, or a composite,
 * or reads parts of its inputs; or, with *done false, an error is kept. */
bool weft_pass_layouts(const weft_graph_node *node, const weft_layout *const inputs[], weft_sharding *sharding, bool *done);

/* For each value: some call changes it in place. To be freed. NULL: no memory. */
bool *weft_pass_find_changed(const weft_graph_trace *trace);
/* For each value: it is an input, or the output of a call that changes one in place, so that its memory may be the
 * program's. To be freed. NULL: no memory. */
bool *weft_pass_find_outside(const weft_graph_trace *trace);

/* For each value: whether a value may be replaced by another one. */
typedef struct weft_pass_sharing {
    bool *changed, *outside;
} weft_pass_sharing;

/* False: no memory; to be freed in any case. */
bool weft_pass_sharing_make(weft_pass_sharing *sharing, const weft_graph_trace *trace);
void weft_pass_sharing_free(weft_pass_sharing *sharing);
/* Values that are changed in place keep their own memory; promised tensors do not share that of the program. */
bool weft_pass_may_replace(const weft_pass_sharing *sharing, const weft_graph_trace *trace, int value, int by);

#endif
